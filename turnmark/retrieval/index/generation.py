"""The folder of a generation, as a build writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from turnmark.core.home import file_sha256
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.encoded_values import APPENDED_FILES, EncodedValues
from turnmark.retrieval.index.encoders import Encoder
from turnmark.retrieval.search.opened_index import generation_folder
from turnmark.retrieval.storage.manifest import Manifest
from turnmark.retrieval.storage.passage_store import PASSAGES_FILE, IndexRows, PassageStore, rows_file
from turnmark.retrieval.storage.passage_writer import PassageWriter
from turnmark.retrieval.storage.picture_store import LIST_FILE
from turnmark.retrieval.tables.table_update import TableUpdate
from turnmark.retrieval.tables.table_writer import tables_file

_MARK_FILE = "models"
_STAMPS_FILE = "stamps"


def read_mark(folder: Path) -> str:
    """Return what a generation's files were made for, or "" if that is not known."""
    file = folder / _MARK_FILE
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def has_foreign_changes(folder: Path) -> bool:
    """Return whether a file of a generation has another size or time than when the last build closed it."""
    file = folder / _STAMPS_FILE
    if not file.is_file():
        return True
    return not set(file.read_text(encoding="utf-8", errors="replace").splitlines()) <= set(_stamps(folder))


def _stamps(folder: Path) -> list[str]:
    """Return name, size and time of all files of a generation but SQLite's logs, which readers change."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    states = {path.relative_to(folder).as_posix(): path.stat() for path in files if path.name != _STAMPS_FILE}
    return [f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in states.items()]


class Generation:
    """The files of a generation, opened to be added to.

    Args:
        index: the index's folder.
        revision: the number under which the next state is published.
        encoders: the models whose values it has.
        mark: what a new generation is made for; for an existing one it is read.

    Attributes:
        tables: the stored tables; those of the current generation are set before the source is read.
        late_stamps: stamps and paths of files that count as known once the build is complete, since only then their
            tables and pictures are stored.
    """

    def __init__(self, index: Path, number: int, revision: int, encoders: Sequence[Encoder], mark: str = "") -> None:
        self.number, self.folder = number, generation_folder(index, number)
        if mark:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / _MARK_FILE).write_text(mark, encoding="utf-8")
        self.mark = read_mark(self.folder)
        self.store = PassageWriter(self.folder / PASSAGES_FILE, revision)
        self.values: dict[str, EncodedValues] = {}
        self.tables = TableUpdate(self.folder, None, "")
        self.late_stamps: list[tuple[str, str]] = []
        try:
            for encoder in encoders:
                self.values[encoder.name] = EncodedValues(self.store, self.folder, encoder)
        except BaseException:
            self.close()
            raise

    def passages(self, keys: Sequence[int]) -> list[Passage]:
        """Return the passages with some keys."""
        array = np.array(keys, dtype=np.int64)
        with closing(PassageStore(self.folder / PASSAGES_FILE, self.store.revision, array)) as reading:
            return reading.by_rows(range(len(keys)))

    def contents(self, missing: Sequence[tuple[str, int]]) -> list[tuple[str, Passage]]:
        """Return content hash and passage, for hashes and keys."""
        passages = self.passages([key for _, key in missing])
        return [(content, passage) for (content, _), passage in zip(missing, passages, strict=True)]

    def publish(self, rows: IndexRows) -> None:
        """Write the rows of the next state, and the checksums of what has been added. The manifest comes after it."""
        self.store.publish(self.folder, rows)
        for name in APPENDED_FILES:
            if (self.folder / name).exists():
                self.store.add_sum(self.folder, name, self.store.summed(name))

    def add_manifest(self, manifest: Manifest) -> None:
        """Store the checksums of the manifest and of its tables, and have everything on disk before it."""
        self.store.note(manifest_key(manifest.revision), manifest.checksum())
        if manifest.tables:
            self.store.add_sum(self.folder, tables_file(manifest.tables))
        for path in (self.folder / "pictures").glob("*"):
            if path.name == LIST_FILE or not self.store.get(picture_key(path.name)):
                self.store.note(picture_key(path.name), file_sha256(path))
        for values in self.values.values():
            values.sync()
        self.store.sync()

    def finish_revision(self) -> None:
        """Go on to the next revision, after the manifest was written."""
        self.store.set_stamps(self.late_stamps)
        self.late_stamps = []
        self.store.revision += 1

    def drop_revisions(self, kept: Sequence[Manifest]) -> None:
        """Delete what only earlier states had."""
        names = {name for each in kept for name in (rows_file(each.revision), tables_file(each.tables))}
        for path in (*self.folder.glob("rows-*.npy"), *self.folder.glob("tables/*.db")):
            name = path.relative_to(self.folder).as_posix()
            if name not in names:
                path.unlink(missing_ok=True)
                self.store.drop_sum(name)

    def close(self) -> None:
        """Close the files."""
        for values in self.values.values():
            values.close()
        self.tables.close()
        self.store.close()
        with suppress(OSError):  # the next build then checks all files
            (self.folder / _STAMPS_FILE).write_text("\n".join(_stamps(self.folder)), encoding="utf-8")


def picture_key(name: str) -> str:
    """Return the name under which the state has the checksum of a picture, or of their list."""
    return f"picture {name}"


def manifest_key(revision: int) -> str:
    """Return the name under which the state has the checksum of a manifest."""
    return f"manifest {revision}"
