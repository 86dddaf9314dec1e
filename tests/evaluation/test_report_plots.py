"""Plots: where things lie, what is said beside them, and that nothing in them is anything but a plot."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.reported import EVIL, REAL, SUMMARY, metric, write_run
from turnmark.assistant.types import Usage
from turnmark.evaluation.records import Sample
from turnmark.evaluation.report import plots
from turnmark.evaluation.report.figures import figures, headlines
from turnmark.evaluation.report.plots import Line, Scale, scale
from turnmark.evaluation.report.stored import StoredRun

FINITE = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-6)


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize(("values", "ticks"), [
    ([0.31, 0.44], (0.3, 0.35, 0.4, 0.45)), ([0.0, 1.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ([3, 97], (0, 20, 40, 60, 80, 100)), ([], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
])  # fmt: skip
def test_a_scale_has_round_ends(values: list[float], ticks: tuple[float, ...]) -> None:
    assert scale(values).ticks == pytest.approx(ticks)


@given(st.lists(FINITE, max_size=8), st.booleans())
def test_a_scale_holds_all_values_and_bars_begin_at_nothing(values: list[float], zero: bool) -> None:
    plot_scale = scale(values, zero=zero)
    width = plot_scale.high - plot_scale.low
    assert width > 0
    assert 2 <= len(plot_scale.ticks) <= 9
    assert all(plot_scale.low - 1e-6 * width <= value <= plot_scale.high + 1e-6 * width for value in values)
    assert all(0 <= plot_scale.share(value) <= 1 for value in values)
    if zero and all(value >= 0 for value in values):
        assert plot_scale.low == 0


@given(st.lists(FINITE, min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values(values: list[float], share: float) -> None:
    quantile = plots.quantile(sorted(values), share)
    assert sum(value <= quantile for value in values) >= math.floor(share * len(values))
    assert quantile in values


def test_a_dot_lies_where_its_value_is_and_its_line_ends_where_the_interval_does() -> None:
    drawn = read(plots.interval(0.25, (0.0, 0.5), Scale(0, 1, (0, 1)), "ours"))
    (dot,) = drawn.iter("circle")
    assert (dot.get("cx"), dot.get("class")) == ("26.00%", "dot ours")
    spans = [line for line in drawn.iter("line") if "span" in (line.get("class") or "")]
    assert [(line.get("x1"), line.get("x2")) for line in spans] == [("2.00%", "50.00%")]
    assert not list(read(plots.interval(None, None, Scale(0, 1, (0, 1)))).iter("circle"))


def test_lines_have_their_names_apart_at_their_ends() -> None:
    near = [
        Line("this run", (0.1, 0.3), ((0.0, 0.2), (0.2, 0.4))),
        Line("A <b>", (0.2, 0.301), kind="faint"),
        Line("gap", (None, 0.3)),
    ]
    drawn = read(plots.lines(near, ["k = 1", "k = 10"], 'of "k"'))
    names = [text for text in drawn.iter("text") if "name" in (text.get("class") or "")]
    assert {text.text for text in names} == {"this run", "A <b>", "gap"}
    heights = sorted(float(text.get("y") or 0) for text in names)
    assert all(b - a >= 13.9 for a, b in pairwise(heights))
    assert len(list(drawn.iter("polygon"))) == 1
    assert [line.get("class") for line in drawn.iter("polyline")][-1] == "line ours"
    assert drawn.get("aria-label") == 'of "k"'


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=80))
def test_a_histogram_counts_every_value(values: list[float]) -> None:
    drawn = read(plots.histogram(values, "s", "seconds"))
    bars = [float(bar.get("height") or 0) for bar in drawn.iter("rect")]
    assert 1 <= len(bars) <= min(24, len(values))
    assert max(bars) == pytest.approx(88)


def test_texts_stay_text_and_nothing_has_a_style_or_an_address() -> None:
    for drawn in (
        plots.lines([Line(EVIL, (0.1, 0.2))], [EVIL, EVIL], EVIL), plots.histogram([1.0, 2.0], EVIL, EVIL),
        plots.axis(Scale(0, 1, (0, 1))), plots.bar(0.5, Scale(0, 1, (0, 1))),
    ):  # fmt: skip
        tags = {element.tag for element in read(drawn).iter()}
        assert tags <= {"svg", "line", "circle", "text", "polyline", "polygon", "rect"}
        assert not re.search(r"\b(style|href|src|on\w+|fill)=", re.sub(r'aria-label="[^"]*"|>[^<]*<', "", drawn))


# --- which plots a run has -------------------------------------------------------------------------------------------


def test_the_plots_of_answers(stored_run: Path) -> None:
    plots_by_title = {plot.title: plot for plot in figures(StoredRun(stored_run, REAL))}
    assert list(plots_by_title) == ["Beside published figures", "By what is asked"]
    panel = plots_by_title["By what is asked"].panels[0]
    assert [(row.kind, row.name, row.figures) for row in panel.rows] == [
        ("ours", "all", ("0.2871", "0.241-0.333", "4")), ("group", "domain", ()),
        ("plain", "clapnq", ("0.3012", "0.250-0.350", "2")), ("plain", "fiqa", ("0.2731", "0.220-0.330", "2")),
        ("group", "answerability", ()), ("plain", "ANSWERABLE", ("0.3100", "0.280-0.340", "3")),
    ]  # fmt: skip
    rows = plots_by_title["Beside published figures"].panels[0].rows
    assert [row.kind for row in rows if row.name == "GPT-4o"] == ["plain"]
    assert [row.kind for row in rows if row.name == "Llama 3.1 405B"] == ["faint"]
    assert [plot.title for plot in figures(StoredRun(stored_run, SUMMARY))] == ["By what is asked"]  # the demo's
    assert [headline.name for headline in headlines(SUMMARY)] == [
        "rouge_l.word",
        "k_precision",
        "token_recall",
        "unknown.f1",
    ]


def test_the_plots_of_retrieval_and_of_what_it_took(tmp_path: Path) -> None:
    summary = SUMMARY.model_copy(update={
        "task": "retrieval", "setting": None, "published": (), "breakdowns": {},
        "metrics": {f"{name}@{k}": metric(k / 20, 0.0, 0.6) for name in ("recall", "ndcg") for k in (1, 3, 5, 10)},
    })  # fmt: skip
    lines = tuple(
        Sample(id=str(i), status="done", query="q", timings={"rewrite": 0.5, "search": float(i)},
               usage={"rewrite": Usage(calls=1, prompt_tokens=100 * i, completion_tokens=7)})
        for i in range(1, 11)
    )  # fmt: skip
    plots_by_title = {
        plot.title: plot for plot in figures(StoredRun(write_run(tmp_path / "r", summary, lines), summary))
    }
    assert list(plots_by_title) == ["Retrieval by k", "Latency and tokens"]
    assert [name for name, _ in plots_by_title["Retrieval by k"].drawings] == ["recall@k", "nDCG@k"]
    spent = plots_by_title["Latency and tokens"]
    assert [caption for caption, _ in spent.drawings] == [
        "Seconds a sample: median 5.5 s, 90th percentile 9.5 s", "Tokens a sample: median 507, 90th percentile 907",
    ]  # fmt: skip
    assert [(row.name, row.figures) for row in spent.panels[0].rows] == [("rewrite", ("0.5",)), ("search", ("5.5",))]
