"""Writes the values of a Word form into its text: check boxes, and what was chosen in drop-down lists.

Word draws them from their properties, which pandoc ignores.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TRUE = (None, "", "1", "true", "on")


def write_form_values(tree: Any) -> None:
    """Write the state of check boxes and the chosen values of lists as text, unless the text already has them."""
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


def _run(words: str) -> Any:
    run = etree.Element(f"{_W}r")
    etree.SubElement(run, f"{_W}t").text = words
    return run
