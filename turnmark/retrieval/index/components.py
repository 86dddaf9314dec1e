"""The components of an index: how each is written, read back for a rebuild, and verified.

The manifest says which components an index has. A component is a folder in the generation's folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.home import check_name, file_sha256, write_json
from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.embedding.embedders import Embedder, open_embedder
from turnmark.retrieval.ranking.bm25 import build_bm25
from turnmark.retrieval.ranking.vectors import pack_tokens_of, stack_vectors, write_tokens, write_vectors
from turnmark.retrieval.search.opened_index import StoredIndex, indexes_folder, lock_index, open_index
from turnmark.retrieval.search.sparse import SpladeEncoder, open_encoder, pack_terms, postings_of, write_sparse
from turnmark.retrieval.storage import chroma
from turnmark.retrieval.storage.manifest import BuildSettings, Manifest, ModelInfo
from turnmark.retrieval.storage.passage_store import WHERE_KEYS, Checkpoint, PassageStore
from turnmark.retrieval.storage.server_addresses import NOTE_FILE, assign_name, read_note
from turnmark.retrieval.tables.table_writer import TABLES_FILE, UNFINISHED_TABLES

VECTORS = "vectors"
"""Key of the passages' vectors in a checkpoint. Two components store them."""
CHUNK_SIZE = 256  # tokens; docs/measured.md has figures for smaller sizes
SPECIAL_TOKENS = 2

Page = Sequence[tuple[int, str, Passage]]
"""(row, content hash, passage), as `PassageStore.pages` yields them."""


@dataclass(frozen=True)
class BuildFiles:
    """The inputs that a component is written from.

    Attributes:
        write_pictures: writes the described pictures into a new folder, or None if there are none.
    """

    folder: Path
    manifest: Manifest
    store: PassageStore
    checkpoint: Checkpoint
    progress: Progress
    write_pictures: Callable[[Path], None] | None = None

    def values(self, key: str) -> Iterator[list[bytes]]:
        """Yield pages of the checkpoint's values of a key, in row order."""
        for page in self.store.pages():
            yield self.checkpoint.get(key, [content for _, content, _ in page])


class Component:
    """A component of an index. `name` is its folder; `key` is the key of its values in a checkpoint."""

    name: ClassVar[str]
    key: ClassVar[str]

    def made_by(self, manifest: Manifest) -> str | None:
        """Return the fingerprint of the component's model, empty without a model.

        None means that an index with this manifest lacks the component.
        """
        raise NotImplementedError

    def write(self, files: BuildFiles) -> None:
        """Write the component to a new folder, from the checkpoint."""
        raise NotImplementedError

    def stored(self, index: StoredIndex, page: Page) -> Mapping[str, bytes]:
        """Return content hash -> checkpoint value, read from a finished index, for the passages that have one."""
        raise NotImplementedError

    def verify(self, index: StoredIndex) -> Iterator[str]:  # noqa: ARG002
        """Yield the faults of the component that its files' checksums do not show."""
        return iter(())


class BM25Component(Component):
    """BM25, a component of every index: it is cheap and needs no model."""

    name = key = "bm25"

    def made_by(self, manifest: Manifest) -> str | None:  # noqa: ARG002
        return ""

    def write(self, files: BuildFiles) -> None:
        files.progress.start("bm25", None)
        texts = (passage.indexed_text for page in files.store.pages() for _, _, passage in page)
        build_bm25(texts, files.folder / self.name, files.manifest.bm25, files.store.languages())


class ChromaComponent(Component):
    """The embedder's vectors in Chroma: on a server, or in files if there are too many for exact search."""

    name, key = "chroma", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and not manifest.exact else None

    def write(self, files: BuildFiles) -> None:
        files.progress.start(self.name, files.manifest.passages)
        folder, server = files.folder / self.name, files.manifest.server
        vectors = chroma.ChromaVectors(folder, create=True, server=assign_name(folder, server) if server else None)
        for page, values in zip(files.store.pages(), files.values(self.key), strict=True):
            vectors.add(
                [passage.id for _, _, passage in page],
                stack_vectors(values),
                [{"hash": content, **_where_values(passage)} for _, content, passage in page],
            )
            files.progress.advance(len(page))
        vectors.close()

    def stored(self, index: StoredIndex, page: Page) -> Mapping[str, bytes]:
        contents = {passage.id: content for _, content, passage in page}
        vectors = index.chroma.get(list(contents))
        return {contents[identifier]: vector.tobytes() for identifier, vector in vectors.items()}

    def verify(self, index: StoredIndex) -> Iterator[str]:
        """Compare all ids and content hashes with the passages: Chroma's files change, so they have no checksums."""
        expected: dict[str, str] = {}
        for page in index.store.pages():
            for _, content, passage in page:
                expected[passage.id] = content
        stored = dict(index.chroma.rows())
        differing = [key for key in expected.keys() | stored.keys() if expected.get(key) != stored.get(key)]
        if differing:
            yield (
                f"chroma does not match the {len(expected)} passages: {len(differing)} differ, e.g. {min(differing)!r}"
            )


