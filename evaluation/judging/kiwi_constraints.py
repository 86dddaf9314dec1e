"""What an instruction demands that code can check: words to stand verbatim, places, lengths and counts.

Models fail at exactly these, however plain they are (KIWI, sections 4.2 and 4.3: "Constraint failure").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from turnmark.assistant.steps.marks import ITEM, pieces_of
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Record
from turnmark.evaluation.judging.kiwi_instructions import (
    ABOUT,
    CHANGE,
    NUMBER,
    QUOTED,
    Kind,
    classify,
    number_in,
    wanted,
)
from turnmark.evaluation.judging.kiwi_operations import operations, squeezed

Unit = Literal["words", "sentences", "paragraphs", "items", "named"]


class Constraint(Record):
    """One demand of an instruction.

    `verbatim`: `text` stands in the revision. `absent`: it does not. `place`: what stands at `place` is new there; with
    a `text`, that text. `length`: the number of `unit` is within bounds.
    """

    kind: Literal["verbatim", "absent", "place", "length"]
    text: str = ""
    place: Literal["beginning", "end", "after", "before"] | None = None
    sentence: int = Field(
        default=0, description="after, before: the sentence of the previous answer, 1-based; -1: last"
    )
    unit: Unit = Field(default="words", description="items: of a list; named: things that a new passage names")
    minimum: float | None = None
    maximum: float | None = None
    share: float | None = Field(default=None, description="the most words, as a share of those of the previous answer")
    added: bool = Field(default=False, description="counted is what is new, not the whole revision")


class Unmet(Record):
    """A demand that a revision does not meet, and in words how."""

    constraint: Constraint
    message: str


def constraints_of(instruction: str) -> tuple[Constraint, ...]:
    """The demands of an English instruction that can be checked. What is hedged or hard to read is left out."""
    request, kind = wanted(instruction), classify(instruction)
    quotes = [" ".join("".join(quote).split()) for quote in QUOTED.findall(request)]
    constraints: list[Constraint] = []
    if kind == "edit":
        if CHANGE.search(request) and len(quotes) >= 2:
            replaced, replacement = (
                quotes[:2] if not re.search(r"\bsubstitute\b.*\bfor\b", request, re.I) else quotes[1::-1]
            )
            constraints.append(Constraint(kind="verbatim", text=replacement))
            return (
                (*constraints, Constraint(kind="absent", text=replaced))
                if replaced not in replacement
                else tuple(constraints)
            )
        if not quotes:
            return ()
        constraints.append(Constraint(kind="verbatim", text=quotes[0]))
        place = place_in(QUOTED.sub(" ", request))
        return (*constraints, place.model_copy(update={"text": quotes[0]})) if place else tuple(constraints)
    if kind == "remove":
        return tuple(Constraint(kind="absent", text=quote) for quote in quotes)
    if kind in ("add", "reorganize") and (place := place_in(request)):
        constraints.append(place)
    return (*constraints, *_lengths(request, kind))


# --- places ----------------------------------------------------------------------------------------------------------

# Of a part of the answer that is not its last: where that begins or ends is not looked up.
_OF_ALL = r"(?! of (?!(?:the |your |my )?(?:(?:very )?(?:last|final) paragraph|answer|text|whole|reply|response)))"
_BEGINNING = re.compile(
    rf"\b(?:at|to|in) the (?:very )?(?:beginning|start|top|front)\b{_OF_ALL}|\bas (?:the |its )?first sentence\b"
    r"|^(?:please |now |and )*(?:start|begin|open)\b|\bfirst[.!]*$",
    re.IGNORECASE,
)
_END = re.compile(
    rf"\b(?:at|to) the (?:very )?(?:end|bottom)\b{_OF_ALL}|\bas (?:the )?(?:very )?last sentence\b"
    r"|^(?:please |now |and )*end (?:the \w+ |it )?with\b|\blast[.!]*$",
    re.IGNORECASE,
)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1, "final": -1}
_BESIDE = re.compile(
    rf"\b(?P<side>after|before) (?:(?:the )?(?P<ordinal>{'|'.join(_ORDINALS)}) sentence"
    r"|sentence (?P<number>\d{1,3}))\b",
    re.IGNORECASE,
)


def place_in(request: str) -> Constraint | None:
    """Where an instruction wants something, if it says one place."""
    if neighbour := _BESIDE.search(request):
        number = _ORDINALS[neighbour["ordinal"].lower()] if neighbour["ordinal"] else int(neighbour["number"])
        side: Literal["after", "before"] = "after" if neighbour["side"].lower() == "after" else "before"
        return Constraint(kind="place", place=side, sentence=number)
    first, last = bool(_BEGINNING.search(request)), bool(_END.search(request))
    if first == last:
        return None
    return Constraint(kind="place", place="beginning" if first else "end")


# --- lengths and counts ----------------------------------------------------------------------------------------------

_BOUND = re.compile(
    r"(?P<the>\b(?:the|these|those|first|last|all|each|every|per|its|after)\s+)?"
    r"(?P<how>\b(?:under|below|fewer than|less than|shorter than|at most|no more than|not more than|(?:a |the )?"
    r"max(?:imum)?(?: of)?|up to|within|to|at least|no (?:fewer|less) than|(?:a |the )?min(?:imum)?(?: of)?|about"
    r"|around|roughly|approximately|some|exactly|more than|over)\s+)?"
    rf"(?<![\w-]){NUMBER}[ -](?:(?!words?|sentences?|per\b|of\b|in\b|to\b|and\b)[a-z]+ )?"
    r"(?P<unit>words?|sentences?|paragraphs?|bullet points?|bullets?|items|examples|reasons|methods|models|datasets|"
    r"approaches|studies|papers|works|benefits|limitations|advantages|disadvantages|challenges)\b"
    r"(?P<rest>\s+(?:about|on|describing|of|from|in the|per|each))?",
    re.IGNORECASE,
)
_UNITS: dict[str, Unit] = {"word": "words", "sentence": "sentences", "paragraph": "paragraphs", "bullet": "items"}
_UNITS |= {"item": "items", "bullet point": "items"}
_SHARE = re.compile(r"\b(by|to)\s+(?:about |around |roughly )?(?:(\d{1,2}) ?%|(?:a |one )?(half|third|quarter))", re.I)
_SHARES = {"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4}
ABOUT_THAT = 0.2
"""How far "about 100 words" and "by a third" may be missed."""
NEARLY_THAT = 0.1
"""How far "in 100 words" may be missed: nobody counts them."""
_LIST = re.compile(r"\b(?:bullet(?:ed|s)?|(?:as|into|in|to) an? (?:\w+ )?list|numbered list)\b", re.IGNORECASE)


def _lengths(request: str, kind: Kind) -> list[Constraint]:
    part = ABOUT.search(request) or re.search(r"\bsentences? (?:describing|about|on|for)\b", request, re.IGNORECASE)
    if kind == "condense" and part:
        return []  # which sentences are that part, code cannot tell
    apiece = re.search(r"\b(?:each|every|per)\b", request, re.IGNORECASE)
    bounds = [] if apiece else list(_BOUND.finditer(request))
    lengths = [constraint for bound in bounds if (constraint := _length(bound, kind))]
    if kind == "condense" and not any(constraint.unit in ("words", "sentences") for constraint in lengths):
        cut = _SHARE.search(request)
        if cut or re.search(r"\bhalf\b", request, re.IGNORECASE):
            share = (int(cut[2]) / 100 if cut[2] else _SHARES[cut[3].lower()]) if cut else 1 / 2
            lengths.append(Constraint(kind="length", share=1 - share if cut and cut[1].lower() == "by" else share))
        elif not lengths:
            lengths.append(Constraint(kind="length", share=1.0))
    if kind == "reorganize" and _LIST.search(request) and not any(constraint.unit == "items" for constraint in lengths):
        lengths.append(Constraint(kind="length", unit="items", minimum=1))
    return lengths


def _length(bound: re.Match[str], kind: Kind) -> Constraint | None:
    unit = _UNITS.get(bound["unit"].lower().removesuffix("s"), "named")
    number = number_in(re.match(NUMBER, bound[3], re.IGNORECASE))
    of_whole = unit in ("paragraphs", "items") if kind == "reorganize" else kind in ("condense", "other")
    counts_here = number is not None and number > 1 if unit == "named" else of_whole or kind == "add"
    if number is None or bound["the"] or not counts_here or (unit == "named" and kind != "add"):
        return None
    qualifier = re.sub(r"^(?:a|the) | of$", "", " ".join((bound["how"] or "").lower().split()))
    minimum, maximum = _bounds(qualifier, number, unit, shortening=kind == "condense")
    return Constraint(kind="length", unit=unit, minimum=minimum, maximum=maximum, added=kind == "add")


def _bounds(qualifier: str, number: int, unit: Unit, shortening: bool) -> tuple[int | None, int | None]:
    """The fewest and the most that are meant by a number with the words before it."""
    if qualifier in ("under", "below", "fewer than", "less than", "shorter than"):
        return None, number - 1
    if qualifier in ("at most", "no more than", "not more than", "max", "maximum", "up to", "within"):
        return None, number
    if qualifier in ("at least", "no fewer than", "no less than", "min", "minimum") or unit == "named":
        return number, None
    if qualifier in ("more than", "over"):
        return number + 1, None
    if qualifier in ("about", "around", "roughly", "approximately", "some"):
        spread = int(ABOUT_THAT * number) if unit == "words" else 1
        return number - spread, number + spread
    if unit == "words" and qualifier != "exactly":
        spread = int(NEARLY_THAT * number)
        return (None if shortening else number - spread), number + spread
    return number, number


# --- checking --------------------------------------------------------------------------------------------------------


def unmet(constraints: Sequence[Constraint], previous: str, revised: str) -> tuple[Unmet, ...]:
    """The demands that a revision does not meet, in their order."""
    checked = ((constraint, _CHECKS[constraint.kind](constraint, previous, revised)) for constraint in constraints)
    return tuple(Unmet(constraint=constraint, message=problem) for constraint, problem in checked if problem)


def _verbatim(constraint: Constraint, previous: str, revised: str) -> str:  # noqa: ARG001
    present = constraint.text in " ".join(revised.split())
    return "" if present else f"it does not say, word for word: {constraint.text}"


def _absent(constraint: Constraint, previous: str, revised: str) -> str:  # noqa: ARG001
    present = re.search(rf"(?<!\w){re.escape(constraint.text)}(?!\w)", " ".join(revised.split()))
    return f"it still says: {constraint.text}" if present else ""


def slot(constraint: Constraint, previous: Sequence[str]) -> int:
    """The place of a `place` demand among the sentences of the previous answer: before which of them, 0-based."""
    count = len(previous)
    if constraint.place in ("beginning", "end"):
        return 0 if constraint.place == "beginning" else count
    number = count if constraint.sentence == -1 else min(constraint.sentence, count)
    return number if constraint.place == "after" else max(number - 1, 0)


def _placed(constraint: Constraint, previous: str, revised: str) -> str:
    previous_sentences = [squeezed(piece.text) for piece in pieces_of(previous)]
    revised_sentences = [squeezed(piece.text) for piece in pieces_of(revised)]
    if not revised_sentences:
        return ""
    sentence = "the last sentence" if constraint.sentence == -1 else f"sentence {constraint.sentence}"
    positions = {"beginning": "at the beginning", "end": "at the end"}
    position = positions.get(constraint.place or "", f"{constraint.place} {sentence}")
    at = slot(constraint, previous_sentences)
    stands, previous_place = (-1, -1) if constraint.place == "end" else (0, 0)
    if constraint.place in ("after", "before"):
        neighbour = (
            previous_sentences[at - 1]
            if constraint.place == "after" and at
            else previous_sentences[at]
            if constraint.place == "before" and at < len(previous_sentences)
            else ""
        )
        if neighbour not in revised_sentences:
            return ""  # the sentence it is measured by is no more
        stands = revised_sentences.index(neighbour) + (1 if constraint.place == "after" else -1)
        previous_place = at if constraint.place == "after" else at - 1
    present = (
        revised_sentences[stands]
        if -1 <= stands < len(revised_sentences) and not (constraint.place == "before" and stands < 0)
        else ""
    )
    if constraint.text:
        quoted = squeezed(constraint.text)
        fulfilled = quoted in present or (bool(present) and present in quoted and quoted in squeezed(revised))
        return "" if fulfilled else f"it does not say {position}: {constraint.text}"
    had = (
        previous_sentences[previous_place]
        if -len(previous_sentences) <= previous_place < len(previous_sentences)
        else ""
    )
    return "" if present and present != had else f"nothing new stands {position}"


def _counted(constraint: Constraint, previous: str, revised: str) -> str:
    minimum, maximum = constraint.minimum, constraint.maximum
    if constraint.share is not None:
        had = counts(previous)["words"]
        maximum = max(had - 1 if constraint.share == 1 else int(constraint.share * had * (1 + ABOUT_THAT)), 1)
    has = (_new(previous, revised) if constraint.added else counts(revised))[constraint.unit]
    if (minimum is None or has >= minimum) and (maximum is None or has <= maximum):
        return ""
    if minimum == maximum:
        bounds = f"{minimum:g}"
    elif minimum is None or maximum is None:
        bounds = f"{maximum:g} at most" if minimum is None else f"{minimum:g} at least"
    else:
        bounds = f"{minimum:g} to {maximum:g}"
    unit = {"named": "things named", "items": "list items"}.get(constraint.unit, constraint.unit)
    return f"{unit}{' that are new' if constraint.added else ''}: {has}, asked for: {bounds}"


_HEADING = re.compile(r"#{1,6}[ \t][^\n]*|\*\*[^*\n]+\*\*:?|(?![-*•\d])[^\n.!?。]{1,60}")


def counts(text: str) -> dict[Unit, int]:
    """How much there is of each unit in a text."""
    pieces = pieces_of(text)
    commas = max((len(re.findall(r",|;|\band\b|\bor\b", piece.text)) + 1 for piece in pieces), default=0)
    items = sum(bool(ITEM.match(piece.text)) for piece in pieces)
    blocks = [part.strip() for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    return {
        "words": len(words(strip_citations(text))),
        "sentences": sum(any(map(str.isalnum, strip_citations(piece.text))) for piece in pieces),
        "paragraphs": len([part for part in blocks if not _HEADING.fullmatch(part)]) or len(blocks),
        "items": items,
        "named": max(len(pieces), items, commas),
    }


def _new(previous: str, revised: str) -> dict[Unit, int]:
    """`counts` of what is new in a revision."""
    changes = operations(previous, revised)
    inserted = [operation.after for operation in changes if operation.kind in ("insert", "rewrite")]
    changed = [operation.after for operation in changes if operation.kind in ("insert", "rewrite", "replace")]
    had, has = counts(previous), counts(revised)
    return {
        "words": counts("\n\n".join(inserted))["words"],
        "sentences": len(inserted),
        "paragraphs": has["paragraphs"] - had["paragraphs"],
        "items": has["items"] - had["items"],
        "named": counts("\n\n".join(changed))["named"],
    }


_CHECKS = {"verbatim": _verbatim, "absent": _absent, "place": _placed, "length": _counted}
