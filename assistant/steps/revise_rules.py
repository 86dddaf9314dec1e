"""Revising an answer without a language model: edits of whole sentences, and sentences of the passages as they stand.

Where an instruction is not understood, nothing is changed, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.steps.constraints import Constraint, constraints_of, place_in, slot, squeezed, unmet
from turnmark.assistant.steps.extract import choose, ended
from turnmark.assistant.steps.importance import about, importance
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
from turnmark.assistant.steps.operations import Piece, Revision, joined, operations, pieces_of
from turnmark.assistant.steps.revise_material import Found, Material
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.corpora.text import strip_citations, words
from turnmark.retrieval.given import Embed
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
    found = material.found(material.instruction) if kind == "add" and pieces else Found(all=material.known)
    work = Work(
        material.question, wanted(material.instruction), pieces, found.hits, material.embed, found.numbers,
        material.gone,
    )  # fmt: skip
    made, note = work.by_kind(kind) if pieces else (None, "there is no answer yet to revise")
    demands = constraints_of(material.instruction)
    told = list(notes)
    text = material.previous
    if made is None:
        told.append(f"the answer was left as it is: {note}")
    else:
        text = mended(material.question, material.previous, joined(made), demands, material.embed)
        told += [note] if note else []
    missed = tuple(one.told for one in unmet(demands, material.previous, text)) if pieces else ()
    if made is not None and missed:
        told.append(f"not all that was asked for is met: {'; '.join(missed)}")
    return Revision(
        text=text, operations=operations(material.previous, text), notes=tuple(told), kind=sort.fine,
        coarse=sort.coarse, unmet=missed, hits=found.all,
    )  # fmt: skip


Made = tuple[list[Piece] | None, str]  # the new pieces, or None and why nothing was done


@dataclass
class Work:
    """One instruction at work on the sentences of one answer."""

    question: str
    asked: str
    pieces: list[Piece]
    hits: Sequence[Hit]
    embed: Embed | None
    numbers: Sequence[int] = ()  # by which the passages are cited; empty: from 1
    gone: Sequence[str] = ()  # sentences that were taken out of the answer before

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
        if (counted := self.counted(target)) is not None:
            return counted
        return about(target, [piece.text for piece in self.pieces], self.embed)

    def counted(self, target: str) -> list[int] | None:
        """The sentences that a description counts out: "the second point", "the last two sentences"; None: none are."""
        asked = _COUNTED.search(target)
        if asked is None:
            return None
        what, which = (asked["what"] or asked.group()).lower(), (asked["which"] or asked["number"]).lower()
        groups = [[i] for i in range(len(self.pieces))]
        if what.startswith("paragraph"):
            starts = [i for i, piece in enumerate(self.pieces) if not i or piece.gap.count("\n") > 1]
            groups = [list(range(i, j)) for i, j in zip(starts, [*starts[1:], len(self.pieces)], strict=True)]
        elif not what.startswith("sentence"):
            items = self.items()
            groups = items if len(items) > 1 else groups
        many = number_in(re.match(NUMBER, asked["many"], re.IGNORECASE)) or 1 if asked["many"] else 1
        if which in ("last", "final"):
            chosen = groups[-many:]
        else:
            at = _ORDINALS.index(which) if which in _ORDINALS else int(which) - 1
            chosen = groups[at : at + many] if at >= 0 else []
        return [i for group in chosen for i in group]

    def items(self) -> list[list[int]]:
        """The items of a list, each with the sentences that follow it on its line."""
        found: list[list[int]] = []
        for i, piece in enumerate(self.pieces):
            if ITEM.match(piece.text):
                found.append([i])
            elif found and found[-1][-1] == i - 1 and "\n" not in piece.gap:
                found[-1].append(i)
        return found

    # The kinds of instruction

    def edit(self) -> Made:
        text = joined(self.pieces)
        quotes = ["".join(quote) for quote in QUOTED.findall(self.asked)]
        plain_change = UNQUOTED_CHANGE.match(self.asked)
        if (CHANGE.search(self.asked) and len(quotes) >= 2) or plain_change:
            old, new = quotes[:2] if len(quotes) >= 2 else (plain_change["old"], plain_change["new"])  # type: ignore[index]
            if re.search(r"\bsubstitute\b.*\bfor\b", self.asked, re.IGNORECASE):
                old, new = new, old
            flags = re.NOFLAG if old in text else re.IGNORECASE
            changed, times = re.subn(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text, flags=flags)
            return (pieces_of(changed), "") if times else (None, f"it does not say {old!r}")
        added = Piece(" ", " ".join(quotes[0].split()))
        return put(self.pieces, [added], self.place()), ""

    def place(self, otherwise: int | None = None) -> int:
        """The index before which the instruction wants something new; `otherwise`, or the end, if it says nothing."""
        place = place_in(QUOTED.sub(" ", self.asked))
        if place is not None:
            return slot(place, [piece.text for piece in self.pieces])
        return len(self.pieces) if otherwise is None else otherwise

    def remove(self) -> Made:
        verb = REMOVE.match(self.asked)
        target = self.asked[verb.end() :].rstrip(" .!") if verb else self.asked
        if re.fullmatch(r"(?:all |the |any )*(?:citations?|citation marks|references)", target, re.IGNORECASE):
            return [Piece(piece.gap, strip_citations(piece.text)) for piece in self.pieces], ""
        if re.search(r"\b(?:brackets?|parenthes[ei]s|parenthetical\w*)\b", target, re.IGNORECASE):
            return [Piece(piece.gap, re.sub(r"\s*\([^()]*\)", "", piece.text)) for piece in self.pieces], ""
        quotes = ["".join(quote) for quote in QUOTED.findall(target)]
        if quotes and not re.search(
            r"\b(?:sentences?|everything|parts?|mentions?|paragraphs?)\b", target, re.IGNORECASE
        ):
            return self.cut(quotes)
        gone = self.named(target)
        if not gone:
            return None, f"no sentence was found to be about {target!r}"
        if len(gone) == len(self.pieces):
            return None, "nothing would be left of it"
        return without(self.pieces, gone), ""

    def cut(self, quotes: Sequence[str]) -> Made:
        """The answer without words that were quoted."""
        text = joined(self.pieces)
        for quote in quotes:
            if quote not in text:
                return None, f"it does not say {quote!r}"
            text = text.replace(quote, "")
        tidy = re.sub(r"[ \t]+(?=[.,;:!?])|(?<=[ \t])[ \t]+|[ \t]+$", "", text, flags=re.MULTILINE)
        left = [piece for piece in pieces_of(tidy) if any(map(str.isalnum, piece.text))]
        return (left, "") if left else (None, "nothing would be left of it")

    def condense(self) -> Made:
        part = ABOUT.search(self.asked)
        among = self.named(part[1]) if part else list(range(len(self.pieces)))
        if not among:
            return None, f"no sentence was found to be about {part[1]!r}" if part else "it is empty"
        sizes = [len(words(strip_citations(piece.text))) for piece in self.pieces]
        most_words, most = length_asked(self.asked, sum(sizes[i] for i in among), len(among))
        kept: list[int] = []
        for i in sorted(among, key=lambda i, by=self.importance(): (-by[i], i)):  # type: ignore[misc]
            if len(kept) < most and sum(sizes[j] for j in kept) + sizes[i] <= most_words:
                kept.append(i)
        if not kept:
            return None, "each of its sentences is longer than what is asked for"
        return without(self.pieces, [i for i in among if i not in kept]), ""

    def importance(self) -> list[float]:
        """How much each sentence says of what all say, and of what was asked."""
        return importance(self.question, [strip_citations(piece.text) for piece in self.pieces], self.embed)

    def reorganize(self) -> Made:
        layout = LAYOUT.search(self.asked)
        if layout and not layout.group().lower().startswith("paragraph"):
            numbered = bool(re.search(r"\bnumber", self.asked, re.IGNORECASE))
            marks = [f"{n}. " if numbered else "- " for n in range(1, len(self.pieces) + 1)]
            return [Piece("\n", mark + _bare(p.text)) for mark, p in zip(marks, self.pieces, strict=True)], ""
        if layout:
            count = number_in(re.search(rf"\b{NUMBER} paragraphs?\b", self.asked, re.IGNORECASE)) or 1
            size = -(-len(self.pieces) // max(1, count))
            gaps = ["\n\n" if i % size == 0 else " " for i in range(len(self.pieces))]
            note = "no headings were written" if re.search(r"\bhead(?:ed|ings?)\b", self.asked) else ""
            return [Piece(gap, _bare(p.text)) for gap, p in zip(gaps, self.pieces, strict=True)], note
        first = re.search(
            r"\b(?:first|beginning|start|top|begin)\b", re.sub(r"first sentence", "", self.asked, flags=re.I), re.I
        )
        last = re.search(r"\b(?:last|end|bottom)\b", re.sub(r"last sentence", "", self.asked, flags=re.I), re.I)
        target = MOVE.sub("", self.asked).rstrip(" .!")
        moved = self.named(target) if bool(first) != bool(last) else []
        if not moved or len(moved) == len(self.pieces):
            return None, "no sentence was found that is to be moved, or no place for it"
        rest = without(self.pieces, moved)
        taken = [Piece(" ", self.pieces[i].text) for i in moved]
        return [*taken, Piece(" ", rest[0].text), *rest[1:]] if first else [*rest, *taken], ""

    def add(self) -> Made:
        said = [strip_citations(piece.text) for piece in self.pieces]
        fresh = [unit for unit in units_of(self.hits) if coverage(unit.text, said) < 0.9]
        pool = [unit for unit in fresh if all(coverage(unit.text, [one]) < 0.9 for one in self.gone)]
        if not pool:
            taken = ", or did before it was revised" if fresh else ""
            return None, f"the passages say nothing that it does not say already{taken}"
        bounds = [one for one in constraints_of(self.asked) if one.added and one.unit in ("sentences", "named")]
        most = max((int(one.most or one.least or 0) for one in bounds), default=0) or 2
        chosen = choose((self.asked, f"{self.question} {self.asked}"), pool, self.embed, most)
        clarifies = re.match(
            rf"{START}(?:clarify|explain|define|elaborate|specify)\b|you say\b", self.asked, re.IGNORECASE
        )
        near = self.named(self.asked) if clarifies else []
        at = self.place(near[-1] + 1 if near else None)
        return put(self.pieces, [Piece(" ", self.marked(unit)) for unit in chosen], at), ""

    def marked(self, unit: Unit) -> str:
        """A sentence of the passages with its citation."""
        return f"{ended(unit.text)} [{self.numbers[unit.citation - 1] if self.numbers else unit.citation}]"


def mended(question: str, previous: str, text: str, constraints: Sequence[Constraint], embed: Embed | None) -> str:
    """A revision with what code can do about the demands that it does not meet: once, in their order.

    Words to stand verbatim are put in their place, words that shall go are taken out; what is too long loses the
    sentences that say least of what all say, and what was added, its last ones. What is too short stays so.
    """
    for one in unmet(constraints, previous, text):
        text = _mended(question, previous, text, one.constraint, embed)
    return text


def _mended(question: str, previous: str, text: str, one: Constraint, embed: Embed | None) -> str:
    pieces = pieces_of(text)
    if one.kind == "verbatim" or (one.kind == "place" and one.text):
        quoted = squeezed(one.text)
        rest = without(pieces, [i for i, piece in enumerate(pieces) if squeezed(piece.text) == quoted])
        return joined(put(rest, [Piece(" ", one.text)], _slot(one, previous, rest)))
    if one.kind == "absent":
        left = re.sub(rf"[ \t]*(?<!\w){re.escape(one.text)}(?!\w)", "", text)
        return left if any(map(str.isalnum, left)) else text
    if one.kind == "length" and one.added and one.unit == "sentences" and one.most is not None:
        new = [operation.after for operation in operations(previous, text) if operation.kind == "insert"]
        extra = {" ".join(sentence.split()) for sentence in new[int(one.most) :]}
        return joined(without(pieces, [i for i, piece in enumerate(pieces) if " ".join(piece.text.split()) in extra]))
    if one.kind == "length" and not one.added and one.unit in ("words", "sentences"):
        return _shortened(question, previous, text, one, embed)
    return text


def _slot(one: Constraint, previous: str, pieces: Sequence[Piece]) -> int:
    if one.kind == "verbatim":
        return len(pieces)
    if one.place in ("beginning", "end"):
        return slot(one, [piece.text for piece in pieces])
    old = pieces_of(previous)
    at = slot(one, [piece.text for piece in old])
    beside = (
        squeezed(old[max(at - 1, 0)].text if one.place == "after" else old[min(at, len(old) - 1)].text) if old else ""
    )
    found = [i for i, piece in enumerate(pieces) if squeezed(piece.text) == beside]
    return found[0] + (one.place == "after") if found else len(pieces)


def _shortened(question: str, previous: str, text: str, one: Constraint, embed: Embed | None) -> str:
    pieces = pieces_of(text)
    while len(pieces) > 1 and unmet([one], previous, joined(pieces)):
        if one.most is None and one.share is None:
            return text
        by = Work(question, "", pieces, (), embed).importance()
        pieces = without(pieces, [min(range(len(pieces)), key=lambda i, by=by: (by[i], -i))])  # type: ignore[misc]
    return text if unmet([one], previous, joined(pieces)) else joined(pieces)


def _bare(text: str) -> str:
    return re.sub(r"^(?:[-*•]|\d{1,3}[.)])[ \t]+", "", text)
