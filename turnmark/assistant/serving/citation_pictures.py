"""Pictures of what an answer cites: the page of a PDF with the passage marked, or a described picture itself.

Only files of the index are opened. A client names a document and the hash of a picture, never a path.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field, model_validator

from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.readers import Unreadable, draw_page
from turnmark.corpora.types import MEDIA_TYPES, Passage
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.storage.picture_store import PictureStore


class PictureRequest(Record):
    """A request for a page of a document with some characters marked, or for a described picture."""

    document: str = Field(min_length=1, description="id of a document of the index")
    index: str = Field(default="", description="name of the document's index, if several are served")
    page: int | None = Field(default=None, ge=1)
    start: int = Field(default=0, ge=0, description="first character to mark, an offset into the document's text")
    end: int = Field(default=0, ge=0, description="one past the last character")
    picture: str = Field(default="", pattern="^([0-9a-f]{64})?$", description="hash of a described picture")

    @model_validator(mode="after")
    def _check_one(self) -> PictureRequest:
        if (self.page is None) == (not self.picture):
            raise ValueError("expected a page or a picture")
        return self


class ServedPicture(NamedTuple):
    """The bytes of a picture and their media type."""

    content: bytes
    media_type: str


def cited_picture(index: Index, request: PictureRequest) -> ServedPicture:
    """Return the described picture, or the page of a PDF as PNG.

    Raises:
        RejectedRequest: the document has no such picture or page.
    """
    part = index.part(request.index)
    if request.page is None:
        return _described_picture(part, request)
    return ServedPicture(_draw_page(part, request, request.page), "image/png")


def _described_picture(part: StoredIndex | None, request: PictureRequest) -> ServedPicture:
    pictures = part.pictures if part else None
    found = pictures.find(request.document, request.picture) if pictures else None
    if pictures is None or found is None:
        raise RejectedRequest("the document has no such picture with a description", "picture", 404, "no_picture")
    try:
        return ServedPicture(pictures.read(found), MEDIA_TYPES[found.suffix])
    except TurnmarkError as error:
        raise RejectedRequest(f"the picture cannot be shown: {error}", status=404, code="no_picture") from error


def _draw_page(part: StoredIndex | None, request: PictureRequest, page: int) -> bytes:
    """Draw the page of a PDF, with the words of the passage marked and the pictures that it describes framed."""
    passages = part.store.of_document(request.document) if part else []
    file = part.source_file(passages[0].path) if part and passages else None
    if part is None or file is None or file.suffix.lower() != ".pdf":
        raise RejectedRequest(
            "this document is not a PDF of the index, so no page can be drawn", "document", 404, "no_picture"
        )
    cited = part.pictures.between(request.document, request.start, request.end) if part.pictures else []
    marked = "\n".join(_marked_text(passage, request, part.pictures) for passage in passages)
    framed = [picture.box for picture in cited if picture.page == page and picture.box is not None]
    try:
        return draw_page(file, page, marked, framed)
    except (Unreadable, OSError) as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        raise RejectedRequest(f"the page cannot be drawn: {message}", status=404, code="no_picture") from error


def _marked_text(passage: Passage, request: PictureRequest, pictures: PictureStore | None) -> str:
    """Return the part of a passage that is marked, without descriptions of pictures, which are not on the page."""
    start, end = max(request.start, passage.start), min(request.end, passage.end)
    pieces: list[str] = []
    for picture in pictures.of_passage(passage) if pictures else ():
        pieces.append(passage.text[max(0, start - passage.start) : max(0, min(end, picture.start) - passage.start)])
        start = max(start, picture.end)
    pieces.append(passage.text[max(0, start - passage.start) : max(0, end - passage.start)])
    return "\n".join(pieces)
