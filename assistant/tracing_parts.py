"""Parts of an assistant that leave spans: its generator, its retriever with the reranker, its embedder.

Kinds and keys are those of the OpenInference convention. A part does what it did; only spans are added.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from turnmark.assistant.generators.base import Completion, Generator, GeneratorWrapper, OnText, PromptMessage
from turnmark.corpora.types import Passage, Record
from turnmark.retrieval.rerank import Reranked, Reranker
from turnmark.retrieval.types import Hit, Query, Retriever, hear, neighbours_of

if TYPE_CHECKING:
    from turnmark.retrieval.given import Embed

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

    def __init__(self, tracer: Any, told: Told) -> None:
        self.tracer, self.told = tracer, told

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
        shown = self.told.content and self.told.inputs
        return {"input.value": text if shown else REDACTED, "input.mime_type": mime}

    def output(self, text: str, mime: str = "text/plain") -> dict[str, str]:
        """What came out, where it may be told."""
        shown = self.told.content and self.told.outputs
        return {"output.value": text if shown else REDACTED, "output.mime_type": mime}

    def documents(self, key: str, hits: Sequence[Hit], scores: Sequence[float] | None = None) -> dict[str, Any]:
        """Passages as documents of the convention: ids and scores; with `content` their text."""
        made: dict[str, Any] = {}
        for at, hit in enumerate(hits[:MOST_DOCUMENTS]):
            place = f"{key}.{at}.document"
            made[f"{place}.id"] = hit.passage.id
            made[f"{place}.score"] = float(hit.score if scores is None else scores[at])
            if self.told.content and self.told.outputs:
                made[f"{place}.content"] = hit.passage.text
                about = {"title": hit.passage.title, "path": hit.passage.path, "document": hit.passage.document}
                made[f"{place}.metadata"] = dumped(about)
        return made


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

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: type[BaseModel] | None = None,
        deadline: float | None = None,
        on_text: OnText | None = None,
        logprobs: bool = False,
    ) -> Completion:
        """See `Generator.complete`."""
        asked = {"max_tokens": max_tokens, "temperature": temperature, "schema": schema and schema.__name__}
        attributes = self._asked(messages, {key: value for key, value in asked.items() if value is not None})
        # Only where they are wanted: a generator of somebody else's may not know of them.
        more: dict[str, Any] = {"logprobs": True} if logprobs else {}
        with self._tracing.span("llm", "LLM", attributes) as span:
            made = self.generator.complete(
                messages, max_tokens=max_tokens, temperature=temperature, schema=schema, deadline=deadline,
                on_text=on_text, **more,
            )  # fmt: skip
            span.set_attributes(self._answered(made))
        return made

    def _asked(self, messages: Sequence[PromptMessage], parameters: Mapping[str, Any]) -> dict[str, Any]:
        told = self._tracing.told
        whole = self._tracing.input(dumped([message.model_dump() for message in messages]), "application/json")
        made: dict[str, Any] = {"llm.model_name": self.name, **whole}
        if told.parameters:
            made["llm.invocation_parameters"] = dumped(parameters)
        if told.content and told.input_messages:
            for at, message in enumerate(messages):
                made[f"llm.input_messages.{at}.message.role"] = message.role
                made[f"llm.input_messages.{at}.message.content"] = message.content if told.input_text else REDACTED
        return made

    def _answered(self, made: Completion) -> dict[str, Any]:
        told, usage = self._tracing.told, made.usage
        found: dict[str, Any] = {
            **self._tracing.output(made.text),
            "llm.model_name": made.model,
            "llm.finish_reason": made.finish_reason,
            "llm.token_count.prompt": usage.prompt_tokens,
            "llm.token_count.completion": usage.completion_tokens,
            "llm.token_count.total": usage.prompt_tokens + usage.completion_tokens,
            "metadata": dumped({"estimated": made.estimated, "cached": made.saved is not None, "calls": usage.calls}),
        }
        if usage.cost is not None:
            found["llm.cost.total"] = usage.cost
        if told.content and told.output_messages:
            found["llm.output_messages.0.message.role"] = "assistant"
            found["llm.output_messages.0.message.content"] = made.text if told.output_text else REDACTED
        return found


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
        single = len(queries) == 1
        began = time.time_ns()
        attributes = self._asked(queries[0], k) if single else {"metadata": dumped({"queries": len(queries)})}
        with self._tracing.span("search", "RETRIEVER" if single else "CHAIN", attributes) as span:
            found = self._search.search(queries, k)
            if single:
                span.set_attributes(self._tracing.documents("retrieval.documents", found[0]))
                return found
            ended = time.time_ns()
            for query, hits in zip(queries, found, strict=True):
                told = {**self._asked(query, k), **self._tracing.documents("retrieval.documents", hits)}
                one = self._tracing.tracer.start_span("search", start_time=began, attributes=kinded("RETRIEVER", told))
                one.end(ended)
        return found

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
        made = self.inner.scores(queries, hits)
        ended = time.time_ns()
        for query, before, scores in zip(queries, hits, made, strict=False):
            span = self._tracing.tracer.start_span(
                "rerank", start_time=began, attributes=kinded("RERANKER", self._told(query, before, scores))
            )
            span.end(ended)
        return made

    def _told(self, query: Query, hits: Sequence[Hit], scores: Sequence[float]) -> dict[str, Any]:
        tracing = self._tracing
        shown = tracing.told.content and tracing.told.inputs
        order = sorted(range(min(len(hits), len(scores))), key=lambda at: -scores[at])
        return {
            "reranker.model_name": self.name,
            "reranker.query": query.text if shown else REDACTED,
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
