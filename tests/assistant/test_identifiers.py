"""Identifiers, versions and misspelled words in questions, without a model."""

from __future__ import annotations

import pytest

from tests.assistant.notes import notes
from tests.opened import assistant_over
from turnmark.retrieval.index.build import build_index

CODES = {"E-4867": "The sensor is dirty; clean it.", "E-5741": "The sensor is broken; replace it.",
         "K 208": "The belt is loose.", "ERR1042": "The valve is stuck.", "E-4861": "The sensor is cold."}  # fmt: skip
VERSIONS = {"3.0.0 - 2024-06-18": "Added the valve option.", "2.9.1 - 2024-03-01": "Added the motor option.",
            "v1.4.2": "Fixed the belt driver.", "1.4.3": "Fixed the fan driver."}  # fmt: skip


def sections(title: str, texts: dict[str, str]) -> str:
    return f"# {title}\n\n" + "\n".join(f"## {heading}\n\n{text}\n" for heading, text in texts.items())


@pytest.fixture
def manual(home, tmp_path):
    page = (
        "# Graph view\n\nThe graph view shows how notes are linked.\n\n## Callouts\n\nA callout is a box for a tip.\n"
    )
    theme = "# Themes\n\nA theme changes the colors. Themes are installed in the settings.\n"
    folder = notes(tmp_path / "manual", errors=sections("Error codes", CODES), changes=sections("Changes", VERSIONS),
                   graph=page, theme=theme)  # fmt: skip
    build_index(folder, "manual", retriever="bm25")
    return assistant_over("manual")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does error e4867 mean?", "The sensor is dirty"), ("What does error E-4867 mean?", "The sensor is dirty"),
        ("what is E 4867", "The sensor is dirty"), ("What does E_4867 mean?", "The sensor is dirty"),
        ("What does k208 mean?", "The belt is loose"), ("and K-208?", "The belt is loose"),
        ("What does ERR-1042 mean?", "The valve is stuck"), ("what is err 1042?", "The valve is stuck"),
        ("changes in v3.0.0", "Added the valve option"), ("What changed in 3.0.0?", "Added the valve option"),
        ("What changed in 3.0?", "Added the valve option"), ("what changed in 1.4.2?", "Fixed the belt driver"),
        ("What changed in v1.4.3?", "Fixed the fan driver"), ("what is the grpah view", "The graph view shows"),
        ("what is a calout?", "A callout is a box"), ("How do I install a tehme?", "A theme changes the colors"),
    ],
)  # fmt: skip
def test_codes_and_words_are_found_in_another_spelling(manual, question, expected):
    reply = manual.reply([], question)
    assert reply.decision == "answer"
    quoted = reply.answer.replace("**", "")
    assert expected in quoted.split("\n\n")[0], quoted


@pytest.mark.parametrize("question", ["What does E-9999 mean?", "What does e-4868 mean?", "What does X-4867 mean?",
    "What changed in v9.9.9?", "What does error 7777 say about the sensor?"])  # fmt: skip
def test_another_identifier_is_never_a_sure_answer(manual, question):
    assert manual.reply([], question).decision != "answer"


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("what is a calout?", "what is a callout?"), ("What does error e4867 mean?", "What does error e-4867 mean?"),
        ("what is a callout?", "what is a callout?"), ("Who is Berk?", "Who is Berk?"),
        ("What does E-9999 mean?", "What does E-9999 mean?"), ("wat is een plugin voor kaarten",
        "wat is een plugin voor kaarten"),
    ],
)  # fmt: skip
def test_the_question_is_shown_as_it_was_understood(manual, question, shown):
    assert manual.reply([], question).rewrite == shown


def test_search_finds_codes_in_another_spelling(manual):
    for query, document in (("e4867", "errors.md"), ("v3.0.0", "changes.md"), ("ERR-1042", "errors.md")):
        (hit,) = manual.index.search(query, 1, retriever="bm25")
        assert hit.passage.document == document


def test_only_questions_are_respelled_and_only_to_words_of_the_documents(manual):
    chat = manual.chat()
    chat.ask("What is a callout?")
    assert chat.ask("as a checklist, please").rewrite == "as a checklist, please"
    assert manual.retriever.respell("How are sensros cleaned?") == "How are sensors cleaned?"  # they have "sensor"
