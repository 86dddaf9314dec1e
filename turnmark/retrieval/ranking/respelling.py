"""Spell a query as the documents do: identifiers and versions, and words with a typing error.

A code is one word in "e4867" and two in "E-4867". A version may or may not have a "v" before it. A word that no
document has may be a typing error, which is replaced by the most frequent word of the index that is one edit away. If
there is none, a long word is replaced by the nearest word that is two edits away, such as "maintenance" for
"maintanence". Only what the index does not contain is changed, so every query that it can answer as typed stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol

from turnmark.corpora.text.analysis import Analyzer
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import words_with_spans

MIN_SWAPPED_LETTERS, MIN_EDITED_LETTERS = 4, 5
"""Minimum letters of a word in which two letters may be swapped or doubled, and of one with any other typing error."""
MIN_REPLACED_LETTERS = 6
"""Minimum letters of a word with a wrong letter: "kilos" is no error for "kills"."""
MIN_TWICE_EDITED_LETTERS = 9
"""Minimum letters of a word with two typing errors."""
MIN_SOUND_LETTERS = 7
"""The same for two errors that keep the consonants: other vowels, or doubled letters."""
MAX_NEAR_TERMS = 8
"""Maximum index terms near a word whose words are compared with it."""
MAX_WORD_LETTERS = 24
"""Maximum letters of a corrected word."""
MAX_UNKNOWN_SHARE = 0.5
"""Maximum share of unknown words in a text whose words are corrected. A text in another language has more."""

_MIXED_CODE = re.compile(r"(?<![\w.])(?=[\w.]*[^\W\d_])(?=\w*\d)(?:[^\W_]|(?<=\d)\.(?=\d)){2,20}(?![\w]|\.\d)")
_RUNS = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")
_SPACED_CODE = re.compile(
    r"(?<![\w.-])(?P<first>[a-zA-Z]{1,6})[-_ ](?P<digits>\d{2,8})(?![\w-]|\.\d)"
    r"|(?<![\w.-])(?P<number>\d{2,8}|\d+\.\d+)[-_ ](?P<unit>[a-zA-Z]{1,4})(?![\w-])"
)
_VERSION = re.compile(r"(?<![\w.,])(?P<v>[vV]\.? ?)?(?P<number>\d+(?:\.\d+){1,4})(?!\w|\.\d)")


class Lexicon(Protocol):
    """The terms of an index.

    Attributes:
        analyze: turns a text into its index terms.
    """

    analyze: Analyzer

    def frequency(self, term: str) -> int:
        """Return the number of passages that contain a term."""
        ...

    def terms(self) -> Collection[str]:
        """Return all terms, and perhaps some whose frequency is 0."""
        ...


WordsWith = Callable[[str], Collection[str]]
"""A function from a word to all words of the first passages with its terms: the index has only stems."""


def spell_codes(text: str, lexicon: Lexicon) -> str:
    """Return a text with its identifiers and versions spelled as in the index, if it contains them in any spelling."""
    if not any(map(str.isdigit, text)):
        return text
    text = _VERSION.sub(lambda match: _version(match, lexicon), text)
    text = _SPACED_CODE.sub(lambda match: _join_code(match, lexicon), text)
    return _MIXED_CODE.sub(lambda match: _separate_code(match, lexicon), text)


def _knows(lexicon: Lexicon, text: str) -> bool:
    terms = lexicon.analyze(text)
    return bool(terms) and all(lexicon.frequency(term) for term in terms)


def _version(match: re.Match[str], lexicon: Lexicon) -> str:
    number = match["number"]
    typed = f"v{number}" if match["v"] else number
    if _knows(lexicon, typed):
        return match.group()
    shorter = number.removesuffix(".0")
    forms = [number, f"v{number}", f"{number}.0", f"v{number}.0"]
    if "." in shorter:
        forms += [shorter, f"v{shorter}"]
    return next((form for form in forms if _knows(lexicon, form)), match.group())


def _join_code(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return a code without the gap between letters and digits, if only this form is known."""
    joined = "".join(filter(None, match.groups()))
    digits = match["digits"] or match["number"]
    return joined if not _knows(lexicon, digits) and _knows(lexicon, joined) else match.group()


