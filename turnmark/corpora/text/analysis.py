"""Turns a text into index terms: lower-cased and stemmed words without stop words.

Scripts that are written without spaces have no words to look up, so parts of a run of characters are terms there:
single characters and pairs for Han and kana, pairs for Hangul, three characters for Thai, Lao, Khmer and Burmese.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any

from turnmark.corpora.text.function_words import function_words_of
from turnmark.corpora.text.languages import LANGUAGES, UNSPACED_LANGUAGES, Language, elided_words, without_elision
from turnmark.corpora.text.segmentation import CHARACTER, SOUTHEAST_ASIAN_LETTER, fold_letters, words_with_spans

ANALYSIS_VERSION = 2
"""Raised when a text gets other terms, so that builds analyze the passages of an index again."""

Analyzer = Callable[[str], list[str]]
"""A function from a text to its index terms, in order, with repeats."""

_HANGUL = re.compile("[\uac00-\ud7a3]")

MAX_CACHED_STEMS = 1_000_000
"""Maximum stems that are cached for a language; a server must not keep every word that it is asked about."""


@cache
def open_analyzer(language: str) -> Analyzer:
    """Return the analyzer of a language by its code; the one without stemming for `none` and unknown languages.

    Stems are cached.
    """
    row = LANGUAGES.get(language, Language(name=language))
    stem = lru_cache(MAX_CACHED_STEMS)(_open_stemmer(row.stemmer))
    stop_words = _stop_words_of(language, row)

    def analyze(text: str) -> list[str]:
        terms = [stem(word) for word in _words_of(text, language) if word not in stop_words]
        return _with_pairs_and_plain(terms) if row.word_pairs else terms

    return analyze


def _with_pairs_and_plain(syllables: Sequence[str]) -> list[str]:
    """Return syllables with the pairs of neighbors, and both without marks, since many people write without them."""
    terms, plain = (
        [*each, *(f"{first} {second}" for first, second in pairwise(each))]
        for each in (syllables, [_without_marks(syllable) for syllable in syllables])
    )
    return terms + [other for term, other in zip(terms, plain, strict=True) if other != term]


def _without_marks(syllable: str) -> str:
    letters = unicodedata.normalize("NFD", syllable.replace("đ", "d"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _open_stemmer(name: str) -> Callable[[str], str]:
    if not name:
        return lambda word: word
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


_PARTS_OF_RUNS = UNSPACED_LANGUAGES | {"ko"}
"""Languages whose index terms are parts of runs of characters, and no words."""


def _stop_words_of(language: str, row: Language) -> frozenset[str]:
    """Return a list of `bm25s.stopwords` or, without one, the function words of a language.

    English has the long list: "how do I" must not outweigh a rare name (nDCG@5 on the MTRAG pools, last turn: .241 and
    .114; with Lucene's short list .221 and .093).
    """
    if row.stop_words:
        return frozenset(_stop_word_lists()[f"STOPWORDS_{row.stop_words}"])
    return frozenset() if language in _PARTS_OF_RUNS else function_words_of(language)


@cache
def _stop_word_lists() -> dict[str, Any]:
    """Return the lists of `bm25s.stopwords`, without importing bm25s, which takes half a second: it imports scipy."""
    package = find_spec("bm25s")
    assert package is not None
    assert package.origin is not None
    return run_path(str(Path(package.origin).with_name("stopwords.py")))


MIN_UNPREFIXED_LETTERS = 3
"""Minimum letters of a Hebrew word without its prefixes."""
MAX_PREFIXES = 2
"""Maximum prefixes that are removed from a word, such as "and the"."""


def _words_of(text: str, language: str) -> Iterator[str]:
    """Yield the terms of a text before stemming, in the order of the text.

    A word is separated from the elided word before it ("l'imprimante"). A word that may have prefixes, as in Hebrew, is
    a term with and without them, since a prefix looks like any other first letter.
    """
    elides = bool(elided_words(language))
    prefixes = LANGUAGES[language].prefixes.split() if language in LANGUAGES else ()
    for word in _terms_of(text, has_dotless_i=language in ("tr", "az")):
        yield without_elision(word, language) if elides else word
        for removed in range(1, MAX_PREFIXES + 1):
            if word[removed - 1] not in prefixes or len(word) - removed < MIN_UNPREFIXED_LETTERS:
                break
            yield word[removed:]


def _terms_of(text: str, has_dotless_i: bool) -> Iterator[str]:
    """Yield the words of a text in order. Text in a script without spaces is split into short parts.

    Args:
        has_dotless_i: whether the small letter of I is ı (Turkish). Since English words are written with I too, a word
            with it is a term in both readings.
    """
    previous_end, previous = -1, ""
    for word, start, end in words_with_spans(text):
        if CHARACTER.match(word):
            yield word
            if previous and previous_end == start:
                yield previous + word
            previous_end, previous = end, word
        elif SOUTHEAST_ASIAN_LETTER.search(word):
            yield from _grams(word, 3)
        elif _HANGUL.search(word):
            yield from _grams(word, 2)
        else:
            yield word
            if has_dotless_i and "I" in text[start:end]:
                yield fold_letters(text[start:end].replace("I", "ı"))


def _grams(word: str, size: int) -> Iterator[str]:
    """Yield all substrings of a word with the given number of characters, or the word itself if it is shorter."""
    for start in range(max(len(word) - size, 0) + 1):
        yield word[start : start + size]


def join_analyzers(languages: Iterable[str]) -> Analyzer:
    """Return the analyzer of queries over texts in several languages: a query is analyzed in each of them."""
    return unite([open_analyzer(language) for language in dict.fromkeys(languages)])


def unite(analyzers: Sequence[Analyzer]) -> Analyzer:
    """Return an analyzer that combines the terms of several; a term gets the highest count that any of them gives
    it."""
    if len(analyzers) == 1:
        return analyzers[0]

    def analyze(text: str) -> list[str]:
        united: Counter[str] = Counter()
        for analyzer in analyzers:
            united |= Counter(analyzer(text))
        return list(united.elements())

    return analyze
