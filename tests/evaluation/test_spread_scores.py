"""Scores that workers compute are those of this process, in its order; and what stays here stays here."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.evaluation import costly
from turnmark.corpora import mtrag
from turnmark.evaluation import planning, running
from turnmark.evaluation.benchmarks.base import Item, Metric
from turnmark.evaluation.records import Sample
from turnmark.evaluation.request import EvalRequest
from turnmark.evaluation.scorers import measured_here
from turnmark.evaluation.spread import BLOCK, SpreadScores, absolute, mark, mark_of_judges, open_there, without_models


class Elsewhere:
    """Workers in this process: what they are given and give back is pickled, and what was asked last comes first."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work, self.asked, self.there = work, list[tuple[Any, ...]](), False

    def opened(self) -> Any:
        self.there = True
        return self

    def spread(self, tasks: Iterable[tuple[Any, tuple[Any, ...]]], tasks_each: int) -> Iterator[tuple[Any, Any]]:
        results = []
        for name, task in tasks:
            self.asked.append(pickle.loads(pickle.dumps(task)))
            results.append((name, pickle.loads(pickle.dumps(self.work(*self.asked[-1])))))
        yield from reversed(results)


# --- metrics ---------------------------------------------------------------------------------------------------------


class Bench:
    """Two metrics of a number, one of which fails over 7."""

    def __init__(self, heavy: bool) -> None:
        self.metrics = (
            Metric[int](("twice",), "x", lambda n: {"twice": 2.0 * n}),
            Metric[int](("seventh",), "y", lambda n: {"seventh": 1 / (n - 7)}, heavy=heavy),
        )

    def context(self, item: Item, sample: Sample) -> int:
        return int(item.id) + sample.repeat


def samples(count: int) -> Iterator[tuple[Item, Sample]]:
    for number in range(count):
        for repeat in range(2):
            answered = number != 3
            yield (
                Item(str(number), None),
                Sample(
                    id=str(number),
                    repeat=repeat,
                    status="done" if answered else "failed",
                    reason=None if answered else "x",
                ),
            )


def work(bench: Any) -> Callable[..., Any]:
    def measure(kind: str, pairs: Any) -> Any:
        assert kind == "measure"
        return [scores for _, _, scores in measured_here(bench, iter(pairs))]

    return measure


def test_metrics_are_those_of_this_process_in_the_order_of_the_samples() -> None:
    bench: Any = Bench(heavy=True)
    pool = Elsewhere(work(bench))
    measured_rows = list(SpreadScores(pool).measured(bench, samples(41)))
    assert measured_rows == list(measured_here(bench, samples(41)))
    assert [len(pairs) for _, pairs in pool.asked] == [BLOCK] * 5 + [2]
    failed = [score.id for _, _, scores in measured_rows for score in scores if score.status == "failed"]
    assert failed == ["3"] * 4 + ["6", "7"], "a sample that failed, and 1 / 0"


def test_metrics_without_a_model_among_them_are_sent_nowhere() -> None:
    bench: Any = Bench(heavy=False)
    pool = Elsewhere(work(bench))
    assert list(SpreadScores(pool).measured(bench, samples(9))) == list(measured_here(bench, samples(9)))
    assert not pool.there


def test_nothing_to_do_asks_for_no_workers() -> None:
    pool = Elsewhere(work(None))
    assert list(SpreadScores(pool).measured(Bench(heavy=True), samples(0))) == []  # type: ignore[arg-type]
    assert list(SpreadScores(pool).judged(iter(()))) == []
    assert not pool.there


# --- judges ----------------------------------------------------------------------------------------------------------


def request(folder: Path, name: str, *judges: str) -> EvalRequest:
    """Answers to all tasks but one of the demo: their references, the last word cut off."""
    file = folder / "answers.jsonl"
    tasks = [task for task in mtrag.load_tasks(DEMO / "mt-rag-benchmark", "mtrag").data.values() if task.reference]
    rows = [
        {"task_id": task.id, "predictions": [{"text": task.reference.rpartition(" ")[0]}]}
        for task in tasks[: len(tasks) - 1]
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:6]))
    return EvalRequest(benchmark="mtrag", predictions=(file,), judge=judges, out=folder / name)


