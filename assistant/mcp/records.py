"""What the tools take and give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from turnmark.assistant.types import Checks, Citation, Decision, ProcedureStep, Reply, SubQuestion, Usage
from turnmark.core.record import Record
from turnmark.retrieval.store import DocumentEntry
from turnmark.retrieval.types import Hit

MOST_HITS = 100
READ_CHARACTERS = 20_000
"""Of text that one call of `read` gives, about 5,000 tokens."""
LISTED = 100
"""Documents that one call of `documents` names, and sections that one of `read` names."""


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Words = Annotated[str, AfterValidator(_not_empty)]


class ToolArguments(Record):
    """The arguments of every tool."""

    index: str = Field(default="", description="the index to use; empty: all that are served")


class Where(Record):
    """Globs that a passage must match: `*` stands for any characters, `?` for one."""

    document: str = Field(default="", description="id of the document, such as guide/*.md")
    title: str = Field(default="", description="title of the document")
    path: str = Field(default="", description="path of the document")
    section: str = Field(default="", description="headings above the passage, joined by ' › '")
    page: str = Field(default="", description="page on which the passage starts", coerce_numbers_to_str=True)

    def globs(self) -> dict[str, str]:
        """The globs that were given."""
        return {key: glob for key, glob in self.model_dump().items() if glob}


class SearchArguments(ToolArguments):
    """The arguments of `search`."""

    query: Words = Field(description="a question, or words that a passage with the answer would hold")
    where: Where = Field(default_factory=Where, description="search only passages that match all of these globs")
    k: int = Field(default=10, ge=1, le=MOST_HITS, description="the number of passages")


class ReadArguments(ToolArguments):
    """The arguments of `read`."""

    document: Words = Field(description="id of a document, as search and documents give it")
    section: str = Field(
        default="", description="a heading, or the section of a search hit; empty: from the beginning of the document"
    )
    start: int = Field(
        default=0, ge=0, description="offset in characters to go on from: the end of what was read before"
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.section and self.start:
            raise ValueError("section and start: give one of the two")
        return self


class DocumentsArguments(ToolArguments):
    """The arguments of `documents`."""

    words: str = Field(
        default="",
        description="list only documents with a passage that holds all of these words, compared by their stems as in "
        "search; empty: all documents",
    )


class AskArguments(ToolArguments):
    """The arguments of `ask`."""

    question: Words = Field(description="a question that is complete in itself; nothing of the conversation is known")


class SearchResult(Record):
    """What `search` gives: what `turnmark search --json` prints, and the index."""

    index: str
    query: str
    retriever: str
    hits: tuple[Hit, ...]


class ReadResult(Record):
    """What `read` gives."""

    index: str
    document: str
    title: str
    path: str
    date: str
    section: str = Field(description="the section that was read, without those below it; empty: the document")
    page: int | None = Field(description="page on which the text starts, if the document has pages")
    start: int
    end: int = Field(description="offset of the end of the text; as `start` it reads on")
    text: str
    left_out: int = Field(description="characters of the section or document that follow and did not fit")
    sections: tuple[str, ...] = Field(description="sections of the document, in its order")
    sections_left_out: int = Field(description="sections that are not listed")


class DocumentMatch(DocumentEntry):
    """A document of a list."""

    matches: int | None = Field(
        default=None, description="number of its passages that hold all of the words; null: no words were given"
    )


class DocumentsResult(Record):
    """What `documents` gives."""

    index: str
    words: str
    documents: tuple[DocumentMatch, ...] = Field(
        description="with words those with most matches first, else in the order of their ids"
    )
    total: int = Field(description="number of documents that match, listed or not")
    of: int = Field(description="number of documents in the index")
    left_out: int = Field(description="documents that match and are not listed")


class AskResult(Record):
    """What `ask` gives: what `turnmark ask --json` prints, without its trace, and the index."""

    index: str
    question: str
    answer: str = Field(description="with marks [n], which cite citation n")
    procedure: tuple[ProcedureStep, ...]
    citations: tuple[Citation, ...]
    decision: Decision
    rewrite: str
    sub_questions: tuple[SubQuestion, ...]
    checks: Checks
    generator: str
    usage: Mapping[str, Usage]
    timings: Mapping[str, float]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, index: str, reply: Reply) -> Self:
        """The result of a reply."""
        fields = set(cls.model_fields) - {"index"}
        return cls(index=index, **{name: getattr(reply, name) for name in fields})


def schema_of(record: type[Record]) -> dict[str, Any]:
    """The JSON schema of a record. Every definition is in its place, since not all clients follow references, and
    pydantic's titles, which only repeat the names, are left out.
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
        if isinstance(merged.get("title"), str):  # else a property of this name
            del merged["title"]
        return {key: inlined(value) for key, value in merged.items()}

    complete: dict[str, Any] = inlined(schema)
    complete.pop("description", None)
    return complete
