"""Selects the files of a folder to read: those of known types that no .gitignore file or glob excludes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnmark.core.errors import RequestError
from turnmark.corpora.readers.registry import readers
from turnmark.corpora.readers.report import ReadingReport, printable_path
from turnmark.corpora.types import Problem

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    _IgnoreSpecs = tuple[tuple[str, GitIgnoreSpec], ...]
    """Each folder with a trailing '/' and its .gitignore, from the outermost."""

# Folders of installed packages and of caches.
SKIPPED_FOLDERS = frozenset(("node_modules", "bower_components", "__pycache__", "__MACOSX"))
_CACHE_MARKERS = ("CACHEDIR.TAG", "pyvenv.cfg")
_LEFT_OUT_PREFIXES = (".", "~$")
"""Beginnings of the names of hidden files, and of the files with which Office locks an open document."""


@dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Attributes:
        location: its path in the file system. Most files have not changed, and need no `Path`.
        relative: its path relative to the source, POSIX.
        named: True if its type is unknown and a glob of `include` matches it.
    """

    location: str
    relative: str
    named: bool

    @property
    def path(self) -> Path:
        """Its path in the file system."""
        return Path(self.location)


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

    def selects(self, relative: str) -> bool:
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


def walk(root: Path, globs: Globs, report: ReadingReport | None = None) -> Iterator[SourceFile | Problem]:
    """Yield the files below `root` that are to be read, folder by folder in the order of their names.

    A link to a file inside `root` is read under the link's name. A link to a folder inside `root` is not followed,
    since the folder is read itself. Hidden files, folders of installed packages, caches and the lock files of Office
    are left out.

    Raises:
        RequestError: `root` cannot be opened.
    """
    report = report or ReadingReport()
    base = os.path.realpath(root)
    stack = [_Place(base, "", is_folder=True)]
    while stack:
        place = stack.pop()
        if not place.is_folder:
            yield from _select_file(base, place, globs, report)
            continue
        try:
            entries, problem = _list_folder(place, globs)
        except OSError as error:
            if not place.relative:
                message = f"{root}: the folder cannot be opened ({error.strerror}); check its permissions"
                raise RequestError(message) from error
            report.unopened.append(place.relative)
            what = f"the folder cannot be opened ({error.strerror})"
            yield Problem(file=printable_path(place.relative), what=what)
            continue
        if problem:
            yield problem
        stack.extend(entry for entry, reason in reversed(entries) if not reason)


def reason_to_skip(root: Path, relative: str, globs: Globs) -> str:
    """Return why `walk` does not read an existing file, or why it cannot; empty if it reads it."""
    base = os.path.realpath(root)
    place = _Place(base, "", is_folder=True)
    for name in relative.split("/"):
        inner = f"{place.relative}/{name}" if place.relative else name
        try:
            entries, _ = _list_folder(place, globs)
        except OSError as error:
            return f"the folder {place.relative} cannot be opened ({error.strerror})"
        found = (each for each in entries if each[0].relative == inner)
        place, reason = next(found, (place, f"{inner} does not exist"))
        if reason:
            return reason
    report = ReadingReport()
    for item in _select_file(base, place, globs, report):
        return item.what if isinstance(item, Problem) else ""
    if not globs.selects(relative):
        return "--exclude excludes it" if globs.include is None else "--include and --exclude do not select it"
    if report.unread or readers().get(_suffix_of(relative)) is None:
        kind = f"files of the type {_suffix_of(relative)}" if _suffix_of(relative) else "files without a suffix"
        return f"{kind} are not read; --include reads it as text"
    return "scripts and pictures of a web site are not read" if place.is_plain else "it is no regular file"


class _Place(NamedTuple):
    """A file or a folder below the source.

    Attributes:
        relative: its path relative to the source, POSIX; empty for the source itself.
        in_site: True if HTML pages are in the same folder or above it, so that scripts and pictures belong to a web
            site.
        specs: the .gitignore files that apply to it.
        is_plain: True for a file that is no link, no pipe and no device.
    """

    path: str
    relative: str
    is_folder: bool
    in_site: bool = False
    specs: _IgnoreSpecs = ()
    is_plain: bool = False


