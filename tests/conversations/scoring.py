"""Whether a reply is right, by the label of its turn."""

from __future__ import annotations

import re
from typing import Literal

from tests.conversations.labels import LabelledTurn
from turnmark.assistant.types import Decision
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record

COURTESY_WORDS = 30
"""A system that states no decision has answered a courtesy if it wrote no more words than this."""

Flag = Literal["refused", "asked back", "unsure", "repeated", "failed"]
FLAGS: tuple[Flag, ...] = ("refused", "asked back", "unsure", "repeated", "failed")

_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+\S", re.MULTILINE)
_MARKUP = re.compile(r"\*+|`+")
_UNSURE = re.compile(r"\s*(?:i am|i'm|i’m) not (?:quite |entirely )?(?:sure|certain)\b", re.IGNORECASE)


class Answer(Record):
    """What a system replied to one message. `decision` is None where the system states none."""

    text: str
    decision: Decision | None
    seconds: float
    rewrite: str = ""
    error: str = ""


class Score(Record):
    """The judgement of one reply; `why` says what is wrong with it."""

    right: bool
    flags: tuple[Flag, ...] = ()
    why: str = ""


def score(turn: LabelledTurn, answer: Answer, before: Answer | None) -> Score:
    """Judge a reply.

    Args:
        before: the reply to the message before; None: this is the first.
    """
    flags = _flags(turn, answer, before)
    why = _mistake(turn, answer, before)
    return Score(right=not why, flags=flags, why=why)


def plain(text: str) -> str:
    """One line, without citation marks."""
    return " ".join(strip_citations(text).split())


def _flags(turn: LabelledTurn, answer: Answer, before: Answer | None) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    if answer.error:
        return ("failed",)
    if turn.kind != "unknown" and answer.decision == "unknown":
        flags.append("refused")
    if answer.decision == "clarify":
        flags.append("asked back")
    if answer.decision == "partial" and _UNSURE.match(answer.text):
        flags.append("unsure")
    answered_before = before is not None and before.decision != "unknown" and plain(before.text) == plain(answer.text)
    if answered_before and turn.kind not in ("revise", "courtesy"):
        flags.append("repeated")
    return tuple(flags)


def _mistake(turn: LabelledTurn, answer: Answer, before: Answer | None) -> str:
    """What is wrong; empty: nothing."""
    if answer.error:
        return f"failed: {answer.error}"
    if turn.kind == "unknown":
        return "" if answer.decision == "unknown" else f"expected unknown, got {answer.decision or 'an answer'}"
    if answer.decision in ("unknown", "clarify"):
        return f"decision {answer.decision}"
    if turn.kind == "courtesy":
        brief = len(plain(answer.text).split()) <= COURTESY_WORDS
        right = answer.decision == "converse" or (answer.decision is None and brief)
        return "" if right else f"expected converse, got {answer.decision or 'a long reply'}"
    return "; ".join(_unmet(turn, answer, before))


def _unmet(turn: LabelledTurn, answer: Answer, before: Answer | None) -> list[str]:
    """The conditions of a label that a reply does not meet."""
    text = plain(answer.text)
    # A model's emphasis stands between words of a pattern ("**30** days"), so either form may match.
    forms = (text, _MARKUP.sub("", text))
    size = len(text.split())
    unmet = [f"missing {fact}" for fact in turn.facts if not _matches(fact, forms)]
    unmet += [f"holds {pattern}" for pattern in turn.wrong if _matches(pattern, forms)]
    if turn.list and len(_ITEM.findall(answer.text)) < 2:
        unmet.append("not a list")
    if turn.max_words is not None and size > turn.max_words:
        unmet.append(f"{size} words, expected at most {turn.max_words}")
    if turn.shorter and before is not None and size >= len(plain(before.text).split()):
        unmet.append("not shorter")
    return unmet


def _matches(pattern: str, forms: tuple[str, ...]) -> bool:
    return any(re.search(pattern, form, re.IGNORECASE) for form in forms)
