"""Build an index: read documents, cut passages, embed them in blocks, write the files, and last the manifest.

If a build is killed, the same command continues it: it reads the source again and skips passages whose embeddings are
in the checkpoint. For a changed source, the passages of unchanged files (`turnmark.retrieval.index.source_reading`) and
the embeddings of unchanged passages come from the current generation.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from turnmark.core.console import NoProgress, Progress, shown_progress
from turnmark.core.engines import LOCAL, check_engine
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import check_name, file_sha256, write_json
from turnmark.core.untrusted import one_line
from turnmark.corpora.readers import ReadingReport, describe_unread
from turnmark.corpora.readers.fingerprint import readers_mark
from turnmark.corpora.text.languages import MAX_CHARACTERS, detect_languages
from turnmark.corpora.types import Problem
from turnmark.retrieval.embedding.choose_embedder import (
    AHEAD_CHARACTERS,
    AHEAD_DOCUMENTS,
    choose_embedder,
    embedder_advice,
    languages_of_documents,
)
from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER
from turnmark.retrieval.index.components import (
    ORIGIN_FIELDS,
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
from turnmark.retrieval.index.encoding_steps import encode_blocks
from turnmark.retrieval.index.picture_build import BuildPictures
from turnmark.retrieval.index.picture_descriptions import DescribingPlan, describer_to_use
from turnmark.retrieval.index.source_reading import (
    KnownFile,
    SourceEntry,
    SourceReader,
    known_of,
    read_known,
    write_known,
)
from turnmark.retrieval.ranking.vectors import FLAT_LIMIT
from turnmark.retrieval.search.list_weights import measure_weights
from turnmark.retrieval.search.opened_index import StoredIndex, indexes_folder, list_indexes, lock_index, open_index
from turnmark.retrieval.search.rebuild_commands import add_bm25_options, spec_of_components
from turnmark.retrieval.search.retriever_factory import build_settings, retriever_to_build
from turnmark.retrieval.search.retriever_kinds import RETRIEVERS
from turnmark.retrieval.search.score_thresholds import calibrate_sure_score
from turnmark.retrieval.storage import chroma
from turnmark.retrieval.storage.manifest import FORMAT, BuildSettings, Manifest, read_manifest
from turnmark.retrieval.storage.passage_store import Checkpoint, PassageStore, drop_checkpoint
from turnmark.retrieval.tables.table_writer import (
    TABLES_FILE,
    TABLES_VERSION,
    UNFINISHED_TABLES,
    CurrentTables,
    TableWriter,
)

BLOCK_PASSAGES = 256
"""Number of passages that are sorted by length together. A part of them is embedded and checkpointed at a time."""
GPU_BLOCK_PASSAGES = 8192
"""The same on a GPU, which embeds a block in about a second while the previous one is written."""
STAGING_FOLDER = ".pictures"
"""Folder in an index's folder into which readers write pictures during a build."""
CALIBRATED_FIELDS = ("sure_from", "weights")
"""Fields of the manifest that are measured on the finished index."""

T = TypeVar("T")


@dataclass
class BuildReport:
    """The result of a build.

    Attributes:
        embedded: passages that a model embedded.
        kept: passages whose embeddings were reused.
        removed: passages of the old index that are not in the new one.
        changed: files with new or changed passages.
        gone: documents of the old index that are not in the new one.
        problems: everything in the source that was skipped, with its place.
        advice: what to do if the embedder does not know the languages of the documents; otherwise empty.
        unread: the number of files of types that are not read, by suffix.
        left_out: what the readers left out of the files that they read, by reason.
        remarks: what the owners of files should know about how they were read, e.g. a guessed encoding.
        plan: the estimated effort of describing pictures, or None if they are not described.
        described: number of pictures that this build described.
        descriptions: number of descriptions in the passages.
        spent: the cost of the descriptions, in words.
    """

    name: str
    documents: int = 0
    passages: int = 0
    embedded: int = 0
    kept: int = 0
    removed: int = 0
    changed: int = 0
    gone: int = 0
    unchanged: bool = False
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    advice: str = ""
    unread: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[Problem] = field(default_factory=list)
    plan: DescribingPlan | None = None
    described: int = 0
    descriptions: int = 0
    spent: str = ""


