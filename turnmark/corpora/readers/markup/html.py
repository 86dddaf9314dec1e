"""Renders the readable part of an HTML page as Markdown-like text with its blocks.

The tree is walked with an explicit stack, so that deeply nested pages do not exceed the recursion limit.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import (
    SOFT_HYPHEN,
    Unreadable,
    date_part,
    declared_encoding,
    shorten_title,
    small_number,
    split_front_matter,
    title_from_name,
)
from turnmark.corpora.readers.markup.note_marks import is_note_mark, is_raised
from turnmark.corpora.readers.pictures.collector import MarkFunction, no_mark, picture_numbers
from turnmark.corpora.readers.pictures.links import LinkedPictures
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.tables.markdown_tables import marked_row, rule_below
from turnmark.corpora.text.word_lists import read_word_lists
from turnmark.corpora.types import Block, BlockKind, Document

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_WORDS = read_word_lists(__file__)
_LAYOUT = frozenset({"table", "h1", "h2", "h3", "h4", "ul", "ol", "pre", "blockquote"})
_PAGE_HEADINGS = ["h1", "h2"]
_TABLE_PARTS = ["thead", "tbody", "tfoot"]
_MAX_COLUMN_NAME_LENGTH = 60  # characters of a cell in the first row that may name a column
_MAX_CELL_LENGTH = 600  # characters of a cell of data; a longer one is a part of the page
_MAX_HEADED_CELL_LENGTH = 4_000  # the same if the table names its columns with header cells
_CLOSING_PUNCTUATION = (".", ";", ":", ",", "!", "?", "(", "|")
_IN_CONTENT = frozenset({"main", "article", "section"})
_NAVIGATION_CLASSES = _WORDS["navigation_classes"] | _WORDS["line_numbers"]
_TITLE_CLASSES = frozenset({"title", "admonition-title", "topic-title", "sidebar-title", "rubric"})
_CALLOUT = re.compile(r"note|tip|hint|warn|info|caution|danger|important|admonition|callout|alert|aside", re.IGNORECASE)
_PERMALINK = re.compile(r"[¶#§🔗\s]+")
_HIDING_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_INLINE = re.compile(r"display\s*:\s*inline(?![\w-])", re.IGNORECASE)
STRUCK_TAGS = frozenset({"s", "del", "strike"})
_STRIKING_STYLE = re.compile(r"\bline-through\b", re.IGNORECASE)
_DATES = ("article:modified_time", "last-modified", "dcterms.modified", "article:published_time", "date")
_HEADING = re.compile(r"h[1-6]")
_UNFOLDING_TAGS = ["h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"]
"""Tags in which the text of a button is the heading of what it unfolds."""
_DIGIT = re.compile(r"\d")
POWER_PATTERN = re.compile(r"[-−+]?\d+")
_BEFORE_SECOND = {"msup": "^", "msub": "_", "mfrac": "/"}  # MathML: sign between the two parts
_ALT_TEXT = re.compile(r"\w\W+\w")  # a single word usually describes an icon
_ALT_PLACEHOLDER = re.compile(r"\S+\.\w{2,4}|\[[^\]]*\]")  # a file name, or the text "[Note]" for an icon
_FIGURES = frozenset({"figure", "wp-caption", "thumbinner"})
_MAX_SHORT_DEFINITION_LENGTH = 300
"""Maximum length of the definitions in a glossary, whose entries become list items, "Term: definition"."""


def read_html(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read an HTML file."""
    data = path.read_bytes()
    text, remarks = decode_or_guess(data, declared_encoding(data))
    document = parse_html(text, relative, LinkedPictures(path, relative))
    return document.model_copy(update={"remarks": remarks}) if remarks else document


def parse_html(text: str, relative: str, pictures: LinkedPictures | None = None) -> Document:
    """Parse an HTML file. The document's text is the rendered page, to which the offsets of its blocks refer.

    Args:
        pictures: opens the pictures to which the page refers, or None if they are left out.
    """
    front, body = split_front_matter(text)
    page = _read(body, pictures.mark if pictures else no_mark)
    starts = {number: start for start, mark in page.pictures for number in picture_numbers(mark)}
    found = pictures.collector.at(starts) if pictures else ()
    return Document(
        id=relative,
        title=shorten_title(front.title or page.title) or title_from_name(relative),
        text="".join(page.parts),
        path=relative,
        blocks=tuple(page.blocks),
        date=front.date or page.date,
        metadata=dict(front.metadata),
        left_out=dict(page.left_out + pictures.collector.left_out if pictures else page.left_out),
        pictures=found,
    )


