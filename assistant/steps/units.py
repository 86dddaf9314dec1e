"""What an extractive answer is made of: the sentences and list items of the evidence, each with its citation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from turnmark.corpora.text import list_items, plain, printable, sentences, strip_citations, words
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit

MOST_LINES, MOST_CHARACTERS = 3, 200
"""Of code that is shown with the sentence before it."""
_FENCED = re.compile(
    r"^(?P<mark> {0,7}(?:`{3,}|~{3,}))[^\n]*\n(?P<code>.*?)(?:^ {0,7}(?:`{3,}|~{3,})[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
# A capital letter behind "#" begins a comment.
_PROMPT = re.compile(r"^\s*[\w.@~:/-]*(?:[$>%]|#(?!\s+[A-Z]))\s+(?P<command>\S.*)$")
_ROW = re.compile(r"^[ \t]{0,3}\|(?P<cells>[^\n]*)\|?[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:+=-]*")


@dataclass(frozen=True)
class Block:
    """A block of code or a row of a table: its place in the passage, and its text on one line ("" if too long)."""

    start: int
    end: int
    text: str


def code_blocks(text: str) -> list[Block]:
    """The blocks of code in a passage, fenced or indented, in order."""
    fenced = [Block(match.start(), match.end(), _short(match["code"])) for match in _FENCED.finditer(text)]
    indented = [
        Block(match.start(), match.end(), _short(match.group()))
        for match in _INDENTED.finditer(text)
        if not any(block.start <= match.start() < block.end for block in fenced)
    ]
    return sorted([*fenced, *indented], key=lambda block: block.start)


def _short(code: str) -> str:
    """Code in one line: all of it where it is short, else the commands that are typed at a prompt."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    typed = [match["command"].strip() for line in lines if (match := _PROMPT.match(line))]
    visible = typed or lines
    joined = "; ".join(visible)
    return joined if 0 < len(visible) <= MOST_LINES and len(joined) <= MOST_CHARACTERS else ""


def table_rows(text: str) -> Iterator[Block]:
    """The rows of a passage's tables that hold data, cells joined by a dash; the row above a rule only names them."""
    rows = [(match.start(), match.end(), match["cells"]) for match in _ROW.finditer(text)]
    rules = {at for at, (_, _, cells) in enumerate(rows) if _RULE.fullmatch(cells)}
    for at, (start, end, cells) in enumerate(rows):
        parts = [part.strip() for part in cells.split("|") if part.strip()]
        data = at not in rules and at + 1 not in rules and len(parts) > 1
        yield Block(start, end, " — ".join(parts) if data else "")


