"""The files that were added on the page. They are in a folder of their own below the home, and have an index."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from collections.abc import AsyncIterable, Sequence
from pathlib import Path

from turnmark.assistant.serving.request_bodies import RejectedRequest, short_name
from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.home import home
from turnmark.core.untrusted import ellipsize, valid_text
from turnmark.corpora.readers import readers
from turnmark.retrieval.index.build import BuildReport, build_again, build_index
from turnmark.retrieval.search.opened_index import list_indexes
from turnmark.retrieval.search.rebuild_commands import spec_of_components
from turnmark.retrieval.storage.manifest import Manifest

MAX_FILE_BYTES = 50_000_000
"""Maximum size of an added file."""
MAX_FILES = 1_000
"""Maximum number of added files of one server."""
MAX_TOTAL_BYTES = 2_000_000_000
"""Maximum size of all of them."""
MAX_NAME_BYTES = 150
"""Maximum length of the name of a stored file in UTF-8, which file systems limit to 255 bytes."""
_ADDED = "added"
_UNSAFE_CHARACTER = re.compile(r"[^\w .,()+@&=#-]")


def added_index(names: Sequence[str]) -> str:
    """Return the name of the index of the files that are added to some indexes: that of the first one, and "added"."""
    first = names[0] if names else _ADDED
    return first if first == _ADDED or first.endswith(f"-{_ADDED}") else f"{first}-{_ADDED}"


def with_added_index(names: Sequence[str]) -> list[str]:
    """Return the names with that of the index of added files, if there is one."""
    added = added_index(names)
    known = {manifest.name for manifest in list_indexes()}
    return list(dict.fromkeys((*names, *({added} & known))))


def safe_name(given: str) -> str:
    """Return the name under which an added file is stored, which is never a path.

    Folders become part of the name. A name that had to be changed gets a hash, so that it replaces no other file.

    Raises:
        RejectedRequest: no reader reads files with this suffix.
    """
    given = unicodedata.normalize("NFC", valid_text(given))
    parts = [part for part in re.split(r"[/\\]", given) if part]
    clean = [_UNSAFE_CHARACTER.sub("_", part).strip(" .") for part in parts]
    stem, dot, suffix = " - ".join(filter(None, clean)).rpartition(".")
    if not stem or f".{suffix.lower()}" not in readers():
        shown = short_name(given) or "a file without a name"
        raise RejectedRequest(f"{shown}: files of this type are not read", "name", 415, "file_type")
    short = stem.encode()[:MAX_NAME_BYTES].decode(errors="ignore").rstrip(" .")
    if clean != parts or short != stem:
        short = f"{short} {hashlib.sha256(given.encode()).hexdigest()[:8]}"
    return f"{short}{dot}{suffix.lower()}"


class AddedFiles:
    """The folder of added files, and the build of their index.

    Args:
        names: the indexes that the files are added to.
        retriever: spec of the retriever to build for if there are none.
    """

    def __init__(self, names: Sequence[str], retriever: str | None = None) -> None:
        self.index, self._retriever = added_index(names), retriever
        self._base = names[0] if names else ""
        self.folder = home() / _ADDED / self.index

    def names(self) -> list[str]:
        """Return the names of the files."""
        if not self.folder.is_dir():
            return []
        return sorted(file.name for file in self.folder.iterdir() if file.is_file() and not file.name.startswith("."))

    async def add(self, given: str, pieces: AsyncIterable[bytes]) -> str:
        """Store a file, or replace the one with its name; return its name.

        Raises:
            RejectedRequest: the file or all of them are too large, or files of its type are not read.
        """
        name = safe_name(given)
        known = self.names()
        if name not in known and len(known) >= MAX_FILES:
            raise RejectedRequest(f"there are {MAX_FILES:,} added files, which is the limit", status=413)
        stored = sum((self.folder / each).stat().st_size for each in known)
        most = min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - stored)
        self.folder.mkdir(parents=True, exist_ok=True)
        part, size = self.folder / f".{uuid.uuid4().hex}.part", 0
        try:
            with open(part, "xb") as file:
                async for piece in pieces:
                    size += len(piece)
                    if size > most:
                        limit = f"a file of at most {MAX_FILE_BYTES:,} bytes, and {MAX_TOTAL_BYTES:,} for all"
                        raise RejectedRequest(f"{short_name(given)}: too large; expected {limit}", status=413)
                    file.write(piece)
            part.replace(self.folder / name)
        except OSError as error:
            raise RejectedRequest(f"{short_name(given)}: cannot be stored ({error.strerror})", status=507) from error
        finally:
            part.unlink(missing_ok=True)
        return name

    def remove(self, name: str) -> None:
        """Delete a file; raise RejectedRequest if none has this name."""
        if name not in self.names():
            shown = ellipsize(short_name(name), MAX_NAME_BYTES)
            raise RejectedRequest(f"no file that was added here is called {shown!r}", "name", 404, "no_file")
        (self.folder / name).unlink(missing_ok=True)

    def build(self, progress: Progress) -> BuildReport:
        """Build the index, or bring it up to date. A new one gets the models of the index that it is served with."""
        manifests = {manifest.name: manifest for manifest in list_indexes()}
        if self.index in manifests:
            return build_again(self._checked(manifests[self.index]), progress)
        base = manifests.get(self._base)
        retriever = spec_of_components(base) if base else self._retriever
        embedder = base.embedder.spec if base and base.embedder else None
        return build_index(self.folder, self.index, retriever=retriever, embedder=embedder, progress=progress)

    def _checked(self, manifest: Manifest) -> Manifest:
        """Return the manifest of the index of added files; TurnmarkError if it is of another folder."""
        if Path(manifest.source).resolve() != self.folder.resolve():
            raise TurnmarkError(f"the index {self.index} is of another folder; remove it to add files here")
        return manifest
