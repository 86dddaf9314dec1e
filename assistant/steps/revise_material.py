"""What a revision starts from: the answer, the instruction, and where to look things up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.retrieval.given import Embed
from turnmark.retrieval.types import Hit

if TYPE_CHECKING:
    from turnmark.assistant.steps.instructions import InstructionType

PASSAGES = 5
"""Passages that an instruction is followed from (KIWI, section 2.2)."""

Search = Callable[[str], Sequence[Hit]]


@dataclass(frozen=True)
class Found:
    """Passages for an instruction; `numbers`: they are cited by these; `all`: what the marks of the revision count."""

    hits: tuple[Hit, ...] = ()
    numbers: tuple[int, ...] = ()
    all: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class Material:
    """One revision to make. The fields are the arguments of `turnmark.assistant.steps.revise.revised`."""

    question: str
    previous: str
    instruction: str
    search: Search
    known: tuple[Hit, ...] = ()
    embed: Embed | None = None
    prompts: Path | None = None
    sort: InstructionType | None = None
    gone: tuple[str, ...] = ()

    def found(self, query: str) -> Found:
        """The first five passages for a query, numbered behind those known; one of these keeps its number."""
        hits = tuple(self.search(query))[:PASSAGES]
        every = list(self.known)
        places = {hit.passage.id: n for n, hit in enumerate(every, 1)}
        numbers: list[int] = []
        for hit in hits:
            if hit.passage.id not in places:
                every.append(hit)
                places[hit.passage.id] = len(every)
            numbers.append(places[hit.passage.id])
        return Found(hits, tuple(numbers), tuple(every))
