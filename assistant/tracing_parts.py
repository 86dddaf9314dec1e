"""Parts of an assistant that leave spans: its generator, its retriever with the reranker, its embedder.

Kinds and keys are those of the OpenInference convention. A part does what it did; only spans are added.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from turnmark.assistant.generators.base import (
    CallOptions,
    Completion,
    Generator,
    GeneratorWrapper,
    PromptMessage,
)
from turnmark.corpora.types import Passage, Record
from turnmark.retrieval.rerank import Reranked, Reranker
from turnmark.retrieval.types import Hit, Query, Retriever, hear, neighbours_of

if TYPE_CHECKING:
    from turnmark.retrieval.task_passages import Embed

REDACTED = "__REDACTED__"
MOST_DOCUMENTS = 50


class Told(Record):
    """What spans may tell. Without `content` nothing that was asked, said or found, beside ids of passages."""

    content: bool = False
    inputs: bool = True
    outputs: bool = True
    input_messages: bool = True
    output_messages: bool = True
    input_text: bool = True
    output_text: bool = True
    parameters: bool = True
    embeddings: bool = True

    @classmethod
    def from_environment(cls, content: bool) -> Told:
        """As the switches `OPENINFERENCE_HIDE_…` have it."""

        def shown(*names: str) -> bool:
            return not any(os.environ.get(f"OPENINFERENCE_HIDE_{name}", "").lower() in ("1", "true") for name in names)

        return cls(
            content=content,
            inputs=shown("INPUTS"),
            outputs=shown("OUTPUTS"),
            input_messages=shown("INPUTS", "INPUT_MESSAGES"),
            output_messages=shown("OUTPUTS", "OUTPUT_MESSAGES"),
            input_text=shown("INPUTS", "INPUT_TEXT", "INPUT_MESSAGES"),
            output_text=shown("OUTPUTS", "OUTPUT_TEXT", "OUTPUT_MESSAGES"),
            parameters=shown("LLM_INVOCATION_PARAMETERS"),
            embeddings=shown("EMBEDDINGS_TEXT", "EMBEDDING_TEXT"),
        )


class Tracing:
    """A tracer, and what it may tell."""

    def __init__(self, tracer: Any, allowed: Told) -> None:
        self.tracer, self.told = tracer, allowed

    @contextmanager
    def span(self, name: str, kind: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """A span around what is done; what is raised travels on, with its kind in the span."""
        with self.tracer.start_as_current_span(
            name, attributes=kinded(kind, attributes), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                fail(span, error)
                raise

    def input(self, text: str, mime: str = "text/plain") -> dict[str, str]:
        """What went in, where it may be told."""
        visible = self.told.content and self.told.inputs
        return {"input.value": text if visible else REDACTED, "input.mime_type": mime}

    def output(self, text: str, mime: str = "text/plain") -> dict[str, str]:
        """What came out, where it may be told."""
        visible = self.told.content and self.told.outputs
        return {"output.value": text if visible else REDACTED, "output.mime_type": mime}

    def documents(self, key: str, hits: Sequence[Hit], scores: Sequence[float] | None = None) -> dict[str, Any]:
        """Passages as documents of the convention: ids and scores; with `content` their text."""
        attributes: dict[str, Any] = {}
        for at, hit in enumerate(hits[:MOST_DOCUMENTS]):
            place = f"{key}.{at}.document"
            attributes[f"{place}.id"] = hit.passage.id
            attributes[f"{place}.score"] = float(hit.score if scores is None else scores[at])
            if self.told.content and self.told.outputs:
                attributes[f"{place}.content"] = hit.passage.text
                about = {"title": hit.passage.title, "path": hit.passage.path, "document": hit.passage.document}
                attributes[f"{place}.metadata"] = dumped(about)
        return attributes


def kinded(kind: str, attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Attributes with the kind of their span."""
    return {"openinference.span.kind": kind, **(attributes or {})}


def fail(span: Any, error: BaseException) -> None:
    """Mark a span as failed: by the kind of the error alone, as its message may quote what was said."""
    from opentelemetry.trace import Status, StatusCode

    name = type(error).__name__
    kind = getattr(error, "kind", None)
    span.add_event("exception", {"exception.type": name})
    span.set_status(Status(StatusCode.ERROR, f"{name}: {kind}" if isinstance(kind, str) else name))