class FlatComponent(Component):
    """The embedder's vectors in one file, for indexes that are small enough for exact search."""

    name, key = "exact", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.exact else None

    def write(self, files: BuildFiles) -> None:
        assert files.manifest.embedder is not None, "see `made_by`"
        shape = files.manifest.passages, files.manifest.embedder.dimension
        write_vectors(files.folder / self.name, files.values(self.key), *shape)

    def stored(self, index: StoredIndex, page: Page) -> Mapping[str, bytes]:
        vectors = index.flat.of([row for row, _, _ in page])
        return {content: vector.tobytes() for (_, content, _), vector in zip(page, vectors, strict=True)}


class TokensComponent(Component):
    """The token vectors of the embedder, for late interaction."""

    name = key = "tokens"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.tokens else None

    def write(self, files: BuildFiles) -> None:
        files.progress.start(self.name, None)
        write_tokens(files.folder / self.name, lambda: files.values(self.key))

    def stored(self, index: StoredIndex, page: Page) -> Mapping[str, bytes]:
        return {content: index.tokens.packed(row) for row, content, _ in page}


class SpladeComponent(Component):
    """The term weights of a sparse encoder."""

    name = key = "splade"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.splade.fingerprint if manifest.splade else None

    def write(self, files: BuildFiles) -> None:
        assert files.manifest.splade is not None, "see `made_by`"
        files.progress.start(self.name, None)
        write_sparse(files.folder / self.name, lambda: files.values(self.key), files.manifest.splade.dimension)

    def stored(self, index: StoredIndex, page: Page) -> Mapping[str, bytes]:
        vectors = postings_of(index).vectors([row for row, _, _ in page])
        return {content: pack_terms(vector) for (_, content, _), vector in zip(page, vectors, strict=True)}


class TablesComponent(Component):
    """The stored tables, which are written while the documents are read."""

    name = key = "tables"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.tables or None

    def write(self, files: BuildFiles) -> None:
        (files.folder / self.name).mkdir()
        (files.folder / UNFINISHED_TABLES).replace(files.folder / TABLES_FILE)


class PicturesComponent(Component):
    """The described pictures and their list."""

    name = key = "pictures"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.described.fingerprint if manifest.described else None

    def write(self, files: BuildFiles) -> None:
        assert files.write_pictures is not None, "see `made_by`"
        files.write_pictures(files.folder / self.name)


COMPONENTS = (
    BM25Component(), ChromaComponent(), FlatComponent(), TokensComponent(), SpladeComponent(), TablesComponent(),
    PicturesComponent(),
)  # fmt: skip


def components_of(manifest: Manifest) -> list[Component]:
    """Return the components of an index with this manifest."""
    return [component for component in COMPONENTS if component.made_by(manifest) is not None]


def has_all_components(index: StoredIndex) -> bool:
    """Return whether the files of all components exist; they are not checked."""
    names = ["passages.db", *(component.name for component in components_of(index.manifest))]
    return all((index.files / name).exists() for name in names)


def _where_values(passage: Passage) -> dict[str, Any]:
    """Return the values that `--where` filters by, as Chroma stores them with a passage."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {key: value for key, value in values.items() if value is not None}


# --- the models of a build -------------------------------------------------------------------------------------------


Values = Mapping[str, Sequence[bytes]]
"""The values of some passages by checkpoint key, in one order for all keys."""


@dataclass(frozen=True)
class Encoder:
    """One pass of a model over texts, which returns the values of one or more checkpoint keys."""

    keys: tuple[str, ...]
    encode: Callable[[Sequence[str]], Values]
    on_gpu: bool = False
    """Whether a model on a GPU encodes, which takes many texts at once."""


def _dense_encoder(embedder: Embedder, tokens: bool) -> Encoder:
    """Return the encoder of vectors and, with `tokens`, of token vectors in the same pass."""
    if not tokens:
        return Encoder(
            (VECTORS,), lambda texts: {VECTORS: _unit_bytes(embedder.encode(texts, "passage"))}, embedder.is_on_gpu
        )

    def encode(texts: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        vectors, token_vectors = pack_tokens_of(embedder, texts)
        return {VECTORS: _unit_bytes(vectors), TokensComponent.key: list(token_vectors)}

    return Encoder((VECTORS, TokensComponent.key), encode, embedder.is_on_gpu)


def _unit_bytes(vectors: NDArray[np.float32]) -> list[bytes]:
    """Return each vector as float32 bytes, scaled to length 1 because the flat index compares by dot products."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return [vector.tobytes() for vector in vectors / np.where(lengths > 0, lengths, 1)]


