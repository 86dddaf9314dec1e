"""A line of a page as a shell would take it: what is typed, what is optional, what stands for something else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.docs.pages import Block, commands

_QUOTED = re.compile(r"'[^']*'")
_ASSIGNED = re.compile(r"[A-Z_]+=.*")
_INNER = re.compile(r"\[([^\[\]]*)\](?:…|\.\.\.)?")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NO_DOLLAR = "\0"
"""Stands for a dollar between single quotes, which a shell leaves alone."""


@dataclass(frozen=True)
class Example:
    """A line that is typed.

    Attributes:
        where: `docs/chat.md:3`.
        typed: the line as the page has it.
        words: program and arguments, after quotes; still with placeholders and variables.
        environment: what stands before the program, as `NAME=value`; of `export NAME=value` too.
        stdin: the file behind `<`; empty where there is none.
    """

    place: str
    typed: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""

    @property
    def program(self) -> str:
        """`turnmark`, `make`, `python` …; empty where the line only sets variables or is a comment."""
        return self.words[0] if self.words else ""


def examples(block: Block) -> list[Example]:
    """The lines of a block that are typed, each optional part left out and put in."""
    return [
        typed_example for number, line in commands(block) for typed_example in forms(f"{block.page}:{number}", line)
    ]


def forms(place: str, line: str) -> list[Example]:
    """One line as examples: as it stands or, where it has optional parts in brackets, its shortest and longest form."""
    if "[" not in _QUOTED.sub("", bare := _COMMENT.sub("", line)):
        return [example(place, line)]
    return [example(place, _without_brackets(bare, optional)) for optional in ("", r"\1")]


def _without_brackets(line: str, replacement: str) -> str:
    while (shortened := _INNER.sub(replacement, line)) != line:
        line = shortened
    return line


def example(place: str, line: str) -> Example:
    """One line, taken apart as a shell does.

    Raises:
        ValueError: a quote is not closed.
    """
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
