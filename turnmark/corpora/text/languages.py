"""The languages that Turnmark has rules for, and the detection of a text's language.

A language is named by its ISO 639-1 code, such as "de"; "" stands for undecided. The table `languages.json` has one row
for each language. Its fields say how the words of the language become index terms (`turnmark.corpora.text.analysis`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from pydantic import Field, TypeAdapter

from turnmark.core.record import Record

ENGLISH = "en"
UNSPACED_LANGUAGES = frozenset(("zh", "ja", "th", "lo", "km", "my"))
"""Languages that are written without spaces between words."""


class Language(Record):
    """A row of the table of languages."""

    name: str = Field(description="English name")
    script: str = Field(
        default="", description="characters of its script if no other language uses it, for a regex class"
    )
    stemmer: str = Field(default="", description="name of its Snowball stemmer; empty if words are not stemmed")
    stop_words: str = Field(
        default="", description="name of its list in bm25s.stopwords; if empty, its function words, if it has any"
    )
    abbreviations: str = Field(
        default="", description="abbreviations after whose dot a sentence goes on, no English word"
    )
    elided: str = Field(
        default="", description="words that lose their vowel before another one, as in l'imprimante, dell'ufficio"
    )
    prefixes: str = Field(default="", description="letters that are written together with the next word")
    word_pairs: bool = Field(
        default=False, description="whether pairs of neighboring words are terms too, for words written as syllables"
    )


LANGUAGES: dict[str, Language] = TypeAdapter(dict[str, Language]).validate_json(
    Path(__file__).with_name("languages.json").read_bytes()
)

_SCRIPT = re.compile("|".join(f"(?P<{code}>[{row.script}])" for code, row in LANGUAGES.items() if row.script))
MIN_SCRIPT_SHARE = 0.3
"""Minimum share of a text's letters that are of one language's script. Manuals quote many commands in Latin letters."""
MIN_KANA_SHARE = 0.1
"""Minimum share of kana among the kana and Han characters of a Japanese text."""
MIN_LETTERS = 40
"""Minimum letters of a text whose language is detected by its words; shorter texts are undecided."""
MIN_PROBABILITY = 0.7
"""Minimum probability of the detected language."""
MAX_CHARACTERS = 2000
"""Number of characters that are examined at the beginning of a text."""
# Code, addresses, numbers and markup, which look like English in a manual of any language.
_NON_PROSE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\]\([^)\s]*\)|<[^<>\n]{1,200}>|\S*[/\\@_=]\S*|[\d#*|>]+", re.DOTALL
)


def detect_language(text: str) -> str:
    """Return the language of a text, or "" if it is undecided: too short, code or numbers, or a close call.

    A script that only one language uses decides. Otherwise py3langid decides by the text's words; its labels outside
    of `LANGUAGES` are returned too, since they say that a text is not English.
    """
    composed = unicodedata.normalize("NFC", text[: 2 * MAX_CHARACTERS])  # the detector knows no other letters
    prose = _NON_PROSE.sub(" ", composed)[:MAX_CHARACTERS]
    letters = sum(map(str.isalpha, prose))
    if script := language_of_script(prose):
        return script
    if letters < MIN_LETTERS:
        return ""
    label, probability = _identifier().classify(" ".join(prose.split()))
    return str(label) if probability >= MIN_PROBABILITY else ""


def language_of_script(text: str) -> str:
    """Return the only language that uses the script of a text, or "" if there is none."""
    letters = sum(map(str.isalpha, text))
    counts = Counter(match.lastgroup for match in _SCRIPT.finditer(text))
    kana, han = counts.pop("ja", 0), counts.pop("zh", 0)
    if kana + han:
        counts["ja" if kana >= MIN_KANA_SHARE * (kana + han) else "zh"] = kana + han
    if not counts:
        return ""
    code, count = counts.most_common(1)[0]
    return str(code) if count >= MIN_SCRIPT_SHARE * max(letters, 1) else ""


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


AUTO, NONE = "auto", "none"
"""Settings in place of a language: detect the language of each document, or use no language rules."""


def language_names() -> list[str]:
    """Return the names by which a person chooses a language, in order, with `AUTO` and `NONE`."""
    return [AUTO, *sorted(row.name.lower() for row in LANGUAGES.values()), NONE]


def code_of(name: str) -> str:
    """Return the code of a language from its English name in lower case; any other name unchanged."""
    return next((code for code, row in LANGUAGES.items() if row.name.lower() == name), name)


SAMPLED_DOCUMENTS = 5000
"""Documents of a collection whose language is detected first. A collection in one language needs no more."""
MIN_LANGUAGE_SHARE = 0.01
"""Minimum share of a collection's documents for a language to count; rarer ones are mistakes of the detector."""
MIN_TABLE_SHARE = 0.8
"""Minimum share of letters in tables for a text to count as consisting of tables."""
MIN_CELL_WORDS = 4
"""Minimum words of a cell that says something about the language. Shorter ones are often names."""
TABLE_WEIGHT = 0.1
"""Weight of a text that consists of tables in the share of its language; other texts have weight 1. Its longer cells
may be titles in another language."""
MIN_TABLE_ODDS = 10
"""Minimum ratio of probabilities at which a text of short cells gets a language other than the main one of its
collection."""
MIN_HEADER_CHARACTERS = 12
"""Minimum characters of the column names that tell a language."""
MIN_HEADER_ODDS = 3
"""Minimum ratio of the probabilities of the two best languages of column names."""
_HEADER = re.compile(r"^(\|.*)\n\|[-: |]*-[-: |]*$", re.MULTILINE)
_CELL_WORD = re.compile(r"[^\W\d_]{2,}")
# The English description of a large table, as `turnmark.corpora.readers.office.grid_tables.description_of` writes it.
_DESCRIPTION = re.compile(r"^A table with [\d,]+ rows and \d+ columns\. .*\n\n(?:- .*\n)*", re.MULTILINE)


