"""The ablation of the default retriever, over a part of the demo split."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from corpora import mtrag
from tests.benchmarks.conversation import Sample, agreement, ladder, ladder_table, others, weights, weights_table
from tests.benchmarks.conversation import load as load_sets
from tests.benchmarks.conversation_leaning import Judge, leaning
from tests.benchmarks.conversation_rank import Setup, best, candidates, ranked, reranked
from tests.benchmarks.conversation_rows import DEFAULT, ROWS
from tests.benchmarks.conversation_sets import Turns
from tests.benchmarks.conversation_weights import GRID, conversation_folds, grid_values, product_weights


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> list[Turns]:
    """The smaller domain of both benchmarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(tmp_path_factory.mktemp("ablation")))
        return load_sets(mtrag.locate(mtrag.DEMO_ROOT), ("almanac",))


@pytest.mark.slow
def test_arrays_rank_as_the_product_does(sets: list[Turns]) -> None:
    assert [turns.name for turns in sets] == ["mtrag almanac", "mtrag-un almanac"]
    for turns in sets:
        found = agreement(turns)
        assert {"conversational", "conversational?rerank=none"} == found.keys()
        assert min(shares["same five"] for shares in found.values()) >= 0.95
        product = [(hit.document_id, pytest.approx(hit.score, abs=1e-3)) for hit in turns.found["conversational"][0]]
        assert [(hit.document_id, hit.score) for hit in ranked(turns, Setup())[0]][:5] == product[:5]


@pytest.mark.slow
def test_every_row_changes_what_it_says_and_the_tables_show_it(sets: list[Turns]) -> None:
    turns = sets[0]
    rows = ladder(turns, None)
    assert set(rows) == {row.name for _, some in ROWS for row in some if not (row.setup and row.setup.lean)}
    values = np.stack([figures["ndcg@5"] for figures in rows.values()])
    assert ((values >= 0) & (values <= 1)).all()
    assert len({tuple(one) for one in values}) > len(rows) / 2
    first = turns.groups["first"]
    for name in ("without earlier answers", "the first question instead"):  # no turn before, nothing to leave out
        assert rows[name]["ndcg@5"][first].tolist() == rows[DEFAULT.name]["ndcg@5"][first].tolist()
    summary = Sample.of([(turns, rows), (sets[1], ladder(sets[1], None))]).summary()
    assert summary["queries"] == sum(len(one.queries) for one in sets)
    assert summary["rows"][DEFAULT.name]["beside the default"] == (0, 0, 0)
    assert "nan" not in json.dumps(summary).lower()
    text = "\n".join(ladder_table("both", summary))
    assert all(name in text for name in rows)


@pytest.mark.slow
def test_weights_are_chosen_where_they_are_not_scored(sets: list[Turns]) -> None:
    turns = sets[0]
    values = grid_values(turns)
    assert values.shape == (len(GRID), len(turns.queries))
    default = turns.measured(ranked(turns, Setup()))["ndcg@5"]
    assert values[GRID.index(product_weights())].tolist() == default.tolist()
    assert others(turns, sets) == []
    for name, one in weights(sets).items():
        assert one.elsewhere is None
        assert one.spread[0] <= one.default <= one.spread[2]
        assert name in "\n".join(weights_table({name: one}))
        for figure in (one.folded, one.folded_default):
            assert figure is None or all(math.isfinite(value) for value in figure)


def test_a_conversation_is_in_one_fold() -> None:
    conversations = [f"c{number % 7}" for number in range(40)]
    folds = conversation_folds(conversations)
    assert np.sum(folds, axis=0).tolist() == [1] * 40
    assert len({(name, int(np.argmax(row))) for name, row in zip(conversations, np.stack(folds).T, strict=True)}) == 7
    assert conversation_folds(["c", "c"]) == []


def test_the_best_rows_come_in_order_and_ties_by_row() -> None:
    rows, scores = best(np.array([[0.5, 2.0, 1.0, 2.0]], dtype=np.float32), 3)
    assert (rows.tolist(), scores.tolist()) == ([[1, 3, 2]], [[2.0, 2.0, 1.0]])


@pytest.mark.slow
def test_context_that_nothing_leans_on_is_left_out(sets: list[Turns]) -> None:
    turns = sets[0]
    never = np.zeros(len(turns.queries), dtype=np.float32)
    setup = Setup(lean="all", late=0.0)
    found = reranked(turns, setup, *candidates(turns, setup, never), never)[0]
    alone = Setup(views=("message",), answers=0.0, terms=("message",), late=0.0)
    assert found[:, :5].tolist() == reranked(turns, alone, *candidates(turns, alone))[0][:, :5].tolist()


@pytest.mark.slow
def test_the_judge_learns_what_tells_messages_apart(sets: list[Turns]) -> None:
    rows = np.random.default_rng(0).normal(size=(80, 4))
    leans = rows[:, 2] + 0.1 * rows[:, 0] > 0
    found = Judge(rows, leans)(rows)
    assert ((found > 0.5) == leans).mean() > 0.95
    assert ((found > 0) & (found < 1)).all()
    assert leaning(sets[0], sets[1:]) is None  # the demo has no labels
