"""The numbers and names of a sentence: what must stand in its sources letter for letter, however it is worded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from turnmark.assistant.steps.support import stems
from turnmark.corpora.text import plain, strip_citations

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_SMALL = {word: n for n, word in enumerate(f"{_ONES} eighteen nineteen".split())}
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "dozen": 12}
_WORDS = "|".join([*_SMALL, *_TENS])
_DIGITS = re.compile(r"(?<![\w.,])[$€£#]?(\d+(?:[.,]\d+)*)(?!\d)")
_SPELT = re.compile(
    rf"\b({_WORDS})(?:-({'|'.join(list(_SMALL)[1:10])}))?\b(?:[ -]({'|'.join(_SCALES)}))?", re.IGNORECASE
)
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# "One of", "two ways": small numbers in words count what the sentence itself names.
_LEAST_SPELT = 13
_NAME = re.compile(r"(?<=[\w,;:'’\"“(-]\s)[A-Z][\w’'-]*\w")
# Not after a colon or a mark of a list: what begins there begins a sentence of its own.
_RUN = re.compile(r"(?<=[\w,;'’\"“(]\s)[A-Z][\w’'-]*\w(?:\s+[A-Z][\w’'-]*\w)*")
_CAPITALS = re.compile(r"\b(?:[A-Z]\.?){2,6}")
# US, TV, AD, II: sources have them in too many other forms.
_SHORT = re.compile(r"[A-Z]{2}")
_PREFIX, _WITH_PREFIX = 4, 6
_LONGEST_ACRONYM = 6
_GERMAN = re.compile(r"\b(?:und|der|das|ist|nicht|eine|mit|von|auf|sich|dem|den)\b")
_SKIPPED = frozenset(("and", "of", "for", "the"))  # in an acronym
_NOT_NAMES = frozenset(
    "i i'm i've i'd i'll the a an it this that these those he she they we you in on at for if but and".split()
)


def numbers_of(text: str, spelt: bool = False) -> frozenset[str]:
    """The numbers of a text, in digits and without separators; `spelt`: those written as words too, however small."""
    body = _GROUPS.sub("", _LIST_MARK.sub("", strip_citations(text)))
    numbers = {_digits(match[1]) for match in _DIGITS.finditer(body)}
    numbers |= {_digits(number) for number in re.findall(r"\d+(?:\.\d+)?", body)} if spelt else set()
    for match in _SPELT.finditer(body):
        low = match[1].lower()
        value = _SMALL.get(low, _TENS.get(low, 0)) + _SMALL.get((match[2] or "").lower(), 0)
        value *= _SCALES.get((match[3] or "").lower(), 1)
        if spelt or value >= _LEAST_SPELT:
            numbers.add(str(value))
    return frozenset(numbers)


def _digits(number: str) -> str:
    integer, _, part = number.replace(",", ".").partition(".")
    part = part.rstrip("0")
    return f"{integer.lstrip('0') or '0'}.{part}" if part else integer.lstrip("0") or "0"


def names_of(text: str) -> frozenset[str]:
    """The stems of words with a capital letter inside a sentence."""
    names = (match.group() for match in _NAME.finditer(plain(strip_citations(text))))
    return frozenset(stem for name in names if name.lower() not in _NOT_NAMES for stem in stems(name))


def missing_numbers(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The numbers of a text that none of the sources has, in digits or in words."""
    needed = numbers_of(text)
    return needed - frozenset().union(*(numbers_of(source, spelt=True) for source in sources)) if needed else needed


def missing_names(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The names of a text that none of the sources has."""
    needed = names_of(text)
    return needed - frozenset().union(*(stems(source) for source in sources)) if needed else needed


@dataclass(frozen=True)
class _Named:
    """What of a source tells whether a name stands there, maybe in another form."""

    stems: frozenset[str]
    beginnings: frozenset[str]
    initials: str
    capitals: frozenset[str]


@lru_cache(maxsize=512)
def _named(source: str) -> _Named:
    source_stems = stems(source)
    return _Named(
        stems=source_stems,
        beginnings=frozenset(stem[:_PREFIX] for stem in source_stems),
        initials="".join(word[0] for word in re.findall(r"\b[a-z]\w*", source.lower()) if word not in _SKIPPED),
        capitals=frozenset(capitals.replace(".", "") for capitals in _CAPITALS.findall(source)),
    )


def strange_names(text: str, sources: Sequence[str]) -> tuple[str, ...]:
    """The names of a text that none of the sources has, as they stand there.

    A name is a run of words with capital letters inside a sentence, and its last word decides: "Joseph Stalin" is there
    where Stalin is. Other forms count: "Italian" for Italy, "FDA" for what has these initials, "World Bank" for WB.
    German has none: it writes every noun with a capital letter.
    """
    if len(set(_GERMAN.findall(text))) > 1:
        return ()
    word_runs = (match.group().split() for match in _RUN.finditer(plain(strip_citations(text))))
    runs = [[word for word in run if word.lower() not in _NOT_NAMES] for run in word_runs]
    named_sources = [_named(source) for source in sources]
    return tuple(
        " ".join(run)
        for run in runs
        if run and not _SHORT.fullmatch(run[-1]) and not any(_stands(run, source) for source in named_sources)
    )


def _stands(run: Sequence[str], source: _Named) -> bool:
    """Whether a source has the last word of a run, or the run in another form."""
    name = run[-1]
    name_stems = stems(name)
    if name_stems <= source.stems:
        return True
    if len(name) >= _WITH_PREFIX and any(stem[:_PREFIX] in source.beginnings for stem in name_stems):
        return True
    if (
        name.isupper()
        and len(name) <= _LONGEST_ACRONYM
        and (name.lower() in source.initials or name in source.capitals)
    ):
        return True
    return len(run) > 1 and "".join(word[0] for word in run) in source.capitals