def _separate_code(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return a code with hyphens between letters and digits, if only this form is known."""
    word = match.group()
    runs = _RUNS.findall(word)
    if len(runs) < 2 or _knows(lexicon, word):
        return word
    numbers = [run for run in runs if run[0].isdigit()]
    named = [run for run in runs if not run[0].isdigit() and len(run) > 1]
    if not all(_knows(lexicon, run) for run in (*numbers, *named)):
        return word
    return "-".join(runs)


def spell_words(text: str, lexicon: Lexicon, words_with: WordsWith, exists: Callable[[str], bool]) -> str:
    """Return a text in which words that the index does not have are replaced by its nearest words.

    Args:
        words_with: finds the words of passages that have the terms of a word.
        exists: whether a word is known to exist, so that it is not a typing error.
    """
    named = [
        (word, start, end) for word, start, end in words_with_spans(text) if word.isalpha() and lexicon.analyze(word)
    ]
    unknown = [(word, start, end) for word, start, end in named if not _knows(lexicon, word) and not exists(word)]
    if not unknown or (len(named) > 2 and len(unknown) > MAX_UNKNOWN_SHARE * len(named)):
        return text
    is_english = language_of(text) in (ENGLISH, "")
    pieces: list[str] = []
    previous_end = 0
    for word, start, end in unknown:
        typed = text[start:end]
        is_name = is_english and start > 0 and typed[0].isupper()
        if is_name or not MIN_SWAPPED_LETTERS <= len(word) <= MAX_WORD_LETTERS:
            continue
        if nearest := _nearest_word(word, lexicon, words_with, exists):
            pieces += [text[previous_end:start], nearest.capitalize() if typed[0].isupper() else nearest]
            previous_end = end
    return "".join([*pieces, text[previous_end:]])


def _nearest_word(word: str, lexicon: Lexicon, words_with: WordsWith, exists: Callable[[str], bool]) -> str:
    """Return the word of the index that is the least edits away from a word, or "" if none is near enough."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    limit = 2 if len(word) >= MIN_SOUND_LETTERS else 1
    (stem,) = lexicon.analyze(word)[:1]
    # The errors may change where the stem ends: "seperat" and "separ".
    forms = {stem, *(word[:length] for length in range(MIN_SWAPPED_LETTERS, len(word) + 1))}
    terms, distances = list(lexicon.terms()), dict[str, int]()
    for form in forms:
        for term, distance, _ in extract(form, terms, scorer=OSA.distance, score_cutoff=limit, limit=None):
            distances[term] = min(distance, distances.get(term, distance))
    known = sorted(
        (distance, -frequency, term) for term, distance in distances.items() if (frequency := lexicon.frequency(term))
    )
    best: tuple[int, bool, int, str] | None = None
    for _, frequency, term in [each for each in known if each[1]][:MAX_NEAR_TERMS]:
        # The index has only stems: "received" is one of its words, and "receive" is meant.
        ended = term + word[len(stem) :]
        for other in {*words_with(term), *([ended] if exists(ended) else [])}:
            distance = OSA.distance(word, other, score_cutoff=2)
            if distance <= limit and _is_likely(word, other, distance) and lexicon.analyze(other) == [term]:
                best = min(filter(None, (best, (distance, other[0] != word[0], frequency, other))))
    return best[3] if best else ""


def _is_likely(word: str, other: str, distance: int) -> bool:
    """Return whether a word that is one or two edits away is likely meant; a short word has many neighbors."""
    if distance == 2:
        return other[0] == word[0] and (
            len(word) >= MIN_TWICE_EDITED_LETTERS or _consonants(other) == _consonants(word)
        )
    if sorted(word) == sorted(other) or _without_doubles(word) == _without_doubles(other):
        return True
    return len(word) >= (MIN_REPLACED_LETTERS if len(word) == len(other) else MIN_EDITED_LETTERS)


def _consonants(word: str) -> str:
    """Return the consonants of a word, with doubled ones once; two misspellings with the same are likely one word."""
    return _without_doubles(re.sub("[aeiouy]", "", word))


def _without_doubles(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word)