def _prose_of_tables(text: str) -> str | None:
    """Return the lines and long cells of a text that consists of tables; None for every other text."""
    text = _DESCRIPTION.sub("", text)
    rows = [line for line in text.split("\n") if line.startswith("|")]
    letters = sum(map(str.isalpha, text))
    if not rows or sum(map(str.isalpha, "".join(rows))) < MIN_TABLE_SHARE * letters:
        return None
    lines = [line for line in text.split("\n") if not line.startswith("|")]
    cells = [cell for row in rows for cell in row.split("|") if len(_CELL_WORD.findall(cell)) >= MIN_CELL_WORDS]
    return "\n".join([*lines, *cells])


class DetectedLanguage(NamedTuple):
    """A detected language, or "" if it is undecided, and its weight."""

    language: str
    weight: float


def find_language(text: str) -> DetectedLanguage:
    """Return the language of a document from the beginning of its text."""
    prose = _prose_of_tables(text)
    if prose is None:
        return DetectedLanguage(detect_language(text), 1)
    # Even names show the script reliably.
    found = language_of_script(text) or detect_language(prose) or _language_of_header(text)
    return DetectedLanguage(found, TABLE_WEIGHT)


def _language_of_header(text: str) -> str:
    """Return the language of the column names of a text's tables, or "" if it is a close call."""
    names = " ".join(re.findall(r"[^\W\d_]{2,}", " ".join(_HEADER.findall(text[:MAX_CHARACTERS])).lower()))
    if len(names) < MIN_HEADER_CHARACTERS:
        return ""
    rank = _identifier().rank(names)
    known = [(str(label), float(probability)) for label, probability in rank if label in LANGUAGES]
    return known[0][0] if known[0][1] >= MIN_HEADER_ODDS * known[1][1] else ""


def is_sampled(document: str, documents: int) -> bool:
    """Return whether the language of a document is detected first in a collection of so many documents.

    The answer depends on the document's id alone until the collection has doubled, so an update detects only the
    languages of new documents.
    """
    step = 1
    while documents > step * SAMPLED_DOCUMENTS:
        step *= 2
    return crc32(document.encode("utf-8", "surrogatepass")) % step == 0


class CollectionLanguages(NamedTuple):
    """The languages of a collection.

    Attributes:
        main: the most frequent language; an undecided document gets it.
        frequent: the languages that occur too often to be mistakes of the detector.
    """

    main: str
    frequent: frozenset[str]

    @classmethod
    def of(cls, found: Collection[DetectedLanguage]) -> CollectionLanguages:
        """Return the languages of a collection from those of its documents."""
        weights: dict[str, float] = {}
        for language, weight in found:
            if language:
                weights[language] = weights.get(language, 0) + weight
        frequent = frozenset(name for name, weight in weights.items() if weight >= MIN_LANGUAGE_SHARE * len(found))
        return cls(main_language(sorted(language for language, _ in found if language in frequent)), frequent)

    def choose(self, found: DetectedLanguage, text: str) -> str:
        """Return the language of a document.

        An undecided document that consists of tables gets another language of the collection, or English, if that
        language is much more probable.

        Args:
            found: what was detected in it.
            text: the beginning of its text.
        """
        if found.language in self.frequent:
            return found.language
        return self.main if found.weight == 1 else _language_of_names(text, self.main, self.frequent | {ENGLISH})


def detect_languages(texts: Mapping[str, str]) -> dict[str, str]:
    """Return document -> language for a small collection, from the beginnings of the documents' texts."""
    found = {document: find_language(text) for document, text in texts.items()}
    collection = CollectionLanguages.of(found.values())
    return {document: collection.choose(found[document], text) for document, text in texts.items()}


def _language_of_names(text: str, main: str, candidates: Collection[str]) -> str:
    """Return the main language of a collection, or the candidate that is much more probable for a text of tables."""
    prose = _NON_PROSE.sub(" ", _DESCRIPTION.sub("", text))[:MAX_CHARACTERS]
    if sum(map(str.isalpha, prose)) < MIN_LETTERS:
        return main
    probabilities = {str(label): float(each) for label, each in _identifier().rank(" ".join(prose.split()))}
    best = max(sorted(candidates), key=lambda language: probabilities.get(language, 0.0))
    return best if probabilities.get(best, 0.0) > MIN_TABLE_ODDS * probabilities.get(main, 0.0) else main


def main_language(languages: Iterable[str]) -> str:
    """Return the most frequent language of some texts, undecided ones left out; English if all are undecided."""
    counts = Counter(filter(None, languages))
    return counts.most_common(1)[0][0] if counts else ENGLISH


@cache
def elided_words(language: str) -> frozenset[str]:
    """Return the words of a language that are elided before another word; empty for most languages."""
    return frozenset(LANGUAGES[language].elided.split()) if language in LANGUAGES else frozenset()


def without_elision(word: str, language: str) -> str:
    """Return a lower-case word without the elided word before it.

    >>> without_elision("l'imprimante", "fr"), without_elision("aujourd'hui", "fr")
    ('imprimante', "aujourd'hui")
    """
    elided = elided_words(language)
    if not elided or "'" not in word:
        return word
    head, _, tail = word.partition("'")
    return tail if tail and head in elided else word


def language_name(code: str) -> str:
    """Return the English name of a language; the code itself if the table does not have it."""
    return LANGUAGES[code].name if code in LANGUAGES else code
