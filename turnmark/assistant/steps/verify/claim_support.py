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
from unicodedata import combining, normalize

from turnmark.assistant.steps.verify.computed_values import without_values
from turnmark.assistant.steps.verify.numbers import find_numbers, missing_numbers, month_names, without_quantities
from turnmark.corpora.text.analysis import open_analyzer
from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import sentences, strip_citations, strip_inline_markdown, words
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
    present = set[str]().union(*(stems(source, language) for source in sources))
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


def match_sentences(
    parts: Sequence[str], lines: Sequence[str], embed: Embed | None, wordless: float = 0.0
) -> list[list[int]]:
    """Return for each part the positions of the sentences that answer it; a sentence may answer several parts.

    A part without a topic is completed by `with_topics`.

    Args:
        wordless: the share of words that every sentence has of a part that still has no content word.
    """
    questions = with_topics(parts)
    texts = [strip_inline_markdown(line) for line in lines]
    fits = [[coverage(each, [text]) if content_words(each) else wordless for text in texts] for each in questions]
    threshold = MIN_WORD_SHARE if embed is None else MIN_FIT
    if embed is not None and texts:
        vectors = embed([*questions, *texts])
        cosines = vectors[: len(questions)] @ vectors[len(questions) :].T
        fits = [
            [float(cosine) + WORDS_WEIGHT * share for cosine, share in zip(*rows, strict=True)]
            for rows in zip(cosines, fits, strict=True)
        ]
    least = [max(threshold, max(of_sentence) - MAX_FIT_GAP) for of_sentence in zip(*fits, strict=True)]
    return [[position for position, fit in enumerate(row) if fit >= least[position]] for row in fits]


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


def _unaccented(text: str) -> str:
    """Return a text without accents, which names have in one language and lack in another: "Bogotá"."""
    return text if text.isascii() else "".join(char for char in normalize("NFD", text) if not combining(char))


def _is_name(word: str) -> bool:
    return word.lower() not in _NOT_NAMES and word.lower() not in month_names()


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
    source_stems = stems(_unaccented(source), language)
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
        name = [word for word in match.group().split() if _is_name(word)]
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
    last_stems = stems(_unaccented(last), source.language)
    if last_stems <= source.stems:
        return True
    if len(last) >= _MIN_PREFIXED_LETTERS and any(stem[:_PREFIX_LETTERS] in source.prefixes for stem in last_stems):
        return True
    is_acronym = last.isupper() and len(last) <= _MAX_ACRONYM_LETTERS
    if is_acronym and (last.lower() in source.initials or last in source.acronyms):
        return True
    return len(name) > 1 and "".join(word[0] for word in name) in source.acronyms


# --- support of a claim ---


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MIN_SUPPORT_SHARE = 0.5
"""Minimum share of a claim's content words in the passages that support it."""
MIN_SUPPORT_COSINE = 0.7
"""Minimum cosine of a claim with a sentence of the passages that support it."""


def _has_code(text: str, sources: Sequence[str]) -> bool:
    """Return whether the sources have every word of the code in a claim; "<name>" stands for any word."""
    known = "\n".join(sources).casefold()
    code = " ".join(match[1] for match in _CODE_SPAN.finditer(text))
    return all(word.casefold() in known for word in code.split() if not word.startswith("<"))


_REPORTING_FRAME = re.compile(
    r"^\W*(?:[\w'’-]+ ){1,7}?(?:(?:states?|says?|notes?|mentions?|explains?|specif(?:y|ies)|indicates?|adds?) "
    r"that|(?:steht|heißt es|besagt|erklärt|erwähnt|gibt an), dass) ",
    re.IGNORECASE,
)
"""The beginning of a claim that says where it stands: "The offer letter states that …"."""
_CODE_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass
class Sources:
    """The passages of a turn, against which claims are checked. Sentences are embedded only when needed.

    Args:
        texts: the passages, titles included; the first is `[1]`.
        question: the question: an answer may repeat its numbers and names, even if no passage has them. None: the check
            by words ignores names, which is how the embedded judge was measured.
        values: number of a passage -> the values that were computed for it, which a claim may write in another form.
        claim_language: the language of the claims. Of claims in another language than their passages, only numbers,
            names and code are checked.
    """

    texts: Sequence[str]
    embed: Embed | None = None
    question: str | None = None
    values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    claim_language: str = ""
    _vectors: dict[int, NDArray[np.float32] | None] = field(default_factory=dict)

    @cached_property
    def language(self) -> str:
        """The language of most passages."""
        return language_of_sources(self.texts)

    def supports(self, text: str, numbers: Sequence[int], counts: Collection[str] = ()) -> bool:
        """Return whether the passages with these numbers support a claim.

        Args:
            counts: numbers in the claim that need no source.
        """
        valid = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(self.texts)]
        cited_texts = [self.texts[number - 1] for number in valid]
        if not cited_texts or not words(text):
            return False
        known_texts = cited_texts if self.question is None else [*cited_texts, self.question]
        values = [value for number in valid for value in self.values.get(number, ())]
        checked = without_values(text, values)
        if missing_numbers(checked, known_texts, self.language) - set(counts):
            return False
        if self.question is not None and not _has_code(text, known_texts):
            return False
        if self.is_translated(text, valid):
            return not unknown_names(text, known_texts)
        named = self.question is None or not unknown_names(text, known_texts)
        if named and self._covers(text, cited_texts):
            return True
        if self.embed is None or missing_numbers(checked, cited_texts, self.language) - set(counts):
            return False
        return not unknown_names(text, cited_texts) and self.best_cosine(text, valid) >= MIN_SUPPORT_COSINE

    def is_translated(self, text: str, numbers: Iterable[int]) -> bool:
        """Return whether a claim is in another language than the passages with these numbers."""
        languages = {language_of(self.texts[number - 1]) for number in numbers if number <= len(self.texts)} - {""}
        return bool(self.claim_language and languages) and languages.isdisjoint(
            (self.claim_language, language_of(text))
        )

    def _covers(self, text: str, cited_texts: Sequence[str]) -> bool:
        """Return whether the passages have enough of a claim's words; its quantities, which they have, count too."""
        if self.question is None:
            return coverage(text, cited_texts) >= MIN_SUPPORT_SHARE
        quantities = len(find_numbers(text, language=self.language))
        plain = _REPORTING_FRAME.sub("", without_quantities(text, self.language))
        needed = len(content_stems(plain, self.language))
        share = coverage(plain, cited_texts)
        return share * needed + quantities >= MIN_SUPPORT_SHARE * (needed + quantities)

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
