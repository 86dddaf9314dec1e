"""MTRAG's tables of answers with runs of ours in them: our figures of the same subset, and the paper's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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


def test_table_5_has_a_column_a_setting_over_the_same_tasks() -> None:
    table = numbered(*((name, answers(name)) for name in ("rag", "reference", "reference+rag")))["5"]
    assert [column.title for column in table.columns] == [
        "system", *(f"{metric} {sign}" for metric in ("Acc.", "RL_F", "RBllm", "RBalg") for sign in "●◐○"),
    ]  # fmt: skip
    # The subset's own figures, and in the setting that has no other tasks those of the whole run.
    assert rows(table)["these runs"] == ("0.25", "0.50", "0.25") * 4
    assert rows(table)["Reference"][3:6] == ("0.86", "0.87", "0.67")
    assert rows(table)["Llama 3.1 8B Instruct"][3:6] == ("0.50", "0.51", "0.53")
    assert rows(table)["GPT-4o"][:3] == ("0.89", "0.86", "0.86")
    assert rows(table)["Qwen 2.5 (72B)"][6:9] == ("0.71", "0.69", "0.65")
    assert rows(table)["Mixtral 8x22B Instruct"][9:] == ("0.39", "0.38", "0.35")
    assert [row.kind for row in table.rows] == ["ours", *["dim"] * 10]
    assert all(word in table.lines[0] for word in ("domains", "judge", "metric"))
    assert len(table.lines) == 1


def test_all_four_domains_differ_in_nothing_but_what_is_said() -> None:
    (line,) = numbered(("a", answers("reference", FOUR_DOMAINS)), ("b", answers("rag", FOUR_DOMAINS)))["5"].lines
    assert "domains" not in line
    assert "(n," in line


def test_several_runs_of_a_setting_have_rows_of_their_own() -> None:
    figures_of = rows(numbered(("a", answers("reference")), ("b", answers("rag")), ("c", answers("rag")))["5"])
    assert figures_of["a"][:3] == ("0.25", "-", "-")
    assert figures_of["b"][:3] == figures_of["c"][:3] == ("-", "-", "0.25")


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


def test_the_tables_around_a_run_of_the_reference_setting() -> None:
    by_number = numbered(("this run", answers("reference", names=(*JUDGED, "rl_f"))))
    assert list(by_number) == ["5", "16a", "16b", "16c", "13", "14"]
    # Overall, answerable, partial: three metrics each; one column of the unanswerable.
    assert rows(by_number["16a"])["this run"] == (*["0.50"] * 3, *["0.70"] * 3, *["0.40"] * 3, "0.30")
    assert rows(by_number["16a"])["GPT-4o"][::3] == ("0.75", "0.82", "0.53", "0.20")
    assert rows(by_number["16b"])["GPT-4o"][4:] == ("0.54", "0.44")
    assert [column.title for column in by_number["16c"].columns][:3] == ["system", "RL_F CLAPNQ", "RL_F FiQA"]
    assert rows(by_number["16c"])["GPT-4o"][2:4] == ("0.77", "0.74")
    assert rows(by_number["16c"])["this run"][2:4] == ("0.10", "0.20")
    assert rows(by_number["13"])["Reference"][:2] == ("0.18", "0.87")
    assert rows(by_number["13"])["this run"][:2] == ("0.30", "0.30")


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


@pytest.mark.data
def test_the_subset_of_table_5_at_hand_has_197_tasks(real_data: Path) -> None:
    tasks = mtrag.load_tasks(real_data / "mt-rag-benchmark", "mtrag").data
    bench: Any = Mtrag("mtrag", "reference", tasks.values(), None, None)  # type: ignore[arg-type]
    assert sum("references" in bench.facts(item).labels for item in bench.items()) == 197
    topped: Any = Mtrag("mtrag", "reference+rag", tasks.values(), None, None)  # type: ignore[arg-type]
    assert sum(topped.facts(item).headline for item in topped.items()) == 197
