"""Steps of one procedure found in another, one to one: which of a reference's steps a procedure has too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmark.assistant.steps.support import stems

LEAST = 0.35
"""Likeness from which two steps are taken to say the same; chosen on one half of
tests/evaluation/data/inscoqa_steps.json. From .18 to .38 it agrees about as well with the matching by hand, but below
.35 a procedure for quite another task still covers many steps. docs/benchmarks.md has the figures for both halves."""


def shared_words(first: str, second: str) -> float:
    """Stemmed content words that two texts share, 0..1: twice the shared ones over those of both (Dice)."""
    one, two = stems(first), stems(second)
    return 2 * len(one & two) / (len(one) + len(two)) if one or two else 0.0


def likeness(wanted: Sequence[str], said: Sequence[str], cosines: Any) -> Any:
    """How much alike each two steps are, 0..1: the mean of cosine (0 where negative) and `shared_words`.

    Args:
        wanted: the steps of the reference.
        said: the steps of the procedure.
        cosines: of their embeddings, (wanted, said).

    Returns:
        float64, (wanted, said).
    """
    import numpy as np

    overlap = np.array([[shared_words(one, other) for other in said] for one in wanted], dtype=float)
    meaning = np.clip(np.asarray(cosines, dtype=float), 0, 1)
    return (meaning + overlap.reshape(meaning.shape)) / 2


def matched(alike: Any, least: float = LEAST) -> dict[int, int]:
    """The one-to-one matching with the most pairs of at least `least`, and among those the most alike in sum.

    Args:
        alike: likeness of each step of the reference with each of the procedure, 0..1, (wanted, said).

    Returns:
        Step of the reference -> step of the procedure, both from 1, in the reference's order.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    alike = np.asarray(alike, dtype=float)
    if not alike.size:
        return {}
    # A pair is worth more than all that likeness could add up to, so that no pair is given up for a better one.
    worth = np.where(alike >= least, min(alike.shape) + alike, 0.0)
    rows, columns = linear_sum_assignment(worth, maximize=True)
    pairs = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
    return {row + 1: column + 1 for row, column in pairs if alike[row, column] >= least}
