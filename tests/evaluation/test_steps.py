"""Steps matched one to one: by hand, against every way to match, and against what was matched by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from turnmark.corpora import inscoqa
from turnmark.evaluation.metrics.matching import LEAST, likeness, matched
from turnmark.retrieval.embed import open_embedder

LABELS = Path(__file__).parent / "data/inscoqa_steps.json"


def test_matching_by_hand() -> None:
    assert matched([[0.9, 0.8], [0.7, 0.1]], 0.5) == {1: 2, 2: 1}, "two good pairs are worth more than the best one"
    assert matched([[0.9, 0.2], [0.8, 0.1]], 0.5) == {1: 1}, "no step covers two"
    assert matched([[0.5, 0.49]], 0.5) == {1: 1}
    assert matched([[0.1], [0.2]], 0.5) == {}
    assert matched(np.zeros((2, 0))) == {}


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_the_matching_is_the_best_of_all(expected: int, text: int, data: st.DataObject) -> None:
    cell = st.integers(0, 100).map(lambda number: number / 100)
    alike = np.array(
        data.draw(st.lists(st.lists(cell, min_size=text, max_size=text), min_size=expected, max_size=expected))
    )
    matching = matched(alike, 0.4)

    def worth(pairs: list[tuple[int, int]]) -> tuple[int, float]:
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


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    return open_embedder("minilm").encode(list(texts), "passage")


def test_the_matching_agrees_with_the_one_by_hand() -> None:
    """The threshold was chosen on one half; both figures are in docs/measured.md."""
    tasks = inscoqa.load_tasks(inscoqa.DEMO_ROOT).data
    counts = {"chosen on": [0, 0], "held out": [0, 0]}
    for row in json.loads(LABELS.read_text(encoding="utf-8"))["procedures"]:
        expected, text = list(tasks[row["id"]].procedure), row["steps"]
        covers = {int(step): name for step, name in row["covers"].items()}
        assert set(covers) <= set(range(1, len(expected) + 1))
        assert set(covers.values()) <= set(range(1, len(text) + 1))
        pairs = matched(likeness(expected, text, embed(expected) @ embed(text).T), LEAST)
        for step in range(1, len(expected) + 1):
            counts[row["part"]][0] += (step in pairs) == (step in covers)
            counts[row["part"]][1] += 1
    assert [score for _, score in counts.values()] == [49, 52]
    assert [right / score >= 0.85 for right, score in counts.values()] == [True, True], counts  # 42 and 50


def test_a_procedure_for_another_task_covers_next_to_nothing() -> None:
    procedures = [task.procedure for task in inscoqa.load_tasks(inscoqa.DEMO_ROOT).data.values()]
    vectors = [embed(steps) for steps in procedures]
    shares = [
        len(matched(likeness(row, second, vectors[index] @ vectors[target].T))) / len(row)
        for index, row in enumerate(procedures)
        for target, second in enumerate(procedures)
        if index != target
    ]
    assert len(shares) == 156
    assert sum(shares) / len(shares) < 0.05  # 0.025
    assert max(shares) <= 0.5
