"""Takes over the pictures that `pandoc.lua` finds in a document.

The filter writes each picture into a folder as a file with its number, `.link` with its address if pandoc has no
content for it, and `.alt` with its alternative text. Where the picture stands, it writes its number between two private
characters.
"""

from __future__ import annotations

import re
from pathlib import Path

from turnmark.corpora.readers.office.archive import read_part
from turnmark.corpora.readers.picture_links import LinkedPictures, read_from
from turnmark.corpora.readers.picture_size import HEAD_BYTES
from turnmark.corpora.readers.pictures import MAX_PICTURE_BYTES, NO_PICTURE, PictureCollector

_NUMBER = re.compile("\U0010f1c3(\\d{1,5})\U0010f1c2")


class PandocPictures:
    """The pictures of one document.

    Args:
        folder: an empty folder for the filter.
        path: the file that is read.
        relative: its path below the indexed folder.
        is_archive: whether the addresses of pictures name parts of the file rather than files next to it.
    """

    def __init__(self, folder: Path, path: Path, relative: str, is_archive: bool) -> None:
        self._linked = LinkedPictures(path, relative)
        self._folder, self._path, self._is_archive = folder, path, is_archive

    @property
    def collector(self) -> PictureCollector:
        """The collector of the document's pictures."""
        return self._linked.collector

    @property
    def options(self) -> list[str]:
        """Options of pandoc. Without a folder for the pictures, only as much of each is written as tells its size."""
        is_marked = self.collector.folder is not None
        size = MAX_PICTURE_BYTES + 1 if is_marked else HEAD_BYTES
        options = [f"--metadata=pictures-folder={self._folder}", f"--metadata=pictures-bytes={size}"]
        return [*options, "--metadata=pictures-marked=1"] if is_marked else options

    def take(self, markdown: str) -> str:
        """Hand over the pictures of a text, and return the text with their marks (`PictureCollector.placed`)."""
        if self.collector.folder is None:
            for number in sorted(int(file.stem) for file in self._folder.glob("*.alt")):
                self._mark(number)
            return markdown
        return _NUMBER.sub(lambda found: self._mark(int(found[1])) or NO_PICTURE, markdown)

    def _mark(self, number: int) -> str:
        content, link = self._folder / str(number), self._folder / f"{number}.link"
        alt = (self._folder / f"{number}.alt").read_text("utf-8", errors="replace")
        if content.is_file():
            return self.collector.mark(str(number), read_from(content), alt)
        name = link.read_text("utf-8", errors="replace")
        if self._is_archive:
            return self.collector.mark(str(number), lambda size: read_part(self._path, name, size), alt)
        return self._linked.mark(name, alt)
