"""Spans of every turn, for any OpenTelemetry backend, in the OpenInference convention. Off by default.

    TURNMARK_TRACING=1 turnmark chat …          steps, times, tokens, ids and scores; nothing that was said or found
    TURNMARK_TRACING=content turnmark chat …    what was said and found, too

They go where OpenTelemetry's own variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`). With your own provider:
`traced(assistant, provider)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Unpack

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.base import CallOptions, Completion, Generator, GeneratorWrapper, PromptMessage
from turnmark.assistant.types import Reply
from turnmark.core.errors import MissingExtra, RequestError
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

ENV = "TURNMARK_TRACING"
EXPORT_SECONDS = 5
Add = Callable[..., None]


def trace_if_on(assistant: Assistant) -> Assistant:
    """The assistant, traced if the environment says so."""
    switch = os.environ.get(ENV, "").strip().lower()
    if switch not in ("", "0", "1", "content"):
        raise RequestError(f"{ENV}: expected 1, content (what was said and found, too) or 0")
    return traced(assistant, _own_provider(), switch == "content") if switch in ("1", "content") else assistant


def traced(assistant: Assistant, provider: Any, content: bool = False) -> Assistant:
    """An assistant that leaves spans of its turns, their steps, searches and calls of the model.

    Args:
        provider: an OpenTelemetry `TracerProvider`.
        content: spans also hold questions, answers, prompts and passages.
    """
    return _TracedAssistant(assistant, Tracing(provider.get_tracer("turnmark", version("turnmark")), content))


class Tracing:
    """A tracer, and whether its spans hold what was asked, found and said."""

    def __init__(self, tracer: Any, content: bool) -> None:
        self._tracer, self.content = tracer, content

    @contextmanager
    def span(self, name: str, kind: str, value: str = "", about: Mapping[str, Any] | None = None) -> Iterator[Add]:
        """A span around what is done, of a kind of the convention; yields what adds its output and attributes."""
        from opentelemetry.trace import Status, StatusCode

        attributes = {"openinference.span.kind": kind, **(about or {})}
        if value and self.content:
            attributes["input.value"] = value
        options = {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(name, attributes=attributes, **options) as span:

            def add(output: str, about: Mapping[str, Any]) -> None:
                span.set_attributes({**about, **({"output.value": output} if output and self.content else {})})

            try:
                yield add
            except BaseException as error:
                # By the kind of the error alone, as its message may quote what was said.
                words = [type(error).__name__, getattr(error, "kind", "")]
                span.set_status(Status(StatusCode.ERROR, ": ".join(word for word in words if word)))
                raise


class _TracedAssistant(Assistant):
    """An assistant whose turns, steps, searches and calls are spans."""

    def __init__(self, assistant: Assistant, tracing: Tracing) -> None:
        vars(self).update(vars(assistant))  # its settings as they are, whatever they are
        self._tracing = tracing
        if self.generator is not None:  # one that is taken along from a traced assistant is traced once
            inner = self.generator.generator if isinstance(self.generator, TracedGenerator) else self.generator
            self.generator = TracedGenerator(inner, tracing)
        if self.retriever is not None:
            inner_retriever = self.retriever.inner if isinstance(self.retriever, TracedRetriever) else self.retriever
            self.retriever = TracedRetriever(inner_retriever, tracing)

    def reply(self, *args: Any, **options: Any) -> Reply:
        """See `Assistant.reply`."""
        message = str(options.get("message", args[1] if len(args) > 1 else ""))
        with self._tracing.span("turn", "CHAIN", message) as add:
            reply = super().reply(*args, **options)
            about = {"decision": reply.decision, "generator": reply.generator, "checks": reply.checks.model_dump()}
            add(reply.answer, {"metadata": json.dumps(about)})
            return reply

    def span(self, step: str) -> AbstractContextManager[object]:
        """A span around a step."""
        return self._tracing.span(step, "EVALUATOR" if step == "verify" else "CHAIN")


class TracedGenerator(GeneratorWrapper):
    """A generator whose calls are spans of kind LLM."""

    def __init__(self, inner: Generator, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        with self._call(messages) as add:
            reply = self.generator.complete(messages, **options)
            add(reply.text, {"llm.model_name": reply.model, **self._about(reply)})
        return reply

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Any) -> Any:
        with self._call(messages) as add:
            reply = super()._converse(messages, tools, **options)
            calls = json.dumps([call.model_dump() for call in reply.calls], ensure_ascii=False)
            add(reply.text or calls, self._about(reply))
        return reply

    def _call(self, messages: Sequence[Any]) -> AbstractContextManager[Add]:
        about: dict[str, Any] = {"llm.model_name": self.name}
        for n, message in enumerate(messages if self._tracing.content else ()):
            about[f"llm.input_messages.{n}.message.role"] = message.role
            about[f"llm.input_messages.{n}.message.content"] = message.content
        return self._tracing.span("llm", "LLM", messages[-1].content if messages else "", about)

    def _about(self, reply: Any) -> dict[str, Any]:
        used = reply.usage
        return {
            "llm.finish_reason": reply.finish_reason,
            "llm.token_count.prompt": used.prompt_tokens,
            "llm.token_count.completion": used.completion_tokens,
            "llm.token_count.total": used.prompt_tokens + used.completion_tokens,
        }


class TracedRetriever(RetrieverWrapper):
    """A retriever whose searches are spans of kind RETRIEVER."""

    def __init__(self, inner: Retriever, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `Retriever.search`."""
        about = {"metadata": json.dumps({"retriever": self.name, "k": k, "queries": len(queries)})}
        with self._tracing.span("search", "RETRIEVER", "\n".join(query.text for query in queries), about) as add:
            results = super().search(queries, k)
            for n, hit in enumerate(hit for found in results for hit in found):
                key = f"retrieval.documents.{n}.document"
                content = {f"{key}.content": hit.passage.text} if self._tracing.content else {}
                add("", {f"{key}.id": hit.passage.id, f"{key}.score": float(hit.score), **content})
        return results


@lru_cache(maxsize=1)
def _own_provider() -> Any:
    """The provider that the process has, else one that sends to an OTLP endpoint."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise MissingExtra(f"tracing ({ENV})", "otel")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    existing = trace.get_tracer_provider()
    if isinstance(existing, TracerProvider):
        return existing
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtra(f"tracing ({ENV})", "otel") from None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about = {"service.name": "turnmark", "service.version": version("turnmark")}
    # Not the provider of the process: other libraries would begin to send through it what nobody asked for.
    provider = TracerProvider(resource=Resource.create({**about, "openinference.project.name": "turnmark"}))
    exporter = OTLPSpanExporter(timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