def dumped(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


class TracedGenerator(GeneratorWrapper):
    """A generator whose calls are spans of kind LLM."""

    def __init__(self, inner: Generator, tracing: Tracing) -> None:
        super().__init__(inner)
        self._tracing = tracing

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        schema = options.get("schema")
        parameters = {
            "max_tokens": options.get("max_tokens"), "temperature": options.get("temperature"),
            "schema": schema and schema.__name__,
        }  # fmt: skip
        parameters = {key: value for key, value in parameters.items() if value is not None}
        with self._tracing.span("llm", "LLM", self._asked(messages, parameters)) as span:
            completion = self.generator.complete(messages, **options)
            span.set_attributes(self._answered(completion))
        return completion

    def _asked(self, messages: Sequence[PromptMessage], parameters: Mapping[str, Any]) -> dict[str, Any]:
        allowed = self._tracing.told
        whole_input = self._tracing.input(dumped([message.model_dump() for message in messages]), "application/json")
        attributes: dict[str, Any] = {"llm.model_name": self.name, **whole_input}
        if allowed.parameters:
            attributes["llm.invocation_parameters"] = dumped(parameters)
        if allowed.content and allowed.input_messages:
            for at, message in enumerate(messages):
                attributes[f"llm.input_messages.{at}.message.role"] = message.role
                attributes[f"llm.input_messages.{at}.message.content"] = (
                    message.content if allowed.input_text else REDACTED
                )
        return attributes

    def _answered(self, completion: Completion) -> dict[str, Any]:
        allowed, usage = self._tracing.told, completion.usage
        attributes: dict[str, Any] = {
            **self._tracing.output(completion.text),
            "llm.model_name": completion.model,
            "llm.finish_reason": completion.finish_reason,
            "llm.token_count.prompt": usage.prompt_tokens,
            "llm.token_count.completion": usage.completion_tokens,
            "llm.token_count.total": usage.prompt_tokens + usage.completion_tokens,
            "metadata": dumped(
                {"estimated": completion.estimated, "cached": completion.saved is not None, "calls": usage.calls}
            ),
        }
        if usage.cost is not None:
            attributes["llm.cost.total"] = usage.cost
        if allowed.content and allowed.output_messages:
            attributes["llm.output_messages.0.message.role"] = "assistant"
            attributes["llm.output_messages.0.message.content"] = completion.text if allowed.output_text else REDACTED
        return attributes


class TracedRetriever:
    """A retriever whose searches are spans of kind RETRIEVER: one a query, of a batch inside one of kind CHAIN."""

    def __init__(self, inner: Retriever, tracing: Tracing) -> None:
        self.inner, self._tracing = inner, tracing
        self._search = inner
        if isinstance(inner, Reranked):
            self._search = inner.reranked_by(lambda reranker: TracedReranker(reranker, tracing))

        self.name = inner.name

    def heard(self, answer: str) -> None:
        """Tell the retriever of an answer, where it listens."""
        hear(self.inner, answer)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, where the retriever knows them."""
        return neighbours_of(self.inner, passage)

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `Retriever.search`."""
        one_query = len(queries) == 1
        began = time.time_ns()
        attributes = self._asked(queries[0], k) if one_query else {"metadata": dumped({"queries": len(queries)})}
        with self._tracing.span("search", "RETRIEVER" if one_query else "CHAIN", attributes) as span:
            results = self._search.search(queries, k)
            if one_query:
                span.set_attributes(self._tracing.documents("retrieval.documents", results[0]))
                return results
            ended = time.time_ns()
            for query, hits in zip(queries, results, strict=True):
                told = {**self._asked(query, k), **self._tracing.documents("retrieval.documents", hits)}
                span_of_query = self._tracing.tracer.start_span(
                    "search", start_time=began, attributes=kinded("RETRIEVER", told)
                )
                span_of_query.end(ended)
        return results

    def _asked(self, query: Query, k: int) -> dict[str, Any]:
        about: dict[str, Any] = {"retriever": self.inner.name, "k": k, "turns": len(query.history)}
        if self._tracing.told.content and self._tracing.told.inputs:
            about["variants"] = list(query.variants)
        return {**self._tracing.input(query.text), "metadata": dumped(about)}


class TracedReranker:
    """A reranker whose calls are spans of kind RERANKER, one a query."""

    def __init__(self, inner: Reranker, tracing: Tracing) -> None:
        self.inner, self._tracing = inner, tracing
        self.name = inner.name

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> Sequence[Sequence[float]]:
        """See `Reranker.scores`."""
        began = time.time_ns()
        scores_by_query = self.inner.scores(queries, hits)
        ended = time.time_ns()
        for query, query_hits, scores in zip(queries, hits, scores_by_query, strict=False):
            span = self._tracing.tracer.start_span(
                "rerank", start_time=began, attributes=kinded("RERANKER", self._told(query, query_hits, scores))
            )
            span.end(ended)
        return scores_by_query

    def _told(self, query: Query, hits: Sequence[Hit], scores: Sequence[float]) -> dict[str, Any]:
        tracing = self._tracing
        visible = tracing.told.content and tracing.told.inputs
        order = sorted(range(min(len(hits), len(scores))), key=lambda at: -scores[at])
        return {
            "reranker.model_name": self.name,
            "reranker.query": query.text if visible else REDACTED,
            "reranker.top_k": len(hits),
            **tracing.documents("reranker.input_documents", hits),
            **tracing.documents("reranker.output_documents", [hits[at] for at in order], [scores[at] for at in order]),
        }


def traced_embed(inner: Embed, model: str, tracing: Tracing) -> Embed:
    """An embedder of texts whose calls are spans of kind EMBEDDING. Vectors are not told."""

    def embed(texts: Sequence[str]) -> Any:
        attributes: dict[str, Any] = {"embedding.model_name": model, "metadata": dumped({"texts": len(texts)})}
        if tracing.told.content and tracing.told.inputs and tracing.told.embeddings:
            for at, text in enumerate(texts):
                attributes[f"embedding.embeddings.{at}.embedding.text"] = text
        with tracing.span("embed", "EMBEDDING", attributes):
            return inner(texts)

    embed.inner = inner  # type: ignore[attr-defined]
    return embed
