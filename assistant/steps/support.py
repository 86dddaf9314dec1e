"""How far one text is covered by others: by its content words (stemmed), its numbers and its names, letter for letter;
and which sentences are about which part of a question.

A sentence fits a part by the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's content words
(stemmed) that it has; without an embedder by that share alone. The values are those that
`turnmark.evaluation.metrics.matching` found for the same question on Compound-QA (docs/measured.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from turnmark.assistant.steps.marks import ITEM, cited_numbers, pieces_of, says_unknown, without_item_mark
from turnmark.corpora.text import content_words, plain, sentences, strip_citations, words
from turnmark.retrieval.bm25 import Analyser, analyser
from turnmark.retrieval.task_passages import Embed


@lru_cache(maxsize=1)
def _stems() -> Analyser:
    return analyser("english")


@lru_cache(maxsize=2048)
def stems(text: str) -> frozenset[str]:
    """The stemmed words of a text, stop words left out. Kept, since a turn asks for those of a passage many times."""
    return frozenset(_stems()(text))


def coverage(text: str, sources: Iterable[str]) -> float:
    """Share of the content words of `text` that occur in the sources, 0..1; 1 for a text without content words."""
    needed = stems(" ".join(content_words(text)))
    if not needed:
        return 1.0
    present: set[str] = set()
    for source in sources:
        present |= stems(source)
    return len(needed & present) / len(needed)


def covers(sentence: str, sources: Sequence[str], threshold: float) -> bool:
    """Whether at least `threshold` of a sentence's content words occur in what it cites."""
    return bool(words(sentence)) and coverage(sentence, sources) >= threshold


WORDS_WEIGHT = 0.8
LEAST_FIT = 0.6
"""The least fit of a sentence with a part that it is about, if it could be about others."""
NEARLY = 0.1
"""A sentence is about every part that it fits so nearly as well as the one it fits best."""
LEAST_WORDS = 0.5
"""The same without an embedder: a share of the part's content words."""


def leaning(parts: Sequence[str]) -> list[str]:
    """The parts; one without a topic ("And why?") is put behind the one that it leans on."""
    questions: list[str] = []
    for part in parts:
        questions.append(part if content_words(part) or not questions else f"{questions[-1]} {part}")
    return questions


def fit_scores(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[float]]:
    """For each part how well each sentence fits it; a part without a topic is read as `leaning` has it."""
    questions = leaning(parts)
    bare = [plain(line) for line in lines]
    shares = [[coverage(part, [line]) if content_words(part) else 0.0 for line in bare] for part in questions]
    if embed is None or not bare:
        return shares
    vectors = embed([*questions, *bare])
    cosines = vectors[: len(questions)] @ vectors[len(questions) :].T
    return [
        [float(cosine) + WORDS_WEIGHT * share for cosine, share in zip(row, share_row, strict=True)]
        for row, share_row in zip(cosines, shares, strict=True)
    ]


def about(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[int]]:
    """For each of several parts the positions of the sentences that are about it; a sentence may be about several."""
    table = fit_scores(parts, lines, embed)
    threshold = LEAST_WORDS if embed is None else LEAST_FIT
    positions_by_part: list[list[int]] = [[] for _ in parts]
    for at in range(len(lines)):
        best = max(row[at] for row in table)
        for row, positions in zip(table, positions_by_part, strict=True):
            if row[at] >= max(threshold, best - NEARLY):
                positions.append(at)
    return positions_by_part


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
# Not after a colon or a mark of a list: what begins there begins a sentence.
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


def find_numbers(text: str, spelt: bool = False) -> frozenset[str]:
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


def find_names(text: str) -> frozenset[str]:
    """The stems of words with a capital letter inside a sentence."""
    names = (match.group() for match in _NAME.finditer(plain(strip_citations(text))))
    return frozenset(stem for name in names if name.lower() not in _NOT_NAMES for stem in stems(name))


