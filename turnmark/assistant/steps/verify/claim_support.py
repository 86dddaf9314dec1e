"""Measure how far texts support a claim (by stemmed words, numbers and names), and which sentences answer which part.

The fit of a sentence with a part of a question is the cosine of their embeddings plus `WORDS_WEIGHT` times the share of
the part's content words (stemmed) that the sentence has; without an embedder it is that share alone. The values are
those that `turnmark.evaluation.metrics.matching` found for the same task on Compound-QA (docs/measured.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from turnmark.assistant.citations.marks import ITEM_MARK, cited_numbers, spaced_sentences, without_item_mark
from turnmark.assistant.steps.verify.computed_values import without_values
from turnmark.assistant.steps.verify.numbers import missing_numbers
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.analysis import open_analyzer
from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import (
    ends_with_question_mark,
    sentences,
    strip_citations,
    strip_inline_markdown,
    words,
)
from turnmark.retrieval.embedding.vector_cache import Embed


@lru_cache(maxsize=2048)
def stems(text: str, language: str = "") -> frozenset[str]:
    """Return the stemmed words of a text without stop words. Cached, since a turn reads a passage many times.

    Args:
        language: the language whose stems are compared; "": the language of the text, or English if it is undecided.
    """
    return frozenset(open_analyzer(language or language_of(text) or ENGLISH)(text))


def content_stems(text: str, language: str) -> frozenset[str]:
    """Return the stems of a text's content words in the language of the passages that they are compared with."""
    return stems(" ".join(content_words(text)), language)


def language_of_sources(sources: Iterable[str], text: str = "") -> str:
    """Return the language of most sources; if they do not tell, that of `text`, or else English."""
    counts = Counter(filter(None, map(language_of, sources)))
    return counts.most_common(1)[0][0] if counts else language_of(text) or ENGLISH


def coverage(text: str, sources: Iterable[str]) -> float:
    """Return the share of the content words of `text` that occur in the sources, 0..1; 1 if it has no content words."""
    sources = list(sources)
    language = language_of_sources(sources, text)
    needed = content_stems(text, language)
    if not needed:
        return 1.0
    present: set[str] = set()
    for source in sources:
        present |= stems(source, language)
    return len(needed & present) / len(needed)


def covers(sentence: str, sources: Sequence[str], threshold: float) -> bool:
    """Return whether at least the share `threshold` of a sentence's content words occurs in the sources."""
    return bool(words(sentence)) and coverage(sentence, sources) >= threshold


WORDS_WEIGHT = 0.8
MIN_FIT = 0.6
"""Minimum fit of a sentence with a part that it answers."""
MAX_FIT_GAP = 0.1
"""A sentence answers every part whose fit is at most this far below its best fit."""
MIN_WORD_SHARE = 0.5
"""Minimum fit without an embedder: a share of the part's content words."""


def with_topics(parts: Sequence[str]) -> list[str]:
    """Return the parts as questions; a part without a topic ("And why?") gets the question before it in front."""
    questions: list[str] = []
    for part in parts:
        needs_context = bool(questions) and not content_words(part)
        questions.append(f"{questions[-1]} {part}" if needs_context else part)
    return questions


def fit_scores(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[float]]:
    """Return a row per part with the fit of each sentence. A part without a topic is completed by `with_topics`."""
    questions = with_topics(parts)
    texts = [strip_inline_markdown(line) for line in lines]
    shares: list[list[float]] = []
    for question in questions:
        if content_words(question):
            shares.append([coverage(question, [text]) for text in texts])
        else:
            shares.append([0.0] * len(texts))
    if embed is None or not texts:
        return shares
    vectors = embed([*questions, *texts])
    cosines = vectors[: len(questions)] @ vectors[len(questions) :].T
    fits: list[list[float]] = []
    for cosine_row, share_row in zip(cosines, shares, strict=True):
        row = [float(cosine) + WORDS_WEIGHT * share for cosine, share in zip(cosine_row, share_row, strict=True)]
        fits.append(row)
    return fits


def match_sentences(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[int]]:
    """Return for each part the positions of the sentences that answer it; a sentence may answer several parts."""
    table = fit_scores(parts, lines, embed)
    threshold = MIN_WORD_SHARE if embed is None else MIN_FIT
    positions_by_part: list[list[int]] = [[] for _ in parts]
    for position in range(len(lines)):
        best = max(row[position] for row in table)
        for row, positions in zip(table, positions_by_part, strict=True):
            if row[position] >= max(threshold, best - MAX_FIT_GAP):
                positions.append(position)
    return positions_by_part


