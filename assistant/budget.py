"""What of a long conversation and of the passages fits into the model's context, and in words what was left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil

from turnmark.corpora.text import CJK, sentences
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.types import Hit

Count = Callable[[str], int]

# Tokens that the prompts need in addition to what is put in: the instructions, and the marks around a turn or a
# passage. A test compares the real prompts with these.
INSTRUCTIONS = 530
TURN_MARKS = 24
PASSAGE_MARKS = 32

_CHARS_PER_TOKEN = 3.6
_WIDE = re.compile(f"[{CJK}]")


class Fitted(Record):
    """What is left, in its old order, and notes for the person on what is not."""

    history: tuple[Message, ...]
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


def count_tokens(text: str) -> int:
    """An estimate, rather too high than too low: characters / 3.6 rounded up, and one for each Han or kana."""
    wide = len(_WIDE.findall(text))
    return ceil((len(text) - wide) / _CHARS_PER_TOKEN) + wide


def fit(
    history: Sequence[Message], hits: Sequence[Hit], question: str, tokens: int, count: Count = count_tokens
) -> Fitted:
    """Leave out what does not fit: the oldest turns first, then the lowest passages, then the end of the last one left.

    Args:
        hits: best first.
        question: always stays, uncut.
        tokens: room for the prompt: the model's context less the room for its reply.
        count: how many tokens a text has.
    """
    room = tokens - INSTRUCTIONS - count(question)
    turns = [count(message.content) + TURN_MARKS for message in history]
    sizes = [count(hit.passage.indexed_text) + PASSAGE_MARKS for hit in hits]
    notes: list[str] = []
    if room <= 0 and (history or hits):
        return Fitted(
            history=(), hits=(), notes=("the question alone fills the model's context: nothing else was sent",)
        )

    first, needed = 0, sum(turns) + sum(sizes)
    while first < len(history) and needed > room:
        needed -= turns[first]
        first += 1
    # A conversation that begins with an answer would leave its question out.
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    if first:
        notes.append(
            f"{_many(first, len(history), 'earlier message')} left out, the oldest: the model's context is full"
        )

    fit_count = len(hits)
    while fit_count > 1 and sum(sizes[:fit_count]) > room:
        fit_count -= 1
    fitting = list(hits[:fit_count])
    if fit_count < len(hits):
        notes.append(
            f"{_many(len(hits) - fit_count, len(hits), 'passage')} left out, the lowest: the model's context is full"
        )
    if fitting and sizes[0] > room:
        cut = _cut(fitting[0], room - PASSAGE_MARKS, count)
        share = len(cut.passage.text) / max(1, len(fitting[0].passage.text)) if cut else 0
        notes.append(f"only the first {share:.0%} of passage [1] was sent: the model's context is full")
        fitting = [cut] if cut else []
    return Fitted(history=tuple(history[first:]), hits=tuple(fitting), notes=tuple(notes))


def _many(number: int, total: int, noun: str) -> str:
    return f"{number} of {total} {noun}{'s were' if total > 1 else ' was'}"


def _cut(hit: Hit, room: int, count: Count) -> Hit | None:
    """The hit with as much of the beginning of its passage as fits, to the end of a sentence; None: not a word fits.

    Where not even one sentence fits it is cut at the end of a word. The passage keeps its id, by which it is cited; its
    `end` and `text` are those of what is left.
    """
    passage = hit.passage
    for ends in (
        [end for _, end in sentences(passage.text)],
        [word.end() for word in re.finditer(r"\S+", passage.text)],
    ):
        low, high = 0, len(ends)  # how many of the ends fit
        while low < high:
            middle = (low + high + 1) // 2
            shorter = passage.model_copy(update={"text": passage.text[: ends[middle - 1]]})
            if count(shorter.indexed_text) <= room:
                low = middle
            else:
                high = middle - 1
        if low:
            end = ends[low - 1]
            shortened = passage.model_copy(update={"text": passage.text[:end], "end": passage.start + end})
            return hit.model_copy(update={"passage": shortened})
    return None
