"""Parts of an assistant that leave spans: its generator, its retriever with the reranker, its embedder.

Kinds and keys are those of the OpenInference convention. A part does what it did; only spans are added.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from turnmark.assistant.generators.base import CallOptions, Completion, Generator, GeneratorWrapper, PromptMessage
from turnmark.corpora.types import Passage
from turnmark.retrieval.rerank import Reranked, Reranker
from turnmark.retrieval.types import Hit, Query, Retriever, hear, neighbours_of

if TYPE_CHECKING:
    from turnmark.retrieval.task_passages import Embed

REDACTED = "__REDACTED__"
MOST_DOCUMENTS = 50

_CONTENT: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    r"input\.value|reranker\.query": (("INPUTS",), REDACTED),
    r"output\.value": (("OUTPUTS",), REDACTED),
    r"llm\.input_messages\..*": (("INPUTS", "INPUT_MESSAGES"), None),
    r"llm\.output_messages\..*": (("OUTPUTS", "OUTPUT_MESSAGES"), None),
    r"llm\.input_messages\.\d+\.message\.content": (("INPUT_TEXT",), REDACTED),
    r"llm\.output_messages\.\d+\.message\.content": (("OUTPUT_TEXT",), REDACTED),
    r".*\.document\.(content|metadata)": (("OUTPUTS",), None),
    r"embedding\.embeddings\..*": (("INPUTS", "EMBEDDINGS_TEXT", "EMBEDDING_TEXT"), None),
}
"""Keys that hold what was asked, said or found -> the switches `OPENINFERENCE_HIDE_…` that hide them, and what stands
in their place (None: nothing)."""


def _hidden(*switches: str) -> bool:
    return any(os.environ.get(f"OPENINFERENCE_HIDE_{name}", "").lower() in ("1", "true") for name in switches)


class Tracing:
    """A tracer, and what it may tell.

    Args:
        content: spans hold what was asked, said and found, less what the environment hides; else ids of passages alone.
    """

    def __init__(self, tracer: Any, content: bool) -> None:
        self.tracer, self.content = tracer, content
        self.whole = content and not _hidden("INPUTS", "OUTPUTS")
        self._masks = [
            (re.compile(pattern), place)
            for pattern, (switches, place) in _CONTENT.items()
            if not content or _hidden(*switches)
        ]
        if _hidden("LLM_INVOCATION_PARAMETERS"):
            self._masks.append((re.compile(r"llm\.invocation_parameters"), None))

    def visible(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes as they may be told."""
        visible = dict(attributes)
        for pattern, place in self._masks:
            for key in [key for key in visible if pattern.fullmatch(key)]:
                if place is None:
                    del visible[key]
                else:
                    visible[key] = place
        return visible

    @contextmanager
    def span(self, name: str, kind: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
        """A span around what is done; what is raised travels on, with its kind in the span."""
        with self.tracer.start_as_current_span(
            name, attributes=self.visible(kinded(kind, attributes)), record_exception=False,
            set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield span
            except BaseException as error:
                fail(span, error)
                raise

    def past_span(self, name: str, kind: str, began: int, ended: int, attributes: Mapping[str, Any]) -> None:
        """A span of what was done between two times, in nanoseconds."""
        span = self.tracer.start_span(name, start_time=began, attributes=self.visible(kinded(kind, attributes)))
        span.end(ended)

    def add(self, span: Any, attributes: Mapping[str, Any]) -> None:
        """Set further attributes of a span."""
        span.set_attributes(self.visible(attributes))


def valued(role: str, text: str, mime: str = "text/plain") -> dict[str, str]:
    """What went into a span, or came out of it (`role`: `input` or `output`)."""
    return {f"{role}.value": text, f"{role}.mime_type": mime}


def documents(key: str, hits: Sequence[Hit], scores: Sequence[float] | None = None) -> dict[str, Any]:
    """Passages as documents of the convention."""
    attributes: dict[str, Any] = {}
    for n, hit in enumerate(hits[:MOST_DOCUMENTS]):
        place, passage = f"{key}.{n}.document", hit.passage
        about = {"title": passage.title, "path": passage.path, "document": passage.document}
        attributes |= {
            f"{place}.id": passage.id,
            f"{place}.score": float(hit.score if scores is None else scores[n]),
            f"{place}.content": passage.text,
            f"{place}.metadata": dumped(about),
        }
    return attributes


def kinded(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with the kind of their span."""
    return {"openinference.span.kind": kind, **attributes}


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
        request: dict[str, Any] = {
            "llm.model_name": self.name,
            **valued("input", dumped([message.model_dump() for message in messages]), "application/json"),
            "llm.invocation_parameters": dumped({key: value for key, value in parameters.items() if value is not None}),
        }
        for n, message in enumerate(messages):
            request[f"llm.input_messages.{n}.message.role"] = message.role
            request[f"llm.input_messages.{n}.message.content"] = message.content
        with self._tracing.span("llm", "LLM", request) as span:
            completion = self.generator.complete(messages, **options)
            self._tracing.add(span, _completed(completion))
        return completion


def _completed(completion: Completion) -> dict[str, Any]:
    usage = completion.usage
    about = {"estimated": completion.estimated, "cached": completion.saved is not None, "calls": usage.calls}
    return {
        **valued("output", completion.text),
        "llm.model_name": completion.model,
        "llm.finish_reason": completion.finish_reason,
        "llm.token_count.prompt": usage.prompt_tokens,
        "llm.token_count.completion": usage.completion_tokens,
        "llm.token_count.total": usage.prompt_tokens + usage.completion_tokens,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": completion.text,
        "metadata": dumped(about),
        **({"llm.cost.total": usage.cost} if usage.cost is not None else {}),
    }


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
        tracing = self._tracing
        if len(queries) == 1:
            with tracing.span("search", "RETRIEVER", self._request(queries[0], k)) as span:
                results = self._search.search(queries, k)
                tracing.add(span, documents("retrieval.documents", results[0]))
            return results
        began = time.time_ns()
        with tracing.span("search", "CHAIN", {"metadata": dumped({"queries": len(queries)})}):
            results = self._search.search(queries, k)
            ended = time.time_ns()
            for query, hits in zip(queries, results, strict=True):
                attributes = {**self._request(query, k), **documents("retrieval.documents", hits)}
                tracing.past_span("search", "RETRIEVER", began, ended, attributes)
        return results

    def _request(self, query: Query, k: int) -> dict[str, Any]:
        about: dict[str, Any] = {"retriever": self.inner.name, "k": k, "turns": len(query.history)}
        if self._tracing.whole:
            about["variants"] = list(query.variants)
        return {**valued("input", query.text), "metadata": dumped(about)}


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
            order = sorted(range(min(len(query_hits), len(scores))), key=lambda n, scores=scores: -scores[n])  # type: ignore[misc]
            attributes = {
                "reranker.model_name": self.name,
                "reranker.query": query.text,
                "reranker.top_k": len(query_hits),
                **documents("reranker.input_documents", query_hits),
                **documents("reranker.output_documents", [query_hits[n] for n in order], [scores[n] for n in order]),
            }
            self._tracing.past_span("rerank", "RERANKER", began, ended, attributes)
        return scores_by_query


def traced_embed(inner: Embed, model: str, tracing: Tracing) -> Embed:
    """An embedder of texts whose calls are spans of kind EMBEDDING. Vectors are not told."""

    def embed(texts: Sequence[str]) -> Any:
        attributes: dict[str, Any] = {"embedding.model_name": model, "metadata": dumped({"texts": len(texts)})}
        attributes |= {f"embedding.embeddings.{n}.embedding.text": text for n, text in enumerate(texts)}
        with tracing.span("embed", "EMBEDDING", attributes):
            return inner(texts)

    embed.inner = inner  # type: ignore[attr-defined]
    return embed