_NAME = re.compile(r"(?<=[\w,;:'’\"“(-]\s)[A-Z][\w’'-]*\w")
# Not after a colon or a list mark, where a sentence begins.
_CAPITALIZED_RUN = re.compile(r"(?<=[\w,;'’\"“(]\s)[A-Z][\w’'-]*\w(?:\s+[A-Z][\w’'-]*\w)*")
_CAPITALS = re.compile(r"\b(?:[A-Z]\.?){2,6}")
# Not checked (US, TV, AD, II), since sources write them in many other forms.
_TWO_CAPITALS = re.compile(r"[A-Z]{2}")
_PREFIX_LETTERS, _MIN_PREFIXED_LETTERS = 4, 6
_MAX_ACRONYM_LETTERS = 6
_ACRONYM_STOP_WORDS = frozenset(("and", "of", "for", "the"))  # in an acronym
_NOT_NAMES = frozenset(
    "i i'm i've i'd i'll the a an it this that these those he she they we you in on at for if but and".split()
)


def find_names(text: str, language: str = ENGLISH) -> frozenset[str]:
    """Return the stems of words with a capital letter inside a sentence; none in German, where all nouns have one."""
    name_stems: set[str] = set()
    if language_of(text) == "de":
        return frozenset()
    for match in _NAME.finditer(strip_inline_markdown(strip_citations(text))):
        name = match.group()
        if name.lower() not in _NOT_NAMES:
            name_stems |= stems(name, language)
    return frozenset(name_stems)


def missing_names(text: str, sources: Iterable[str]) -> frozenset[str]:
    """Return the stems of a text's names that none of the sources has."""
    sources = list(sources)
    language = language_of_sources(sources, text)
    missing = find_names(text, language)
    if not missing:
        return missing
    for source in sources:
        missing -= stems(source, language)
    return missing


@dataclass(frozen=True)
class _SourceNames:
    """The features of a source by which a name is recognized in it, even in another form.

    Attributes:
        language: the language of its stems.
        prefixes: beginnings of its stems, of `_PREFIX_LETTERS` letters.
        initials: first letters of its words, in order.
        acronyms: words in capitals, without dots.
    """

    language: str
    stems: frozenset[str]
    prefixes: frozenset[str]
    initials: str
    acronyms: frozenset[str]


@lru_cache(maxsize=512)
def _names_of(source: str) -> _SourceNames:
    language = language_of(source) or ENGLISH
    source_stems = stems(source, language)
    source_words = re.findall(r"\b[a-z]\w*", source.lower())
    return _SourceNames(
        language=language,
        stems=source_stems,
        prefixes=frozenset(stem[:_PREFIX_LETTERS] for stem in source_stems),
        initials="".join(word[0] for word in source_words if word not in _ACRONYM_STOP_WORDS),
        acronyms=frozenset(acronym.replace(".", "") for acronym in _CAPITALS.findall(source)),
    )


