"""Building an index: read, cut, embed in blocks, write, and only then name it.

Killed at any moment, the same command continues: the source is read again (seconds), and a content whose vector was
kept is not embedded again. Over a changed source, vectors of unchanged passages come from the current generation.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from corpora.chunking import Tokenizer, chunk, regex_tokens
from corpora.console import shown
from corpora.errors import RequestError, TurnwiseError
from corpora.home import check_name, file_sha256, write_json
from corpora.progress import NoProgress, Progress, shown_progress
from corpora.readers import count_source, read_source
from corpora.types import Document, Passage, Problem
from retrieval.bm25 import build_bm25
from retrieval.embed import Embedder, open_embedder
from retrieval.index import FORMAT, EmbedderInfo, Index, Manifest, indexes_folder, locked, read_manifest
from retrieval.registry import BuildSettings, build_settings
from retrieval.store import WHERE_KEYS, PassageStore
from retrieval.vectors import VectorStore

# A block is embedded as one and kept as one: this is how much work a kill can cost.
BLOCK = 256
CHUNK_SIZE, CHUNK_OVERLAP = 512, 100
SPECIAL_TOKENS = 2

T = TypeVar("T")


@dataclass
class BuildReport:
    """What a build did. `problems` lists everything in the source that was skipped, and where."""

    name: str
    documents: int = 0
    passages: int = 0
    embedded: int = 0
    kept: int = 0
    removed: int = 0
    unchanged: bool = False
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)


def build_index(
    source: Path,
    name: str,
    *,
    retriever: str = "hybrid",
    embedder: str = "minilm",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    internal: bool = False,
) -> BuildReport:
    """Build, continue or update the index called `name` from a folder or a file.

    Args:
        retriever: the spec that will search it; `bm25` leaves the vectors out, and BM25's options are settled here.
        embedder: spec of the embedder; not loaded for `bm25`.
        include, exclude: globs on the path relative to the source.
        internal: an index kept for a benchmark; it waits for another process that builds the same.

    Raises:
        RequestError: bad names, specs or source, or a source with nothing in it.
        TurnwiseError: another build of this index is running.
    """
    settings = build_settings(retriever, embedder)
    folder = indexes_folder() / check_name(name, "index")
    if not source.exists():
        raise RequestError(f"source {str(source)!r} does not exist")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=internal):
        build = _Build(source, folder, settings, tuple(include), tuple(exclude), progress or NoProgress(), internal)
        try:
            return build.run()
        except RequestError:
            # Nothing was made that the same command could continue, so leave no trace that says it could. What an
            # earlier run made stays: an embedder that cannot be had today may be there tomorrow.
            if build.fresh:
                shutil.rmtree(folder if build.old is None else build.files, ignore_errors=True)
            raise


def corpus_index(corpus: Path, retriever: str, embedder: str = "minilm") -> Index:
    """The index over a benchmark's passage file, built once and then kept under the fingerprint of its content.

    An index with vectors serves BM25 too, when it has the same BM25 settings.
    """
    settings = build_settings(retriever, embedder)
    content = file_sha256(corpus)[:16]
    tag = f"{FORMAT}{settings.bm25.model_dump_json()}"
    wanted = [f"corpus-{content}-{_short(tag + settings.embedder)}"]
    if not settings.embedder:
        wanted.append(f"corpus-{content}-{_short(tag + build_settings('hybrid', embedder).embedder)}")
    for name in reversed(wanted):
        manifest = read_manifest(indexes_folder() / name)
        if manifest:
            return Index(indexes_folder() / name, manifest)
    with shown_progress() as progress:
        build_index(corpus, wanted[0], retriever=retriever, embedder=embedder, progress=progress, internal=True)
    manifest = read_manifest(indexes_folder() / wanted[0])
    assert manifest is not None, "build_index writes the manifest or raises"
    return Index(indexes_folder() / wanted[0], manifest)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class _Window:
    """How documents are cut: MTRAG's 512 tokens overlapping by 100, scaled down to the embedder's own limit."""

    size: int
    overlap: int
    room: int  # for text: `size` less the embedder's special tokens
    tokenize: Tokenizer

    @classmethod
    def of(cls, embedder: Embedder | None) -> _Window:
        if embedder is None:
            return cls(CHUNK_SIZE, CHUNK_OVERLAP, CHUNK_SIZE, regex_tokens)
        size = min(CHUNK_SIZE, embedder.max_tokens)
        return cls(size, round(CHUNK_OVERLAP * size / CHUNK_SIZE), size - SPECIAL_TOKENS, embedder.tokenizer())

    def cut(self, document: Document) -> list[Passage]:
        return chunk(document, self.tokenize, self.room, self.overlap)


class _Build:
    """One run of a build; `run` reads top to bottom."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        settings: BuildSettings,
        include: tuple[str, ...],
        exclude: tuple[str, ...],
        progress: Progress,
        internal: bool,
    ) -> None:
        self.source, self.folder, self.settings, self.progress = source, folder, settings, progress
        self.include, self.exclude, self.internal = include, exclude, internal
        self.report = BuildReport(folder.name)
        self.old = read_manifest(folder)
        self.generation = self.old.generation + 1 if self.old else 1
        self.files = folder / f"g{self.generation:04d}"
        self.fresh = not self.files.exists()

    def run(self) -> BuildReport:
        began = time.monotonic()
        embedder = open_embedder(self.settings.embedder) if self.settings.embedder else None
        made_by = EmbedderInfo(
            spec=embedder.name, fingerprint=embedder.fingerprint, dimension=embedder.dimension
        ) if embedder else None  # fmt: skip
        self._tidy(made_by)
        store = PassageStore(self.files / "passages.db", write=True)
        try:
            window = _Window.of(embedder)
            self._read(store, window)
            manifest = self._manifest(store, made_by, window)
            if self.old and self._same(self.old, manifest):
                self.report.unchanged = True
                keep = {"generation": self.old.generation, "created": self.old.created, "version": self.old.version}
                manifest = manifest.model_copy(update=keep)
            else:
                self._reuse(store, made_by)
                if embedder:
                    self._embed(store, embedder)
                self._write(store, embedder is not None)
        finally:
            store.close()
        if manifest != self.old:
            write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        self._drop_others()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _tidy(self, made_by: EmbedderInfo | None) -> None:
        """Keep the unfinished files of an earlier run only if the same embedder made them."""
        mark = self.files / "embedder"
        now = made_by.fingerprint if made_by else ""
        if self.files.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8") == now):
            shutil.rmtree(self.files)
        self.files.mkdir(parents=True, exist_ok=True)
        mark.write_text(now, encoding="utf-8")

    def _read(self, store: PassageStore, window: _Window) -> None:
        """Documents to passages, in the order of the source."""
        store.clear_passages()
        self.progress.start("reading", count_source(self.source, self.include, self.exclude))
        items = read_source(self.source, self.include, self.exclude)
        for block in _blocks(items, BLOCK):
            documents = [item for item in block if isinstance(item, Document)]
            self.report.problems += [item for item in block if isinstance(item, Problem)]
            passages = [window.cut(document) for document in documents]
            for doubled in store.add_passages(chain.from_iterable(passages)):
                self.report.problems.append(Problem(file=doubled, what="passage id appears twice; the first was kept"))
            self.report.documents += len(documents)
            self.progress.advance(len(block))
        self.report.passages = store.count()
        if not self.report.passages:
            listed = "".join(f"\n  {shown(problem)}" for problem in self.report.problems[:20])
            raise RequestError(f"there is nothing to index in {str(self.source)!r}{':' if listed else ''}{listed}")
        store.renumber()

    def _manifest(self, store: PassageStore, made_by: EmbedderInfo | None, window: _Window) -> Manifest:
        return Manifest(
            name=self.folder.name,
            generation=self.generation,
            source=str(self.source.resolve()),
            include=self.include,
            exclude=self.exclude,
            documents=self.report.documents,
            passages=self.report.passages,
            digest=store.digest(),
            chunk_size=window.size,
            chunk_overlap=window.overlap,
            bm25=self.settings.bm25,
            embedder=made_by,
            skipped=len(self.report.problems),
            internal=self.internal,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=version("turnwise"),
        )

    def _same(self, old: Manifest, new: Manifest) -> bool:
        """True when building would give what is there already, and all of it is there."""
        varying = {"generation", "created", "version", "source", "include", "exclude", "skipped", "internal"}
        same = old.model_dump(exclude=varying) == new.model_dump(exclude=varying)
        return same and Index(self.folder, old).is_whole()

    def _reuse(self, store: PassageStore, made_by: EmbedderInfo | None) -> None:
        """Take over the current generation's vectors for every content that is still there, and count what is gone."""
        if self.old is None:
            return
        try:
            self._take_over(store, Index(self.folder, self.old), made_by)
        except TurnwiseError as error:
            self.report.problems.append(Problem(file=self.folder.name, what=f"embedding everything again: {error}"))

    def _take_over(self, store: PassageStore, current: Index, made_by: EmbedderInfo | None) -> None:
        import numpy as np

        same = made_by is not None and current.manifest.embedder == made_by
        wanted = {content for content, _ in store.missing()} if same else set()
        gone, seen = 0, {content for page in store.pages() for _, content, _ in page}
        for page in current.store.pages():
            gone += sum(content not in seen for _, content, _ in page)
            reused = {passage.id: content for _, content, passage in page if content in wanted}
            if reused:
                found = current.vectors.get(list(reused))
                if found:
                    store.add_vectors([reused[i] for i in found], np.stack(list(found.values())))
        self.report.removed = gone

    def _embed(self, store: PassageStore, embedder: Embedder) -> None:
        total = store.count_missing()
        self.report.kept = self.report.passages - total
        self.progress.start("embedding", total)
        for block in _blocks(store.missing(), BLOCK):
            vectors = embedder.encode([passage.indexed_text for _, passage in block], "passage")
            store.add_vectors([content for content, _ in block], vectors)
            self.report.embedded += len(block)
            self.progress.advance(len(block))

    def _write(self, store: PassageStore, with_vectors: bool) -> None:
        """BM25 and Chroma, from nothing: a half-written one of an earlier run is thrown away."""
        for part in ("bm25", "chroma"):
            shutil.rmtree(self.files / part, ignore_errors=True)
        self.progress.start("bm25", None)
        pages = (passage.indexed_text for page in store.pages() for _, _, passage in page)
        build_bm25(pages, self.files / "bm25", self.settings.bm25)
        if with_vectors:
            self.progress.start("chroma", self.report.passages)
            chroma = VectorStore(self.files / "chroma", create=True)
            for page in store.pages():
                chroma.add(
                    [passage.id for _, _, passage in page],
                    store.vectors([content for _, content, _ in page]),
                    [_metadata(content, passage) for _, content, passage in page],
                )
                self.progress.advance(len(page))
            chroma.close()
        store.finish()

    def _drop_others(self) -> None:
        """Remove the generations that nobody can have open.

        The one before the current stays until the next build: a chat that runs may still open parts of it.
        """
        current = read_manifest(self.folder)
        kept = {f"g{manifest.generation:04d}" for manifest in (current, self.old) if manifest}
        for other in self.folder.glob("g[0-9]*"):
            if other.name not in kept:
                shutil.rmtree(other, ignore_errors=True)


def _metadata(content: str, passage: Passage) -> dict[str, Any]:
    """What Chroma keeps with a vector: the content hash, and the keys that `--where` can ask for."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {"hash": content, **{key: value for key, value in values.items() if value is not None}}


def _blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one shorter."""
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block
