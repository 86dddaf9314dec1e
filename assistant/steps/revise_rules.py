"""Revising an answer without a language model: what short requests of a chat do, quoted words put in or taken out, and
sentences of the passages as they stand.

Where an instruction is not understood, nothing is changed, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from turnmark.assistant.steps.answer import choose, ended
from turnmark.assistant.steps.constraints import Constraint, constraints_of, place_in, slot, unmet
from turnmark.assistant.steps.edit_reply import edited, units_named
from turnmark.assistant.steps.edit_requests import EditRequest, places_in
from turnmark.assistant.steps.instructions import (
    ABOUT,
    CHANGE,
    LAYOUT,
    MOVE,
    NUMBER,
    QUOTED,
    REMOVE,
    START,
    UNQUOTED_CHANGE,
    InstructionType,
    Kind,
    classify,
    length_asked,
    number_in,
    typed,
    wanted,
)
from turnmark.assistant.steps.operations import (
    Operation,
    Piece,
    joined,
    operations,
    pieces_of,
    put,
    squeezed,
    without,
)
from turnmark.assistant.steps.outline import Outline, about, importance, length, outline_of
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.units import units_of
from turnmark.assistant.types import Usage
from turnmark.corpora.kiwi import Coarse
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

PASSAGES = 5
"""Passages that an instruction is followed from (KIWI, section 2.2)."""

Search = Callable[[str], Sequence[Hit]]


class Revision(Record):
    """A revised answer and what was done to get it."""

    text: str
    operations: tuple[Operation, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    kind: str = Field(default="Others", description="one of KIWI's fine types, `turnmark.corpora.kiwi.FINE_TYPES`")
    coarse: Coarse = "stylistic"
    unmet: tuple[str, ...] = Field(default=(), description="demands that code can check and that are not met, in words")
    fallback: str = Field(default="", description="why rules revised in a model's place; empty: they did not")
    hits: tuple[Hit, ...] = Field(default=(), description="the passages that the marks `[n]` of `text` count, from 1")


@dataclass(frozen=True)
class Passages:
    """Passages for an instruction; `numbers`: they are cited by these; `numbered`: what the revision's marks count."""

    hits: tuple[Hit, ...] = ()
    numbers: tuple[int, ...] = ()
    numbered: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class Material:
    """One revision to make. The fields are the arguments of `turnmark.assistant.steps.revise_llm.revised`."""

    question: str
    previous: str
    instruction: str
    search: Search
    known_hits: tuple[Hit, ...] = ()
    embed: Embed | None = None
    prompts: Path | None = None
    sort: InstructionType | None = None
    removed: tuple[str, ...] = ()

    def passages_for(self, query: str) -> Passages:
        """The first five passages for a query, numbered behind those known; one of these keeps its number."""
        hits = tuple(self.search(query))[:PASSAGES]
        numbered = list(self.known_hits)
        places = {hit.passage.id: n for n, hit in enumerate(numbered, 1)}
        numbers: list[int] = []
        for hit in hits:
            if hit.passage.id not in places:
                numbered.append(hit)
                places[hit.passage.id] = len(numbered)
            numbers.append(places[hit.passage.id])
        return Passages(hits, tuple(numbers), tuple(numbered))


def by_rules(material: Material, notes: Sequence[str] = ()) -> Revision:
    """Revise by rules, and mend by code what code can check; in another language than English nothing is understood.

    Args:
        notes: what the person should know beside.
    """
    previous, instruction = material.previous, material.instruction
    kind, sort = classify(instruction), typed(instruction)
    present = bool(pieces_of(previous))
    passages = (
        material.passages_for(instruction) if kind == "add" and present else Passages(numbered=material.known_hits)
    )
    changed, note = _followed(material, kind, passages) if present else (None, "there is no answer yet to revise")
    demands = constraints_of(instruction)
    messages = list(notes)
    text = previous
    if changed is None:
        messages.append(f"the answer was left as it is: {note}")
    else:
        text = mended(material.question, previous, changed, demands, material.embed)
        messages += [note] if note else []
    missed = tuple(demand.message for demand in unmet(demands, previous, text)) if present else ()
    if changed is not None and missed:
        messages.append(f"not all that was asked for is met: {'; '.join(missed)}")
    return Revision(
        text=text, operations=operations(previous, text), notes=tuple(messages), kind=sort.fine,
        coarse=sort.coarse, unmet=missed, hits=passages.numbered,
    )  # fmt: skip


Followed = tuple[str | None, str]
"""The new text, or None; and why nothing was done, or what the person should know."""


def _followed(material: Material, kind: Kind, passages: Passages) -> Followed:
    request = wanted(material.instruction)
    if kind == "edit":
        return _quoted(request, material.previous)
    if kind == "add":
        return _added(request, material, passages)
    if kind == "remove" and (cut := _cut(request, material.previous)):
        return cut
    edit = _edit_request(request, kind, outline_of(material.previous))
    if isinstance(edit, str):
        return None, edit
    change = edited(material.previous, edit, material.question, material.embed)
    if change.outline is None:
        return None, change.reason
    headings = kind == "reorganize" and re.search(r"\bhead(?:ed|ings?)\b", request)
    return change.outline.text, "no headings were written" if headings else ""


