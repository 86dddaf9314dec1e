"""Read a folder, a file or a BEIR corpus into Documents and Problems, in a fixed order.

The table in `turnmark.corpora.readers.registry` lists the file types and their readers. Nothing is fetched from the
network.

This package could be a library of its own. It imports `core`, the types of `corpora`, JSON Lines, text and tables, and
nothing else of Turnmark. Other code imports the names of `__all__`. Three modules that load more are imported by their
own names: `fingerprint`, `picture_descriptions` and `markup.markdown`. `tests/test_rooms.py` has the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnmark.core.errors import RequestError
from turnmark.corpora.jsonl_rows import JsonRow, get_non_blank, get_string, parse_rows
from turnmark.corpora.readers.common.encodings import read_text
from turnmark.corpora.readers.common.prose import UndescribedPicture, Unreadable, WrongFileType, shorten_title
from turnmark.corpora.readers.folder import SKIPPED_FOLDERS, Globs, SourceFile, reason_to_skip, walk
from turnmark.corpora.readers.isolation import MAX_PROCESSES, draw_page, read_isolated
from turnmark.corpora.readers.pictures.collector import NOT_DESCRIBED
from turnmark.corpora.readers.registry import MAX_BYTES, Reader, is_picture_file, list_readers, no_progress, readers
from turnmark.corpora.readers.report import ReadingReport, describe_left_out, describe_unread
from turnmark.corpora.types import Document, Problem

__all__ = [
    "MAX_PROCESSES", "NOT_DESCRIBED", "SKIPPED_FOLDERS", "Globs", "ReadingReport", "SourceFile", "Unreadable",
    "describe_left_out", "describe_unread", "draw_page", "is_picture_file", "list_readers", "read_file", "read_rows",
    "read_source", "readers", "reason_to_skip", "shorten_title", "source_items",
]  # fmt: skip

CORPUS_FILE = "corpus.jsonl"  # a folder that contains it is a BEIR data set; its other files are not read


def read_source(
    source: Path, include: Sequence[str] = (), exclude: Sequence[str] = (), report: ReadingReport | None = None
) -> Iterator[Document | Problem]:
    """Iterate over the documents of a source, in sorted order, one in memory at a time.

    A file or row that cannot be read becomes a Problem, and reading continues. If two rows have the same id, the first
    is kept.

    Args:
        source: a folder, a single file, a `.jsonl` file of BEIR rows (with `_id`), or a folder with a `corpus.jsonl`.
        include: gitignore-style globs for paths relative to the folder; if empty, every file of a known type. A file of
            an unknown type that matches is read as text.
        exclude: globs of files to leave out; they take precedence over `include`.
        report: is told what is being read, and counts the files whose type is not read.
    """
    report = report or ReadingReport()
    return _read_items(source_items(source, include, exclude, report), report)


def source_items(
    source: Path, include: Sequence[str] = (), exclude: Sequence[str] = (), report: ReadingReport | None = None
) -> Iterator[SourceFile | Document | Problem]:
    """Iterate over a source as `read_source` does, but without reading its files; `read_file` reads one.

    BEIR rows are yielded as documents.
    """
    rows = _rows_file(source)
    globs = Globs(include, exclude)
    if rows:
        return read_rows(rows)
    if source.is_file():
        return iter([SourceFile(str(source), source.name, named=False)])
    return walk(source, globs, report or ReadingReport())


def _rows_file(source: Path) -> Path | None:
    try:
        if source.is_dir():
            return source / CORPUS_FILE if (source / CORPUS_FILE).is_file() else None
        if source.is_file():
            return source if source.suffix.lower() == ".jsonl" and _is_beir(source) else None
    except (OSError, ValueError) as error:
        raise RequestError(f"{source}: cannot be opened ({error})") from error
    if source.exists():
        raise RequestError(f"{source}: is neither a file nor a folder; name a folder of documents or a file")
    raise RequestError(f"{source}: no such file or folder; check the spelling (now in {Path.cwd()})")


def _is_beir(path: Path) -> bool:
    """Return whether a JSON Lines file has BEIR rows: False only if its first line is an object without `_id`."""
    with path.open("rb") as file:
        first = file.readline(MAX_BYTES).strip()
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not isinstance(row, dict) or "_id" in row


def _read_items(
    items: Iterator[SourceFile | Document | Problem], report: ReadingReport
) -> Iterator[Document | Problem]:
    for item in items:
        if isinstance(item, SourceFile):
            yield from read_file(item.path, item.relative, report, only_text=item.named)
        else:
            yield item


def read_rows(path: Path) -> Iterator[Document | Problem]:
    """Yield the rows of a BEIR corpus in order, {"_id", "title", "text"} per line, each as a document of one passage.

    A real row: {"_id": "100045-0-277", "title": "", "text": "\\nThere are PABs (Private Activity Bonds) for …"}.
    A row that cannot be used is a Problem with its line.
    """

    def parse(row: JsonRow) -> tuple[str, Document]:
        title = get_string({"title": ""} if row.get("title") is None else row, "title").strip()
        key = get_non_blank(row, "_id")
        return key, Document(id=key, title=title, text=get_non_blank(row, "text"), path=path.name, is_passage=True)

    try:
        for item in parse_rows(path, path.name, parse):
            yield item if isinstance(item, Problem) else item[1]
    except RequestError as error:
        yield Problem(file=path.name, what=str(error).removeprefix(f"{path.name}: "))


# --- one file --------------------------------------------------------------------------------------------------------


def read_file(
    path: Path,
    relative: str,
    report: ReadingReport | None = None,
    only_text: bool = False,
    pictures: Path | None = None,
) -> Iterator[Document | Problem]:
    """Read the documents of a file. What cannot be read becomes a Problem with the reason; nothing is raised.

    Args:
        relative: becomes the document's id.
        only_text: True for a file of unknown type, which is read only if it is text.
        pictures: existing folder to which its pictures are written (`Document.pictures`), to be described. None: they
            are counted in `Document.left_out`.
    """
    report = report or ReadingReport()
    try:
        if path.name.startswith("~$"):
            raise Unreadable("the file with which Office locks an open document; read the document itself")
        reader = readers().get(path.suffix.lower())
        size, most = path.stat().st_size, reader.max_bytes if reader else MAX_BYTES
        if size > most:
            raise Unreadable(f"{size / 2**20:.0f} MB; a file may have {most // 2**20:,} MB at most, so split it")
        for item in _read(reader, path, relative, report, pictures):
            if isinstance(item, Document) and not item.text.strip() and not item.pictures:
                yield Problem(file=item.id, what="empty: there is no text in it")
            else:
                yield item
    except WrongFileType:
        report.count_unread(relative)
    except UndescribedPicture as error:
        report.left_out[error.reason] += 1
    except Unreadable as error:
        if error.binary and only_text:
            report.count_unread(relative)
        else:
            yield Problem(file=relative, what=str(error), line=error.line)
    except OSError as error:
        yield Problem(file=relative, what=f"cannot be read ({error.strerror or error}); check its permissions")


def _read(
    reader: Reader | None, path: Path, relative: str, report: ReadingReport, pictures: Path | None
) -> Iterator[Document | Problem]:
    if reader is not None and (reader.isolated or pictures):  # a decoder of pictures needs limits
        yield from read_isolated(reader.target, path, relative, report.tell, pictures)
        return
    result = (reader.load() if reader else read_text)(path, relative, no_progress)
    yield from [result] if isinstance(result, Document) else result