def render(piece: str, mark: MarkFunction = no_mark) -> str:
    """Return the text of an HTML fragment, e.g. in a Markdown file, with the marks of its pictures as paragraphs."""
    page = _read(piece, mark)
    text = "".join(page.parts)
    for start, written in reversed(page.pictures):
        text = f"{text[:start]}\n\n{written}\n\n{text[start:]}"
    return text


def _read(text: str, mark: MarkFunction) -> _HtmlPage:
    from bs4 import BeautifulSoup

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it mistakes some texts for file names or XML
            soup = BeautifulSoup(text, "lxml")
        for foot in soup("tfoot"):  # HTML 4 has it before the rows that it is shown below
            if foot.parent is not None:
                foot.parent.append(foot)
        page = _HtmlPage(title=_title(soup), date=_date(soup), mark=mark)
        page.walk(soup)
    except (ValueError, RecursionError, AssertionError) as error:
        raise Unreadable(f"HTML that cannot be parsed ({error}); open it in a browser and save it again") from error
    return page


def _title(soup: BeautifulSoup) -> str:
    """Return the <title>, or the first <h1> if <title> is empty or only adds the site's name to it."""
    texts = ("".join(tag.strings) if tag else "" for tag in (soup.find("title"), soup.find("h1")))
    title, heading = (" ".join(text.replace("¶", " ").replace(SOFT_HYPHEN, "").split()) for text in texts)
    return heading if heading and (not title or heading in title) else title


def _date(soup: BeautifulSoup) -> str:
    metadata = {str(tag.get("property") or tag.get("name") or "").lower(): tag.get("content") for tag in soup("meta")}
    return next((date_part(str(metadata[name])) for name in _DATES if metadata.get(name)), "")


def _leads_elsewhere(tag: Tag) -> bool:
    """Return whether a tag is navigation by its role or class, or the permalink of a heading."""
    role, classes = str(tag.attrs.get("role", "")).lower(), tag.attrs.get("class") or ()
    if tag.attrs.get("id") in _WORDS["navigation_ids"] and "section" not in classes and tag.name != "section":
        return True
    if role in _WORDS["navigation_roles"] or not _NAVIGATION_CLASSES.isdisjoint(classes):
        return True
    return tag.name == "a" and bool(_PERMALINK.fullmatch(str(tag.string or "")))


def _is_dropped(tag: Tag) -> bool:
    """Return whether a tag is skipped with its contents. A <header> and a callout inside the content are read."""
    if tag.name == "header":
        return not any(parent.name in _IN_CONTENT for parent in tag.parents)
    if tag.name == "aside":
        return not _CALLOUT.search(" ".join(tag.attrs.get("class") or ())) and "footnote" not in str(tag.attrs)
    if tag.name == "footer" and tag.parent is not None and tag.parent.name == "blockquote":
        return False
    if tag.name == "button" and tag.find_parent(_UNFOLDING_TAGS) is None:
        return True
    if tag.name == "svg" and tag.find("text") is not None and not _is_hidden(tag):
        return False
    return tag.name in _WORDS["dropped"] or _is_hidden(tag) or _leads_elsewhere(tag)


def _is_hidden(tag: Tag) -> bool:
    style = tag.attrs.get("style")
    return tag.attrs.get("role") != "tabpanel" and (
        "hidden" in tag.attrs
        or str(tag.attrs.get("aria-hidden", "")).lower() == "true"
        or bool(style and _HIDING_STYLE.search(str(style)))
    )


def _page_forms(soup: BeautifulSoup) -> set[int]:
    """Return the id() of each form around most of the page, as some servers write them (ASP.NET, JSF)."""
    forms = soup("form")
    most = len(soup.get_text()) / 2 if forms else 0
    return {id(form) for form in forms if len(form.get_text()) > most}


