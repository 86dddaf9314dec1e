"""Reads source code by its definitions. A function or class is a section under its name.

Python is parsed. In other languages, the patterns of `source_code.toml` find the lines that begin a definition.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from turnmark.corpora.readers.common.prose import (
    Unreadable,
    WrongFileType,
    clean_text,
    declared_encoding,
    decode,
    fence_around,
)
from turnmark.corpora.readers.markup.markdown import blocks
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document

MAX_LINE_LENGTH = 2_000  # characters; longer lines are generated
_MIN_LONG_CLASS_LINES = 60  # in a class of this length, each method is a separate section


class Definition(NamedTuple):
    """A definition: its name, the index of its first line, and its heading level (3 inside another one, else 2)."""

    name: str
    line: int
    level: int


def read_code(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read a file of source code.

    Raises:
        WrongFileType: the file is generated, e.g. a minified script.
    """
    suffix = PurePosixPath(relative).suffix.lower()
    data = path.read_bytes()
    text = clean_text(decode(data, declared_encoding(data))).expandtabs(4)
    lines = text.split("\n")
    if not text.strip():
        raise Unreadable("empty: there is no text in it")
    if ".min." in PurePosixPath(relative).name or max(map(len, lines)) > MAX_LINE_LENGTH:
        raise WrongFileType
    definitions = _definitions(text, lines, suffix)
    written = _markdown(lines, definitions, suffix.removeprefix("."))
    return Document(
        id=relative, title=PurePosixPath(relative).name, text=written, path=relative, blocks=tuple(blocks(written))
    )


def _definitions(text: str, lines: Sequence[str], suffix: str) -> list[Definition]:
    if suffix in (".py", ".pyi"):
        try:
            return _python_definitions(text, lines)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass  # an older Python, or a template; def and class are still found by pattern
    return _matched_definitions(lines, suffix)


def _markdown(lines: Sequence[str], definitions: Sequence[Definition], language: str) -> str:
    """Return the definitions as sections with their code. The code before the first one has no heading."""
    pieces: list[str] = []
    starts = [definition.line for definition in definitions]
    pieces += _take_opening(lines[: starts[0] if starts else len(lines)], language)
    for index, definition in enumerate(definitions):
        end = starts[index + 1] if index + 1 < len(starts) else len(lines)
        pieces.append(f"{'#' * definition.level} {definition.name}")
        pieces += _fence_lines(lines[definition.line : end], language)
    return "\n\n".join(pieces) + "\n"


_COMMENT = re.compile(r"\s*(?:#(?![!\[])|//+!?|--+|\*+(?!/)|/\*+!?|%+|;+)[ ]?(?P<words>.*?)\s*(?:\*+/)?$")


def _take_opening(lines: Sequence[str], language: str) -> list[str]:
    """Return the part before the first definition. The comment at its start, which describes the file, is text."""
    words: list[str] = []
    rest = list(lines)
    if language in ("py", "pyi"):
        words, rest = _docstring(rest)
    while not words and rest and (not rest[0].strip() or rest[0].startswith("#!")):
        rest.pop(0)
    if not words:
        while rest and rest[0].strip() and (match := _COMMENT.match(rest[0])):
            words.append(match["words"].rstrip("/ ") if match["words"].strip("*/ ") else "")
            rest.pop(0)
    text = "\n".join(words).strip()
    return ([text] if text else []) + _fence_lines(rest, language)


_DOCSTRING = re.compile(r"\s*[rRuU]?(\"\"\"|''')(?P<words>.*?)\1[^\n]*\n?", re.DOTALL)


def _docstring(lines: list[str]) -> tuple[list[str], list[str]]:
    """Split off the docstring of a module."""
    first = next((index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    code = "\n".join(lines[first:])
    match = _DOCSTRING.match(code)
    if not match:
        return [], lines
    return match["words"].strip().split("\n"), code[match.end() :].split("\n")


def _fence_lines(lines: Sequence[str], language: str) -> list[str]:
    """Return lines as a code block; none if they are blank."""
    code = "\n".join(lines).strip("\n").rstrip()
    if not code.strip():
        return []
    fence = fence_around(code)
    return [f"{fence}{language}\n{code}\n{fence}"]


# --- Python ----------------------------------------------------------------------------------------------------------


def _python_definitions(text: str, lines: Sequence[str]) -> list[Definition]:
    found: list[Definition] = []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        found.append(Definition(node.name, _first_line(node, lines), 2))
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno > _MIN_LONG_CLASS_LINES:
            found += [
                Definition(f"{node.name}.{inner.name}", _first_line(inner, lines), 3)
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ]
    return found


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, lines: Sequence[str]) -> int:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
    return _first_comment_line(first, lines)


def _first_comment_line(line: int, lines: Sequence[str]) -> int:
    """Return the first of the comment and attribute lines directly above a line."""
    while line and lines[line - 1].strip() and (_COMMENT.match(lines[line - 1]) or _ATTRIBUTE.match(lines[line - 1])):
        line -= 1
    return line


_ATTRIBUTE = re.compile(r"\s*(?:@|#\[|\[[A-Z]|template\s*<)")

# --- other languages -------------------------------------------------------------------------------------------------

_MEMBER_INDENT = re.compile(r" {2,4}(?=\S)")


class _CodeLanguage(NamedTuple):
    """How a language begins a definition; `has_members`: also inside of classes."""

    pattern: re.Pattern[str]
    is_c: bool
    has_members: bool


@cache
def _languages() -> dict[str, _CodeLanguage]:
    """Return the languages by suffix."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    modifiers, types = table.pop("MODIFIERS"), table.pop("TYPES")
    found: dict[str, _CodeLanguage] = {}
    for name, row in table.items():
        form = "|".join(row["definitions"]).replace("MODIFIERS", modifiers).replace("TYPES", types)
        language = _CodeLanguage(re.compile(form), name == "c", row.get("nested", False))
        found |= dict.fromkeys(row["suffixes"].split(), language)
    return found


def _matched_definitions(lines: Sequence[str], suffix: str) -> list[Definition]:
    language = _languages()[suffix]
    found: list[Definition] = []
    last = -1
    for number, line in enumerate(lines):
        level = 2
        at = 0
        if language.has_members and (inside := _MEMBER_INDENT.match(line)):
            level, at = 3, inside.end()
        match = language.pattern.match(line[:400], at)
        if not match or (language.is_c and not _has_body(lines, number)):
            continue
        name = next(filter(None, match.groups()), "")
        first = max(_first_comment_line(number, lines), last + 1)
        found.append(Definition(" ".join(name.split())[:100], first, level))
        last = number
    return found


def _has_body(lines: Sequence[str], number: int) -> bool:
    """Return whether, in the C code that begins at a line, a brace opens before the first semicolon."""
    for line in lines[number : number + 8]:
        for sign in line:
            if sign in "{;":
                return sign == "{"
    return False
