"""Reads a folder, a file or a BEIR corpus into Documents and Problems, in a fixed order.

The table in `turnmark.corpora.readers.table` says which types are read, and by what. Nothing is fetched from the
network.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from turnmark.core.errors import RequestError
from turnmark.corpora.readers.prose import NotOfItsType, Unreadable, read_text
from turnmark.corpora.readers.table import MAX_BYTES, Reader, no_progress, readers
from turnmark.corpora.rows import Row, non_blank, parsed, string
from turnmark.corpora.types import Document, Problem

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    _Specs = tuple[tuple[str, GitIgnoreSpec], ...]  # (folder with a trailing '/', its .gitignore), the outermost first

CORPUS_FILE = "corpus.jsonl"  # a folder that holds it is a BEIR data set; its other files are not read

# Nobody expects the words of these, so they are not counted among the types that are not read.
_NO_DOCUMENTS = frozenset(
    """.png .jpg .jpeg .jpe .jfif .gif .svg .svgz .webp .bmp .ico .icns .tif .tiff .psd .xcf .heic .avif .raw
    .mp3 .ogg .oga .opus .flac .wav .m4a .aac .mid .mp4 .m4v .mov .avi .mkv .webm .ogv .mpg .mpeg
    .ttf .otf .woff .woff2 .eot .css .scss .sass .less .map .lock .pyc .pyo .pyd .o .a .so .dll .dylib .exe .class
    .jar .wasm""".split()
)
# Folders of installed packages and of caches.
NOT_ENTERED = frozenset(("node_modules", "bower_components", "__pycache__", "__MACOSX"))
_MARKS_OF_CACHES = ("CACHEDIR.TAG", "pyvenv.cfg")


@dataclass
class Watch:
    """What is seen of a reading beside its results.

    Attributes:
        tell: called with what is being read, in words.
        unread: the number of files of each type that is not read, by suffix.
    """

    tell: Callable[[str], None] = lambda _: None
    unread: Counter[str] = field(default_factory=Counter)

    def count(self, relative: str) -> None:
        """Count a file of a type that is not read."""
        suffix = PurePosixPath(relative).suffix.lower()
        if suffix not in _NO_DOCUMENTS:
            self.unread[_shown(suffix)] += 1


def said_unread(unread: Mapping[str, int]) -> str:
    """Return a line about types that are not read, "3 files of types that are not read: .doc 2, .zip 1"; or ""."""
    total = sum(unread.values())
    if not total:
        return ""
    ordered = sorted(unread.items(), key=lambda entry: (-entry[1], not entry[0], entry[0]))
    counts = [f"{suffix or 'without a suffix'} {count:,}" for suffix, count in ordered[:12]]
    if len(ordered) > 12:
        counts.append(f"{len(ordered) - 12} more types")
    files = "1 file of a type that is" if total == 1 else f"{total:,} files of types that are"
    return f"{files} not read: {', '.join(counts)}"


def read_source(
    source: Path, include: Sequence[str] = (), exclude: Sequence[str] = (), watch: Watch | None = None
) -> Iterator[Document | Problem]:
    """Iterate over the documents of a source, in sorted order, one in memory at a time.

    What cannot be read becomes a Problem, and reading continues. Of two rows with the same id the first is kept.

    Args:
        source: a folder, a single file, a `.jsonl` file of BEIR rows (with `_id`), or a folder with a `corpus.jsonl`.
        include: gitignore-style globs for paths relative to the folder; empty: every file of a known type. A file of
            an unknown type that matches is read as text.
        exclude: globs of files to leave out; they take precedence over `include`.
        watch: is told what is being read, and counts the files of types that are not.
    """
    watch = watch or Watch()
    return _read_items(source_items(source, include, exclude, watch), watch)


def source_items(
    source: Path, include: Sequence[str] = (), exclude: Sequence[str] = (), watch: Watch | None = None
) -> Iterator[SourceFile | Document | Problem]:
    """Iterate over a source as `read_source` does, but without reading its files; `read_file` reads one.

    Rows are documents at once.
    """
    rows = _rows_file(source)
    globs = Globs(include, exclude)
    if rows:
        return read_rows(rows)
    if source.is_file():
        return iter([SourceFile(source, source.name, named=False)])
    return walk(source, globs, watch or Watch())


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
    """Return whether a file of JSON lines has BEIR rows: False only if its first line is an object without `_id`."""
    with path.open("rb") as file:
        first = file.readline(MAX_BYTES).strip()
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not isinstance(row, dict) or "_id" in row


def _read_items(items: Iterator[SourceFile | Document | Problem], watch: Watch) -> Iterator[Document | Problem]:
    for item in items:
        if isinstance(item, SourceFile):
            yield from read_file(item.path, item.relative, watch, only_text=item.named)
        else:
            yield item


def read_rows(path: Path) -> Iterator[Document | Problem]:
    """Yield the rows of a BEIR corpus in order, {"_id", "title", "text"} per line, each as a document of one passage.

    A real row: {"_id": "100045-0-277", "title": "", "text": "\\nThere are PABs (Private Activity Bonds) for …"}.
    A row that cannot be used is a Problem with its line.
    """

    def parse(row: Row) -> tuple[str, Document]:
        title = string({"title": ""} if row.get("title") is None else row, "title").strip()
        key = non_blank(row, "_id")
        return key, Document(id=key, title=title, text=non_blank(row, "text"), path=path.name, is_passage=True)

    try:
        for item in parsed(path, path.name, parse):
            yield item if isinstance(item, Problem) else item[1]
    except RequestError as error:
        yield Problem(file=path.name, what=str(error).removeprefix(f"{path.name}: "))


# --- one file --------------------------------------------------------------------------------------------------------


def read_file(
    path: Path, relative: str, watch: Watch | None = None, only_text: bool = False
) -> Iterator[Document | Problem]:
    """Read the documents of a file; what cannot be read is a Problem that says why. Nothing is raised.

    Args:
        relative: becomes the document's id.
        only_text: a file of unknown type, which is read if it is text.
    """
    watch = watch or Watch()
    try:
        reader = readers().get(path.suffix.lower())
        size, most = path.stat().st_size, reader.largest if reader else MAX_BYTES
        if size > most:
            raise Unreadable(f"{size / 2**20:.0f} MB; a file may have {most // 2**20:,} MB at most, so split it")
        for item in _read(reader, path, relative, watch):
            if isinstance(item, Document) and not item.text.strip():
                yield Problem(file=item.id, what="empty: there is no text in it")
            else:
                yield item
    except NotOfItsType:
        watch.count(relative)
    except Unreadable as error:
        if error.binary and only_text:
            watch.count(relative)
        else:
            yield Problem(file=relative, what=str(error), line=error.line)
    except OSError as error:
        yield Problem(file=relative, what=f"cannot be read ({error.strerror or error}); check its permissions")


def _read(reader: Reader | None, path: Path, relative: str, watch: Watch) -> Iterator[Document | Problem]:
    if reader is not None and reader.apart:
        from turnmark.corpora.readers.apart import read_apart

        yield from read_apart(reader.target, path, relative, watch.tell)
        return
    result = reader.load()(path, relative, no_progress) if reader else read_text(path, relative)
    yield from [result] if isinstance(result, Document) else result


@dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Attributes:
        relative: its path relative to the source, POSIX.
        named: True if its type is unknown and a glob of `include` matches it.
    """

    path: Path
    relative: str
    named: bool


