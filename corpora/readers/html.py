"""Renders the readable part of an HTML page as Markdown-like text with its blocks.

The tree is walked with an explicit stack, so that deeply nested pages do not exceed the recursion limit.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.readers.prose import Unreadable, day, decode, shorten_title, split_front_matter, stem
from turnmark.corpora.types import Block, BlockKind, Document

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_DROPPED = frozenset(
    {"script", "style", "nav", "footer", "form", "noscript", "template", "head", "svg", "iframe"}
    | {"object", "canvas", "audio", "video", "button", "select", "dialog"}
)
_BREAKS = frozenset(
    {"p", "div", "section", "article", "main", "body", "html", "blockquote", "figure", "figcaption", "address", "dl"}
    | {"dt", "dd", "ul", "ol", "details", "summary", "hr", "fieldset", "center", "caption", "table", "tr", "td", "th"}
)
_LAYOUT = frozenset({"table", "h1", "h2", "h3", "h4", "ul", "ol", "pre", "blockquote"})
_IN_CONTENT = frozenset({"main", "article", "section"})
_NAVIGATION_ROLES = frozenset(
    """navigation search banner contentinfo complementary menu menubar doc-toc doc-backlink directory""".split()
)
_NAVIGATION_CLASSES = frozenset(
    """navheader navfooter docnav toc headerlink related sphinxsidebar breadcrumb breadcrumbs rst-footer-buttons
    prev-next-area prev-next-bottom edit-this-page skip-link skip-to-content sidebar-nav navbar pagination pager
    table-of-contents contents-list wy-nav-side wy-nav-top language_switcher_placeholder permalink anchorjs-link
    fn-backref footnote-reference searchformwrapper site-header site-footer page-navigation""".split()
)
_TITLE_CLASSES = frozenset({"title", "admonition-title", "topic-title", "sidebar-title", "rubric"})
_NAVIGATION_IDS = frozenset({"banner", "navbar", "breadcrumbs", "site-header", "site-footer"})
_CALLOUT = re.compile(r"note|tip|hint|warn|info|caution|danger|important|admonition|callout|alert|aside", re.IGNORECASE)
_PERMALINK = re.compile(r"[¶#§🔗\s]+")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_DATES = ("article:modified_time", "last-modified", "dcterms.modified", "article:published_time", "date")
_HEADING = re.compile(r"h[1-6]")


def read_html(path: Path, relative: str, _: Callable[[int, int], None] | None = None) -> Document:
    """Read an HTML file."""
    return parse_html(decode(path.read_bytes()), relative)


def parse_html(text: str, relative: str) -> Document:
    """Parse an HTML file. The document's text is the rendered page, to which the offsets of its blocks refer."""
    front, body = split_front_matter(text)
    page = _read(body)
    return Document(
        id=relative,
        title=shorten_title(front.title or page.title) or stem(relative),
        text="".join(page.parts),
        path=relative,
        blocks=tuple(page.blocks),
        date=front.date or page.date,
    )


def render(piece: str) -> str:
    """Return the text of a fragment of HTML, such as one in a Markdown file."""
    return "".join(_read(piece).parts)


def _read(text: str) -> _Page:
    """Parse a page with its title and date."""
    from bs4 import BeautifulSoup

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes some texts for file names or XML
            soup = BeautifulSoup(text, "lxml")
        page = _Page(title=_title(soup), date=_date(soup))
        page.walk(soup)
    except (ValueError, RecursionError, AssertionError) as error:
        raise Unreadable(f"HTML that cannot be parsed ({error}); open it in a browser and save it again") from error
    return page


def _title(soup: BeautifulSoup) -> str:
    """Return the <title>, or the first <h1> if <title> is empty or only adds the site's name to it."""
    texts: list[str] = []
    for tag in (soup.find("title"), soup.find("h1")):
        text = "" if tag is None else "".join(tag.strings)
        texts.append(" ".join(text.replace("¶", " ").split()))
    title, heading = texts
    return heading if heading and (not title or heading in title) else title


def _date(soup: BeautifulSoup) -> str:
    """Return the date of the page's last change, or of its publication, from its <meta> tags."""
    metadata: dict[str, Any] = {}
    for tag in soup("meta"):
        key = str(tag.get("property") or tag.get("name") or "").lower()
        metadata[key] = tag.get("content")
    for name in _DATES:
        if metadata.get(name):
            return day(str(metadata[name]))
    return ""


def _leads_elsewhere(tag: Tag) -> bool:
    """Return whether a tag is navigation by its role or class, or the permalink of a heading."""
    role, classes = str(tag.attrs.get("role", "")).lower(), tag.attrs.get("class") or ()
    if tag.attrs.get("id") in _NAVIGATION_IDS and "section" not in classes and tag.name != "section":
        return True
    if role in _NAVIGATION_ROLES or not _NAVIGATION_CLASSES.isdisjoint(classes):
        return True
    return tag.name == "a" and bool(_PERMALINK.fullmatch(str(tag.string or "")))


