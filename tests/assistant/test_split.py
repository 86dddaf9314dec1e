"""Splitting of compound questions into complete parts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import conversation
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.steps.understand.understand_rules import MAX_PARTS, understand
from turnmark.corpora.benchmarks.compound_qa import CompoundQuestion, stream_tasks

PARTS = Path(__file__).parents[1] / "data" / "compound_parts.jsonl"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("When does it open? What does it cost?", ("When does it open?", "What does it cost?")),
        ("How many sail?Who steers them?", ("How many sail?", "Who steers them?")),
        ("How do the methods differ, and why?", ("How do the methods differ?", "Why?")),
        ("When was the lamp first lit, and by whom?", ("When was the lamp first lit?", "By whom?")),
        (
            "Is the ferry running, and if not, when is the next one?",
            ("Is the ferry running?", "If not, when is the next one?"),
        ),
        ("Explain what X is and how it works.", ("Explain what X is.", "Explain how it works.")),
        (
            "Please answer these questions:\n1. When does it leave?\n2. What does it cost\n3. Who steers it?",
            ("When does it leave?", "What does it cost?", "Who steers it?"),
        ),
        (
            "I have a cat. Can it eat fish? And how often? Thanks!",
            ("I have a cat. Can it eat fish?", "How often? Thanks!"),
        ),
        ("什么是光合作用？它为什么重要？", ("什么是光合作用？", "它为什么重要？")),
    ],
)
def test_splits_compound_questions(text, parts):
    assert split_questions(text) == (parts if len(parts) > 1 else (text,))


@pytest.mark.parametrize(
    "text",
    [
        "What is the difference between A and B?",
        "What is the difference between what is said and what is meant?",
        "How do you decide what is right and what is wrong?",
        "Which cheese is soft and can be grilled?",
        "When it comes to price, how do they compare?",
        "What does the cook do while the bread is baking and the oven is hot?",
        "What is a FICO score? Explain it briefly.",
        "Given the title 'How do bears stay warm?', what would you add?",
        "  What is\nX? ",
        "",
        " \n",
    ],
)
def test_single_question_is_returned_unchanged(text):
    assert split_questions(text) == (text,)


def test_number_of_parts_matches_independent_labels(real_data):
    """In the set `drawn`, each part also begins with its span, ignoring "and" and list numbers."""
    rows = [json.loads(line) for line in PARTS.read_text(encoding="utf-8").splitlines()]
    ids = {row["id"] for row in rows}
    tasks = (task for task in stream_tasks(real_data / "compound-qa") if isinstance(task, CompoundQuestion))
    questions = {task.id: task.question for task in tasks if task.id in ids}
    counted, placed = Counter[str](), 0
    for row in rows:
        question = questions[row["id"]]
        parts = split_questions(question)
        counted[row["set"]] += len(parts) == row["parts"]
        begins = [question[start:end].removeprefix("and ").lower() for start, end in row.get("spans", ())]
        placed += len(parts) == len(begins) and all(
            part[:12].lower() == begin[: len(part[:12])] for part, begin in zip(parts, begins, strict=True)
        )
    assert len(rows) == 280
    assert min(counted["drawn"] / 200, placed / 200, counted["hard"] / 80) >= 0.95


PIECES = st.sampled_from(
    'what is it| and |, and |how does it work|? |?|. |\n|1. |2. |first |, second |a) |why|explain what it is|"|“'
    "|if so, |who|between |the boat|？|please answer these questions:".split("|")
)


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_has_nonempty_parts_of_bounded_length(text):
    parts = split_questions(text)
    assert parts
    if text.strip():
        assert all(part.strip() for part in parts)
    if len(parts) > 1:
        assert all("\n" not in part for part in parts)
        # Each part may gain a mark at its end and repeat the beginning of a list of clauses ("Explain …").
        assert sum(map(len, parts)) <= len(text) + len(parts) + 80 * len(parts)
    else:
        assert parts == (text,) or len(parts[0]) <= len(text)


@pytest.mark.parametrize(
    "piece",
    ["and what ", "what is a and what is b ", ", and if ", "first a, second b", '"? ', "1. ", "i want to know ", "? "],
)
def test_repetitive_text_is_split_in_linear_time(piece):
    parts = split_questions(piece * 4000)  # would take minutes in quadratic time
    assert parts
    assert sum(map(len, parts)) <= 82 * len(parts) + len(piece) * 4000


HISTORY = conversation("How do I make Älplermagronen?", "Cook the pasta with potatoes.")


@pytest.mark.parametrize(
    ("message", "complete"),
    [
        ("How do I make Zopf and how long does it keep?", ["How do I make Zopf?", "How long does it keep (Zopf)?"]),
        ("What is photosynthesis? Why is it important? Based on that, what limits it?",
         ["What is photosynthesis?", "Why is it important (photosynthesis)?",
          "Based on that, what limits it (photosynthesis)?"]),
        ("1. What is a mortgage? 2. Can I repay it?", ["What is a mortgage?", "Can I repay it (mortgage)?"]),
    ],
)  # fmt: skip
def test_parts_of_a_message_are_complete_questions(message, complete):
    assert list(understand([], message).sub_questions) == complete


def test_part_that_depends_on_the_conversation_gets_its_topic():
    understood = understand(HISTORY, "How long does it keep, and can I freeze it?")
    assert understood.sub_questions == ("How long does it keep (Älplermagronen)?", "Can I freeze it (Älplermagronen)?")
    assert understood.asked == ("How long does it keep?", "Can I freeze it?")


def test_questions_beyond_the_maximum_stay_in_the_last_part():
    parts = understand([], " ".join(f"What is thing number {n}?" for n in range(12))).asked
    assert len(parts) == MAX_PARTS
    assert all(f"number {n}?" in " ".join(parts) for n in range(12))