def _edit_request(request: str, kind: Kind, outline: Outline) -> EditRequest | str:
    """What an instruction asks for, as the short request that does it; else in words why there is none."""
    if kind == "remove":
        target = _target(request)
        places = None if QUOTED.search(target) else places_in(target)
        if places:
            return EditRequest(kind="without", places=places[0], unit=places[1])
        return EditRequest(kind="remove", topic=target)
    if kind == "condense":
        if ABOUT.search(request):
            return "without a language model only the whole answer is shortened"
        total, count = length(outline.text), len(outline.sentences) + len(outline.items)
        most_words, sentence_limit = length_asked(request, total, count)
        if sentence_limit < count:
            return EditRequest(kind="sentences", count=sentence_limit)
        if re.search(r"\bwords?\b", request, re.IGNORECASE):
            return EditRequest(kind="words", count=int(most_words))
        return EditRequest(kind="shorter", share=most_words / max(1, total))
    if kind == "reorganize":
        return _layout_request(request)
    return "the instruction is of no kind that can be followed without a language model"


def named(request: str, text: str) -> list[str]:
    """The sentences, items or paragraphs of an answer that an instruction to remove names."""
    edit = _edit_request(request, "remove", outline_of(text))
    return [] if isinstance(edit, str) else units_named(text, edit)


def _layout_request(request: str) -> EditRequest | str:
    layout = LAYOUT.search(request)
    if layout and layout.group().lower().startswith("paragraph"):
        count = number_in(re.search(rf"\b{NUMBER} paragraphs?\b", request, re.IGNORECASE)) or 1
        return EditRequest(kind="text", count=count)
    if layout:
        return EditRequest(kind="list", numbered=bool(re.search(r"\bnumber", request, re.IGNORECASE)))
    unplaced = re.sub(r"\b(?:first|last) sentence", "", request, flags=re.IGNORECASE)
    to_start = bool(re.search(r"\b(?:first|beginning|start|top|begin)\b", unplaced, re.IGNORECASE))
    to_end = bool(re.search(r"\b(?:last|end|bottom)\b", unplaced, re.IGNORECASE))
    if to_start == to_end:
        return "no sentence was found that is to be moved, or no place for it"
    target = MOVE.sub("", request).rstrip(" .!")
    places = places_in(target)
    if places:
        return EditRequest(kind="move", places=places[0], unit=places[1], to_end=to_end)
    return EditRequest(kind="move", topic=target, unit="sentence", to_end=to_end)


def _target(request: str) -> str:
    """What an instruction to remove wants gone, in its words."""
    verb = REMOVE.match(request)
    return request[verb.end() :].rstrip(" .!") if verb else request


def _quoted(request: str, text: str) -> Followed:
    """The answer with quoted words in the place of others, or put in."""
    quotes = ["".join(quote) for quote in QUOTED.findall(request)]
    plain_change = UNQUOTED_CHANGE.match(request)
    if (CHANGE.search(request) and len(quotes) >= 2) or plain_change:
        target, replacement = quotes[:2] if len(quotes) >= 2 else (plain_change["old"], plain_change["new"])  # type: ignore[index]
        if re.search(r"\bsubstitute\b.*\bfor\b", request, re.IGNORECASE):
            target, replacement = replacement, target
        flags = re.NOFLAG if target in text else re.IGNORECASE
        changed, times = re.subn(rf"(?<!\w){re.escape(target)}(?!\w)", lambda _: replacement, text, flags=flags)
        return (changed, "") if times else (None, f"it does not say {target!r}")
    pieces = pieces_of(text)
    return joined(put(pieces, [Piece(" ", " ".join(quotes[0].split()))], _place(request, pieces))), ""


def _cut(request: str, text: str) -> Followed | None:
    """The answer without its citations, its brackets or quoted words; None where whole sentences are to go."""
    target = _target(request)
    quotes = ["".join(quote) for quote in QUOTED.findall(target)]
    if re.fullmatch(r"(?:all |the |any )*(?:citations?|citation marks|references)", target, re.IGNORECASE):
        text = strip_citations(text)
    elif re.search(r"\b(?:brackets?|parenthes[ei]s|parenthetical\w*)\b", target, re.IGNORECASE):
        text = re.sub(r"\s*\([^()]*\)", "", text)
    elif quotes and not re.search(r"\b(?:sentences?|everything|parts?|mentions?|paragraphs?)\b", target, re.IGNORECASE):
        for quote in quotes:
            if quote not in text:
                return None, f"it does not say {quote!r}"
            text = text.replace(quote, "")
        text = re.sub(r"[ \t]+(?=[.,;:!?])|(?<=[ \t])[ \t]+|[ \t]+$", "", text, flags=re.MULTILINE)
    else:
        return None
    remaining = [piece for piece in pieces_of(text) if any(map(str.isalnum, piece.text))]
    return (joined(remaining), "") if remaining else (None, "nothing would be left of it")