def _layout_tables(soup: BeautifulSoup) -> set[int]:
    """Return the id() of each table that lays out the page instead of showing data, in one pass over the tree.

    A table with headings, lists, code or another table in its cells may be either.
    """
    from bs4.element import Tag

    suspects: dict[int, Tag] = {}
    outer: set[int] = set()  # tables around a table around a table
    stack: list[tuple[Tag, tuple[Tag, ...]]] = [(soup, ())]
    while stack:
        node, tables = stack.pop()
        for child in node.contents:
            if isinstance(child, Tag):
                if tables and child.name in _LAYOUT:
                    suspects[id(tables[-1])] = tables[-1]
                if child.name == "table" and len(tables) > 1:
                    outer.add(id(tables[-2]))
                stack.append((child, (*tables[-1:], child) if child.name == "table" else tables))
    return {key for key, table in suspects.items() if key in outer or not _shows_data(table)}


def _shows_data(table: Tag) -> bool:
    """Return whether a table with blocks in its cells shows data: a grid of short cells below or next to names."""
    if str(table.attrs.get("role", "")).lower() in ("presentation", "none"):
        return False
    rows = [row(["td", "th"], recursive=False) for row in _own_rows(table)]
    rows = [row for row in rows if row]
    if len(rows) < 2 or max(map(len, rows)) < 2:
        return False
    longest = max(len(" ".join("".join(cell.strings).split())) for row in rows for cell in row)
    if len(rows[0]) > 1 and all(cell.name == "th" for cell in rows[0]):
        return longest <= _MAX_HEADED_CELL_LENGTH
    if longest > _MAX_CELL_LENGTH or any(cell.find(_PAGE_HEADINGS) for row in rows for cell in row):
        return False
    if all(row[0].name == "th" for row in rows):
        return True
    is_regular = len({len(row) for row in rows}) == 1
    return is_regular and all(map(_may_name_column, rows[0]))


def _own_rows(table: Tag) -> list[Tag]:
    parts = table(["tr", *_TABLE_PARTS], recursive=False)
    return [row for part in parts for row in ([part] if part.name == "tr" else part("tr", recursive=False))]


def _may_name_column(cell: Tag) -> bool:
    words = " ".join("".join(cell.strings).split())
    return 0 < len(words) <= _MAX_COLUMN_NAME_LENGTH and cell.find(list(_LAYOUT)) is None


def _superscript_prefix(tag: Tag, before: str) -> str:
    """Return what separates a superscript number from the number before it: 10^6, 1 1/2."""
    words = tag.contents[0] if len(tag.contents) == 1 else None
    if not (isinstance(words, str) and POWER_PATTERN.fullmatch(words.strip()) and before[-1:].isdigit()):
        return ""
    return " " if str(tag.next_sibling or "").startswith(("/", "⁄")) else "^"


def _is_figure(tag: Tag) -> bool:
    return tag.name == "figure" or not _FIGURES.isdisjoint(tag.attrs.get("class") or ())


def _alternative_text(image: Tag, captions: dict[int, str]) -> str:
    """Return the alternative text of a picture, unless the picture is only a link or its caption repeats the text.

    Args:
        captions: cache from the `id()` of a figure to its text, which is extracted once per figure and not once per
            picture.
    """
    words = " ".join(str(image.attrs.get("alt", "")).split())
    if not _ALT_TEXT.search(words) or _ALT_PLACEHOLDER.fullmatch(words) or image.find_parent("a"):
        return ""
    figure = image.find_parent(_is_figure)
    if figure and id(figure) not in captions:
        captions[id(figure)] = " ".join(figure.get_text().split())
    return "" if figure and words in captions[id(figure)] else f" {words}"


def _picture_caption(image: Tag) -> str:
    """Return the alternative text of a picture, or else the caption of its figure."""
    words = str(image.attrs.get("alt", "")).strip()
    figure = None if words else image.find_parent(_is_figure)
    caption = figure.find("figcaption") if figure is not None else None
    return caption.get_text() if caption is not None else words


def _is_inline(tag: Tag) -> bool:
    """Return whether a <div> is a part of a sentence, as in the filings of companies."""
    return tag.name == "div" and bool(_INLINE.search(str(tag.attrs.get("style", ""))))


