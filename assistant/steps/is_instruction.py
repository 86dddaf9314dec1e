"""Is a message an instruction to revise the last reply? By strict English rules: it is one only if its words say so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.edit_requests import edit_request
from turnmark.assistant.steps.instructions import CHANGE, QUOTED, UNQUOTED_CHANGE
from turnmark.corpora.types import Message

_ANSWER = (
    r"(?:(?:the|this|that|your|my|last|previous|whole|entire|above) ){1,3}(?:answer|text|reply|response|summary|draft)"
)
_PIECE = (
    r"\b(?:sentences?|paragraphs?|bullets?|bullet points?|(?:(?:first|second|third|fourth|last|\d(?:st|nd|rd|th)) )"
    r"(?:two |three )?(?:points?|items?|lines?|parts?|sections?)|headings?|citations?"
    r"|(?:discussion|description|part|section|bit) (?:about|of|on|describing)|wording)\b"
)
_ABOUT_TEXT = re.compile(rf"\b{_ANSWER}\b|{_PIECE}", re.IGNORECASE)
_LEAD = (
    r"(?:(?:please|now|also|just|then|and|but|ok(?:ay)?|great|thanks|thank you|good|no|sorry|i want you to"
    r"|i(?:'d| would) like you to|(?:at|after|before|behind|to|in|as) the [^,.;?]{1,60},"
    r"|keep [^,.;]{0,60} as (?:it is|they are|is),? ?(?:but|and)?)[,.!;:\s]+)*"
)
_REQUEST = re.compile(rf"{_LEAD}(?:can|could|would|will) you\s+(?:please |also |just )?", re.IGNORECASE)
_LEADING = re.compile(_LEAD, re.IGNORECASE)
_EDITS = re.compile(
    r"(?:remove|delete|drop|omit|leave out|take out|cut out|get rid of|exclude|strip|add|insert|append|prepend|include"
    r"|mention)\s(?!(?:it|an?|your|my)\b)",
    re.IGNORECASE,
)
_TEXT_EDITS = re.compile(
    r"(?:remove|delete|drop|omit|leave out|take out|cut|get rid of|exclude|strip|add|insert|append|include|mention"
    r"|expand|elaborate|move|put|place|swap|reorder|rearrange|reorgani[sz]e|restructure|merge|split|combine|start|begin|end"
    r"|limit|reduce|shorten|condense|summari[sz]e|trim|rephrase|rewrite|reword|simplify|replace|change|correct|fix|extend"
    r"|lengthen|turn|make|convert|translate|keep|leave|copy)\b",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"\b(?:(?:leave|keep|copy) (?:the |every|all )(?:rest|other|text|answer|thing)[^.?!]{0,40}\bas (?:it|they|is)\b"
    r"|do(?: not|n't) (?:change|touch) (?:any|the rest|every)\w*)",
    re.IGNORECASE,
)


def is_instruction(history: Sequence[Message], message: str) -> bool:
    """Whether an English message tells how to revise the last answer, and does not ask something new.

    By rules that would rather miss one: a request that could as well be a question ("tell me more about the otters",
    "could you elaborate?") is none unless it names the answer or a part of its text.

    Args:
        history: the turns before, oldest first; without an answer among them nothing can be revised.
    """
    if not any(turn.role == "assistant" for turn in history):
        return False
    if edit_request(message) is not None:
        return True
    said = " ".join(message.split()).replace("’", "'")
    asked = _REQUEST.match(said)
    rest = said[(asked or _LEADING.match(said) or re.match("", said)).end() :]  # type: ignore[union-attr]
    if said.endswith("?") and not asked:
        return False
    if _TEXT_EDITS.match(rest) and _ABOUT_TEXT.search(rest):
        return True
    if asked:
        return False
    exchanged = CHANGE.match(rest) and len(QUOTED.findall(rest)) >= 2
    return bool(exchanged or _EDITS.match(rest) or UNQUOTED_CHANGE.match(rest) or _KEPT.search(said))
