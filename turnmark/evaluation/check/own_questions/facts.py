"""The facts that a person expects in a reply, and how they are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnmark.assistant.steps.verify.numbers import find_numbers
from turnmark.corpora.text.segmentation import (
    comparable_words,
    lines,
    normalize_width,
    sentences,
    strip_citations,
    words,
)
from turnmark.evaluation.metrics.overlap import is_unspaced

FACT_SEPARATOR, ALTERNATIVE_SEPARATOR = ";", "|"
_PATTERN = re.compile(r"/(.+)/")
_GROUPED_DIGITS = re.compile(r"(?<![\d.,])\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?![\d.,]\d)")
"""Matches a number such as 1.200, which is 1200 also in a sentence whose language would read it as 1.2."""
_ITEM = re.compile(r"\s*(?:[-*•|]|\d+[.)])")
_EMPHASIS = re.compile(r"[*_`]+")


def split_facts(cell: str) -> list[str]:
    """Split a cell with several facts, separated by semicolons or line breaks. A pattern may contain semicolons."""
    if _PATTERN.fullmatch(cell.strip()):
        return [cell.strip()]
    return [part for each in re.split(rf"[{FACT_SEPARATOR}\n]", cell) if (part := each.strip())]


def fact_problem(fact: str) -> str:
    """Return why a fact can never be found in a reply; empty if it can."""
    pattern = _PATTERN.fullmatch(fact)
    if pattern:
        try:
            re.compile(pattern[1])
        except re.error as error:
            return f"{fact} is not a regular expression: {error}"
        return ""
    if not all(words(each) for each in fact.split(ALTERNATIVE_SEPARATOR)):
        return f"{fact!r} has no word or number on one side of {ALTERNATIVE_SEPARATOR!r}"
    return ""


def find_facts(facts: Iterable[str], reply: str) -> list[bool]:
    """Return for each fact whether a reply states it.

    A fact is a regular expression between slashes, or words and numbers. One of its alternatives, separated by a
    vertical bar, is enough. All of its words and numbers must be in one sentence, item or row of the reply, in any
    order. Case, emphasis and citation marks do not matter, and numbers are compared by value: "1,200" is "1200".
    """
    plain = strip_citations(reply)
    bare = _EMPHASIS.sub("", plain)
    pieces = [_ReplyPiece(piece) for piece in _pieces(bare)]
    return [_is_stated(fact, plain, bare, pieces) for fact in facts]


def _pieces(text: str) -> list[str]:
    """Return the sentences of a text, its items and its rows of tables, which may have several sentences."""
    found = [text[start:end] for start, end in sentences(text)]
    return found + [line for _, line in lines(text) if _ITEM.match(line)]


class _ReplyPiece:
    """A sentence or line of a reply, prepared for comparison."""

    def __init__(self, text: str) -> None:
        self.words = frozenset(comparable_words(text))
        grouped = {re.sub(r"\D", "", number) for number in _GROUPED_DIGITS.findall(text)}
        self.numbers = find_numbers(text, spelled=True) | grouped
        self.folded = "".join(normalize_width(text).split()).casefold()

    def states(self, fact: str) -> bool:
        """Return whether the statement has all words and numbers of a fact."""
        numbers = find_numbers(fact)
        if not numbers <= self.numbers:
            return False
        if is_unspaced(fact):
            return all(word in self.folded for word in words(normalize_width(fact)) if not word[0].isdigit())
        return self.words.issuperset(word for word in comparable_words(fact) if not word[0].isdigit())


def _is_stated(fact: str, plain: str, bare: str, pieces: list[_ReplyPiece]) -> bool:
    pattern = _PATTERN.fullmatch(fact)
    if pattern:
        forms = (plain, bare, " ".join(bare.split()))
        return any(re.search(pattern[1], form, re.IGNORECASE) for form in forms)
    return any(piece.states(each) for each in fact.split(ALTERNATIVE_SEPARATOR) for piece in pieces)