def _struck_words(tag: Tag) -> str:
    """Return the words of a tag that strikes them through, marked as struck; empty for any other tag."""
    if tag.name not in STRUCK_TAGS and not (
        tag.name == "span" and _STRIKING_STYLE.search(str(tag.attrs.get("style", "")))
    ):
        return ""
    if tag.find([*_BLOCK_TAGS, "br"]) is not None:
        return ""
    words = "".join(tag.strings)
    if not words.strip() or "~" in words:
        return ""
    before, after = (" " if edge.isspace() else "" for edge in (words[0], words[-1]))
    return f"{before}~~{' '.join(words.split())}~~{after}"


def _code_of(tag: Tag) -> str:
    """Return the text of a <pre>. Several versions of some code in it, e.g. for two module systems, are separated."""
    versions = ["".join(part.strings) for part in tag("code", recursive=False)]
    whole = "".join(tag.strings)
    if len(versions) > 1 and all("\n" in version.strip() for version in versions) and "".join(versions) == whole:
        return "\n\n".join(versions)
    return whole


def _is_glossary(tag: Tag) -> bool:
    """Return whether all definitions of a <dl> are short and have one paragraph."""
    definitions = tag("dd")
    blocks = [[block.name for block in each(_BLOCK_TAGS)] for each in definitions]
    are_short = all(len("".join(each.strings)) <= _MAX_SHORT_DEFINITION_LENGTH for each in definitions)
    return bool(definitions) and are_short and all(names in ([], ["p"], ["div"]) for names in blocks)


_BLOCK_TAGS = ["p", "div", "pre", "ul", "ol", "dl", "table", "blockquote"]


@dataclass
class _OpenList:
    """An open list. `pending`: the marker of an item is unwritten; `terms`: glossary terms without a definition."""

    ordered: bool
    number: int
    pending: bool = False
    terms: list[str] = field(default_factory=list)


MAX_SPAN = 200  # columns or rows of one cell; HTML allows 1,000 and 65,534
MAX_CELLS = 200_000  # of a table; a few bytes of spans could make any number


def _span(tag: Tag, name: str) -> int:
    return min(max(1, small_number(tag.attrs.get(name), digits=6)), MAX_SPAN)


def _names_columns(tag: Tag) -> bool:
    """Return whether a cell may name a column: it is a header cell, or all of its words are bold."""
    if tag.name == "th":
        return True
    bold = "".join("".join(strong.strings) for strong in tag(["b", "strong"]))
    words = "".join(tag.strings)
    return bool(words.strip()) and "".join(bold.split()) == "".join(words.split())


@dataclass
class _TableCell:
    words: str
    columns: int
    rows: int
    names_column: bool


