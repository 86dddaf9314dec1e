"""Reads a picture file as a document of its own, whose text is the file's name until a vision model describes it."""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.readers.common.prose import (
    UndescribedPicture,
    Unreadable,
    parse_text,
    title_from_name,
)
from turnmark.corpora.readers.pictures.collector import NOT_DRAWABLE, TOO_LONG, PictureCollector
from turnmark.corpora.readers.pictures.image_size import HEAD_BYTES, picture_head
from turnmark.corpora.readers.pictures.links import read_from
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document


def read_picture(path: Path, relative: str, _: ProgressCallback) -> list[Document]:
    """Return the document of a picture file; none for an icon or a picture of one color.

    Raises:
        UndescribedPicture: the build does not describe pictures.
        Unreadable: it cannot be decoded, or is no picture.
    """
    pictures = PictureCollector()
    read = read_from(path)
    is_taken = pictures.take(relative, read)
    if pictures.folder is None or pictures.left_out[TOO_LONG]:
        for reason in pictures.left_out:
            raise UndescribedPicture(reason)
    elif pictures.left_out[NOT_DRAWABLE] or picture_head(read(HEAD_BYTES)) is None:
        raise Unreadable("not a picture, a broken one, or one too large to be decoded; open it and save it again")
    if not is_taken:
        return []
    title = title_from_name(relative)
    document = parse_text(f"{title}\n", relative)
    shown = tuple(picture.model_copy(update={"start": len(title)}) for picture in pictures.pictures)
    return [document.model_copy(update={"title": title, "pictures": shown})]
