"""What the words of a line say of it: the number of a heading, the mark of a list item, a caption, a divided word."""

from __future__ import annotations

import re
from typing import NamedTuple

from turnmark.corpora.readers.pdf.boxes import HAN

_BULLETS = "•‣◦▪▫–—*·■□○●✓✔➢➤»►▶▸▷◮◆◇❖∙⋄-"
_BULLET = re.compile(rf"(?P<mark>[{re.escape(_BULLETS)}])(?:\s+|$)")
_ENUMERATED = re.compile(r"(?P<mark>\(?(?P<number>\d{1,3})[.)]|\(?[a-z][.)]|\([A-Z]\)|\(?[ivx]{2,4}[.)])(?:\s+|$)")
_NUMBERING = re.compile(
    r"(?:(?:chapter|appendix|part|section|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?:[A-Z](?=[.\s:])|\d{1,3}|(?<=\s)[IVX]{1,5})(?P<more>(?:\.\d{1,3})*)[.:)]?(?=\s|$)",
    re.IGNORECASE,
)
_INITIALS = re.compile(r"(?:[A-Z]\.[ -]?){2,}|[A-Z]\.[ -][A-Z][\w’'-]+[^\w\s,]?,")
"""A name, "A. N. Author" or "R. Dowd, …": no appendix of this letter."""
_CHAPTER = re.compile(
    r"(?:(?:chapter|appendix|part|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?:(?P<number>\d{1,3}|[IVX]{1,5}|[A-Z])\.?"
    r"|(?:twenty|thirty)?-?(?:one|two|three|four|five|six|seven|eight|nine)|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty)",
    re.IGNORECASE,
)
_CAPTION = re.compile(
    r"(?:figure|fig\.|table|listing|algorithm|example|abbildung|tabelle)\s+[A-Z]?\d{1,3}(?:[.-]\d{1,3})*\s*[.:]",
    re.IGNORECASE,
)
_BOX = re.compile(
    r"(?:note|tip|hint|warning|caution|important|danger|attention|remark|see also"
    r"|achtung|hinweis|warnung|remarque)s?[:!.]?",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!?:;。！？：][\"”’')\]»]*$")
_PROMPT = re.compile(r"\$ (?=[A-Za-z_./~])")
_FOOTNOTE = re.compile(r"(?:[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}|\d{1,3}|[*†‡§¶])\s*(?=\S)")
_DIVIDED = re.compile(r"([^\W\d_]{2,})-$")


class ListMark(NamedTuple):
    """The mark that a list item begins with, its number if it has one, and the text behind it."""

    mark: str
    number: int | None
    rest: str

    @property
    def is_bullet(self) -> bool:
        return self.mark in _BULLETS


def match_list_mark(text: str) -> ListMark | None:
    """The mark that a text begins with; None if it begins with none."""
    if match := _BULLET.match(text):
        return ListMark(match["mark"], None, text[match.end() :])
    if match := _ENUMERATED.match(text):
        return ListMark(match["mark"], int(match["number"]) if match["number"] else None, text[match.end() :])
    return None


def begins_with_bullet(text: str) -> bool:
    """Whether a text begins with a bullet."""
    return _BULLET.match(text) is not None


def begins_with_number(text: str) -> bool:
    """Whether a text begins as a numbered heading does."""
    return _NUMBERING.match(text) is not None


def numbering_depth(text: str) -> int:
    """How deep a numbered heading is by its number: 1 of "2 Methods", 3 of "2.1.4 …"; 0 without a number."""
    text = text.strip()
    match = _NUMBERING.match(text)
    if match is None or not text[match.end() :].strip() or _INITIALS.match(text):
        return 0
    return 1 + match["more"].count(".")


def chapter_number(text: str) -> str | None:
    """What is said of a chapter's number by a text that says nothing else: "Chapter 2"; "" of one that is spelled out.

    Returns:
        None: the text says something else.
    """
    match = _CHAPTER.fullmatch(text)
    if match is None:
        return None
    return text.rstrip(".") if match["number"] else ""


def without_numbering(text: str) -> str:
    """Letters and digits alone, without the number in front; with it where there is nothing else."""
    match = _NUMBERING.match(text.strip())
    return (letters_and_digits(text.strip()[match.end() :]) if match else "") or letters_and_digits(text)


def letters_and_digits(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def has_words(text: str) -> bool:
    """Whether a text is more than single letters, as they stand in drawings and formulas."""
    return bool(re.search(r"[^\W\d_]{2}", text) or HAN.search(text))


def begins_as_caption(text: str) -> bool:
    """Whether a text begins as the caption of a figure or a table does."""
    return _CAPTION.match(text) is not None


def is_box_title(text: str) -> bool:
    """Whether a text is the title of a box, "Note": no heading of what follows the box."""
    return _BOX.fullmatch(text) is not None


def ends_sentence(text: str) -> bool:
    """Whether a text ends as a sentence does."""
    return _ENDS.search(text) is not None


def begins_footnote(text: str) -> bool:
    """Whether a text begins with the mark of a footnote."""
    return _FOOTNOTE.match(text) is not None


def hyphenated_start(text: str) -> str | None:
    """The first part of the word that is divided at the end of a text."""
    match = _DIVIDED.search(text)
    return match[1] if match else None


def begins_with_prompt(text: str) -> bool:
    """Whether a line is typed at the prompt of a shell, which is often bold, in a font of any name."""
    return bool(_PROMPT.match(text))
