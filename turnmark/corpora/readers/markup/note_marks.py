"""Recognizes footnote marks in HTML: raised or linked numbers, letters and signs that lead to a note.

Kept as text, a mark would join the number before it: "in 2019" and mark 3 would become "in 20193". Exponents, ordinals
and chemical formulas are not marks, since they lead nowhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4 import Tag

_MAX_LENGTH = 40  # characters of a mark, which may name several notes
_SINGLE_MARK = r"(?:(?:note|nb|fn)\.?\s?)?\d{1,3}|[a-z]|[*†‡§¶]{1,3}"
_MARK = re.compile(rf"[\[(]?(?:{_SINGLE_MARK})(?:\]?\s?[,;–-]\s?\[?(?:{_SINGLE_MARK}))*[\])]?")
_SEPARATOR = re.compile(r"[,;–-]")
_NOTE_NAME = re.compile(
    r"(?:mso)?(?:foot|end)-?note(?:[-_]?(?:ref|reference|anchor|mark|marker|link|number|call))?"
    r"|(?:doc-)?note-?ref|fn-?ref",
    re.IGNORECASE,
)
"""Matches roles, EPUB types and classes of footnote marks."""
_NOTE_ADDRESS = re.compile(r"#(?:.*[_-])?_?(?:ftn|edn|fn|(?:foot|end)?-?note)[a-z]{0,3}[-_:.]?\d", re.IGNORECASE)
_RAISING_STYLE = re.compile(r"vertical-align\s*:\s*super", re.IGNORECASE)
_RAISED_CLASSES = frozenset({"sup", "super", "superscript"})


def is_mark_text(words: str) -> bool:
    """Return whether words can be a footnote mark, such as "[2,3]"."""
    return bool(_MARK.fullmatch(" ".join(words.split())))


def is_raised(tag: Tag) -> bool:
    """Return whether a tag raises its text."""
    if tag.name != "span":
        return tag.name == "sup"
    classes = tag.attrs.get("class") or ()
    return not _RAISED_CLASSES.isdisjoint(classes) or bool(_RAISING_STYLE.search(str(tag.attrs.get("style", ""))))


def is_note_mark(tag: Tag, before: str) -> bool:
    """Return whether a tag is a footnote mark, or raised punctuation between two of them.

    Args:
        before: the text before the tag.
    """
    if tag.name not in ("a", "sup", "span"):
        return False
    says_note = _says_note(tag)
    if tag.name == "span" and not says_note and not is_raised(tag):
        return False
    words = _words(tag)
    if tag.name == "sup" and _SEPARATOR.fullmatch(words):
        return "sup" in (getattr(tag.previous_sibling, "name", ""), getattr(tag.next_sibling, "name", ""))
    if not is_mark_text(words):
        return False
    links = [tag] if tag.name == "a" else tag("a")
    if says_note or any(map(_says_note, links)):
        return True
    addresses = [str(link.attrs.get("href", "")) for link in links]
    if not links or not all("#" in address for address in addresses):
        return False
    if re.findall(r"\w", "".join(map(_words, links))) != re.findall(r"\w", words):
        return False
    inner = tag.find(is_raised)
    if is_raised(tag) or (inner is not None and _words(inner) == words):
        return True
    return bool(before) and not before[-1].isspace() and all(map(_NOTE_ADDRESS.search, addresses))


def _says_note(tag: Tag) -> bool:
    said = [str(tag.attrs.get(name, "")) for name in ("role", "epub:type")]
    return any(_NOTE_NAME.fullmatch(name) for name in (*said, *(tag.attrs.get("class") or ())))


def _words(tag: Tag) -> str:
    """Return the words of a tag; empty if they are too long for a mark."""
    text = ""
    for piece in tag.strings:
        text += piece
        if len(text) > 4 * _MAX_LENGTH:
            break
    words = " ".join(text.split())
    return words if len(words) <= _MAX_LENGTH else ""