def unknown_names(text: str, sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a text that none of the sources has, as spelled.

    A name is a run of words with capital letters inside a sentence. Its last word decides: "Joseph Stalin" is known if
    a source has "Stalin". Other forms count: "Italian" for Italy, an acronym for words with these initials, "World
    Bank" for WB. A German text gives no names, since German writes every noun with a capital letter.
    """
    if language_of(text) == "de":
        return ()
    known = [_names_of(source) for source in sources]
    unknown: list[str] = []
    for match in _CAPITALIZED_RUN.finditer(strip_inline_markdown(strip_citations(text))):
        name = [word for word in match.group().split() if word.lower() not in _NOT_NAMES]
        if not name or _TWO_CAPITALS.fullmatch(name[-1]):
            continue
        if not any(_has_name(name, source) for source in known):
            unknown.append(" ".join(name))
    return tuple(unknown)


def _has_name(name: Sequence[str], source: _SourceNames) -> bool:
    """Return whether a source has the last word of a name, or the name in another form.

    Args:
        name: its words.
    """
    last = name[-1]
    last_stems = stems(last, source.language)
    if last_stems <= source.stems:
        return True
    if len(last) >= _MIN_PREFIXED_LETTERS and any(stem[:_PREFIX_LETTERS] in source.prefixes for stem in last_stems):
        return True
    is_acronym = last.isupper() and len(last) <= _MAX_ACRONYM_LETTERS
    if is_acronym and (last.lower() in source.initials or last in source.acronyms):
        return True
    return len(name) > 1 and "".join(word[0] for word in name) in source.acronyms


# --- claims of a draft, and their support ---


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MIN_SUPPORT_SHARE = 0.5
"""Minimum share of a claim's content words in the passages that support it."""
MIN_SUPPORT_COSINE = 0.7
"""Minimum cosine of a claim with a sentence of the passages that support it."""


@dataclass
class Claim:
    """A sentence or list item of an answer, without marks, and the citation numbers in it."""

    text: str
    numbers: list[int]


_CODE = re.compile(r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def claims_of(text: str, unstated: Collection[str] = ()) -> list[Claim]:
    """Return every sentence and list item that claims something, with the citations in it or directly after it.

    Headings, code, questions, lines that only introduce a list, and sentences that say what is not known claim nothing,
    unless they cite.

    Args:
        unstated: sentences that a model marked as not stated in the documents.
    """
    claims: list[Claim] = []
    pieces = spaced_sentences(_CODE.sub("", text))
    for position, piece in enumerate(pieces):
        sentence = strip_citations(piece.text).strip()
        numbers = cited_numbers(piece.text)
        if not any(map(str.isalnum, sentence)):  # only marks, which belong to the sentence before
            if claims:
                claims[-1].numbers += numbers
            continue
        following = pieces[position + 1].text if position + 1 < len(pieces) else ""
        if numbers or (sentence not in unstated and _claims_something(sentence, following)):
            claims.append(Claim(without_item_mark(sentence), numbers))
    return claims


def _claims_something(sentence: str, following: str) -> bool:
    """Return whether a sentence without citations claims something; `following` is the sentence after it."""
    if sentence.startswith("#") or ends_with_question_mark(sentence) or is_refusal(sentence):
        return False
    introduces_list = sentence.rstrip("*_ ").endswith((":", "：")) and ITEM_MARK.match(following)
    return not introduces_list


@dataclass
class Sources:
    """The passages of a turn, against which claims are checked. Sentences are embedded only when needed.

    Args:
        texts: the passages, titles included; the first is `[1]`.
        question: the question: an answer may repeat its numbers and names, even if no passage has them. None: the check
            by words ignores names, which is how the embedded judge was measured.
        values: number of a passage -> the values that were computed for it, which a claim may write in another form.
    """

    texts: Sequence[str]
    embed: Embed | None = None
    question: str | None = None
    values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    _vectors: dict[int, NDArray[np.float32] | None] = field(default_factory=dict)

    @cached_property
    def language(self) -> str:
        """The language of most passages."""
        return language_of_sources(self.texts)

    def supports(self, text: str, numbers: Sequence[int]) -> bool:
        """Return whether the passages with these numbers support a claim."""
        valid = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(self.texts)]
        return self._supported_by_words(text, valid) or self._supported_by_cosine(text, valid)

    def _missing_numbers(self, text: str, numbers: Sequence[int], known_texts: Sequence[str]) -> frozenset[str]:
        """Return the numbers of a claim that neither texts nor the values of the passages with these numbers have."""
        values = [value for number in numbers for value in self.values.get(number, ())]
        return missing_numbers(without_values(text, values), known_texts, self.language)

    def _supported_by_words(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[number - 1] for number in numbers]
        if not cited_texts or not covers(text, cited_texts, MIN_SUPPORT_SHARE):
            return False
        if self.question is None:
            return not self._missing_numbers(text, numbers, cited_texts)
        known_texts = [*cited_texts, self.question]
        return not self._missing_numbers(text, numbers, known_texts) and not unknown_names(text, known_texts)

    def _supported_by_cosine(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[number - 1] for number in numbers]
        if self.embed is None or not cited_texts or not words(text):
            return False
        unknown = self._missing_numbers(text, numbers, cited_texts) or missing_names(text, cited_texts)
        return not unknown and self.best_cosine(text, numbers) >= MIN_SUPPORT_COSINE

    def best_cosine(self, text: str, numbers: Sequence[int]) -> float:
        """Return the best cosine of a claim with a sentence of these passages, or 0 without an embedder."""
        if self.embed is None:
            return 0.0
        sentence_vectors = [self._sentence_vectors(number) for number in numbers]
        known_vectors = [vectors for vectors in sentence_vectors if vectors is not None]
        if not known_vectors:
            return 0.0
        claim = self.embed([strip_inline_markdown(text)])[0]
        return max(float((vectors @ claim).max()) for vectors in known_vectors)

    def _sentence_vectors(self, number: int) -> NDArray[np.float32] | None:
        """Return the vectors of a passage's sentences, a row each, or None without sentences or an embedder."""
        if number not in self._vectors:
            text = self.texts[number - 1]
            plain_sentences = [strip_inline_markdown(text[start:end]) for start, end in sentences(text)]
            plain_sentences = [sentence for sentence in plain_sentences if words(sentence)]
            self._vectors[number] = self.embed(plain_sentences) if self.embed and plain_sentences else None
        return self._vectors[number]
