"""Revising an answer without a language model: edits of whole sentences, and sentences of the passages as they stand.

Where an instruction is not understood, nothing is changed, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.steps.answer import choose, ended
from turnmark.assistant.steps.constraints import Constraint, constraints_of, place_in, slot, squeezed, unmet
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
    Kind,
    classify,
    length_asked,
    number_in,
    typed,
    wanted,
)
from turnmark.assistant.steps.numbered import ITEM, put, without
from turnmark.assistant.steps.operations import Found, Material, Piece, Revision, joined, operations, pieces_of
from turnmark.assistant.steps.outline import about, importance
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.corpora.text import strip_citations, words
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_COUNTED = re.compile(
    rf"\b(?:(?P<which>{'|'.join(_ORDINALS)}|last|final)\s+(?:(?P<many>{NUMBER})\s+)?(?P<what>(?:sentence|paragraph|bullet|item"
    r"|point|line|step)s?)|(?:sentence|paragraph|bullet|item|point|line|step) (?P<number>\d{1,3}))\b",
    re.IGNORECASE,
)


def by_rules(material: Material, notes: Sequence[str] = ()) -> Revision:
    """Revise by rules, and mend by code what code can check; in another language than English nothing is understood.

    Args:
        notes: what the person should know beside.
    """
    kind, sort = classify(material.instruction), typed(material.instruction)
    pieces = pieces_of(material.previous)
    passages = material.found(material.instruction) if kind == "add" and pieces else Found(all=material.known_hits)
    work = Work(
        material.question, wanted(material.instruction), pieces, passages.hits, material.embed, passages.numbers,
        material.removed,
    )  # fmt: skip
    changed, note = work.by_kind(kind) if pieces else (None, "there is no answer yet to revise")
    demands = constraints_of(material.instruction)
    messages = list(notes)
    text = material.previous
    if changed is None:
        messages.append(f"the answer was left as it is: {note}")
    else:
        text = mended(material.question, material.previous, joined(changed), demands, material.embed)
        messages += [note] if note else []
    missed = tuple(demand.message for demand in unmet(demands, material.previous, text)) if pieces else ()
    if changed is not None and missed:
        messages.append(f"not all that was asked for is met: {'; '.join(missed)}")
    return Revision(
        text=text, operations=operations(material.previous, text), notes=tuple(messages), kind=sort.fine,
        coarse=sort.coarse, unmet=missed, hits=passages.all,
    )  # fmt: skip


Made = tuple[list[Piece] | None, str]  # the new pieces, or None and why nothing was done


@dataclass
class Work:
    """One instruction at work on the sentences of one answer."""

    question: str
    request: str
    pieces: list[Piece]
    hits: Sequence[Hit]
    embed: Embed | None
    numbers: Sequence[int] = ()  # by which the passages are cited; empty: from 1
    removed: Sequence[str] = ()  # sentences that were taken out of the answer before

    def by_kind(self, kind: Kind) -> Made:
        if kind == "other":
            return None, "the instruction is of no kind that can be followed without a language model"
        steps = {"edit": self.edit, "remove": self.remove, "condense": self.condense, "reorganize": self.reorganize}
        return steps.get(kind, self.add)()

    # Where something stands

    def named(self, target: str) -> list[int]:
        """The sentences that a description names: by quotation, place or its words, or else the one most like it."""
        quotes = [squeezed("".join(quote)) for quote in QUOTED.findall(target)]
        if quotes:
            return [i for i, piece in enumerate(self.pieces) if any(quote in squeezed(piece.text) for quote in quotes)]
        if (counted_places := self.counted(target)) is not None:
            return counted_places
        return about(target, [piece.text for piece in self.pieces], self.embed)

    def counted(self, target: str) -> list[int] | None:
        """The sentences that a description counts out: "the second point", "the last two sentences"; None: none are."""
        match = _COUNTED.search(target)
        if match is None:
            return None
        unit_name, ordinal = (match["what"] or match.group()).lower(), (match["which"] or match["number"]).lower()
        groups = [[i] for i in range(len(self.pieces))]
        if unit_name.startswith("paragraph"):
            starts = [i for i, piece in enumerate(self.pieces) if not i or piece.gap.count("\n") > 1]
            groups = [list(range(i, j)) for i, j in zip(starts, [*starts[1:], len(self.pieces)], strict=True)]
        elif not unit_name.startswith("sentence"):
            items = self.items()
            groups = items if len(items) > 1 else groups
        number = number_in(re.match(NUMBER, match["many"], re.IGNORECASE)) or 1 if match["many"] else 1
        if ordinal in ("last", "final"):
            selected = groups[-number:]
        else:
            at = _ORDINALS.index(ordinal) if ordinal in _ORDINALS else int(ordinal) - 1
            selected = groups[at : at + number] if at >= 0 else []
        return [i for group in selected for i in group]

    def items(self) -> list[list[int]]:
        """The items of a list, each with the sentences that follow it on its line."""
        groups: list[list[int]] = []
        for i, piece in enumerate(self.pieces):
            if ITEM.match(piece.text):
                groups.append([i])
            elif groups and groups[-1][-1] == i - 1 and "\n" not in piece.gap:
                groups[-1].append(i)
        return groups

    # The kinds of instruction

    def edit(self) -> Made:
        text = joined(self.pieces)
        quotes = ["".join(quote) for quote in QUOTED.findall(self.request)]
        plain_change = UNQUOTED_CHANGE.match(self.request)
        if (CHANGE.search(self.request) and len(quotes) >= 2) or plain_change:
            target, replacement = quotes[:2] if len(quotes) >= 2 else (plain_change["old"], plain_change["new"])  # type: ignore[index]
            if re.search(r"\bsubstitute\b.*\bfor\b", self.request, re.IGNORECASE):
                target, replacement = replacement, target
            flags = re.NOFLAG if target in text else re.IGNORECASE
            changed, times = re.subn(rf"(?<!\w){re.escape(target)}(?!\w)", lambda _: replacement, text, flags=flags)
            return (pieces_of(changed), "") if times else (None, f"it does not say {target!r}")
        added = Piece(" ", " ".join(quotes[0].split()))
        return put(self.pieces, [added], self.place()), ""

    def place(self, otherwise: int | None = None) -> int:
        """The index before which the instruction wants something new; `otherwise`, or the end, if it says nothing."""
        place = place_in(QUOTED.sub(" ", self.request))
        if place is not None:
            return slot(place, [piece.text for piece in self.pieces])
        return len(self.pieces) if otherwise is None else otherwise

    def remove(self) -> Made:
        verb = REMOVE.match(self.request)
        target = self.request[verb.end() :].rstrip(" .!") if verb else self.request
        if re.fullmatch(r"(?:all |the |any )*(?:citations?|citation marks|references)", target, re.IGNORECASE):
            return [Piece(piece.gap, strip_citations(piece.text)) for piece in self.pieces], ""
        if re.search(r"\b(?:brackets?|parenthes[ei]s|parenthetical\w*)\b", target, re.IGNORECASE):
            return [Piece(piece.gap, re.sub(r"\s*\([^()]*\)", "", piece.text)) for piece in self.pieces], ""
        quotes = ["".join(quote) for quote in QUOTED.findall(target)]
        if quotes and not re.search(
            r"\b(?:sentences?|everything|parts?|mentions?|paragraphs?)\b", target, re.IGNORECASE
        ):
            return self.cut(quotes)
        places = self.named(target)
        if not places:
            return None, f"no sentence was found to be about {target!r}"
        if len(places) == len(self.pieces):
            return None, "nothing would be left of it"
        return without(self.pieces, places), ""

    def cut(self, quotes: Sequence[str]) -> Made:
        """The answer without words that were quoted."""
        text = joined(self.pieces)
        for quote in quotes:
            if quote not in text:
                return None, f"it does not say {quote!r}"
            text = text.replace(quote, "")
        tidy = re.sub(r"[ \t]+(?=[.,;:!?])|(?<=[ \t])[ \t]+|[ \t]+$", "", text, flags=re.MULTILINE)
        remaining = [piece for piece in pieces_of(tidy) if any(map(str.isalnum, piece.text))]
        return (remaining, "") if remaining else (None, "nothing would be left of it")

    def condense(self) -> Made:
        part = ABOUT.search(self.request)
        among = self.named(part[1]) if part else list(range(len(self.pieces)))
        if not among:
            return None, f"no sentence was found to be about {part[1]!r}" if part else "it is empty"
        sizes = [len(words(strip_citations(piece.text))) for piece in self.pieces]
        most_words, sentence_limit = length_asked(self.request, sum(sizes[i] for i in among), len(among))
        selection: list[int] = []
        weights = importance(self.question, [strip_citations(piece.text) for piece in self.pieces], self.embed)
        for i in sorted(among, key=lambda i: (-weights[i], i)):
            if len(selection) < sentence_limit and sum(sizes[j] for j in selection) + sizes[i] <= most_words:
                selection.append(i)
        if not selection:
            return None, "each of its sentences is longer than what is asked for"
        return without(self.pieces, [i for i in among if i not in selection]), ""

    def reorganize(self) -> Made:
        layout = LAYOUT.search(self.request)
        if layout and not layout.group().lower().startswith("paragraph"):
            numbered = bool(re.search(r"\bnumber", self.request, re.IGNORECASE))
            marks = [f"{n}. " if numbered else "- " for n in range(1, len(self.pieces) + 1)]
            return [Piece("\n", mark + _bare(p.text)) for mark, p in zip(marks, self.pieces, strict=True)], ""
        if layout:
            count = number_in(re.search(rf"\b{NUMBER} paragraphs?\b", self.request, re.IGNORECASE)) or 1
            size = -(-len(self.pieces) // max(1, count))
            gaps = ["\n\n" if i % size == 0 else " " for i in range(len(self.pieces))]
            note = "no headings were written" if re.search(r"\bhead(?:ed|ings?)\b", self.request) else ""
            return [Piece(gap, _bare(p.text)) for gap, p in zip(gaps, self.pieces, strict=True)], note
        first = re.search(
            r"\b(?:first|beginning|start|top|begin)\b", re.sub(r"first sentence", "", self.request, flags=re.I), re.I
        )
        last = re.search(r"\b(?:last|end|bottom)\b", re.sub(r"last sentence", "", self.request, flags=re.I), re.I)
        target = MOVE.sub("", self.request).rstrip(" .!")
        moved = self.named(target) if bool(first) != bool(last) else []
        if not moved or len(moved) == len(self.pieces):
            return None, "no sentence was found that is to be moved, or no place for it"
        unmoved = without(self.pieces, moved)
        moved_pieces = [Piece(" ", self.pieces[i].text) for i in moved]
        return [*moved_pieces, Piece(" ", unmoved[0].text), *unmoved[1:]] if first else [*unmoved, *moved_pieces], ""

    def add(self) -> Made:
        sentences = [strip_citations(piece.text) for piece in self.pieces]
        fresh = [unit for unit in units_of(self.hits) if coverage(unit.text, sentences) < 0.9]
        pool = [
            unit
            for unit in fresh
            if all(coverage(unit.text, [removed_sentence]) < 0.9 for removed_sentence in self.removed)
        ]
        if not pool:
            explanation = ", or did before it was revised" if fresh else ""
            return None, f"the passages say nothing that it does not say already{explanation}"
        bounds = [
            bound for bound in constraints_of(self.request) if bound.added and bound.unit in ("sentences", "named")
        ]
        limit = max((int(bound.maximum or bound.minimum or 0) for bound in bounds), default=0) or 2
        selected = choose((self.request, f"{self.question} {self.request}"), pool, self.embed, limit)
        clarifies = re.match(
            rf"{START}(?:clarify|explain|define|elaborate|specify)\b|you say\b", self.request, re.IGNORECASE
        )
        near = self.named(self.request) if clarifies else []
        at = self.place(near[-1] + 1 if near else None)
        return put(self.pieces, [Piece(" ", self.marked(unit)) for unit in selected], at), ""

    def marked(self, unit: Unit) -> str:
        """A sentence of the passages with its citation."""
        return f"{ended(unit.text)} [{self.numbers[unit.citation - 1] if self.numbers else unit.citation}]"


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
        others = without(pieces, [i for i, piece in enumerate(pieces) if squeezed(piece.text) == quoted])
        return joined(put(others, [Piece(" ", constraint.text)], _slot(constraint, previous, others)))
    if constraint.kind == "absent":
        remaining = re.sub(rf"[ \t]*(?<!\w){re.escape(constraint.text)}(?!\w)", "", text)
        return remaining if any(map(str.isalnum, remaining)) else text
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
        pieces = without(pieces, [min(range(len(pieces)), key=lambda i, by=weights: (by[i], -i))])  # type: ignore[misc]
    return text if unmet([constraint], previous, joined(pieces)) else joined(pieces)


def _bare(text: str) -> str:
    return re.sub(r"^(?:[-*•]|\d{1,3}[.)])[ \t]+", "", text)
