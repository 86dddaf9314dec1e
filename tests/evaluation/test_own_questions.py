"""`turnmark check --questions` as a user runs it over the demo documents, and the reading of question files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pytest
import yaml

from turnmark.core.errors import RequestError
from turnmark.evaluation.check.own_questions.facts import fact_problem, find_facts, split_facts
from turnmark.evaluation.check.own_questions.question_file import COLUMNS, is_document, read_questions

ROWS = [
    {"question": "What does the ferry cost for a car?", "document": "ferry-cars-and-freight.md", "conversation": "f"},
    {"question": "And for a motorcycle?", "facts": r"/\d/", "conversation": "f"},
    {"question": "Who won the 1998 World Cup?", "unanswerable": "yes"},
    {"question": "How do I make sourdough?", "facts": "2 loaves; rye sauerkraut|850 g"},
    {"question": "How do I sharpen a chisel?", "facts": "a lathe with a diamond wheel"},
]


@pytest.fixture
def here(in_demo_home: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and the home with the index `demo`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_table(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("fact", "reply", "stated"),
    [
        ("1200", "The fee is **1,200 €** [1].", True),
        ("1200 fee", "Die Gebühr beträgt 1.200 €. The fee is due.", False),
        ("1200", "Die Gebühr beträgt 1.200 €.", True),
        ("30 days", "You have thirty days.", True),
        ("30 days", "Wait 30 minutes. It takes days.", False),
        ("Ikea 12.50", "| shop | sum |\n|---|---|\n| Ikea | 12.50 |", True),
        ("refund|money back", "You get your money back.", True),
        ("refund", "You get your money back.", False),
        ("3年", "ライセンスは３年です。", True),
        ("/fee.*\\d+/", "The fee is 12.", True),
        ("docker compose up", "Run `docker compose up -d` [2].", True),
    ],
)
def test_facts_are_found_by_words_and_values(fact, reply, stated):
    assert find_facts([fact], reply) == [stated]


def test_facts_of_a_cell_are_split_but_patterns_are_not():
    assert split_facts("a; b\nc") == ["a", "b", "c"]
    assert split_facts("/a;b/") == ["/a;b/"]
    assert "regular expression" in fact_problem("/(/")
    assert "no word" in fact_problem("a|")


def test_every_form_of_a_file_gives_the_same_questions(tmp_path):
    rows = [{name: row.get(name, "") for name in ("question", "facts", "unanswerable", "conversation")} for row in ROWS]
    table = read_questions(write_table(tmp_path / "q.csv", rows))
    semicolons = read_questions(write_table(tmp_path / "s.csv", rows, ";"))
    sheet = openpyxl.Workbook()
    sheet.active.append(list(rows[0]))
    for row in rows:
        sheet.active.append(list(row.values()))
    sheet.save(tmp_path / "q.xlsx")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "q.yaml").write_text(yaml.safe_dump([{"facts": ["2 loaves"], **row} for row in rows]))
    assert table[3].facts == ("2 loaves", "rye sauerkraut|850 g")
    assert table[2].unanswerable
    for other in (semicolons, *(read_questions(tmp_path / f"q.{kind}") for kind in ("xlsx", "jsonl", "yaml"))):
        assert [one.model_dump(exclude={"place"}) for one in other] == [
            one.model_dump(exclude={"place"}) for one in table
        ]


def test_conversations_are_asked_in_their_order(tmp_path):
    rows = [
        {"question": "b2", "conversation": "b", "order": "2", "facts": "x"},
        {"question": "a", "conversation": "", "order": "", "facts": "x"},
        {"question": "b1", "conversation": "b", "order": "1", "facts": "x"},
    ]
    assert [one.question for one in read_questions(write_table(tmp_path / "q.csv", rows))] == ["b1", "b2", "a"]


def test_all_mistakes_of_a_file_are_reported_with_row_and_column(tmp_path):
    rows = [
        {"question": "What?", "not": "/(/", "unanswerable": "maybe", "fact": "x"},
        {"question": "", "not": "", "unanswerable": "yes", "fact": ""},
    ]
    with pytest.raises(RequestError) as raised:
        read_questions(write_table(tmp_path / "q.csv", rows))
    problems = "\n".join(raised.value.problems)
    for expected in ("'fact' (did you mean 'facts'?)", "row 2, column not", "row 2, column unanswerable", "row 3"):
        assert expected in problems


def test_a_document_is_named_by_its_path_its_end_or_its_name():
    assert is_document("handbook/ferry.md", "ferry.md")
    assert is_document("handbook/ferry.md", "ferry")
    assert not is_document("handbook/car-ferry.md", "ferry.md")


def test_check_tells_which_questions_are_right(here, turnmark):
    file = write_table(here / "mine.csv", ROWS)
    done = turnmark("check", "demo", "--questions", file, "--json", "--junit", here / "junit.xml")
    result = json.loads(done.out)
    right = {one["question"]: one["right"] for one in result["outcomes"]}
    assert right == {
        "What does the ferry cost for a car?": True,
        "And for a motorcycle?": True,
        "Who won the 1998 World Cup?": True,
        "How do I make sourdough?": True,
        "How do I sharpen a chisel?": False,
    }
    assert result["figures"]["facts"]["count"] == 2
    assert result["figures"]["facts"]["n"] == 3
    suite = ElementTree.parse(here / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "0")
    assert "does not state: a lathe" in suite.find("testcase/failure").get("message")


def test_a_figure_below_its_threshold_fails_the_command_and_names_the_figure(here, turnmark):
    file = write_table(here / "mine.csv", ROWS[2:])
    done = turnmark("check", "demo", "--questions", file, "--fail-under", "facts=.8")
    assert done.code == 1
    assert "facts is 0.50 (1 of 2), below 0.8" in done.err
    assert "row 4: How do I sharpen a chisel?" in done.out
    assert "mtrag" not in done.out.lower()
    assert turnmark("check", "demo", "--questions", file, "--fail-under", "facts=50%").code == 0


def test_replies_of_another_system_are_compared_with_the_last_run(here, turnmark):
    file = write_table(here / "mine.csv", ROWS[2:4])
    turnmark("check", "demo", "--questions", file)
    (here / "replies.jsonl").write_text(json.dumps({"question": ROWS[2]["question"], "answer": "France."}) + "\n")
    done = turnmark("check", "demo", "--questions", file, "--answers", here / "replies.jsonl", "--json")
    result = json.loads(done.out)
    assert [one["right"] for one in result["outcomes"]] == [False, False]
    assert result["outcomes"][1]["why"] == ["has no reply"]
    assert result["earlier"]["worse"] == [ROWS[2]["question"], ROWS[3]["question"]]


def test_a_question_about_a_document_that_is_not_there_is_refused(here, turnmark):
    file = write_table(here / "mine.csv", [{"question": "x", "document": "ferry-cars-and-frieght.md"}])
    done = turnmark("check", "demo", "--questions", file)
    assert done.code == 2
    assert "handbook/ferry-cars-and-freight.md" in done.err


def test_a_drafted_file_can_be_asked_and_is_not_overwritten(here, turnmark):
    turnmark("check", "demo", "--draft-questions", "6")
    questions = read_questions(here / "demo-questions.csv")
    assert len(questions) == 6
    assert all(one.document and one.answer for one in questions)
    assert (here / "demo-questions.csv").read_text().startswith(",".join(COLUMNS))
    done = turnmark("check", "demo", "--draft-questions", "6")
    assert done.code == 2
    assert "may have your corrections" in done.err
