"""Plain text: paragraphs between blank lines, and a title where the first line looks like one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from turnmark.corpora.text import lines, trimmed
from turnmark.corpora.types import Block, Document

MAX_TITLE = 200  # characters; what is longer is cut at a word
MAX_TITLE_LINE = 80  # characters of a first line that still counts as a title
_UNDERLINE = re.compile(r"([=\-~*^#])\1{2,}\s*$")


def parse(text: str, relative: str) -> Document:
    """A text file's Document; `text` has "\\n" for newlines."""
    return Document(
        id=relative, title=_title(text) or stem(relative), text=text, path=relative, blocks=tuple(paragraphs(text))
    )


def stem(relative: str) -> str:
    """A title made of a file name: no suffix, no '-' and '_'."""
    name = PurePosixPath(relative)
    return " ".join(re.sub(r"[-_]+", " ", name.stem).split()) or name.name


def shorten(title: str) -> str:
    """A title of at most `MAX_TITLE` characters."""
    if len(title) <= MAX_TITLE:
        return title
    return title[:MAX_TITLE].rsplit(" ", 1)[0] + "…"


def paragraphs(text: str, start: int = 0, end: int | None = None) -> list[Block]:
    """The paragraphs of text[start:end], which blank lines separate."""
    blocks: list[Block] = []
    stop = len(text) if end is None else end
    begin = start
    for offset, line in lines(text[start:stop]):
        if not line.strip():
            _add(blocks, text, begin, start + offset)
            begin = start + offset
    _add(blocks, text, begin, stop)
    return blocks


def _add(blocks: list[Block], text: str, start: int, end: int) -> None:
    start, end = trimmed(text, start, end)
    if start < end:
        blocks.append(Block(kind="paragraph", start=start, end=end))


def _title(text: str) -> str:
    head = [line.strip() for line in text.lstrip("\n").split("\n", 4)[:4]]
    if len(head) > 2 and _UNDERLINE.match(head[0]):  # reStructuredText: a line above and below the title
        head = head[1:]
    if len(head) < 2 or not 0 < len(head[0]) <= MAX_TITLE_LINE:
        return ""
    return " ".join(head[0].split()) if not head[1] or _UNDERLINE.match(head[1]) else ""


class Unreadable(Exception):
    """A file that gives no document; becomes a Problem. The message says what is wrong and what to do.

    Args:
        line: 1-based line, where there is one to point at.
        binary: the file is no text at all, so a glob that matches everything cannot have meant it.
    """

    def __init__(self, message: str, line: int | None = None, binary: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.binary = binary


_YAML = re.compile(r"---[ \t]*\n(?P<body>(?:(?!---|\.\.\.)[^\n]*\n)*+)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<body>(?:(?!\+\+\+)[^\n]*\n)*+)\+\+\+[ \t]*(?:\n|\Z)")
# What may stand at the beginning of a line of YAML or TOML; a text between two rules is no front matter.
_METADATA_LINE = re.compile(r"\s|$|#|[-\]})]|\[|[\w\"'.$-][^:=\n]{0,100}[:=](?:\s|$|(?<==))")
_TITLE = re.compile(
    r"^(?:title|\"title\")[ \t]*[:=][ \t]*(?P<title>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*+)", re.MULTILINE
)
_BLOCK_SCALAR = re.compile(r"[>|][+-]?\d?$")


def split_front_matter(text: str) -> tuple[str, str]:
    """(title, the text behind the front matter) of a page; no title is "", and no front matter leaves the text."""
    match = _YAML.match(text) or _TOML.match(text)
    if match is None:
        return "", text
    lines = [line for line in match["body"].split("\n") if line.strip()]
    if not all(_METADATA_LINE.match(line) for line in lines):
        return "", text
    return _metadata_title(match["body"]), text[match.end() :].lstrip("\n")


def _metadata_title(body: str) -> str:
    match = _TITLE.search(body)
    if match is None:
        return ""
    first, continuation = match["title"].strip(), match["more"]
    value = continuation if _BLOCK_SCALAR.match(first) else first + continuation
    value = " ".join(value.split())
    if quoted := re.match(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'", value):
        double, single_quoted = quoted.groups()
        return (
            double.replace('\\"', '"').replace("\\\\", "\\") if double is not None else single_quoted.replace("''", "'")
        )
    return re.split(r"[ \t]#", value)[0].strip()
