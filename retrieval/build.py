"""Building an index: read, cut, embed in blocks, write, and only then name it.

Killed at any moment, the same command continues: the source is read again (seconds), and a content of which a model's
work was kept is not given to it again. Over a changed source, that of unchanged passages comes from the current
generation.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from turnmark.core.console import NoProgress, Progress, inert, shown_progress
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import check_name, file_sha256, write_json
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document, Passage, Problem
from turnmark.retrieval import chroma
from turnmark.retrieval.components import (
    BuildFiles,
    Encoder,
    Models,
    Page,
    Window,
    components_of,
    delete_served,
    has_all_components,
    open_encoders,
    write_checksums,
)
from turnmark.retrieval.index import Index, indexes_folder, list_indexes, lock_index, open_index
from turnmark.retrieval.levels import sure_from
from turnmark.retrieval.manifest import FORMAT, BuildSettings, Manifest, read_manifest
from turnmark.retrieval.registry import build_settings, retriever_to_build
from turnmark.retrieval.store import Checkpoint, PassageStore, drop_checkpoint
from turnmark.retrieval.vectors import FLAT_LIMIT
from turnmark.retrieval.workers import LOCAL, Workers, check_engine

# A block is embedded as one and kept as one: this is how much work a kill can cost.
BLOCK = 256

T = TypeVar("T")
Values = Mapping[str, Sequence[bytes]]


@dataclass
class BuildReport:
    """What a build did. `problems` lists everything in the source that was skipped, and where.

    `embedded` counts the contents that went through a model, `kept` those that need not.
    """

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
    retriever: str | None = None,
    embedder: str = "minilm",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    internal: bool = False,
    engine: str = LOCAL,
) -> BuildReport:
    """Build, continue or update the index called `name` from a folder or a file.

    Args:
        retriever: the spec that will search it; `bm25` leaves the vectors out, and BM25's options are settled here.
            None: `retriever_to_build`.
        include, exclude: globs on the path relative to the source.
        internal: an index kept for a benchmark; it waits for another process that builds the same.
        engine: where the models work: `local` in this process, else over a Ray cluster (`turnmark.retrieval.workers`).
            All the rest, the writing above all, is done here, and the index is the same.
    """
    settings = build_settings(retriever or retriever_to_build(), embedder)
    check_engine(engine)
    folder = indexes_folder() / check_name(name, "index")
    if not source.exists():
        raise RequestError(f"source {str(source)!r} does not exist")
    if settings.server:
        chroma.open_client(settings.server).close()  # a server that is away is said before anything is embedded
    folder.mkdir(parents=True, exist_ok=True)
    with lock_index(folder, wait=internal):
        build = Build(
            source, folder, settings, tuple(include), tuple(exclude), progress or NoProgress(), internal, engine
        )
        try:
            return build.run()
        except RequestError:
            # Nothing was made that the same command could continue, so leave no trace that says it could. What an
            # earlier run made stays: an embedder that cannot be had today may be there tomorrow.
            if build.fresh:
                shutil.rmtree(folder if build.old is None else build.files, ignore_errors=True)
            raise


@dataclass
class Build:
    """One run of a build; `_run` reads top to bottom."""

    source: Path
    folder: Path
    settings: BuildSettings
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    progress: Progress
    internal: bool
    engine: str

    def __post_init__(self) -> None:
        self.report = BuildReport(self.folder.name)
        self.old = read_manifest(self.folder)
        self.generation = self.old.generation + 1 if self.old else 1
        self.files = self.folder / f"g{self.generation:04d}"
        self.fresh = not self.files.exists()

    def run(self) -> BuildReport:
        """Build; what was made stays where it cannot be finished."""
        try:
            return self._run()
        except sqlite3.Error as error:
            raise TurnmarkError(
                f"index {self.folder.name!r} cannot be written: {error} ({self.files}); with room and the right to "
                "write there, the same command goes on"
            ) from error

    def _run(self) -> BuildReport:
        began = time.monotonic()
        models = Models(self.settings)
        self._tidy(models)
        store, checkpoint = PassageStore(self.files / "passages.db", write=True), Checkpoint(self.files)
        try:
            window = models.window()
            self._read(store, window)
            manifest = self._manifest(store, models, window)
            if self.old and self._same(self.old, manifest):
                self.report.unchanged = True
                kept_fields = ("generation", "created", "version", "sure_from")
                keep = {name: getattr(self.old, name) for name in kept_fields}
                manifest = manifest.model_copy(update=keep)
            else:
                self._reuse(store, checkpoint, manifest, models.encoders)
                self._encode(store, checkpoint, models)
                manifest = self._write(BuildFiles(self.files, manifest, store, checkpoint, self.progress))
        finally:
            checkpoint.close()
            store.close()
        if manifest != self.old:
            write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        self._drop_others()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _delete(self, folder: Path) -> None:
        """Delete a folder, and what servers hold for it; what cannot be deleted there is reported."""
        self.report.problems += [Problem(file=self.folder.name, what=leftover) for leftover in delete_served(folder)]
        shutil.rmtree(folder, ignore_errors=True)

    def _tidy(self, models: Models) -> None:
        """Keep the unfinished files of an earlier run only if the same models made them."""
        mark = self.files / "models"
        current_mark = f"format {FORMAT}\n{models.mark()}"
        if self.files.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8") == current_mark):
            self._delete(self.files)
        self.files.mkdir(parents=True, exist_ok=True)
        mark.write_text(current_mark, encoding="utf-8")

    def _read(self, store: PassageStore, window: Window) -> None:
        """Documents to passages, in the order of the source."""
        store.clear_passages()
        self.progress.start("reading", None)
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
            listed = "".join(f"\n  {inert(problem)}" for problem in self.report.problems[:20])
            raise RequestError(f"there is nothing to index in {str(self.source)!r}{':' if listed else ''}{listed}")
        store.renumber()

    def _manifest(self, store: PassageStore, models: Models, window: Window) -> Manifest:
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
            bm25=self.settings.bm25,
            **models.infos(),
            tokens=self.settings.tokens,
            exact=bool(self.settings.embedder) and not self.settings.server and self.report.passages <= FLAT_LIMIT,
            server=self.settings.server,
            skipped=len(self.report.problems),
            internal=self.internal,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=version("turnmark"),
        )

    def _same(self, existing: Manifest, planned: Manifest) -> bool:
        """True when building would give what is there already, and all of it is there."""
        varying = {
            "generation",
            "created",
            "version",
            "source",
            "include",
            "exclude",
            "skipped",
            "internal",
            "sure_from",
        }
        equal = existing.model_dump(exclude=varying) == planned.model_dump(exclude=varying)
        return equal and has_all_components(Index(self.folder, existing))

    def _reuse(
        self, store: PassageStore, checkpoint: Checkpoint, planned: Manifest, encoders: Sequence[Encoder]
    ) -> None:
        """Take over what the models made of every content that is still there, and count what is gone."""
        if self.old is None or self.old.format != FORMAT:
            return
        try:
            current = Index(self.folder, self.old)
            for page in current.store.pages():
                contents = [content for _, content, _ in page]
                present = store.holds(contents)
                self.report.removed += sum(content not in present for content in contents)
            for encoder in encoders:
                _take_over(store, checkpoint, current, planned, encoder)
        except TurnmarkError as error:
            self.report.problems.append(Problem(file=self.folder.name, what=f"embedding everything again: {error}"))

    def _encode(self, store: PassageStore, checkpoint: Checkpoint, models: Models) -> None:
        encoders = models.encoders
        totals = [checkpoint.count_missing(store, encoder.keys) for encoder in encoders]
        self.report.embedded = max(totals, default=0)
        self.report.kept = self.report.passages - self.report.embedded if encoders else 0
        with ExitStack() as stack:
            workers = None
            if self.engine != LOCAL and any(totals):
                alone = self.settings.model_copy(update={"server": None})  # whose token is nothing to them
                workers = stack.enter_context(Workers(self.engine, open_encoders, (alone,), mark=models.mark()))
            for number, (encoder, total) in enumerate(zip(encoders, totals, strict=True)):
                self.progress.start("embedding", total)
                blocks = _blocks(checkpoint.missing(store, encoder.keys), BLOCK)
                for contents, values in _encoded(blocks, encoder, number, workers):
                    checkpoint.add(contents, values)
                    self.progress.advance(len(contents))

    def _write(self, files: BuildFiles) -> Manifest:
        """Write all components anew; what an earlier run left of any component is deleted."""
        for folder in [path for path in self.files.iterdir() if path.is_dir()]:
            self._delete(folder)
        for component in components_of(files.manifest):
            component.write(files)
        files.store.finish()
        manifest = files.manifest
        if manifest.embedder is not None:
            manifest = manifest.model_copy(update={"sure_from": sure_from(Index(self.folder, manifest))})
        write_checksums(files.folder, manifest)
        return manifest

    def _drop_others(self) -> None:
        """Remove the generations that nobody can have open.

        The one before the current stays until the next build: a chat that runs may still open parts of it.
        """
        current = read_manifest(self.folder)
        in_use = {f"g{manifest.generation:04d}" for manifest in (current, self.old) if manifest}
        for folder in self.folder.glob("g[0-9]*"):
            if folder.name not in in_use:
                self._delete(folder)
            else:
                drop_checkpoint(folder)


def _encoded(
    blocks: Iterable[list[tuple[str, Passage]]], encoder: Encoder, number: int, workers: Workers[Values] | None
) -> Iterator[tuple[list[str], Values]]:
    """What an encoder makes of each block: contents, and their bytes by part. Workers give them in any order."""
    tasks = (([content for content, _ in block], [passage.indexed_text for _, passage in block]) for block in blocks)
    if workers is None:
        return ((contents, encoder.encode(texts)) for contents, texts in tasks)
    return workers.spread((contents, (number, texts)) for contents, texts in tasks)


def _take_over(
    store: PassageStore, checkpoint: Checkpoint, current: Index, planned: Manifest, encoder: Encoder
) -> None:
    """Copy from a finished index what the same model made of contents that the checkpoint lacks.

    Vectors are taken over from whichever store they are in: that may change with the number of passages.
    """
    old_components = {component.key: component for component in components_of(current.manifest)}
    new_components = {component.key: component for component in components_of(planned) if component.key in encoder.keys}
    for key, component in new_components.items():
        if key not in old_components or old_components[key].made_by(current.manifest) != component.made_by(planned):
            return
    for page in current.store.pages():
        contents = [content for _, content, _ in page]
        lacking = store.holds(contents) - checkpoint.complete(contents, encoder.keys)
        lacking_rows: Page = [row for row in page if row[1] in lacking]
        if lacking_rows:
            stored = {key: old_components[key].stored(current, lacking_rows) for key in new_components}
            complete = [
                content for _, content, _ in lacking_rows if all(content in values for values in stored.values())
            ]
            checkpoint.add(complete, {key: [values[content] for content in complete] for key, values in stored.items()})


def _blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, the last one shorter."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def corpus_index(corpus: Path, retriever: str, embedder: str = "minilm") -> Index:
    """The index over a benchmark's passage file, kept under the fingerprint of its content.

    One that holds more than the retriever needs serves it too. Of several, the oldest, so that a run that goes on
    finds the index that it began with.
    """
    settings = build_settings(retriever, embedder)
    content = file_sha256(corpus)
    if serving := cached_indexes(content, settings):
        return open_index(serving[0].name)
    suffix = hashlib.sha256(f"{FORMAT}{settings.model_dump_json()}".encode()).hexdigest()[:8]
    name = f"corpus-{content[:16]}-{suffix}"
    with shown_progress() as progress:
        build_index(corpus, name, retriever=retriever, embedder=embedder, progress=progress, internal=True)
    return open_index(name)


def cached_indexes(corpus: str, settings: BuildSettings) -> list[Manifest]:
    """The kept indexes over a passage file that hold all that is wanted, made in the same way, the oldest first.

    Args:
        corpus: SHA-256 of the passage file.
    """

    def serves(manifest: Manifest) -> bool:
        return (
            manifest.internal
            and manifest.name.startswith(f"corpus-{corpus[:16]}-")
            and (manifest.format, manifest.bm25, manifest.server) == (FORMAT, settings.bm25, settings.server)
            and settings.models().items() <= {name: info.spec for name, info in manifest.models().items()}.items()
            and manifest.tokens >= settings.tokens
        )

    return sorted(filter(serves, list_indexes(internal=True)), key=lambda manifest: manifest.created)
