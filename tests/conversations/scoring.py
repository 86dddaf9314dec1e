"""Decide whether a reply is right according to the label of its turn."""

from __future__ import annotations

import re
from typing import Literal

from tests.conversations.labels import LabelledTurn
from turnmark.assistant.types import Decision
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.assistant.wording.reply_texts import UNSURE_PART_TEXT, UNSURE_TEXT, text_at_start
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import sentences, strip_citations

COURTESY_WORDS = 30
"""Maximum words of a reply to a courtesy by a system that states no decision."""

Flag = Literal["refused", "hedged", "asked back", "repeated", "failed"]
FLAGS: tuple[Flag, ...] = ("refused", "hedged", "asked back", "repeated", "failed")

_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+\S", re.MULTILINE)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")
_MARKUP = re.compile(r"\*+|`+")
_HEDGE = re.compile(r"^\W*(?:i am|i'm|i’m) not (?:quite |entirely )?(?:sure|certain)\b", re.IGNORECASE | re.MULTILINE)


class Answer(Record):
    """The reply of a system to one message.

    `decision` is None if the system states none; `prompt_tokens` are those of all `calls` of a model in the turn.
    """

    text: str
    decision: Decision | None
    seconds: float
    rewrite: str = ""
    prompt_tokens: int = 0
    calls: int = 0
    error: str = ""


class Score(Record):
    """The judgment of one reply; `why` says what is wrong with it."""

    right: bool
    flags: tuple[Flag, ...] = ()
    why: str = ""


def score(turn: LabelledTurn, answer: Answer, before: Answer | None) -> Score:
    """Judge a reply.

    Args:
        before: the reply to the message before; None: this is the first.
    """
    why = _mistake(turn, answer, before)
    return Score(right=not why, flags=_flags(turn, answer, before), why=why)


def plain(text: str) -> str:
    """Return a text as one line without citation marks."""
    return " ".join(strip_citations(text).split())


def word_count(text: str) -> int:
    """Count words. Chinese and Japanese have no spaces, so each of their characters counts as one."""
    return len(_WORD.findall(text))


def refuses(answer: Answer) -> bool:
    """Return whether at least one sentence of a reply says that the answer is unknown."""
    text = answer.text
    return answer.decision == "unknown" or any(is_refusal(text[start:end]) for start, end in sentences(text))


def _is_refusal(answer: Answer) -> bool:
    """Return whether a reply as a whole is a refusal, by its decision or else by its words."""
    return answer.decision == "unknown" or (answer.decision is None and is_refusal(answer.text))


def _hedges(text: str) -> bool:
    """Return whether a line of a reply says that it may not answer, in the words of a model or ours of any language."""
    return bool(_HEDGE.search(text)) or any(
        text_at_start(line, UNSURE_TEXT, UNSURE_PART_TEXT) for line in text.splitlines()
    )


def _flags(turn: LabelledTurn, answer: Answer, before: Answer | None) -> tuple[Flag, ...]:
    if answer.error:
        return ("failed",)
    flags: list[Flag] = []
    if _is_refusal(answer):
        flags.append("refused")
    if answer.decision == "partial" and _hedges(answer.text):
        flags.append("hedged")
    if answer.decision == "clarify":
        flags.append("asked back")
    answered_before = before is not None and not _is_refusal(before) and plain(before.text) == plain(answer.text)
    if answered_before and turn.kind not in ("revise", "courtesy"):
        flags.append("repeated")
    return tuple(flags)


def _mistake(turn: LabelledTurn, answer: Answer, before: Answer | None) -> str:
    """Return what is wrong; empty: nothing."""
    if answer.error:
        return f"failed: {answer.error}"
    unmet = _unmet(turn, answer, before)
    if turn.kind == "unknown":
        if not refuses(answer):
            unmet.insert(0, f"expected unknown, got {answer.decision or 'an answer'}")
    elif _is_refusal(answer) or answer.decision == "clarify":
        return f"decision {answer.decision or 'unknown, by its words'}"
    elif turn.kind == "courtesy":
        brief = answer.decision is None and word_count(plain(answer.text)) <= COURTESY_WORDS
        if answer.decision != "converse" and not brief:
            unmet.insert(0, f"expected converse, got {answer.decision or 'a long reply'}")
    return "; ".join(unmet)


def _unmet(turn: LabelledTurn, answer: Answer, before: Answer | None) -> list[str]:
    """Return the conditions of a label that a reply does not meet."""
    line = plain(answer.text)
    # Emphasis may come between words of a pattern ("**30** days"): each form is tried with and without it.
    if turn.lines:
        lines = strip_citations(answer.text).strip()
        forms, flags = (lines, lines.replace("**", "")), re.MULTILINE
    else:
        forms, flags = (line, _MARKUP.sub("", line)), re.NOFLAG
    size = word_count(line)
    unmet = [f"missing {fact}" for fact in turn.facts if not _matches(fact, forms)]
    unmet += [f"holds {pattern}" for pattern in turn.wrong if _matches(pattern, forms, flags)]
    if turn.list and len(_ITEM.findall(answer.text)) < 2:
        unmet.append("not a list")
    if turn.max_words is not None and size > turn.max_words:
        unmet.append(f"{size} words, expected at most {turn.max_words}")
    if turn.shorter and before is not None and size >= word_count(plain(before.text)):
        unmet.append("not shorter")
    return unmet


def _matches(pattern: str, forms: tuple[str, ...], flags: re.RegexFlag = re.NOFLAG) -> bool:
    return any(re.search(pattern, form, re.IGNORECASE | flags) for form in forms)
