"""The benchmark over tables: the comparison of answers, and a run over a real index with a scripted model."""

from __future__ import annotations

import json

import pytest

from tests.conversations import wikitables
from tests.conversations.table_answers import answers_match, stated_answers
from tests.conversations.wikitables import main
from tests.servers import Say, ScriptedServer

ROWS = "Name,Country,Points\nAda,Chile,12\nBen,Chile,7\nCid,Peru,30\nDee,Peru,4\nEve,Cuba,19\nFay,Cuba,1\n"
QUESTIONS = (
    {"id": "a", "question": "who has the most points?", "answers": ["Cid"], "table": "1-1.csv"},
    {"id": "b", "question": "how many points has Chile?", "answers": ["19"], "table": "1-1.csv"},
)
UNDERSTOOD = Say("{}")


@pytest.mark.parametrize(
    ("expected", "stated", "right"),
    [
        (["Athens, Greece"], ["athens, greece"], True),
        (["1,147"], ["1147"], True),
        (["13"], ["13.0"], True),
        (["13"], ["14"], False),
        (["Kimi Räikkönen"], ["Kimi Raikkonen"], True),
        (['"Mull of Kintyre"'], ["Mull of Kintyre"], True),
        (["Ruben Carino (PHI)"], ["Ruben Carino"], True),
        (["2:14"], ["2:14."], True),
        (["30 September 1943"], ["1943-09-30"], True),
        (["30 September 1943"], ["September 30, 1943"], True),
        (["30 September 1943"], ["29 September 1943"], False),
        (["January"], ["February"], False),
        (["a", "b", "c"], ["c", "a", "b"], True),
        (["a", "b"], ["a", "b", "c"], False),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "A"], True),
        (["5 games"], ["5"], False),
        (["–"], ["-"], True),
        (["x"], [], False),
    ],
)
def test_compares_normalized_sets_of_values(expected, stated, right) -> None:
    assert answers_match(expected, stated) is right


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("Chile has most [1].\n\nAnswer: Chile", ("Chile",)),
        ("Answer: x\nNo, wait.\n**Answer:** Chile | Peru [1][2]", ("Chile", "Peru")),
        ("answer: 1,147 [3]", ("1,147",)),
        ("The answer is Chile.", ()),
    ],
)
def test_reads_the_last_line_with_an_answer(reply, values) -> None:
    assert stated_answers(reply) == values


@pytest.fixture
def data(tmp_path, monkeypatch):
    tables = tmp_path / "data" / "tables" / "tables"
    tables.mkdir(parents=True)
    (tables / "1-1.csv").write_text(ROWS, encoding="utf-8")
    lines = "".join(json.dumps(question) + "\n" for question in QUESTIONS)
    (tables.parent / "questions.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.setenv("TURNMARK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TURNMARK_CONVERSATIONS", str(tmp_path / "work"))
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    return tables


@pytest.mark.usefixtures("data")
def test_asks_each_question_once_and_counts_the_right_ones(tmp_path, capsys) -> None:
    figures = tmp_path / "figures.json"
    with ScriptedServer(UNDERSTOOD, Say("Cid [1].\n\nAnswer: Cid"), UNDERSTOOD, Say("Answer: 18 [1]")) as server:
        words = ["--generator", f"openai:tiny@{server.url}?retries=0", "--concurrency", "1", "--json", str(figures)]
        assert main([*words, "--limit", "1"]) == 0
        assert main([*words, "--show", "wrong"]) == 0
        assert len(server.bodies) == 4, "the finished question is not asked again"
        assert main(words) == 0
        assert len(server.bodies) == 4
    shown = capsys.readouterr().out
    assert "right 1/1" in shown
    assert "right 1/2   calls 2.00" in shown
    assert "wanted 19; stated 18" in shown
    content = json.loads(figures.read_text(encoding="utf-8"))
    assert (content["right"], content["questions"], content["replies"][1]["stated"]) == (1, 2, ["18"])
    assert "In the table 1-1.csv: who has the most points?" in json.dumps(server.bodies[1])


@pytest.mark.usefixtures("data")
def test_computes_unless_it_is_told_not_to() -> None:
    offered = []
    for words in ([], ["--no-sql"]):
        with ScriptedServer(UNDERSTOOD, Say("Answer: Cid [1]")) as server:
            spec = f"openai:tiny@{server.url}?retries=0"
            assert main(["--generator", spec, "--limit", "1", *words]) == 0
        offered.append({tool["function"]["name"] for tool in server.bodies[1]["tools"]})
    assert offered[0] - offered[1] == {"tables", "sql"}


def test_missing_data_is_an_invalid_request(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TURNMARK_DATA", str(tmp_path))
    assert main(["--generator", "extractive"]) == 2
    assert "set TURNMARK_DATA" in capsys.readouterr().err


@pytest.mark.data
def test_tables_of_the_data_belong_to_the_questions() -> None:
    folder = wikitables.table_folder()
    questions = wikitables.read_questions(folder)
    assert len(questions) == 120
    assert {question.table for question in questions} <= {path.name for path in (folder / "tables").iterdir()}
