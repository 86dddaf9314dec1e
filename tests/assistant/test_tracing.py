"""Spans of a turn, read from an in-memory exporter."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openinference.semconv.trace as convention
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.assistant.notes import script
from tests.opened import assistant_over
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.assistant.llm.calls.tracing import _find_provider
from turnmark.assistant.turn.reopen import reopen_assistant

ASK = "How do I sharpen a kitchen knife?"
KIND = convention.SpanAttributes.OPENINFERENCE_SPAN_KIND

KEYS = {
    value
    for group in (
        convention.SpanAttributes, convention.DocumentAttributes, convention.MessageAttributes,
        convention.RerankerAttributes, convention.EmbeddingAttributes,
    )
    for name, value in vars(group).items()
    if name.isupper()
}  # fmt: skip


class Traces:
    """The exported spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def of(self, kind: str, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self.spans if span.attributes[KIND] == kind and name in (None, span.name)]

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        return next(
            (above for above in self.spans if span.parent and above.context.span_id == span.parent.span_id), None
        )

    def text(self) -> str:
        """Everything that the spans contain."""
        return json.dumps([[span.name, dict(span.attributes), [dict(e.attributes) for e in span.events],
                            span.status.description] for span in self.spans])  # fmt: skip


@pytest.fixture
def traces() -> Traces:
    return Traces()


def known(key: str) -> bool:
    """Return whether a key belongs to the convention; numbers in it are ignored."""
    return all(part in KEYS for part in re.split(r"\.\d+\.?", key) if part)


def test_every_step_of_an_extractive_turn(home, traces):
    assistant = assistant_over("demo")
    plain = assistant.reply([], ASK)
    reply = assistant.traced(traces.provider, content=True).reply([], ASK)
    assert reply.model_copy(update={"timings": {}}) == plain.model_copy(update={"timings": {}})

    root = traces.of("CHAIN", "turn")[0]
    assert root.parent is None
    assert {span.context.trace_id for span in traces.spans} == {root.context.trace_id}
    assert root.attributes["input.value"] == ASK
    assert root.attributes["output.value"] == reply.answer
    assert json.loads(root.attributes["metadata"])["decision"] == "answer"
    steps = [span for span in traces.spans if traces.parent(span) is root]
    names = [span.name for span in sorted(steps, key=lambda step: step.start_time)]
    assert {"understand", "retrieve", "answer"} <= set(names) <= set(reply.timings)
    search = traces.of("RETRIEVER", "search")[0]
    assert traces.parent(search).name == "retrieve"
    assert ASK in search.attributes["input.value"]
    ids = [value for key, value in search.attributes.items() if key.endswith("document.id")]
    assert {citation.id for citation in reply.citations} <= set(ids)
    contents = [value for key, value in search.attributes.items() if key.endswith("document.content")]
    assert {citation.text for citation in reply.citations} <= set(contents)
    for span in traces.spans:
        assert all(known(key) for key in span.attributes), [key for key in span.attributes if not known(key)]
        parent = traces.parent(span)
        assert span.start_time <= span.end_time
        assert parent is None or parent.start_time <= span.start_time <= span.end_time <= parent.end_time


def model_turn(tmp_path: Path, traces: Traces, content: bool) -> Any:
    spec = script(tmp_path, "Sharpen it on a wet stone, SECRETLY. [1]") + "?size=small"
    assistant = assistant_over("demo", spec, steps=("understand=rules",)).traced(traces.provider, content)
    return assistant.reply([], "How is a knife sharpened?")


def test_spans_contain_text_only_on_request(home, tmp_path, traces):
    reply = model_turn(tmp_path, traces, content=False)
    exported = traces.text()
    assert len(traces.spans) >= 5
    for text in ("SECRETLY", "knife sharpened", reply.citations[0].text[:30], reply.citations[0].title):
        assert text not in exported
    assert "input.value" not in traces.of("CHAIN", "turn")[0].attributes
    assert reply.citations[0].id in exported
    assert traces.of("LLM")[0].attributes["llm.token_count.completion"] > 0


def test_tracing_is_off_by_default(home, monkeypatch, traces):
    monkeypatch.setattr("turnmark.assistant.llm.calls.tracing._find_provider", lambda: traces.provider)
    assistant_over("demo").reply([], ASK)
    assert list(traces.spans) == []
    monkeypatch.setenv("TURNMARK_TRACING", "1")
    opened = assistant_over("demo")
    opened.reply([], ASK)
    first = len(traces.spans)
    assert first > 5
    reopen_assistant(opened, retriever="bm25").reply([], ASK)
    assert len(traces.spans) == 2 * first, "reused parts are traced once"


def test_spans_are_sent_to_the_configured_endpoint(home, monkeypatch):
    came: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_address[1]}/v1/traces"
    monkeypatch.setenv("TURNMARK_TRACING", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)
    _find_provider.cache_clear()
    assistant_over("demo").reply([], ASK)
    assert _find_provider().force_flush()
    _find_provider().shutdown()
    _find_provider.cache_clear()
    collector.shutdown()
    assert {path for path, _ in came} == {"/v1/traces"}
    sent = b"".join(body for _, body in came)
    assert b"openinference.span.kind" in sent
    assert b"kitchen knife" not in sent


def test_failures_are_marked_without_their_text(home, tmp_path, traces):
    spec = script(tmp_path, "x") + "?size=small"
    assistant = assistant_over("demo", spec, steps=("understand=rules",)).traced(traces.provider)
    assistant.reply([], "How is a knife sharpened?")
    with pytest.raises(GeneratorError):
        assistant.reply([], "Is a SECRET knife sharp?")
    failed = [span for span in traces.spans if not span.status.is_ok and span.status.description]
    assert {span.name for span in failed} == {"llm", "answer", "turn"}
    assert {span.status.description for span in failed} == {"GeneratorError: bad_reply"}
    assert "SECRET" not in traces.text()
