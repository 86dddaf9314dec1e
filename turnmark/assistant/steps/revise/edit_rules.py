"""Changes of an answer by rules: they select, rearrange and reformat its lines, and never write words of their own.

An answer is a series of sections: a quotation below its heading path, a text without one, or a note such as "I found
nothing about …". A change applies to each section, so that each part of a compound answer stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from turnmark.assistant.citations.marks import ITEM_MARK, TextLine, lines_of, without_item_mark
from turnmark.assistant.steps.understand.edit_requests import EditKind, EditRequest
from turnmark.assistant.steps.verify.claim_support import content_stems, language_of_sources, stems
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.assistant.wording.reply_texts import UNSURE_PART_TEXT, UNSURE_TEXT, text_at_start
from turnmark.corpora.text.segmentation import reading_words
from turnmark.corpora.types import Passage

_BLOCK = re.compile(r"(?:^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$|.)+?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)
"""A paragraph, which may contain a block of code with empty lines."""
_FURTHER_PLACES = re.compile(r"(?:- \*[^*\n]+\*: [^\n]+(?:\n|\Z))+")
"""A paragraph of further places, which follows the quotation: items of a heading path in italics and a sentence."""
_BOLD = re.compile(rf"[\s>|]*(?:{ITEM_MARK.pattern})?\*\*.*\*\*[\s.。！？|]*", re.DOTALL)
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_PAIR = re.compile(r"(.{1,80}?)(?:\s+[–—-]\s+|:\s+|：\s*)(.+)", re.DOTALL)
"""An item such as "axe – 4" or "axe: 4"."""


@dataclass(frozen=True)
class Section:
    """A section of an answer.

    Attributes:
        head: heading path on a line of its own; may be empty.
        body: the text below it.
        is_note: whether the text is a sentence of the assistant, which no change removes.
        is_complete: whether the message asked for a list or for steps, so that no item may be dropped.
    """

    head: str
    body: str
    is_note: bool = False
    is_complete: bool = False

    @cached_property
    def lines(self) -> tuple[TextLine, ...]:
        """All lines of the body, in order."""
        return lines_of(Passage(id="", document="", title="", text=self.body, start=0, end=len(self.body)))

    @cached_property
    def units(self) -> list[int]:
        """Positions of the sentences, items, rows and blocks of code that can be kept or dropped."""
        says = [line.can_answer and any(map(str.isalnum, line.text)) for line in self.lines]
        return [] if self.is_note else [position for position, each in enumerate(says) if each]

    @cached_property
    def items(self) -> list[int]:
        """Positions of the list items, or else of the table rows; empty for fewer than two."""
        kinds = ([at for at in self.units if self.lines[at].kind == kind] for kind in ("item", "row"))
        return next((positions for positions in kinds if len(positions) > 1), [])

    @property
    def best(self) -> int | None:
        """Position of the longest unit that is completely in bold, which answers best."""
        bold = [position for position in self.units if _BOLD.fullmatch(self.raw(position))]
        return max(bold, key=lambda position: len(self.raw(position)), default=None)

    def raw(self, position: int) -> str:
        """Return a line with its markup."""
        return self.body[self.lines[position].start : self.lines[position].end]

    def keep(self, positions: Collection[int]) -> Section:
        """Return the section with some of its lines; a note stays. What was not adjacent becomes a new paragraph."""
        blocks = {self.lines[at].block for at in positions if self.lines[at].kind == "row"}
        heads = {at for at, line in enumerate(self.lines) if line.kind == "head" and line.block in blocks}
        kept = sorted({*positions, *heads})
        text = "".join(map(self.raw, kept[:1]))
        for before, at in pairwise(kept):
            gap = "\n" if self.lines[at].kind in ("item", "row") and self.lines[before].kind != "sentence" else "\n\n"
            text += (self.body[self.lines[before].end : self.lines[at].start] if at == before + 1 else gap) + self.raw(
                at
            )
        return self if self.is_note else replace(self, body=text)

    def marked_items(self) -> Iterator[tuple[str, str]]:
        """Yield the mark and the text of each item; a row has no mark."""
        for item in map(self.raw, self.items):
            text = without_item_mark(item)
            yield item.removesuffix(text), text

    @property
    def best_place(self) -> Section:
        """The section without the further places below its quotation."""
        blocks = re.split(r"\n[ \t]*\n", self.body)
        while len(blocks) > 1 and "**" not in blocks[-1] and _FURTHER_PLACES.fullmatch(blocks[-1]):
            blocks.pop()
        return replace(self, body="\n\n".join(blocks))

    @property
    def text(self) -> str:
        """The section as it stands in the answer; empty if nothing of its body is left."""
        return "\n".join(filter(None, (self.head, self.body))) if self.body.strip() else ""


_QUOTE_MARK = re.compile(r"^> ?", re.MULTILINE)
_DOUBTS = UNSURE_TEXT, UNSURE_PART_TEXT


def sections_of(answer: str, is_complete: bool = False) -> list[Section]:
    """Return the sections of an answer without citation marks."""
    sections: list[Section] = []
    for match in _BLOCK.finditer(answer):
        block = match.group().strip("\n")
        if not block.strip():
            continue
        head, _, body = block.strip().partition("\n")
        if text_at_start(block, *_DOUBTS) == block.strip() or (not body and is_refusal(block)):
            sections.append(Section("", block.strip(), is_note=True))
        elif body.strip() and _is_heading_path(head):
            sections.append(Section(head, body, is_complete=is_complete))
        elif sections and not sections[-1].is_note:
            sections[-1] = replace(sections[-1], body=f"{sections[-1].body}\n\n{block}")
        else:
            sections.append(Section("", block, is_complete=is_complete))
    return sections


def _is_heading_path(line: str) -> bool:
    """Return whether a line is a heading path, which ends in a Markdown line break; an edited answer may lack it."""
    return line.endswith("  ") or (" › " in line and not _FURTHER_PLACES.fullmatch(line))


def apply_requests(previous: str, requests: Sequence[EditRequest], is_complete: bool = False) -> str:
    """Apply requested changes to an answer without marks, one by one, or return "" if rules cannot apply all of them.

    Args:
        is_complete: see `Section`.
    """
    text = previous if requests else ""
    for request in requests:
        if request.kind in ("list", "table"):
            text = _QUOTE_MARK.sub("", text)  # items and rows are no quotations
        sections = sections_of(text, is_complete)
        if request.kind in ("only", "without"):
            sections = _select(sections, request)
        elif request.kind in ("shorter", "limit"):
            change = _CHANGES[request.kind]
            share = request.count // max(1, sum(not section.is_note for section in sections))
            limit = request.model_copy(update={"count": share}) if request.option else request
            before, sections = sections, [change(section.best_place, limit) for section in sections]
            # Each part of the answer stays, or nothing is changed.
            if any(old.units and not new.text for old, new in zip(before, sections, strict=True)):
                sections = []
        else:
            best = [section.best_place for section in sections if request.kind in _CHANGES]
            sections = [_CHANGES[request.kind](section, request) for section in best]
        texts: list[str] = []
        for section in reversed(sections):  # a note that introduces nothing is left out
            if section.text and (texts or not text_at_start(section.body, *_DOUBTS)):
                texts.insert(0, section.text)
        text = "\n\n".join(texts) if any(section.text and not section.is_note for section in sections) else ""
    return text


def _shorten(section: Section, _: EditRequest) -> Section:
    """Drop about half of the units from the end, but not the best one, nor code; of a list asked for, only what is
    around it.
    """
    items, units, best = _items_asked_for(section), section.units, section.best
    code = [at for at in units if section.lines[at].kind == "code"]
    if items:
        first = items[0] - 1
        introduction = [first] if first in units and section.raw(first)[-1] in ":：" else []
        return section.keep([*introduction, *items, *code, *([] if best is None else [best])])
    size = max(1, len(units) // 2)
    end = size if best is None else max(size, units.index(best) + 1)
    return section.keep([*units[end - size : end], *code])


def _items_asked_for(section: Section) -> list[int]:
    """Return the items and the code among them, if all belong to the answer: asked for, numbered, or none is best."""
    items = section.items
    if not items or (section.best in items and not section.is_complete and not section.raw(items[0])[0].isdigit()):
        return []
    return [at for at in section.units if at in items or (section.lines[at].kind == "code" and at > items[0])]


def _limit(section: Section, request: EditRequest) -> Section:
    """Keep the best sentences, at most `count` sentences or words, without the heading path."""
    asked_for = _items_asked_for(section)
    units = [at for at in section.units if at not in asked_for and section.raw(at)[-1] not in ":："]
    units.sort(key=lambda at: (at < (section.best or 0), at))
    if request.option:
        sizes = [reading_words(section.lines[at].text) for at in units]
        units = [at for number, at in enumerate(units, 1) if sum(sizes[:number]) <= request.count]
    return replace(section.keep(units[: request.count]), head="")


def _select(sections: Sequence[Section], request: EditRequest) -> list[Section]:
    """Keep only, or leave out, the lines that a request chooses; return nothing if the answer has none of them."""
    chosen = _lines_about(sections, request.about) if request.about else _counted_lines(sections, request)
    if request.kind == "without" and chosen:
        everything = {(number, at) for number, section in enumerate(sections) for at in range(len(section.lines))}
        chosen = list(everything - set(chosen))
    return [section.keep([at for each, at in chosen if each == number]) for number, section in enumerate(sections)]


_LineNumber = tuple[int, int]
"""Numbers of a section and of a line in it."""


def _lines_about(sections: Sequence[Section], about: str) -> list[_LineNumber]:
    """Return the lines that share most words with a subject; the words of a heading count for its lines."""
    language = language_of_sources([section.body for section in sections], about)
    subject = content_stems(about, language) or stems(about, language)
    shared: dict[_LineNumber, int] = {
        (number, at): len(subject & stems(f"{section.head} {section.lines[at].text}", language))
        for number, section in enumerate(sections)
        for at in section.units
    }
    most = max(shared.values(), default=0)
    return [place for place, count in shared.items() if count == most > 0]


def _counted_lines(sections: Sequence[Section], request: EditRequest) -> list[_LineNumber]:
    """Return the first or last lines: those of the list with the best item, or of a list, or else of the answer."""
    lists = [number for number, section in enumerate(sections) if section.items]
    lists.sort(key=lambda number: sections[number].best not in sections[number].items)
    numbers = lists[:1] or range(len(sections))
    places = [(number, at) for number in numbers for at in sections[number].items or sections[number].units]
    if request.at:
        printed = [(number, at) for number, at in places if re.match(rf"{request.at}[.)]", sections[number].raw(at))]
        return printed[:1] or places[request.at - 1 : request.at]
    if len(places) <= request.count:
        return []
    return places[-request.count :] if request.last else places[: request.count]


def _only_steps(section: Section, _: EditRequest) -> Section:
    items = [at for at in section.units if section.lines[at].kind == "item"]
    return section.keep([at for at in items if section.raw(at)[0].isdigit()] or items)


def _as_list(section: Section, _: EditRequest) -> Section:
    rows = [f"- {text}" for text in _plain_lines(section)]
    return section if section.is_note else Section("", "\n".join(rows))


def _plain_lines(section: Section) -> Iterator[str]:
    """Yield the units of a section as lines without item marks and cell borders."""
    for at in section.units:
        text = section.raw(at).strip()
        if section.lines[at].kind == "row":
            yield " – ".join(filter(None, map(str.strip, _CELL_BORDER.split(text.replace("**", "")))))
        elif section.lines[at].kind == "code":
            lines = (line.strip() for line in text.splitlines())
            yield from (f"`{line}`" for line in lines if line and not line.startswith(("```", "~~~")))
        elif text[-1:] not in (":", "："):
            yield without_item_mark(" ".join(text.split()))


def _as_table(section: Section, _: EditRequest) -> Section:
    """Keep the table, or put items such as "axe: 4" into one."""
    rows = [at for at in section.units if section.lines[at].kind == "row"]
    pairs = [
        _PAIR.fullmatch(text.replace("**", "").replace("|", "\\|"))
        for text in _plain_lines(section.keep(section.items))
    ]
    if rows or not (pairs and all(pairs)):
        return section.keep(rows)
    return replace(section, body="\n".join(["| | |", "| --- | --- |", *(f"| {p[1]} | {p[2]} |" for p in pairs if p)]))


def _reorder(section: Section, request: EditRequest) -> Section:
    """Reverse or sort the items; the marks of a numbered list stay in place."""
    marks, texts = zip(*section.marked_items(), strict=True) if section.items else ((), ())
    ordered = sorted(texts, key=lambda text: text.strip("*|` ").casefold()) if request.option else texts[::-1]
    head = [section.raw(at) for at, line in enumerate(section.lines) if line.kind == "head"]
    return section if section.is_note else replace(section, body="\n".join([*head, *map(str.__add__, marks, ordered)]))


_CHANGES: dict[EditKind, Callable[[Section, EditRequest], Section]] = {
    "shorter": _shorten,
    "limit": _limit,
    "steps": _only_steps,
    "list": _as_list,
    "table": _as_table,
    "order": _reorder,
}
