"""Reads Markdown: keeps the visible text, line by line, and finds its blocks with markdown-it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.core.grouping import join_neighbors
from turnmark.corpora.readers.common.encoded_data import LINKED_DATA_URI, without_encoded_data
from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import Unreadable, main_heading, shorten_title, split_front_matter
from turnmark.corpora.readers.markup.footnotes import place_footnotes, with_code
from turnmark.corpora.readers.markup.html import POWER_PATTERN, STRUCK_TAGS, render
from turnmark.corpora.readers.markup.site_syntax import strip_site_syntax
from turnmark.corpora.readers.pictures.collector import (
    MarkFunction,
    PictureCollector,
    PlacedText,
    at_block_ends,
    no_mark,
)
from turnmark.corpora.readers.pictures.links import LinkedPictures
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.text.segmentation import heading_text, is_placeholder, lines, strip_inline_markdown, trim_range
from turnmark.corpora.types import Block, BlockKind, Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def read_markdown(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read a Markdown file."""
    text, remarks = decode_or_guess(path.read_bytes())
    linked = LinkedPictures(path, relative)
    document = parse_markdown(text, relative, pictures=linked.collector, mark=linked.mark)
    return document.model_copy(update={"remarks": remarks}) if remarks else document


def parse_markdown(
    text: str,
    relative: str,
    of_site: bool = True,
    pictures: PictureCollector | None = None,
    mark: MarkFunction = no_mark,
) -> Document:
    """Parse a Markdown file. The document's text has "\\n" for newlines.

    Front matter, site syntax, link targets, HTML and navigation are removed; offsets refer to the resulting text. The
    title is the front matter's, or else the heading of level 1.

    Args:
        of_site: False if the Markdown was converted from another file type, so that site syntax is plain text.
        pictures: collects the pictures whose marks are in the text, or None if they are left out.
        mark: returns the mark of a picture to which the text links.
    """
    data_uris = _DataUris()
    left_out: Counter[str] = Counter()
    front, body = split_front_matter(without_encoded_data(data_uris.shorten(text) if pictures else text, left_out))
    marked = data_uris.opened_by(mark)
    if of_site:
        # Only a page with front matter is a template; elsewhere, {{ name }} is text.
        kept_variables = body == text
        body = strip_site_syntax(body, left_out, relative.lower().endswith(".mdx"), kept_variables)
    body = strip_inline(place_footnotes(_with_fields(front.fields, body)), partial(render, mark=marked), marked)
    body = data_uris.restored(body).strip("\n") + "\n"
    placed = pictures.placed(body) if pictures else PlacedText(body, ())
    body = placed.text
    parsed_blocks = tuple(blocks(body))
    headings = [
        (block.level, heading_text(body[block.start : block.end])) for block in parsed_blocks if block.kind == "heading"
    ]
    worded = [(level, heading) for level, heading in headings if any(map(str.isalnum, heading))]
    # A heading of level 1 in the middle is the title of a part.
    main_headings = [heading for level, heading in worded if level == 1] if worded and worded[0][0] == 1 else []
    return Document(
        id=relative,
        title=shorten_title(
            " ".join(strip_inline_markdown(front.title).split()) or main_heading(main_headings, relative)
        ),
        text=body,
        path=relative,
        blocks=parsed_blocks,
        date=front.date,
        metadata=dict(front.metadata),
        left_out=dict(left_out + pictures.left_out if pictures else +left_out),
        pictures=at_block_ends(placed.pictures, parsed_blocks),
    )


_OPENING_HEADING = re.compile(r"\s*# [^\n]*\n")


def _with_fields(fields: Sequence[str], body: str) -> str:
    """Return the text of a page with fields of its front matter below its opening heading, so that they are found."""
    if not fields:
        return body
    heading = _OPENING_HEADING.match(body)
    at = heading.end() if heading else 0
    listed = "\n".join(f"- {field}" for field in fields)
    return f"{body[:at]}\n{listed}\n\n{body[at:]}"