def _place(request: str, pieces: Sequence[Piece], otherwise: int | None = None) -> int:
    """The index before which an instruction wants something new; `otherwise`, or the end, if it says nothing."""
    place = place_in(QUOTED.sub(" ", request))
    if place is not None:
        return slot(place, [piece.text for piece in pieces])
    return len(pieces) if otherwise is None else otherwise


def _added(request: str, material: Material, passages: Passages) -> Followed:
    """The answer with the sentences of the passages that say most to an instruction, each with its citation."""
    pieces = pieces_of(material.previous)
    present = [strip_citations(piece.text) for piece in pieces]
    fresh = [unit for unit in units_of(passages.hits) if coverage(unit.text, present) < 0.9]
    pool = [unit for unit in fresh if all(coverage(unit.text, [removed]) < 0.9 for removed in material.removed)]
    if not pool:
        explanation = ", or did before it was revised" if fresh else ""
        return None, f"the passages say nothing that it does not say already{explanation}"
    bounds = [bound for bound in constraints_of(request) if bound.added and bound.unit in ("sentences", "named")]
    limit = max((int(bound.maximum or bound.minimum or 0) for bound in bounds), default=0) or 2
    selected = choose((request, f"{material.question} {request}"), pool, material.embed, limit)
    clarifies = re.match(rf"{START}(?:clarify|explain|define|elaborate|specify)\b|you say\b", request, re.IGNORECASE)
    near = about(request, [piece.text for piece in pieces], material.embed) if clarifies else []
    at = _place(request, pieces, near[-1] + 1 if near else None)
    new = [Piece(" ", f"{ended(unit.text)} [{passages.numbers[unit.citation - 1]}]") for unit in selected]
    return joined(put(pieces, new, at)), ""


def mended(question: str, previous: str, text: str, constraints: Sequence[Constraint], embed: Embed | None) -> str:
    """A revision with what code can do about the demands that it does not meet: once, in their order.

    Words to stand verbatim are put in their place, words that shall go are taken out; what is too long loses the
    sentences that say least of what all say, and what was added, its last ones. What is too short stays so.
    """
    for demand in unmet(constraints, previous, text):
        text = _mended(question, previous, text, demand.constraint, embed)
    return text


def _mended(question: str, previous: str, text: str, constraint: Constraint, embed: Embed | None) -> str:
    pieces = pieces_of(text)
    if constraint.kind == "verbatim" or (constraint.kind == "place" and constraint.text):
        quoted = squeezed(constraint.text)
        remaining = without(pieces, [i for i, piece in enumerate(pieces) if squeezed(piece.text) == quoted])
        return joined(put(remaining, [Piece(" ", constraint.text)], _slot(constraint, previous, remaining)))
    if constraint.kind == "absent":
        cut = re.sub(rf"[ \t]*(?<!\w){re.escape(constraint.text)}(?!\w)", "", text)
        return cut if any(map(str.isalnum, cut)) else text
    if (
        constraint.kind == "length"
        and constraint.added
        and constraint.unit == "sentences"
        and constraint.maximum is not None
    ):
        insertions = [operation.after for operation in operations(previous, text) if operation.kind == "insert"]
        extra = {" ".join(sentence.split()) for sentence in insertions[int(constraint.maximum) :]}
        return joined(without(pieces, [i for i, piece in enumerate(pieces) if " ".join(piece.text.split()) in extra]))
    if constraint.kind == "length" and not constraint.added and constraint.unit in ("words", "sentences"):
        return _shortened(question, previous, text, constraint, embed)
    return text


def _slot(constraint: Constraint, previous: str, pieces: Sequence[Piece]) -> int:
    if constraint.kind == "verbatim":
        return len(pieces)
    if constraint.place in ("beginning", "end"):
        return slot(constraint, [piece.text for piece in pieces])
    previous_pieces = pieces_of(previous)
    at = slot(constraint, [piece.text for piece in previous_pieces])
    neighbour = (
        squeezed(
            previous_pieces[max(at - 1, 0)].text
            if constraint.place == "after"
            else previous_pieces[min(at, len(previous_pieces) - 1)].text
        )
        if previous_pieces
        else ""
    )
    places = [i for i, piece in enumerate(pieces) if squeezed(piece.text) == neighbour]
    return places[0] + (constraint.place == "after") if places else len(pieces)


def _shortened(question: str, previous: str, text: str, constraint: Constraint, embed: Embed | None) -> str:
    pieces = pieces_of(text)
    while len(pieces) > 1 and unmet([constraint], previous, joined(pieces)):
        if constraint.maximum is None and constraint.share is None:
            return text
        weights = importance(question, [strip_citations(piece.text) for piece in pieces], embed)
        pieces = without(pieces, [min(range(len(pieces)), key=lambda i, scores=weights: (scores[i], -i))])  # type: ignore[misc]
    return text if unmet([constraint], previous, joined(pieces)) else joined(pieces)
