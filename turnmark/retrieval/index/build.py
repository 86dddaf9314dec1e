"""Build an index: read what has changed in the source, cut passages, embed them, and last publish a new state.

What is new is added to the files of the index and what is gone is marked, so an update costs what has changed. If a
build is killed, the same command continues it: files that were read and passages that were embedded are kept.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turnmark.core.console import NoProgress, Progress, notify, shown_progress
from turnmark.core.engines import LOCAL, check_engine
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.grouping import batched
from turnmark.core.home import check_name, file_sha256, write_json
from turnmark.core.untrusted import one_line
from turnmark.corpora.readers import ReadingReport, describe_unread
from turnmark.corpora.readers.fingerprint import readers_mark
from turnmark.corpora.text.analysis import ANALYSIS_VERSION
from turnmark.corpora.types import Problem
from turnmark.retrieval.embedding.choose_embedder import (
    AHEAD_CHARACTERS,
    AHEAD_DOCUMENTS,
    choose_embedder,
    embedder_advice,
    languages_of_documents,
)
from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER
from turnmark.retrieval.index.components import delete_served, find_foreign_damage, write_to_server
from turnmark.retrieval.index.encoders import Models, open_encoders
from turnmark.retrieval.index.encoding_steps import encode_blocks
from turnmark.retrieval.index.generation import Generation, read_mark
from turnmark.retrieval.index.picture_build import BuildPictures
from turnmark.retrieval.index.picture_descriptions import DescribingPlan, describer_to_use
from turnmark.retrieval.index.source_reading import SourceEntry, SourceReader
from turnmark.retrieval.index.take_over import take_over
from turnmark.retrieval.ranking.bm25 import count_terms
from turnmark.retrieval.search.list_weights import measure_weights
from turnmark.retrieval.search.opened_index import (
    DENSE,
    StoredIndex,
    generation_folder,
    indexes_folder,
    list_indexes,
    lock_index,
    open_index,
)
from turnmark.retrieval.search.rebuild_commands import add_bm25_options, describe_cost, spec_of_components
from turnmark.retrieval.search.retriever_factory import build_settings, retriever_to_build
from turnmark.retrieval.search.retriever_kinds import RETRIEVERS
from turnmark.retrieval.search.score_thresholds import calibrate_sure_score
from turnmark.retrieval.storage import chroma
from turnmark.retrieval.storage.document_languages import update_languages
from turnmark.retrieval.storage.manifest import FORMAT, ORIGIN_FIELDS, BuildSettings, Manifest, read_manifest
from turnmark.retrieval.storage.passage_writer import ReadFile
from turnmark.retrieval.tables.table_update import TableUpdate
from turnmark.retrieval.tables.table_writer import TABLES_VERSION, tables_file

BLOCK_PASSAGES = 256
"""Number of passages that are sorted by length together. They are embedded and kept in smaller parts."""
GPU_BLOCK_PASSAGES = 8192
"""The same on a GPU, which embeds a block in about a second."""
STAGING_FOLDER = ".pictures"
"""Folder in an index's folder into which readers write pictures during a build."""
MEASURED_FIELDS = ("sure_from", "weights", "changed_since")
"""Fields of the manifest that are measured on the finished index."""
MEASURED_AGAIN_SHARE = 0.1
"""Share of the passages that are added or removed before they are measured again."""
COUNTED_PASSAGES = 20_000
"""Number of passages whose terms are counted in memory at a time."""
MAX_UNPUBLISHED_CONTENTS = 1000
"""Number of texts to embed above which the index can be searched by words meanwhile."""
MAX_WASTED_SHARE = 0.5
"""Share of passages that are gone above which the index is compacted."""
DOUBLED = "passage id appears twice; the first was kept"