def _splade_encoder(encoder: SpladeEncoder) -> Encoder:
    key = SpladeComponent.key
    return Encoder((key,), lambda texts: {key: [pack_terms(vector) for vector in encoder.encode(texts, "passage")]})


class Models:
    """The loaded models of a build; `of` maps fields of the manifest to models."""

    def __init__(self, settings: BuildSettings) -> None:
        self.of: dict[str, Embedder | SpladeEncoder] = {}
        self.encoders: list[Encoder] = []
        if settings.embedder:
            self.of["embedder"] = embedder = open_embedder(settings.embedder)
            self.encoders.append(_dense_encoder(embedder, settings.tokens))
        if settings.splade:
            self.of["splade"] = encoder = open_encoder(settings.splade)
            self.encoders.append(_splade_encoder(encoder))

    def infos(self) -> dict[str, ModelInfo | None]:
        """Return the models' fields of the manifest."""
        infos = {
            name: ModelInfo(spec=model.name, fingerprint=model.fingerprint, dimension=model.dimension)
            for name, model in self.of.items()
        }
        return {"embedder": None, **infos}

    def mark(self) -> str:
        """Return a line with the fingerprint of each model."""
        return "\n".join(f"{name} {model.fingerprint}" for name, model in self.of.items())

    def window(self) -> Window:
        """Return the size limit of passages for the models; in words if there is no model."""
        if not self.of:
            return Window(CHUNK_SIZE, CHUNK_SIZE, regex_tokens)
        narrowest = min(self.of.values(), key=lambda model: model.max_tokens)
        size = min(CHUNK_SIZE, narrowest.max_tokens)
        return Window(size, size - SPECIAL_TOKENS, narrowest.tokenizer())


@dataclass(frozen=True)
class Window:
    """The size limit of passages, which is the lowest limit of the models."""

    size: int
    room: int  # `size` minus the model's special tokens
    tokenize: Tokenizer

    def cut(self, document: Document) -> list[Passage]:
        """Cut a document into passages."""
        return chunk(document, self.tokenize, self.room)


def open_encoders(settings: BuildSettings) -> tuple[Callable[[int, Sequence[str]], Mapping[str, Sequence[bytes]]], str]:
    """Return what `Workers` need: a function that encodes texts with the encoder of a number, and the models' mark."""
    models = Models(settings)
    return lambda number, texts: models.encoders[number].encode(texts), models.mark()


# --- checksums and removal -------------------------------------------------------------------------------------------

FILE = "seal.json"
ORIGIN_FIELDS = {
    "generation", "created", "version", "source", "include", "exclude", "skipped", "unread", "left_out", "internal",
    "retriever",
}  # fmt: skip
"""Fields of a manifest that may differ between two builds of the same content."""


def write_checksums(folder: Path, manifest: Manifest) -> None:
    """Write the SHA-256 of every file of a finished generation, and of the fixed fields of its manifest."""
    files = {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}
    write_json(folder / FILE, {"manifest": _manifest_digest(manifest), "files": files})


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that only a build writes. Chroma's files are left out, because opening them changes them."""
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0]
        skipped = top in ("chroma", FILE) or top.startswith(("kept.", ".", "models"))
        if path.is_file() and not skipped and not top.endswith(("-wal", "-shm", "-journal")):
            yield path


def _manifest_digest(manifest: Manifest) -> str:
    fixed = manifest.model_dump_json(exclude={*ORIGIN_FIELDS, "server", "name"}, exclude_defaults=True)
    return hashlib.sha256(fixed.encode()).hexdigest()


def verify_index(index: StoredIndex) -> list[str]:
    """Check an index's checksums and, if they match, the contents of Chroma; return the problems."""
    try:
        problems = list(_changed_files(index))
        if not problems:
            for component in components_of(index.manifest):
                problems.extend(component.verify(index))
        return problems
    except TurnmarkError as error:
        return [str(error)]


def _changed_files(index: StoredIndex) -> Iterator[str]:
    """Yield a message for every file that differs from the one that the build wrote."""
    try:
        content: Any = json.loads((index.files / FILE).read_text(encoding="utf-8"))
        files, manifest_digest = dict(content["files"]), content["manifest"]
    except (OSError, ValueError, KeyError, TypeError):
        yield f"{FILE} is missing or damaged; the checksums of the files cannot be read"
        return
    if manifest_digest != _manifest_digest(index.manifest):
        yield f"manifest.json is damaged: its SHA-256 differs from the one in {FILE}"
    for name, digest in files.items():
        try:
            if file_sha256(index.files / name) != digest:
                yield f"{name} is damaged: its SHA-256 differs from the one in {FILE}"
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror or error}"


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
