"""The components of an index: their presence, their part on a server, and their checksums; and removal.

The manifest says which components an index has. A component is a file or a folder in the generation's folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.grouping import batched
from turnmark.core.home import check_name, file_sha256, sha256_between
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.encoded_values import APPENDED_FILES
from turnmark.retrieval.index.generation import Generation, has_foreign_changes, manifest_key, picture_key
from turnmark.retrieval.ranking.bm25 import COUNT_TYPE, POSTINGS
from turnmark.retrieval.ranking.postings import Postings
from turnmark.retrieval.ranking.vectors import FlatVectors
from turnmark.retrieval.search.opened_index import StoredIndex, indexes_folder, lock_index, open_index
from turnmark.retrieval.storage import chroma
from turnmark.retrieval.storage.filters import PASSAGE_KEYS
from turnmark.retrieval.storage.manifest import Manifest
from turnmark.retrieval.storage.passage_store import PASSAGES_FILE, IndexRows, rows_file
from turnmark.retrieval.storage.passage_writer import SPARSE_POSTINGS, SPARSE_TYPE, digest_of
from turnmark.retrieval.storage.server_addresses import NOTE_FILE, assign_name, read_note
from turnmark.retrieval.tables.table_writer import tables_file

_PAGE = 1000


def component_names(manifest: Manifest) -> list[str]:
    """Return the files and folders that an index with this manifest has in its generation's folder."""
    with_vectors = manifest.embedder is not None
    parts = {
        PASSAGES_FILE: True, rows_file(manifest.revision): True, "exact": with_vectors,
        "tokens": with_vectors and manifest.tokens, "chroma": with_vectors and manifest.server is not None,
        tables_file(manifest.tables): bool(manifest.tables), "pictures": manifest.described is not None,
    }  # fmt: skip
    return [name for name, is_there in parts.items() if is_there]


def has_all_components(index: StoredIndex) -> bool:
    """Return whether the files of all components exist; they are not checked."""
    return all((index.files / name).exists() for name in component_names(index.manifest))


def find_foreign_damage(index: StoredIndex) -> str:
    """Return what is damaged in files that something else than a build has changed, or "".

    An unchanged size and time counts as intact.
    """
    return next(iter(verify_index(index)), "") if has_foreign_changes(index.files) else ""


# --- a server --------------------------------------------------------------------------------------------------------


def write_to_server(place: Generation, manifest: Manifest, rows: IndexRows, progress: Progress) -> None:
    """Add the vectors of new passages to Chroma on a server, and remove those that no published state has.

    The passages of the previous state stay until the next build, since a running chat may search it.
    """
    assert manifest.server is not None, "the caller asks for a server"
    folder, store = place.folder / "chroma", place.store
    stored_until = int(store.get("on server") or -1)
    if stored_until < 0:
        assign_name(folder, manifest.server)
    vectors = chroma.ChromaVectors(folder, create=stored_until < 0)
    added = store.rows_made_after(stored_until)
    progress.start("chroma", len(added))
    assert manifest.embedder is not None, "vectors are made by an embedder"
    flat = FlatVectors(place.folder, rows.slots, manifest.embedder.dimension)
    row_of = {key: row for row, key in enumerate(rows.keys.tolist())}
    for page in batched(added, _PAGE):
        passages = place.passages([key for key, _ in page])
        vectors.add(
            [str(key) for key, _ in page],
            flat.of([row_of[key] for key, _ in page]),
            [{"hash": content, **_where_values(each)} for (_, content), each in zip(page, passages, strict=True)],
        )
        progress.advance(len(page))
    vectors.remove([str(key) for key in store.keys_gone_between(stored_until, store.revision)])
    vectors.close()
    store.note("on server", str(store.revision))


def _where_values(passage: Passage) -> dict[str, Any]:
    """Return the values that `--where` filters by, as Chroma stores them with a passage."""
    values = {key: getattr(passage, key) for key in PASSAGE_KEYS}
    return {key: value for key, value in values.items() if value is not None}


# --- checksums and removal -------------------------------------------------------------------------------------------


def verify_index(index: StoredIndex) -> list[str]:
    """Compare the files of an index, and what it has on a server, with their checksums; return the problems."""
    try:
        names = component_names(index.manifest)
        problems = [f"{name} is missing" for name in names if not (index.files / name).exists()]
        for check in (_damaged_database, _changed_files, _differing_documents, _differing_server):
            if not problems:
                problems = list(check(index))
        return problems
    except (TurnmarkError, OSError) as error:
        return [str(error)]


