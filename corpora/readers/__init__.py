"""A folder, a file or a BEIR corpus in; Documents and Problems out, in a fixed order.

Markdown, text and HTML are read here because offsets, headings and list items matter; PDF and Word come through
LlamaIndex's readers. Nothing is fetched: what is not on the disk does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.corpora.readers.files import Found, Globs, read_file, walk
from turnmark.corpora.rows import Row, non_blank, parsed, string
from turnmark.corpora.types import Document, Problem

CORPUS_FILE = "corpus.jsonl"  # a folder that holds it is a BEIR data set, and only this file of it is documents

__all__ = ["CORPUS_FILE", "count_source", "read_rows", "read_source"]


def read_source(source: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Iterator[Document | Problem]:
    """Every document of a source, in sorted order, one in memory at a time.

    What cannot be read is a Problem in its place and stops nothing. Of two documents with the same id the first wins.

    Args:
        source: a folder, a single file, a `.jsonl` file of BEIR rows, or a folder with a `corpus.jsonl`.
        include: gitignore-style globs on the path relative to a folder; empty means every file of a known type. A
            file of an unknown type that a glob names is read as text.
        exclude: globs of what to leave out; they win over `include`.

    Raises:
        RequestError: the source does not exist or is neither file nor folder, or a glob is no pattern. Raised here,
            before the first document is asked for.
    """
    rows = _rows_file(source)
    globs = Globs(include, exclude)
    items = read_rows(rows) if rows else _read_files(source, globs)
    return _first_of_each(items)


def count_source(source: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> int | None:
    """How many files or rows `read_source` will go through, for a progress bar; None where that cannot be told.

    Raises:
        RequestError: as `read_source`.
    """
    rows = _rows_file(source)
    globs = Globs(include, exclude)
    if rows:
        return count_rows(rows)
    return sum(not isinstance(item, Problem) for item in walk(source, globs)) if source.is_dir() else 1


def _rows_file(source: Path) -> Path | None:
    try:
        if source.is_dir():
            return source / CORPUS_FILE if (source / CORPUS_FILE).is_file() else None
        if source.is_file():
            return source if source.suffix.lower() == ".jsonl" else None
    except (OSError, ValueError) as error:
        raise RequestError(f"{source}: cannot be opened ({error})") from error
    if source.exists():
        raise RequestError(f"{source}: is neither a file nor a folder; name a folder of documents or a file")
    raise RequestError(f"{source}: no such file or folder; check the spelling (now in {Path.cwd()})")


def _read_files(source: Path, globs: Globs) -> Iterator[Document | Problem]:
    if source.is_file():
        files: Iterator[Found | Problem] = iter([Found(source, source.name, named=False)])
    else:
        files = walk(source, globs)
    for item in files:
        result = item if isinstance(item, Problem) else read_file(item.path, item.relative, only_text=item.named)
        if result is not None:
            yield result


def _first_of_each(items: Iterator[Document | Problem]) -> Iterator[Document | Problem]:
    ids: set[str] = set()
    for item in items:
        if isinstance(item, Document):
            if item.id in ids:
                yield Problem(file=item.path, what=f"a second document with id {item.id!r}; the first one is kept")
                continue
            ids.add(item.id)
        yield item


MAX_ROW = 64 * 1024 * 1024  # bytes: a longer line is no passage, and one row has to fit into memory


def read_rows(path: Path) -> Iterator[Document | Problem]:
    """The rows of a BEIR corpus in order, {"_id", "title", "text"} a line, each a document that is one passage.

    A real row: {"_id": "100045-0-277", "title": "", "text": "\\nThere are PABs (Private Activity Bonds) for …"}.
    A row that cannot be used is a Problem with its line.
    """

    def parse(row: Row) -> tuple[str, Document]:
        title = string({"title": ""} if row.get("title") is None else row, "title").strip()
        key = non_blank(row, "_id")
        return key, Document(id=key, title=title, text=non_blank(row, "text"), path=path.name, whole=True)

    try:
        for item in parsed(path, path.name, parse, MAX_ROW):
            yield item if isinstance(item, Problem) else item[1]
    except RequestError as error:
        yield Problem(file=path.name, what=str(error).removeprefix(f"{path.name}: "))


def count_rows(path: Path) -> int | None:
    """How many lines a corpus has; None where it cannot be read."""
    count, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                count, last = count + block.count(b"\n"), block[-1:]
    except OSError:
        return None
    return count + (last != b"\n")
