"""Records that all packages share: documents, passages, messages, problems."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from itertools import pairwise
from typing import Literal

from pydantic import Field

from turnmark.core.record import Record

HASH_DIGITS = 32
"""Number of hexadecimal digits of a content hash: 128 bits of a SHA-256."""
BlockKind = Literal["heading", "paragraph", "item", "code", "table"]


class Block(Record):
    """A stretch of a document with one role: a heading, a paragraph, one list item, a table, code."""

    kind: BlockKind
    start: int = Field(description="first character, an offset into Document.text")
    end: int = Field(description="one past the last character")
    level: int = Field(default=0, description="heading: 1 to 6; item: nesting depth from 0; else 0")
    number: int | None = Field(default=None, description="item of a numbered list: its number as written")


CONTINUED_MARK = "(continued)"
"""Ends `Passage.section` if the section began in an earlier passage."""


def without_continued(section: str) -> str:
    """Return a section name without its "(continued)" mark."""
    return section.removesuffix(CONTINUED_MARK).rstrip()


ShareBox = tuple[float, float, float, float]
"""Left, top, right and bottom edge of a box, as shares of the displayed page."""


class Picture(Record):
    """A picture that a document shows, to be described by a vision model."""

    start: int = Field(description="offset in Document.text, the end of a block or 0: its description is inserted here")
    # Hash and suffix name a file, and the list of an index may come from somebody else, so they cannot be a path.
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of the stored file, named SHA256 + suffix")
    suffix: str = Field(
        pattern=r"^\.(png|jpg|webp|gif)$", description='type of the stored file: ".png", ".jpg", ".webp" or ".gif"'
    )
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    page: int | None = Field(default=None, description="1-based page on which it is, if there are pages")
    box: ShareBox | None = Field(
        default=None, description="left, top, right and bottom edge as shares of the page as seen"
    )
    alt: str = Field(default="", description="alternative text or caption in the document")
    source: str = Field(
        default="", description="its own file, relative to the indexed folder; empty if it is a part of the document"
    )

    @property
    def file_name(self) -> str:
        """The name of the stored file."""
        return f"{self.sha256}{self.suffix}"


MediaType = Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
MEDIA_TYPES: dict[str, MediaType] = {
    ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
}  # fmt: skip
"""Suffix of a stored picture -> its media type."""


class DescribedPicture(Picture):
    """A picture whose description is a part of its document's text, from `start` to `end`."""

    document: str = Field(description="id of the document")
    end: int = Field(description="offset after the description")
    model: str = Field(description="name of the model that described it")


class TableData(Record):
    """A table of a document, with its cells as they are shown.

    `turnmark.corpora.tables.data_tables.data_rows` iterates over all rows. Only the first rows of a large table are in
    `rows`; the others are packed.
    """

    sheet: str = Field(default="", description="name of the sheet; empty outside of workbooks")
    section: str = Field(default="", description="headings above the table, joined by ' › '")
    caption: str = Field(default="", description="the line that names the table")
    page: int | None = Field(default=None, description="1-based page on which it starts, if there are pages")
    start: int = Field(description="offset in Document.text of the stretch that shows or describes the table")
    end: int = Field(description="offset after the stretch")
    columns: tuple[str, ...] = Field(description="labels of the columns")
    rows: tuple[tuple[str, ...], ...] = Field(description="cells of the rows; trailing cells may be missing")
    stored: tuple[tuple[str, ...], ...] = Field(
        default=(),
        description="numbers and ISO dates that a workbook stores behind the cells; an empty text where it has none",
    )
    numbers: tuple[int, ...] = Field(default=(), description="number of each row in its sheet; if empty, 1, 2, 3 …")
    packed: tuple[str, ...] = Field(
        default=(), description="further rows (`turnmark.corpora.tables.data_tables.pack_rows`)"
    )
    packed_columns: tuple[int, ...] = Field(
        default=(), description="columns of the packed rows that belong to the table, from 0; if empty, all"
    )


