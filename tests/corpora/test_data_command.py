"""`turnmark data`: what it prints, what it refuses, and the statistics against counts made another way."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.corpora.packing import TASKS, zipped
from turnmark.corpora.checking import check
from turnmark.corpora.statistics import Checked, Line, Sheet

CLONE = DEMO / "mt-rag-benchmark"


def figures(part: Checked, title: str) -> dict[str, tuple[Any, Any]]:
    """What -> here and paper, of one sheet."""
    sheet = next(sheet for sheet in part.sheets if sheet.title == title)
    return {line.what: (line.here, line.paper) for line in sheet.lines}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the demo split, to be spoilt."""
    return Path(shutil.copytree(CLONE, tmp_path / "mt-rag-benchmark"))


def test_the_figures_are_those_of_the_files():
    (part,) = check(CLONE)
    rows = [json.loads(line) for line in (CLONE / TASKS).read_text(encoding="utf-8").splitlines()]
    turns_of = Counter(row["conversation_id"] for row in rows)
    table = figures(part, "MTRAG: conversations and tasks")
    assert table["conversations"] == (len(turns_of), 110)
    assert table["tasks"] == (len(rows), 842)
    assert table["turns a conversation"] == (sum(turns_of.values()) / len(turns_of), 7.7)
    unique = {(row["conversation_id"], item["document_id"]) for row in rows for item in row["contexts"]}
    assert table["unique passages a conversation"][0] == len(unique) / len(turns_of)
    assert table["words a question"][0] == sum(len(row["input"][-1]["text"].split()) for row in rows) / len(rows)
    good = [row for row in rows if row["Answerability"][0] in ("ANSWERABLE", "PARTIAL")]
    words = sum(len(row["targets"][0]["text"].split()) for row in good) / len(good)
    assert table["words a response *"] == (pytest.approx(words), 97.2)
    assert table["edited responses a conversation"] == (None, 7.3)
    labels = figures(part, "MTRAG: dimensions")
    assert labels["answerability ANSWERABLE"] == (45, None)
    assert sum(count for label, (count, _) in labels.items() if label.startswith("question type")) == sum(
        len(row["Question Type"]) for row in rows
    )
    corpus = figures(part, "Corpora, passage level")
    lines = (CLONE / "corpora/passage_level/almanac.jsonl").read_text(encoding="utf-8").splitlines()
    assert corpus["almanac: passages"] == (len(lines), None)
    assert part.demo
    assert (part.missing, part.problems) == ((), ())


def test_the_demo_splits_of_all_four(turnmark):
    ran = turnmark("data", "check", DEMO)
    assert (ran.code, ran.err) == (0, "")
    for word in ("mtrag:", "inscoqa:", "compound-qa:", "kiwi:", "demo split", "1,500", "13", "234"):
        assert word in ran.out
    ran = turnmark("data", "check", DEMO, "--json")
    parts = json.loads(ran.out)["benchmarks"]
    assert list(parts) == ["mtrag", "inscoqa", "compound-qa", "kiwi"]
    assert not any(part["problems"] or part["missing"] or part["complete"] for part in parts.values())
    lines = {line["what"]: line for sheet in parts["kiwi"]["sheets"] for line in sheet["lines"]}
    assert (lines["turns"]["here"], lines["turns"]["paper"]) == (23, 1260)


def test_every_bad_row_is_named_with_file_and_line(clone, turnmark):
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


def test_what_is_missing_of_a_complete_clone(clone):
    shutil.rmtree(clone / "mtrag-synthetic")
    (clone / "mtrag-human/retrieval_tasks/almanac/almanac_rewrite.jsonl").unlink()
    (part,) = check(clone)
    assert not part.demo
    for line in (
        "MTRAG: 67 of 842 tasks", "MTRAG: no tasks of govt", "MTRAG-S: no tasks", "corpora: no passages of clapnq",
        "MTRAG: no recorded queries (rewrite) of almanac", "MTRAG-UN: no relevance labels of telco",
    ):  # fmt: skip
        assert line in part.missing
    assert part.problems == ()


