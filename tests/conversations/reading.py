"""The second count: replies that a person reads through, with five questions about each.

`--sample 40 > sheet.txt` writes the sheet; the reader puts yes or no behind each question; `--count sheet.txt` counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from textwrap import indent

from tests.conversations.runner import HeldConversation
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError

SEED = 0
QUESTIONS = (
    "does it answer first?",
    "does it contradict itself?",
    "does it mix two things?",
    "does it break off?",
    "does it say what was not asked?",
)
_ANSWER = re.compile(rf"^({'|'.join(map(re.escape, QUESTIONS))})[ \t]*(\S*)", re.MULTILINE)


def sheet(system: str, held: Sequence[HeldConversation], count: int) -> str:
    """A number of replies, with the exchange before each: the same turns for every system. No courtesies, no scores."""
    turns = [(each, at) for each in held for at, turn in enumerate(each.conversation.turn) if turn.kind != "courtesy"]
    chosen = sorted(random.Random(SEED).sample(range(len(turns)), min(count, len(turns))))
    return "\n".join(_asked(system, number, *turns[at]) for number, at in enumerate(chosen, 1))


def _asked(system: str, number: int, held: HeldConversation, at: int) -> str:
    lines = [f"=== {number} === {inert(system)}, {held.collection} {held.conversation.id}, turn {at + 1}"]
    for place in range(max(0, at - 1), at + 1):
        lines.append(indent(inert(held.conversation.turn[place].say), "    user: ", lambda _: True))
        lines.append(indent(inert(held.answers[place].text or held.answers[place].error), "    | ", lambda _: True))
    return "\n".join([*lines, *(f"{question} " for question in QUESTIONS), ""])


def counted(text: str) -> str:
    """How often a sheet says yes to each question.

    Raises:
        RequestError: a question has another answer than yes or no, or none.
    """
    answers: dict[str, list[bool]] = {question: [] for question in QUESTIONS}
    problems = []
    for question, answer in _ANSWER.findall(text):
        if answer.lower() in ("yes", "no"):
            answers[question].append(answer.lower() == "yes")
        else:
            problems.append(f"{question} expected yes or no, got {answer!r}")
    if problems or not any(answers.values()):
        raise RequestError(problems or ["no question of a reading sheet was found"])
    return "\n".join(f"{question:34} {sum(said)} of {len(said)}" for question, said in answers.items())
