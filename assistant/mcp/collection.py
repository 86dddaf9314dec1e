"""Several indexes as one collection: found by name, searched, read and listed."""

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.mcp.records import (
    LISTED,
    READ_CHARACTERS,
    DocumentMatch,
    DocumentsArguments,
    DocumentsResult,
    ReadArguments,
    ReadResult,
    SearchArguments,
    SearchResult,
)
from turnmark.assistant.open import up_to_date
from turnmark.assistant.steps.marks import lines_of
from turnmark.assistant.steps.retrieve import join_passages
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import ellipsize, one_line, valid_text
from turnmark.corpora.types import CONTINUED, Passage, without_continued
from turnmark.retrieval.index import Index
from turnmark.retrieval.store import DocumentEntry
from turnmark.retrieval.types import Query

CLOSE = 5
"""Names that an error for an unknown one suggests."""
_ALIKE = 70
"""Of 100, from which a name counts as close (`rapidfuzz.fuzz.WRatio`)."""
_SHOWN_NAME = 80


class ServedIndexes:
    """The assistants over the indexes that are served, by the names of these.

    Args:
        assistants: those over single indexes.
        joint: the one over all of several indexes, whose name is theirs joined by commas; None: they cannot be searched
            together.
    """

    def __init__(self, assistants: Mapping[str, Assistant], joint: Assistant | None = None) -> None:
        self.names = list(assistants)
        self.everything = ",".join(self.names)
        self.assistants = dict(assistants) if joint is None else {**assistants, self.everything: joint}
        self._opening = threading.Lock()

    def assistant(self, name: str) -> Assistant:
        """The assistant over the index of this name, over its newest generation."""
        with self._opening:
            self.assistants[name] = up_to_date(self.assistants[name])
            return self.assistants[name]

    def name(self, requested: str) -> str:
        """The name of the assistant over the index that was asked for: the one over all of them, if none was."""
        if (requested or self.everything) in self.assistants:
            return requested or self.everything
        names = ", ".join(self.names)
        if requested:
            raise RequestError(f"index: no index {_named(requested)} is served here; there are: {names}")
        raise RequestError(f"index: several are served that cannot be searched together; name one of: {names}")

    def index(self, name: str) -> Index:
        """The index of this name."""
        index = self.assistant(name).index
        assert index is not None, "an assistant of a collection is over an index"
        return index

    def search(self, arguments: SearchArguments) -> SearchResult:
        """The passages that a search finds, best first."""
        name = self.name(arguments.index)
        retriever = self.assistant(name).retriever
        assert retriever is not None, "an assistant over an index has a retriever"
        query = Query(text=valid_text(arguments.query), where=arguments.where.globs())
        hits = retriever.search([query], arguments.k)[0]
        return SearchResult(index=name, query=arguments.query, retriever=retriever.name, hits=tuple(hits))

    def document(self, name: str, document: str) -> list[Passage]:
        """The passages of a document, in reading order; RequestError that names similar ones if there is none."""
        passages = self.index(name).store.of_document(document)
        if passages:
            return passages
        entries = self.index(name).store.documents()
        # A model writes an accent in one character with its letter; names of files from a Mac have two.
        composed = unicodedata.normalize("NFC", document)
        for entry in entries:
            if unicodedata.normalize("NFC", entry.document) == composed:
                return self.index(name).store.of_document(entry.document)
        labels = {entry.document: f"{PurePosixPath(entry.document).stem} {entry.title}" for entry in entries}
        close = _close(PurePosixPath(document).stem, labels)
        hint = f"; did you mean {close}?" if close else "; `documents` lists them"
        raise RequestError(f"document: no document {_named(document)} is in index {name!r}{hint}")

    def read(self, arguments: ReadArguments) -> ReadResult:
        """A document, or a section with those below it, as far as it fits."""
        name = self.name(arguments.index)
        passages = self.document(name, arguments.document)
        joined = join_passages(passages)
        sections = _sections(passages)
        section, start, end = "", arguments.start, joined.end
        wanted = arguments.section.removeprefix(f"{joined.title} › ")  # as an answer names it
        if wanted.strip():
            section = _matching(sections, wanted, arguments.document)
            start, end = _extent(sections, section, joined.end)
        start = max(start, joined.start)
        if start >= joined.end:
            raise RequestError(f"start: the document ends at character {joined.end}")
        text = _beginning(joined.text[start - joined.start : end - joined.start], READ_CHARACTERS)
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
            sections=tuple(sections)[:LISTED],
            sections_left_out=max(0, len(sections) - LISTED),
        )

    def documents(self, arguments: DocumentsArguments) -> DocumentsResult:
        """The documents of an index, or those with a passage that holds all of some words."""
        name = self.name(arguments.index)
        index = self.index(name)
        entries = index.store.documents()
        if not arguments.words.strip():
            matching = [DocumentMatch(**entry.model_dump()) for entry in entries]
        else:
            if not index.bm25.analyze(arguments.words):
                raise RequestError(f"words: {_named(arguments.words)} has only words that are too common to be indexed")
            counts = Counter(index.store.documents_of(index.bm25.rows_with(arguments.words)))
            matched = [entry for entry in entries if entry.document in counts]
            matching = [DocumentMatch(**entry.model_dump(), matches=counts[entry.document]) for entry in matched]
            matching.sort(key=lambda match: (-(match.matches or 0), match.document))
        return DocumentsResult(
            index=name,
            words=arguments.words,
            documents=tuple(matching[:LISTED]),
            total=len(matching),
            of=len(entries),
            left_out=max(0, len(matching) - LISTED),
        )

    def entries(self) -> Iterator[tuple[str, DocumentEntry]]:
        """Every document of every index, with the name of its index."""
        for name in self.names:
            for entry in self.index(name).store.documents():
                yield name, entry

    def text(self, name: str, document: str) -> str:
        """The text of a document."""
        return join_passages(self.document(name, document)).text


