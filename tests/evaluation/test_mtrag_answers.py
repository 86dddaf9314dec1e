"""MTRAG's tables of answers with runs of ours in them: our figures of the same subset, and the paper's rows."""

from __future__ import annotations

from typing import Any

from turnmark.corpora import mtrag
from turnmark.evaluation.benchmarks.mtrag_generation import Mtrag
from turnmark.evaluation.published import Ran, beside
from turnmark.evaluation.records import DataUsed, Metrics, MetricSummary, Summary
from turnmark.evaluation.report.paper import MARK
from turnmark.evaluation.report.paper_tables import paper_tables
from turnmark.evaluation.report.tables import Table, untagged

TWO_DOMAINS = ("clapnq", "fiqa")
FOUR_DOMAINS = ("clapnq", "cloud", "fiqa", "govt")
JUDGED = ("answerability_accuracy", "rl_f.idk", "rb_llm.idk", "rb_alg.idk")
OWN = "rl_f[embedded].idk[embedded]"


def figures(mean: float, n: int, names: tuple[str, ...]) -> Metrics:
    figure = MetricSummary(mean=mean, ci95=(mean - 0.1, mean + 0.1), n=n, failed=0, not_applicable=0)
    return dict.fromkeys(names, figure)


def answers(
    setting: str, domains: tuple[str, ...] = TWO_DOMAINS, names: tuple[str, ...] = JUDGED, **more: Any
) -> Summary:
    few = {"references": {"at most two": figures(0.25, 197, names)}} if setting != "reference+rag" else {}
    breakdowns = {
        "domain": {name: figures(0.1 * number, 200 + number, names) for number, name in enumerate(domains, 1)},
        "turn": {"first": figures(0.6, 55, names), "later": figures(0.5, 362, names)},
        "answerability": {
            "ANSWERABLE": figures(0.7, 355, names), "PARTIAL": figures(0.4, 33, names),
            "UNANSWERABLE": figures(0.3, 55, names),
        },
        **few,
    }  # fmt: skip
    metrics = figures(0.5, 197 if setting == "reference+rag" else 417, names)
    ran = Ran(
        benchmark="mtrag", task="generation", setting=setting, query=None, domains=domains,
        variants=dict.fromkeys(names, "something"), judges=("embedded",), metrics=metrics, breakdowns=breakdowns,
    )  # fmt: skip
    summary = Summary(
        benchmark="mtrag", task="generation", setting=setting,
        data=DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f"), n=423, failed=0, metrics=metrics,
        breakdowns=breakdowns, published=beside(ran), seconds={}, notes=(), specs={"generator": "extractive"},
    )  # fmt: skip
    return summary.model_copy(update=more)


def numbered(*runs: tuple[str, Summary]) -> dict[str, Table]:
    """The tables with these runs in them, by their number."""
    return {table.title.split(":")[0].removeprefix("As MTRAG Table "): table for table in paper_tables(runs)}


def rows(table: Table) -> dict[str, tuple[str, ...]]:
    """System -> its figures."""
    return {row.cells[0].rstrip(MARK): row.cells[1:] for row in table.rows}


def test_all_four_domains_differ_in_nothing_but_what_is_said() -> None:
    (line,) = numbered(("a", answers("reference", FOUR_DOMAINS)), ("b", answers("rag", FOUR_DOMAINS)))["5"].lines
    assert "domains" not in line
    assert "(n," in line


def test_an_embedded_form_has_a_row_of_its_own() -> None:
    summary = answers("reference", names=(OWN, "rouge_l.word"))
    figures_of = rows(numbered(("this run", summary))["5"])
    assert "this run" not in figures_of
    assert figures_of["this run [embedded]"] == (*["-"] * 3, "0.25", *["-"] * 8)
    assert untagged(OWN) == "rl_f.idk"


def test_a_row_is_comparable_where_each_figure_beside_one_of_ours_is() -> None:
    """The other settings have no figure of ours beside them, so that they do not count."""
    summary = answers("reference", FOUR_DOMAINS)
    fits = [
        row.model_copy(update={"comparable": True, "differs": (), "differs_by_metric": {}, "why": None})
        if row.setting == "reference" and row.system == "GPT-4o" and row.source.startswith("MTRAG Table 5")
        else row
        for row in summary.published
    ]
    table = numbered(("this run", summary.model_copy(update={"published": tuple(fits)})))["5"]
    assert [row.cells[0] for row in table.rows if row.kind == "plain"] == ["GPT-4o"]


def test_tables_of_other_runs() -> None:
    assert list(numbered(("a", answers("rag")))) == ["5"]
    assert numbered(("a", answers("reference", names=("rouge_l.word",)))) == {}
    assert numbered(("a", answers("reference", benchmark="mtrag-un"))) == {}


def test_the_tasks_with_few_references_are_set_apart() -> None:
    tasks = mtrag.load_tasks(mtrag.DEMO_ROOT, "mtrag").data
    few = {name for name, task in tasks.items() if len(task.contexts) <= 2 and task.answerability != "CONVERSATIONAL"}
    assert 0 < len(few) < len(tasks)
    for benchmark, setting, ids in (
        ("mtrag", "reference", few),
        ("mtrag", "rag", few),
        ("mtrag", "reference+rag", set()),
        ("mtrag-un", "rag", set()),
    ):
        bench: Any = Mtrag(benchmark, setting, tasks.values(), None, None)  # type: ignore[arg-type]
        labelled = {item.id for item in bench.items() if "references" in bench.facts(item).labels}
        assert labelled == ids
