"""The demo corpus: the shipped files match their sources and the promises of the README."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tools import make_demo as make

SHIPPED = make.DEMO_ROOT / "mt-rag-benchmark"
DOCUMENTS = make.DEMO_ROOT / "documents"
CONVERSATIONS: list[dict[str, Any]] = json.loads((make.DEMO_ROOT / "conversations.json").read_text(encoding="utf-8"))
FILES = sorted(f"{domain}/{file.name}" for domain in make.DOMAINS for file in (DOCUMENTS / domain).iterdir())


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tree(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def turns(split: str) -> list[dict[str, Any]]:
    return [turn for c in CONVERSATIONS if c["split"] == split for turn in c["turns"]]


def test_regenerating_the_demo_gives_the_shipped_files(tmp_path: Path) -> None:
    make.build(make.DEMO_ROOT, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(SHIPPED)


@pytest.mark.parametrize("split", make.SPLITS)
def test_tasks_have_the_official_fields(split: str) -> None:
    (file,) = (SHIPPED / split / "generation_tasks").iterdir()
    label = "answerability" if split == "mtragun-human" else "Answerability"
    tasks = rows(file)
    assert [row["targets"][0]["text"] for row in tasks] == [turn["agent"] for turn in turns(split)]
    for row in tasks:
        assert re.fullmatch(r"[0-9a-f]{32}<::>" + row["turn"], row["task_id"])
        assert [s["speaker"] for s in row["input"]] == ["user", "agent"] * (int(row["turn"]) - 1) + ["user"]
        assert bool(row["contexts"]) == (row[label][0] in make.WITH_PASSAGES)