class Document(Record):
    """A source text with its structure.

    `id` is the path relative to the source in POSIX form, or `_id` of a BEIR row.
    """

    id: str
    title: str
    text: str
    path: str = Field(default="", description="path relative to the source, POSIX; for BEIR rows the corpus file")
    blocks: tuple[Block, ...] = ()
    pages: tuple[int, ...] = Field(default=(), description="offset at which each page starts; empty without pages")
    is_passage: bool = Field(default=False, description="True: the document is a single passage (a BEIR row)")
    date: str = Field(default="", description="date of the last change, or else of writing, from the front matter")
    metadata: dict[str, tuple[str, ...]] = Field(
        default={}, description="further fields that the author wrote, such as those of front matter: key -> values"
    )
    left_out: dict[str, int] = Field(
        default={}, description='what the reader left out: reason, a plural such as "hidden slides" -> count'
    )
    tables: tuple[TableData, ...] = Field(
        default=(), description="tables that the reader found; those of other documents are read from the text"
    )
    descriptions: tuple[DescribedPicture, ...] = Field(
        default=(), description="pictures whose descriptions were inserted into the text"
    )
    remarks: tuple[str, ...] = Field(
        default=(), description="what the owner of the file should know about how it was read, e.g. a guessed encoding"
    )
    pictures: tuple[Picture, ...] = Field(
        default=(), description="pictures that were handed over to be described, in the order of the text"
    )


class Passage(Record):
    """A stretch of a document, the unit that is indexed, retrieved and cited.

    `id` is `<document>-<start>-<end>` in characters, or `_id` of a BEIR row.
    """

    id: str = Field(description="id within the index")
    document: str = Field(description="id of the document it was cut from")
    title: str = Field(description="title of the document")
    text: str = Field(description="the document's characters from start to end")
    start: int = Field(description="offset of its first character in the document")
    end: int = Field(description="offset after its last character")
    path: str = Field(default="", description="path of the file, relative to the indexed folder")
    section: str = Field(default="", description="headings that apply to all of the text, joined by ' › '")
    page: int | None = Field(default=None, description="1-based page on which it starts, if there are pages")
    page_starts: tuple[int, ...] = Field(
        default=(), description="offsets in the document at which the pages after `page` begin, within the text"
    )
    date: str = Field(default="", description="date of the document")
    header: str = Field(
        default="",
        description="what `text` continues: the mark of a picture's description, and the head of a table (its caption "
        "and column names, as Markdown)",
    )
    index: str = Field(
        default="",
        description="name of its index if several are searched together; then `id` and `document` begin with `INDEX:`",
        exclude_if=lambda index: not index,
    )

    def as_stored(self) -> Passage:
        """Return the passage with `id` and `document` as its index has them, without the name of the index."""
        if not self.index:
            return self
        start = f"{self.index}:"
        names = {"id": self.id.removeprefix(start), "document": self.document.removeprefix(start)}
        return self.model_copy(update=names)

    @property
    def shown_text(self) -> str:
        """The text for display on its own. If it begins inside a table, the head of the table is repeated above it."""
        return f"{self.header}\n{self.text}" if self.header else self.text

    @property
    def heading(self) -> str:
        """Title and section, without "(continued)"."""
        section = without_continued(self.section)
        return " › ".join(part for part in (self.title, section) if part)

    @property
    def indexed_text(self) -> str:
        """The text that is embedded and tokenized: the text below its heading, unless it begins with the title."""
        text = self.shown_text
        if not self.heading or text.lstrip("# \n").startswith(self.title or "\0"):
            return text
        return f"{self.heading}\n{text}"

    def page_at(self, offset: int) -> int | None:
        """Return the page of a character, given by its offset in the document, or None without pages."""
        return None if self.page is None else self.page + bisect_right(self.page_starts, offset)

    def page_texts(self) -> list[tuple[int, str]]:
        """Return each page of the text with the part of the text on it; empty without pages."""
        if self.page is None:
            return []
        cuts = [self.start, *self.page_starts, self.end]
        spans = pairwise(cut - self.start for cut in cuts)
        return [(self.page + at, self.text[start:end]) for at, (start, end) in enumerate(spans)]

    @property
    def content_hash(self) -> str:
        """Fingerprint of `indexed_text`: passages with equal hashes have equal vectors."""
        return content_hash_of(self.indexed_text)


def content_hash_of(indexed_text: str) -> str:
    """Return the content hash of the passage that is indexed as this text."""
    return hashlib.sha256(indexed_text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


class Message(Record):
    """One message of a conversation."""

    role: Literal["user", "assistant"] = Field(description="who wrote it")
    content: str = Field(description="text of the message")


def exchange(question: str, answer: str) -> tuple[Message, Message]:
    """Return a question of the user and the assistant's answer as messages."""
    return Message(role="user", content=question), Message(role="assistant", content=answer)


class Problem(Record):
    """A part of the input that was skipped, with its location and the reason."""

    file: str
    what: str
    line: int | None = None

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{location}: {self.what}"
