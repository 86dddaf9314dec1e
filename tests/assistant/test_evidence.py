"""What is no sure answer without a model: outlines, another topic, an unknown name, one of several versions."""

from __future__ import annotations

import pytest

from tests.assistant.notes import notes, over
from tests.opened import assistant_over
from turnmark.assistant.citations.marks import lines_of
from turnmark.assistant.steps.answer.outlines import only_names
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import build_index


@pytest.mark.parametrize(
    ("outline", "question", "expected"),
    [
        ("# Talk\n\n## Outline\n\n- Why bees dance\n- How bees find flowers\n- How honey is made\n",
         "How is honey made?", "boil off the water"),
        ("# Talk\n\n## 1. Agenda\n\nHow honey is made\n\nWhy bees dance\n", "How is honey made?", "boil off the water"),
        ("# Hives\n\nHives are boxes.\n\n## Related topics\n\n- [How honey is made](honey.md)\n- [Honey](h.md)\n",
         "How is honey made?", "boil off the water"),
        ("# Stöcke\n\nKästen.\n\n## Verwandte Themen\n\n- [How honey is made](honey.md)\n", "How is honey made?",
        "boil off"),
        ("# Ruches\n\nBoîtes.\n\n## Rubriques connexes\n\n- [How honey is made](honey.md)\n", "How is honey made?",
        "boil off"),
        ("# Hives\n\nHives are boxes.\n\nSee also: how honey is made\n", "How is honey made?", "boil off"),
    ],
)  # fmt: skip
def test_outlines_and_lists_of_links_are_no_answers(home, tmp_path, outline, question, expected):
    honey = "# Honey\n\nHoney is made in the hive: the bees boil off the water of the nectar with their wings.\n"
    reply = over(tmp_path, talk=outline, honey=honey).reply([], question)
    quoted = reply.answer.replace("**", "")
    assert expected in quoted
    assert "How honey is made" not in quoted
    assert "how honey is made" not in quoted


def test_an_outline_answers_a_question_for_it(home, tmp_path):
    talk = "# Talk\n\n## Agenda\n\n- Why bees dance\n- How bees find flowers\n"
    reply = over(tmp_path, talk=talk, honey="# Honey\n\nThere is an agenda of sorts.\n").reply(
        [], "What is on the agenda?"
    )
    assert "Why bees dance" in reply.answer


@pytest.mark.parametrize(
    ("section", "text", "expected"),
    [("Contents", "- Bees", True), ("2 Inhaltsverzeichnis", "- Bienen", True), ("目录", "- 蜜蜂", True),
     ("Contents", "The box contains a hive, a smoker and a veil.", False), ("Bees", "- Bees", False),
     ("Contents of the box", "- A hive", False)],
)  # fmt: skip
def test_lines_that_only_name_something(section, text, expected):
    passage = Passage(id="p", document="d", title="T", section=section, text=text, start=0, end=len(text))
    (line,) = lines_of(passage)
    assert only_names(line, passage) is expected


def test_a_follow_up_in_a_changed_sense_is_not_sure(home, tmp_path):
    chat = over(
        tmp_path,
        password="# Password\n\nTo change the password, open Account and choose Change password.\n",
        uninstall="# Uninstall\n\nTo remove the program again, run the uninstaller. Remove it from the list again.\n",
    ).chat()
    assert chat.ask("How do I change the password?").decision == "answer"
    reply = chat.ask("and how do I remove it again?")
    assert reply.decision != "answer" or "uninstaller" not in reply.answer, reply.trace


def test_a_follow_up_about_the_same_topic_stays_sure(home, tmp_path):
    chat = over(
        tmp_path,
        kettle="# Kettle\n\nThe kettle is red. The kettle weighs two kilos.\n",
        pan="# Pan\n\nA pan is flat.\n",
    ).chat()
    chat.ask("What color is the kettle?")
    assert chat.ask("How much does it weigh?").decision == "answer"


@pytest.mark.parametrize(("question", "decision"), [("Who repairs the red kettle?", "answer"),
    ("Does Contoso repair the red kettle?", "partial"), ("Does Berg repair the red kettle?", "answer"),
    ("WHO REPAIRS THE RED KETTLE", "answer")])  # fmt: skip
def test_a_name_that_is_in_no_passage_makes_an_answer_unsure(home, tmp_path, question, decision):
    text = "# Kettle\n\nAda Berg repairs the red kettle. The kettle is red.\n"
    assert over(tmp_path, kettle=text, pan="# Pan\n\nA pan is flat.\n").reply([], question).decision == decision


@pytest.fixture
def policies(home, tmp_path):
    pages = {f"policy{year}": f"# Leave policy {year}\n\nEvery employee gets {days} days of paid leave per year.\n"
             for year, days in zip(range(2012, 2024), range(20, 32), strict=True)}  # fmt: skip
    other = "# Bicycles\n\nEvery bicycle gets 2 locks and a bell from the shop.\n"
    build_index(notes(tmp_path / "p", other=other, **pages), "p", retriever="bm25")
    return assistant_over("p")


def test_versions_with_other_values_are_named(policies):
    reply = policies.reply([], "How many days of paid leave does an employee get?")
    first, others = reply.answer.split("\n\nOther documents have other values here:\n\n")
    assert "days of paid leave" in first
    assert others.count("\n- ") == 5  # five documents, and how many more there are
    assert others.splitlines()[0].startswith("- Leave policy 20")
    assert others.endswith("- … and 6 more")
    assert "Bicycles" not in others
    assert len(reply.citations) >= 6


def test_the_version_that_was_asked_for_stands_alone(policies):
    answer = policies.reply([], "How many days of paid leave did an employee get in the policy of 2019?").answer
    assert "27 days of paid leave" in answer.replace("**", "").split("\n\n")[0]
    assert "Other documents" not in answer


def test_copies_with_equal_values_are_not_named(home, tmp_path):
    text = "Every employee gets 25 days of paid leave per year.\n"
    reply = over(tmp_path, a=f"# Leave\n\n{text}", b=f"# Holidays\n\n{text}").reply(
        [], "How many days of leave per year?"
    )
    assert "Other documents" not in reply.answer
