"""The stored tables of a build. They are written again only if a document with tables is added, changed or removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from turnmark.corpora.tables.data_tables import tables_of_document
from turnmark.corpora.types import Document
from turnmark.retrieval.tables.table_writer import UNFINISHED_TABLES, CurrentTables, TableWriter, tables_file


class TableUpdate:
    """The tables of a build in the order of the source, which decides about their names.

    Args:
        folder: the generation's folder.
        current: the file with the tables of the index, or None if it has none.
        digest: its fingerprint.
    """

    def __init__(self, folder: Path, current: Path | None, digest: str) -> None:
        self._folder, self._digest = folder, digest if current is not None else ""
        self._current = self._opened = CurrentTables(current) if current is not None else None
        self._kept: list[str] = []
        """Documents that stay as they are, until the first one with tables changes."""
        self._writer: TableWriter | None = None

    def keep(self, documents: Iterable[str]) -> None:
        """Keep the tables of the next documents of the source as they are."""
        if self._current is None:
            return
        if self._writer is None:
            self._kept += documents
            return
        for document in documents:
            self._writer.copy(self._current, document)

    def add(self, document: Document) -> tuple[bool, bool]:
        """Take the tables of the next document; return whether it has some, and whether they differ from the index's.

        Once a table is written, those of all other documents are written again.
        """
        old = self._digests(document.id)
        has_tables = next(iter(tables_of_document(document)), None) is not None
        if not old and not has_tables:
            return False, False
        return has_tables, self._started().add(document) != old

    def remove(self, documents: Iterable[str]) -> None:
        """Take notice of documents that are gone."""
        if any(map(self._digests, documents)):
            self._started()

    def _digests(self, document: str) -> list[str]:
        return self._current.digests(document) if self._current is not None else []

    def _started(self) -> TableWriter:
        if self._writer is None:
            self._writer = TableWriter(self._folder / UNFINISHED_TABLES)
            kept, self._kept = self._kept, []
            self.keep(kept)
        return self._writer

    def finish(self) -> str:
        """Write the file if tables have changed, and return the fingerprint of all. Nothing is added after it."""
        if self._writer is None:
            target = self._folder / tables_file(self._digest)
            if self._current is not None and not target.exists():  # the folder is of a new generation
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(self._current.path, target)
            return self._digest
        self._writer.finish()
        self._digest = self._writer.digest()
        self._writer.close()
        writer, self._writer = self._writer, None
        if self._digest:
            target = self._folder / tables_file(self._digest)
            target.parent.mkdir(exist_ok=True)
            writer.path.replace(target)
        self._current = None
        return self._digest

    def close(self) -> None:
        """Close the files, and delete an unfinished one."""
        if self._opened is not None:
            self._opened.close()
        if self._writer is not None:
            self._writer.close()
            self._writer.path.unlink(missing_ok=True)
