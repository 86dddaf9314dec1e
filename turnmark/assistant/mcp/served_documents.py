"""The tools that need no language model: search, read and list the documents of the served indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from turnmark.assistant.citations.marks import lines_of
from turnmark.assistant.mcp.tool_records import (
    MAX_LISTED,
    MAX_READ_CHARS,
    DocumentsArguments,
    DocumentsResult,
    ReadArguments,
    ReadResult,
    SearchArguments,
    SearchResult,
)
from turnmark.assistant.serving.served_indexes import ServedIndexes
from turnmark.assistant.steps.retrieve.retrieve_sections import join_passages
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import valid_text
from turnmark.corpora.text.segmentation import fold_name
from turnmark.corpora.types import CONTINUED_MARK, Passage, without_continued
from turnmark.retrieval.file_account import quote_name, similar_names
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import Query


@dataclass(frozen=True)
class ServedDocuments:
    """The tools over the served indexes, except `ask`: search, read and list documents."""

    indexes: ServedIndexes

    def search(self, arguments: SearchArguments) -> SearchResult:
        """Search an index; the best passages come first."""
        name = self.indexes.name(arguments.index)
        retriever = self.indexes.assistant(name).retriever
        assert retriever is not None, "an assistant with an index has a retriever"
        query = Query(text=retriever.respell(valid_text(arguments.query)), where=arguments.where)
        hits = retriever.search([query], arguments.k)[0]
        filtered = query.where and not hits
        return SearchResult(
            index=name,
            query=arguments.query,
            searched=query.text,
            retriever=retriever.name,
            hits=tuple(hits),
            note=self.indexes.index(name).describe_filtered(query.where) if filtered else "",
        )

    def document(self, name: str, document: str) -> list[Passage]:
        """Return the passages of a document, in reading order; raise RequestError with similar ids if it is unknown."""
        store = self.indexes.index(name).store
        if passages := store.of_document(document):
            return passages
        entries = store.documents()
        for entry in entries:
            if fold_name(entry.document) == fold_name(document):
                return store.of_document(entry.document)
        labels = {entry.document: f"{PurePosixPath(entry.document).stem} {entry.title}" for entry in entries}
        close = ", ".join(map(quote_name, similar_names(PurePosixPath(document).stem, labels)))
        hint = f"; did you mean {close}?" if close else "; `documents` lists the documents"
        raise RequestError(f"document: index {name!r} has no document {quote_name(document)}{hint}")

    def read(self, arguments: ReadArguments) -> ReadResult:
        """Read a document, or a section with its subsections, up to `MAX_READ_CHARS` characters."""
        name = self.indexes.name(arguments.index)
        passages = self.document(name, arguments.document)
        joined = join_passages(passages)
        sections = _section_starts(passages)
        section, start, end = "", arguments.start, joined.end
        wanted = arguments.section.removeprefix(
            f"{joined.title} › "
        )  # answers put the document title before the section
        if wanted.strip():
            section = _find_section(sections, wanted, arguments.document)
            start, end = _section_span(sections, section, joined.end)
        start = max(start, joined.start)
        if start >= joined.end:
            raise RequestError(f"start: the document ends at character {joined.end}")
        text = _cut_text(joined.text[start - joined.start : end - joined.start], MAX_READ_CHARS)
        return ReadResult(
            index=name,
            document=arguments.document,
            title=joined.title,
            path=joined.path,
            date=joined.date,
            section=section,
            page=joined.page_at(start),
            start=start,
            end=start + len(text),
            text=text,
            left_out=end - start - len(text),
            sections=tuple(sections)[:MAX_LISTED],
            sections_left_out=max(0, len(sections) - MAX_LISTED),
        )

    def documents(self, arguments: DocumentsArguments) -> DocumentsResult:
        """List the documents of an index, or those with a passage that contains all of the given words."""
        name = self.indexes.name(arguments.index)
        index = self.indexes.index(name)
        matching = index.documents(arguments.words, arguments.where)
        return DocumentsResult(
            index=name,
            words=arguments.words,
            documents=tuple(matching[:MAX_LISTED]),
            total=len(matching),
            of=index.store.document_count,
            left_out=max(0, len(matching) - MAX_LISTED),
        )

    def entries(self) -> Iterator[tuple[str, DocumentEntry]]:
        """Yield every document of every index, with the name of its index."""
        for name in self.indexes.names:
            for entry in self.indexes.index(name).store.documents():
                yield name, entry

    def text(self, name: str, document: str) -> str:
        """Return the text of a document."""
        return join_passages(self.document(name, document)).text


def _section_starts(passages: Sequence[Passage]) -> dict[str, int]:
    """Return the start of each section of a document by its heading path (joined by ' › ').

    A passage may contain several short sections.
    """
    starts: dict[str, int] = {}
    for passage in passages:
        starts.setdefault(without_continued(passage.section), passage.start)
        for line in lines_of(passage):
            if line.kind == "heading":
                starts.setdefault(line.section, passage.start + line.start)
    starts.pop("", None)
    return starts


def _find_section(sections: Mapping[str, int], heading: str, document: str) -> str:
    """Return the requested section: matched by heading path, then by heading, then by part of the path."""
    wanted = heading.strip().removesuffix(CONTINUED_MARK).strip().lower()
    by_path = [path for path in sections if path.lower() == wanted]
    by_heading = [path for path in sections if path.lower().rpartition(" › ")[2] == wanted]
    by_part = [path for path in sections if wanted in path.lower()]
    if matching := by_path or by_heading or by_part:
        return matching[0]
    close = ", ".join(map(quote_name, similar_names(heading, {path: path for path in sections})))
    hint = "`read` without section lists the sections" if sections else "it has no sections"
    hint = f"did you mean {close}?" if close else hint
    raise RequestError(f"section: document {quote_name(document)} has no section {quote_name(heading)}; {hint}")


def _section_span(sections: Mapping[str, int], section: str, end: int) -> tuple[int, int]:
    """Return the start of a section and the end of its last subsection.

    Args:
        end: end of the document.
    """
    start = sections[section]
    others = [at for path, at in sections.items() if at > start and not path.startswith(f"{section} › ")]
    return start, min(others, default=end)


def _cut_text(text: str, most: int) -> str:
    """Return the beginning of a text within `most` characters, cut after a paragraph or a line if possible."""
    if len(text) <= most:
        return text
    cut = max(text.rfind("\n\n", most // 2, most), text.rfind("\n", most * 9 // 10, most))
    return text[: cut + 1] if cut > 0 else text[:most]