def _list_folder(folder: _Place, globs: Globs) -> tuple[list[tuple[_Place, str]], Problem | None]:
    """Return what a folder contains, by name, each with why it is left out, and what is wrong with its .gitignore.

    The reason is empty for what is not left out.
    """
    prefix = f"{folder.relative}/" if folder.relative else ""
    with os.scandir(folder.path) as found:
        entries = {entry.name: entry for entry in found}
    spec, problem = _gitignore(Path(folder.path), prefix)
    specs = (*folder.specs, (prefix, spec)) if spec is not None else folder.specs
    marker = next((mark for mark in _CACHE_MARKERS if prefix and mark in entries), None)
    shown = (name for name in entries if not name.startswith(_LEFT_OUT_PREFIXES))
    in_site = folder.in_site or any(name.lower().endswith((".html", ".htm")) for name in shown)
    places: list[tuple[_Place, str]] = []
    for name in sorted(entries):
        inner, entry, reason = prefix + name, entries[name], ""
        is_folder = entry.is_dir(follow_symlinks=False)
        if name.startswith(_LEFT_OUT_PREFIXES):
            reason = f"hidden files and folders are not read ({inner})"
        elif name in SKIPPED_FOLDERS:
            reason = f"folders of packages and caches are not read ({inner})"
        elif marker:
            reason = f"{folder.relative} is a cache or a virtual environment, as it contains {marker}"
        elif is_folder and globs.skips_folder(inner):
            reason = "--exclude excludes its folder"
        elif specs and _is_ignored(inner + "/" * is_folder, specs):
            reason = f".gitignore excludes {inner}"
        is_plain = entry.is_file(follow_symlinks=False)
        places.append((_Place(entry.path, inner, is_folder, in_site, specs, is_plain), reason))
    return places, problem


def _select_file(base: str, place: _Place, globs: Globs, report: ReadingReport) -> Iterator[SourceFile | Problem]:
    """Yield a file if it is to be read, or a Problem. `base` is the source with links resolved."""
    relative = place.relative
    reader = readers().get(_suffix_of(relative))
    by_default = reader is not None and not (place.in_site and reader.site_part)
    is_taken = globs.selects(relative)
    is_wanted = is_taken and (by_default or globs.include is not None)
    path = None if place.is_plain else Path(place.path)
    if path is not None and path.is_symlink():
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(base):
            if is_wanted or target.is_dir():
                message = "a link that leads out of the source; to read the file, replace the link with a copy"
                yield Problem(file=printable_path(relative), what=message)
            return
        if is_wanted and not target.exists():
            yield Problem(file=printable_path(relative), what="a link to something that does not exist")
    if path is not None and not path.is_file():  # a pipe or a device would block the reader
        return
    if not is_wanted:
        if reader is None and is_taken:
            report.count_unread(relative)
    elif not relative.isascii() and printable_path(relative) != relative:
        yield Problem(file=printable_path(relative), what="the file's name is not valid UTF-8; rename it")
    else:
        yield SourceFile(place.path, relative, named=reader is None)


def _suffix_of(relative: str) -> str:
    """Return the suffix of a path in lower case, as `Path.suffix` does, which takes far longer."""
    stem, _, suffix = relative.rpartition("/")[2].rpartition(".")
    return f".{suffix}".lower() if stem and suffix else ""


def _gitignore(folder: Path, prefix: str) -> tuple[GitIgnoreSpec | None, Problem | None]:
    path = folder / ".gitignore"
    if not path.is_file():
        return None, None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(path.read_text("utf-8-sig", errors="replace").splitlines()), None
    except (OSError, ValueError) as error:
        return None, Problem(file=f"{prefix}.gitignore", what=f"not respected, as it cannot be read ({error})")


def _is_ignored(relative: str, specs: _IgnoreSpecs) -> bool:
    """Return whether .gitignore files exclude a path. As in git, the file nearest to the path decides."""
    for prefix, spec in reversed(specs):
        verdict = spec.check_file(relative.removeprefix(prefix)).include
        if verdict is not None:
            return verdict
    return False
