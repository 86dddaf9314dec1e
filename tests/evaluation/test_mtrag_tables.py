"""MTRAG's tables with runs of ours in them: the paper's rows and the rerun's, of retrieval and of answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.benched import items_of
from tests.evaluation.requests import request_of
from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.benchmarks.mtrag.generation import Mtrag, MtragUn
from turnmark.evaluation.records import DataUsed, MetricSummary, Summary
from turnmark.evaluation.report.paper_comparison import NOT_COMPARABLE_MARK, paper_tables
from turnmark.evaluation.report.tables import strip_tags
from turnmark.evaluation.runs.benchmark_run import run_plan
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.scores.published_results import RERUN, RunFacts, find_rows, published_facts

TWO_DOMAINS = ("clapnq", "fiqa")
METRICS = tuple(f"{metric}@{k}" for metric in ("recall", "ndcg") for k in (1, 3, 5, 10))
QUERIES = {"last-turn": "lastturn", "rewrite": "rewrite"}
FILES = {"BM25": "bm25", "BGE-base 1.5": "bge", "BGE-M3 dense": "bgem3_dense", "SPLADE": "splade", "ELSER": "elser"}


def figures(mean, n, names=METRICS):
    figure = MetricSummary(mean=mean, ci95=(mean - 0.1, mean + 0.1), n=n, failed=0, not_applicable=0)
    return dict.fromkeys(names, figure)


def drawn(summary):
    return paper_tables([("this run", summary)])


def test_single_incomparable_value_is_marked_and_its_row_stays():
    """One prompt in our own words takes nothing from what the other prompts of the paper gave."""
    (fact,) = (
        candidate
        for candidate in published_facts()
        if candidate.system == "GPT-4o" and candidate.setting == "reference+rag"
    )
    variants = {name: (tool.same or (tool.by,))[0] for name, tool in fact.instruments.items()}
    panel = tuple(f"openai:{name}" for name in fact.instruments["rb_llm.idk"].judges)
    summed = dict.fromkeys(variants, MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=426, failed=0, not_applicable=0))
    four = tuple(fact.domains)
    breakdowns = {"domain": dict.fromkeys(four, summed)}
    ran = RunFacts(
        benchmark="mtrag", task="generation", setting="reference+rag", query="rewrite", domains=four, judges=panel,
        corpora=dict.fromkeys(four, "full"), variants={**variants, "rl_f.idk": "our own words"}, metrics=summed,
        judged={"rb_llm": panel, "rl_f": panel[:1], "idk": panel[:1]}, breakdowns=breakdowns,
    )  # fmt: skip
    summary = Summary(
        benchmark="mtrag", task="generation", setting="reference+rag", n=426, failed=0, metrics=summed,
        breakdowns=breakdowns, data=DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f"),
        published=find_rows(ran), seconds={}, notes=(), specs={"query": "rewrite"},
    )  # fmt: skip
    table = next(candidate for candidate in drawn(summary) if candidate.title.startswith("As MTRAG Table 5"))
    row = next(row for row in table.rows if row.cells[0].startswith("GPT-4o") and "mini" not in row.cells[0])
    assert (row.kind, row.cells[0]) == ("plain", "GPT-4o")
    assert [cell for cell in row.cells if NOT_COMPARABLE_MARK in cell] == [f"0.69{NOT_COMPARABLE_MARK}"]
    assert "judge, metric" in " ".join(table.lines)


def packaged(system, query):
    return [fact for fact in published_facts() if (fact.source, fact.system, fact.query) == (RERUN, system, query)]


@pytest.mark.data
@pytest.mark.parametrize("system", FILES)
@pytest.mark.parametrize("query", QUERIES)
def test_scoring_the_recorded_runs_gives_the_packaged_values(real_data, system, query):
    files = tuple(real_data / f"runs/{FILES[system]}_{domain}_{QUERIES[query]}.trec" for domain in TWO_DOMAINS)
    if missing := [file.name for file in files if not file.is_file()]:
        pytest.skip(f"no recorded runs {', '.join(missing)} in {real_data / 'runs'}")
    summary, *_ = run_plan(plan_run(request_of(
        benchmark="mtrag", task="retrieval", data=real_data, predictions=files, out=Path("r")
    )))  # fmt: skip
    for fact in packaged(system, query):
        ours = summary.metrics
        for dimension, value in fact.part.items() or [("domain", fact.domains[0])][: len(fact.domains) == 1]:
            ours = summary.breakdowns[dimension][value]
        for name, figure in fact.metrics.items():
            assert ours[name].mean == pytest.approx(figure, abs=0.001)
            assert ours[name].n == fact.n


def test_the_tasks_with_few_references_are_set_apart():
    tasks = mtrag.load_tasks(mtrag.DEMO_ROOT, "mtrag").data
    few = {name for name, task in tasks.items() if len(task.contexts) <= 2 and task.answerability != "CONVERSATIONAL"}
    assert 0 < len(few) < len(tasks)
    for benchmark, setting, ids in (
        ("mtrag", "reference", few),
        ("mtrag", "rag", few),
        ("mtrag", "reference+rag", set()),
        ("mtrag-un", "rag", set()),
    ):
        bench = (MtragUn if benchmark == "mtrag-un" else Mtrag)(request_of(benchmark=benchmark), setting)
        labelled = {item.id for item in items_of(bench) if "references" in item.labels}
        assert labelled == ids


def answered_run(setting, samples="ids", **specs):
    """A run of answers in a setting, with one figure.

    Args:
        samples: hash of the tasks with few references, which are all of `reference+rag`.
    """
    part = figures(0.5, 4, ("rb_llm.idk", "rl_f[embedded].idk[embedded]", "answerability_accuracy"))
    return Summary(
        benchmark="mtrag", task="generation", setting=setting, n=4, failed=0, metrics=part,
        breakdowns={"references": {"at most two": part}}, seconds={}, notes=(), published=(),
        data=DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f"),
        specs={"generator": "openai:a", "judge": "openai:j", **specs},
        samples={"references=at most two": samples, "all": samples if setting == "reference+rag" else "more"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "other", [{}, {"generator": "openai:b"}, {"judge": "openai:k"}, {"retriever": "bm25"}, {"protocol": "paper"}]
)
def test_only_runs_of_one_system_are_one_row(other):
    """The row of Table 5 is of one model over what one retriever found, by one judge."""
    runs = [
        ("a", answered_run("reference")), ("b", answered_run("reference+rag", retriever="hybrid")),
        ("c", answered_run("rag", **({"retriever": "hybrid"} | other))),
    ]  # fmt: skip
    rows = [row for row in paper_tables(runs)[0].rows if row.kind == "ours"]
    assert [row.cells[0] for row in rows] == (["a, b", "c"] if other else ["these runs"])
    filled = [sum(cell == "0.50" for cell in row.cells) for row in rows]
    assert filled == ([6, 3] if other else [9])


def test_runs_of_which_some_samples_failed_have_separate_rows():
    """Thirteen tasks with perfect retrieval and twelve with noise stood in one row, and noise seemed to be better."""
    runs = [answered_run("reference"), answered_run("reference+rag")]
    fewer = {name: metric.model_copy(update={"n": 3, "failed": 1}) for name, metric in runs[1].metrics.items()}
    runs[1] = runs[1].model_copy(update={"metrics": fewer, "breakdowns": {"references": {"at most two": fewer}}})
    table = next(table for table in paper_tables([("a", runs[0]), ("b", runs[1])]) if "Table 5" in table.title)
    assert [row.cells[0] for row in table.rows if row.kind == "ours"] == ["a", "b"]


@pytest.mark.parametrize("same", [True, False])
def test_runs_over_different_samples_have_separate_rows(same):
    """By their ids, whatever their number: Table 5 has all three settings on the same tasks."""
    runs = [("a", answered_run("reference")), ("b", answered_run("rag", "ids" if same else "other ids"))]
    rows = [row for row in paper_tables(runs)[0].rows if row.kind == "ours"]
    assert [row.cells[0] for row in rows] == (["these runs"] if same else ["a", "b"])


def test_unpublished_variants_have_separate_columns():
    """A figure of the embedded judge is under no head of the paper's, above no figure of the paper's judges."""
    summary = answered_run("reference")
    table = paper_tables([("a", summary)])[0]
    heads = {column.title: cell for column, cell in zip(table.columns, table.rows[0].cells, strict=True)}
    assert heads == {"system": "a", "Acc. ●": "0.50", "RL_F [embedded] ●": "0.50", "RBllm ●": "0.50", "n": "4"}
    assert strip_tags("rl_f[embedded].idk[embedded]") == "rl_f.idk"


def test_values_over_other_samples_have_a_range_of_counts():
    """A judge that failed on some replies has fewer than the metric beside it."""
    summary = answered_run("reference")
    part = summary.metrics | figures(0.25, 3, ("rb_llm.idk",))
    summary = summary.model_copy(update={"metrics": part, "breakdowns": {"references": {"at most two": part}}})
    (row, *_) = paper_tables([("a", summary)])[0].rows
    assert row.cells[-1] == "3-4"


def covering(domains, task):
    """A run over some of the domains, in every subset that the tables show."""
    names = METRICS if task == "retrieval" else ("rl_f.idk", "rb_llm.idk", "rb_alg.idk", "answerability_accuracy")
    shown = figures(0.5, 9, names)
    breakdowns = {
        "domain": dict.fromkeys(domains, shown),
        "turn": dict.fromkeys(("first", "later"), shown),
        "answerability": dict.fromkeys(("ANSWERABLE", "PARTIAL", "UNANSWERABLE"), shown),
    }
    setting, query = (None, "rewrite") if task == "retrieval" else ("reference", None)
    ran = RunFacts(
        benchmark="mtrag", task=task, setting=setting, query=query, domains=domains, metrics=shown,
        corpora=dict.fromkeys(domains, "full"), variants=dict.fromkeys(names, "ours"), breakdowns=breakdowns,
    )  # fmt: skip
    return Summary(
        benchmark="mtrag", task=task, setting=setting, n=9, failed=0, metrics=shown, breakdowns=breakdowns,
        data=DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f"), published=find_rows(ran), seconds={},
        notes=(), specs={"query": "rewrite"},
    )  # fmt: skip


def printed_cells(domains, task):
    """(table, group, labels of the row, heading): text of each figure that a paper printed."""
    cells = {}
    for table in drawn(covering(domains, task)):
        group, labels = "", ["", ""]
        names = sum(not head.number for head in table.columns)
        for row in table.rows:
            if row.kind == "group":
                group = row.cells[0]
            labels = [cell or before for cell, before in zip(row.cells[:names], labels, strict=False)]
            if row.kind not in ("plain", "dim"):
                continue
            if any("rerun" in label for label in labels):
                continue
            for index, head in list(enumerate(table.columns))[names:]:
                key = (table.title, group, *(label.rstrip("†") for label in labels), head.over, head.name)
                if row.cells[index] not in ("", "-"):
                    cells[key] = row.cells[index].rstrip("†")
    return cells


@pytest.mark.parametrize("task", ["retrieval", "generation"])
@pytest.mark.parametrize("domains", [("fiqa",), ("clapnq", "govt")])
def test_published_cells_come_from_the_paper_whatever_a_run_covers(task, domains):
    whole, part = printed_cells(("clapnq", "cloud", "fiqa", "govt"), task), printed_cells(domains, task)
    assert part
    assert {key: whole.get(key) for key in part} == part


def test_elser_over_all_domains_is_table_15s_last_row():
    cells = printed_cells(("fiqa",), "retrieval")
    row = {key[-2:]: figure for key, figure in cells.items() if key[0].startswith("As MTRAG Table 15") and "All" in key}
    (fact,) = (
        fact for fact in published_facts()
        if "Table 15" in fact.source and fact.query == "rewrite" and len(fact.domains) == 4
    )  # fmt: skip
    shown = {f"{over.lower()}{label}": figure for (over, label), figure in row.items() if label != "n"}
    assert shown == {name: f"{value:.2f}" for name, value in fact.metrics.items()}
