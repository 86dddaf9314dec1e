"""What is no sure answer without a model: a name that no passage has."""

from __future__ import annotations

import pytest

from tests.assistant.notes import over


@pytest.mark.parametrize(("question", "decision"), [("Who repairs the red kettle?", "answer"),
    ("Does Contoso repair the red kettle?", "partial"), ("Does Berg repair the red kettle?", "answer"),
    ("WHO REPAIRS THE RED KETTLE", "answer")])  # fmt: skip
def test_a_name_that_is_in_no_passage_makes_an_answer_unsure(home, tmp_path, question, decision):
    text = "# Kettle\n\nAda Berg repairs the red kettle. The kettle is red.\n"
    assert over(tmp_path, kettle=text, pan="# Pan\n\nA pan is flat.\n").reply([], question).decision == decision
