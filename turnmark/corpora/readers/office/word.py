"""Prepares a Word file for pandoc, so that no text is lost.

Pandoc ignores simple fields (e.g. the number of a caption), the base text of a pronunciation guide (ruby), text with
its own direction, custom XML, double strikethrough, links without a target, the text of a paragraph in which a text
box is anchored, charts, diagrams, the values of form fields, and the parts of other formats that exporters embed
(altChunk). It shows hidden text.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from turnmark.corpora.readers.common.prose import Unreadable, declared_encoding, decode, small_number
from turnmark.corpora.readers.markup.html import parse_html
from turnmark.corpora.readers.office.archive import (
    MAX_UNPACKED_BYTES,
    insert_after,
    parse_extra,
    parse_part,
    related_parts,
    with_usual_names,
    write_changed,
)
from turnmark.corpora.readers.office.charts import RELATIONSHIP, Chart, drawn_objects
from turnmark.corpora.tables.markdown_tables import tables_of
from turnmark.corpora.text.segmentation import heading_text


def embedded_blocks(data: bytes, name: str) -> list[Any] | None:
    """Return the blocks of an embedded part as elements of Word, or None if it cannot be read."""
    try:
        if data.startswith(b"PK"):
            return _word_blocks(data)
        head = data[:4000].lower()
        if b"mime-version" in head or name.lower().endswith((".mht", ".mhtml", ".eml")):
            message = message_from_bytes(data, policy=policy.default)
            page = message.get_body(preferencelist=("html", "plain"))
            return _page_blocks(str(page.get_content())) if page is not None else None
        if data.lstrip().startswith(b"{\\rtf"):
            return None
        text = decode(data, declared_encoding(data) or "cp1252")
        return (
            _page_blocks(text)
            if b"<" in head
            else [_paragraph(line) for line in map(str.strip, text.split("\n")) if line]
        )
    except (Unreadable, zipfile.BadZipFile, LookupError, ValueError, KeyError):
        return None


def _word_blocks(data: bytes) -> list[Any] | None:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        if sum(part.file_size for part in packed.infolist()) > MAX_UNPACKED_BYTES:
            return None
        tree = parse_part(packed, "word/document.xml")
        body = tree.find("{*}body") if tree is not None else None
        return [each for each in body if not str(each.tag).endswith("}sectPr")] if body is not None else None


def _page_blocks(page: str) -> list[Any]:
    document = parse_html(page, "page.html")
    blocks = [(block.kind, document.text[block.start : block.end]) for block in document.blocks]
    return [element for kind, text in blocks for element in _block_elements(kind, text)]


def _block_elements(kind: str, text: str) -> list[Any]:
    """Return a block of Markdown as elements of Word; a heading is a bold paragraph."""
    if kind == "heading":
        return [_paragraph(heading_text(text), is_bold=True)]
    if kind == "table":
        (table,) = tables_of(text)[:1]
        return [_table([row.cells for row in (*table.head[:1], *table.rows)]), _paragraph("")]
    words = " ".join(text.split())
    is_bulleted = kind == "item" and words.startswith("- ")
    return [_paragraph(f"• {words.removeprefix('- ')}" if is_bulleted else words)]


_TEXTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_WRAPPED_TEXT = re.compile(
    rb"<\w+:(?:ins|moveTo|fldSimple|ruby|txbxContent|cr|dir|bdo|customXml|smartTag|sdt|altChunk|checkBox|ddList|chart"
    rb"|relIds|vMerge|vanish|dstrike)\b|<\w+:hyperlink\b(?![^>]*\s(?:\w+:id|\w+:anchor)=)"
)
_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_W = f"{{{_NAMESPACE}}}"
_MAKE = ElementMaker(namespace=_NAMESPACE, nsmap={"w": _NAMESPACE})
_WRAPPERS = ("ins", "moveTo", "dir", "bdo", "customXml", "smartTag", "sdtContent", "sdt")
_PROPERTIES = ("customXmlPr", "smartTagPr", "sdtPr", "sdtEndPr")
_TRUE = (None, "", "1", "true", "on")


def with_all_words(path: Path, made: Path, left_out: Counter[str]) -> bool:
    """Write a copy of a Word file that pandoc reads completely.

    Args:
        left_out: counts comments, hidden text, and parts that are embedded or drawn and cannot be read.

    Returns:
        False if pandoc reads the original completely, so that no copy was written.
    """
    with zipfile.ZipFile(path) as packed:
        changed: dict[str, bytes] = {}
        for name in packed.namelist():
            if name == "word/comments.xml":
                comments = parse_extra(packed, name, left_out)
                left_out["comments"] += sum(1 for _ in comments.iter("{*}comment")) if comments is not None else 0
            if not _TEXTS.fullmatch(name):
                continue
            tree = parse_part(packed, name)
            has_cover = _write_cover(tree, parse_extra(packed, "word/styles.xml", Counter()))
            if _WRAPPED_TEXT.search(packed.read(name)):
                left_out["hidden text"] += _remove_hidden(tree)
                _write_form_values(tree)
                _unwrap(tree)
                _take_out_boxes(tree)
                _write_objects(tree, packed, name, left_out)
                _complete_rows(tree)
            elif not has_cover:
                continue
            changed[name] = etree.tostring(tree)
        if changed:
            strict = {name: with_usual_names(packed.read(name)) for name in packed.namelist() if name.endswith(".rels")}
            write_changed(packed, made, strict | changed)
    return bool(changed)


_COVER_STYLES = frozenset(("title", "subtitle", "author", "date", "abstract"))


def _write_cover(tree: Any, styles: Any) -> bool:
    """Remove the styles that open a document, except the first title's, and return whether there were any.

    Pandoc takes leading paragraphs with these styles for metadata, and keeps one title.
    """
    names: dict[str, str] = {}
    for style in styles.iter(f"{_W}style") if styles is not None else ():
        name = style.find(f"{_W}name")
        names[str(style.get(f"{_W}styleId"))] = str(name.get(f"{_W}val") if name is not None else "").lower()
    kept: list[str] = []
    for paragraph in tree.iter(f"{_W}p"):
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        said = str(style.get(f"{_W}val")) if style is not None else ""
        name = names.get(said, said.lower())
        is_blank = not any(text.text for text in paragraph.iter(f"{_W}t"))
        if name not in _COVER_STYLES and not is_blank:
            break
        if name in _COVER_STYLES and not is_blank:
            if name != "title" or "title" in kept:
                style.getparent().remove(style)
            kept.append(name)
    return kept not in ([], ["title"])


def _remove_hidden(tree: Any) -> int:
    """Remove hidden runs, and return the number of those that have text."""
    count = 0
    for mark in list(tree.iter(f"{_W}vanish")):
        run = mark.getparent().getparent()
        if mark.get(f"{_W}val") in _TRUE and run is not None and run.tag == f"{_W}r":
            texts = run.findall(f"{_W}t")
            count += any((text.text or "").strip() for text in texts)
            for text in texts:
                run.remove(text)
    return count


def _unwrap(tree: Any) -> None:
    for field in list(tree.iter("{*}fldSimple")):
        _replace(field, list(field))
    for ruby in list(tree.iter("{*}ruby")):
        _replace(ruby.getparent(), ruby.findall("{*}rubyBase/{*}r"))
    for name, usual in (("cr", "br"), ("dstrike", "strike")):
        for element in list(tree.iter(f"{{*}}{name}")):
            element.tag = element.tag.removesuffix(name) + usual
    for name in _WRAPPERS:
        for wrapper in list(tree.iter(f"{_W}{name}")):
            _replace(wrapper, [each for each in wrapper if etree.QName(each).localname not in _PROPERTIES])
    for link in list(tree.iter(f"{_W}hyperlink")):
        if not (link.get(f"{RELATIONSHIP}id") or link.get(f"{_W}anchor")):
            _replace(link, list(link))


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
    insert_after((paragraph, block) for box, paragraph in boxes for block in list(box))
    for drawing in drawings:
        if drawing.getparent() is not None:
            drawing.getparent().remove(drawing)


# --- the values of forms ----------------------------------------------------------------------------------------------


def _write_form_values(tree: Any) -> None:
    """Write the state of check boxes and the chosen values of lists as text, unless the text already has them.

    Word draws them from their properties, which pandoc ignores.
    """
    for box in list(tree.iter(f"{_W}checkBox")):
        _write_before(box, "☒" if _is_checked(box) else "☐")
    for choices in list(tree.iter(f"{_W}ddList")):
        if not _has_result(choices):
            _write_before(choices, _find_chosen_entry(choices))
    for choices in list(tree.iter(f"{_W}dropDownList", f"{_W}comboBox")):
        _write_content(choices, _last_value(choices))


def _is_checked(box: Any) -> bool:
    state = box.find(f"{_W}checked")
    state = box.find(f"{_W}default") if state is None else state
    return state is not None and state.get(f"{_W}val") in _TRUE


def _find_chosen_entry(choices: Any) -> str:
    entries = [str(entry.get(f"{_W}val") or "") for entry in choices.iter(f"{_W}listEntry")]
    chosen = choices.find(f"{_W}result")
    chosen = choices.find(f"{_W}default") if chosen is None else chosen
    index = str(chosen.get(f"{_W}val")) if chosen is not None else "0"
    return entries[int(index)] if index.isdecimal() and len(index) < 6 and int(index) < len(entries) else ""


def _has_result(field: Any) -> bool:
    """Return whether a field has text between its beginning and its end."""
    run = _run_of(field)
    for following in run.itersiblings() if run is not None else ():
        if any((text.text or "").strip() for text in following.iter(f"{_W}t")):
            return True
        if any(mark.get(f"{_W}fldCharType") == "end" for mark in following.iter(f"{_W}fldChar")):
            return False
    return False


def _last_value(choices: Any) -> str:
    """Return the words of the value that was chosen last in a content control."""
    value = choices.get(f"{_W}lastValue") or ""
    shown = {item.get(f"{_W}value"): item.get(f"{_W}displayText") for item in choices.iter(f"{_W}listItem")}
    return str(shown.get(value) or value)


def _write_content(choices: Any, words: str) -> None:
    """Write words into a content control without text."""
    control = choices.getparent().getparent()
    if not words or control is None or control.tag != f"{_W}sdt" or any(text.text for text in control.iter(f"{_W}t")):
        return
    content = control.find(f"{_W}sdtContent")
    if content is None:
        content = etree.SubElement(control, f"{_W}sdtContent")
    paragraph = content if control.getparent().tag == f"{_W}p" else content.find(f".//{_W}p")
    if paragraph is None:
        paragraph = etree.SubElement(content, f"{_W}p")
    paragraph.append(_run(words))


def _write_before(element: Any, words: str) -> None:
    run = _run_of(element)
    if run is not None and words:
        run.addprevious(_run(words))


def _run_of(element: Any) -> Any:
    return next(element.iterancestors(f"{_W}r"), None)


# --- charts, diagrams, embedded parts --------------------------------------------------------------------------------


def _write_objects(tree: Any, packed: zipfile.ZipFile, part: str, left_out: Counter[str]) -> None:
    """Write charts as tables and diagrams as paragraphs after the paragraph that shows them, and embedded parts."""
    related = related_parts(packed, part)
    insert_after(
        (paragraph, block)
        for anchor, drawn in list(drawn_objects(packed, tree, related, left_out))
        for paragraph in list(anchor.iterancestors(f"{_W}p"))[-1:]
        for block in _drawn_blocks(drawn)
    )
    for chunk in list(tree.iter(f"{_W}altChunk")):
        _, place = related.get(str(chunk.get(f"{RELATIONSHIP}id")), ("", ""))
        blocks = embedded_blocks(packed.read(place), place) if place in packed.namelist() else None
        if blocks is None:
            left_out["embedded parts"] += 1
        _replace(chunk, blocks or [])


def _drawn_blocks(drawn: Chart | list[str]) -> list[Any]:
    if isinstance(drawn, list):
        return list(map(_paragraph, drawn))
    if drawn.rows:
        return [_table(drawn.rows), _paragraph("")]
    return [_paragraph(drawn.title)] if drawn.title else []


def _run(text: str, is_bold: bool = False) -> Any:
    bold = [_MAKE.rPr(_MAKE.b())] if is_bold else []
    return _MAKE.r(*bold, _MAKE.t(text, {"{http://www.w3.org/XML/1998/namespace}space": "preserve"}))


def _paragraph(text: str, is_bold: bool = False) -> Any:
    return _MAKE.p(*([_run(text, is_bold)] if text else []))


def _table(rows: Sequence[Sequence[str]]) -> Any:
    return _MAKE.tbl(
        _MAKE.tblPr(_MAKE.tblLook({f"{_W}firstRow": "1"})),
        _MAKE.tblGrid(*(_MAKE.gridCol() for _ in range(max(map(len, rows))))),
        *(_MAKE.tr(*(_MAKE.tc(_paragraph(cell)) for cell in row)) for row in rows),
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def _complete_rows(tree: Any) -> None:
    """Add the cells that rows lack at their end below a vertically merged cell: Word draws the merged cell there."""
    for table in tree.iter(f"{_W}tbl"):
        merged: list[bool] = []  # by column, whether the cell above is merged downwards
        for row in table.iterchildren(f"{_W}tr"):
            states: list[bool] = []
            for cell in row.iterchildren(f"{_W}tc"):
                span = cell.find(f"{_W}tcPr/{_W}gridSpan")
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                states += [merge is not None] * small_number(span.get(f"{_W}val") if span is not None else 1)
            while len(states) < len(merged) and merged[len(states)]:
                cell = etree.SubElement(row, f"{_W}tc")
                etree.SubElement(etree.SubElement(cell, f"{_W}tcPr"), f"{_W}vMerge")
                cell.append(_paragraph(""))
                states.append(True)
            merged = states