def build_index(
    source: Path,
    name: str,
    *,
    retriever: str | None = None,
    embedder: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    internal: bool = False,
    engine: str = LOCAL,
    describe: str | None = None,
    budget: str | None = None,
    dry_run: bool = False,
) -> BuildReport:
    """Build, continue or update an index from a folder or a file.

    Args:
        retriever: spec of the retriever that will search the index by default; `bm25` needs no vectors, and BM25's
            options are fixed in the index. If it is None, the index is built for `retriever_to_build` and keeps no
            spec.
        embedder: its spec, or None to let `choose_embedder` choose by the languages of the documents.
        include, exclude: globs on the path relative to the source.
        internal: an index for a benchmark's corpus; waits for another process that builds the same index.
        engine: where the models run: `local` in this process, otherwise on a Ray cluster. Files are always written by
            this process, and the index is the same.
        describe: spec of the model that describes pictures, or `none`, or None for the previous build's.
        budget: limit of what describing may spend, e.g. `200k` or `$5`.
        dry_run: only read, and report what describing would take; the index stays as it is.
    """
    settings = build_settings(retriever or retriever_to_build(), embedder or DEFAULT_EMBEDDER)
    chooses = embedder is None and settings.embedder == DEFAULT_EMBEDDER
    kept = "" if retriever is None or internal else str(RETRIEVERS.check(retriever))
    return _build(
        source, name, settings, internal=internal, engine=engine, retriever=kept, include=tuple(include),
        exclude=tuple(exclude), progress=progress or NoProgress(), chooses=chooses,
        describing=DescribingOptions(describe, budget, dry_run),
    )  # fmt: skip


class DescribingOptions(NamedTuple):
    """How a build describes pictures; for the fields see `build_index`."""

    spec: str | None = None
    budget: str | None = None
    dry_run: bool = False


def _build(
    source: Path, name: str, settings: BuildSettings, *, internal: bool = False, engine: str = LOCAL, **more: Any
) -> BuildReport:
    """Check what the settings of a build need, and run it; `more` are further fields of `Build`."""
    check_engine(engine)
    folder = indexes_folder() / check_name(name, "index")
    if not source.exists():
        raise RequestError(f"source {str(source)!r} does not exist")
    if settings.server:
        chroma.open_client(settings.server).close()  # fail early if the server cannot be reached
    folder.mkdir(parents=True, exist_ok=True)
    with lock_index(folder, wait=internal):
        build = Build(source, folder, settings, internal=internal, engine=engine, **more)
        try:
            return build.run()
        except RequestError:
            # Delete a folder that only this call made. Files of an earlier call stay, since the same command may
            # continue them later, for example when the embedder is available again.
            build.delete_fresh()
            raise


def build_again(manifest: Manifest, progress: Progress | None = None, engine: str = LOCAL) -> BuildReport:
    """Bring a finished index up to date with its source, with the settings that it was built with."""
    embedder = manifest.embedder.spec if manifest.embedder else "minilm"
    settings = build_settings(add_bm25_options(manifest, spec_of_components(manifest)), embedder)
    return _build(
        Path(manifest.source), manifest.name, settings, engine=engine, retriever=manifest.retriever,
        include=manifest.include, exclude=manifest.exclude, progress=progress or NoProgress(),
    )  # fmt: skip


