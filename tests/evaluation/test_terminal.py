"""The whole table as people see it, at 80 columns. After a change that is meant: TURNMARK_UPDATE_GOLDEN=1 pytest …"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from tests.evaluation.conftest import Opener, searched
from tests.evaluation.reported import DEMO, SAMPLES, SUMMARY, golden, write_run
from turnmark.evaluation.planning import plan
from turnmark.evaluation.records import DataUsed, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report.overview import overview
from turnmark.evaluation.report.rendering import show_report, show_run
from turnmark.evaluation.report.stored import Stored, StoredRun
from turnmark.evaluation.request import EvalRequest


def written(out):
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def drawn(summary, width=80, run=Path("runs/x")):
    out = io.StringIO()
    show_run(summary, run, Console(file=out, width=width, color_system=None, force_terminal=False))
    return written(out)


def small_run(root, out, query):
    request = EvalRequest(benchmark="mtrag", task="retrieval", data=root, retriever="bm25", query=query, out=out)
    summary: Summary = searched(plan(request), Opener())[0]
    return summary.model_copy(update={"seconds": {"search": 0.5, "total": 0.75}})


def test_a_run_over_two_domains(benchmark_root, tmp_path):
    text = drawn(small_run(benchmark_root, tmp_path / "r", "rewrite"))
    assert max(map(len, text.split("\n"))) <= 80
    golden("two_domains_rewrite.txt", text)


def test_a_run_with_a_mode_that_nobody_published(benchmark_root, tmp_path):
    golden("two_domains_last_2.txt", drawn(small_run(benchmark_root, tmp_path / "r", "last-2")))


def test_a_run_of_generation():
    text = drawn(SUMMARY, run=write_run(Path("runs/mtrag-0123456789ab")))
    assert max(map(len, text.split("\n"))) <= 80
    assert text.startswith(DEMO[:60])
    golden("report.txt", text)


def test_a_wide_screen_has_room_for_a_third_metric():
    lines = drawn(SUMMARY, 140).split("\n")
    assert any(line.count("95% interval") == 3 for line in lines)
    assert max(map(len, lines)) <= 140


def together(stored):
    out = io.StringIO()
    document = overview([stored])
    assert document is not None
    show_report(document, Console(file=out, width=80, color_system=None, force_terminal=False))
    return written(out)


def test_several_benchmarks_in_one_table():
    folder = Path("runs/all")
    real = DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f")
    other = SUMMARY.model_copy(update={"benchmark": "mtrag-un", "data": real, "setting": "reference", "failed": 0})
    runs = (StoredRun(folder / "mtrag", SUMMARY), StoredRun(folder / "mtrag-un", other))
    text = together(Stored(folder, runs, {"kiwi": "its [bold]data\x1b[31m are not there"}, several=True))
    assert max(map(len, text.split("\n"))) <= 80
    assert text.count("demo data: a small split") == 1
    assert "kiwi: no figures: its [bold]data are not there" in text
    golden("report_all.txt", text)


def test_only_left_out_ones_make_no_table():
    text = together(Stored(Path("r"), (), {"kiwi": "no data"}, several=True))
    assert text == "0 runs\nkiwi: no figures: no data\nrun: r   report: r/report.html\n"


def test_texts_of_the_data_are_inert(tmp_path):
    evil = "[bold red]x[/]\x1b[31m\x1b]0;title\x07\u202e\u200b abc\r\nforged\u2028line [/nonsense]"
    metric = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=2, failed=1, not_applicable=0)
    empty = MetricSummary(mean=None, ci95=None, n=0, failed=3, not_applicable=0)
    row = PublishedRow(
        system=evil, metrics={"ndcg@5": 0.5}, source=evil, n=1, subset=evil, domains=(evil,), query=evil,
        comparable=True, slice="all",
    )  # fmt: skip
    summary = Summary(
        benchmark="mtrag", task="retrieval", data=DataUsed(name=evil, demo=False, fingerprint="f"), n=3, failed=1,
        metrics={"ndcg@5": metric, "recall@5": empty}, breakdowns={evil: {evil: {"ndcg@5": metric}}}, published=(row,),
        usage={evil: {"calls": 1}}, seconds={evil: 1.0}, notes=(evil,), specs={"retriever": evil},
    )  # fmt: skip
    failed = SAMPLES[2].model_copy(update={"kind": evil})
    text = drawn(summary, width=400, run=write_run(tmp_path / "r", summary, (failed,)))
    assert not {"\x1b", "\x07", "\r", "\u202e", "\u200b", "\u2028"} & set(text)
    assert "title" not in text
    # data, specs, reason, dimension, value, role, price, seconds, note
    assert text.count("[bold red]x[/] abc␤forged␤line [/nonsense]") == 9
    assert "3 queries, 1 failed" in text
