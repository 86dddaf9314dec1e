"""The form of submissions to SemEval-2026 Task 8, as `score --dry-run` checks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.storage.submission_format import note_submission

IDS = ("c1<::>1", "c1<::>2", "c2<::>1")


def line(task: str, contexts: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "task_id": task, "Collection": "fiqa", "input": [{"speaker": "user", "text": "Who?"}],
        "contexts": [{"document_id": f"d{rank}", "text": "t", "score": 9 - rank} for rank in range(contexts)],
        "predictions": [{"text": "It is so."}], **changes,
    }  # fmt: skip


def notes(tmp_path, *rows, subtask="C", name="a.jsonl"):
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(note_submission([tmp_path / name], subtask, IDS))


def test_complete_file_has_the_form_and_a_file_in_our_form_is_not_checked(tmp_path):
    rows = [line(task, 10) for task in IDS]
    assert notes(tmp_path, *rows) == ["a.jsonl has the form of a submission to SemEval-2026 Task 8C"]
    assert notes(tmp_path, {"id": "c1<::>1", "prediction": "It is so."}) == []


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"contexts": line("x", 11)["contexts"]}, "line 3: 11 contexts, at most 10 are allowed"),
        ({"contexts": [{"document_id": "d"}]}, "line 3: contexts: each needs a document_id (text) and a score"),
        ({"contexts": [{"document_id": 7, "score": 1}]}, "line 3: contexts: each needs a document_id (text)"),
        ({"Collection": None}, "line 3: Collection: expected a text"),
        ({"task_id": "x"}, "1 of 3 tasks have no line, 'c2<::>1' first; 1 ids are no tasks of the data, 'x' first"),
        ({"task_id": "c1<::>2"}, "1 of 3 tasks have no line, 'c2<::>1' first; 1 lines repeat a task"),
    ],
)
def test_names_what_the_organizers_refuse(tmp_path, change, mistake):
    (note,) = notes(tmp_path, line(IDS[0]), line(IDS[1]), line(IDS[2]) | change)
    assert note.startswith(f"a.jsonl: SemEval-2026 Task 8C refuses it: {mistake}")


def test_subtasks_need_different_fields(tmp_path):
    bare = [{key: row[key] for key in ("task_id", "Collection", "contexts")} for row in map(line, IDS)]
    assert "has the form" in notes(tmp_path, *bare, subtask="A")[0]
    assert "line 1: input: expected a list; line 1: predictions: expected a list" in notes(tmp_path, *bare)[0]
    without = [{key: value for key, value in line(task).items() if key != "Collection"} for task in IDS]
    assert "has the form" in notes(tmp_path, *without, subtask="B")[0]


def test_size_and_name_are_limited(tmp_path):
    rows = [line(task) for task in IDS]
    assert "its name does not end in .jsonl" in notes(tmp_path, *rows, name="a.json")[0]
    large = [line(task, predictions=[{"text": "x" * 7 * 1024**2}]) for task in IDS]
    assert notes(tmp_path, *large)[0].startswith("a.jsonl: SemEval-2026 Task 8C refuses it: it is larger than 20 MiB")


def test_dry_run_of_score_shows_the_check_and_writes_nothing(turnmark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = mtrag.load_tasks(mtrag.locate(None).root, "mtrag").data
    rows = [json.dumps(line(task.id, Collection=task.domain)) for task in tasks.values()]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    ran = turnmark.ok("score", "mtrag", "--setting", "rag", "--predictions", "a.jsonl", "--dry-run")
    assert f"would score {len(rows)} samples of mtrag rag" in ran.out
    assert "a.jsonl has the form of a submission to SemEval-2026 Task 8C" in ran.out
    assert not (tmp_path / "runs").exists()