def test_zipped_passages_and_the_other_spelling_of_the_keys(clone):
    expected = check(CLONE)[0]
    path = clone / "corpora/passage_level/almanac.jsonl"
    zipped(path.with_name("almanac.jsonl.zip"), {"almanac.jsonl": path.read_bytes()})
    path.unlink()
    rows = [json.loads(line) for line in (clone / TASKS).read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["question_type"], row["multi_turn"] = row.pop("Question Type"), row.pop("Multi-Turn")
        row["answerability"] = row.pop("Answerability")[0].lower()
    (clone / TASKS).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert check(clone)[0].sheets == expected.sheets


def test_a_folder_that_holds_nothing(tmp_path, turnmark):
    ran = turnmark("data", "check", tmp_path)
    assert ran.code == 2
    for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"):
        assert f"turnmark: {name}: " in ran.err
    assert turnmark("data", "check", tmp_path / "none").err.endswith("is no folder\n")
    (tmp_path / "x.zip").touch()
    assert "is a file; unpack it" in turnmark("data", "check", tmp_path / "x.zip").err
    assert "is a file; unpack it" in turnmark("eval", "mtrag", "--data", tmp_path / "x.zip").err


def test_list_and_mistakes_of_a_request(turnmark):
    ran = turnmark("data", "list")
    assert ran.code == 0
    for word in ("https://github.com/IBM/mt-rag-benchmark", "Apache-2.0", "fangyuan/kiwi", "no public copy exists"):
        assert word in ran.out
    listed = json.loads(turnmark("data", "list", "--json").out)
    assert list(listed) == ["mtrag", "compound-qa", "kiwi", "inscoqa"]
    assert listed["mtrag"]["fetched"] is None
    for words in (["squad"], ["inscoqa"], ["mtrag", "--revision", "../x"]):
        assert turnmark("data", "fetch", *words).code == 2


@pytest.mark.data
def test_the_real_clone(real_data):
    parts = {part.benchmark: part for part in check(real_data)}
    part = parts["mtrag"]
    assert part.problems == ()
    table = figures(part, "MTRAG: conversations and tasks")
    assert table["conversations"] == (56, 110)
    shown = ("unique passages a conversation", "words a response *")
    assert [round(table[name][0], 1) for name in shown] == [18.0, 101.1]
    dimensions = figures(part, "MTRAG: dimensions")
    assert dimensions["conversations of clapnq"] == (29, 29)
    assert dimensions["conversations of fiqa"] == (27, 27)
    queries = figures(part, "MTRAG: queries and relevance labels")
    assert queries["clapnq: queries with labels"] == (208, 208)
    assert queries["fiqa: labels of passages that are not here"] == (0, None)
    assert "corpora: 12,647 of 183,408 passages of clapnq" in part.missing
    questions = figures(parts["compound-qa"], "Compound-QA: questions")
    assert questions["questions"] == (5000, 1500)
    assert len(parts["compound-qa"].missing) == 10


def sample(name: str, domain: str, texts: list[str], steps: list[str], rounds: int) -> dict[str, Any]:
    return {
        "id": name, "domain": domain, "history": [["And?", "Yes."]] * (rounds - 1), "question": "How?",
        "documents": [{"id": str(n), "title": "", "text": text} for n, text in enumerate(texts)],
        "answer": "So.", "procedure": steps,
    }  # fmt: skip


def lines_of(sheet: Sheet) -> dict[str, Line]:
    return {line.what: line for line in sheet.lines}


def spread(sheet: Sheet, label: str) -> list[tuple[float | None, float | None]]:
    lines = lines_of(sheet)
    return [(lines[f"{label}, {name}"].here, lines[f"{label}, {name}"].paper) for name in ("min", "max", "mean")]


def test_inscoqas_tables_1_and_2_are_whole(tmp_path: Path) -> None:
    rows = [
        sample("a", "Gourmet", ["one two three", "one"], ["Light it.", "Bake it now."], 1),
        sample("b", "Travel", ["one two"], ["Go."], 3),
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    [checked] = check(tmp_path)
    table_1, table_2 = checked.sheets
    assert spread(table_1, "documents a sample") == [(1, 1), (2, 8), (1.5, 4.10)]
    assert spread(table_1, "words a document") == [(1, 10), (3, 770), (2, 141)]
    assert spread(table_1, "words a procedure") == [(1, 10), (5, 404), (3, 83)]
    assert spread(table_1, "steps a procedure") == [(1, 1), (2, 23), (1.5, 6.6)]
    averages = {label: (line.here, line.paper) for label, line in lines_of(table_2).items()}
    assert averages["Gourmet: documents a sample"] == (2, 4.36)
    assert averages["Gourmet: words of a sample's documents"] == (4, 630)
    assert averages["Travel: rounds"] == (3, 3.01)
    assert averages["all domains: steps a procedure"] == (1.5, 6.50)
    assert len(averages) == 3 * 4


def test_kiwis_table_2_is_by_model(tmp_path: Path) -> None:
    def turn(**changes: Any) -> dict[str, Any]:
        return {
            "instruction": "Cut it.",
            "answer_1": "It.",
            "rating": "good",
            "instruction_type": "stylistic",
        } | changes

    rows = [
        {"original_question": f"Q{n}?", "model_name": model, "initial_answer": "It is.", "interaction": turns}
        for n, (model, turns) in enumerate([
            ("gpt-4", [turn(), turn(answer_2="Edited.", instruction_type="information-seeking")]),
            ("mine", [turn()]),
        ])
    ]  # fmt: skip
    (tmp_path / "interaction_data_new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    [checked] = check(tmp_path)
    by_label = {label: (line.here, line.paper) for label, line in lines_of(checked.sheets[0]).items()}
    assert [by_label[f"GPT-4: {label}"] for label in (
        "turns", "edited turns", "turns a session", "information-seeking, % of turns",
    )] == [(2, 370), (1, 55), (2, 4.7), (50, 59)]  # fmt: skip
    assert by_label["LLaMA-2-70b-chat: turns"] == (0, 488)
    assert by_label["mine: turns"] == (1, None)
    assert by_label["information-seeking, % of turns"] == (100 / 3, 54)