_URI_PLACEHOLDER = re.compile(r"data-uri-(\d{1,5})(?!\d)")


class _DataUris:
    """The data of the embedded pictures of a text, which is shortened to parse it.

    A paragraph with the data would be too long to be parsed.
    """

    def __init__(self) -> None:
        self._uris: list[str] = []

    def shorten(self, text: str) -> str:
        """Replace the data of pictures in link targets and attributes by its number."""

        def replacement(found: re.Match[str]) -> str:
            if not found.group().startswith("data:image/"):
                return found.group()
            self._uris.append(found.group())
            return f"data-uri-{len(self._uris) - 1}"

        return LINKED_DATA_URI.sub(replacement, text)

    def opened_by(self, mark: MarkFunction) -> MarkFunction:
        """Return a function that marks the picture of a link, which may be the number of its data."""

        def marked(link: str, alt: str) -> str:
            number = _URI_PLACEHOLDER.fullmatch(link)
            is_data = number is not None and int(number[1]) < len(self._uris)
            return mark(self._uris[int(number[1])] if number and is_data else link, alt)

        return marked

    def restored(self, text: str) -> str:
        """Remove the numbers from data that is visible in the text, e.g. in an example."""
        return _URI_PLACEHOLDER.sub("data-uri", text) if self._uris else text


@dataclass
class _OpenItem:
    """An open list item. Its block ends where the first list inside it begins."""

    depth: int
    number: int | None
    first: int
    end: int
    closed: bool = False


@dataclass
class _Walk:
    """Converts markdown-it's tokens to blocks."""

    text: str
    starts: list[int]
    items: list[_OpenItem] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def add(self, kind: BlockKind, first: int, end: int, level: int = 0, number: int | None = None) -> None:
        """Add a block of the lines from `first` to before `end`."""
        start, stop = trim_range(self.text, self.starts[first], self.starts[min(end, len(self.starts) - 1)])
        if start < stop:
            self.blocks.append(Block(kind=kind, start=start, end=stop, level=level, number=number))

    def flush(self, item: _OpenItem) -> None:
        """Add the block of an item, unless it has been added."""
        if not item.closed and item.end > item.first:
            self.add("item", item.first, item.end, item.depth, item.number)
        item.closed = True

    def take(self, token: Token) -> None:
        """Handle one token of the flat list."""
        if token.type == "list_item_close":
            self.flush(self.items.pop())
        if token.map is None:
            return
        first, end = token.map
        if token.type in ("bullet_list_open", "ordered_list_open") and self.items:
            self.flush(self.items[-1])
        elif token.type == "list_item_open":
            number = int(token.info) if token.info.isdigit() else None
            self.items.append(_OpenItem(len(self.items), number, first, first))
        elif token.type in _KINDS:
            if self.items and not self.items[-1].closed:
                self.items[-1].end = max(self.items[-1].end, end)
            else:
                level = int(token.tag[1]) if token.type == "heading_open" else 0
                self.add(_KINDS[token.type], first, end, level)


_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "html_block": "paragraph",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
}


def blocks(text: str) -> Sequence[Block]:
    """Return the blocks of a Markdown text, in order. Each list item, nested or not, is a block."""
    starts = [offset for offset, _ in lines(text)]
    starts.append(len(text))
    walk = _Walk(text, starts)
    for token in block_parser().parse(text):
        walk.take(token)
    ordered = sorted(walk.blocks, key=lambda block: (block.start, block.end))
    # Several items may begin in one line ("- 1. a"): overlapping blocks are dropped.
    return join_neighbors(ordered, lambda before, block: before if block.start < before.end else None)


