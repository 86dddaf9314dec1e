"""Which sentences of an answer answer which part of a compound question.

A sentence fits a part by the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's content words
(stemmed) that it has. It is given to the part that it fits best, where that reaches `LEAST_FIT`, and to every other
part that it fits nearly as well (`NEARLY`) and well enough: "Both are baked in pots" answers for both.

The three values were chosen on 120 questions of Compound-QA (Understanding) whose reference has as many sentences, or
as many paragraphs, as the question has parts (`turnmark.assistant.steps.split`), so that its k-th block is about the
k-th part; at most 24 to 40 of each question type, by a seeded draw, with MiniLM. Seen there, and on 107 others drawn
beside them:

                                                                        chosen on   others
    parts that the whole reference covers                                  .93        .92
    parts whose block is there, when the block of another is cut out       .90        .89
    parts whose block is cut out, and that count as covered all the same   .29        .36
    parts covered by the reference of another question                     .00        .00

On 399 questions drawn from all of the data whole references cover .94 of the parts, and their first halves .71. With
MiniLM, then, an answer to something else is told surely; an answer to the neighbouring part only roughly, because
both share their topic. These references repeat the words of the question. The 15 terser ones of the demo split, written
by hand, cover but .70 of their parts: an answer that says "In 1879." to "When did the railway come?" is missed. A lower
`LEAST_FIT` mends little of that (.77 at .4) and lets other questions' answers in (.04).

Steps of one procedure are found in another one to one: which of a reference's steps a procedure has too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnmark.assistant.steps.support import LEAST_FIT, NEARLY, WORDS_WEIGHT, coverage, leaning, stems
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.corpora.text import plain, sentences, strip_citations

if TYPE_CHECKING:
    from turnmark.retrieval.task_passages import Embed


def assign(parts: Sequence[str], answer: str, embed: Embed) -> tuple[str, ...]:
    """For each sub-question the sentences that answer it, in the answer's order and joined by a space; "" for none.

    Sentences are given as they stand, but for their citation marks. One that says that it does not know answers
    nothing. A part without a content word ("And why?") is read with the part before it, and so fits what that one fits.

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


def likeness(expected: Sequence[str], steps: Sequence[str], cosines: Any) -> Any:
    """How much alike each two steps are, 0..1: the mean of cosine (0 where negative) and `shared_words`.

    Args:
        expected: the steps of the reference.
        steps: the steps of the procedure.
        cosines: of their embeddings, (wanted, said).

    Returns:
        float64, (wanted, said).
    """
    import numpy as np

    overlap = np.array(
        [[shared_words(expected_step, step) for step in steps] for expected_step in expected], dtype=float
    )
    meaning = np.clip(np.asarray(cosines, dtype=float), 0, 1)
    return (meaning + overlap.reshape(meaning.shape)) / 2


def matched(similarity: Any, threshold: float = LEAST) -> dict[int, int]:
    """The one-to-one matching with the most pairs of at least `threshold`, and among those the most alike in sum.

    Args:
        similarity: likeness of each step of the reference with each of the procedure, 0..1, (wanted, said).

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
