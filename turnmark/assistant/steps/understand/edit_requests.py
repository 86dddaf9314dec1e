"""Recognize requests to revise the last reply ("as a list please", "only the first two"), by strict rules.

The complete message must be such a request; anything else is treated as a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from turnmark.assistant.wording.phrases import Phrases, fold, possible_phrases
from turnmark.core.record import Record
from turnmark.corpora.types import Message

EditKind = Literal["list", "shorter", "only", "without", "steps", "other"]


class EditRequest(Record):
    """A requested change of the last reply.

    Attributes:
        kind: `list`, `shorter`, `steps` (show only the steps), `only` (keep some items or sentences), `without` (drop
            some), or `other`, which needs a language model.
        count: for `only` and `without`, the number of items or sentences.
        last: whether they are counted from the end.
    """

    kind: EditKind
    count: int = 0
    last: bool = False


_NUMBERS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_NUMBER = rf"(?:\d{{1,2}}|{'|'.join(_NUMBERS)})"
_LEAD = (
    r"(?:(?:ok(?:ay)?|great|thanks|thank you|good|no|sorry|hm+|and|but|now|then|so|also|please|pls|fine|cool|nice"
    r"|perfect|well|actually|again|(?:(?:that|it|this)(?:'s| is|s)? )?(?:still )?(?:way |far |a bit |much |a little )?"
    r"too (?:long|verbose|wordy|much(?: text)?))[\s,.;:!]+)*"
    r"(?:(?:can|could|would|will) you (?:please |just |maybe |also )*|(?:can|could|may) i (?:have|get|see) "
    r"|(?:i(?:'d| would) (?:like|prefer)|i(?: only| just)? (?:want|need)) (?:you to )?"
    r"|(?:please |just )*(?:give|show|tell) (?:me|us) |let me have )?"
)
_TAIL = re.compile(
    r"(?:[\s,]*\b(?:please|pls|thanks|thank you|instead|now|then|again|for me|if possible|if you can|a bit))*[\s.!?]*$",
    re.I,
)
_THAT = (
    r"(?:all (?:of )?)?(?:it|this|that|these|those|them|everything|(?:the|that|this|your) (?:whole |entire |last "
    r"|previous )?(?:thing|answer|reply|response|text|list|steps|one|summary))"
)
_UNIT = r"(?:sentences?|paragraphs?|steps?|points?|items?|bullets?|lines?|entries|ones?|parts?)"
_MAKE = (
    r"(?:(?:make|turn|put|format|write|rewrite|present|convert|show|give|break|split|have|organi[sz]e|say|tell|keep|cut"
    rf"|list|sum|express|explain) (?:{_THAT} )?(?:up |out |down )?)?"
)
_MORE = r"(?:(?:a (?:bit|little|lot)|much|even|rather|somewhat|way) )?"
_BULLETS = r"(?:bullets|bullet points?|(?:check|to-?do )?lists?|steps|list form|list format)"
_DROP = r"(?:without|remove|delete|drop|omit|skip|leave out|take out|cut(?: out)?|lose|except(?: for)?|minus)"
_PART = r"(?:parts?|bits?|sections?|sentences?|steps?|points?|stuff|lines?|thing)\b"
_POLITE = re.compile(r"\b(?:can|could|would|will|may) (?:you|i)\b", re.IGNORECASE)
_COUNTED_ITEMS = rf"(?:the )?(?P<end>first|last)(?: (?P<count>{_NUMBER}))?(?: {_UNIT})?"


def _counted_request(kind: EditKind) -> Callable[[re.Match[str]], EditRequest]:
    def read(match: re.Match[str]) -> EditRequest:
        word = (match["count"] or "one").lower()
        return EditRequest(kind=kind, count=_NUMBERS.get(word) or int(word), last=match["end"].lower() == "last")

    return read


def _plain_request(kind: EditKind) -> Callable[[re.Match[str]], EditRequest]:
    return lambda _: EditRequest(kind=kind)


_REQUEST_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], EditRequest]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (rf"(?:just |only )(?:{_THAT} )?(?:the )?steps(?: only)?|(?:the )?steps only", _plain_request("steps")),
        (
            rf"(?:{_THAT} |{_MAKE})(?:(?:as|into|in|to) )?(?:an? |one )?"
            rf"(?:(?:short|simple|numbered|ordered|bullet(?:ed)?|plain) )*{_BULLETS}",
            _plain_request("list"),
        ),
        (
            rf"{_MAKE}{_MORE}(?:shorter|briefer|shortened|short|brief|briefly|concise|more (?:briefly|brief|concise"
            r"|concisely|succinct)|less (?:verbose|wordy|text|long)|half as long|in short|in brief|in a nutshell"
            r"|in half|in fewer words)"
            r"|(?:shorten|condense|compress|trim|abridge) " + _THAT + r"(?: up| down)?|(?:a |the )?(?:short|shorter"
            r"|brief|briefer) (?:version|answer|summary)|tl;? ?dr|too long; didn't read|be (?:more )?(?:brief|concise)",
            _plain_request("shorter"),
        ),
        (rf"(?:keep|(?:keep |show )?(?:just|only)) {_COUNTED_ITEMS}", _counted_request("only")),
        (rf"{_COUNTED_ITEMS} only", _counted_request("only")),
        (rf"(?:{_THAT} )?{_DROP} {_COUNTED_ITEMS}", _counted_request("without")),
        (
            rf"(?:(?:shorten|condense|compress|trim) (?:{_THAT} )?|{_MAKE})(?:(?:in|to|as|into|under|within|with) )?"
            rf"(?:(?:just|only|at most|less than|fewer than|under|about) )?(?:a|an|{_NUMBER})"
            r"(?: (?:short|single|simple))? (?:words?|sentences?|lines?|paragraphs?)(?: or (?:less|fewer))?",
            _plain_request("other"),
        ),
        (
            # "Cut the cake in two" may be about a cake: "cut" needs a part of a text, or "all" of something.
            rf"(?:{_THAT} )?(?:(?!cut){_DROP} (?:the|that|those)|{_DROP} (?:any|all(?: the)?|everything|anything|the"
            rf" (?={_PART}))) (?:{_PART})? ?(?:about|on|of|regarding|with|for)? ?[^.?!]{{2,80}}",
            _plain_request("other"),
        ),
        (rf"(?:keep )?(?:just|only) (?:the [\w' -]{{3,60}}|(?:{_UNIT} |number )\d{{1,2}})", _plain_request("other")),
        (
            rf"(?:(?:{_MAKE}|rephrase |reword )(?:{_THAT} )?)?(?:in |with )?{_MORE}(?:simpler|plainer|easier|other"
            r"|different|clearer)(?: (?:words|terms|language|english))?|plain english"
            rf"|(?:rephrase|reword|simplify|rewrite|paraphrase|summari[sz]e|reorder|reverse|number|sum up|translate)"
            rf" {_THAT}(?: .{{1,40}})?|sum {_THAT} up|no list,?(?: please,?)? (?:just|only) text"
            rf"|{_MAKE}(?:more|less) (?:formal|technical|friendly|readable)|(?:in |into )?(?:the )?reverse(?:d)? order"
            r"|(?:swap|reverse|change) (?:the )?(?:order|two)|the other way (?:round|around)"
            rf"|(?:put|move) the (?:first|second|third|last) (?:{_UNIT} )?(?:first|last|(?:at|to) the"
            r" (?:end|beginning))"
            rf"|translate (?:{_THAT} )?(?:in)?to [a-z]+|{_MAKE}(?:as|into) (?:(?:plain|running) )?(?:text|prose)",
            _plain_request("other"),
        ),
    )
)


_JOINTS = re.compile(r"[,;.]? (?:and|but)(?: also| then)? |[,;.] (?:also |then )?", re.IGNORECASE)
"""What separates two requests in one message."""
_PICKS = re.compile(rf"(?:keep )?(?:just|only)\b|(?:{_THAT} )?{_DROP}\b", re.IGNORECASE)


def edit_requests(message: str) -> tuple[EditRequest, ...]:
    """Return the changes that a message requests, in the order in which they are made.

    There are one or two ("shorter, as a list"), or none if the message contains anything else.
    """
    text = " ".join(message.split()).replace("’", "'")
    if len(text) > 160:
        return ()
    return _english_requests(text) or _foreign_requests(text)


def _english_requests(text: str) -> tuple[EditRequest, ...]:
    if request := _request_in(text):
        return (request,)
    for joint in _JOINTS.finditer(text):
        first, second = _request_in(text[: joint.start()]), _request_in(text[joint.end() :])
        if first and second:
            # What is left becomes a list.
            return (second, first) if first.kind == "list" else (first, second)
    return ()


@lru_cache(maxsize=256)
def _foreign_requests(text: str) -> tuple[EditRequest, ...]:
    """Return the requests of a message in another language than English."""
    for phrases in possible_phrases(text):
        if request := _request_by(phrases, text):
            return (request,)
        for joint in phrases.request_joint.finditer(text):
            first, second = _request_by(phrases, text[: joint.start()]), _request_by(phrases, text[joint.end() :])
            if first and second:
                return (second, first) if first.kind == "list" else (first, second)
    return ()


_FOREIGN_KINDS: tuple[tuple[str, EditKind], ...] = (
    ("only_steps", "steps"),
    ("list", "list"),
    ("shorter", "shorter"),
    ("other", "other"),
)


def _request_by(phrases: Phrases, text: str) -> EditRequest | None:
    folded = fold(text)
    for field, kind in _FOREIGN_KINDS:
        if phrases.request(field).fullmatch(folded):
            return EditRequest(kind=kind)
    kinds: tuple[tuple[str, EditKind], ...] = (("only", "only"), ("drop", "without"))
    for field, kind in kinds:
        match = phrases.counted(field).fullmatch(folded)
        if match:
            count = match["count"] or ""
            numbers = phrases.row["numbers"].split("|")
            value = int(count) if count.isdigit() else numbers.index(count) + 1 if count in numbers else 1
            return EditRequest(kind=kind, count=value, last=match["last"] is not None)
    return None


def _request_in(text: str) -> EditRequest | None:
    is_question = text.endswith(("?", "？")) and not _POLITE.search(text)
    for candidate in (_without_lead(text), text):
        body = _TAIL.sub("", candidate).strip(" ,")
        for pattern, read in _REQUEST_PATTERNS:
            match = pattern.fullmatch(body)
            if match is None:
                continue
            # "Only the first two?" is a question, "as a list?" and "in one sentence?" are requests.
            if is_question and _PICKS.match(body):
                return None
            return read(match)
    return None


def _without_lead(text: str) -> str:
    """Remove polite words at the beginning of a message: "ok, can you please"."""
    lead = re.match(_LEAD, text, re.IGNORECASE)
    return text[lead.end() :] if lead else text


_ABOUT_TEXT = re.compile(
    r"\b(?:(?:the|this|that|your|my|last|previous|whole|above) ){1,3}(?:answer|text|reply|response|summary|draft)\b"
    r"|\b(?:sentences?|paragraphs?|bullet points?|headings?|citations?|wording"
    r"|(?:first|second|third|last) (?:points?|items?|lines?|parts?|sections?)"
    r"|(?:part|discussion|everything) (?:about|of|on))\b"
    r"|[\"“].+[\"”] (?:with|by|to) [\"“]",
    re.IGNORECASE,
)
_EDITS = re.compile(
    r"(?:remove|delete|drop|omit|leave out|take out|cut|get rid of|add|insert|append|include|mention|expand|move|put"
    r"|place|swap|reorder|rearrange|merge|split|combine|start|begin|end|limit|shorten|condense|summari[sz]e|trim|rephrase"
    r"|rewrite|reword|simplify|replace|change|correct|fix|extend|turn|make|convert|translate|keep|reduce|reorgani[sz]e"
    r"|at the (?:very )?(?:end|beginning)(?: of the [\w ]{4,30})?,? (?:add|put|insert))\b",
    re.IGNORECASE,
)


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
    text = " ".join(message.split()).replace("’", "'")
    body = _without_lead(text)
    return bool(_EDITS.match(body) and _ABOUT_TEXT.search(body))
