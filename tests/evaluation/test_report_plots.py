"""Dots of a table: where they lie, and what has one."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.reported import SUMMARY
from turnmark.evaluation.report import plots, tables
from turnmark.evaluation.report.plots import scale
from turnmark.evaluation.report.tables import Mark, Row

FINITE = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-6)


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize(("values", "ticks"), [
    ([0.31, 0.44], (0.3, 0.35, 0.4, 0.45)), ([0.0, 1.0], (0.0, 0.25, 0.5, 0.75, 1.0)),
    ([3, 97], (0, 25, 50, 75, 100)), ([], (0.0, 0.25, 0.5, 0.75, 1.0)),
])  # fmt: skip
def test_a_scale_has_round_ends(values: list[float], ticks: tuple[float, ...]) -> None:
    assert scale(values).ticks == pytest.approx(ticks)


@given(st.lists(FINITE, max_size=8))
def test_a_scale_holds_all_values(values: list[float]) -> None:
    plot_scale = scale(values)
    width = plot_scale.high - plot_scale.low
    assert width > 0
    assert 2 <= len(plot_scale.ticks) <= 9
    assert all(plot_scale.low - 1e-6 * width <= value <= plot_scale.high + 1e-6 * width for value in values)


def test_differences_have_nothing_on_their_scale() -> None:
    on = plots.scale_of([Row(("a",), mark=Mark(0.3, (0.2, 0.4), "better")), Row(("b",))])
    assert on is not None
    assert on.low == 0
    assert plots.scale_of([Row(("a",))]) is None


def test_what_is_no_fraction_or_has_no_mean_has_no_dot() -> None:
    marked = {row.cells[0]: row.mark for row in tables.means(SUMMARY).rows}
    assert marked["rouge_l.word"] == Mark(0.28713, (0.241, 0.3331))
    assert (marked["answer_words"], marked["unknown.auroc"]) == (None, None)
    rows = tables.breakdowns(SUMMARY, ["rouge_l.word"]).rows
    assert [row.cells[0] for row in rows if row.mark] == ["clapnq", "fiqa", "ANSWERABLE"]
    assert not any(row.mark for row in tables.breakdowns(SUMMARY, ["rouge_l.word", "k_precision"]).rows)
