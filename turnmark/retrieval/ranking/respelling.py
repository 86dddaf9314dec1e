"""Spell a query as the documents do: identifiers and versions, and words with a typing error.

A code is one word in "e4867" and two in "E-4867". A version may or may not have a "v" before it. A word that no
document has may be a typing error, which is replaced by the most frequent word of the index that is one edit away. If
there is none, a long word is replaced by the nearest word that is two edits away, such as "maintenance" for
"maintanence". Only what the index does not contain is changed, so every query that it can answer as typed stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
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
"""Maximum index terms near a word with two errors whose words are compared with it."""
MAX_CHECKED_CANDIDATES = 4
"""Maximum candidates that are looked up in passages."""
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
_ALPHABETS = (
    ("a", "\u024f", "abcdefghijklmnopqrstuvwxyzäöüßéèêàâçñáíóúîôõãåøæ"),
    ("\u0370", "\u03ff", "αβγδεζηθικλμνξοπρστυφχψωάέήίόύώ"),
    ("\u0400", "\u04ff", "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґў"),
)
"""First and last letter of a script, and its letters."""


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
        if is_name or len(word) > MAX_WORD_LETTERS:
            continue
        nearest = _one_edit_away(word, lexicon, words_with, exists) or _two_edits_away(word, lexicon, words_with)
        if nearest:
            pieces += [text[previous_end:start], nearest.capitalize() if typed[0].isupper() else nearest]
            previous_end = end
    return "".join([*pieces, text[previous_end:]])


def _one_edit_away(word: str, lexicon: Lexicon, words_with: WordsWith, exists: Callable[[str], bool]) -> str:
    """Return the word of the index that is one edit away from a word, the most frequent one, or "" if there is none."""
    if len(word) < MIN_SWAPPED_LETTERS:
        return ""
    candidates = list(_swap_or_double(word))
    if len(word) >= MIN_EDITED_LETTERS:
        candidates += _edit(word)
    known: list[tuple[bool, int, str]] = []
    for candidate in dict.fromkeys(candidates):
        frequency = min(map(lexicon.frequency, lexicon.analyze(candidate)), default=0)
        if frequency:
            known.append((candidate[0] == word[0], frequency, candidate))
    ranked = (candidate for _, _, candidate in sorted(known, reverse=True)[:MAX_CHECKED_CANDIDATES])
    return next((one for one in ranked if _occurs(one, lexicon, words_with(one), exists)), "")


def _occurs(word: str, lexicon: Lexicon, found: Collection[str], exists: Callable[[str], bool]) -> bool:
    """Return whether a word is among those found, as it is or in another form: "received" for "receive".

    Another form counts only for a word that exists: without that, "broaden" becomes "broade" because of "broader".
    """
    if word in found or not exists(word):
        return word in found
    terms = lexicon.analyze(word)
    return any(other.startswith(word[:-1]) and lexicon.analyze(other) == terms for other in found)


def _two_edits_away(word: str, lexicon: Lexicon, words_with: WordsWith) -> str:
    """Return the nearest word of the index that is at most two edits away from a long word, or "" if there is none."""
    if len(word) < MIN_SOUND_LETTERS:
        return ""
    from rapidfuzz.distance import OSA

    (stem,) = lexicon.analyze(word)[:1]
    near = [
        (distance, -lexicon.frequency(term), term)
        for term in lexicon.terms()
        if term[:1] == word[0]
        # The errors may change where the stem ends: "seperat" and "separ".
        and (distance := min(OSA.distance(start, term, score_cutoff=2) for start in (stem, word[: len(term)]))) <= 2
        and lexicon.frequency(term)
    ]
    best: tuple[int, int, str] | None = None
    for _, frequency, term in sorted(near)[:MAX_NEAR_TERMS]:
        for other in words_with(term):
            distance = OSA.distance(word, other, score_cutoff=2)
            is_likely = len(word) >= MIN_TWICE_EDITED_LETTERS or _consonants(other) == _consonants(word)
            if distance <= 2 and is_likely and other[0] == word[0]:
                best = min(filter(None, (best, (distance, frequency, other))))
    return best[2] if best else ""


def _consonants(word: str) -> str:
    """Return the consonants of a word, with doubled ones once; two misspellings with the same are likely one word."""
    return re.sub(r"(.)\1+", r"\1", re.sub("[aeiouyäöüéèêàâáíóúîôõãåøæαεηιουωаеиоуыэюяёіїє]", "", word))


def _swap_or_double(word: str) -> Iterator[str]:
    """Yield a word with two adjacent letters swapped, with a letter doubled, and with one of two equal letters."""
    for at in range(len(word)):
        if at + 1 < len(word):
            yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            if word[at] == word[at + 1]:
                yield word[:at] + word[at + 1 :]
        yield word[: at + 1] + word[at:]


def _edit(word: str) -> Iterator[str]:
    """Yield a word with one letter removed, replaced or inserted; none for scripts without a small alphabet."""
    letters = next((letters for first, last, letters in _ALPHABETS if first <= word[0] <= last), "")
    if not letters:
        return
    for at in range(len(word) + 1):
        if at < len(word):
            yield word[:at] + word[at + 1 :]
        for letter in letters:
            yield word[:at] + letter + word[at:]
            if at < len(word) and len(word) >= MIN_REPLACED_LETTERS:
                yield word[:at] + letter + word[at + 1 :]
