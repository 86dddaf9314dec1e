"""The demo corpus: what ships is what its sources say, and its sources keep the promises of its README."""

import json
import re
from collections import Counter
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


def test_regenerating_gives_the_shipped_bytes(tmp_path: Path) -> None:
    make.build(make.DEMO_ROOT, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(SHIPPED)


def test_passages_are_the_documents_at_their_offsets() -> None:
    domains = Counter(document.split("/")[0] for document in FILES)
    assert domains["handbook"] >= 40
    assert domains["almanac"] >= 24
    shipped = {
        row["_id"]: row
        for domain in make.DOMAINS
        for row in rows(SHIPPED / "corpora" / "passage_level" / f"{domain}.jsonl")
    }
    for document in FILES:
        raw = (DOCUMENTS / document).read_text(encoding="utf-8")
        levels = [level for level, *_ in make.headings(raw)]
        assert (levels[0], levels.count(1)) == (1, 1)
        assert 150 <= len(raw.split()) <= 420
        end = 0
        for passage in make.passages(DOCUMENTS, document):
            assert raw[passage.start : passage.end] == passage.body == passage.body.strip()
            assert len(passage.body) <= make.LIMIT
            assert end == 0 or not raw[end : passage.start].strip()  # nothing but the title is left out
            end = passage.end
            row = shipped.pop(passage.id)
            assert (row["title"], row["text"]) == (passage.title, f"{passage.title}\n{passage.body}")
        assert not raw[end:].strip()
    assert not shipped


def test_every_split_has_enough_of_every_label() -> None:
    labels = {split: Counter(turn["answerability"] for turn in turns(split)) for split in make.SPLITS}
    least = {
        "mtrag-human": {"PARTIAL": 4, "UNANSWERABLE": 5, "UNDERSPECIFIED": 3, "CONVERSATIONAL": 4},
        "mtragun-human": {"UNDERSPECIFIED": 3, "UNANSWERABLE": 2},
    }
    for split, counts in least.items():
        assert all(labels[split][label] >= count for label, count in counts.items())
    assert {(c["split"], c["domain"]) for c in CONVERSATIONS} == {(s, d) for s in make.SPLITS for d in make.DOMAINS}
    every_turn = [turn for split in make.SPLITS for turn in turns(split)]
    assert sum(t["answerability"] == "ANSWERABLE" and len(t["relevant"]) >= 2 for t in every_turn) >= 12
    assert 0.25 <= sum(not t["standalone"] for t in every_turn) / len(every_turn) <= 0.45
    assert {kind for turn in every_turn for kind in turn["question_type"]} == make.QUESTION_TYPES


@pytest.mark.parametrize("split", make.SPLITS)
def test_tasks_have_the_official_shape(split: str) -> None:
    (file,) = (SHIPPED / split / "generation_tasks").iterdir()
    label = "answerability" if split == "mtragun-human" else "Answerability"
    tasks = rows(file)
    assert [row["targets"][0]["text"] for row in tasks] == [turn["agent"] for turn in turns(split)]
    for row in tasks:
        assert re.fullmatch(r"[0-9a-f]{32}<::>" + row["turn"], row["task_id"])
        assert [s["speaker"] for s in row["input"]] == ["user", "agent"] * (int(row["turn"]) - 1) + ["user"]
        assert bool(row["contexts"]) == (row[label][0] in make.WITH_PASSAGES)


@pytest.mark.parametrize("domain", make.DOMAINS)
def test_retrieval_tasks_and_judgements_agree(domain: str) -> None:
    folder = SHIPPED / "mtrag-human" / "retrieval_tasks" / domain
    header, *lines = (folder / "qrels" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "query-id\tcorpus-id\tscore"
    judged = list(dict.fromkeys(line.split("\t")[0] for line in lines))
    tasks = rows(SHIPPED / "mtrag-human" / "generation_tasks" / "reference.jsonl")
    in_domain = [task for task in tasks if task["Collection"] == f"mt-rag-{domain}-demo"]
    assert lines == [f"{task['task_id']}\t{c['document_id']}\t1" for task in in_domain for c in task["contexts"]]
    for kind in ("lastturn", "rewrite", "questions"):
        queries = rows(folder / f"{domain}_{kind}.jsonl")
        assert [query["_id"] for query in queries] == judged
        for query in queries:
            expected = int(query["_id"].rsplit("<::>")[1]) if kind == "questions" else 1
            assert [line[:8] for line in query["text"].split("\n")] == ["|user|: "] * expected