@dataclass
class _OpenTable:
    """An open table, with its cells as written, before spans are resolved."""

    rows: list[list[_TableCell]] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    in_head: list[bool] = field(default_factory=list)
    open: _TableCell | None = None

    def begin_row(self, in_head: bool) -> None:
        self.rows.append([])
        self.in_head.append(in_head)

    def begin_cell(self, columns: int, rows: int, names_column: bool) -> None:
        if not self.rows:
            self.begin_row(False)
        self.open = _TableCell("", columns, rows, names_column)
        self.rows[-1].append(self.open)

    def end_cell(self, words: str) -> None:
        """Close the open cell. Words outside of cells are a caption."""
        if self.open is not None:
            self.open.words, self.open = words, None
        elif words:
            self.captions.append(words)

    def heads(self) -> int:
        """Return the number of rows at the top that name columns, 0 if neither tags nor figures show it."""
        for says in (self.in_head, [all(cell.names_column for cell in row) and len(row) > 1 for row in self.rows]):
            count = next((number for number, named in enumerate(says) if not named), len(says))
            if count:
                return min(count, len(self.rows) - 1)
        return int(self._has_words_above_figures())

    def _has_words_above_figures(self) -> bool:
        """Return whether the first row is words above a column of two or more figures, without header cells."""
        if any(cell.names_column for row in self.rows for cell in row):
            return False
        first, *others = [[cell.words for cell in row] for row in self.rows if row] or [[]]
        if len(first) < 2 or not all(first) or any(_DIGIT.search(words) for words in first):
            return False
        columns = (
            [row[column] for row in others if len(row) == len(first) and row[column]] for column in range(len(first))
        )
        return any(len(column) > 1 and all(map(_DIGIT.search, column)) for column in columns)

    def grid(self) -> list[list[str]]:
        """Return rows of equal length, without empty rows and columns.

        A cell that spans rows is repeated in each row. A cell that spans columns is written in the first one, or in
        each if it names columns. All rows at the top that name columns are joined into one.
        """
        heads = self.heads()
        rows: list[dict[int, str]] = [{} for _ in self.rows]
        taken: set[tuple[int, int]] = set()
        for number, row in enumerate(self.rows):
            column = 0
            for cell in row:
                while (number, column) in taken:
                    column += 1
                for down in range(min(cell.rows, len(self.rows) - number)):
                    for across in range(cell.columns):
                        taken.add((number + down, column + across))
                        if len(taken) > MAX_CELLS:
                            raise Unreadable(f"HTML with a table of more than {MAX_CELLS:,} cells; split it")
                        if across == 0 or number < heads:
                            rows[number + down][column + across] = cell.words
                column += cell.columns
        width = 1 + max((column for row in rows for column, words in row.items() if words), default=-1)
        used = [column for column in range(width) if any(row.get(column) for row in rows)]
        lines = [[row.get(column, "") for column in used] for row in rows]
        head = [" ".join(dict.fromkeys(filter(None, names))) for names in zip(*lines[:heads], strict=True)]
        body = list(filter(any, lines[heads:]))
        if len(used) < 2 or len(body) + bool(heads) < 2:
            return list(filter(any, lines))
        return [head or [""] * len(used), *body]


