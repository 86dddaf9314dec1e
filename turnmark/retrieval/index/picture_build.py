"""The pictures of a build: collected while the source is read, described, and inserted before passages are cut.

All files are read first, so that the number of pictures and the cost are known before the first one is described.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnmark.core.console import Progress, notify
from turnmark.core.untrusted import one_line
from turnmark.corpora.readers import is_picture_file
from turnmark.corpora.readers.picture_descriptions import insert_descriptions
from turnmark.corpora.text.segmentation import heading_text
from turnmark.corpora.types import DescribedPicture, Document, Picture, Problem
from turnmark.retrieval.index.picture_descriptions import DescribingPlan, Descriptions, PictureDescriber, PictureTask
from turnmark.retrieval.index.source_reading import SourceEntry
from turnmark.retrieval.storage.manifest import DescriberInfo
from turnmark.retrieval.storage.picture_store import StoredPictures, digest_of, write_pictures


class BuildPictures:
    """The pictures of one build.

    Args:
        required: whether a build fails if no picture can be described, since it was asked to.

    Attributes:
        staging: folder into which readers write pictures.
        current: the pictures of the current generation, for files that have not changed, or None if there are none.
        plan: what describing the pictures takes; None until `collect` has run.
        descriptions: the descriptions; empty until `describe` has run.
        placed: the pictures whose descriptions are in the passages, in the order of the source.
    """

    def __init__(self, describer: PictureDescriber, staging: Path, required: bool) -> None:
        self.describer, self.staging, self._required = describer, staging, required
        self.current: StoredPictures | None = None
        self.plan: DescribingPlan | None = None
        self.descriptions = Descriptions({}, {}, 0, "")
        self.placed: list[DescribedPicture] = []
        self._tasks: dict[str, PictureTask] = {}
        self._shown: set[str] = set()
        """Hashes of the pictures that a document shows. Their own files are no further documents."""
        self._entries: list[SourceEntry] = []
        staging.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Delete the folder of pictures."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def collect(self, entries: Iterable[SourceEntry]) -> DescribingPlan:
        """Read all entries, and plan the descriptions of their pictures."""
        for entry in entries:
            for document in entry.uncut:
                self._add_tasks(entry, document)
            if not is_picture_file(entry.path):
                self._shown |= {picture.sha256 for picture in self._pictures_of(entry)}
            self._entries.append(entry)
        self.plan = self.describer.plan(list(self._tasks.values()))
        return self.plan

    def describe(self, progress: Progress) -> Descriptions:
        """Describe the pictures that were collected."""
        assert self.plan is not None, "`collect` comes first"
        if self.plan.missing:
            notify(f"describing pictures with {self.describer.spec}: {self.plan.in_words()}")
        self.descriptions = self.describer.describe(list(self._tasks.values()), progress, self._required)
        return self.descriptions

    def entries(self) -> Iterator[SourceEntry]:
        """Yield the collected entries in their order, with the descriptions inserted into their documents."""
        for entry in self._entries:
            if is_picture_file(entry.path) and any(each.sha256 in self._shown for each in self._pictures_of(entry)):
                yield SourceEntry(path=entry.path, problems=entry.problems)  # no further document
                continue
            self.placed += self._taken_over(entry)
            self._note_failures(entry)
            entry.uncut = [self._with_descriptions(document) for document in entry.uncut]
            yield entry

    def _taken_over(self, entry: SourceEntry) -> Iterator[DescribedPicture]:
        """Yield the described pictures of a file whose passages are taken over from the current generation."""
        if entry.is_known and self.current is not None:
            for identity in entry.documents:
                yield from self.current.of_document(identity)

    def _pictures_of(self, entry: SourceEntry) -> Iterator[Picture]:
        """Yield the pictures of a file, new and taken over."""
        for document in entry.uncut:
            yield from document.pictures
        yield from self._taken_over(entry)

    def info(self) -> DescriberInfo:
        """Return the entry of the manifest."""
        return DescriberInfo(
            spec=self.describer.spec,
            fingerprint=self.describer.fingerprint,
            pictures=len(self.placed),
            digest=digest_of(self.placed),
        )

    def write(self, folder: Path) -> None:
        """Write the component `pictures` into a new folder."""
        write_pictures(folder, self.placed, self._file_of)

    def _file_of(self, picture: DescribedPicture) -> Path:
        staged = self.staging / picture.file_name
        if staged.exists() or self.current is None:
            return staged
        return self.current.file_of(picture)

    def _with_descriptions(self, document: Document) -> Document:
        described = insert_descriptions(document, self.descriptions.texts, self.describer.model)
        self.placed += described.descriptions
        return described

    def _note_failures(self, entry: SourceEntry) -> None:
        """Report the pictures of a file that have no description. The next build reads the file again."""
        for document in entry.uncut:
            for picture in document.pictures:
                reason = self.descriptions.failures.get(picture.sha256)
                if reason is not None:
                    entry.stamp = ""
                    what = f"a picture is not described: {reason}"
                    entry.problems.append(Problem(file=_place(document.id, picture), what=what))

    def _add_tasks(self, entry: SourceEntry, document: Document) -> None:
        """Add the pictures of a document. The first occurrence with a caption says most about a picture."""
        for picture in document.pictures:
            known = self._tasks.get(picture.sha256)
            if known is None or (picture.alt and not known.picture.alt):
                self._tasks[picture.sha256] = self._task(entry, document, picture)

    def _task(self, entry: SourceEntry, document: Document, picture: Picture) -> PictureTask:
        file, place = self.staging / picture.file_name, _place(entry.path or document.id, picture)
        return PictureTask(picture, file, place, document.title, _heading_above(document, picture))


def _place(file: str, picture: Picture) -> str:
    return one_line(file) if picture.page is None else f"{one_line(file)}, page {picture.page}"


def _heading_above(document: Document, picture: Picture) -> str:
    above = (block for block in reversed(document.blocks) if block.start < picture.start)
    heading = next((block for block in above if block.kind == "heading"), None)
    return heading_text(document.text[heading.start : heading.end]) if heading else ""