MAX_INLINE_LENGTH = 20_000  # characters; longer paragraphs are not prose, and would be slow to parse
MAX_HTML_PIECES = 2_000  # in one file, not counting single tags
_LONE_TAG = re.compile(r"\s*</?[A-Za-z][^<>]*>\s*")
_MARKS = re.compile(r"[\[<]|\\\n|!\[|&#?\w{1,32};")
_ANCHOR_ITEM = re.compile(r"\s*\[[^\n]{1,300}?\]\(\s*<?#[^()\n]{0,300}\)\s*[.;,]?\s*")
_NAVIGATION = re.compile(
    r"\W*(?:back to (?:the )?(?:top|index|home)|(?:go )?to top|top|edit (?:this page|on github)[^\n]{0,30}"
    r"|improve this page|(?:prev(?:ious)?|next)(?:(?: page| chapter| section)?$|[^\w\s]*[:»«→←][^\n]{0,100}))\W*",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\s|>›»/·•—–-]*")
_TAG = re.compile(r"</?([A-Za-z][\w.-]*)")
_SEPARATING_TAGS = frozenset("br li p div td th tr dd dt".split())
_ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_FILE_NAME = re.compile(
    r"\S+\.\w{2,4}|\w+(?:[-_]\w+)+|image|screenshot|(?:[\w.-]+ )?logo|icon|badge|photo|picture", re.IGNORECASE
)
"""Alternative texts that say nothing but that there is a picture."""


_GROUPS = frozenset(("bullet_list_open", "ordered_list_open", "table_open", "tr_open"))


@cache
def block_parser() -> MarkdownIt:
    """Return a parser of Markdown's block structure only, which is fast; inline rules run on lines that need them."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.disable("inline")
    return parser


def strip_inline(text: str, render_html: Callable[[str], str], mark: MarkFunction = no_mark) -> str:
    """Reduce links and images to their words, and remove HTML, link definitions and navigation.

    Args:
        mark: returns what is written for a picture, in addition to its words.
    """
    env: dict[str, Any] = {_MARK: mark, _COMPONENTS: _components(text)}
    tokens = block_parser().parse(text, env)
    lines = text.split("\n")
    edits: list[tuple[int, int, list[str]]] = []
    references = [*env.get("references", {}).values(), *env.get("duplicate_refs", ())]
    edits.extend((reference["map"][0], reference["map"][1], []) for reference in references)
    edits.extend(_edits(tokens, lines, env, render_html))
    for first, end, replacement in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        lines[first:end] = replacement
    return "\n".join(_without_double_blanks(lines))


def _without_double_blanks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with at most one blank line in a row; code keeps all of its lines."""
    blank = True
    for line, is_code in with_code(lines):
        if is_code or line.strip() or not blank:
            blank = not line.strip()
            yield line