def _dropped(tag: Tag) -> bool:
    """Return whether a tag is skipped with its contents. A <header> and a callout inside the content are read."""
    if tag.name == "header":
        return not any(parent.name in _IN_CONTENT for parent in tag.parents)
    if tag.name == "aside":
        return not _CALLOUT.search(" ".join(tag.attrs.get("class") or ())) and "footnote" not in str(tag.attrs)
    return tag.name in _DROPPED or _hidden(tag) or _leads_elsewhere(tag)


def _hidden(tag: Tag) -> bool:
    style = tag.attrs.get("style")
    return (
        "hidden" in tag.attrs
        or str(tag.attrs.get("aria-hidden", "")).lower() == "true"
        or bool(style and _HIDDEN.search(str(style)))
    )


def _layout_tables(soup: BeautifulSoup) -> set[int]:
    """Return the id() of each table that lays out the page instead of showing data, in one pass over the tree."""
    from bs4.element import Tag

    tables: set[int] = set()
    stack: list[tuple[Tag, int | None]] = [(soup, None)]
    while stack:
        node, table = stack.pop()
        for child in node.contents:
            if isinstance(child, Tag):
                if table is not None and child.name in _LAYOUT:
                    tables.add(table)
                stack.append((child, id(child) if child.name == "table" else table))
    return tables


@dataclass
class _List:
    """An open list; `pending` until an item's marker is written."""

    ordered: bool
    number: int
    pending: bool = False


@dataclass
class _Page:
    """The text and blocks so far, and the block that is being collected."""

    title: str = ""
    date: str = ""
    parts: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    length: int = 0
    buffer: list[str] = field(default_factory=list)
    heading: int = 0
    caption: bool = False
    lists: list[_List] = field(default_factory=list)
    rows: list[list[str]] | None = None
    layout: set[int] = field(default_factory=set)

    def walk(self, soup: BeautifulSoup) -> None:
        """Render everything below `soup`."""
        from bs4.element import NavigableString, Tag

        self.layout = _layout_tables(soup)
        stack: list[tuple[object, bool]] = [(soup, False)]
        while stack:
            node, leaving = stack.pop()
            if isinstance(node, Tag):
                if leaving:
                    self.leave(node)
                elif not _dropped(node) and self.enter(node):
                    stack.append((node, True))
                    stack.extend((child, False) for child in reversed(node.contents))
            elif type(node) is NavigableString:  # its subclasses are comments, doctypes, scripts
                self.buffer.append(re.sub(r"\s+", " ", node))
        self.flush()

    def enter(self, tag: Tag) -> bool:
        """Handle a tag before its children; return False if the children are handled, too."""
        name = tag.name
        if self.rows is not None:
            return self._enter_table(name)
        if name == "table" and id(tag) not in self.layout:
            self.flush()
            self.rows = []
        elif name == "pre":
            self.flush()
            code = "".join(tag.strings).strip("\n").rstrip()
            self.emit("code", "\n".join("    " + line for line in code.split("\n")) if code else "")
            return False
        elif name == "br":
            self.buffer.append("\n")
        elif name == "li":
            self.flush()
            if not self.lists:
                self.lists.append(_List(False, 0))
            self.lists[-1].number += 1
            self.lists[-1].pending = True
        elif name in _BREAKS or _HEADING.fullmatch(name):
            self.flush()
            self.heading = int(name[1]) if _HEADING.fullmatch(name) else self.heading
            self.caption = name == "p" and not _TITLE_CLASSES.isdisjoint(tag.attrs.get("class") or ())
            if name in ("ul", "ol"):
                start = str(tag.attrs.get("start", "1"))
                self.lists.append(_List(name == "ol", int(start) - 1 if re.fullmatch(r"\d{1,6}", start) else 0))
        return True

    def _enter_table(self, name: str) -> bool:
        assert self.rows is not None
        if name == "tr" or not self.rows:
            self._cell()
            self.rows.append([])
        elif name in ("td", "th"):
            self._cell()
        elif name in _BREAKS or name == "br":
            self.buffer.append(" ")
        return True

    def _cell(self) -> None:
        words = " ".join("".join(self.buffer).split())
        self.buffer.clear()
        if words and self.rows:
            self.rows[-1].append(words)

    def leave(self, tag: Tag) -> None:
        """Handle a tag after its children."""
        name = tag.name
        if self.rows is not None:
            if name in ("td", "th", "tr", "caption"):
                self._cell()
            elif name == "table":
                self._cell()
                lines, self.rows = [" | ".join(row) for row in self.rows if row], None
                self.emit("table", "\n".join(lines))
        elif _HEADING.fullmatch(name):
            self.flush()
            self.heading = 0
        elif name == "li" or name in _BREAKS:
            self.flush()
            if name == "li" and self.lists:
                self.lists[-1].pending = False
            if name in ("ul", "ol") and self.lists:
                self.lists.pop()

    def flush(self) -> None:
        """Emit the collected text as a block of the current kind."""
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
