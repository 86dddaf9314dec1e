"""Recognizes patterns in the text of a line: heading numbers, list marks, captions, hyphenated words."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from turnmark.corpora.readers.pdf.page.boxes import HAN

_NOTATION = re.compile(r"[\U0001d400-\U0001d7ff]|(?<!\w)(?:m?[pf]{1,4}|s?fz?)(?!\w)")
"""Mathematical letters, and the dynamics of music: pp, mf, sfz."""
_BULLETS = "•‣◦▪▫–—*·■□○●✓✔➢➤»►▶▸▷◮◆◇❖∙⋄-"
_BULLET = re.compile(rf"(?P<mark>[{re.escape(_BULLETS)}])(?:\s+|$)")
begins_with_bullet = _BULLET.match
"""Match if a text begins with a bullet."""
_ENUMERATION = re.compile(r"(?P<mark>\(?(?P<number>\d{1,3})[.)]|\(?[a-z][.)]|\([A-Z]\)|\(?[ivx]{2,4}[.)])(?:\s+|$)")
_NUMBERING = re.compile(
    r"(?:(?:chapter|appendix|part|section|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?:[A-Z](?=[.\s:])|\d{1,3}|(?<=\s)[IVX]{1,5})(?P<more>(?:\.\d{1,3})*)[.:)]?(?=\s|$)",
    re.IGNORECASE,
)
begins_with_number = _NUMBERING.match
"""Match if a text begins like a numbered heading."""
_INITIALS = re.compile(r"(?:[A-Z]\.[ -]?){2,}|[A-Z]\.[ -][A-Z][\w’'-]+[^\w\s,]?,")
"""A name such as "A. N. Author" or "R. Dowd, …", which is not the heading of an appendix A or R."""
_CHAPTER = re.compile(
    r"(?:(?:chapter|appendix|part|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?:(?P<number>\d{1,3}|[IVX]{1,5}|[A-Z])\.?"
    r"|(?:twenty|thirty)?-?(?:one|two|three|four|five|six|seven|eight|nine)|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty)",
    re.IGNORECASE,
)
begins_as_caption = re.compile(
    r"(?:figure|fig\.|table|listing|algorithm|example|abbildung|tabelle)\s+[A-Z]?\d{1,3}(?:[.-]\d{1,3})*(?:\s*[.:]|\s+(?-i:[A-Z]))",
    re.IGNORECASE,
).match
"""Match if a text begins like the caption of a figure or table."""
_ROMAN_NUMBER = re.compile(r"[IVXLC]{1,7}")
is_box_title = re.compile(
    r"(?:note|tip|hint|warning|caution|important|danger|attention|remark|see also"
    r"|achtung|hinweis|warnung|remarque)s?[:!.]?",
    re.IGNORECASE,
).fullmatch
"""Match if a text is the title of a box, such as "Note", which is not a heading."""
ends_sentence = re.compile(r"[.!?:;。！？：][\"”’')\]»]*$").search
"""Match if a text ends like a sentence."""
begins_with_prompt = re.compile(r"\$ (?=[A-Za-z_./~])").match
"""Match if a line begins with a shell prompt. Such lines are often bold, in any font."""
begins_footnote = re.compile(r"(?:[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}|\d{1,3}|[*†‡§¶])\s*(?=\S)").match
"""Match if a text begins with a footnote mark."""
_DIVIDED_WORD = re.compile(r"([^\W\d_]{2,})-$")


class ListMark(NamedTuple):
    """The mark at the start of a list item, its number if it has one, and the text after it."""

    mark: str
    number: int | None
    rest: str

    @property
    def is_bullet(self) -> bool:
        return self.mark in _BULLETS


def match_list_mark(text: str) -> ListMark | None:
    """Return the list mark at the start of a text, or None if there is none."""
    if match := _BULLET.match(text):
        return ListMark(match["mark"], None, text[match.end() :])
    if match := _ENUMERATION.match(text):
        return ListMark(match["mark"], int(match["number"]) if match["number"] else None, text[match.end() :])
    return None


def numbering_depth(text: str) -> int:
    """Return the depth of a heading number: 1 for "2 Methods", 3 for "2.1.4 …", 0 without a number."""
    text = text.strip()
    match = _NUMBERING.match(text)
    if match is None or not text[match.end() :].strip() or _INITIALS.match(text):
        return 0
    return 1 + match["more"].count(".")


def chapter_number(text: str) -> str | None:
    """Return the chapter number that a text consists of, e.g. "Chapter 2".

    Returns:
        Empty if the number is spelled out, or None if the text is not just a chapter number.
    """
    match = _CHAPTER.fullmatch(text)
    if match is None:
        return None
    return text.rstrip(".") if match["number"] else ""


def number_of(text: str) -> int | None:
    """Return the number that a text consists of, up to 999, in digits or in Roman letters; None for other texts."""
    bare = text.strip().rstrip(".")
    if bare.isdecimal() and len(bare) <= 3:
        return int(bare)
    if not _ROMAN_NUMBER.fullmatch(bare):
        return None
    values = ["IVXLC".index(letter) for letter in bare]
    amounts = [(1, 5, 10, 50, 100)[value] for value in values]
    return sum(-one if one < next_one else one for one, next_one in pairwise([*amounts, 0]))


def without_numbering(text: str) -> str:
    """Return the letters and digits after the heading number, or of the whole text if nothing follows the number."""
    match = _NUMBERING.match(text.strip())
    return (letters_and_digits(text.strip()[match.end() :]) if match else "") or letters_and_digits(text)


def letters_and_digits(text: str) -> str:
    """Return only the letters and digits, in lower case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def has_words(text: str) -> bool:
    """Return whether a text has words, not only single letters as in drawings and formulas."""
    return bool(re.search(r"[^\W\d_]{2}", _NOTATION.sub(" ", text)) or HAN.search(text))


def hyphenated_start(text: str) -> str | None:
    """Return the first part of a word that is hyphenated at the end of a text, or None if there is none."""
    match = _DIVIDED_WORD.search(text)
    return match[1] if match else None
