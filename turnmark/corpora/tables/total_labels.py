"""Words that name a total, subtotal or average in the labels of rows, for all languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from turnmark.corpora.text.word_lists import read_word_lists

TotalLabel = Literal["", "average", "possible", "likely", "certain"]

_WORDS = read_word_lists(__file__)
MAX_LENGTH = 80
"""Characters of the longest label that may name a total."""
_TOKEN = re.compile(r"[^\W_]+|∑")
_SCRIPT_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff]")
_UNIT = re.compile(r"\((?:in )?(?:[A-Z]{3}|[^\w\s]{1,2})\)")


def _pattern(words: Iterable[str]) -> str:
    """Return a pattern for words. In scripts without spaces they are the end of a label, or stand apart."""
    forms = []
    for word in map(_plain, words):
        form = re.escape(word).replace("_", "[ -]?")
        forms.append(rf"{form}\Z|\A{form}(?= )" if _SCRIPT_WITHOUT_SPACES.search(word) else rf"(?<!\w){form}(?!\w)")
    return "|".join(forms)


def _plain(label: str) -> str:
    """Return a label in lower case, without accents, marks around it, a unit and the spaces of "T O T A L"."""
    text = (_UNIT.sub("", label) if "(" in label else label).casefold()
    if not text.isascii():
        text = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text).replace("״", '"'))
    text = " ".join(text.strip(" :=*_.–—-\t").split())
    return text.replace(" ", "") if re.fullmatch(r"\w(?: \w){3,}", text) else text


_LIKELY_WORD = re.compile(_pattern(_WORDS["likely"]))
_ALONE = _pattern(_WORDS["likely"] | _WORDS["alone"] | _WORDS["average"])
_WORD_ALONE = re.compile(f"(?:grand |over-?all |net |final |sum )?(?:{_ALONE})")
_AVERAGE_WORD = re.compile(_pattern(_WORDS["average"]))
_POSSIBLE_WORD = re.compile(rf"{_pattern(_WORDS['alone'] | _WORDS['possible'])}|\w{{3,}}summ[ae]\b")
_TOKENS = frozenset(_TOKEN.findall(_plain(" ".join(frozenset[str]().union(*_WORDS.values())))))
"""All words of the patterns, which are slow."""


@lru_cache(maxsize=50_000)
def total_label(label: str) -> TotalLabel:
    """Return how surely a label names a total or average."""
    if len(label) > MAX_LENGTH or label.isdigit():
        return ""
    text = _plain(label)
    is_known = any(word in _TOKENS or word.endswith(("summe", "summa")) for word in _TOKEN.findall(text))
    if not is_known and not _SCRIPT_WITHOUT_SPACES.search(text):
        return ""
    if _WORD_ALONE.fullmatch(text):
        return "certain"
    if _LIKELY_WORD.search(text):
        return "likely"
    return "average" if _AVERAGE_WORD.search(text) else "possible" if _POSSIBLE_WORD.search(text) else ""
