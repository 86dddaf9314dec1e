"""Which language a text is in, for replies in another language than the question's.

By a small classifier (`py3langid`, the extra `language`: BSD, 5 MB, works offline) where it is installed, and
by the writing system without it: that separates Chinese from English, the error that Compound-QA reports (section 5,
appendix H), and not French from English.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from turnmark.corpora.text import words

LEAST_WORDS = 10
"""A text of fewer words is in no language that one could be sure of by its words."""
SURE = 0.8
"""The least probability at which a classifier is believed: names and formulas make short texts look foreign."""
LEAST_LETTERS = 10


def script(text: str) -> str | None:
    """The writing system of most of a text's letters, such as `LATIN` or `CJK`; None where it has hardly any.

    Kana and Han count as one, since Japanese is written in both; Hangul by itself.
    """
    counts: Counter[str] = Counter(filter(None, map(_script_of, text)))
    return counts.most_common(1)[0][0] if counts.total() >= LEAST_LETTERS else None


def _script_of(letter: str) -> str:
    if not letter.isalpha():
        return ""
    name = unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "HALFWIDTH", "KANGXI") else name


def by() -> str:
    """What distinguishes languages here, for a score's `by`."""
    return "writing system, then py3langid" if installed() else "writing system"


@cache
def installed() -> bool:
    """Whether the classifier is there."""
    return find_spec("py3langid") is not None


@cache
def _classifier() -> Any:
    module = import_module("py3langid.langid")
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE, norm_probs=True)


def language(text: str) -> str | None:
    """ISO 639-1 code of a text's language; None where it is short, not sure, or no classifier is there."""
    if not installed() or len(words(text)) < LEAST_WORDS:
        return None
    name, probability = _classifier().classify(text)
    return str(name) if float(probability) >= SURE else None


def another_language(text: str, than: str) -> bool | None:
    """Whether a text is surely in another language than another one; None where it is not known of either.

    Args:
        than: the text whose language is expected.
    """
    script_here, script_expected = script(text), script(than)
    if script_here is None or script_expected is None:
        return None
    if script_here != script_expected:
        return True
    first, second = language(text), language(than)
    return first is not None and second is not None and first != second