def outcomes(folder: Path) -> list[Mapping[str, Any]]:
    lines = (folder / "judgements.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted(({**json.loads(line), "seconds": 0} for line in lines), key=lambda row: str(row["key"]))


def test_a_judged_run_is_the_same_and_language_models_are_asked_from_here(tmp_path: Path) -> None:
    judges = ("embedded?metrics=idk[embedded]", f"{costly.SPEC}?metrics=rb_llm&cache=0")
    local = request(tmp_path, "here", *judges)
    running.run(planning.plan(local))
    calls = len(costly.PROMPTS)
    assert calls > 0

    spread_out = request(tmp_path, "there", *judges)
    work, its_mark = open_there(absolute(spread_out), False)
    plan = planning.plan(spread_out)
    assert its_mark == mark(plan.manifest) + mark_of_judges(plan)
    pool = Elsewhere(work)
    running.run(replace(plan, scorers=SpreadScores(pool)))
    for name in ("scores.jsonl", "browse.jsonl", "facts.jsonl"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert outcomes(tmp_path / "there") == outcomes(tmp_path / "here")
    sent = [question for kind, task in pool.asked if kind == "judge" for question in task]
    assert {judge for _, judge, _ in sent} == {"embedded"}
    assert {kind for kind, _ in pool.asked} == {"judge"}
    assert len(costly.PROMPTS) == 2 * calls

    again = Elsewhere(work)
    running.run(replace(planning.plan(spread_out), scorers=SpreadScores(again)))
    assert not again.there, "all is judged, and no metric needs a model"


def test_what_one_case_is_asked_goes_to_one_worker() -> None:
    from turnmark.evaluation.benchmarks.base import Case
    from turnmark.evaluation.judging.judgements import Outcome

    first, second = Case("q", "a"), Case("q", "b")
    pool = Elsewhere(
        lambda kind, questions: [(Outcome(status="scored", value=float(len(questions))), 0.5) for _ in questions]
    )
    questions = [(n, ("measure", "embedded", case)) for n, case in enumerate((first, first, second, first))]
    outcomes_by_name = dict(SpreadScores(pool).judged(iter(questions)))
    assert {name: outcome.value for name, (outcome, _) in outcomes_by_name.items()} == {0: 2.0, 1: 2.0, 2: 1.0, 3: 1.0}
    assert [len(task) for _, task in pool.asked] == [2, 1, 1]


def test_only_judges_without_a_language_model_are_sent_along(tmp_path: Path) -> None:
    panel = tmp_path / "panel.txt"
    panel.write_text(f"embedded?metrics=idk[embedded]\n{costly.SPEC}\n")
    assert without_models((f"panel:{panel}",)) == ("embedded?metrics=idk%5Bembedded%5D",)
    assert without_models((costly.SPEC, "embedded")) == ("embedded",)
    assert without_models(("bertscore:minilm",)) == ("bertscore:minilm",)
    assert without_models(()) == ()


def test_a_request_is_sent_without_the_keys_of_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    original = EvalRequest(benchmark="mtrag", predictions=(Path("a"),), judge=("embedded", costly.SPEC), engine="ray")
    sent = absolute(original)
    assert isinstance(sent, EvalRequest)
    assert (sent.predictions, sent.judge, sent.engine) == ((tmp_path / "a",), ("embedded",), "local")


def test_workers_with_another_judge_are_told_by_their_mark(tmp_path: Path) -> None:
    first = planning.plan(request(tmp_path, "r", "embedded"))
    second = planning.plan(request(tmp_path, "r", "embedded?metrics=idk[embedded]"))
    model = planning.plan(request(tmp_path, "r", costly.SPEC))
    assert mark_of_judges(first) != mark_of_judges(second)
    assert mark_of_judges(second).count("\n") == 1
    assert mark_of_judges(model) == ""
