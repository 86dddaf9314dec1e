"""`turnmark data`: its output, its errors, and its statistics compared with independent counts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.corpora.reading import TASKS
from turnmark.corpora.benchmarks.checking import DataCheck, check_folders

CLONE = DEMO / "mt-rag-benchmark"


def figures(part: DataCheck) -> dict[str, tuple[Any, Any]]:
    """Return the figures by name: the one here and the paper's."""
    return {figure.what: (figure.here, figure.paper) for figure in part.figures}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Copy the demo split, so that a test can damage it."""
    return Path(shutil.copytree(CLONE, tmp_path / "mt-rag-benchmark"))


def test_figures_match_the_files():
    (part,) = check_folders(CLONE)
    rows = [json.loads(line) for line in (CLONE / TASKS).read_text(encoding="utf-8").splitlines()]
    turns_of = Counter(row["conversation_id"] for row in rows)
    table = figures(part)
    assert table["MTRAG: conversations"] == (len(turns_of), 110)
    assert table["MTRAG: tasks"] == (len(rows), 842)
    assert table["MTRAG: turns a conversation"] == (sum(turns_of.values()) / len(turns_of), 7.7)
    unique = {(row["conversation_id"], item["document_id"]) for row in rows for item in row["contexts"]}
    assert table["MTRAG: unique passages a conversation"][0] == len(unique) / len(turns_of)
    assert table["MTRAG: words a question"][0] == sum(len(row["input"][-1]["text"].split()) for row in rows) / len(rows)
    good = [row for row in rows if row["Answerability"][0] in ("ANSWERABLE", "PARTIAL")]
    words = sum(len(row["targets"][0]["text"].split()) for row in good) / len(good)
    assert table["MTRAG: words a response"] == (pytest.approx(words), 97.2)
    lines = (CLONE / "corpora/passage_level/almanac.jsonl").read_text(encoding="utf-8").splitlines()
    assert table["almanac: passages"] == (len(lines), None)
    assert part.demo
    assert (part.missing, part.problems) == ((), ())


def test_checks_demo_splits_of_all_benchmarks(turnmark):
    ran = turnmark("data", "check", DEMO)
    assert (ran.code, ran.err) == (0, "")
    for word in ("mtrag:", "inscoqa:", "compound-qa:", "kiwi:", "demo split", "1,500", "13", "234"):
        assert word in ran.out
    ran = turnmark("data", "check", DEMO, "--json")
    parts = json.loads(ran.out)["benchmarks"]
    assert list(parts) == ["mtrag", "inscoqa", "compound-qa", "kiwi"]
    assert not any(part["problems"] or part["missing"] or part["complete"] for part in parts.values())
    assert {"what": "turns", "here": 23, "paper": 1260} in parts["kiwi"]["figures"]


def test_check_lists_bad_rows_with_file_and_line(clone, turnmark):
    tasks = (clone / TASKS).read_text(encoding="utf-8").splitlines()
    tasks[1] = "{"
    tasks[4] = json.dumps(json.loads(tasks[4]) | {"turn": "zero"})
    tasks.append(tasks[0])
    (clone / TASKS).write_text("\n".join(tasks), encoding="utf-8")
    for name, line in (
        ("mtrag-human/retrieval_tasks/almanac/qrels/dev.tsv", "one\ttwo"),
        ("mtrag-human/retrieval_tasks/almanac/almanac_rewrite.jsonl", '{"_id": "x"}'),
        ("corpora/passage_level/handbook.jsonl", '{"_id": "x", "text": ["\x1b[31m"]}'),
        ("mtragun-human/retrieval_tasks/qrels/handbook.tsv", "a\tb\tmany"),
    ):
        with open(clone / name, "a", encoding="utf-8") as file:
            file.write(line)
    ran = turnmark("data", "check", clone)
    assert ran.code == 1
    assert "7 things that cannot be read" in ran.err
    for place in (
        f"{TASKS}:2: not JSON", f"{TASKS}:5: 'turn' is 'zero'", f"{TASKS}:{len(tasks)}: the id",
        "almanac/qrels/dev.tsv:", "almanac_rewrite.jsonl:", "corpora/passage_level/handbook.jsonl:",
        "qrels/handbook.tsv:",
    ):  # fmt: skip
        assert place in ran.out
    assert "\x1b" not in ran.out
    as_json = turnmark("data", "check", clone, "--json")
    assert as_json.code == 1
    problems = json.loads(as_json.out)["benchmarks"]["mtrag"]["problems"]
    assert len(problems) == 7
    assert {problem["line"] for problem in problems if problem["file"] == TASKS} == {2, 5, len(tasks)}


def test_lists_what_a_clone_lacks(clone):
    shutil.rmtree(clone / "mtrag-synthetic")
    (clone / "mtrag-human/retrieval_tasks/almanac/almanac_rewrite.jsonl").unlink()
    (part,) = check_folders(clone)
    assert not part.demo
    for line in (
        "MTRAG: 67 of 842 tasks", "MTRAG: no tasks of govt", "MTRAG-S: no tasks", "corpora: no passages of clapnq",
        "MTRAG: no recorded queries (rewrite) of almanac", "MTRAG-UN: no relevance labels of telco",
    ):  # fmt: skip
        assert line in part.missing
    assert part.problems == ()


def test_own_questions_lack_nothing_of_the_benchmark(clone):
    shutil.rmtree(clone / "mtrag-human")
    shutil.rmtree(clone / "mtragun-human")
    (part,) = check_folders(clone)
    assert figures(part)["MTRAG-S: tasks"][0] > 0
    assert part.missing == ()


def test_refuses_folder_without_data(tmp_path, turnmark):
    ran = turnmark("data", "check", tmp_path)
    assert ran.code == 2
    for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"):
        assert f"turnmark: {name}: " in ran.err
    assert turnmark("data", "check", tmp_path / "none").err.endswith("is no folder\n")
    (tmp_path / "x.zip").touch()
    assert "is a file; unpack it" in turnmark("data", "check", tmp_path / "x.zip").err
    assert "is a file; unpack it" in turnmark("eval", "mtrag", "--data", tmp_path / "x.zip").err


def test_lists_data_and_refuses_unknown_names(turnmark):
    ran = turnmark("data", "list")
    assert ran.code == 0
    for word in ("https://github.com/IBM/mt-rag-benchmark", "Apache-2.0", "fangyuan/kiwi", "no public copy exists"):
        assert word in ran.out
    listed = json.loads(turnmark("data", "list", "--json").out)
    assert list(listed) == ["mtrag", "compound-qa", "kiwi", "inscoqa"]
    assert listed["mtrag"]["fetched"] is None
    for words in (["squad"], ["inscoqa"], ["mtrag", "--revision", "../x"]):
        assert turnmark("data", "fetch", *words).code == 2


def sample(name: str, domain: str, texts: list[str], steps: list[str], rounds: int) -> dict[str, Any]:
    return {
        "id": name, "domain": domain, "history": [["And?", "Yes."]] * (rounds - 1), "question": "How?",
        "documents": [{"id": str(n), "title": "", "text": text} for n, text in enumerate(texts)],
        "answer": "So.", "procedure": steps,
    }  # fmt: skip


def test_counts_tables_1_and_2_of_inscoqa(tmp_path: Path) -> None:
    rows = [
        sample("a", "Gourmet", ["one two three", "one"], ["Light it.", "Bake it now."], 1),
        sample("b", "Travel", ["one two"], ["Go."], 3),
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (part,) = check_folders(tmp_path)
    table = figures(part)
    for label, expected in {
        "documents a sample": [(1, 1), (2, 8), (1.5, 4.10)],
        "words a document": [(1, 10), (3, 770), (2, 141)],
        "words a procedure": [(1, 10), (5, 404), (3, 83)],
        "steps a procedure": [(1, 1), (2, 23), (1.5, 6.6)],
    }.items():
        assert [table[f"test: {label}, {name}"] for name in ("min", "max", "mean")] == expected
    assert table["Gourmet: documents a sample"] == (2, 4.36)
    assert table["Gourmet: words of a sample's documents"] == (4, 630)
    assert table["Travel: rounds"] == (3, 3.01)
    assert table["all domains: steps a procedure"] == (1.5, 6.50)


def test_counts_table_2_of_kiwi_by_model(tmp_path: Path) -> None:
    def turn(**changes: Any) -> dict[str, Any]:
        fixed = {"instruction": "Cut it.", "answer_1": "It.", "rating": "good"}
        return {**fixed, "instruction_type": "stylistic", **changes}

    rows = [
        {"original_question": f"Q{n}?", "model_name": model, "initial_answer": "It is.", "interaction": turns}
        for n, (model, turns) in enumerate([
            ("gpt-4", [turn(), turn(answer_2="Edited.", instruction_type="information-seeking")]),
            ("mine", [turn()]),
        ])
    ]  # fmt: skip
    (tmp_path / "interaction_data_new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (part,) = check_folders(tmp_path)
    by_label = figures(part)
    assert [by_label[f"GPT-4: {label}"] for label in (
        "turns", "edited turns", "turns a session", "information-seeking, % of turns",
    )] == [(2, 370), (1, 55), (2, 4.7), (50, 59)]  # fmt: skip
    assert by_label["LLaMA-2-70b-chat: turns"] == (0, 488)
    assert by_label["mine: turns"] == (1, None)
    assert by_label["information-seeking, % of turns"] == (pytest.approx(100 / 3), 54)
