"""The whole table as people see it, at 80 columns. After a change that is meant: TURNWISE_GOLDEN=write pytest …"""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from evaluation.benchmarks.mtrag_plan import plan_eval
from evaluation.benchmarks.mtrag_retrieval import run_eval
from evaluation.records import DataUsed, MetricSummary, PublishedRow, Summary
from evaluation.report.terminal import show
from evaluation.requests import EvalRequest
from tests.evaluation.conftest import Opener

GOLDEN = Path(__file__).parent / "golden"


def drawn(summary: Summary, width: int = 80) -> str:
    out = io.StringIO()
    show(summary, Path("runs/x"), Console(file=out, width=width, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("TURNWISE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def small_run(root: Path, out: Path, query: str) -> Summary:
    request = EvalRequest(benchmark="mtrag", data=root, retriever="fake", query=query, out=out)
    return run_eval(plan_eval(request, lambda retriever, _: (retriever, "")), Opener())[0]


def test_a_run_over_two_domains(benchmark_root: Path, tmp_path: Path) -> None:
    text = drawn(small_run(benchmark_root, tmp_path / "r", "rewrite"))
    assert max(map(len, text.split("\n"))) <= 80
    compare("two_domains_rewrite.txt", text)


def test_a_run_with_a_mode_that_nobody_published(benchmark_root: Path, tmp_path: Path) -> None:
    compare("two_domains_last_2.txt", drawn(small_run(benchmark_root, tmp_path / "r", "last-2")))


def test_texts_of_the_data_are_inert() -> None:
    evil = "[bold red]x[/]\x1b[31m\x1b]0;title\x07\u202e\u200b abc\r\nforged\u2028line [/nonsense]"
    metric = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=2, failed=1, not_applicable=0)
    empty = MetricSummary(mean=None, ci95=None, n=0, failed=3, not_applicable=0)
    row = PublishedRow(
        system=evil, metrics={"ndcg@5": 0.5}, source=evil, n=1, subset=evil, domains=(evil,), query=evil,
        comparable=True, slice="all",
    )  # fmt: skip
    text = drawn(Summary(
        benchmark="mtrag", task="retrieval", data=DataUsed(name=evil, demo=False, fingerprint="f"), n=3, failed=1,
        metrics={"ndcg@5": metric, "recall@5": empty}, breakdowns={evil: {evil: {"ndcg@5": metric}}}, published=(row,),
        seconds={}, notes=(evil,), specs={"retriever": evil},
    ), width=400)  # fmt: skip
    assert not {"\x1b", "\x07", "\r", "\u202e", "\u200b", "\u2028"} & set(text)
    assert "title" not in text
    assert text.count("[bold red]x[/] abc␤forged␤line [/nonsense]") == 8
    assert "3 queries, 1 failed" in text


def test_the_demo_says_first_what_it_is_worth() -> None:
    from evaluation.benchmarks.mtrag_data import DEMO_NOTE

    text = drawn(Summary(
        benchmark="mtrag", task="retrieval", data=DataUsed(name="demo", demo=True, fingerprint="f"), n=0, failed=0,
        metrics={}, breakdowns={}, published=(), seconds={}, notes=(DEMO_NOTE, "another"),
    ))  # fmt: skip
    assert text.startswith("demo data: a small split that ships with Turnwise; its figures show")
    assert text.count("demo data: a small split") == 1
    assert "- another" in text
