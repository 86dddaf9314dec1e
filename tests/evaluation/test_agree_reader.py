"""The reader of InspectorRAGet's format: what it holds, and every malformed row by its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.rated import MODELS, PROPERTIES, evaluation, write_evaluation
from turnmark.corpora.errors import RequestError
from turnmark.corpora.inspector import read_evaluation


def test_a_file_as_it_stands(tmp_path: Path) -> None:
    content = read_evaluation(write_evaluation(tmp_path / "h.json"))
    assert content.name == "a small one"
    assert tuple(content.models) == MODELS
    assert content.people == (*PROPERTIES, "win-rate")
    assert content.metrics == ("rl_f", "rb_llm", "conditional_idk")
    assert content.points == dict.fromkeys(PROPERTIES, 1.0)
    assert (len(content.tasks), len(content.answers), content.problems) == (12, 36, ())
    task = content.tasks["c0<::>2"]
    assert (task.question, task.answerability) == ("question 1?", "ANSWERABLE")
    first = content.answers[0]
    assert content.answers[3].ratings["win-rate"] == {"r0": 50.0, "r1": 100.0, "r2": 0.0}
    assert first.scores["conditional_idk"] == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda c: c["evaluations"].__setitem__(2, "x"), "evaluations[2]: is no object"),
        (lambda c: c["evaluations"][2].pop("task_id"), "evaluations[2]: 'task_id' is missing"),
        (lambda c: c["evaluations"][2].update(model_id="who"), "evaluations[2].model_id: no model 'who' in the file"),
        (lambda c: c["evaluations"][2].update(task_id="z"), "evaluations[2].task_id: no task 'z' in the file"),
        (lambda c: c["evaluations"][2].update(annotations=[]), "evaluations[2].annotations: is missing, or no object"),
        (lambda c: c["evaluations"][2].update(model_response=7), "evaluations[2]: 'model_response' is int, not text"),
        (lambda c: c["evaluations"].append(c["evaluations"][2]), "evaluations[36]: 'llama-3.1-405b"),
        (lambda c: c["tasks"].append(c["tasks"][0]), "tasks[12]: the task 'c0<::>1' stood there already"),
        (lambda c: c["tasks"][3].pop("task_id"), "tasks[3]: 'task_id' is missing"),
        (lambda c: c["models"][1].pop("model_id"), "models[1]: 'model_id' is missing"),
        (lambda c: c["metrics"][1].update(values=[{"value": "x"}]), "metrics[1]: 'x' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"]["rl_f"]["composite"].update(value="NaN"),
         "evaluations[4].annotations.rl_f.composite: 'NaN' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"]["faithfulness"]["r1"].update(value=None),
         "evaluations[4].annotations.faithfulness.r1: 'None' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"].update(faithfulness=3),
         "evaluations[4].annotations.faithfulness: is no object"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_named_by_its_place_and_costs_no_other(tmp_path: Path, change: Any, place: str) -> None:
    content = evaluation()
    change(content)
    result = read_evaluation(write_evaluation(tmp_path / "h.json", content))
    assert any(problem.what.startswith(place) for problem in result.problems), result.problems
    assert all(problem.file == "h.json" for problem in result.problems)
    assert len(result.answers) >= 24


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"), ("[1]", "is no JSON object"), ("{}", "no list under models, metrics, tasks, evaluations"),
        ('{"models": [], "metrics": [], "tasks": []}', "no list under evaluations"), ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "h.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=problem):
        read_evaluation(path)
    with pytest.raises(RequestError, match="cannot be read"):
        read_evaluation(tmp_path / "nowhere.json")
