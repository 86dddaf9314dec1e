"""Assign sentences of an answer to the parts of a compound question, and match the steps of two procedures.

The fit of a sentence to a part is the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's
content words (stemmed) in the sentence. A sentence is assigned to the part with the best fit, if that reaches
`MIN_FIT`, and to every other part whose fit reaches `MIN_FIT` and is nearly as good (`MAX_FIT_GAP`): "Both are baked in
pots" answers both parts.

The three values were chosen on 120 questions of Compound-QA (Understanding) whose reference has as many blocks as the
question has parts. On 107 others the full reference covers .92 of the parts, the reference of another question .00; a
part whose block is cut out still counts as covered in .36, because its neighbors share its topic. Terse answers
("In 1879.") are missed: 15 references of the demo cover .70. A `MIN_FIT` of .4 recovers little of that (.77) and admits
answers to other questions (.04).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from turnmark.assistant.steps.verify.claim_support import match_sentences, stems
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import sentences, strip_citations, strip_inline_markdown
from turnmark.retrieval.embedding.vector_cache import Embed


def assign_sentences(parts: Sequence[str], answer: str, embed: Embed) -> tuple[str, ...]:
    """Return for each sub-question its sentences of the answer, in order and joined by a space; "" for none.

    Citation marks are removed. A sentence that says "I don't know" is assigned to no part. A part without a content
    word ("And why?") is read together with the part before it.

    Args:
        parts: the sub-questions in their order.
        embed: returns float32 unit vectors of shape (texts, dimension).
    """
    if is_refusal(answer):
        return ("",) * len(parts)
    text = strip_citations(answer)
    lines = [text[start:end] for start, end in sentences(text)]
    plain = map(strip_inline_markdown, lines)
    lines = [line for line, words in zip(lines, plain, strict=True) if _says_something(words)]
    matches = match_sentences(parts, lines, embed, wordless=1.0)
    return tuple(" ".join(" ".join(lines[position].split()) for position in matched) for matched in matches)


def _says_something(sentence: str) -> bool:
    return any(map(str.isalnum, sentence)) and not is_refusal(sentence)


MIN_STEP_LIKENESS = 0.35
"""Minimum likeness of two steps that match; chosen on one half of tests/evaluation/data/inscoqa_steps.json. From .18 to
.38 it agrees about as well with the matching by hand, but below .35 a procedure for a different task still covers
many steps. The values of both halves are in docs/measured.md."""


def shared_words(first: str, second: str) -> float:
    """Return the overlap of two texts' stemmed content words, 0..1 (Dice coefficient)."""
    language = language_of(f"{first} {second}") or ENGLISH
    first_stems = stems(first, language)
    second_stems = stems(second, language)
    total = len(first_stems) + len(second_stems)
    return 2 * len(first_stems & second_stems) / total if total else 0.0


def step_likeness(expected: Sequence[str], steps: Sequence[str], cosines: Any) -> Any:
    """Return the likeness of each pair of steps, 0..1, float64 (expected, steps): the mean of cosine and
    `shared_words`.

    Args:
        cosines: of their embeddings, (expected, steps); a negative one counts as 0.
    """
    overlap = np.array([[shared_words(step, other) for other in steps] for step in expected], dtype=float)
    meaning = np.clip(np.asarray(cosines, dtype=float), 0, 1)
    return (meaning + overlap.reshape(meaning.shape)) / 2


def match_steps(similarity: Any, threshold: float = MIN_STEP_LIKENESS) -> dict[int, int]:
    """Match steps one to one. Maximize the number of pairs with a likeness of at least `threshold`, then the sum of
    likenesses.

    Args:
        similarity: likeness of each step of the reference with each of the procedure, 0..1, (expected, steps).

    Returns:
        Step of the reference -> step of the procedure, both numbered from 1, in the reference's order.
    """
    from scipy.optimize import linear_sum_assignment

    similarity = np.asarray(similarity, dtype=float)
    if not similarity.size:
        return {}
    # Each pair weighs more than the maximum sum of likeness, so that no pair is given up for a better one.
    weights = np.where(similarity >= threshold, min(similarity.shape) + similarity, 0.0)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    pairs = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
    return {row + 1: column + 1 for row, column in pairs if similarity[row, column] >= threshold}