@dataclass
class Build:
    """One run of a build; `_run` reads top to bottom."""

    source: Path
    folder: Path
    settings: BuildSettings
    retriever: str = ""
    """The spec that the index keeps."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    progress: Progress = field(default_factory=NoProgress)
    internal: bool = False
    engine: str = LOCAL
    chooses: bool = False
    """Whether the embedder is chosen by the languages of the documents."""
    describing: DescribingOptions = field(default_factory=DescribingOptions)

    def __post_init__(self) -> None:
        self.report = BuildReport(self.folder.name)
        self.old = read_manifest(self.folder)
        self.generation = self.old.generation + 1 if self.old else 1
        self.files = self.folder / f"g{self.generation:04d}"
        self.fresh = not self.files.exists()
        self.pictures: BuildPictures | None = None

    def delete_fresh(self) -> None:
        """Delete the files that only this run made."""
        if self.fresh:
            shutil.rmtree(self.folder if self.old is None else self.files, ignore_errors=True)

    def run(self) -> BuildReport:
        """Build the index, or plan it; after an error the unfinished files stay."""
        try:
            with ExitStack() as stack:
                kept = self.old.described.spec if self.old and self.old.described else ""
                describer = describer_to_use(self.describing.spec, kept, self.describing.budget)
                if describer is not None:
                    required = self.describing.spec is not None
                    pictures = BuildPictures(describer, self.folder / STAGING_FOLDER, required)
                    self.pictures = stack.enter_context(closing(pictures))
                reader = stack.enter_context(closing(self._reader()))
                return self._plan(reader) if self.describing.dry_run else self._run(reader)
        except sqlite3.Error as error:
            raise TurnmarkError(
                f"index {self.folder.name!r} cannot be written: {error} ({self.files}); with room and the right to "
                "write there, the same command goes on"
            ) from error

    def _plan(self, reader: SourceReader) -> BuildReport:
        """Read the source and plan its descriptions."""
        if self.chooses:
            self._choose_embedder(reader)
        self._prepare(reader, Models(self.settings))
        self.progress.start("reading", None)
        if self.pictures is not None:
            self.report.plan = self.pictures.collect(self._counted(reader.entries()))
        if reader.current_tables is not None:
            reader.current_tables.close()
        self.delete_fresh()
        return self.report

    def _prepare(self, reader: SourceReader, models: Models) -> str:
        """Have the reader take over unchanged files; return the fingerprint of all that makes passages from files."""
        reader.window = models.window()
        made_by = f"{readers_mark()} {reader.window.size} tables {TABLES_VERSION}\n{models.mark()}"
        if self.pictures is not None:
            made_by += f"\n{self.pictures.describer.fingerprint}"
        reader.current, reader.current_tables, reader.known = self._current(made_by)
        return made_by

    def _run(self, reader: SourceReader) -> BuildReport:
        began = time.monotonic()
        if self.chooses:
            self._choose_embedder(reader)
        models = Models(self.settings)
        self._tidy(models)
        store, checkpoint = PassageStore(self.files / "passages.db", write=True), Checkpoint(self.files)
        tables = TableWriter(self.files / UNFINISHED_TABLES)
        try:
            reader.tables = tables
            made_by = self._prepare(reader, models)
            known = self._read(store, reader)
            tables.finish()
            assert reader.window is not None, "see `_prepare`"
            manifest = self._manifest(store, tables, models, reader.window)
            if self.old and self._same(self.old, manifest):
                self.report.unchanged = True
                update = {
                    name: getattr(self.old, name) for name in ("generation", "created", "version", *CALIBRATED_FIELDS)
                }
                manifest = manifest.model_copy(update=update)
            else:
                self._reuse(store, checkpoint, manifest, models.encoders)
                self._encode(store, checkpoint, models)
                write_pictures = self.pictures.write if self.pictures else None
                files = BuildFiles(self.files, manifest, store, checkpoint, self.progress, write_pictures)
                manifest = self._write(files)
        finally:
            checkpoint.close()
            store.close()
            tables.close()
            if reader.current_tables is not None:
                reader.current_tables.close()
        tables.path.unlink(missing_ok=True)
        if manifest.embedder is not None:
            self.report.advice = embedder_advice(manifest.embedder.spec, manifest.languages, self.chooses)
        if manifest != self.old:
            write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        write_known(self.folder, manifest.generation, made_by, known)
        self._drop_others()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _delete(self, folder: Path) -> None:
        """Delete a folder and its data on servers; report what cannot be deleted there."""
        for leftover in delete_served(folder):
            self.report.problems.append(Problem(file=self.folder.name, what=leftover))
        shutil.rmtree(folder, ignore_errors=True)

    def _tidy(self, models: Models) -> None:
        """Delete the unfinished files of an earlier run unless the same models made them."""
        mark_file = self.files / "models"
        mark = f"format {FORMAT}\n{models.mark()}"
        same_models = mark_file.is_file() and mark_file.read_text(encoding="utf-8") == mark
        if self.files.exists() and not same_models:
            self._delete(self.files)
        self.files.mkdir(parents=True, exist_ok=True)
        mark_file.write_text(mark, encoding="utf-8")

    def _reader(self) -> SourceReader:
        """Return the reader of the source, which has not read anything yet."""
        watch = ReadingReport(self._tell_reading)
        folder = self.pictures.staging if self.pictures else None
        return SourceReader(self.source, self.include, self.exclude, None, None, {}, watch, pictures=folder)

    def _choose_embedder(self, reader: SourceReader) -> None:
        """Choose the embedder by the languages of the current generation, or of the first documents of a new index.

        The choice comes before passages are cut, since their length depends on the embedder.
        """
        if self.old is not None:
            languages = self.old.languages
        else:
            self.progress.start("reading", None)
            languages = languages_of_documents(reader.read_ahead(AHEAD_DOCUMENTS, AHEAD_CHARACTERS))
        self.settings = self.settings.model_copy(update={"embedder": choose_embedder(languages)})

    def _read(self, store: PassageStore, reader: SourceReader) -> dict[str, KnownFile]:
        """Read the documents and store their passages, in the order of the source; return the files that are known."""
        store.clear_passages()
        self.progress.start("reading", None)
        stamped: list[SourceEntry] = []
        torn: set[str] = set()  # documents with passages whose ids another document had already
        for block in _blocks(map(reader.cut, self._entries(reader)), BLOCK_PASSAGES):
            passages = [passage for entry in block for passage in entry.passages]
            doubled = store.add_passages(passages)
            torn |= {passage.document for passage in passages if passage.id in set(doubled)} if doubled else set()
            for entry in block:
                self.report.problems += entry.problems
                self.report.documents += len(entry.documents)
                self.report.changed += entry.changed
                self.report.left_out.update(entry.left_out)
                self.report.remarks += [Problem(file=entry.path, what=remark) for remark in entry.remarks]
                entry.passages = []
                if entry.stamp is not None:
                    stamped.append(entry)
            for passage_id in doubled:
                problem = Problem(file=passage_id, what="passage id appears twice; the first was kept")
                self.report.problems.append(problem)
        self.progress.tell("")
        self.report.unread = dict(reader.watch.unread)
        self.report.passages = store.count()
        if not self.report.passages:
            listed = "".join(f"\n  {one_line(problem)}" for problem in self.report.problems[:20])
            if unread := describe_unread(self.report.unread):
                listed += f"\n  {one_line(unread)}"
            raise RequestError(f"there is nothing to index in {str(self.source)!r}{':' if listed else ''}{listed}")
        store.renumber()
        if reader.current is not None:
            self.report.gone = len(reader.current.document_ids() - store.document_ids())
        return known_of(stamped, lambda document: document not in torn)

    def _entries(self, reader: SourceReader) -> Iterator[SourceEntry]:
        """Yield the entries of the source, with the descriptions of their pictures."""
        entries = self._counted(reader.entries())
        if self.pictures is None:
            yield from entries
            return
        self.report.plan = self.pictures.collect(entries)
        descriptions = self.pictures.describe(self.progress)
        self.report.described, self.report.spent = descriptions.described, descriptions.spent
        self.progress.start("cutting passages", None)
        yield from self.pictures.entries()
        self.report.descriptions = len(self.pictures.placed)

    def _counted(self, entries: Iterable[SourceEntry]) -> Iterator[SourceEntry]:
        """Yield the entries, and report each as progress."""
        for entry in entries:
            yield entry
            self.progress.advance()

    def _current(self, made_by: str) -> tuple[PassageStore | None, CurrentTables | None, dict[str, KnownFile]]:
        """Return the passages and tables of the current generation, and the files that they were read from."""
        if self.old is None or self.old.format != FORMAT:
            return None, None, {}
        index = StoredIndex(self.folder, self.old)
        try:
            if self.pictures is not None:
                self.pictures.current = index.pictures
            store, known = index.store, read_known(self.folder, self.old.generation, made_by)
        except TurnmarkError:  # damaged: everything is read again
            return None, None, {}
        try:
            return store, CurrentTables(index.files / TABLES_FILE) if self.old.tables else None, known
        except sqlite3.DatabaseError:
            return store, None, {}

    def _tell_reading(self, what: str) -> None:
        self.progress.tell(one_line(what))
        self.progress.advance(0)  # so that a log gets its line before a document is finished

    def _manifest(self, store: PassageStore, tables: TableWriter, models: Models, window: Window) -> Manifest:
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
            languages=store.set_languages(detect_languages(store.beginnings(2 * MAX_CHARACTERS))),
            **models.infos(),
            tokens=self.settings.tokens,
            tables=tables.digest(),
            exact=bool(self.settings.embedder) and not self.settings.server and self.report.passages <= FLAT_LIMIT,
            retriever=self.retriever,
            server=self.settings.server,
            described=self.pictures.info() if self.pictures else None,
            skipped=len(self.report.problems),
            unread=self.report.unread,
            left_out=dict(self.report.left_out),
            internal=self.internal,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=version("turnmark"),
        )

    def _same(self, existing: Manifest, planned: Manifest) -> bool:
        """Return whether the existing index is complete and the same as the planned one."""
        ignored = {*ORIGIN_FIELDS, *CALIBRATED_FIELDS}
        equal = existing.model_dump(exclude=ignored) == planned.model_dump(exclude=ignored)
        return equal and has_all_components(StoredIndex(self.folder, existing))

    def _reuse(
        self, store: PassageStore, checkpoint: Checkpoint, planned: Manifest, encoders: Sequence[Encoder]
    ) -> None:
        """Copy the embeddings of unchanged passages from the current generation, and count the removed passages."""
        if self.old is None or self.old.format != FORMAT:
            return
        try:
            current = StoredIndex(self.folder, self.old)
            for page in current.store.pages():
                contents = [content for _, content, _ in page]
                present = store.holds(contents)
                self.report.removed += sum(content not in present for content in contents)
            for encoder in encoders:
                copy_embeddings(store, checkpoint, current, planned, encoder)
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
                from turnmark.retrieval.services.ray_cluster import Workers

                without_server = self.settings.model_copy(update={"server": None})  # workers must not get its token
                workers = stack.enter_context(
                    Workers(self.engine, open_encoders, (without_server,), mark=models.mark())
                )
            for number, (encoder, total) in enumerate(zip(encoders, totals, strict=True)):
                self.progress.start("embedding", total)
                size = GPU_BLOCK_PASSAGES if encoder.on_gpu and workers is None else BLOCK_PASSAGES
                blocks = _blocks(checkpoint.missing(store, encoder.keys), size)
                for contents, values in encode_blocks(blocks, encoder, number, workers, self.progress):
                    checkpoint.add(contents, values)

    def _write(self, files: BuildFiles) -> Manifest:
        """Write all components, after deleting those of an earlier run."""
        for folder in [path for path in self.files.iterdir() if path.is_dir()]:
            self._delete(folder)
        for component in components_of(files.manifest):
            component.write(files)
        files.store.finish()
        manifest = files.manifest.model_copy(update=self._calibrated(StoredIndex(self.folder, files.manifest)))
        write_checksums(files.folder, manifest)
        return manifest

    def _calibrated(self, index: StoredIndex) -> dict[str, Any]:
        """Return the fields of the manifest that are measured on the finished index."""
        if index.manifest.embedder is None and index.manifest.splade is None:
            return {}
        self.progress.start("calibrating", None)
        measured = {"weights": measure_weights(index)}
        if index.manifest.embedder is None or not index.manifest.model_copy(update=measured).trusts_cosines():
            return measured
        return measured | {"sure_from": calibrate_sure_score(index)}

    def _drop_others(self) -> None:
        """Delete the generations that cannot be open in another process.

        The previous generation stays until the next build: a running chat may still open parts of it.
        """
        current = read_manifest(self.folder)
        in_use = {f"g{manifest.generation:04d}" for manifest in (current, self.old) if manifest}
        for folder in self.folder.glob("g[0-9]*"):
            if folder.name not in in_use:
                self._delete(folder)
            else:
                drop_checkpoint(folder)


def copy_embeddings(
    store: PassageStore, checkpoint: Checkpoint, current: StoredIndex, planned: Manifest, encoder: Encoder
) -> None:
    """Copy from a finished index the embeddings by the same model that the checkpoint lacks.

    Vectors are copied from any kind of store, since the kind may change with the number of passages.
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
        if not lacking_rows:
            continue
        stored = {key: old_components[key].stored(current, lacking_rows) for key in new_components}
        complete: list[str] = []
        for _, content, _ in lacking_rows:
            if all(content in values for values in stored.values()):
                complete.append(content)
        checkpoint.add(complete, {key: [values[content] for content in complete] for key, values in stored.items()})


