"""Tracing of turns: spans for any OpenTelemetry backend in the OpenInference convention. Off by default.

    TURNMARK_TRACING=1 turnmark chat …          steps, times, tokens, ids and scores, but no text
    TURNMARK_TRACING=content turnmark chat …    also the text of messages, prompts, answers and passages

Spans are sent to the endpoint in OpenTelemetry's variables (`OTEL_EXPORTER_OTLP_ENDPOINT`). To use your own provider,
call `assistant.traced(provider)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import chain
from typing import Any

from turnmark.assistant.llm.calls.protocols import CallOptions, Completion, Generator, GeneratorWrapper
from turnmark.assistant.types import Reply
from turnmark.core.errors import RequestError
from turnmark.core.extras import require_extra
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

TRACING_ENV = "TURNMARK_TRACING"
EXPORT_TIMEOUT_SECONDS = 5
"""Timeout of an export, in seconds."""
AddOutput = Callable[..., None]
"""Adds the output and attributes to a span."""


class Tracing:
    """A tracer with a switch for the text of questions, answers, prompts and passages; without one, spans are empty."""

    def __init__(self, tracer: Any | None, content: bool = False) -> None:
        self._tracer = tracer
        self.content = content

    @contextmanager
    def span(
        self, name: str, kind: str, input_text: str = "", extra: Mapping[str, Any] | None = None
    ) -> Iterator[AddOutput]:
        """Open a span; yield a function that adds its output and attributes.

        Args:
            kind: span kind of the OpenInference convention: CHAIN, LLM, RETRIEVER or EVALUATOR.
            input_text: input of the span; it is left out unless content is traced.
            extra: further attributes.
        """
        if self._tracer is None:
            yield lambda *_: None
            return
        from opentelemetry.trace import Status, StatusCode

        attributes = {"openinference.span.kind": kind, **(extra or {})}
        if input_text and self.content:
            attributes["input.value"] = input_text
        options = {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(name, attributes=attributes, **options) as span:

            def add(output: str, output_attributes: Mapping[str, Any]) -> None:
                if output and self.content:
                    output_attributes = {**output_attributes, "output.value": output}
                span.set_attributes(output_attributes)

            try:
                yield add
            except BaseException as error:
                # Only the kind of the error is traced, since its message may quote the conversation.
                description = [type(error).__name__, getattr(error, "kind", "")]
                span.set_status(Status(StatusCode.ERROR, ": ".join(filter(None, description))))
                raise

    @contextmanager
    def turn(self, message: str) -> Iterator[Callable[[Reply], Reply]]:
        """Open a span around a turn; yields a function that adds the reply to the span and returns it."""
        with self.span("turn", "CHAIN", message) as add:

            def finish(reply: Reply) -> Reply:
                metadata = {
                    "decision": reply.decision, "generator": reply.generator, "checks": reply.checks.model_dump(),
                }  # fmt: skip
                add(reply.answer, {"metadata": json.dumps(metadata)})
                return reply

            yield finish

    def step(self, name: str) -> AbstractContextManager[object]:
        """Open a span around a step."""
        return self.span(name, "EVALUATOR" if name == "verify" else "CHAIN")

    def generator(self, generator: Generator | None) -> Generator | None:
        """Return a generator whose calls write spans; one that is traced already is unwrapped first."""
        if generator is None or self._tracer is None:
            return generator
        return TracedGenerator(generator.generator if isinstance(generator, TracedGenerator) else generator, self)

    def retriever(self, retriever: Retriever | None) -> Retriever | None:
        """Return a retriever whose searches write spans; one that is traced already is unwrapped first."""
        if retriever is None or self._tracer is None:
            return retriever
        return TracedRetriever(retriever.inner if isinstance(retriever, TracedRetriever) else retriever, self)


NOT_TRACED = Tracing(None)


def tracing_by_environment() -> Tracing:
    """Return the tracing that `TURNMARK_TRACING` asks for; raises RequestError for an unknown value."""
    switch = os.environ.get(TRACING_ENV, "").strip().lower()
    if switch not in ("", "0", "1", "content"):
        raise RequestError(f"{TRACING_ENV}: expected 1, content (with the text of messages and passages) or 0")
    return NOT_TRACED if switch in ("", "0") else tracing_to(_find_provider(), switch == "content")


def tracing_to(provider: Any, content: bool = False) -> Tracing:
    """Return tracing whose spans are sent to an OpenTelemetry `TracerProvider`.

    Args:
        content: whether spans also contain questions, answers, prompts and passages.
    """
    return Tracing(provider.get_tracer("turnmark", version("turnmark")), content)


class TracedGenerator(GeneratorWrapper):
    """A generator that writes a span of kind LLM for each call."""

    def __init__(self, inner: Generator, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    def _around(self, call: partial[Completion], options: CallOptions) -> Completion:
        messages: Sequence[Any] = call.args[0]
        attributes: dict[str, Any] = {"llm.model_name": self.name}
        if self._tracing.content:
            for number, message in enumerate(messages):
                attributes[f"llm.input_messages.{number}.message.role"] = message.role
                attributes[f"llm.input_messages.{number}.message.content"] = message.content
        last_message = messages[-1].content if messages else ""
        with self._tracing.span("llm", "LLM", last_message, attributes) as add:
            reply = call(**options)
            calls = [tool_call.model_dump() for tool_call in reply.calls]
            usage = reply.usage
            add(reply.text or (json.dumps(calls, ensure_ascii=False) if calls else ""), {
                "llm.model_name": reply.model,
                "llm.finish_reason": reply.finish_reason,
                "llm.token_count.prompt": usage.prompt_tokens,
                "llm.token_count.completion": usage.completion_tokens,
                "llm.token_count.total": usage.prompt_tokens + usage.completion_tokens,
            })  # fmt: skip
        return reply


class TracedRetriever(RetrieverWrapper):
    """A retriever that writes a span of kind RETRIEVER for each search."""

    def __init__(self, inner: Retriever, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        metadata = {"retriever": self.name, "k": top_k, "queries": len(queries)}
        query_texts = "\n".join(query.text for query in queries)
        with self._tracing.span("search", "RETRIEVER", query_texts, {"metadata": json.dumps(metadata)}) as add:
            results = super().search(queries, top_k)
            for number, hit in enumerate(chain.from_iterable(results)):
                key = f"retrieval.documents.{number}.document"
                attributes = {f"{key}.id": hit.passage.id, f"{key}.score": float(hit.score)}
                if self._tracing.content:
                    attributes[f"{key}.content"] = hit.passage.text
                add("", attributes)
        return results


@lru_cache(maxsize=1)
def _find_provider() -> Any:
    """Return the provider of the process if one is set; otherwise a new provider that sends to an OTLP endpoint."""
    require_extra("otel", f"tracing ({TRACING_ENV})")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    existing = trace.get_tracer_provider()
    if isinstance(existing, TracerProvider):
        return existing
    attributes = {
        "service.name": "turnmark",
        "service.version": version("turnmark"),
        "openinference.project.name": "turnmark",
    }
    # The provider is not set for the whole process: other libraries would then send their spans through it.
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=EXPORT_TIMEOUT_SECONDS)))
    return provider
