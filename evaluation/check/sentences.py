"""Queries without a model: sentences of passages, each left out of its passage in a copy of the index."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnmark.corpora.text import count_words, sentences
from turnmark.corpora.types import Passage
from turnmark.retrieval.stored import StoredIndex

SHORTEST, LONGEST = 8, 40
"""Words of a sentence that is searched for."""
LEFT = 30
"""Smallest number of words that a passage has left without its sentence."""
POOL = 20
"""Candidates that are drawn for each wanted sentence; most of those left out occur more than once."""
_NO_SENTENCE = ("|", "#", "```", "    ", "!", "<")
"""Beginnings of table rows, headings, code, pictures and tags."""
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")


@dataclass(frozen=True)
class LeftOut:
    """A sentence, the passage that it was taken from, and the passage's text without it."""

    passage: Passage
    sentence: str
    text: str


def draw_sentences(index: StoredIndex, n: int, seed: int) -> list[LeftOut]:
    """Draw up to n sentences that occur once in the index, one a passage, of one document after the other."""
    candidates: list[tuple[int, LeftOut]] = []
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
    pool = [candidate for _, candidate in candidates[: POOL * n]]
    occurrences = _count_occurrences([candidate.sentence for candidate in pool], passages)
    return [candidate for candidate in pool if occurrences[candidate.sentence] == 1][:n]


def _candidates(passage: Passage) -> Iterator[LeftOut]:
    """Yield each sentence of a passage that can be left out."""
    if any(character in passage.id for character in "\t\r\n"):  # relevance labels are separated by tabs
        return
    for start, end in sentences(passage.text):
        written = passage.text[start:end]
        marker = _ITEM.match(written)
        sentence = " ".join(written[marker.end() if marker else 0 :].split())
        is_sentence = sentence.endswith((".", "!", "?")) and not written.startswith(_NO_SENTENCE)
        if not is_sentence or not SHORTEST <= count_words(sentence) <= LONGEST:
            continue
        rest = passage.text[:start] + passage.text[end:]
        if count_words(rest) >= LEFT:
            yield LeftOut(passage, sentence, rest)


def _count_occurrences(wanted: Sequence[str], passages: Sequence[Passage]) -> Counter[str]:
    """Sentence -> how often it occurs."""
    counts: Counter[str] = Counter()
    for passage in passages:
        text = " ".join(passage.text.split())
        counts.update({sentence: text.count(sentence) for sentence in wanted if sentence in text})
    return counts