def _edits(
    tokens: Sequence[Token], lines: list[str], env: dict[str, Any], render_html: Callable[[str], str]
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the replacements to make: first line, end line, new lines."""
    index = pieces = 0
    while index < len(tokens):
        token = tokens[index]
        inner = tokens[index + 1 : _find_closing(tokens, index)] if token.type in _GROUPS else ()
        inlines = [each for each in inner if each.type == "inline"]
        index += 1
        if not token.map:
            continue
        first, end = token.map
        if token.type in ("bullet_list_open", "ordered_list_open"):
            if len(inlines) > 1 and all(_ANCHOR_ITEM.fullmatch(item.content) for item in inlines):
                yield first, end, [""]
                index += len(inner)
        elif token.type == "html_block":
            lone = _LONE_TAG.fullmatch(token.content) and not _is_words(token.content.strip(), env[_COMPONENTS], True)
            pieces += not lone
            if pieces > MAX_HTML_PIECES:
                raise Unreadable(
                    f"Markdown with more than {MAX_HTML_PIECES:,} pieces of HTML; save it as HTML, or split it"
                )
            if lone:
                rendered = _picture_words(token.content) + _image_mark(token.content, env[_MARK])
            else:
                escaped = partial(_escape_words, components=env[_COMPONENTS])
                rendered = render_html(_ANY_TAG.sub(escaped, token.content))
            prefix = _lead(lines[first])
            yield first, end, [(prefix + line).rstrip() for line in ("", *rendered.split("\n"), "")]
        elif token.type == "table_open" and _has_only_badges(inner, env):
            yield first, end, [""]
            index += len(inner)
        elif token.type == "hr":
            yield first, end, [""]
        elif token.type == "tr_open":
            # Cells are joined without padding, which would fill passages with spaces.
            words = " | ".join(_cell(cell.content, env) for cell in inlines)
            yield first, first + 1, [f"{_lead(lines[first])}| {words} |"]
            if tokens[index - 2].type == "thead_open":
                rule = re.sub("-+", "---", "|".join(re.findall(":?-+:?", lines[first + 1])))
                yield first + 1, first + 2, [f"{_lead(lines[first + 1])}|{rule}|"]
            index += len(inner)
        elif token.type == "inline":
            heading = tokens[index - 2].type == "heading_open"
            if _MARKS.search(token.content) and len(token.content) <= MAX_INLINE_LENGTH:
                yield from _line_edit(token, lines, env, heading)
            elif heading and not token.content:
                yield first, end, [""]


def _lead(line: str) -> str:
    """Return the indent and the quote markers (`>`) of a line."""
    return line[: len(line) - len(line.lstrip(" \t>"))]


def _has_only_badges(table: Sequence[Token], env: dict[str, Any]) -> bool:
    """Return whether nothing but names of rows is left of a table, whose other cells are linked images."""
    cells: list[list[str]] = []
    for token in table:
        if token.type == "tr_open":
            cells.append([])
        elif token.type == "inline":
            cells[-1].append(token.content)
    others = [cell for row in cells for cell in row[1:] if cell]
    return len(cells) > 1 and bool(others) and all("![" in cell and not _cell(cell, env) for cell in others)


def _cell(content: str, env: dict[str, Any]) -> str:
    words = _rewrite_inline(content, env) if _MARKS.search(content) else content
    return " ".join(words.split()).replace("|", r"\|")


def _find_closing(tokens: Sequence[Token], index: int) -> int:
    name, level = tokens[index].type.replace("_open", "_close"), tokens[index].level
    later = range(index + 1, len(tokens))
    return next((at for at in later if tokens[at].level == level and tokens[at].type == name), len(tokens))


def _line_edit(
    token: Token, lines: list[str], env: dict[str, Any], heading: bool
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the replacement of an inline token's lines, if it changes them."""
    assert token.map
    first, end = token.map
    content = token.content.split("\n")
    rewritten = _rewrite_inline(token.content, env, navigation=not heading).split("\n")
    column = lines[first].find(content[0])
    if column < 0 or rewritten == content:
        return
    lead, trail = lines[first][:column], lines[first][column + len(content[0]) :].rstrip()
    if not any(line.strip() for line in rewritten):
        yield first, end, [""]
        return
    second = lines[first + 1] if end > first + 1 else ""
    follow = second[: second.find(content[1])] if len(content) > 1 and content[1] in second else " " * len(lead)
    rows = [line.strip() for line in rewritten if line.strip()]
    yield first, end, [lead + rows[0] + (trail if heading else ""), *(follow + row for row in rows[1:])]


def _rewrite_inline(content: str, env: dict[str, Any], navigation: bool = True) -> str:
    """Reduce links and images in inline Markdown to their words; return "" for navigation."""
    children: list[Token] = []
    block_parser().inline.parse(content, block_parser(), env, children)
    mark: MarkFunction = env.get(_MARK, no_mark)
    if navigation and _leads_elsewhere(children):
        return "".join(_picture_marks(children, mark))
    return _write_inline(children, mark, env.get(_COMPONENTS, frozenset()))


_MARK = "mark of a picture"
"""Key under which the environment of the parser has the function that marks pictures."""
_COMPONENTS = "names of components"
"""Key under which it has the names of the site's components."""


def _picture_marks(children: Sequence[Token], mark: MarkFunction) -> Iterator[str]:
    """Yield the marks of linked pictures, such as a preview that leads to the picture in full size."""
    for token in children:
        if token.type == "image":
            yield mark(str(token.attrs.get("src", "")), token.content)
        elif token.type == "html_inline":
            yield _image_mark(token.content, mark)


_SOURCE = re.compile(r"\bsrc\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


def _image_mark(tag: str, mark: MarkFunction) -> str:
    """Return the mark for an `<img>` tag; empty for any other tag."""
    name, source, alt = _TAG.match(tag.lstrip()), _SOURCE.search(tag), _ALT.search(tag)
    if name is None or name[1].lower() != "img" or source is None:
        return ""
    return mark(source[1] or source[2] or "", (alt[1] or alt[2] or "") if alt else "")


def _leads_elsewhere(children: Sequence[Token]) -> bool:
    """Return whether a line is navigation: "Back to top", links between separators (breadcrumbs), linked images
    (badges).
    """
    depth, links, outside = 0, [""], ""
    images = False
    for token in children:
        if token.type in ("link_open", "link_close"):
            depth += 1 if token.type == "link_open" else -1
            links.append("")
        elif token.type == "image":
            images = images or depth > 0
            outside += "" if depth else token.content or "image"
        elif token.type in ("text", "text_special", "code_inline"):
            if depth:
                links[-1] += token.content
            else:
                outside += token.content
    words = [link for link in links if link.strip()]
    if not words:
        return images and not outside.strip()
    if not _SEPARATORS.fullmatch(outside):
        # The last breadcrumb is often the page itself, without a link.
        return len(words) > 1 and bool(re.fullmatch(r"(?:\s*[>›»]\s*)+[^>›».]{1,80}", outside))
    return all(_NAVIGATION.fullmatch(link) for link in words) or (len(words) > 1 and bool(outside.strip()))


_ADDRESS_WITH_SPACES = re.compile(
    r"(?<![\w\]])\[([^\[\]\n]{1,200})\][ ]?\((?:https?:|mailto:|\.{0,2}/|#)[^()\n]{0,300}\)"
)
"""A link to an address with spaces, which Markdown does not know as a link."""
_SCHEMES = ("http://", "https://", "ftp://", "mailto:", "tel:", "irc://", "file:///")


def _write_inline(
    children: Sequence[Token], mark: MarkFunction = no_mark, components: frozenset[str] = frozenset()
) -> str:
    pieces: list[str] = []
    linked = 0
    named = _named_tags(children)
    for token, following in zip_longest(children, children[1:]):
        if token.type == "text":
            pieces.append(_ADDRESS_WITH_SPACES.sub(r"\1", token.content))
        elif token.type == "text_special":
            pieces.append(_character(token, following, "".join(pieces[-1:])))
        elif token.type == "code_inline":
            pad = " " if token.content.startswith("`") or token.content.endswith("`") else ""
            pieces.append(f"{token.markup}{pad}{token.content}{pad}{token.markup}")
        elif token.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif token.type == "image":
            alt = " ".join(_write_inline(token.children or ()).split())
            pieces.append("" if linked or _FILE_NAME.fullmatch(alt) else alt)
            pieces.append(mark(str(token.attrs.get("src", "")), alt))
        elif token.type == "html_inline":
            number = following is not None and POWER_PATTERN.fullmatch(following.content)
            raised = number and token.content.lower() == "<sup>" and "".join(pieces[-1:])[-1:].isdigit()
            words = f"\\{token.content}" if id(token) in named else _tag_words(token.content, components)
            is_struck = _tag_name(token) in STRUCK_TAGS and id(token) not in named
            pieces.append("^" if raised else "~~" if is_struck else words)
            pieces.append(_image_mark(token.content, mark))
        elif token.type in ("link_open", "link_close"):
            linked += 1 if token.type == "link_open" else -1
            if token.info == "auto" and "@" not in (words := _between_links(children, token)):
                is_address = words.lower().startswith(_SCHEMES)
                pieces.append("" if is_address else "<" if token.type == "link_open" else ">")
        else:
            pieces.append(token.markup)
    return re.sub(r"(?<=\S)[ \t]{2,}(?=\S)", " ", "".join(pieces))


_MARKUP = frozenset("<*_[]`\\~#")


def _character(token: Token, following: Token | None, before: str) -> str:
    """Return an escape as written, and an entity such as &nbsp; as its character, escaped if it would be markup."""
    if token.info != "entity":
        return token.markup
    rest = following.content if following is not None else ""
    if token.content == "&" and re.match(r"#?\w{1,32};", rest):
        return token.markup
    is_markup = token.content in _MARKUP or (token.content == ">" and before[-1:] in ("", "\n"))
    return f"\\{token.content}" if is_markup else token.content.replace("\xa0", " ")


_ANY_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def _components(text: str) -> frozenset[str]:
    """Return the names in tags that are closed somewhere, or have attributes with values: `<Tabs>`, `<Badge text="a">`.

    Among them are the components of a site generator, which are no HTML elements.
    """
    tags = _ANY_TAG.findall(text)
    names = (_TAG.match(tag) for tag in tags if tag.startswith("</") or tag.endswith("/>") or "=" in tag)
    return frozenset(name[1] for name in names if name)


def _is_words(tag: str, components: frozenset[str], alone: bool = False) -> bool:
    """Return whether an apparent tag is words. A tag `alone` on its line, or a name in the style of components
    (`<CardGroup>`, `<my-card>`), is a component if there is one of the name.
    """
    name = _TAG.match(tag)
    if name and name[1] in components and (alone or "-" in name[1] or not (name[1].islower() or name[1].isupper())):
        return False
    return is_placeholder(tag)


def _escape_words(tag: re.Match[str], components: frozenset[str]) -> str:
    return escape(tag.group()) if _is_words(tag.group(), components) else tag.group()


def _tag_words(source: str, components: frozenset[str]) -> str:
    """Return the replacement of an HTML tag. Text in angle brackets such as `<your name>` is kept."""
    if _is_words(source, components):
        return source
    name = _TAG.match(source)
    if name and name[1].lower() in _SEPARATING_TAGS:
        return " "
    return _picture_words(source)


_UNCLOSED_TAGS = frozenset("br li p td th tr dd dt img hr input wbr source col embed link meta option".split())
_ENDS_APART, _STARTS_APART = re.compile(r"(?:\A|[\s(\"'“,/])\Z"), re.compile(r"\Z|[\s)\"'”.,;:!?/]")


def _named_tags(children: Sequence[Token]) -> set[int]:
    """Return the `id()` of each tag that a sentence only names, as in "the <script> tag".

    It stands apart as a word does, has no attributes, and nothing opens or closes it.
    """
    balance: Counter[str] = Counter()
    for token in children:
        if token.type == "html_inline":
            balance[_tag_name(token)] += -1 if token.content.startswith("</") else 1
    named = set()
    for before, token, after in zip((None, *children), children, (*children[1:], None), strict=False):
        name = _tag_name(token)
        if token.type != "html_inline" or not balance[name] or " " in token.content or name in _UNCLOSED_TAGS:
            continue
        stands_alone = all(each is None or each.type.endswith("break") for each in (before, after))
        words_before, words_after = before.content if before else "", after.content if after else ""
        is_apart = _ENDS_APART.search(words_before) and _STARTS_APART.match(words_after)
        if is_apart and not is_placeholder(token.content) and (not stands_alone or len(children) == 1):
            named.add(id(token))
    return named


def _tag_name(token: Token) -> str:
    name = _TAG.match(token.content)
    return name[1].lower() if name else ""


def _between_links(children: Sequence[Token], link: Token) -> str:
    """Return the text of an automatic link, `<https://example.org>`, by its opening or closing token."""
    at = next(number for number, token in enumerate(children) if token is link)
    return children[at + 1 if link.type == "link_open" else at - 1].content


def _picture_words(source: str) -> str:
    """Return the alternative text of an <img>; empty for other tags, and for the name of a file or icon."""
    alt = _ALT.search(source) if source.lstrip().lower().startswith("<img") else None
    words = " ".join((alt[1] or alt[2] or "").split()) if alt else ""
    return "" if _FILE_NAME.fullmatch(words) else words
