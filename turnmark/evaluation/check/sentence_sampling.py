"""Queries without a model: sentences, each removed from its passage in a copy of the index.

Only sentences as short as questions that share few words with the rest of their passage are drawn. People ask in other
words than the answer has; sentences that repeat the words around them favor a search by words (docs/measured.md).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import count_words, sentences, words
from turnmark.corpora.types import Passage
from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.retrieval.search.opened_index import StoredIndex

MIN_WORDS, MAX_WORDS = 6, 16
"""Minimum and maximum number of words of a sentence to search for."""
MIN_REMAINING_WORDS = 30
"""Minimum number of words that remain in a passage without its sentence."""
CANDIDATES_PER_SENTENCE = 20
"""Number of candidates drawn per wanted sentence; candidates that occur more than once are dropped."""
MAX_SHARED_WORDS = 1 / 3
"""Maximum share of a sentence's content words that the rest of its passage has, too."""
_NON_SENTENCE_STARTS = ("|", "#", "```", "    ", "!", "<")
"""Beginnings of table rows, headings, code, pictures and tags."""
_LIST_MARKER = re.compile(r"(?:[-*+]|\d+[.)])\s+")


@dataclass(frozen=True)
class RemovedSentence:
    """A sentence, the passage that it was taken from, its place in the document, and the passage without it."""

    passage: Passage
    sentence: str
    place: Span
    rest: Passage


def draw_sentences(index: StoredIndex, n: int, seed: int) -> list[RemovedSentence]:
    """Draw up to n sentences that occur once in the index: one per passage, taking the documents in turn."""
    candidates: list[tuple[int, RemovedSentence]] = []
    rank_in_document: Counter[str] = Counter()
    chance = random.Random(seed)
    passages = [passage for page in index.store.pages() for _, _, passage in page]
    chance.shuffle(passages)
    for passage in passages:
        possible = list(_candidates(passage))
        if possible:
            candidates.append((rank_in_document[passage.document], chance.choice(possible)))
            rank_in_document[passage.document] += 1
    candidates.sort(key=lambda pair: pair[0])
    pool = [candidate for _, candidate in candidates[: CANDIDATES_PER_SENTENCE * n]]
    occurrences = _count_occurrences([candidate.sentence for candidate in pool], passages)
    return [candidate for candidate in pool if occurrences[candidate.sentence] == 1][:n]


def _candidates(passage: Passage) -> Iterator[RemovedSentence]:
    """Yield each sentence of a passage that can be left out."""
    if any(character in passage.id for character in "\t\r\n"):  # relevance labels are separated by tabs
        return
    for start, end in sentences(passage.text):
        written = passage.text[start:end]
        marker = _LIST_MARKER.match(written)
        sentence = " ".join(written[marker.end() if marker else 0 :].split())
        is_sentence = sentence.endswith((".", "!", "?")) and not written.startswith(_NON_SENTENCE_STARTS)
        if not is_sentence or not MIN_WORDS <= count_words(sentence) <= MAX_WORDS:
            continue
        rest = passage.model_copy(update={"text": f"{passage.text[:start]} {passage.text[end:]}"})
        if count_words(rest.text) >= MIN_REMAINING_WORDS and _shared_words(sentence, rest) <= MAX_SHARED_WORDS:
            place = Span(passage.document, passage.start + start, passage.start + end)
            yield RemovedSentence(passage, sentence, place, rest)


def _shared_words(sentence: str, rest: Passage) -> float:
    """Return the share of a sentence's content words that the rest of its passage has; 1 without content words."""
    own, others = content_words(sentence), frozenset(words(rest.indexed_text))
    return sum(word in others for word in own) / len(own) if own else 1.0


def _count_occurrences(wanted: Sequence[str], passages: Sequence[Passage]) -> Counter[str]:
    """Return sentence -> number of occurrences."""
    counts: Counter[str] = Counter()
    for passage in passages:
        text = " ".join(passage.text.split())
        counts.update({sentence: text.count(sentence) for sentence in wanted if sentence in text})
    return counts