@dataclass
class _HtmlPage:
    """The text and blocks so far, and the block that is being collected.

    Attributes:
        pictures: the offset and the mark of each picture. It is at the end of its block, or of the block before it.
        shown: the marks of the pictures in the block that is being collected.
    """

    title: str = ""
    date: str = ""
    mark: MarkFunction = no_mark
    pictures: list[tuple[int, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    length: int = 0
    buffer: list[str] = field(default_factory=list)
    heading: int = 0
    caption: bool = False
    lists: list[_OpenList] = field(default_factory=list)
    table: _OpenTable | None = None
    inner_tables: int = 0
    layout: set[int] = field(default_factory=set)
    glossaries: set[int] = field(default_factory=set)
    captions: dict[int, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def walk(self, soup: BeautifulSoup) -> None:
        """Render everything below `soup`."""
        from bs4.element import NavigableString, Tag

        self.layout = _layout_tables(soup)
        whole = _page_forms(soup)
        stack: list[tuple[object, bool]] = [(soup, False)]
        while stack:
            node, leaving = stack.pop()
            if isinstance(node, Tag):
                if leaving:
                    self.leave(node)
                elif (node.name == "form" and id(node) not in whole) or _is_dropped(node):
                    self.count_dropped(node)
                elif self.enter(node):
                    stack.append((node, True))
                    stack.extend((child, False) for child in reversed(node.contents))
            elif type(node) is NavigableString:  # its subclasses are comments, doctypes, scripts
                self.buffer.append(re.sub(r"\s+", " ", node.replace(SOFT_HYPHEN, "")))
        self.flush()

    def count_dropped(self, tag: Tag) -> None:
        """Count a tag with words that is left out. Scripts, pictures and the links of headings have none."""
        if tag.name not in _WORDS["wordless"] and next(tag.stripped_strings, ""):
            self.left_out["hidden parts of pages" if _is_hidden(tag) else "navigation of pages"] += 1

    def enter(self, tag: Tag) -> bool:
        """Handle a tag before its children. Return False if the children have been handled as well."""
        name = tag.name
        if _is_inline(tag):
            return True
        if struck := _struck_words(tag):
            self.buffer.append(struck)
            return False
        if tag.parent is not None and tag.parent.name in _BEFORE_SECOND and tag.find_previous_sibling(True):
            self.buffer.append(_BEFORE_SECOND[tag.parent.name])
        if is_note_mark(tag, "".join(self.buffer[-2:])):
            return False
        if is_raised(tag):
            self.buffer.append(_superscript_prefix(tag, "".join(self.buffer[-1:])))
        if name == "img":
            self.buffer.append(_alternative_text(tag, self.captions))
            # A page that loads pictures late has a placeholder in `src`.
            source = str(tag.attrs.get("data-src") or tag.attrs.get("src") or "")
            self.shown.append(self.mark(source, _picture_caption(tag)))
            return False
        if name == "svg":  # a drawing with labels
            self.buffer.append(" ".join(f" {' '.join(label.strings)} " for label in tag("text")))
            return False
        if name in ("annotation", "annotation-xml"):  # they repeat the formula
            return False
        if self.table is not None:
            return self._enter_table(tag, self.table)
        if name == "table" and id(tag) not in self.layout:
            self.flush()
            self.table = _OpenTable()
        elif name == "pre":
            self.flush()
            for numbers in tag(class_=_WORDS["line_numbers"].__contains__):
                numbers.decompose()
            code = _code_of(tag).replace(SOFT_HYPHEN, "").strip("\n").rstrip()
            self.emit("code", "\n".join("    " + line for line in code.split("\n")) if code else "")
            return False
        elif name == "br":
            self.buffer.append("\n")
        elif name == "li":
            self.flush()
            if not self.lists:
                self.lists.append(_OpenList(False, 0))
            self.lists[-1].number = small_number(tag.attrs.get("value"), self.lists[-1].number + 1, digits=6)
            self.lists[-1].pending = True
        elif name in _WORDS["breaks"] or _HEADING.fullmatch(name):
            self.flush()
            self.heading = int(name[1]) if _HEADING.fullmatch(name) else self.heading
            self.caption = name == "p" and not _TITLE_CLASSES.isdisjoint(tag.attrs.get("class") or ())
            if name == "dl" and _is_glossary(tag):
                self.glossaries.add(id(tag))
                self.lists.append(_OpenList(False, 0))
            elif name in ("ul", "ol"):
                self.lists.append(_OpenList(name == "ol", small_number(tag.attrs.get("start"), digits=6) - 1))
        return True

    def _enter_table(self, tag: Tag, table: _OpenTable) -> bool:
        name = tag.name
        if name == "table" or self.inner_tables:
            self._enter_inner_table(tag)
        elif name == "tr":
            self._cell(table)
            table.begin_row(in_head=tag.parent is not None and tag.parent.name == "thead")
        elif name in ("td", "th"):
            self._cell(table)
            table.begin_cell(_span(tag, "colspan"), _span(tag, "rowspan"), _names_columns(tag))
        elif name == "caption":
            self._cell(table)
        elif name in ("li", "dt", "dd"):
            self._separate(":" if name == "dd" else ";")
        elif name in _WORDS["breaks"] or name in ("br", "pre") or _HEADING.fullmatch(name):
            self.buffer.append(" ")
        return True

    def _enter_inner_table(self, tag: Tag) -> None:
        """Write a table inside a cell as "users: 5; storage: 1 GB"."""
        name = tag.name
        self.inner_tables += name == "table"
        if name in ("table", "br", "caption"):
            self.buffer.append(" ")
        elif name in ("tr", "li"):
            self._separate(";")
        elif name in ("td", "th") and tag.find_previous_sibling(["td", "th"]) is not None:
            is_pair = tag.parent is not None and len(tag.parent(["td", "th"], recursive=False)) == 2
            self._separate(":" if is_pair else ",")
        elif name in _WORDS["breaks"] or _HEADING.fullmatch(name):
            self.buffer.append(" ")

    def _separate(self, mark: str) -> None:
        """Separate two parts of a cell by a mark, unless nothing or another mark is before it."""
        before = ""
        while self.buffer and not before:
            before = self.buffer.pop().rstrip()
        self.buffer.append(before)
        self.buffer.append(f"{mark} " if before and not before.endswith(_CLOSING_PUNCTUATION) else " ")

    def _cell(self, table: _OpenTable) -> None:
        """Write the collected words into the open cell. Words outside of cells are a caption."""
        words = " ".join("".join(self.buffer).split())
        self.buffer.clear()
        table.end_cell(words)

    def leave(self, tag: Tag) -> None:
        """Handle a tag after its children."""
        name = tag.name
        if _is_inline(tag):
            return
        if self.inner_tables:
            self.inner_tables -= name == "table"
            if name in _WORDS["breaks"]:
                self.buffer.append(" ")
        elif self.table is not None:
            if name in ("pre", "ul", "ol", "blockquote") or _HEADING.fullmatch(name):
                self.buffer.append(" ")
            if name in ("td", "th", "tr", "caption", "table"):
                self._cell(self.table)
            if name == "table":
                table, self.table = self.table, None
                self._emit_table(table)
                self._place_pictures()
        elif _HEADING.fullmatch(name):
            self.flush()
            self.heading = 0
        elif name == "dt" and id(tag.parent) in self.glossaries:
            self.lists[-1].terms.append(" ".join("".join(self.buffer).split()).removesuffix(":"))
            self.lists[-1].pending = True
            self.buffer.clear()
        elif name == "li" or name in _WORDS["breaks"]:
            self.flush()
            if name == "dd" or id(tag) in self.glossaries:
                self._emit_undefined()
            if name == "li" and self.lists:
                self.lists[-1].pending = False
            if (name in ("ul", "ol") and self.lists) or id(tag) in self.glossaries:
                self.lists.pop()

    def _emit_undefined(self) -> None:
        """Emit glossary terms without a definition as a list item."""
        if self.lists and self.lists[-1].terms:
            self.buffer.append(", ".join(self.lists[-1].terms))
            self.lists[-1].terms.clear()
            self.flush()

    def _emit_table(self, table: _OpenTable) -> None:
        """Emit a table as Markdown below its caption, or as paragraphs if it has a single column or row."""
        for caption in table.captions:
            self.emit("paragraph", f"**{caption.replace('*', '')}**")
        grid = table.grid()
        if grid and len(grid[0]) > 1 and len(grid) > 1:
            lines = [marked_row(row) for row in grid]
            self.emit("table", "\n".join((lines[0], rule_below(grid[0]), *lines[1:])))
        else:
            for row in grid:
                self.emit("paragraph", " ".join(row))

    def flush(self) -> None:
        """Emit the collected text as a block of the current kind, and place the pictures in it."""
        self._flush_words()
        self._place_pictures()

    def _place_pictures(self) -> None:
        self.pictures += [(self.length, mark) for mark in self.shown if mark]
        self.shown.clear()

    def _flush_words(self) -> None:
        if not self.buffer:
            return
        stripped_lines = [" ".join(line.split()) for line in "".join(self.buffer).split("\n")]
        words = "\n".join(filter(None, stripped_lines))
        self.buffer.clear()
        if not words:
            return
        depth = max(0, len(self.lists) - 1)
        if self.heading:
            self.emit("heading", "#" * self.heading + " " + words.replace("\n", " "), self.heading)
        elif self.lists and self.lists[-1].pending:
            terms = ", ".join(filter(None, self.lists[-1].terms))
            self.lists[-1].terms.clear()
            words = f"{terms}: {words}" if terms else words
            number = self.lists[-1].number if self.lists[-1].ordered else None
            self.lists[-1].pending = False
            indent = "  " * min(depth, 20)  # a page nested 5,000 lists deep must not become megabytes of spaces
            marker = f"{number}. " if number is not None else "- "
            self.emit("item", indent + marker + words.replace("\n", " "), depth, number)
        elif self.caption:  # the title of a box, an example or a figure is not a heading of what follows
            self.emit("paragraph", f"**{words.replace('*', '').replace(chr(10), ' ')}**")
        else:
            self.emit("paragraph", words)

    def emit(self, kind: BlockKind, content: str, level: int = 0, number: int | None = None) -> None:
        """Append a block, with a blank line before it unless it is the next item of a list."""
        if not content.strip():
            return
        if self.parts:
            follows = kind == "item" and self.blocks[-1].kind == "item"
            self._write("\n" if follows else "\n\n")
        lead = 0 if kind == "code" else len(content) - len(content.lstrip())
        start = self.length + lead
        self._write(content)
        self.blocks.append(Block(kind=kind, start=start, end=self.length, level=level, number=number))

    def _write(self, piece: str) -> None:
        self.parts.append(piece)
        self.length += len(piece)
