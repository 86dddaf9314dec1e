"""Compound-QA: every spelling of the layout, every field, every kind of error, and the real files if present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpora.reading import jsonl
from tests.corpora.reading import write as write_files
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks import compound_qa

FACTS = "data/Understanding/Understanding_Factual_Statement.jsonl"


def row(**changes: Any) -> dict[str, Any]:
    fields = {
        "ID": "adversarial_qa_1", "context": "A lake and a river.", "com_question": "Which lake? Which river?",
        "com_reference": "That lake. That river.",
    } | changes  # fmt: skip
    return {key: value for key, value in fields.items() if value is not ...}


def write(root: Path, *lines: Any, relative: str = FACTS) -> Path:
    return write_files(root, {relative: jsonl(*lines)})


def test_reads_row_as_task(tmp_path: Path) -> None:
    loaded = compound_qa.load_tasks(write(tmp_path, row()))
    assert loaded.problems == ()
    task = loaded.data["Understanding/Factual-Statement/adversarial_qa_1"]
    assert task == compound_qa.CompoundQuestion(
        id="Understanding/Factual-Statement/adversarial_qa_1", capability="Understanding", type="Factual-Statement",
        source_id="adversarial_qa_1", context="A lake and a river.", question="Which lake? Which river?",
        reference="That lake. That river.",
    )  # fmt: skip
    (closed,) = compound_qa.stream_tasks(write(tmp_path, row(context=" \n")))
    assert closed.context is None


@pytest.mark.parametrize(("relative", "start"), [
    ("data/Knowleage/Knowledge_Evaluation-and-Suggestion.jsonl", "Knowledge/Evaluation-and-Suggestion/"),
    ("data/Knowledge/Knowleage_Cause_and_Effect.jsonl", "Knowledge/Cause-and-Effect/"),
    ("Reasoning/Reasoning_Hypothetical_Analysis.jsonl", "Reasoning/Hypothetical-Analysis/"),
    ("understanding/understanding_comparison-and_selection.jsonl", "Understanding/Comparison-and-Selection/"),
])  # fmt: skip
def test_reads_every_spelling_of_the_layout(tmp_path: Path, relative: str, start: str) -> None:
    (task,) = compound_qa.stream_tasks(write(tmp_path, row(), relative=relative))
    assert task.id == f"{start}adversarial_qa_1"


def test_reads_files_in_the_order_of_the_paper(tmp_path: Path) -> None:
    for capability in ("Knowleage", "Reasoning", "Understanding"):
        for kind in ("Factual_Statement", "Evaluation_and_Suggestion", "Cause-and-Effect"):
            name = capability.replace("Knowleage", "Knowledge")
            write(tmp_path, row(), relative=f"data/{capability}/{name}_{kind}.jsonl")
    loaded = compound_qa.load_tasks(tmp_path)
    assert loaded.problems == ()
    assert list(loaded.data) == [
        f"{capability}/{kind}/adversarial_qa_1"
        for capability in ("Understanding", "Reasoning", "Knowledge")
        for kind in ("Factual-Statement", "Cause-and-Effect", "Evaluation-and-Suggestion")
    ]
    selected = compound_qa.stream_tasks(tmp_path, ["Reasoning"], ["Cause-and-Effect", "Factual-Statement"])
    assert {(task.capability, task.type) for task in selected} == {
        ("Reasoning", "Factual-Statement"),
        ("Reasoning", "Cause-and-Effect"),
    }


def test_reports_files_that_are_left_out(tmp_path: Path) -> None:
    for relative in (
        "data/Knowleage/Knowledge_Cause_and_Effect.jsonl",
        "data/Knowledge/Knowledge_Cause_and_Effect.jsonl",
        "data/Knowledge/Knowledge_Riddles.jsonl",
        "data/Knowledge/Reasoning_Cause_and_Effect.jsonl",
        "data/Knowledge/notes.jsonl",
        "data/Elsewhere/Elsewhere_Cause_and_Effect.jsonl",
    ):
        write(tmp_path, row(), relative=relative)
    loaded = compound_qa.load_tasks(tmp_path)
    assert list(loaded.data) == ["Knowledge/Cause-and-Effect/adversarial_qa_1"]
    reasons = {problem.file: problem.what for problem in loaded.problems}
    assert "already contains Knowledge Cause-and-Effect" in reasons.pop(
        "data/Knowleage/Knowledge_Cause_and_Effect.jsonl"
    )
    assert {Path(name).name for name in reasons} == {
        "Knowledge_Riddles.jsonl",
        "Reasoning_Cause_and_Effect.jsonl",
        "notes.jsonl",
    }
    assert all("the name is not Knowledge_<Type>.jsonl" in reason for reason in reasons.values())


@pytest.mark.parametrize(("changes", "message"), [
    ({"ID": ...}, "'ID' is missing"),
    ({"context": 0}, "'context' is int, not text"),
    ({"com_question": " "}, "'com_question' is empty"),
    ({}, "is already in line 1; the first is kept"),
])  # fmt: skip
def test_reports_unreadable_row_and_continues(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    loaded = compound_qa.load_tasks(write(tmp_path, row(), row(**changes), row(ID="last")))
    assert [task.source_id for task in loaded.data.values()] == ["adversarial_qa_1", "last"]
    assert [(problem.file, problem.line) for problem in loaded.problems] == [(FACTS, 2)]
    assert message in loaded.problems[0].what


def test_names_missing_files(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"expected data/<Capability>/<Capability>_<Type>\.jsonl in .* git clone"):
        compound_qa.stream_tasks(tmp_path)
    write(tmp_path, row())
    with pytest.raises(RequestError, match=r"jsonl for Knowledge, Cause-and-Effect in"):
        compound_qa.stream_tasks(tmp_path, ["Knowledge"], ["Cause-and-Effect"])
    with pytest.raises(RequestError, match="Compound-QA has no 'Riddles'; there are: Factual-Statement"):
        compound_qa.stream_tasks(tmp_path, types=["Riddles"])
