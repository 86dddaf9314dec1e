"""What an extractive answer is made of: the sentences and list items of the evidence, each with its citation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpora.text import list_items, plain, printable, sentences, strip_citations, words
from corpora.types import Passage
from retrieval.types import Hit

_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$", re.MULTILINE)
_PROCEDURE_HEADING = re.compile(
    r"\b(steps?|directions?|instructions?|method|procedure|preparation|how to|making|process|guide|checklist)\b",
    re.IGNORECASE,
)
_MATERIAL_HEADING = re.compile(
    r"\b(ingredients?|what you need|you('ll| will) need|needs?|tools?|equipment|materials?|supplies|shopping|"
    r"variations?|notes?|mistakes?|see also|links?|contributors?)\b",
    re.IGNORECASE,
)
# Bounded, so that a text of nothing but opening brackets takes no longer than another.
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)")
MIN_WORDS = 3


@dataclass(frozen=True)
class Unit:
    """A sentence or list item. `at` is its offset in its document, so that overlapping passages give it once."""

    text: str
    citation: int
    document: str
    at: int
    item: bool = False
    number: int | None = None
    heading: str = ""


def units_of(hits: Sequence[Hit]) -> list[Unit]:
    """Sentences and list items of all passages, in the order of the passages; doubles of overlapping ones left out."""
    units: dict[tuple[str, int], Unit] = {}
    for citation, hit in enumerate(hits, 1):
        for unit in _of_passage(hit.passage, citation):
            known = units.get((unit.document, unit.at))
            if known is None:
                units[(unit.document, unit.at)] = unit
            elif len(unit.text) > len(known.text):
                # The earlier passage ended in the middle of it.
                units[(unit.document, unit.at)] = unit
    return list(units.values())


def _of_passage(passage: Passage, citation: int) -> list[Unit]:
    text = passage.text
    marks = [(match.start(), plain(match.group(2))) for match in _HEADING.finditer(text)]
    headings = [(start, "" if title == passage.title else title) for start, title in marks]
    items = list_items(text)
    covered = [(item.start, item.end) for item in items] + [match.span() for match in _HEADING.finditer(text)]

    def heading_at(offset: int) -> str:
        above = [title for start, title in headings if start <= offset]
        return above[-1] if above else passage.section.rpartition(" › ")[2]

    units = [
        Unit(
            _clean(item.text),
            citation,
            passage.document,
            passage.start + item.start,
            True,
            item.number,
            heading_at(item.start),
        )
        for item in items
    ]
    for start, end in sentences(text):
        if any(begin <= start < stop for begin, stop in covered):
            continue
        body = _clean(text[start:end])
        if len(words(body)) >= MIN_WORDS and body != passage.title:
            units.append(Unit(body, citation, passage.document, passage.start + start, heading=heading_at(start)))
    return sorted((unit for unit in units if unit.text), key=lambda unit: unit.at)


def _clean(text: str) -> str:
    """One line of plain text. Marks such as `[2]` that the document has itself would pass for citations: they go."""
    return " ".join(strip_citations(printable(plain(_IMAGE.sub(" ", text)))).split())


def steps_of(hits: Sequence[Hit]) -> list[Unit]:
    """The steps that the best document gives, in its order; empty where it has no list that reads as steps.

    Items under a heading such as "Directions" or "Steps" come first, else the numbered items that stand under no
    heading of materials. A single item is no procedure.
    """
    if not hits:
        return []
    document = hits[0].passage.document
    items = sorted(
        (unit for unit in units_of(hits) if unit.item and unit.document == document), key=lambda unit: unit.at
    )
    under = [unit for unit in items if _PROCEDURE_HEADING.search(unit.heading)]
    numbered = [unit for unit in items if unit.number is not None and not _MATERIAL_HEADING.search(unit.heading)]
    named = [unit for unit in under if unit.number is not None] or under
    best = named if len(named) >= 2 else numbered
    return best if len(best) >= 2 else []
