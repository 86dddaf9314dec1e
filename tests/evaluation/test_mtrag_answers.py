"""MTRAG's tables of answers around runs of ours: the paper's rows, our figures of the same subset, what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from evaluation.report.mtrag_answers import JUDGED, generation_tables, settings_together

from corpora import mtrag
from evaluation.benchmarks.mtrag_generation import Mtrag
from evaluation.published import Ran, beside
from evaluation.records import DataUsed, Metrics, MetricSummary, Summary
from evaluation.report.tables import Table, untagged

BOTH = ("clapnq", "fiqa")
ALL = ("clapnq", "cloud", "fiqa", "govt")
OWN = "rl_f[embedded].idk[embedded]"


def figures(mean: float, n: int, names: tuple[str, ...]) -> Metrics:
    one = MetricSummary(mean=mean, ci95=(mean - 0.1, mean + 0.1), n=n, failed=0, not_applicable=0)
    return dict.fromkeys(names, one)


def answers(setting: str, domains: tuple[str, ...] = BOTH, names: tuple[str, ...] = JUDGED, **more: Any) -> Summary:
    few = {"references": {"at most two": figures(0.25, 197, names)}} if setting != "reference+rag" else {}
    breakdowns = {
        "domain": {name: figures(0.1 * at, 200 + at, names) for at, name in enumerate(domains, 1)},
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
    made = Summary(
        benchmark="mtrag", task="generation", setting=setting,
        data=DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f"), n=423, failed=0, metrics=metrics,
        breakdowns=breakdowns, published=beside(ran), seconds={}, notes=(), specs={"generator": "extractive"},
    )  # fmt: skip
    return made.model_copy(update=more)


def under(table: Table, metric: str) -> dict[str, tuple[str, ...]]:
    """The rows beneath a metric: name -> the other cells."""
    found: dict[str, tuple[str, ...]] = {}
    inside = False
    for row in table.rows:
        if row.kind == "group":
            inside = row.cells[0] == metric
        elif inside:
            found[row.cells[0]] = row.cells[1:]
    return found


def test_table_5_has_a_column_a_setting_over_the_same_tasks() -> None:
    table = settings_together([(name, answers(name)) for name in ("rag", "reference", "reference+rag")])
    assert table is not None
    assert [column.name for column in table.columns] == ["", "reference", "reference+rag", "rag", "differs"]
    rows = under(table, "rl_f.idk")
    # The subset's own figures, and in the setting that has no other tasks those of the whole run.
    assert rows["these runs"] == ("0.2500", "0.5000", "0.2500", "")
    assert rows["Reference"][:3] == ("0.86", "0.87", "0.67")
    assert rows["Llama 3.1 8B Instruct"][:3] == ("0.50", "0.51", "0.53")
    assert under(table, "answerability_accuracy")["GPT-4o"][:3] == ("0.89", "0.86", "0.86")
    assert under(table, "rb_llm.idk")["Qwen 2.5 (72B)"][:3] == ("0.71", "0.69", "0.65")
    assert under(table, "rb_alg.idk")["Mixtral 8x22B Instruct"][:3] == ("0.39", "0.38", "0.35")
    assert len(rows) == 11
    assert table.lines[0] == "n here: reference 197, reference+rag 197, rag 197"
    assert "n: reference 426, reference+rag 426, rag 426" in table.lines[1]
    numbers = {line.split()[1].rstrip(":"): line[1] for line in table.lines if line.startswith("(")}
    assert set(rows["Reference"][3].split(",")) <= set(numbers.values())
    assert {"domains", "judge"} <= set(numbers)


def test_all_four_domains_differ_in_nothing_but_what_is_said() -> None:
    table = settings_together([(name, answers(name, ALL)) for name in ("reference", "rag")])
    assert table is not None
    assert not any(line.startswith("(") and " domains:" in line for line in table.lines)
    assert any(" n: it counts another number" in line for line in table.lines)


def test_several_runs_of_a_setting_have_rows_of_their_own() -> None:
    table = settings_together([("a", answers("reference")), ("b", answers("rag")), ("c", answers("rag"))])
    assert table is not None
    rows = under(table, "rb_alg.idk")
    assert rows["a"] == ("0.2500", "-", "")
    assert rows["b"] == rows["c"] == ("-", "0.2500", "")


def test_an_embedded_form_stands_beside_under_its_own_name() -> None:
    table = settings_together([(name, answers(name, names=(OWN, "rouge_l.word"))) for name in ("reference", "rag")])
    assert table is not None
    rows = under(table, "rl_f.idk")
    assert rows[OWN] == ("0.2500", "0.2500", "metric")
    assert "these runs" not in rows
    assert under(table, "rb_llm.idk")["these runs"] == ("-", "-", "")
    assert under(table, "not in the paper's table") == {"rouge_l.word": ("0.2500", "0.2500", "")}
    assert untagged(OWN) == "rl_f.idk"


def test_a_run_that_was_scored_before_says_so() -> None:
    old = answers("rag", breakdowns={})
    table = settings_together([("new", answers("reference")), ("old", old)])
    assert table is not None
    assert table.lines[-1] == "old: scored without these tasks set apart; score it again"


@pytest.mark.parametrize("runs", [
    [("a", answers("rag"))], [("a", answers("rag")), ("b", answers("rag"))],
    [("a", answers("rag")), ("b", answers("reference", benchmark="mtrag-un"))],
])  # fmt: skip
def test_one_setting_is_no_table_of_settings(runs: list[tuple[str, Summary]]) -> None:
    assert settings_together(runs) is None


def test_the_tables_around_a_run_of_the_reference_setting() -> None:
    made = {table.title.split(":")[0].removeprefix("As MTRAG Table "): table for table in
            generation_tables(answers("reference", names=(*JUDGED, "rl_f")))}  # fmt: skip
    assert list(made) == ["5", "16a", "16b", "16c", "13"]
    rows = under(made["16a"], "rl_f.idk")
    assert rows["this run"] == ("0.5000", "0.7000", "0.4000", "0.3000", "")
    assert rows["GPT-4o"][:4] == ("0.75", "0.82", "0.53", "0.20")
    assert under(made["16b"], "rb_alg.idk")["GPT-4o"][:2] == ("0.54", "0.44")
    assert [column.name for column in made["16c"].columns] == ["", "clapnq", "fiqa", "differs"]
    assert under(made["16c"], "rb_llm.idk")["GPT-4o"][:2] == ("0.77", "0.74")
    assert under(made["16c"], "rb_llm.idk")["this run"][:2] == ("0.1000", "0.2000")
    before, after = under(made["13"], "rl_f")["Reference"][:2]
    assert (before, after) == ("0.18", "0.87")
    assert under(made["13"], "rl_f")["this run"] == ("0.3000", "0.3000", "")
    # One domain's row is over that domain alone: its domains are the same ones.
    assert "n here: clapnq 201, fiqa 202" in made["16c"].lines


def test_tables_of_other_runs() -> None:
    assert [table.title[:17] for table in generation_tables(answers("rag"))] == ["As MTRAG Table 5:"]
    assert generation_tables(answers("reference", names=("rouge_l.word",))) == ()
    assert generation_tables(answers("reference", benchmark="mtrag-s")) == ()
    demo = DataUsed(name="demo", demo=True, fingerprint="f")
    assert generation_tables(answers("reference", data=demo)) == ()


def test_the_tasks_with_few_references_are_set_apart() -> None:
    tasks = mtrag.load_tasks(mtrag.DEMO_ROOT, "mtrag").data
    few = {name for name, task in tasks.items() if len(task.contexts) <= 2 and task.answerability != "CONVERSATIONAL"}
    assert 0 < len(few) < len(tasks)
    for benchmark, setting, wanted in (
        ("mtrag", "reference", few),
        ("mtrag", "rag", few),
        ("mtrag", "reference+rag", set()),
        ("mtrag-un", "rag", set()),
    ):
        made: Any = Mtrag(benchmark, setting, tasks.values(), None, None)  # type: ignore[arg-type]
        found = {item.id for item in made.items() if "references" in made.facts(item).labels}
        assert found == wanted


@pytest.mark.data
def test_the_subset_of_table_5_at_hand_has_197_tasks(real_data: Path) -> None:
    tasks = mtrag.load_tasks(real_data / "mt-rag-benchmark", "mtrag").data
    made: Any = Mtrag("mtrag", "reference", tasks.values(), None, None)  # type: ignore[arg-type]
    assert sum("references" in made.facts(item).labels for item in made.items()) == 197
    topped: Any = Mtrag("mtrag", "reference+rag", tasks.values(), None, None)  # type: ignore[arg-type]
    assert sum(topped.facts(item).headline for item in topped.items()) == 197