class Globs:
    """The `--include` and `--exclude` of a request, as gitignore-style patterns."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        problems: list[str] = []
        self.include = _patterns("--include", include, problems)
        self._exclude = _patterns("--exclude", exclude, problems)
        # A pattern with '!' may include a file below an excluded folder again, so then no folder is skipped.
        self._prune = not any(pattern.startswith("!") for pattern in exclude)
        if problems:
            raise RequestError(problems)

    def takes(self, relative: str) -> bool:
        """Return whether the globs select a file."""
        if self._exclude is not None and self._exclude.match_file(relative):
            return False
        return self.include is None or bool(self.include.match_file(relative))

    def skips_folder(self, relative: str) -> bool:
        """Return whether the globs exclude everything below a folder."""
        return self._prune and self._exclude is not None and bool(self._exclude.match_file(relative + "/"))


def _patterns(flag: str, patterns: Sequence[str], problems: list[str]) -> GitIgnoreSpec | None:
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError as error:
            problems.append(
                f"{flag} {pattern!r}: not a pattern ({error}); write one as in a .gitignore file, e.g. 'notes/**'"
            )
    return None if problems else GitIgnoreSpec.from_lines(patterns)


def walk(root: Path, globs: Globs, watch: Watch | None = None) -> Iterator[SourceFile | Problem]:
    """Yield the files below `root` that are to be read, folder by folder in the order of their names.

    A link to a file inside `root` is read under the link's name. A link to a folder inside `root` is not followed,
    since the folder is read itself. Hidden files, folders of installed packages and caches are left out.
    """
    watch = watch or Watch()
    base = Path(os.path.realpath(root))
    stack: list[tuple[Path, str, bool, bool, _Specs]] = [(base, "", True, False, ())]
    while stack:
        path, relative, is_folder, in_site, specs = stack.pop()
        if not is_folder:
            yield from _file(base, path, relative, in_site, globs, watch)
            continue
        prefix = f"{relative}/" if relative else ""
        try:
            names = sorted(entry.name for entry in os.scandir(path) if not entry.name.startswith("."))
        except OSError as error:
            yield Problem(file=_shown(relative or str(root)), what=f"the folder cannot be opened ({error.strerror})")
            continue
        spec, problem = _gitignore(path, prefix)
        if problem:
            yield problem
        if spec is not None:
            specs = (*specs, (prefix, spec))
        if relative and any(mark in names for mark in _MARKS_OF_CACHES):
            continue
        # The scripts of a web site are part of its looks.
        in_site = in_site or any(name.lower().endswith((".html", ".htm")) for name in names)
        below = []
        for name in names:
            if name in NOT_ENTERED:
                continue
            inner = prefix + name
            is_folder = (path / name).is_dir() and not (path / name).is_symlink()
            if not _ignored(inner + "/" * is_folder, specs) and not (is_folder and globs.skips_folder(inner)):
                below.append((path / name, inner, is_folder, in_site, specs))
        stack.extend(reversed(below))


def _shown(relative: str) -> str:
    """Return a name that can be printed even if the bytes on the disk are not UTF-8."""
    return os.fsencode(relative).decode("utf-8", "backslashreplace")


def _file(
    base: Path, path: Path, relative: str, in_site: bool, globs: Globs, watch: Watch
) -> Iterator[SourceFile | Problem]:
    reader = readers().get(path.suffix.lower())
    known_type = reader is not None
    by_default = reader is not None and not (in_site and reader.program)
    is_wanted = globs.takes(relative) and (by_default or globs.include is not None)
    if path.is_symlink():
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(base):
            if is_wanted or target.is_dir():
                message = "a link that leads out of the source; replace it by a copy to have it read"
                yield Problem(file=_shown(relative), what=message)
            return
        if is_wanted and not target.exists():
            yield Problem(file=_shown(relative), what="a link to something that does not exist")
    if not path.is_file():  # a pipe or a device would hang the reader
        return
    if not is_wanted:
        if not known_type and globs.takes(relative):
            watch.count(relative)
        return
    if _shown(relative) != relative:
        yield Problem(file=_shown(relative), what="the file's name is not valid UTF-8; rename it")
        return
    yield SourceFile(path, relative, named=not known_type)


def _gitignore(folder: Path, prefix: str) -> tuple[GitIgnoreSpec | None, Problem | None]:
    path = folder / ".gitignore"
    if not path.is_file():
        return None, None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(path.read_text("utf-8", errors="replace").splitlines()), None
    except (OSError, ValueError) as error:
        return None, Problem(file=f"{prefix}.gitignore", what=f"not respected, as it cannot be read ({error})")


def _ignored(relative: str, specs: _Specs) -> bool:
    """Return whether .gitignore files exclude a path. As in git, the file nearest to the path decides."""
    for prefix, spec in reversed(specs):
        verdict = spec.check_file(relative.removeprefix(prefix)).include
        if verdict is not None:
            return verdict
    return False
