"""Prepares a Word file for pandoc, so that no text is lost.

Pandoc ignores simple fields (e.g. the number of a caption), the base text of a pronunciation guide (ruby), and the text
of a paragraph in which a text box is anchored.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from lxml import etree

from turnmark.corpora.readers.office.archive import parse_part, write_changed

_TEXTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_MOVED = re.compile(rb"<\w+:(?:fldSimple|ruby|txbxContent|cr)\b")


def with_all_words(path: Path, made: Path) -> bool:
    """Write a copy of a Word file that pandoc reads completely.

    Returns:
        False if pandoc reads the original completely, so that no copy was written.
    """
    with zipfile.ZipFile(path) as packed:
        changed: dict[str, bytes] = {}
        for name in packed.namelist():
            if _TEXTS.fullmatch(name) and _MOVED.search(packed.read(name)):
                tree = parse_part(packed, name)
                _unwrap(tree)
                _take_out_boxes(tree)
                changed[name] = etree.tostring(tree)
        if changed:
            write_changed(packed, made, changed)
    return bool(changed)


def _unwrap(tree: Any) -> None:
    for field in list(tree.iter("{*}fldSimple")):
        _replace(field, list(field))
    for ruby in list(tree.iter("{*}ruby")):
        _replace(ruby.getparent(), ruby.findall("{*}rubyBase/{*}r"))
    for line_break in list(tree.iter("{*}cr")):
        line_break.tag = line_break.tag.removesuffix("cr") + "br"


def _replace(element: Any, others: list[Any]) -> None:
    for other in others:
        element.addprevious(other)
    element.getparent().remove(element)


def _take_out_boxes(tree: Any) -> None:
    """Move the paragraphs of text boxes after the paragraph in which they are anchored."""
    boxes: list[tuple[Any, Any]] = []
    drawings: list[Any] = []
    for box in tree.iter("{*}txbxContent"):
        above = list(box.iterancestors())
        names = [etree.QName(each).localname for each in above]
        if "Fallback" in names or "p" not in names:
            continue
        outermost = len(names) - 1 - names[::-1].index("p")
        boxes.append((box, above[outermost]))
        run = outermost - 1 - names[:outermost][::-1].index("r") if "r" in names[:outermost] else 0
        drawings.append(above[run - 1] if run else box)
    ends: dict[Any, Any] = {}
    for box, paragraph in boxes:
        for block in list(box):
            ends.get(paragraph, paragraph).addnext(block)
            ends[paragraph] = block
    for drawing in drawings:
        if drawing.getparent() is not None:
            drawing.getparent().remove(drawing)