def _damaged_database(index: StoredIndex) -> Iterator[str]:
    """Yield what is wrong with the structure of the database, and with postings."""
    for (said,) in index.store.select("PRAGMA integrity_check(1)"):
        if said != "ok":
            yield f"{PASSAGES_FILE} is damaged: {said}"
            return
    for table, value_type in ((POSTINGS, COUNT_TYPE), (SPARSE_POSTINGS, SPARSE_TYPE)):
        for term in Postings(index.store.select, table, value_type).damaged():
            yield f"{PASSAGES_FILE} is damaged: the postings of {term!r} differ from their checksum"


def _changed_files(index: StoredIndex) -> Iterator[str]:
    """Yield a message for every file that differs from what builds wrote."""
    manifest = index.manifest
    stored = dict(index.store.select('SELECT "name", "value" FROM state'))
    if stored.get(manifest_key(manifest.revision)) != manifest.checksum():
        yield f"manifest.json is damaged: its SHA-256 differs from the one in {PASSAGES_FILE}"
    names = {*APPENDED_FILES, rows_file(manifest.revision), tables_file(manifest.tables)}
    damaged: set[str] = set()
    for name, start, end, digest in index.store.select('SELECT * FROM sums ORDER BY "file", "start"'):
        if name in names and name not in damaged and sha256_between(index.files / name, start, end) != digest:
            damaged.add(name)
            yield f"{name} is damaged: its SHA-256 differs from the one in {PASSAGES_FILE}"
    for key, digest in stored.items():
        if key.startswith(picture_key("")) and manifest.described is not None:
            path = index.files / "pictures" / key.removeprefix(picture_key(""))
            if not path.is_file() or file_sha256(path) != digest:
                yield f"pictures/{path.name} is damaged: its SHA-256 differs from the one in {PASSAGES_FILE}"


def _differing_documents(index: StoredIndex) -> Iterator[str]:
    """Yield a message if the passages differ from the fingerprint of all documents."""
    total = 0
    rows = chain.from_iterable(index.store.pages())
    for _, group in groupby(rows, key=lambda row: row[2].document):
        passages: list[Passage] = []
        for _, content, passage in group:
            if passage.content_hash != content:
                yield f"{PASSAGES_FILE} is damaged: the text of {passage.id!r} differs from its hash"
                return
            passages.append(passage)
        total += int(digest_of(passages), 16)
    if f"{total % 2**256:064x}" != index.manifest.digest:
        yield f"{PASSAGES_FILE} is damaged: its passages differ from the fingerprint in manifest.json"


def _differing_server(index: StoredIndex) -> Iterator[str]:
    """Compare all keys and content hashes on a server with the passages."""
    if index.manifest.server is None:
        return
    keys = index.rows.keys.tolist()
    expected = {str(keys[row]): content for page in index.store.pages() for row, content, _ in page}
    stored = {key: content for key, content in index.chroma.rows() if key in expected}
    differing = [key for key in expected if expected[key] != stored.get(key)]
    if differing:
        yield f"chroma does not match the {len(expected)} passages: {len(differing)} differ, e.g. {min(differing)!r}"


def delete_served(folder: Path) -> list[str]:
    """Delete the collections on servers that the notes in a folder name. Call this before the folder is deleted.

    Returns:
        A message for each collection that could not be deleted, because its server was not reached or refused.
    """
    leftovers = []
    for note in sorted(folder.rglob(NOTE_FILE)):
        try:
            served = read_note(note.parent)
            if served:
                chroma.delete_collection(served)
        except (ValueError, TurnmarkError) as error:
            leftovers.append(f"the collection that {note} names is left on its server: {error}")
    return leftovers


def remove_index(name: str) -> None:
    """Delete an index. The manifest is deleted first, so that no half-deleted index is opened by mistake."""
    folder = indexes_folder() / check_name(name, "index")
    if not folder.is_dir():
        open_index(name)
    with lock_index(folder):
        (folder / "manifest.json").unlink(missing_ok=True)
        leftovers = delete_served(folder)
        shutil.rmtree(folder)
    if leftovers:
        raise TurnmarkError("\n".join(f"index {name!r} is removed, but {problem}" for problem in leftovers))
