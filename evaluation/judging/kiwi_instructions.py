"""English instructions to revise an answer, read by rules: what is one, its type, its numbers, what it quotes."""

from __future__ import annotations

import re
from typing import Literal

from turnmark.assistant.steps.marks import ITEM, pieces_of
from turnmark.corpora.kiwi import FINE_TYPES, Coarse
from turnmark.corpora.text import words
from turnmark.corpora.types import Record

Kind = Literal["edit", "remove", "condense", "reorganize", "add", "other"]

GUARD = re.compile(
    r"[,;.]?\s*(?:but |and )?(?:please )?(?:(?:leave|keep|copy) (?:the |every|all )?"
    r"(?:rest|other|remaining|answer|text|it|thing)"
    r"|do(?: not|n't) (?:change|touch|alter|modify|lose|repeat)|without (?:losing|changing|removing))\b"
    r"(?:(?!\b(?:and|but) (?:put|add|insert|append|remove|delete|replace|extract|mention|include|expand|explain"
    r"|describe)\b)[^.!?;])*",
    re.IGNORECASE,
)
QUOTED = re.compile(r"\"([^\"]{1,2000})\"|“([^”]{1,2000})”|(?<!\w)'([^']{1,2000})'(?!\w)|‘([^’]{1,2000})’(?!\w)")
START = r"(?:(?:please|now|also|just|then|can you|could you|you can|i want you to|i would like you to)[,\s]+)*"
REMOVE = re.compile(
    rf"{START}(?:remove|delete|drop|omit|leave out|take out|exclude|get rid of|cut out|skip|eliminate|strip"
    r"|do(?: not|n't) (?:mention|include|talk about|discuss))\b\s*",
    re.IGNORECASE,
)
_CONDENSE = re.compile(
    r"\b(?:shorten|shorter|condense|compress|summari[sz]e|concise(?:ly)?|brief(?:er|ly)?|trim"
    r"|cut (?:it |this )?(?:down|to)|reduce|limit"
    r"|(?:under|at most|no more than|within|fewer than|less than) [\w-]+ (?:words|sentences))\b",
    re.IGNORECASE,
)
LAYOUT = re.compile(r"\b(?:bullet(?:ed|s)?|(?:numbered )?list|paragraphs?)\b", re.IGNORECASE)
MOVE = re.compile(
    r"(?:move|put|place|start(?: the \w+)?(?: with)?|begin(?: the \w+)?(?: with)?|end(?: the \w+)? with)\b",
    re.IGNORECASE,
)
_REORGANIZE = re.compile(
    rf"{START}(?:(?:turn|make|write|format|organi[sz]e|reorgani[sz]e|rearrange|restructure|split|merge|present|use|convert"
    rf"|combine|break)\b(?=.*(?:{LAYOUT.pattern}|order))|reorder|rearrange|reorgani[sz]e|restructure|{MOVE.pattern})",
    re.IGNORECASE,
)
_OPENS = re.compile(
    rf"{START}(?:start|begin) .{{0,20}}?"
    r"\b(?:by (?:describ|explain|defin|say|giv)ing|with a (?:definition|description|explanation))\b",
    re.IGNORECASE,
)
_ADD = re.compile(
    rf"{START}(?:add|include|mention|expand|elaborate|explain|describe|discuss|provide|give|cover|clarify|define|specify"
    r"|extract|tell|what|how|why|who|which|when|where|is|are|does|do|did|can|compare|list|say|talk about|more"
    r"|and (?:what|how))\b"
    rf"|(?:at|as|after|before) [^.?]{{1,80}}?\b(?:provide|give|explain|define|describe|mention)\b|{_OPENS.pattern}"
    r"|[^.]*\?\s*$|.*\?|.*\bmore (?:detail|information|about|on)\b",
    re.IGNORECASE,
)
CHANGE = re.compile(r"\b(?:replace|change|rename|substitute|correct|rewrite|reword)\b", re.IGNORECASE)
UNQUOTED_CHANGE = re.compile(
    rf"{START}(?:replace|change|rename|correct)\s+(?P<old>[^\"“]{{1,200}}?)\s+(?:with|to|into|by)\s+(?P<new>[^\"“]{{1,200}}?)"
    r"[.!]?\s*$",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"\b(?:discussion|description|part|section|sentences?)\s+(?:about|of|on|describing|regarding)\s+(.{1,300}?)(?=\s+to\s|[.!]*$)",
    re.IGNORECASE,
)
_VERBATIM = re.compile(r"\b(?:word for word|verbatim|sentence|as it stands|exactly)\b", re.IGNORECASE)
_PUT_QUOTED = re.compile(r"\b(?:add|insert|put|append|write|include|place)\b", re.IGNORECASE)
_BLANKS = re.compile(r"\s{9,}")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
            "nine": 9, "ten": 10, "single": 1}  # fmt: skip
NUMBER = rf"(\d{{1,4}}|{'|'.join(_NUMBERS)})"


def evened(instruction: str) -> str:
    """An instruction with no more than eight blanks in a row: rules try each blank of a thousand as a beginning."""
    return _BLANKS.sub(lambda run: run.group()[:8], instruction)