def _sections(passages: Sequence[Passage]) -> dict[str, int]:
    """The headings of a document, each as a path joined by ' › ', and where its section begins. A passage may hold
    several short sections.
    """
    starts: dict[str, int] = {}
    for passage in passages:
        starts.setdefault(without_continued(passage.section), passage.start)
        for line in lines_of(passage):
            if line.kind == "heading":
                starts.setdefault(line.section, passage.start + line.start)
    starts.pop("", None)
    return starts


def _matching(sections: Mapping[str, int], heading: str, document: str) -> str:
    """The section that was asked for: by its path, else its heading, else a part of its path."""
    wanted = heading.strip().removesuffix(CONTINUED).strip().lower()
    by_path = [path for path in sections if path.lower() == wanted]
    by_heading = [path for path in sections if path.lower().rpartition(" › ")[2] == wanted]
    by_part = [path for path in sections if wanted in path.lower()]
    for matching in (by_path, by_heading, by_part):
        if matching:
            return matching[0]
    close = _close(heading, {path: path for path in sections})
    hint = f"did you mean {close}?" if close else "`read` without section lists them" if sections else "it has none"
    raise RequestError(f"section: no section {_named(heading)} is in {_named(document)}; {hint}")


def _extent(sections: Mapping[str, int], section: str, end: int) -> tuple[int, int]:
    """Where a section begins, and where the last one below it ends.

    Args:
        end: of the document.
    """
    start = sections[section]
    others = [at for path, at in sections.items() if at > start and not path.startswith(f"{section} › ")]
    return start, min(others, default=end)


def _beginning(text: str, most: int) -> str:
    """A text as far as it fits, up to the end of a paragraph or a line if there is one."""
    if len(text) <= most:
        return text
    cut = max(text.rfind("\n\n", most // 2, most), text.rfind("\n", most * 9 // 10, most))
    return text[: cut + 1] if cut > 0 else text[:most]


def _close(name: str, labels: Mapping[str, str]) -> str:
    """The names whose labels are most similar, as a list to read; empty if none is."""
    from rapidfuzz import fuzz, process, utils

    similar = process.extract(
        name, labels, scorer=fuzz.WRatio, processor=utils.default_process, limit=CLOSE, score_cutoff=_ALIKE
    )
    return ", ".join(_named(name) for _, _, name in similar)


def _named(name: str) -> str:
    """A name that a client or a document chose, quoted on one line."""
    return repr(ellipsize(one_line(name), _SHOWN_NAME))
