"""Revising a long answer as the user instructs, without a language model and with one, and what a revision did.

The kinds of instruction are those of KIWI (table 3). The commonest fault found there is a change that nobody asked for
(table 4): the embedded form edits whole sentences, leaves all others as they stand, and where it does not understand an
instruction it changes nothing and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.budget import INSTRUCTIONS, count_tokens, fit
from assistant.generators.base import Generator, GeneratorError, PromptMessage
from assistant.prompts import fence, fence_tag, load_prompt
from assistant.steps.answer import choose, ended
from assistant.steps.instructions import (
    ABOUT,
    CHANGE,
    GUARD,
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
)
from assistant.steps.llm import numbered, passage_texts, written
from assistant.steps.operations import Operation as Operation
from assistant.steps.operations import Piece, joined, pieces_of
from assistant.steps.operations import operations as operations
from assistant.steps.support import coverage, stems
from assistant.steps.units import Unit, units_of
from assistant.steps.verify import cited
from assistant.types import Usage
from corpora.text import content_words, strip_citations, words
from corpora.types import Record
from retrieval.types import Hit

if TYPE_CHECKING:
    from assistant.steps.answer import Embed


class Revision(Record):
    """A revised answer and what was done to get it."""

    text: str
    operations: tuple[Operation, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


def revise(question: str, previous: str, instruction: str, hits: Sequence[Hit], embed: Embed | None) -> Revision:
    """Revise by rules: edits of whole sentences, and new sentences taken from the passages as they stand.

    Args:
        previous: the answer so far. Its citation marks are left alone; new ones are `[n]`, 1-based into `hits`.
        instruction: in English; in another language nothing is understood, and nothing changed.
        embed: embeds sentences (unit vectors); without it, shared words decide.
    """
    asked = GUARD.sub("", instruction).strip()
    pieces = pieces_of(previous)
    work = _Work(question, asked, pieces, hits, embed)
    made, note = (None, "there is no answer yet to revise") if not pieces else work.by_kind(classify(instruction))
    if made is None:
        return Revision(text=previous, operations=(), notes=(f"the answer was left as it is: {note}",))
    text = joined(made)
    return Revision(text=text, operations=operations(previous, text), notes=(note,) if note else ())


# A sentence that shares no word with its description: its cosine, and by how much it leads. With MiniLM "animals seen
# aboard" has .40 with a sentence on otters and at most .23 with three on a ferry; what is about nothing there, .23.
_LEAST_LIKE = 0.35
_CLEARLY = 0.1

Made = tuple[list[Piece] | None, str]  # the new pieces, or None and why nothing was done


@dataclass
class _Work:
    """One instruction at work on the sentences of one answer."""

    question: str
    asked: str
    pieces: list[Piece]
    hits: Sequence[Hit]
    embed: Embed | None

    def by_kind(self, kind: Kind) -> Made:
        if kind == "other":
            return None, "the instruction is of no kind that can be followed without a language model"
        steps = {"edit": self.edit, "remove": self.remove, "condense": self.condense, "reorganize": self.reorganize}
        return steps.get(kind, self.add)()

    # Where something stands

    def similar(self, target: str) -> list[float]:
        """How well each sentence fits a description: the share of its words, or the cosine where that is known."""
        texts = [strip_citations(piece.text) for piece in self.pieces]
        if self.embed is None:
            return [coverage(target, [text]) if content_words(target) else 0.0 for text in texts]
        vectors = self.embed([target, *texts])
        return [float(value) for value in vectors[1:] @ vectors[0]]

    def named(self, target: str) -> list[int]:
        """The sentences that a description names: by quotation, place or its words, or else the one most like it."""
        quotes = [_squeezed("".join(quote)) for quote in QUOTED.findall(target)]
        if quotes:
            return [i for i, piece in enumerate(self.pieces) if any(quote in _squeezed(piece.text) for quote in quotes)]
        place = re.search(r"\b(first|second|third|last)\s+(?:sentence|bullet|item|point|line)\b", target, re.IGNORECASE)
        if place:
            at = {"first": 0, "second": 1, "third": 2, "last": len(self.pieces) - 1}[place[1].lower()]
            return [at] if at < len(self.pieces) else []
        topic = re.sub(
            r"\b(?:the|any|all|every\w*|any\w*|each|sentences?|parts?|paragraphs?|passages?|information|mentions?|details?|"
            r"references?|discussion|descriptions?|section|bit|that|which|about|of|on|to|how|mentions?|describes?|says?|is|"
            r"are|from|the|answer|text|please|at|beginning|start|end|top|bottom|first|last|with|in)\b", " ", target,
            flags=re.IGNORECASE,
        )  # fmt: skip
        found: set[int] = set()
        for part in re.split(r",|;|\band\b|\bor\b", topic):
            if stems(part):
                found |= {i for i, piece in enumerate(self.pieces) if coverage(part, [piece.text]) >= 0.7}
        if not found and self.embed is not None and stems(topic):
            scores = self.similar(topic)
            best, *others = sorted(range(len(scores)), key=lambda i: -scores[i])
            clear = not others or scores[best] - scores[others[0]] >= _CLEARLY
            found = {best} if scores[best] >= _LEAST_LIKE and clear else set()
        return sorted(found)

    def without(self, gone: Sequence[int]) -> list[Piece]:
        """The sentences but these. The break before a paragraph stays when its first sentence goes."""
        kept: list[Piece] = []
        owed = ""
        for i, piece in enumerate(self.pieces):
            if i in gone:
                owed = _wider(piece.gap, owed)
            else:
                kept.append(Piece(_wider(piece.gap, owed), piece.text))
                owed = ""
        return kept

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
        return self.put([added], self.place()), ""

    def place(self, otherwise: int | None = None) -> int:
        """The index before which the instruction wants something new; `otherwise`, or the end, if it says nothing."""
        if re.search(
            r"\b(?:beginning|start|top|first sentence of|as (?:the )?first|open)\b", self.asked, re.IGNORECASE
        ):
            return 0
        if side := re.search(
            r"\b(after|before)\s+(the (?:first|second|third|last) sentence)", self.asked, re.IGNORECASE
        ):
            at = self.named(side[2])
            return at[0] + (side[1].lower() == "after") if at else len(self.pieces)
        return len(self.pieces) if otherwise is None else otherwise

    def put(self, new: Sequence[Piece], at: int) -> list[Piece]:
        before, after = self.pieces[:at], self.pieces[at:]
        beside = (before or after)[-1 if before else 0]
        if (before[-1:] or after[:1])[0].text.startswith(("- ", "* ", "• ")):
            new = [Piece("\n", f"{beside.text[:2]}{piece.text}") for piece in new]
        if after and not before:
            gap = "\n" if new[0].gap == "\n" else " "
            after = [Piece(gap, after[0].text), *after[1:]]
        return [*before, *new, *after]

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
        return self.without(gone), ""

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
        about = ABOUT.search(self.asked)
        among = self.named(about[1]) if about else list(range(len(self.pieces)))
        if not among:
            return None, f"no sentence was found to be about {about[1]!r}" if about else "it is empty"
        sizes = [len(words(strip_citations(piece.text))) for piece in self.pieces]
        most_words, most = length_asked(self.asked, sum(sizes[i] for i in among), len(among))
        kept: list[int] = []
        for i in sorted(among, key=lambda i, by=self.centrality(): (-by[i], i)):  # type: ignore[misc]
            if len(kept) < most and sum(sizes[j] for j in kept) + sizes[i] <= most_words:
                kept.append(i)
        if not kept:
            return None, "each of its sentences is longer than what is asked for"
        return self.without([i for i in among if i not in kept]), ""

    def centrality(self) -> list[float]:
        """How much each sentence says of what all say, and of what was asked."""
        texts = [strip_citations(piece.text) for piece in self.pieces]
        if self.embed is None:
            return [coverage(self.question, [text]) + coverage(" ".join(texts), [text]) for text in texts]
        vectors = self.embed([self.question, *texts])
        middle = vectors[1:].mean(axis=0)
        return [float(vector @ middle + 0.5 * (vector @ vectors[0])) for vector in vectors[1:]]

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
        rest = self.without(moved)
        taken = [Piece(" ", self.pieces[i].text) for i in moved]
        return [*taken, Piece(" ", rest[0].text), *rest[1:]] if first else [*rest, *taken], ""

    def add(self) -> Made:
        said = [strip_citations(piece.text) for piece in self.pieces]
        pool = [unit for unit in units_of(self.hits) if coverage(unit.text, said) < 0.9]
        if not pool:
            return None, "the passages say nothing that it does not say already"
        most = number_in(re.search(rf"\b{NUMBER} (?:\w+ )?sentences?\b", self.asked, re.IGNORECASE)) or 2
        chosen = choose((self.asked, f"{self.question} {self.asked}"), pool, self.embed, most)
        clarifies = re.match(
            rf"{START}(?:clarify|explain|define|elaborate|specify)\b|you say\b", self.asked, re.IGNORECASE
        )
        near = self.named(self.asked) if clarifies else []
        at = self.place(near[-1] + 1 if near else None)
        return self.put([Piece(" ", _marked(unit)) for unit in chosen], at), ""


def _wider(gap: str, other: str) -> str:
    return other if other.count("\n") > gap.count("\n") else gap


def _squeezed(text: str) -> str:
    return " ".join(text.lower().split())


def _bare(text: str) -> str:
    return re.sub(r"^(?:[-*•]|\d{1,3}[.)])[ \t]+", "", text)


def _marked(unit: Unit) -> str:
    """A sentence of the passages with its citation."""
    return f"{ended(unit.text)} [{unit.citation}]"


# --- with a language model -------------------------------------------------------------------------------------------


def revise_with(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    prompts: Path | None = None,
) -> Revision:
    """Revise with one call of a language model; a reply that is cut is asked for once more with twice the room.

    Passages that do not fit into the context are left out, the lowest first, with a note. A reply that is cut again is
    kept as it stands, with a note, as `assistant.steps.llm.answer` does.

    Raises:
        GeneratorError: no reply was to be had, an empty one, or the answer alone does not fit into the context.
    """
    room = generator.context_tokens - generator.reply_tokens
    always = f"{question}\n{previous}\n{instruction}"
    fitted = fit((), hits, always, room)
    if INSTRUCTIONS + count_tokens(always) > room:
        raise GeneratorError("bad_request", f"the answer to revise does not fit into the context of {generator.name}")
    made = written(generator, revise_prompt(question, previous, instruction, fitted.hits, prompts))
    notes = [*fitted.notes, *([made.note] if made.note else [])]
    strange = sorted({n for n in cited(made.text) if not 1 <= n <= len(fitted.hits)} - set(cited(previous)))
    if strange:
        notes.append(f"it cites {', '.join(f'[{n}]' for n in strange)}, which is none of the passages")
    return Revision(text=made.text, operations=operations(previous, made.text), usage=made.usage, notes=tuple(notes))


def revise_prompt(
    question: str, previous: str, instruction: str, hits: Sequence[Hit], prompts: Path | None = None
) -> tuple[PromptMessage, ...]:
    """The messages that `revise_with` sends: passages, each with its number before it, and answer fenced."""
    texts = passage_texts(hits)
    tag = fence_tag(question, previous, instruction, *texts)
    return load_prompt("revise", prompts).render(
        tag=tag,
        passages=numbered(texts, tag),
        question=question,
        previous=fence(previous, "answer", tag),
        instruction=instruction,
    )
