"""Rate the lines of passages by how well they answer a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.citations.marks import TextLine, lines_of
from turnmark.assistant.steps.retrieve.definitions import definition_share, is_entry
from turnmark.assistant.steps.step_results import (
    PartEvidence,
)
from turnmark.assistant.steps.verify.claim_support import content_stems, language_of_sources, stems
from turnmark.corpora.text.languages import ENGLISH
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.types import Hit

WORDS_WEIGHT, RANK_WEIGHT = 0.5, 0.4
"""Weights of the shared words and of the rank of the hit; the cosine of the line has weight 1. They were chosen on the
tuning halves of the conversations, and checked by the passages that are quoted on MTRAG (docs/measured.md)."""
DEFINITION_WEIGHT, STEPS_WEIGHT = 1.0, 0.2
"""Weights of a line's likeness to a definition, and of an item or code, if one is asked for or steps are."""
MAX_RATED_ROWS = 20
"""Maximum rated rows from the tables of `PartEvidence.tables`."""
MIN_RANKED_LENGTH = 6
"""Minimum length of a list of hits for ranking: the second of two hits ranks as high as the second of six."""
_STEPS = ("item", "code")


@dataclass(frozen=True)
class RatedLine:
    """A line of a hit and how well it matches the questions.

    Attributes:
        hit: 0-based position in the list of hits.
        score: higher is better; comparable within one list only.
    """

    hit: int
    line: TextLine
    score: float


def rate_lines(part: PartEvidence, embed: Embed | None, subject: str = "", asks_steps: bool = False) -> list[RatedLine]:
    """Rate every line of a part's hits that can answer, best first. Headings and lines of one word cannot answer.

    The score is the sum of the cosine with the mean of the part's wordings, the share of the part's words in the line
    (rare words count more), and the rank of the hit, because the retriever read the complete passage. Without an
    embedder the cosine counts as 0. The table rows that have most of the part's words rank like the first hit, because
    the retriever found the table, not the row.

    Args:
        subject: what the part asks the definition of, or "".
        asks_steps: whether it asks how something is done.
    """
    hits = [*part.hits, *part.tables]
    candidates = _candidate_lines(part.hits)
    ranks = [1 - position / max(len(part.hits), MIN_RANKED_LENGTH) for position, _ in candidates]
    rows = [(len(part.hits) + position, line) for position, line in _candidate_lines(part.tables) if line.kind == "row"]
    row_shares = word_shares(part, *_texts_and_headings(rows, hits))
    nearest = sorted(range(len(rows)), key=lambda number: -row_shares[number])[:MAX_RATED_ROWS]
    candidates += [rows[number] for number in nearest if row_shares[number] > 0]
    ranks += [1.0] * (len(candidates) - len(ranks))
    if not candidates:
        return []
    shares = word_shares(part, *_texts_and_headings(candidates, hits))
    embedded = [line.in_context(hits[position].passage.title) for position, line in candidates]
    cosines = _cosines(part, embedded, embed) if embed else [0.0] * len(candidates)
    scores = [
        cosine + WORDS_WEIGHT * share + RANK_WEIGHT * rank + STEPS_WEIGHT * (asks_steps and line.kind in _STEPS)
        for cosine, share, rank, (_, line) in zip(cosines, shares, ranks, candidates, strict=True)
    ]
    if subject:
        scores = [
            score + DEFINITION_WEIGHT * (definition_share(subject, line, passage) - is_entry(line, passage))
            for score, (position, line) in zip(scores, candidates, strict=True)
            for passage in (hits[position].passage,)
        ]
    ranked = sorted(range(len(candidates)), key=lambda number: (-scores[number], number))
    return [RatedLine(*candidates[number], scores[number]) for number in ranked]


def _candidate_lines(hits: Sequence[Hit]) -> list[tuple[int, TextLine]]:
    """Return the lines of hits that can answer, each with the position of its hit."""
    return [
        (position, line)
        for position, hit in enumerate(hits)
        for line in lines_of(hit.passage)
        if line.can_answer and line.size > 1
    ]


def _texts_and_headings(candidates: Sequence[tuple[int, TextLine]], hits: Sequence[Hit]) -> tuple[list[str], list[str]]:
    texts = [line.text for _, line in candidates]
    headings = [" › ".join(filter(None, (hits[position].passage.title, line.section))) for position, line in candidates]
    return texts, headings


def _wordings(part: PartEvidence) -> list[str]:
    """Return the texts that lines are compared with: the message as typed, its rewrite, and search phrases."""
    return list(dict.fromkeys((part.text, part.question, *part.phrases)))


def _cosines(part: PartEvidence, texts: Sequence[str], embed: Embed) -> list[float]:
    """Return the cosine of each text with the mean of the vectors of the part's wordings."""
    unique = list(dict.fromkeys(texts))
    wordings = _wordings(part)
    vectors = embed([*wordings, *unique])
    mean = sum(vectors[1 : len(wordings)], vectors[0]) / len(wordings)
    cosine_of = dict(zip(unique, map(float, vectors[len(wordings) :] @ mean), strict=True))
    return [cosine_of[text] for text in texts]


def word_shares(part: PartEvidence, texts: Sequence[str], headings: Sequence[str]) -> list[float]:
    """Return the share of the part's words in each text and its headings. Rare words weigh more."""
    language = language_of_sources([hit.passage.text for hit in part.hits], part.text)
    bags = [stems(f"{heading} {text}", language) for heading, text in zip(headings, texts, strict=True)]
    wordings = " ".join(_wordings(part))
    # English has a list of stop words, so all other words count.
    asked = stems(wordings, language) if language == ENGLISH else content_stems(wordings, language)
    # In one order, so that sums are reproducible.
    weights = {word: 1 / (1 + sum(word in bag for bag in bags)) ** 0.5 for word in sorted(asked)}
    total = sum(weights.values()) or 1.0
    return [sum(weight for word, weight in weights.items() if word in bag) / total for bag in bags]