@dataclass
class BuildReport:
    """The result of a build.

    Attributes:
        embedded: passages that a model embedded.
        kept: passages whose embeddings were reused.
        removed: passages of the old index that are not in the new one.
        changed: files with new or changed passages.
        gone: documents of the old index that are not in the new one.
        pending: passages that have no vectors yet, since the time for embedding was over.
        problems: everything in the source that was skipped, with its place.
        advice: what to do if the embedder does not know the languages of the documents; otherwise empty.
        unread: the number of files of types that are not read, by suffix.
        unread_files: the first of these files, relative to the source.
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
    pending: int = 0
    unchanged: bool = False
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    advice: str = ""
    unread: dict[str, int] = field(default_factory=dict)
    unread_files: list[str] = field(default_factory=list)
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
    passage_tokens: int | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    internal: bool = False,
    engine: str = LOCAL,
    describe: str | None = None,
    budget: str | None = None,
    dry_run: bool = False,
    verify: bool = False,
    compact: bool = False,
    embedding_seconds: float | None = None,
) -> BuildReport:
    """Build, continue or update an index from a folder or a file.

    Args:
        retriever: spec of the retriever that will search the index by default; `bm25` needs no vectors, and BM25's
            options are fixed in the index. If it is None, the index is built for `retriever_to_build` and keeps no
            spec.
        embedder: its spec, or None to let `choose_embedder` choose by the languages of the documents.
        passage_tokens: maximum tokens of a passage, or None for those of the previous build.
        include, exclude: globs on the path relative to the source.
        internal: an index for a benchmark's corpus; waits for another process that builds the same index.
        engine: where the models run: `local` in this process, otherwise on a Ray cluster. Files are always written by
            this process, and the index is the same.
        describe: spec of the model that describes pictures, or `none`, or None for the previous build's.
        budget: limit of what describing may spend, e.g. `200k` or `$5`.
        dry_run: only read, and report what describing would take; the index stays as it is.
        verify: read all files, also those whose size and times have not changed.
        compact: write the files of the index again without what is gone.
        embedding_seconds: time for embedding many passages, after which the rest is left to the next build.
    """
    settings = build_settings(retriever or retriever_to_build(), embedder or DEFAULT_EMBEDDER)
    chooses = embedder is None and settings.embedder == DEFAULT_EMBEDDER
    kept = "" if retriever is None or internal else str(RETRIEVERS.check(retriever))
    return _build(
        source, name, settings, internal=internal, engine=engine, retriever=kept, passage_tokens=passage_tokens,
        include=tuple(include), exclude=tuple(exclude), progress=progress or NoProgress(), chooses=chooses,
        describe=describe, budget=budget, dry_run=dry_run, verify=verify, compact=compact,
        embedding_seconds=embedding_seconds,
    )  # fmt: skip


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


def settings_of(manifest: Manifest, embedder: str = "") -> BuildSettings:
    """Return the settings that an index was built with, or those with another embedder."""
    embedder = embedder or (manifest.embedder.spec if manifest.embedder else DEFAULT_EMBEDDER)
    return build_settings(add_bm25_options(manifest, spec_of_components(manifest)), embedder)


def build_again(
    manifest: Manifest, progress: Progress | None = None, engine: str = LOCAL, compact: bool = False
) -> BuildReport:
    """Bring a finished index up to date with its source, with the settings that it was built with."""
    return _build(
        Path(manifest.source), manifest.name, settings_of(manifest), engine=engine, retriever=manifest.retriever,
        include=manifest.include, exclude=manifest.exclude, progress=progress or NoProgress(), compact=compact,
    )  # fmt: skip


@dataclass
class Build:
    """One run of a build; `_run` reads top to bottom. For fields without a description, see `build_index`."""

    source: Path
    folder: Path
    settings: BuildSettings
    retriever: str = ""
    """The spec that the index keeps."""
    passage_tokens: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    progress: Progress = field(default_factory=NoProgress)
    internal: bool = False
    engine: str = LOCAL
    chooses: bool = False
    """Whether the embedder is chosen by the languages of the documents."""
    describe: str | None = None
    budget: str | None = None
    dry_run: bool = False
    verify: bool = False
    compact: bool = False
    embedding_seconds: float | None = None

    def __post_init__(self) -> None:
        self.report = BuildReport(self.folder.name)
        old = read_manifest(self.folder)
        self.old = old if old is not None and old.format == FORMAT else None
        if self.passage_tokens is None and old is not None:
            self.passage_tokens = old.passage_tokens
        if old is not None and self.old is None:
            notify(f"{self.folder.name}: for a new format, {describe_cost(old)}")
        self.pictures: BuildPictures | None = None
        self.published: list[Manifest] = []
        self.fresh: Path | None = None
        """The generation's folder, if only this run made it."""
        self.is_damaged = False
        """Whether values of the current generation may be wrong, so that none is taken over."""

    def delete_fresh(self) -> None:
        """Delete the files that only this run made."""
        if self.fresh is not None:
            shutil.rmtree(self.fresh if self.old else self.folder, ignore_errors=True)

    def run(self) -> BuildReport:
        """Build the index, or plan it; after an error the unfinished files stay."""
        began = time.monotonic()
        try:
            with ExitStack() as stack:
                kept = self.old.described.spec if self.old and self.old.described else ""
                describer = describer_to_use(self.describe, kept, self.budget)
                if describer is not None:
                    pictures = BuildPictures(describer, self.folder / STAGING_FOLDER, self.describe is not None)
                    self.pictures = stack.enter_context(closing(pictures))
                reader = stack.enter_context(closing(self._reader()))
                if self.chooses:
                    self._choose_embedder(reader)
                models = Models(self.settings)
                place = stack.enter_context(closing(self._open_generation(models)))
                if self.dry_run:
                    self._plan(reader, models, place)
                else:
                    self._run(reader, models, place)
        except sqlite3.Error as error:
            raise TurnmarkError(
                f"index {self.folder.name!r} cannot be written: {error} ({self.folder}); with room and the right to "
                "write there, the same command goes on"
            ) from error
        self.report.seconds = time.monotonic() - began
        return self.report

    def _plan(self, reader: SourceReader, models: Models, place: Generation) -> None:
        """Read the source and plan its descriptions."""
        self._prepare(reader, models, place)
        self.progress.start("reading", None)
        if self.pictures is not None:
            self.report.plan = self.pictures.collect(self._entries(reader, place))
        self.delete_fresh()

    def _run(self, reader: SourceReader, models: Models, place: Generation) -> None:
        self._prepare(reader, models, place)
        self._read(reader, place)
        if self._report_if_unchanged(place, models):
            return
        changed, self.report.gone = place.store.changes()
        self.report.changed = max(self.report.changed, changed)
        self._find_terms(place)
        missing = {encoder.name: place.store.without_values(encoder.name) for encoder in models.encoders}
        self._count(place, missing)
        is_long = len(missing.get(DENSE, ())) > MAX_UNPUBLISHED_CONTENTS
        if is_long:
            self._publish(place, models, len(missing[DENSE]))
        self.report.pending = self._encode(place, models, missing, self.embedding_seconds if is_long else None)
        self._publish(place, models, self.report.pending)
        if self.compact or place.store.wasted_share() > MAX_WASTED_SHARE:
            self._compact(place, models)
        self._drop_others(place)

    # -- where it is written

    def _reader(self) -> SourceReader:
        """Return the reader of the source, which has not read anything yet."""
        watch = ReadingReport(self._tell_reading)
        folder = self.pictures.staging if self.pictures else None
        return SourceReader(self.source, self.include, self.exclude, {}, watch, pictures=folder)

    def _choose_embedder(self, reader: SourceReader) -> None:
        """Choose the embedder by the languages of the index, or of the first documents of a new one.

        The choice comes before passages are cut, since their length depends on the embedder.
        """
        if self.old is not None:
            languages = self.old.languages
        else:
            self.progress.start("reading", None)
            languages = languages_of_documents(reader.read_ahead(AHEAD_DOCUMENTS, AHEAD_CHARACTERS))
        self.settings = self.settings.model_copy(update={"embedder": choose_embedder(languages)})

    def _mark(self, models: Models) -> str:
        """Return what the files of a generation are made for; another generation has other terms or vectors."""
        settings = self.settings
        server = settings.server.url if settings.server else ""
        terms = f"analysis {ANALYSIS_VERSION}\n{settings.bm25.language}"
        return f"format {FORMAT}\n{terms}\n{settings.tokens} {server}\n{models.mark()}"

    def _open_generation(self, models: Models) -> Generation:
        """Open the generation that this build goes on with: the current one, an unfinished one, or a new one."""
        mark = self._mark(models)
        if self.old is not None and self._goes_on(self.old, mark):
            try:
                return Generation(self.folder, self.old.generation, self.old.revision + 1, models.encoders)
            except (TurnmarkError, sqlite3.DatabaseError) as error:
                self._read_again(error)
        number = self.old.generation + 1 if self.old else 1
        folder = generation_folder(self.folder, number)
        if folder.exists() and read_mark(folder) != mark:
            self._delete(folder)
        self.fresh = None if folder.exists() else folder
        place = Generation(self.folder, number, self.old.revision + 1 if self.old else 1, models.encoders, mark)
        if self.fresh is not None and self.old is not None and not self.is_damaged:
            try:
                take_over(StoredIndex(self.folder, self.old), place, models.encoders)
            except (TurnmarkError, OSError, ValueError, sqlite3.DatabaseError) as error:
                self.report.problems.append(Problem(file=self.folder.name, what=f"embedding everything again: {error}"))
        return place

    def _goes_on(self, old: Manifest, mark: str) -> bool:
        """Return whether a build can add to the files of the current generation."""
        if read_mark(generation_folder(self.folder, old.generation)) != mark:
            return False
        damage = find_foreign_damage(StoredIndex(self.folder, old))
        if damage:
            self._read_again(damage)
            self.is_damaged = not damage.endswith("is missing") and not damage.startswith(("tables/", "pictures/"))
        return not damage

    def _read_again(self, damage: object) -> None:
        self.report.problems.append(Problem(file=self.folder.name, what=f"everything is read again: {damage}"))

    def _prepare(self, reader: SourceReader, models: Models, place: Generation) -> None:
        """Have the reader leave out unchanged files, and open the stored tables."""
        self.window = models.window(self.passage_tokens)
        made_by = f"{readers_mark()} {self.window.size} tables {TABLES_VERSION}\n{models.mark()}"
        if self.pictures is not None:
            made_by += f"\n{self.pictures.describer.fingerprint}"
        made_by_changed = place.store.get("made_by") != made_by
        current, digest = None, ""
        if self.old is not None and not made_by_changed:
            index, digest = StoredIndex(self.folder, self.old), self.old.tables
            current = index.files / tables_file(digest) if digest else None
            if self.pictures is not None and self.old.described is not None:
                self.pictures.current = index.pictures
        try:
            place.tables = TableUpdate(place.folder, current, digest)
        except sqlite3.DatabaseError:
            place.tables = TableUpdate(place.folder, None, "")
            made_by_changed = True
        if self.verify or made_by_changed:
            place.store.forget_stamps()
            place.store.note("made_by", made_by)
        reader.known = place.store.files()

    # -- reading

    def _entries(self, reader: SourceReader, place: Generation) -> Iterator[SourceEntry]:
        """Yield the entries of the source, and report each as progress."""
        by_file = place.store.documents_by_file() if self.pictures or (self.old and self.old.tables) else {}
        known = 0
        for entry in reader.entries():
            if entry.is_known and by_file:
                entry.documents = by_file.get(entry.path, [])
            yield entry
            known += 1
            if not entry.is_known:
                self.progress.advance(known)
                known = 0
        self.progress.advance(known)

    def _described(self, reader: SourceReader, place: Generation) -> Iterator[SourceEntry]:
        """Yield the entries of the source, with the descriptions of their pictures."""
        entries = self._entries(reader, place)
        if self.pictures is None:
            yield from entries
            return
        self.report.plan = self.pictures.collect(entries)
        descriptions = self.pictures.describe(self.progress)
        self.report.described, self.report.spent = descriptions.described, descriptions.spent
        self.progress.start("cutting passages", None)
        yield from self.pictures.entries()
        self.report.descriptions = len(self.pictures.placed)

    def _read(self, reader: SourceReader, place: Generation) -> None:
        """Read what has changed in the source, and store its passages."""
        self.progress.start("reading", reader.count())
        seen: set[str] = set()
        rows: set[str] = set()
        for block in batched(self._cut(reader, place), BLOCK_PASSAGES):
            read = [entry for entry in block if not entry.is_known]
            for entry, result in zip(read, place.store.put(map(_read_file, read)) if read else (), strict=True):
                entry.changed |= result.changed
                entry.problems += [Problem(file=each, what=DOUBLED) for each in result.doubled]
                if result.doubled:
                    entry.stamp = ""
            for entry in block:
                self._note(entry)
                seen.add(entry.path)
                rows.update(entry.documents if not entry.path else ())
                if entry.holds_more and not entry.is_known:
                    place.late_stamps.append((entry.stamp, entry.path))
        self.progress.tell("")
        self.report.unread = dict(reader.watch.unread)
        self.report.unread_files = reader.watch.unread_files
        if rows:
            place.store.keep_rows(rows)
        self._remove_missing(reader, place, seen)

    def _cut(self, reader: SourceReader, place: Generation) -> Iterator[SourceEntry]:
        for entry in self._described(reader, place):
            if entry.is_known:
                place.tables.keep(entry.documents)
            yield reader.cut(entry, self.window, place.tables)

    def _note(self, entry: SourceEntry) -> None:
        self.report.problems += entry.problems
        self.report.changed += entry.changed and bool(entry.path)
        if entry.left_out:
            self.report.left_out.update(entry.left_out)
        self.report.remarks += [Problem(file=entry.path, what=remark) for remark in entry.remarks]

    def _remove_missing(self, reader: SourceReader, place: Generation, seen: set[str]) -> None:
        """Remove the files that the source does not have any more. Those in folders that cannot be opened stay."""
        closed = tuple(f"{folder}/" for folder in reader.watch.unopened)
        missing = [path for path in reader.known if path not in seen and not path.startswith(closed)]
        by_file = place.store.documents_by_file() if missing else {}
        for path in missing:
            place.tables.remove(by_file.get(path, ()))
        place.store.remove_files(missing)
        self.report.documents, self.report.passages = place.store.totals()
        if not self.report.passages:
            listed = "".join(f"\n  {one_line(problem)}" for problem in self.report.problems[:20])
            if unread := describe_unread(self.report.unread):
                listed += f"\n  {one_line(unread)}"
            raise RequestError(f"there is nothing to index in {str(self.source)!r}{':' if listed else ''}{listed}")

    def _tell_reading(self, what: str) -> None:
        self.progress.tell(one_line(what))
        self.progress.advance(0)  # so that a log gets its line before a document is finished

    # -- what has changed

    def _find_terms(self, place: Generation) -> None:
        """Detect the languages of the documents, and count the terms of new passages."""
        self.progress.start("bm25", None)
        store = place.store
        update_languages(store)
        for page in batched(store.without_terms(), COUNTED_PASSAGES):
            passages = place.passages(page)
            language_of = store.language_of([passage.document for passage in passages])
            texts = (
                (key, passage.indexed_text, language_of[passage.document])
                for key, passage in zip(page, passages, strict=True)
            )
            store.add_terms(*count_terms(texts, self.settings.bm25))

    def _manifest(self, place: Generation, models: Models, languages: dict[str, int]) -> Manifest:
        """Return the manifest of the next state; what is measured on it is as it was."""
        infos = models.infos()
        same_models = self.old is not None and self.old.models() == {name: info for name, info in infos.items() if info}
        measured = {name: getattr(self.old, name) for name in MEASURED_FIELDS} if same_models else {}
        return Manifest(
            name=self.folder.name,
            generation=place.number,
            revision=place.store.revision,
            source=str(self.source.resolve()),
            include=self.include,
            exclude=self.exclude,
            documents=self.report.documents,
            passages=self.report.passages,
            digest=place.store.digest(),
            chunk_size=self.window.size,
            passage_tokens=self.passage_tokens,
            bm25=self.settings.bm25,
            languages=languages,
            **infos,
            tokens=self.settings.tokens,
            tables=place.tables.finish(),
            tables_version=TABLES_VERSION,
            retriever=self.retriever,
            server=self.settings.server,
            described=self.pictures.info() if self.pictures else None,
            skipped=len(self.report.problems),
            unread=self.report.unread,
            unread_files=tuple(self.report.unread_files),
            left_out=dict(self.report.left_out),
            internal=self.internal,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=version("turnmark"),
            **measured,
        )

    def _report_if_unchanged(self, place: Generation, models: Models) -> bool:
        """Return whether the index is as the source is; then only what the manifest says about the source is new."""
        old = self.old
        if old is None or old.generation != place.number or old.pending or self.compact:
            return False
        if place.store.digest() != old.digest:
            return False
        planned = self._manifest(place, models, old.languages)
        ignored = {*ORIGIN_FIELDS, *MEASURED_FIELDS, "revision"}
        if planned.model_dump(exclude=ignored) != old.model_dump(exclude=ignored):
            return False
        self.report.unchanged = True
        self.report.kept = self.report.passages if models.encoders else 0
        kept = {name: getattr(old, name) for name in ("revision", "created", "version")}
        manifest = planned.model_copy(update=kept)
        if manifest != old:
            write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        place.store.set_stamps(place.late_stamps)
        self._advise(manifest)
        return True

    def _count(self, place: Generation, missing: Mapping[str, Sequence[Any]]) -> None:
        self.report.embedded = max(map(len, missing.values()), default=0)
        self.report.kept = self.report.passages - self.report.embedded if missing else 0
        if self.old is not None and self.old.generation == place.number:
            self.report.removed = place.store.removed_contents()

    def _advise(self, manifest: Manifest) -> None:
        if manifest.embedder is not None:
            self.report.advice = embedder_advice(manifest.embedder.spec, manifest.languages, self.chooses)

    # -- what it writes

    def _encode(
        self, place: Generation, models: Models, missing: Mapping[str, Sequence[tuple[str, int]]], seconds: float | None
    ) -> int:
        """Encode the contents that have no values yet; each step is kept. Return how many are left after the time."""
        ends = time.monotonic() + seconds if seconds is not None else math.inf
        with ExitStack() as stack:
            workers = None
            if self.engine != LOCAL and any(missing.values()):
                from turnmark.retrieval.services.ray_cluster import Workers

                without_server = self.settings.model_copy(update={"server": None})  # workers must not get its token
                workers = stack.enter_context(
                    Workers(self.engine, open_encoders, (without_server,), mark=models.mark())
                )
            for number, encoder in enumerate(models.encoders):
                self.progress.start("embedding", len(missing[encoder.name]))
                size = GPU_BLOCK_PASSAGES if encoder.on_gpu and workers is None else BLOCK_PASSAGES
                blocks = map(place.contents, batched(missing[encoder.name], size))
                left = len(missing[encoder.name])
                for contents, values in encode_blocks(blocks, encoder, number, workers, self.progress):
                    place.values[encoder.name].add(contents, values)
                    left -= len(contents)
                    if left and time.monotonic() > ends:
                        return left
        return 0

    def _publish(self, place: Generation, models: Models, pending: int = 0) -> None:
        """Write the next state, and last the manifest."""
        if self.pictures is not None:
            self.pictures.write(place.folder / "pictures")
        rows = place.store.rows()
        manifest = self._manifest(place, models, place.store.languages()).model_copy(update={"pending": pending})
        place.publish(rows)
        if manifest.server is not None and not pending:
            write_to_server(place, manifest, rows, self.progress)
        if not pending:
            manifest = manifest.model_copy(update=self._measured(StoredIndex(self.folder, manifest), place))
        self._write(place, manifest)
        # Only now: if the state were not published, the next build would give its number to further passages.
        for encoder in () if pending else models.encoders:
            place.store.set_complete(encoder.name)
        place.finish_revision()

    def _write(self, place: Generation, manifest: Manifest) -> None:
        """Write the manifest, with which the state can be read."""
        place.add_manifest(manifest)
        write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        self.published.append(manifest)
        self._advise(manifest)

    def _measured(self, index: StoredIndex, place: Generation) -> dict[str, Any]:
        """Return the fields of the manifest that are measured on the finished index, if enough of it has changed."""
        manifest = index.manifest
        if manifest.embedder is None and manifest.splade is None:
            return {}
        changes = manifest.changed_since + sum(place.store.counts())
        if manifest.weights and changes < MEASURED_AGAIN_SHARE * manifest.passages:
            return {"changed_since": changes}
        self.progress.start("calibrating", None)
        measured: dict[str, Any] = {"changed_since": 0, "sure_from": None, "weights": measure_weights(index)}
        if manifest.embedder is None or not manifest.model_copy(update=measured).trusts_cosines():
            return measured
        return measured | {"sure_from": calibrate_sure_score(index)}

    def _compact(self, place: Generation, models: Models) -> None:
        """Write a new generation without what is gone."""
        manifest = self.published[-1] if self.published else self.old
        assert manifest is not None, "a state was published, or nothing has changed"
        number, revision = place.number + 1, manifest.revision + 1
        self._delete(generation_folder(self.folder, number))
        with closing(Generation(self.folder, number, revision, models.encoders, place.mark)) as new:
            take_over(StoredIndex(self.folder, manifest), new, models.encoders)
            self._find_terms(new)
            tables = place.folder / tables_file(manifest.tables) if manifest.tables else None
            new.tables = TableUpdate(new.folder, tables, manifest.tables)
            new.tables.finish()
            for encoder in models.encoders:
                new.store.set_complete(encoder.name)
            if (place.folder / "pictures").is_dir():
                shutil.copytree(place.folder / "pictures", new.folder / "pictures", copy_function=os.link)
            rows = new.store.rows()
            new.publish(rows)
            manifest = manifest.model_copy(update={"generation": number, "revision": revision})
            if manifest.server is not None:
                write_to_server(new, manifest, rows, self.progress)
            self._write(new, manifest)

    def _drop_others(self, place: Generation) -> None:
        """Delete what cannot be open in another process.

        The previous state stays until the next build: a running chat may still open parts of it.
        """
        kept = [*self.published[-1:], *([self.old] if self.old else self.published[:1])]
        in_use = {generation_folder(self.folder, manifest.generation) for manifest in kept}
        for folder in self.folder.glob("g[0-9]*"):
            if folder not in in_use:
                self._delete(folder)
        if place.folder in in_use:
            place.drop_revisions(kept)

    def _delete(self, folder: Path) -> None:
        """Delete a folder and its data on servers; report what cannot be deleted there."""
        for leftover in delete_served(folder):
            self.report.problems.append(Problem(file=self.folder.name, what=leftover))
        shutil.rmtree(folder, ignore_errors=True)


def _read_file(entry: SourceEntry) -> ReadFile:
    """Return what the index stores of an entry. Its stamp comes later if tables or pictures are stored at the end."""
    stamp = "" if entry.holds_more else entry.stamp
    return ReadFile(entry.path, stamp, entry.kept(), entry.passages, entry.fields)


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
        specs = {name: model.spec for name, model in manifest.models().items()}
        return (
            manifest.internal
            and manifest.name.startswith(f"corpus-{corpus[:16]}-")
            and (manifest.format, manifest.bm25, manifest.server) == (FORMAT, settings.bm25, settings.server)
            and settings.models().items() <= specs.items()
            and manifest.tokens >= settings.tokens
        )

    return sorted(filter(serves, list_indexes(internal=True)), key=lambda manifest: manifest.created)
