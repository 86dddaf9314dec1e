"""InsCoQA: every field, every kind of error in a file, lines that are too long, and arbitrary values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpora.reading import jsonl
from tests.corpora.reading import write as write_files
from turnmark.core.errors import RequestError
from turnmark.corpora import jsonl_rows
from turnmark.corpora.benchmarks import inscoqa
from turnmark.corpora.types import Message


def row(**changes: Any) -> dict[str, Any]:
    fields = {
        "id": "a-1",
        "domain": "Gourmet",
        "documents": [{"id": "d1", "title": "Loaf", "text": "Bake it."}, {"id": "d2", "text": "Cool it."}],
        "history": [["Hot?", "Yes."], ["How hot?", "220 °C."]],
        "question": "And then?",
        "answer": "Bake and cool it.",
        "procedure": ["Bake it.", "Cool it."],
        "annotator": 7,
    } | changes
    return {key: value for key, value in fields.items() if value is not ...}


def write(root: Path, *lines: Any, split: str = "test") -> Path:
    return write_files(root, {f"{split}.jsonl": jsonl(*lines)})


def test_reads_row_as_task(tmp_path: Path) -> None:
    loaded = inscoqa.load_tasks(write(tmp_path, row()))
    assert loaded.problems == ()
    assert loaded.path == tmp_path / "test.jsonl"
    task = loaded.data["a-1"]
    documents = (
        inscoqa.InstructionalDocument(id="d1", title="Loaf", text="Bake it."),
        inscoqa.InstructionalDocument(id="d2", title="", text="Cool it."),
    )
    said = (("user", "Hot?"), ("assistant", "Yes."), ("user", "How hot?"), ("assistant", "220 °C."))
    assert task == inscoqa.InscoqaTask(
        id="a-1", domain="Gourmet", documents=documents, question="And then?", answer="Bake and cool it.",
        history=tuple(Message(role=role, content=text) for role, text in said), procedure=("Bake it.", "Cool it."),
    )  # fmt: skip
    assert task.rounds == 3


@pytest.mark.parametrize(("changes", "message"), [
    ({"id": ...}, "'id' is missing"),
    ({"id": 5}, "'id' is int, not text"),
    ({"id": " "}, "'id' is empty"),
    ({"documents": []}, "'documents' "),
    ({"documents": ["text"]}, "'documents[0]' "),
    ({"documents": [{"id": "d", "text": " "}]}, "'documents[0][text]' is empty"),
    ({"documents": [{"title": 3}]}, "'documents[0][id]' is missing; 'documents[0][title]' is int, not text"),
    ({"documents": [{"id": "d", "text": "x"}, {"id": "d", "text": "y"}]}, "the id 'd' occurs twice"),
    ({"history": "hello"}, "'history' "),
    ({"history": [["q", "a"], ["q"]]}, "'history[1][1]' is missing"),
    ({"history": ["qa"]}, "'history[0]' "),
    ({"procedure": []}, "'procedure' "),
    ({"procedure": ["Bake it.", 2]}, "'procedure[1]' is int, not text"),
    ({"procedure": ["Bake it.", "\t"]}, "'procedure[1]' is empty"),
])  # fmt: skip
def test_reports_unreadable_row_and_continues(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    loaded = inscoqa.load_tasks(write(tmp_path, row(id="first"), row(**changes), row(id="last")))
    assert list(loaded.data) == ["first", "last"]
    assert [(problem.file, problem.line) for problem in loaded.problems] == [("test.jsonl", 2)]
    assert message in loaded.problems[0].what


def test_names_missing_files(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"the test split of InsCoQA: expected test\.jsonl in .* schema"):
        inscoqa.stream_tasks(tmp_path)
    with pytest.raises(RequestError, match=r"expected validation\.jsonl"):
        inscoqa.load_tasks(tmp_path, "validation")
    with pytest.raises(RequestError, match="split 'dev'; there are: train, validation, test"):
        inscoqa.load_tasks(tmp_path, "dev")  # type: ignore[arg-type]
    (tmp_path / "rows.jsonl").mkdir()
    with pytest.raises(RequestError, match=r"rows\.jsonl: cannot be read"):
        list(jsonl_rows.json_lines(tmp_path / "rows.jsonl", "rows.jsonl"))


def test_finds_splits_and_their_files(tmp_path: Path) -> None:
    root = write(write(tmp_path, row()), row(), split="train")
    assert inscoqa.splits(root) == ("train", "test")
    assert inscoqa.locate(root / "train.jsonl").root == root
    names = ("train.jsonl", "validation.jsonl", "test.jsonl.bak")
    assert [inscoqa.split_named(root / name) for name in names] == ["train", None, None]
    assert inscoqa.split_named(root) is inscoqa.split_named(None) is None
