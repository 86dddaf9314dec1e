"""Pictures of the pages that an answer cites, with the passage marked. Only files of the index are opened."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, ValidationError

from turnmark.assistant.serving.request import Refusal
from turnmark.core.record import Record
from turnmark.corpora.readers.isolation import draw_page
from turnmark.corpora.readers.prose import Unreadable
from turnmark.retrieval.index import Index


class PictureRequest(Record):
    """Which page of which document, and which of its characters to mark."""

    document: str = Field(min_length=1, description="id of a document of the index")
    index: str = Field(default="", description="name of the document's index, if several are served")
    page: int = Field(ge=1)
    start: int = Field(ge=0, description="first character to mark, an offset into the document's text")
    end: int = Field(ge=0, description="one past the last character")


def parse_picture_request(parameters: Mapping[str, str]) -> PictureRequest:
    """Parse the query parameters of a request; raise Refusal with every mistake."""
    try:
        return PictureRequest.model_validate_strings(dict(parameters))
    except ValidationError as error:
        mistakes = error.errors(include_url=False, include_input=False)
        raise Refusal([f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in mistakes]) from error


def draw_cited_page(index: Index, request: PictureRequest) -> bytes:
    """Draw the page of a PDF as PNG; raise Refusal if the document has no such page."""
    part = index.part(request.index)
    passages = part.store.of_document(request.document) if part else []
    file = part.source_file(passages[0].path) if part and passages else None
    if file is None or file.suffix.lower() != ".pdf":
        raise Refusal("this document is not a PDF of the index, so no page can be drawn", "document", 404, "no_picture")
    marked = "\n".join(
        passage.text[max(request.start - passage.start, 0) : max(request.end - passage.start, 0)]
        for passage in passages
        if passage.start < request.end and passage.end > request.start
    )
    try:
        return draw_page(file, request.page, marked)
    except (Unreadable, OSError) as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        raise Refusal(f"the page cannot be drawn: {message}", status=404, code="no_picture") from error
