"""Says what became of a file: how it was read, or why not, and where a question finds it."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from turnmark.core.plural import count_phrase
from turnmark.core.record import Record
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.readers import Globs, describe_left_out, readers, reason_to_skip
from turnmark.corpora.text.languages import language_name
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.index.source_reading import FileNotes, stamp_of
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import DEFAULT_TOP_K, LARGE_MODEL_TOP_K, Query

MAX_NAMED = 5
"""Maximum documents that are named before a passage."""
MAX_RANK = 1000
"""Number of passages among which the best one of the file is looked for."""
MAX_LISTED = 20
"""Maximum documents of a file that are listed on the screen."""
_MIN_SIMILARITY = 70
"""Minimum similarity of a suggested name, of 100 (`rapidfuzz.fuzz.WRatio`)."""
_MAX_NAME_CHARACTERS = 80


class AccountedDocument(DocumentEntry):
    """A document of the file."""

    fields: Mapping[str, tuple[str, ...]] = Field(description="the date and the keys to filter by, with their values")


class QuestionAccount(Record):
    """Where a search for a question finds the file."""

    question: str
    rank: int | None = Field(default=None, description=f"rank of its best passage; null: not among {MAX_RANK:,}")
    passage: str = Field(default="", description="id of this passage")
    section: str = ""
    cosine: float | None = Field(default=None, description="cosine of the question and the passage, if it is known")
    before: Mapping[str, int] = Field(default={}, description="documents before it, with their number of passages")
    reasons: tuple[str, ...] = Field(description="why an answer may or may not show it")


class FileAccount(Record):
    """What became of a file."""

    index: str
    file: str = Field(description="path relative to the source, or the file as asked for")
    read: bool = Field(description="whether the index has what the file says")
    reasons: tuple[str, ...] = Field(default=(), description="why it was not read, or what its owner should know")
    reader: str = Field(default="", description="what reads files of this type")
    documents: tuple[AccountedDocument, ...] = ()
    left_out: Mapping[str, int] = Field(default={}, description="what the reader left out: reason -> count")
    similar: tuple[str, ...] = Field(default=(), description="files with a similar name")
    question: QuestionAccount | None = None


def account_for(index: StoredIndex, file: str) -> FileAccount:
    """Return what became of a file, given by its path, its name if no other has it, or the id of a document."""
    source = Path(index.manifest.source)
    known: dict[str, str] = dict(index.store.select('SELECT "path", "known" FROM files'))
    found = _named_file(index, file, known)
    if found is None:
        relative = _relative(source, file)
        names = {path: Path(path).name for path in known if path}
        similar = [] if relative and os.path.lexists(source / relative) else similar_names(Path(file).name, names)
        reasons = (_reason(index, source, relative),)
        return FileAccount(index=index.name, file=relative or file, read=False, reasons=reasons, similar=tuple(similar))
    path, identifier = found
    notes = FileNotes.model_validate_json(known.get(path, "{}"))
    problems = [str(problem).removeprefix(f"{path}: ") for problem in notes.problems]
    documents = index.store.select('SELECT "id" FROM documents WHERE "file" = ?', [path])
    owned = {identifier} if identifier else {row[0] for row in documents}
    entries = [each for each in index.store.documents() if each.document in owned]
    fields = {each.document: index.store.fields_of(each.document) for each in entries}
    reader = readers().get(Path(path).suffix.lower())
    return FileAccount(
        index=index.name,
        file=identifier or path,
        read=bool(entries),
        reasons=(*problems, *notes.remarks, *_changes(index, source, path)),
        reader=reader.what if reader else "text" if path else "rows of a corpus",
        documents=tuple(AccountedDocument(**dict(each), fields=fields[each.document]) for each in entries),
        left_out=notes.left_out,
    )


def _named_file(index: StoredIndex, file: str, known: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the path of a known file, and the id of the document if only one of it was named; None if unknown."""
    relative = _relative(Path(index.manifest.source), file)
    composed = {unicodedata.normalize("NFC", path): path for path in known if path}
    for name in filter(None, (file, relative)):
        if path := composed.get(unicodedata.normalize("NFC", name)):
            return path, ""
    if owner := index.store.select('SELECT "file" FROM documents WHERE "id" = ?', [file]):
        return owner[0][0], file
    ends = [path for name, path in composed.items() if f"/{name}".endswith(f"/{unicodedata.normalize('NFC', file)}")]
    return (ends[0], "") if len(ends) == 1 else None


def _relative(source: Path, file: str) -> str:
    """Return a path relative to the source, POSIX; empty if it is outside of the source."""
    folder = source.parent if source.is_file() else source
    given = Path(file).expanduser()
    path = given.parent.resolve() / given.name
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    inside = Path(os.path.normpath(folder / given))
    return inside.relative_to(folder).as_posix() if not given.is_absolute() and inside.is_relative_to(folder) else ""