def wanted(instruction: str) -> str:
    """What an instruction wants done, without its clauses on what to leave alone."""
    return re.sub(r"^[\s,;.]*(?:(?:but|and)\s+)?", "", GUARD.sub("", evened(instruction))).strip()


def classify(instruction: str) -> Kind:
    """What kind of revision an English instruction asks for, by its words; `other` where no rule knows it."""
    request = wanted(instruction)
    quotes = QUOTED.findall(request)
    if (CHANGE.search(request) and len(quotes) >= 2) or UNQUOTED_CHANGE.match(request):
        return "edit"
    quoted = "".join(quotes[0]).strip() if quotes else ""
    # A term in quotation marks is something to write about; a sentence in them is to be written.
    if _PUT_QUOTED.search(request) and len(words(quoted)) > 2 and (quoted[-1] in ".!?" or _VERBATIM.search(request)):
        return "edit"
    if REMOVE.match(request):
        return "remove"
    if _CONDENSE.search(request) and not request.endswith("?"):
        return "condense"
    if _REORGANIZE.match(request) and not _OPENS.match(request):
        return "reorganize"
    return "add" if _ADD.match(request) else "other"


class InstructionType(Record):
    """What an instruction is, in the terms of KIWI (section 2.2 and table 3)."""

    coarse: Coarse
    fine: str
    """One of `FINE_TYPES`."""


_FINE = {"edit": "Specific edit", "remove": "Remove", "condense": "Condense", "reorganize": "Reorganize"}
INFORMATION = frozenset(FINE_TYPES[:3])
"""The fine types that ask for something that the answer does not hold."""
REWRITABLE = frozenset(("Condense", "Reorganize"))
"""The fine types that touch every sentence, so that the answer may be written anew."""
_CLARIFIES = re.compile(
    rf"{START}(?:clarify|define|specify|be (?:more )?(?:specific|precise|clear))\b"
    r"|\byou (?:also )?(?:say|said|mention|mean|meant|write|wrote|refer|describe|claim|do(?: not|n't) say)"
    r"|\b(?:what|who) (?:is|are|does|do) [^?]{1,60} (?:mean|meant|refer)|\bwhat (?:exactly|precisely)\b"
    r"|\bwhere (?:do|does|did) [^?]{1,80} come from\b|\b(?:explain|say) what .{1,60} (?:is|are|means?)\b",
    re.IGNORECASE,
)
_COVERS = re.compile(
    r"\bcover|\b(?:as well|of the kind|in the same way)\b|\b(?:any|some|the|more|what|are there|list|include|add) "
    r"(?:other|others|further)\b|\bmore (?:approaches|methods|ways|works?|papers|datasets|models|reasons|kinds|types)\b"
    r"|\bextract\b|\bfrom (?:all )?(?:the )?(?:papers?|documents?|sources|passages)\b",
    re.IGNORECASE,
)


def typed(instruction: str) -> InstructionType:
    """The type of an English instruction, by its words; what no rule knows is one of the "Others"."""
    kind = classify(instruction)
    if kind == "add":
        clarifies = _CLARIFIES.search(instruction)
        fine = (
            "Clarification" if clarifies else "Expand coverage" if _COVERS.search(instruction) else "More information"
        )
        return InstructionType(coarse="information-seeking", fine=fine)
    asks = kind == "other" and instruction.rstrip().endswith("?")
    return InstructionType(coarse="information-seeking" if asks else "stylistic", fine=_FINE.get(kind, "Others"))


def number_in(match: re.Match[str] | None) -> int | None:
    return (
        None if match is None else _NUMBERS.get(match[1].lower()) or int(match[1] if match[1].isdigit() else 0) or None
    )


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_COUNTED = re.compile(
    rf"\b(?:the )?(?P<ordinal>{'|'.join(_ORDINALS)}|last|final|\d{{1,2}}(?:st|nd|rd|th))(?: (?P<many>{NUMBER}))?"
    r"(?: (?P<unit>sentences?|paragraphs?|steps?|points?|items?|bullets?|lines?|entries|ones?|parts?))?"
    r"(?! (?:about|on|that|which)\b)",
    re.IGNORECASE,
)


def named(request: str, text: str) -> list[str]:
    """The sentences, items or paragraphs of an answer that a request counts out ("the last two sentences")."""
    match = next((match for match in _COUNTED.finditer(request) if match["many"] or match["unit"]), None)
    if match is None:
        return []
    unit, ordinal = (match["unit"] or "").lower(), match["ordinal"].lower()
    items = [line.strip() for line in text.splitlines() if ITEM.match(line.strip())]
    if unit.startswith("paragraph"):
        units = [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    else:
        units = items if items and not unit.startswith("sentence") else [piece.text for piece in pieces_of(text)]
    count = number_in(re.match(NUMBER, match["many"], re.IGNORECASE)) or 1 if match["many"] else 1
    if ordinal in ("last", "final"):
        return units[-count:]
    first = _ORDINALS.index(ordinal) if ordinal in _ORDINALS else int(re.sub(r"\D", "", ordinal)) - 1
    return units[max(0, first) : max(0, first) + count]