def missing_numbers(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The numbers of a text that none of the sources has, in digits or in words."""
    needed = find_numbers(text)
    return needed - frozenset().union(*(find_numbers(source, spelt=True) for source in sources)) if needed else needed


def missing_names(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The names of a text that none of the sources has."""
    needed = find_names(text)
    return needed - frozenset().union(*(stems(source) for source in sources)) if needed else needed


@dataclass(frozen=True)
class _Named:
    """What of a source shows whether it has a name, maybe in another form."""

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


def unknown_names(text: str, sources: Sequence[str]) -> tuple[str, ...]:
    """The names of a text that none of the sources has, as spelt.

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
        if run and not _SHORT.fullmatch(run[-1]) and not any(_has_name(run, source) for source in named_sources)
    )


def _has_name(run: Sequence[str], source: _Named) -> bool:
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


# --- what a draft claims, and what supports it ---


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LEAST_SUPPORT = 0.5
LIKE = 0.7


@dataclass
class Claim:
    """A sentence or list item of an answer, without marks, and the numbers it cites."""

    text: str
    numbers: list[int]


_CODE = re.compile(r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def claims_of(text: str) -> list[Claim]:
    """Every sentence and list item that claims something, with the citations in it or directly after it.

    A heading, code, a question, a line that only leads up to a list, and a sentence that says what is not known claim
    nothing, unless they cite.
    """
    claims: list[Claim] = []
    pieces = pieces_of(_CODE.sub("", text))
    for at, piece in enumerate(pieces):
        bare, numbers = strip_citations(piece.text).strip(), cited_numbers(piece.text)
        if not any(map(str.isalnum, bare)):
            if claims:
                claims[-1].numbers += numbers
            continue
        following = pieces[at + 1].text if at + 1 < len(pieces) else ""
        leads = bare.rstrip("*_ ").endswith((":", "：")) and ITEM.match(following)
        if numbers or not (bare.startswith("#") or bare.endswith(("?", "？")) or says_unknown(bare) or leads):
            claims.append(Claim(without_item_mark(bare), numbers))
    return claims


@dataclass
class Sources:
    """The passages of a turn, as claims are held against them. Nothing is embedded before it is needed.

    Args:
        texts: the passages, titles included; the first is `[1]`.
        question: what was asked: an answer names what the question names, whether or not its passage does. None: where
            words decide, names do not count, as for the embedded judge, which was measured so.
    """

    texts: Sequence[str]
    embed: Embed | None = None
    question: str | None = None
    _vectors: dict[int, NDArray[np.float32] | None] = field(default_factory=dict)

    def support(self, text: str, numbers: Sequence[int]) -> bool:
        """Whether passages, by number, support a claim."""
        valid = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(self.texts)]
        return self._by_words(text, valid) or self._by_likeness(text, valid)

    def _by_words(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[n - 1] for n in numbers]
        asked = [] if self.question is None else [self.question]
        if not (cited_texts and covers(text, cited_texts, LEAST_SUPPORT)) or missing_numbers(
            text, [*cited_texts, *asked]
        ):
            return False
        return self.question is None or not unknown_names(text, [*cited_texts, self.question])

    def _by_likeness(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[n - 1] for n in numbers]
        if self.embed is None or not cited_texts or not words(text):
            return False
        unknown = missing_numbers(text, cited_texts) or missing_names(text, cited_texts)
        return not unknown and self.likeness(text, numbers) >= LIKE

    def likeness(self, text: str, numbers: Sequence[int]) -> float:
        """The best cosine of a claim with a sentence of these passages; 0 without an embedder."""
        if self.embed is None:
            return 0.0
        sources = [vectors for n in numbers if (vectors := self._sentences(n)) is not None]
        if not sources:
            return 0.0
        claim = self.embed([plain(text)])[0]
        return max(float((vectors @ claim).max()) for vectors in sources)

    def _sentences(self, n: int) -> NDArray[np.float32] | None:
        """The vectors of a passage's sentences; None where it has none."""
        if n not in self._vectors:
            text = self.texts[n - 1]
            parts = [part for start, end in sentences(text) if words(part := plain(text[start:end]))]
            self._vectors[n] = self.embed(parts) if self.embed is not None and parts else None
        return self._vectors[n]