def _changes(index: StoredIndex, source: Path, path: str) -> Iterator[str]:
    """Yield how a file differs from what was read."""
    if not path or source.is_file():
        return
    ((stamp,),) = index.store.select('SELECT "stamp" FROM files WHERE "path" = ?', [path])
    now = stamp_of(source / path)
    if not now:
        yield "the file does not exist any more; the next build removes it"
    elif stamp and stamp != now:
        yield "the file has changed since; the next build reads it again"


def _reason(index: StoredIndex, source: Path, relative: str) -> str:
    """Return why a file is not in an index."""
    manifest = index.manifest
    if not relative:
        return f"it is not in the folder of the index, {source}"
    path = source / relative
    if source.is_file() or not os.path.lexists(path):
        return f"there is no such file in {source}"
    if path.is_dir() and not path.is_symlink():
        return "it is a folder; name a file"
    reason = reason_to_skip(source, relative, Globs(manifest.include, manifest.exclude))
    return reason or "it is new; the next build reads it"


def similar_names(name: str, labels: Mapping[str, str]) -> list[str]:
    """Return the keys with the most similar labels, at most five."""
    from rapidfuzz import fuzz, process, utils

    plain = utils.default_process
    similar = process.extract(name, labels, scorer=fuzz.WRatio, processor=plain, score_cutoff=_MIN_SIMILARITY)
    return [key for _, _, key in similar]


def quote_name(name: str) -> str:
    """Quote an untrusted name on one line."""
    return repr(ellipsize(one_line(name), _MAX_NAME_CHARACTERS))


def ask_about(index: Index, account: FileAccount, question: str, where: Where) -> FileAccount:
    """Return the account with the rank of the file's best passage for a question, and why it is or is not shown."""
    name = f"{account.index}:" if len(index.parts) > 1 else ""
    documents = {f"{name}{each.document}" for each in account.documents}
    retriever = open_retriever(default_retriever(index), index)
    (hits,) = retriever.search([Query(text=retriever.respell(question), where=where)], MAX_RANK)
    place = next((at for at, hit in enumerate(hits) if hit.passage.document in documents), None)
    if place is None:
        filtered = (each for each in where if not documents & {one.document for one in index.documents(where=(each,))})
        reasons = [f"the filter {condition} leaves it out" for condition in filtered]
        found = QuestionAccount(question=question, reasons=reasons or ("no passage of it is similar enough",))
    else:
        hit = hits[place]
        found = QuestionAccount(
            question=question, rank=place + 1, passage=hit.passage.id, section=hit.passage.section,
            cosine=hit.similarity, before=dict(Counter(each.passage.document for each in hits[:place]).most_common()),
            reasons=tuple(_shown_or_not(place + 1, hit.similarity, retriever.sure_from())),
        )  # fmt: skip
    return account.model_copy(update={"question": found})


def _shown_or_not(rank: int, cosine: float | None, sure_from: float | None) -> Iterator[str]:
    if rank <= DEFAULT_TOP_K:
        yield f"it is among the {DEFAULT_TOP_K} passages that an answer is made from"
    else:
        models = f"; a large model reads {LARGE_MODEL_TOP_K}" if rank <= LARGE_MODEL_TOP_K else ""
        yield f"it is below the {DEFAULT_TOP_K} passages that an answer is made from (--top-k){models}"
    if cosine is not None and sure_from is not None and cosine < sure_from:
        yield f"its cosine {cosine:.2f} is below {sure_from:.2f}, so an answer from it alone is not sure"


# --- for the screen --------------------------------------------------------------------------------------------------


def account_lines(account: FileAccount) -> Iterator[str]:
    """Yield the account as printable lines; details are indented."""
    yield f"{one_line(account.file)}: {'read' if account.read else 'not read'} ({account.index})"
    if account.reader:
        yield f"  reader: {account.reader}"
    for each in account.documents[:MAX_LISTED]:
        language = f", {language_name(each.language)}" if each.language else ""
        counted = f"{count_phrase(each.passages, 'passage')}, {each.characters:,} characters{language}"
        name = "" if each.document == account.file else f"{one_line(each.document)}, "
        yield f"  document: {name}{one_line(repr(each.title))}, {counted}"
        values = (f"{key} {', '.join(values)}" for key, values in each.fields.items())
        if each.fields:
            yield f"  filters: {one_line(' · '.join(values))}"
    if (more := len(account.documents) - MAX_LISTED) > 0:
        yield f"  … and {count_phrase(more, 'document')} more"
    if account.left_out:
        yield f"  {one_line(describe_left_out(account.left_out))}"
    for reason in account.reasons:
        yield f"  {'note' if account.read else 'why'}: {one_line(reason)}"
    if account.similar:
        yield f"  did you mean: {', '.join(map(quote_name, account.similar))}"
    if (found := account.question) is not None:
        yield f"question: {one_line(found.question)}"
        if found.rank is not None:
            cosine = "" if found.cosine is None else f", cosine {found.cosine:.3f}"
            yield f"  best passage: rank {found.rank}{cosine}, {one_line(found.section or found.passage)}"
        before = [f"{one_line(name)} {count}" for name, count in found.before.items()]
        if before:
            yield f"  before it: {', '.join(before[:MAX_NAMED])}"
        yield from (f"  {one_line(reason)}" for reason in found.reasons)
