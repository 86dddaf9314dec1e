"""Steps matched one to one, unknown and clarify: by hand, against all ways or scikit-learn, and by their properties."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from turnmark.corpora.benchmarks import inscoqa
from turnmark.corpora.benchmarks.mtrag import Answerability
from turnmark.evaluation.metrics.idk_conditioning import clarify_label, sample_values, unknown_label
from turnmark.evaluation.metrics.matching import MIN_STEP_LIKENESS, match_steps, step_likeness
from turnmark.retrieval.embedding.embedders import open_embedder

LABELS = Path(__file__).parent / "data/inscoqa_steps.json"


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_matching_is_optimal(expected, text, data):
    cell = st.integers(0, 100).map(lambda number: number / 100)
    alike = np.array(
        data.draw(st.lists(st.lists(cell, min_size=text, max_size=text), min_size=expected, max_size=expected))
    )
    matching = match_steps(alike, 0.4)

    def worth(pairs):
        good = [alike[pair] for pair in pairs if alike[pair] >= 0.4]
        return len(good), round(float(sum(good)), 9)

    if expected <= text:
        every = (list(enumerate(order)) for order in permutations(range(text), expected))
    else:
        every = ([(row, index) for index, row in enumerate(order)] for order in permutations(range(expected), text))
    mine = [(row - 1, column - 1) for row, column in matching.items()]
    assert len({column for _, column in mine}) == len(mine)
    assert all(alike[pair] >= 0.4 for pair in mine)
    assert worth(mine) == max(map(worth, every))


def embed(texts):
    return open_embedder("minilm").encode(list(texts), "passage")


def test_matching_agrees_with_labels_by_hand():
    """The threshold was chosen on one half; both figures are in docs/measured.md."""
    tasks = inscoqa.load_tasks(inscoqa.DEMO_ROOT).data
    counts = {"chosen on": [0, 0], "held out": [0, 0]}
    for row in json.loads(LABELS.read_text(encoding="utf-8"))["procedures"]:
        expected, text = list(tasks[row["id"]].procedure), row["steps"]
        covers = {int(step): name for step, name in row["covers"].items()}
        assert set(covers) <= set(range(1, len(expected) + 1))
        assert set(covers.values()) <= set(range(1, len(text) + 1))
        pairs = match_steps(step_likeness(expected, text, embed(expected) @ embed(text).T), MIN_STEP_LIKENESS)
        for step in range(1, len(expected) + 1):
            counts[row["part"]][0] += (step in pairs) == (step in covers)
            counts[row["part"]][1] += 1
    assert [score for _, score in counts.values()] == [49, 52]
    assert [right / score >= 0.85 for right, score in counts.values()] == [True, True], counts  # 42 and 50


def test_which_labels_count():
    labels = get_args(Answerability)
    assert {label: unknown_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True, "UNDERSPECIFIED": None, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert {label: clarify_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": False, "UNDERSPECIFIED": True, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert unknown_label(None) is clarify_label(None) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_means_of_sample_values_match_scikit_learn(pairs):
    truth, predicted = ([pair[side] for pair in pairs] for side in (0, 1))
    theirs = precision_recall_fscore_support(truth, predicted, average="binary", pos_label=True, zero_division=0)
    for name, figure in zip(("precision", "recall", "f1"), theirs[:3], strict=True):
        of_samples = [value for pair in pairs for key, value in sample_values(*pair).items() if key == name]
        values, weights = zip(*of_samples, strict=True) if of_samples else ((), ())
        assert figure == (pytest.approx(fmean(values, weights), abs=1e-12) if values else 0)
