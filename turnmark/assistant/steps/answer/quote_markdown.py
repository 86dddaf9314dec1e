"""Format quotations and further places as Markdown, with the best sentences in bold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.citations.marks import ITEM_MARK, TextLine, lines_of, without_item_mark
from turnmark.assistant.steps.answer.quote_spans import QuotedSpan
from turnmark.assistant.steps.step_results import (
    SourceList,
)
from turnmark.assistant.types import ProcedureStep
from turnmark.core.untrusted import ellipsize, escape_marks, make_printable, one_line
from turnmark.retrieval.types import Hit

MAX_PLACE_CHARACTERS = 180
"""Maximum length of the sentence of a further place."""


def format_span(span: QuotedSpan, number: int) -> str:
    """Format a span for the reply: the heading path, then the document's text with its best sentences in bold.

    Args:
        number: citation number `[n]` of the span.
    """
    start, text = span.bounds[0], span.text
    for best in sorted(dict.fromkeys(span.best_lines), key=lambda line: -line.start):
        begin, stop = best.start - start, best.end - start
        if best.kind in ("sentence", "item"):
            text = text[:begin] + set_bold(text[begin:stop]) + text[stop:]
        elif best.kind == "row":
            text = text[:begin] + bold_row(text[begin:stop]) + text[stop:]
    *caption, head = span.above.rsplit("\n\n", 1)
    above = head if any(name in text for name in caption) else span.above
    text = "\n".join(filter(None, (above, _omitted_rows(span, 0), text, _omitted_rows(span, -1))))
    mark = f"\n[{number}]" if span.lines[-1].kind in ("code", "row") else f" [{number}]"
    body = _EMPTY_QUOTES.sub("", escape_marks(make_printable(text))).strip("\n").rstrip() + mark
    return (
        f"{escape_marks(span.heading)}  \n{body}" if span.heading else body
    )  # two trailing spaces: a Markdown line break


OMITTED_ROWS = "| … |"
"""The row that replaces rows of a table that are not quoted."""


def _omitted_rows(span: QuotedSpan, at: int) -> str:
    """Return `OMITTED_ROWS` if a span begins (`at` is 0) or ends (-1) inside a table, else an empty text."""
    line, passage = span.lines[at], span.hit.passage
    block = [each for each in lines_of(passage) if each.block == line.block]
    body = [each for each in block if each.kind == "row"]
    is_whole = bool(at) or block[0].kind == "head" or not passage.header  # a table may begin in another passage
    return "" if line.kind != "row" or (line == body[at] and is_whole) else OMITTED_ROWS


def bold_row(text: str) -> str:
    """Set the cells of a table's row in bold; a cell with other asterisks stays unchanged."""
    pieces = []
    for piece in _CELL_BORDER.split(text):
        cell = _STRONG.sub(r"\2", piece.strip())
        marked = f"**{cell}**" if cell and cell != "|" and "*" not in cell else piece.strip()
        pieces.append(piece.replace(piece.strip(), marked, 1) if piece.strip() else piece)
    return "".join(pieces)


_CELL_BORDER = re.compile(r"((?<!\\)\|)")


def set_bold(text: str) -> str:
    """Set a sentence or list item in bold: its first paragraph, after the item mark and without emphasis inside.

    Text with a code fence is returned unchanged.
    """
    mark = _LINE_START.match(text)
    lead = mark.group() if mark else ""
    body, gap, rest = text[len(lead) :].rstrip().partition("\n\n")
    if "```" in body:
        return text
    plain = _EMPHASIS.sub("", body).strip()
    match = _IN_BRACKETS.fullmatch(plain) or _WIDE_MARKS.fullmatch(plain)
    opening, inner, closing = match.groups()  # type: ignore[union-attr]
    return f"{lead}{opening}**{inner.strip()}**{closing}{gap}{rest}" if inner.strip() else text


_IN_BRACKETS = re.compile(r"([「『（《【“])([^「『（《【“」』）》】”]*?)([。！？｡]*[」』）》】”][。！？｡]*)")
_WIDE_MARKS = re.compile(r"()(.*?)([。！？｡؟।]+|[。！？｡]*[」』）》】”]+|)", re.DOTALL)
"""Punctuation of scripts without spaces around the text in bold. In CommonMark, "字**。字" ends no bold text. Brackets
stay in pairs, as in "**字（字）**。"."""
_LINE_START = re.compile(rf"(?:>\s*)*(?:{ITEM_MARK.pattern})?")
_EMPTY_QUOTES = re.compile(r"\A(?:[> \t]*\n)+|(?:\n[> \t]*)+\Z")
"""Empty lines, also of block quotations (`>`), at the start and end of a span."""
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")


def format_places(
    places: Sequence[tuple[Hit, TextLine]], sources: SourceList, shown: Sequence[QuotedSpan]
) -> list[str]:
    """Return the list of further places as Markdown; empty if there is none.

    The title of a document that is quoted already is left out. The path of the document stands for missing names.
    """
    titles = {span.hit.passage.title for span in shown}
    rows = []
    for (hit, line), number in zip(places, sources.number(hit for hit, _ in places), strict=True):
        title, section = hit.passage.title, line.heading("")
        names = dict.fromkeys(filter(None, ("" if section and title in titles else title, section)))
        path = _plain(" › ".join(names)).replace("*", "").strip(" :：") or _plain(hit.passage.document).replace("*", "")
        text = (
            line.text
            if line.kind != "code"
            else " ".join(_FENCE.sub("", hit.passage.text[line.start : line.end]).split())
        )
        rows.append(f"- *{path}*: {ellipsize(_plain(without_item_mark(text)), MAX_PLACE_CHARACTERS)} [{number}]")
    return ["\n".join(rows)] if rows else []


_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)


def _plain(text: str) -> str:
    """Return a text as one line that sets nothing in bold, and has neither links nor citation marks."""
    return escape_marks(_STRONG.sub(r"\2", one_line(text))).replace("](", "] (")


def list_steps(span: QuotedSpan, number: int) -> tuple[ProcedureStep, ...]:
    """Return the items of a quoted list as procedure steps; empty if it has fewer than two.

    Args:
        number: citation number `[n]` of the span.
    """
    items = [line for line in span.lines if line.kind == "item"]
    texts = [without_item_mark(line.text).strip() for line in items]
    return (
        tuple(ProcedureStep(step=escape_marks(text), citations=(number,)) for text in texts if text)
        if len(texts) > 1
        else ()
    )
