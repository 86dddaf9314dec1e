"""Find where a reply begins to repeat itself.

Small models write the same sentence or the same two steps again and again until their limit. In a turn, a stream is
stopped there, and the repetition is removed from the reply. Outside of a turn, it is removed from replies that the
limit cut off. Code, tables and short lines may repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar

from turnmark.core.untrusted import code_spans, is_in_code

MAX_CYCLE_UNITS = 6
"""Maximum number of sentences in a repeated stretch."""
MIN_ROUNDS = 3
"""Minimum number of times that a stretch occurs in a row."""
MIN_UNIT_LETTERS = 12
"""Minimum letters of a repeated sentence: "Yes." may be the answer to several questions."""
ON_REPETITION: ContextVar[Callable[[str], None] | None] = ContextVar("ON_REPETITION", default=None)
"""Called with a note when a reply repeats itself, or None outside of a turn, where replies stay as they are."""
REPETITION_NOTE = "the model began to repeat itself; the repetition is left out"
_UNITS = re.compile(r"[^\n.!?。！？]*(?:[.!?。！？]+(?=\s|\Z|[^\x00-\x7f])|\.(?=\S)|[!?](?=\S)|\n|\Z)")
_NUMBERING = re.compile(r"[\W_]*(?:\d{1,3}[.):])?[\W_]*")


class RepeatedReply(Exception):
    """Raised by the receiver of a stream to stop a reply that repeats itself.

    Args:
        text: the text so far.
    """

    def __init__(self, text: str) -> None:
        super().__init__(REPETITION_NOTE)
        self.text = text


def repetition_start(text: str, rounds_in_row: int = MIN_ROUNDS) -> int | None:
    """Return the offset at which a text begins to repeat itself, or None if it does not.

    A sentence, or a stretch of several sentences, has to occur several times in a row. Numbers of steps are ignored.

    Args:
        rounds_in_row: how many times in a row.
    """
    if text.count("```") % 2:  # an unfinished block of code
        return None
    units = _units_of(text)
    for end in range(rounds_in_row, len(units) + 1):
        for length in range(1, min(MAX_CYCLE_UNITS, end // rounds_in_row) + 1):
            starts = [end - length * number for number in range(1, rounds_in_row + 1)]
            rounds = [units[start : start + length] for start in starts]
            words = [[unit for _, unit in stretch] for stretch in rounds]
            if all(stretch == words[0] for stretch in words) and max(map(len, words[0])) >= MIN_UNIT_LETTERS:
                return rounds[-2][0][0]
    return None


def without_repetition(text: str) -> str:
    """Return a text up to where it begins to repeat itself."""
    start = repetition_start(text)
    return text if start is None else re.sub(r"\s*(?:\d{1,3}[.)]|[-*•])?\s*\Z", "", text[:start])


def _units_of(text: str) -> list[tuple[int, str]]:
    """Return the sentences of a text outside code and tables: their start, and their letters in lower case."""
    code = [span for span in code_spans(text) if text.startswith("```", span[0])]
    units: list[tuple[int, str]] = []
    begun, words = 0, ""
    for match in _UNITS.finditer(text):
        if not words:
            begun = match.start()
        words += match.group()
        is_number = re.fullmatch(r"\s*\d{1,3}\.", words)  # "1." begins a step
        if is_number or (match.group().endswith(".") and match.end() < len(text) and not text[match.end()].isspace()):
            continue
        key = "".join(filter(str.isalnum, _NUMBERING.sub("", words, count=1))).lower()
        if key and not is_in_code(begun, code) and not words.lstrip().startswith("|"):
            units.append((begun, key))
        words = ""
    return units
