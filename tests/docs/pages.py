"""The documentation pages: their blocks of code, typed lines, inline code, links and headings.

The kind of a block is recognized by the beginning of its lines. A test reports a block of no known kind.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.conftest import ROOT

Kind = Literal["shell", "python", "toml", "json", "drawing", "transcript", "unknown"]

DRAWINGS = {("docs/architecture.md", "core/ "): "the packages, in the order in which data flows"}
"""What blocks show that are neither typed nor read by a program, by page and beginning."""
TRANSCRIPT = "text"
"""The language of a fenced block with the output of a command; `tests/assistant` compares those."""

SHELL_LINE = re.compile(r"(?:[A-Z_]+=\S+ +)*(?:turnmark|make|python|pip|export|ray)(?= |$)|#")
_TOML = re.compile(r"\[[^\]]+\]|[a-z_-]+ = ")
_PYTHON = re.compile(r"(?:from|import) [a-z]")
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: path of its file from the root.
        line: number of its first line, counted from 1.
        lines: its lines, without the indent.
        language: language of a fenced block; empty for an indented block.
    """

    page: str
    line: int
    lines: tuple[str, ...]
    language: str

    @property
    def place(self) -> str:
        """`docs/chat.md:3`."""
        return f"{self.page}:{self.line}"

    @property
    def text(self) -> str:
        """The text of the block."""
        return "\n".join(self.lines) + "\n"

    @property
    def kind(self) -> Kind:
        """The kind of the block; `unknown` if its lines differ in kind."""
        if self.language == TRANSCRIPT:
            return "transcript"
        if any(page == self.page and self.text.startswith(begins) for page, begins in DRAWINGS):
            return "drawing"
        lines = [line for _, line in commands(self)]
        if all(SHELL_LINE.match(line) for line in lines):
            return "shell"
        if _PYTHON.match(lines[0]):
            return "python"
        if all(_TOML.match(line) for line in lines):
            return "toml"
        return "json" if lines[0].startswith("{") else "unknown"


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not empty; a line that ends in a backslash continues in the next."""
    begun, joined = 0, ""
    for number, line in enumerate(block.lines, block.line):
        begun = begun if joined else number
        joined += line.strip() if joined else line.rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1]
        elif joined:
            yield begun, joined.strip()
            joined = ""


def pages() -> list[Path]:
    """Return README.md, CONTRIBUTING.md, CHANGELOG.md and the pages in docs/."""
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted(ROOT.glob("docs/*.md")),
    ]


def name_of(page: Path) -> str:
    """Return the path of a page from the root, e.g. `docs/chat.md`."""
    return page.relative_to(ROOT).as_posix()


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    """Return the Markdown tokens of a page."""
    return tuple(_PARSER.parse(page.read_text(encoding="utf-8")))


@cache
def blocks() -> tuple[Block, ...]:
    """Return every block of code of every page."""
    return tuple(block for page in pages() for block in _blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    for token in tokens(page):
        if token.type in ("code_block", "fence") and token.map:
            fence = token.type == "fence"
            lines = token.content.rstrip("\n").split("\n")
            yield Block(name_of(page), token.map[0] + 1 + fence, tuple(lines), token.info.strip() if fence else "")


@cache
def spans() -> tuple[tuple[str, int, str], ...]:
    """Return the inline code of sentences and tables: its page, the line of its paragraph or row, and its text."""
    texts = []
    for page in pages():
        line = 0
        for token in tokens(page):
            line = token.map[0] + 1 if token.map else line
            for child in token.children or []:
                if child.type == "code_inline":
                    texts.append((name_of(page), line, child.content))
    return tuple(texts)


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the targets of a page's links and pictures, each with the line of its paragraph."""
    line = 0
    for token in tokens(page):
        line = token.map[0] + 1 if token.map else line
        for child in token.children or []:
            target = child.attrs.get("href") or child.attrs.get("src")
            if target:
                yield line, str(target)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the fragments of a page's headings on GitHub."""
    names: list[str] = []
    for heading, inline in pairwise(tokens(page)):
        if heading.type == "heading_open":
            heading = "".join(child.content for child in inline.children or [])
            slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            names.append(slug if slug not in names else f"{slug}-{names.count(slug)}")
    return frozenset(names)


# --- what is typed ---

_QUOTED = re.compile(r"'[^']*'")
_ASSIGNED = re.compile(r"[A-Z_]+=.*")
_INNER = re.compile(r"\[([^\[\]]*)\](?:…|\.\.\.)?")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NO_DOLLAR = "\0"
"""Placeholder of a dollar sign between single quotes, which a shell does not expand."""


@dataclass(frozen=True)
class Example:
    """A typed line.

    Attributes:
        where: `docs/chat.md:3`.
        typed: the line on the page.
        words: program and arguments without quotes, but with placeholders and variables.
        environment: variables set before the program or by `export`.
        stdin: file after `<`; empty if there is none.
    """

    place: str
    typed: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""

    @property
    def program(self) -> str:
        """The program, e.g. `turnmark`; empty if the line only sets variables or is a comment."""
        return self.words[0] if self.words else ""


def examples(block: Block) -> list[Example]:
    """Yield the typed lines of a block, without and with their optional parts."""
    return [
        typed_example for number, line in commands(block) for typed_example in forms(f"{block.page}:{number}", line)
    ]


def forms(place: str, line: str) -> list[Example]:
    """Return a line as examples: the line, or its shortest and longest form if it has optional parts in brackets."""
    if "[" not in _QUOTED.sub("", bare := _COMMENT.sub("", line)):
        return [example(place, line)]
    return [example(place, _without_brackets(bare, optional)) for optional in ("", r"\1")]


def _without_brackets(line: str, replacement: str) -> str:
    while (shortened := _INNER.sub(replacement, line)) != line:
        line = shortened
    return line


def example(place: str, line: str) -> Example:
    """Parse one line as a shell does."""
    safe = _QUOTED.sub(lambda quoted: quoted[0].replace("$", _NO_DOLLAR), line)
    words = shlex.split(safe, comments=True)
    if words[:1] == ["export"]:
        return Example(place, line, (), dict(word.split("=", 1) for word in words[1:]))
    environment = {}
    while words and _ASSIGNED.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    stdin = ""
    if "<" in words:
        index = words.index("<")
        stdin = words[index + 1]
        del words[index : index + 2]
    return Example(place, line, tuple(words), environment, stdin)
