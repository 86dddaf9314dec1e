"""The function words of the most written languages, and what follows from them.

A word such as "and", "wie" or "什么" says nothing about the topic of a text, but tells its language. A message is too
short for a statistical detector, so these words tell its language. Its other words are its content words.
The words are in `function_words.json`; those of scripts without spaces are parts of runs of characters.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from turnmark.core.grouping import group_pairs
from turnmark.corpora.text.languages import (
    ENGLISH,
    UNSPACED_LANGUAGES,
    elided_words,
    language_of_script,
    without_elision,
)
from turnmark.corpora.text.segmentation import ends_with_question_mark, words

MIN_SHARE = 0.1
"""Minimum share of function words in a text. A single one tells the language of at most two words, since English has
"per" and "die", too, unless it has a letter that English lacks, such as "où", or begins a question, such as "wie"."""
_BEGINNINGS_OF_NAMES = frozenset(("al", "das", "de", "der", "die", "el", "il", "la", "las", "le", "les", "los", "per"))
_SPANISH_MARKS = re.compile("[¿¡]")
MAX_CHARACTERS = 1000
"""Characters of a text that are looked at: its beginning tells the language."""
_INTERNATIONAL_WORDS = frozenset(("ok", "okay", "hi"))
"""English function words that tell no language."""


@cache
def _table() -> Mapping[str, frozenset[str]]:
    texts = json.loads(Path(__file__).with_name("function_words.json").read_text("utf-8"))
    return {language: frozenset(text.split()) for language, text in texts.items()}


def function_words_of(language: str) -> frozenset[str]:
    """Return the function words of a language; none for a language without a row."""
    return _table().get(language, frozenset())


@cache
def _languages_by_word() -> Mapping[str, list[str]]:
    return group_pairs(
        (word, language)
        for language, function_words in _table().items()
        for word in (function_words - _INTERNATIONAL_WORDS if language == ENGLISH else function_words)
    )


def _languages_eliding(word: str) -> tuple[str, ...]:
    """Return the languages in which a word such as "l'imprimante" begins with an elided word."""
    head, _, tail = word.partition("'")
    return tuple(language for language in _table() if tail and head in elided_words(language))


_CYRILLIC, _ARABIC, _DEVANAGARI = (re.compile(f"[{span}]") for span in ("Ѐ-ӿ", "؀-ۿ", "ऀ-ॿ"))
_SHARED_SCRIPTS = ((_CYRILLIC, ("ru", "uk")), (_ARABIC, ("ar", "fa")), (_DEVANAGARI, ("hi",)))
"""Scripts of several languages, with those that have function words here."""
_UKRAINIAN, _PERSIAN = re.compile("[іїєґІЇЄҐ]"), re.compile("[پچژگکی]")


@lru_cache(maxsize=4096)
def language_of(text: str, likely: tuple[str, ...] = ()) -> str:
    """Return the language of a message or another short text, or "" if nothing tells it.

    The language is recognized by its script or the marks ¿ and ¡, or else by its function words. If the message has
    equally many function words of several languages, the first of `likely` is returned, or else English: the words of
    an English message are never taken for those of another language.

    >>> language_of("Wie lange ist der Ausweis gültig?")
    'de'

    Args:
        likely: languages of the conversation and of the documents.
    """
    text = text[:MAX_CHARACTERS]
    if script := language_of_script(text):
        return "ja" if script == "zh" and "ja" in likely and "zh" not in likely else script
    if _SPANISH_MARKS.search(text):
        return "es"
    counts: Counter[str] = Counter()
    text_words = words(text)
    for word in text_words:
        counts.update(_languages_by_word().get(word) or _languages_eliding(word))
    for pattern, languages in _SHARED_SCRIPTS:
        if pattern.search(text) and not counts[ENGLISH]:
            return _of_shared_script(text, languages, likely)
    if not counts:  # "怎么安装 docker compose": names of things in Latin letters
        return language_of_script(re.sub("[A-Za-z]+", " ", text))
    most = max(counts.values())
    if not counts[ENGLISH] and (most < MIN_SHARE * len(text_words) or (most == 1 and _is_unsure(text, text_words))):
        return ""
    best = [language for language in (*likely, ENGLISH, *counts) if counts[language] == most]
    return best[0]


def _is_unsure(text: str, text_words: list[str]) -> bool:
    """Return whether a text with a single function word may be in another language than that of the word."""
    known = _languages_by_word().keys() & {*text_words}
    begins_question = text_words[0] in known - _BEGINNINGS_OF_NAMES and ends_with_question_mark(text)
    return len(text_words) > 2 and not begins_question and all(map(str.isascii, known))


def _of_shared_script(text: str, languages: tuple[str, ...], likely: tuple[str, ...]) -> str:
    if "uk" in languages and _UKRAINIAN.search(text):
        return "uk"
    if "fa" in languages and _PERSIAN.search(text):
        return "fa"
    return next((language for language in likely if language in languages), languages[0])


def content_words(text: str, language: str = "") -> list[str]:
    """Return the words that carry a question's topic, in order, without repeats: no function words.

    In a script without spaces these are the stretches between function words.

    Args:
        language: the language of the text; "": as `language_of` finds it, or else English.
    """
    language = language or language_of(text) or ENGLISH
    if language in UNSPACED_LANGUAGES:
        return _stretches(text, language)
    function_words = function_words_of(language)
    text_words = (without_elision(word, language) for word in words(text) if word not in function_words)
    return list(dict.fromkeys(word for word in text_words if word not in function_words))


_WEAK_CHARACTERS = frozenset("要会能用有在到去来做个条次过不多大小时前后里上下中对从给再想该需")
"""Chinese characters that are no topic by themselves, though they are parts of words that are."""
_HIRAGANA = "\u3041-\u309f"


def _stretches(text: str, language: str) -> list[str]:
    found: dict[str, None] = {}
    for run in _runs(text):
        if run.isascii():
            if run.lower() not in function_words_of(ENGLISH):
                found[run.lower()] = None
            continue
        pieces = re.split(f"[{_HIRAGANA}]+", run) if language == "ja" else _cutter(language).split(run)
        if language == "zh":
            pieces = [_MEASURE_AT_START.sub("", _PLACE_AT_END.sub("", piece)) for piece in pieces]
        found |= dict.fromkeys(filter(None, pieces))
    found = {piece: None for piece in found if piece not in _WEAK_CHARACTERS}
    long = [piece for piece in found if len(piece) > 1]
    if not found and language == "ja":  # a word in hiragana, such as りんご
        pieces = [piece for run in _runs(text) for piece in re.split("[をはがのに]|です|ます", run)]
        return [piece for piece in pieces if len(piece) > 1]
    return long or list(found)


def _runs(text: str) -> list[str]:
    """Return the runs of letters of one kind: a command in Latin letters stands without spaces inside Chinese."""
    return re.findall(r"[A-Za-z0-9][A-Za-z0-9._+-]*[A-Za-z0-9]|[A-Za-z0-9]|(?:[^\W_A-Za-z0-9]|[\u0e31-\u0e4e])+", text)


@cache
def _cutter(language: str) -> re.Pattern[str]:
    function_words = sorted(_table().get(language, ()), key=len, reverse=True)
    pattern = "|".join(map(re.escape, function_words)) or "(?!)"
    return re.compile(f"{pattern}|{_CHINESE_AUXILIARIES}" if language == "zh" else pattern)


_CHINESE_AUXILIARIES = (
    "要(?![求素点件领])|有(?![效线限关机名权])|先(?![生进])|想(?![法象])|能(?![源力量耗效])|会(?![议员话计场展费签])"
    "|在(?![线职编])|得(?![到分力])|该|才(?![能华])|还(?![款原贷书])|又|再(?![生见造])|不(?![锈良足])|没(?!收)"
    "|给(?!予)|快(?![递捷速照门键餐])|最(?=[少多好大小近高低])|让(?!步)|(?<![级区类性特个分])别(?![名的])|只(?!读)"
    "|(?<![首古成])都(?![市会])"
)
"""Chinese auxiliary words of one character, with what follows them where they are part of another word."""
_PLACE_AT_END = re.compile(r"(?<=..)[里上下中时后前内外]\Z")
_MEASURE_AT_START = re.compile(r"\A(?:个(?![人性体])|种(?![子类植])|台(?![式湾灯]))(?=.)")
"""A postposition at the end of a stretch ("电脑里"), and a measure word at its start ("台电脑")."""
