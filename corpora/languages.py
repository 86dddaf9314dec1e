"""The languages that Turnmark has rules for, and the detection of a text's language.

A language is named by its ISO 639-1 code, such as "de"; "" stands for undecided. The table `languages.json` has one row
for each language. Its fields say how the words of the language become index terms (`turnmark.corpora.analysis`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter

from turnmark.core.record import Record

ENGLISH = "en"
UNSPACED_LANGUAGES = frozenset(("zh", "ja", "th", "lo", "km", "my"))
"""Languages that are written without spaces between words."""


class Language(Record):
    """A row of the table of languages."""

    name: str = Field(description="English name")
    stemmer: str = Field(default="", description="name of its Snowball stemmer; empty: words are not stemmed")
    stop_words: str = Field(
        default="", description="name of its list in bm25s.stopwords; empty: its function words, if it has any"
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

# Scripts that only one language uses. For these, the script alone determines the language.
_SCRIPTS = (
    ("th", "\u0e00-\u0e7f"),
    ("lo", "\u0e80-\u0eff"),
    ("my", "\u1000-\u109f"),
    ("km", "\u1780-\u17ff"),
    ("ko", "\uac00-\ud7a3\u1100-\u11ff"),
    ("he", "\u0590-\u05ff"),
    ("el", "\u0370-\u03ff"),
    ("hy", "\u0530-\u058f"),
    ("ta", "\u0b80-\u0bff"),
    ("ja", "\u3040-\u30ff"),
    ("zh", "\u4e00-\u9fff\u3400-\u4dbf"),
)
_SCRIPT = re.compile("|".join(f"(?P<{code}>[{characters}])" for code, characters in _SCRIPTS))
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
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\]\([^)\s]*\)|<[^<>\n]{1,200}>|\S*[/\\@_=]\S*|[\d#*|>]+", re.DOTALL)


def detect_language(text: str) -> str:
    """Return the language of a text; "" if it is undecided: too short, code or numbers, or a close call.

    A script that only one language uses decides. Otherwise py3langid decides by the text's words; its labels outside
    of `LANGUAGES` are returned too, since they say that a text is not English.
    """
    prose = _NO_PROSE.sub(" ", text[: 2 * MAX_CHARACTERS])[:MAX_CHARACTERS]
    letters = sum(map(str.isalpha, prose))
    if script := language_of_script(prose):
        return script
    if letters < MIN_LETTERS:
        return ""
    label, probability = _identifier().classify(" ".join(prose.split()))
    return str(label) if probability >= MIN_PROBABILITY else ""


def language_of_script(text: str) -> str:
    """Return the only language that uses the script of a text; "" if there is none."""
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
"""Documents of a collection that are looked at first. A collection in one language needs no more."""
MIN_LANGUAGE_SHARE = 0.01
"""Minimum share of a collection's documents for a language to count; rarer ones are mistakes of the detector."""


def detect_languages(texts: Mapping[str, str]) -> dict[str, str]:
    """Return document -> language for a collection; a document that is undecided gets the most frequent language.

    Args:
        texts: document -> the beginning of its text.
    """
    documents = list(texts)
    step = -(-len(documents) // SAMPLED_DOCUMENTS) or 1
    found = {document: detect_language(texts[document]) for document in documents[::step]}
    if step > 1 and len(_frequent(found.values())) > 1:
        found |= {document: detect_language(texts[document]) for document in documents if document not in found}
    frequent = _frequent(found.values())
    main = main_language(language for language in found.values() if language in frequent)
    languages = {}
    for document in documents:
        language = found.get(document, "")
        languages[document] = language if language in frequent else main
    return languages


def _frequent(languages: Collection[str]) -> set[str]:
    """Return the languages that occur often enough to be no mistakes of the detector."""
    counts = Counter(filter(None, languages))
    return {language for language, count in counts.items() if count >= MIN_LANGUAGE_SHARE * len(languages)}


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
