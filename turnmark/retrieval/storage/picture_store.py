"""The described pictures of an index: the component `pictures`, and how a citation finds its pictures.

gNNNN/pictures/pictures.jsonl   a line for each description in the passages (`DescribedPicture`)
gNNNN/pictures/<sha256>.png …   the pictures, each once
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from turnmark.core.errors import TurnmarkError
from turnmark.core.grouping import group_pairs
from turnmark.core.home import write_atomic
from turnmark.corpora.types import DescribedPicture, Passage

LIST_FILE = "pictures.jsonl"


class PictureStore(ABC):
    """The described pictures of one or several indexes. Documents have the ids that passages name them by."""

    @abstractmethod
    def of_document(self, document: str) -> Sequence[DescribedPicture]:
        """Return the described pictures of a document, in the order of its text."""

    @abstractmethod
    def read(self, picture: DescribedPicture) -> bytes:
        """Return the bytes of a picture; TurnmarkError if they are missing or changed."""

    def of_passage(self, passage: Passage) -> list[DescribedPicture]:
        """Return the pictures whose descriptions a passage contains, completely or in part."""
        return self.between(passage.document, passage.start, passage.end)

    def between(self, document: str, start: int, end: int) -> list[DescribedPicture]:
        """Return the pictures whose descriptions are, completely or in part, between two offsets of a document."""
        return [picture for picture in self.of_document(document) if picture.start < end and start < picture.end]

    def find(self, document: str, sha256: str) -> DescribedPicture | None:
        """Return a picture of a document by the hash of its bytes, or None if the document has no such picture."""
        return next((picture for picture in self.of_document(document) if picture.sha256 == sha256), None)


class StoredPictures(PictureStore):
    """The described pictures in the folder of one index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with open(folder / LIST_FILE, encoding="utf-8") as lines:
            pictures = list(map(DescribedPicture.model_validate_json, lines))
        self._of = group_pairs((picture.document, picture) for picture in pictures)

    def of_document(self, document: str) -> Sequence[DescribedPicture]:
        return self._of.get(document, ())

    def file_of(self, picture: DescribedPicture) -> Path:
        """Return the file of a picture."""
        return self.folder / picture.file_name

    def read(self, picture: DescribedPicture) -> bytes:
        try:
            data = self.file_of(picture).read_bytes()
        except OSError as error:
            raise TurnmarkError(f"the picture {picture.file_name} cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            raise TurnmarkError(f"the picture {picture.file_name} is damaged; build the index again")
        return data


class JointPictures(PictureStore):
    """The described pictures of several indexes, whose documents are named `INDEX:DOCUMENT`."""

    def __init__(self, parts: Mapping[str, PictureStore]) -> None:
        self._parts = parts

    def of_document(self, document: str) -> Sequence[DescribedPicture]:
        name, _, part_document = document.partition(":")
        pictures = self._parts[name].of_document(part_document) if name in self._parts else ()
        return [picture.model_copy(update={"document": document}) for picture in pictures]

    def read(self, picture: DescribedPicture) -> bytes:
        name, _, part_document = picture.document.partition(":")
        return self._parts[name].read(picture.model_copy(update={"document": part_document}))


def write_pictures(
    folder: Path, pictures: Iterable[DescribedPicture], file_of: Callable[[DescribedPicture], Path]
) -> None:
    """Write the component: each picture once, as a hard link if the file system allows it, and last the list.

    Args:
        file_of: returns the present file of a picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for picture in pictures:
        lines.append(_line(picture))
        target = folder / picture.file_name
        if target.exists():
            continue
        try:
            os.link(file_of(picture), target)
        except OSError:
            shutil.copyfile(file_of(picture), target)
    write_atomic(folder / LIST_FILE, "".join(lines))


def digest_of(pictures: Iterable[DescribedPicture]) -> str:
    """Return the SHA-256 of the list of pictures."""
    return hashlib.sha256("".join(map(_line, pictures)).encode()).hexdigest()


def _line(picture: DescribedPicture) -> str:
    return json.dumps(picture.model_dump(mode="json"), ensure_ascii=False) + "\n"
