"""What an extractive answer is made of: the sentences and list items of the evidence, each with its citation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnmark.assistant.steps.blocks import Block, code_blocks, table_rows
from turnmark.corpora.text import list_items, plain, printable, sentences, strip_citations, words
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit

# Behind number signs, or a line with a rule drawn under it; a list item above a rule is no heading.
_HEADING = re.compile(
    r"^ {0,3}#{1,6}\s+(?P<marked>.*?)\s*#*\s*$"
    r"|^ {0,3}(?![-*+>|#]|\d{1,9}[.)])(?P<ruled>\S[^\n]{0,200})\n {0,3}(?:=+|-{2,})[ \t]*$",
    re.MULTILINE,
)
# Bounded, so that a text of nothing but opening brackets takes no longer than another.
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)")
MIN_WORDS = 3
_ENDS = re.compile(r"[.!?…。！？؟।۔:;][\"'”’»)\]*_]*$")
_QUOTED = re.compile(r"^(?:>[ \t]?)+", re.MULTILINE)
_LINK = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_BOILERPLATE = re.compile(
    r"\b(all rights reserved|click here|cookie policy|terms of (use|service)|privacy policy|sign up|log in|"
    r"subscribe|read more|learn more|back to top|skip to (main )?content)\b|©",
    re.IGNORECASE,
)
_SHORT = 12  # words: boilerplate is short; a long sentence may well speak of signing up
_MOST_LINKS = 3


@dataclass(frozen=True)
class Unit:
    """A sentence or list item. `at` is its offset in its document, so that overlapping passages give it once.

    `whole` is False for what no answer should show: half a sentence that a passage begins or ends with, a list of
    links,
    boilerplate, and what only introduces a list. `bold`: the sentence opens in bold. Short code belongs to the sentence
    before it; the row of a table is a unit, its cells joined by dashes.
    """

    text: str
    citation: int
    document: str
    at: int
    item: bool = False
    number: int | None = None
    heading: str = ""
    whole: bool = True
    bold: bool = False


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
    marks = [(match.start(), plain(match["marked"] or match["ruled"] or "")) for match in _HEADING.finditer(text)]
    headings = [(start, "" if title == passage.title else title) for start, title in marks]
    code, rows = code_blocks(text), list(table_rows(text))
    items = [item for item in list_items(text) if not _inside(item.start, code)]
    covered = [(item.start, item.end) for item in items] + [match.span() for match in _HEADING.finditer(text)]
    covered += [(block.start, block.end) for block in (*code, *rows)]

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
            whole=_shows(item.text),
        )
        for item in items
    ]
    units += [
        Unit(_clean(row.text), citation, passage.document, passage.start + row.start, heading=heading_at(row.start))
        for row in rows
        if len(words(row.text)) > 1
    ]
    last = len(text.rstrip())
    for start, end in sentences(text):
        if any(begin <= start < stop for begin, stop in covered):
            continue
        body, bold = _clean(text[start:end]), text.startswith(("**", "__"), start)
        size = len(words(body))
        if size >= (1 if bold else MIN_WORDS) and body != passage.title:
            cut = (not text[:start].strip() and body[:1].islower()) or (end == last and not _ENDS.search(body))
            whole = size >= MIN_WORDS and not cut and body[-1] not in ":：" and _shows(text[start:end])
            units.append(
                Unit(
                    body,
                    citation,
                    passage.document,
                    passage.start + start,
                    heading=heading_at(start),
                    whole=whole,
                    bold=bold,
                )
            )
    return _with_code(sorted((unit for unit in units if unit.text), key=lambda unit: unit.at), code, passage.start)


def _inside(offset: int, blocks: Sequence[Block]) -> bool:
    return any(block.start <= offset < block.end for block in blocks)


def _with_code(units: list[Unit], code: Sequence[Block], start: int) -> list[Unit]:
    """The units, each with the short code that follows it before the next unit."""
    for block in code:
        before = [at for at, unit in enumerate(units) if unit.at < start + block.start]
        if before and block.text and "`" not in block.text:
            unit = units[before[-1]]
            shown = f"{unit.text} `{_clean(block.text)}`"
            units[before[-1]] = replace(unit, text=shown, whole=len(words(unit.text)) >= MIN_WORDS)
    return units


def _shows(raw: str) -> bool:
    """Whether a sentence or item, as it stands in its document, is more than links or boilerplate."""
    links = _LINK.findall(raw)
    if len(links) >= _MOST_LINKS:
        return False
    said = words(_LINK.sub(" ", raw))
    return bool(said) and not (len(said) <= _SHORT and _BOILERPLATE.search(raw))


def _clean(text: str) -> str:
    """One line of plain text. Marks such as `[2]` that the document has itself would pass for citations: they go."""
    return " ".join(strip_citations(printable(plain(_QUOTED.sub("", _IMAGE.sub(" ", text))))).split())
