"""Citation precision and recall, against values counted by hand."""

from __future__ import annotations

import pytest

from turnmark.evaluation.metrics.citations import citation_scores
from turnmark.evaluation.tasks.standard_metrics import CITATION_PRECISION, CITATION_RECALL

FOUNDRY = "The bell was cast by the founder Jan Moor in 1612. It weighs 840 kilograms and hangs in the north tower."
GARDEN = "Tomatoes are watered each morning, and the beds are covered with straw against the frost."
TOWER = "The north tower was rebuilt in 1701 after a fire destroyed its wooden roof."
QUESTION = "Who made the bell, and where is it?"


@pytest.mark.parametrize(
    ("answer", "precision", "recall"),
    [
        # Two claims, each supported by its only citation.
        ("The bell was cast by the founder Jan Moor in 1612 [1]. The north tower was rebuilt in 1701 [3].", 1, 1),
        # The second of two citations is about something else, and the first supports the claim without it.
        ("The bell was cast by the founder Jan Moor in 1612 [1][2].", 1 / 2, 1),
        # The wrong passage is cited: neither recalled nor precise.
        ("The bell was cast by the founder Jan Moor in 1612 [2].", 0, 0),
        # A mark at the end of a paragraph is for each of its sentences, of which it supports the second only.
        ("The bell was cast by the founder Jan Moor in 1612. The north tower was rebuilt in 1701. [3]", 1, 1 / 2),
        ("The bell was cast by the founder Jan Moor in 1612. It weighs 840 kilograms and hangs high up. [1]", 1, 1),
        # The last of two claims has no citation.
        ("The bell was cast by the founder Jan Moor in 1612 [1]. It weighs 840 kilograms and hangs high up.", 1, 1 / 2),
        # The claim takes both passages, so both citations are needed.
        ("The bell of 1612 weighs 840 kilograms, and its tower was rebuilt in 1701 after a fire [1][3].", 1, 1),
        # A wrong number is not supported.
        ("The bell was cast by the founder Jan Moor in 1613 [1].", 0, 0),
        ("I don't know.", None, None),
    ],
)
def test_counts_as_by_hand(answer, precision, recall):
    assert citation_scores(answer, (FOUNDRY, GARDEN, TOWER), QUESTION, None) == (precision, recall)


def test_a_run_of_the_assistant_has_both_metrics_over_the_replies_that_cite(turnmark, tmp_path):
    summary = turnmark.json("eval", "mtrag", "--limit", "3", "--out", tmp_path / "run")
    for name in (CITATION_PRECISION, CITATION_RECALL):
        metric = summary["metrics"][name]
        assert metric["n"] >= 1
        assert 0.5 <= metric["mean"] <= 1  # the extractive assistant quotes its passages
    assert not any(
        name in row["metrics"] for row in summary["published"] for name in (CITATION_PRECISION, CITATION_RECALL)
    )