def _blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`; the last one may be shorter."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def corpus_index(corpus: Path, retriever: str, embedder: str = "minilm") -> StoredIndex:
    """Open the cached index of a benchmark's passage file, named after the hash of its content. Build it if it is
    missing.

    An index with more components than the retriever needs is accepted, too. If several match, the oldest is used, so
    that a resumed run finds the same index again.
    """
    settings = build_settings(retriever, embedder)
    content = file_sha256(corpus)
    cached = cached_indexes(content, settings)
    if cached:
        return open_index(cached[0].name)
    suffix = hashlib.sha256(f"{FORMAT}{settings.model_dump_json()}".encode()).hexdigest()[:8]
    name = f"corpus-{content[:16]}-{suffix}"
    with shown_progress() as progress:
        build_index(corpus, name, retriever=retriever, embedder=embedder, progress=progress, internal=True)
    return open_index(name)


def cached_indexes(corpus: str, settings: BuildSettings) -> list[Manifest]:
    """Return the cached indexes of a passage file that have all components and settings needed, the oldest first.

    Args:
        corpus: SHA-256 of the passage file.
    """

    def serves(manifest: Manifest) -> bool:
        return (
            manifest.internal
            and manifest.name.startswith(f"corpus-{corpus[:16]}-")
            and (manifest.format, manifest.bm25, manifest.server) == (FORMAT, settings.bm25, settings.server)
            and all(_spec_of(manifest, name) == spec for name, spec in settings.models().items())
            and manifest.tokens >= settings.tokens
        )

    return sorted(filter(serves, list_indexes(internal=True)), key=lambda manifest: manifest.created)


def _spec_of(manifest: Manifest, name: str) -> str | None:
    model = manifest.models().get(name)
    return model.spec if model else None