# Behind number signs, or a line with a rule drawn under it; a list item above a rule is no heading.
_HEADING = re.compile(
    r"^ {0,3}#{1,6}\s+(?P<marked>.*?)\s*#*\s*$"
    r"|^ {0,3}(?![-*+>|#]|\d{1,9}[.)])(?P<ruled>\S[^\n]{0,200})\n {0,3}(?:=+|-{2,})[ \t]*$",
    re.MULTILINE,
)
# Bounded, so that a text of nothing but opening brackets takes no longer than another.
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)")
MIN_WORDS = 3
_TITLE = re.compile(r"^\*\*[^*\n]+[^*\n.!?:]\*\*[ \t]*$", re.MULTILINE)
"""A paragraph in bold that ends without a mark: the title of a box, which is no sentence."""
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

    `complete` is False for what no answer should show: half a sentence that a passage begins or ends with, a list of
    links, boilerplate, and what only introduces a list. `bold`: the sentence opens in bold. Short code belongs to the
    sentence before it; the row of a table is a unit, its cells joined by dashes.
    """

    text: str
    citation: int
    document: str
    at: int
    item: bool = False
    number: int | None = None
    heading: str = ""
    complete: bool = True
    bold: bool = False


def units_of(hits: Sequence[Hit]) -> list[Unit]:
    """Sentences and list items of all passages, in the order of the passages; doubles of overlapping ones left out."""
    units: dict[tuple[str, int], Unit] = {}
    for citation, hit in enumerate(hits, 1):
        for unit in _of_passage(hit.passage):
            earlier = units.get((unit.document, unit.at))
            # Of two, the shorter: its passage ended in the middle of it.
            if earlier is None or len(unit.text) > len(earlier.text):
                units[(unit.document, unit.at)] = replace(unit, citation=citation)
    return list(units.values())


@lru_cache(maxsize=512)
def _of_passage(passage: Passage) -> tuple[Unit, ...]:
    """The units of one passage, as citation 1. Kept: several steps of a turn look at the same passages."""
    text = passage.text
    marks = [(match.start(), plain(match["marked"] or match["ruled"] or "")) for match in _HEADING.finditer(text)]
    headings = [(start, "" if title == passage.title else title) for start, title in marks]
    code, rows = code_blocks(text), list(table_rows(text))
    items = [item for item in list_items(text) if not _inside(item.start, code)]
    covered = [(item.start, item.end) for item in items] + [match.span() for match in _HEADING.finditer(text)]
    titles = [match for match in _TITLE.finditer(text) if not _inside(match.start(), code)]
    covered += [(block.start, block.end) for block in (*code, *rows)] + [match.span() for match in titles]

    def heading_at(offset: int) -> str:
        above = [title for start, title in headings if start <= offset]
        return above[-1] if above else passage.section.rpartition(" › ")[2]

    units = [
        Unit(
            _JOINED_ON.sub("", _clean(item.text)),
            1,
            passage.document,
            passage.start + item.start,
            True,
            item.number,
            heading_at(item.start),
            complete=_shows(item.text),
        )
        for item in items
    ]
    units += [
        Unit(_clean(row.text), 1, passage.document, passage.start + row.start, heading=heading_at(row.start))
        for row in rows
        if len(words(row.text)) > 1
    ]
    units += [
        Unit(
            _clean(match.group()),
            1,
            passage.document,
            passage.start + match.start(),
            heading=heading_at(match.start()),
            complete=False,
            bold=True,
        )
        for match in titles
    ]
    last = len(text.rstrip())
    for start, end in sentences(text):
        if any(begin <= start < stop for begin, stop in covered):
            continue
        body, bold = _clean(text[start:end]), text.startswith(("**", "__"), start)
        size = len(words(body))
        if size >= (1 if bold else MIN_WORDS) and body != passage.title:
            cut = (not text[:start].strip() and body[:1].islower()) or (end == last and not _ENDS.search(body))
            complete = size >= MIN_WORDS and not cut and body[-1] not in ":：" and _shows(text[start:end])
            units.append(
                Unit(
                    body,
                    1,
                    passage.document,
                    passage.start + start,
                    heading=heading_at(start),
                    complete=complete,
                    bold=bold,
                )
            )
    in_order = sorted((unit for unit in units if unit.text), key=lambda unit: unit.at)
    return tuple(_with_code(in_order, code, passage.start))


_JOINED_ON = re.compile(r"\s*[;,]\s*(?:and|or)\W*$", re.IGNORECASE)
"""The end of a list item that only leads on to the next."""
LIST_WORDS, LEAD_WORDS = 50, 25
"""Of a list that is shown as one sentence with what leads up to it, and of what leads up to an item of a longer one."""


def with_lists(units: Sequence[Unit]) -> list[Unit]:
    """The units, each list behind a sentence that ends in a colon joined to that sentence.

    A short list becomes one unit. Of a longer one, what is no sentence of its own stands behind that sentence.
    """
    joined: list[Unit] = []
    at = 0
    while at < len(units):
        lead, end = units[at], at + 1
        while end < len(units) and units[end].item and units[end].citation == lead.citation:
            end += 1
        items = units[at + 1 : end]
        if lead.item or not items or lead.text[-1] not in ":：":
            joined.append(lead)
            at += 1
            continue
        texts = [item.text.rstrip(" ;,.") for item in items]
        if len(items) > 1 and sum(len(words(text)) for text in (lead.text, *texts)) <= LIST_WORDS:
            joined.append(replace(lead, text=f"{lead.text} {'; '.join(texts)}.", complete=True))
        else:
            joined.append(lead)
            joined += [_behind(lead, item, text) for item, text in zip(items, texts, strict=True)]
        at = end
    return joined


def _behind(lead: Unit, item: Unit, text: str) -> Unit:
    """An item of a list behind its lead, where it is no sentence of its own."""
    fragment = item.text[:1].islower() and len(words(lead.text)) <= LEAD_WORDS
    return replace(item, text=f"{lead.text} {text}.") if fragment and text else item


def _inside(offset: int, blocks: Sequence[Block]) -> bool:
    return any(block.start <= offset < block.end for block in blocks)


def _with_code(units: list[Unit], code: Sequence[Block], start: int) -> list[Unit]:
    """The units, each with the short code that follows it before the next unit."""
    for block in code:
        preceding = [at for at, unit in enumerate(units) if unit.at < start + block.start]
        code_text = _clean(block.text)
        if preceding and code_text and "`" not in code_text:
            unit = units[preceding[-1]]
            ticked = f"`{code_text}`"
            # The code of a list item is in its text already.
            with_code = unit.text.replace(code_text, ticked) if code_text in unit.text else f"{unit.text} {ticked}"
            units[preceding[-1]] = replace(unit, text=with_code, complete=len(words(unit.text)) >= MIN_WORDS)
    return units


def _shows(raw: str) -> bool:
    """Whether a sentence or item, as it stands in its document, is more than links or boilerplate."""
    links = _LINK.findall(raw)
    if len(links) >= _MOST_LINKS:
        return False
    visible_words = words(_LINK.sub(" ", raw))
    return bool(visible_words) and not (len(visible_words) <= _SHORT and _BOILERPLATE.search(raw))


def _clean(text: str) -> str:
    """One line of plain text. Marks such as `[2]` that the document has itself would pass for citations: they go."""
    return " ".join(strip_citations(printable(plain(_QUOTED.sub("", _IMAGE.sub(" ", text))))).split())
