"""The labeled questions about table cells, and the judging of replies to them."""

from __future__ import annotations

import pytest

from tests.conversations.cells import CellQuestion, judge, read_cells, sheet_as_markdown

QUESTION = CellQuestion(say="Which port has imaps?", facts=(r"\b993\b",), row="imaps")
TABLE = "Net › Ports  \n| service | port |\n|---|---|\n| imap | 143 |\n{}\n| pop3s | 995 |\n[1]"


def test_halves_have_questions_over_different_documents() -> None:
    for half in ("tuning", "test"):
        documents = read_cells(half)
        assert sum(len(document.question) for document in documents) >= 30
        assert len({document.name for document in documents}) >= 4
    names = [document.name for document in read_cells()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        (TABLE.format("| **imaps** | **993** |"), (True, True)),
        (TABLE.format("| imaps | 993 |"), (True, False)),
        (TABLE.format("| imaps | 993 |").replace("| imap | 143 |", "| **imap** | **143** |"), (True, False)),
        (TABLE.format("| **imaps** | **585** |"), (False, False)),
        ("**Port 993 is for imaps.** [1]", (True, False)),
    ],
)
def test_judges_the_cell_and_the_first_marked_row(reply, right) -> None:
    assert judge(QUESTION, reply) == right


def test_sheet_becomes_a_heading_and_a_table(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3\n", encoding="utf-8")
    (tmp_path / "b.json").write_text('{"7": [{"x": "1"}, {"x": "3", "y": "4"}]}', encoding="utf-8")
    assert sheet_as_markdown(tmp_path / "a.csv") == "# a\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |\n"
    assert sheet_as_markdown(tmp_path / "b.json") == "# b\n\n| x | y |\n| --- | --- |\n| 1 |  |\n| 3 | 4 |\n"
