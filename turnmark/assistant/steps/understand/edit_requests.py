"""Recognize requests to revise the last reply ("as a list please", "only the first two"), by strict rules.

The complete message must be such a request; anything else is treated as a question. The words are in `phrases.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from turnmark.assistant.wording.phrases import Phrases, english_phrases, fold, possible_phrases
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import ends_with_question_mark
from turnmark.corpora.types import Message

EditKind = Literal["list", "table", "shorter", "limit", "order", "steps", "only", "without", "other"]
MAX_REQUEST_CHARACTERS = 160


class EditRequest(Record):
    """A requested change of the last reply.

    Attributes:
        kind: `list`, `table`, `shorter`, `limit` (at most some sentences or words), `order`, `steps` (show only the
            steps), `only` (keep some lines), `without` (drop some), or `other`, which needs a language model.
        count: the number of lines to keep or drop, or the limit; 0 if they are chosen by `at` or `about`.
        last: whether lines are counted from the end.
        at: position of the only line to keep or drop, from 1.
        about: words of the lines to keep or drop.
        option: for `limit`, whether words are counted; for `order`, whether to sort and not to reverse.
    """

    kind: EditKind
    count: int = 0
    last: bool = False
    at: int = 0
    about: str = ""
    option: bool = False


_WHOLE_KINDS: tuple[EditKind, ...] = ("table", "list", "shorter", "limit", "order", "other")
_CHOICES: tuple[EditKind, ...] = ("only", "without")


@lru_cache(maxsize=256)
def edit_requests(message: str) -> tuple[EditRequest, ...]:
    """Return the changes that a message requests, in the order in which they are made.

    There are one or two ("shorter, as a list"), or none if the message contains anything else.
    """
    text = " ".join(message.split())
    if len(text) > MAX_REQUEST_CHARACTERS:
        return ()
    for phrases in possible_phrases(text):
        whole = _request_in(phrases, text)
        # "Only the last two, as a list" is two requests, not one about the words "last two, as a list".
        for joint in () if whole and not whole.about else phrases.request_joint.finditer(text):
            first, second = _request_in(phrases, text[: joint.start()]), _request_in(phrases, text[joint.end() :])
            if first and second:
                # What is left becomes a list.
                return (second, first) if first.kind == "list" else (first, second)
        if whole:
            return (whole,)
    return ()


def _request_in(phrases: Phrases, text: str) -> EditRequest | None:
    folded = fold(text)
    for kind in _WHOLE_KINDS:
        if match := phrases.request(kind).fullmatch(folded):
            groups = match.groupdict()
            count = _number(phrases.row["numbers"], groups.get("count")) if kind == "limit" else 0
            return EditRequest(kind=kind, count=count, option=bool(groups.get("option")))
    # "Only the first two?" is a question, "can I have only the first two?" and "as a list?" are requests.
    if ends_with_question_mark(text) and not re.match(phrases.row.get("asks", "(?!)"), folded):
        return None
    if phrases.request("steps").fullmatch(folded):
        return EditRequest(kind="steps")
    for kind in _CHOICES:
        if match := phrases.counted(kind).fullmatch(folded):
            if position := match["at"] or match["ordinal"]:
                return EditRequest(kind=kind, at=_number(phrases.row.get("ordinals", ""), position, first=2))
            count = _number(phrases.row["numbers"], match["count"])
            return EditRequest(kind=kind, count=count, last=match["last"] is not None)
        match = phrases.subject(kind).fullmatch(folded)
        is_one_sentence = not re.search(r"[.!?。！？]\s*\w", text)
        if match and is_one_sentence and not phrases.find("questions").search(folded):
            return EditRequest(kind=kind, about=match["what"])
    return None


def _number(numbers: str, word: str | None, first: int = 1) -> int:
    """Return the value of digits, or of one of the words `numbers`, which count from `first`; 1 for None."""
    if word is None or word.isdecimal():
        return int(word or 1)
    return next(number for number, each in enumerate(numbers.split("|"), first) if re.fullmatch(each, word))


_TWO_QUOTES = re.compile(r"[\"“].+[\"”] (?:with|by|to) [\"“]")


def is_instruction(history: Sequence[Message], message: str) -> bool:
    """Return whether a message says how to revise the last answer, and does not ask something new.

    When in doubt, the rules miss an instruction. A message that could be a question ("tell me more about the otters")
    is an instruction only if it names the answer or a part of its text.

    Args:
        history: the earlier messages, oldest first. Without an answer among them, nothing can be revised.
    """
    if not any(turn.role == "assistant" for turn in history):
        return False
    if edit_requests(message):
        return True
    english, folded = english_phrases(), fold(message)
    names_text = english.find("text_parts").search(folded) or _TWO_QUOTES.search(message)
    return bool(names_text and english.instruction.match(folded))
