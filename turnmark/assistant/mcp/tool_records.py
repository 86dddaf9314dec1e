"""The arguments and results of the tools."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from turnmark.assistant.types import Reply, Trace
from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.retrieval.storage.filters import WHERE_KEYS, Where, parse_where
from turnmark.retrieval.storage.passage_store import DocumentMatch
from turnmark.retrieval.types import Hit

MAX_HITS = 100
MAX_READ_CHARS = 20_000
"""Maximum characters that one call of `read` returns, about 5,000 tokens."""
MAX_LISTED = 100
"""Maximum documents that `documents` lists, and maximum sections that `read` lists."""


def _check_not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


NonEmptyText = Annotated[str, AfterValidator(_check_not_empty)]


class ToolArguments(Record):
    """The arguments of every tool. Null is the same as no argument."""

    index: str = Field(default="", description="the index to use; empty: all served indexes")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


def _read_filter(given: Any) -> Where:
    """Parse a filter; some clients send lists and objects as JSON in a string."""
    if isinstance(given, str) and given.strip().startswith(("[", "{")):
        with suppress(ValueError):
            given = json.loads(given)
    if isinstance(given, dict):
        given = {key: value for key, value in given.items() if value not in (None, "")}
    if not isinstance(given, str | dict) and not (isinstance(given, list) and all(isinstance(x, str) for x in given)):
        raise ValueError('write conditions, e.g. ["date>=2025-01", "path=guide/*"]')
    try:
        return parse_where(given)
    except RequestError as error:
        raise ValueError("; ".join(error.problems)) from error


PassageFilter = Annotated[
    Where,
    PlainValidator(_read_filter, json_schema_input_type=str | list[str] | dict[str, str]),
]
"""Conditions that a passage must meet."""
FILTER_HELP = (
    'only passages that meet all conditions, e.g. ["date>=2025-01", "path=guide/*"] or {"tags": "bread"}; keys: '
    f"{', '.join(WHERE_KEYS)}, and those of front matter; = takes * and ?, dates also < <= > >="
)


class SearchArguments(ToolArguments):
    """The arguments of `search`."""

    query: NonEmptyText = Field(description="a question, or words that a passage with the answer would contain")
    where: PassageFilter = Field(default=(), description=FILTER_HELP)
    k: int = Field(default=10, ge=1, le=MAX_HITS, description="the number of passages")


class ReadArguments(ToolArguments):
    """The arguments of `read`."""

    document: NonEmptyText = Field(description="id of a document, as returned by search and documents")
    section: str = Field(
        default="", description="a heading, or the section of a search hit; empty: from the beginning of the document"
    )
    start: int = Field(default=0, ge=0, description="character offset to continue from: `end` of the previous result")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.section and self.start:
            raise ValueError("section and start: give only one of them")
        return self


class DocumentsArguments(ToolArguments):
    """The arguments of `documents`."""

    words: str = Field(
        default="",
        description="list only documents with a passage that contains all of these words, compared by word stem as "
        "in search; empty: all documents",
    )
    where: PassageFilter = Field(default=(), description=FILTER_HELP)


class AskArguments(ToolArguments):
    """The arguments of `ask`."""

    question: NonEmptyText = Field(description="a complete question; the assistant does not know your conversation")
    generator: str = Field(default="", description="the language model that answers; empty: the default one")
    where: PassageFilter = Field(default=(), description=FILTER_HELP)


class SearchResult(Record):
    """The result of `search`: the output of `turnmark search --json`, and the index."""

    index: str
    query: str
    searched: str
    retriever: str
    hits: tuple[Hit, ...]
    note: str = Field(
        default="",
        description="how many documents the filter leaves out, if nothing was found",
        exclude_if=lambda note: not note,
    )


class ReadResult(Record):
    """The result of `read`."""

    index: str
    document: str
    title: str
    path: str
    date: str
    section: str = Field(description="heading path of the section that was read; empty: the document")
    page: int | None = Field(description="page on which the text starts, if the document has pages")
    start: int
    end: int = Field(description="offset of the end of the text; pass it as `start` to continue")
    text: str
    left_out: int = Field(description="number of further characters of the section or document that did not fit")
    sections: tuple[str, ...] = Field(description="sections of the document, in reading order")
    sections_left_out: int = Field(description="number of sections that are not listed")


class DocumentsResult(Record):
    """The result of `documents`."""

    index: str
    words: str
    documents: tuple[DocumentMatch, ...] = Field(
        description="sorted by id; if words were given, the documents with the most matches come first"
    )
    total: int = Field(description="number of documents that match, listed or not")
    of: int = Field(description="number of documents in the index")
    left_out: int = Field(description="number of matching documents that are not listed")


class AskResult(Reply):
    """The result of `ask`: the output of `turnmark ask --json` without its trace, and the index."""

    index: str
    trace: Trace = Field(default=Trace(), exclude=True)

    @classmethod
    def of(cls, index: str, reply: Reply) -> Self:
        """Make the result from a reply."""
        return cls(index=index, **dict(reply))


def schema_of(record: type[Record]) -> dict[str, Any]:
    """Return the JSON schema of a record.

    Definitions are inlined, since not all clients follow references. Pydantic's titles only repeat the names, so they
    are left out.
    """
    schema = record.model_json_schema(mode="serialization" if record.__name__.endswith("Result") else "validation")
    definitions = schema.pop("$defs", {})

    def inlined(node: Any) -> Any:
        if isinstance(node, list):
            return [inlined(item) for item in node]
        if not isinstance(node, dict):
            return node
        target = definitions.get(str(node.get("$ref", "")).rpartition("/")[2], {})
        merged = {**target, **node}
        merged.pop("$ref", None)
        if isinstance(merged.get("title"), str):  # not a property called title
            del merged["title"]
        return {key: inlined(value) for key, value in merged.items()}

    complete: dict[str, Any] = inlined(schema)
    complete.pop("description", None)
    return complete
