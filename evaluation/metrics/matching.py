"""Which sentences of an answer answer which part of a compound question, and which steps two procedures share.

A sentence fits a part by the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's content words
(stemmed) that it has. It is given to the part that it fits best, if that reaches `LEAST_FIT`, and to every other part
that it fits nearly as well (`NEARLY`) and well enough: "Both are baked in pots" answers for both.

The three values were chosen on 120 questions of Compound-QA (Understanding) whose reference has as many blocks as the
question has parts. On 107 others the full reference covers .92 of the parts, the reference of another question .00; a
part whose block is cut out counts as covered all the same in .36, because its neighbours share its topic. Terse answers
("In 1879.") are missed: 15 references of the demo cover .70. A `LEAST_FIT` of .4 gains little of that (.77) and lets
other questions' answers in (.04).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.support import LEAST_FIT, NEARLY, WORDS_WEIGHT, coverage, leaning, stems
from turnmark.corpora.text import plain, sentences, strip_citations

if TYPE_CHECKING:
    from turnmark.retrieval.task_passages import Embed


def assign_sentences(parts: Sequence[str], answer: str, embed: Embed) -> tuple[str, ...]:
    """For each sub-question the sentences that answer it, in the answer's order and joined by a space; "" for none.

    Sentences are unchanged, without their citation marks. One that says that it does not know answers nothing. A part
    without a content word ("And why?") is read with the part before it, and so fits what that one fits.

    Args:
        parts: the sub-questions in their order.
        embed: gives float32 unit vectors of shape (texts, dimension).
    """
    if says_unknown(answer):
        return ("",) * len(parts)
    text = strip_citations(answer)
    sentence_texts = [text[start:end] for start, end in sentences(text)]
    bare = [plain(sentence) for sentence in sentence_texts]
    indices = [i for i, line in enumerate(bare) if any(map(str.isalnum, line)) and not says_unknown(line)]
    if not parts or not indices:
        return ("",) * len(parts)
    readable = leaning(parts)
    vectors = embed([*readable, *(bare[i] for i in indices)])
    cosines = vectors[: len(readable)] @ vectors[len(readable) :].T
    answers: list[list[str]] = [[] for _ in readable]
    for column, i in enumerate(indices):
        fits = [
            float(cosines[row, column]) + WORDS_WEIGHT * coverage(part, [bare[i]]) for row, part in enumerate(readable)
        ]
        threshold = max(LEAST_FIT, max(fits) - NEARLY)
        for row, fit in enumerate(fits):
            if fit >= threshold:
                answers[row].append(sentence_texts[i])
    return tuple(" ".join(" ".join(sentence.split()) for sentence in group) for group in answers)


LEAST = 0.35
"""Likeness from which two steps are taken to say the same; chosen on one half of
tests/evaluation/data/inscoqa_steps.json. From .18 to .38 it agrees about as well with the matching by hand, but below
.35 a procedure for quite another task still covers many steps. docs/measured.md has both halves' figures."""


def shared_words(first: str, second: str) -> float:
    """Stemmed content words that two texts share, 0..1: twice the shared ones over those of both (Dice)."""
    a, b = stems(first), stems(second)
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def step_likeness(expected: Sequence[str], steps: Sequence[str], cosines: Any) -> Any:
    """How much alike each two steps are, 0..1, float64 (expected, steps): the mean of cosine and `shared_words`.

    `cosines` are of their embeddings, (expected, steps); a negative one counts as 0.
    """
    import numpy as np

    overlap = np.array([[shared_words(one, step) for step in steps] for one in expected], dtype=float)
    meaning = np.clip(np.asarray(cosines, dtype=float), 0, 1)
    return (meaning + overlap.reshape(meaning.shape)) / 2


def match_steps(similarity: Any, threshold: float = LEAST) -> dict[int, int]:
    """The one-to-one matching with the most pairs of at least `threshold`, and among those the most alike in sum.

    Args:
        similarity: likeness of each step of the reference with each of the procedure, 0..1, (expected, steps).

    Returns:
        Step of the reference -> step of the procedure, both from 1, in the reference's order.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    similarity = np.asarray(similarity, dtype=float)
    if not similarity.size:
        return {}
    # A pair is worth more than all that likeness could add up to, so that no pair is given up for a better one.
    weights = np.where(similarity >= threshold, min(similarity.shape) + similarity, 0.0)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    pairs = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
    return {row + 1: column + 1 for row, column in pairs if similarity[row, column] >= threshold}
