"""Short requests change whatever the last reply was: an answer, a procedure, a question back, one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnmark.assistant.steps.edit_reply import edited
from turnmark.assistant.steps.edit_requests import edit_request, is_instruction
from turnmark.assistant.steps.outline import clipped, length

from tests.assistant.notes import conversation
from turnmark.assistant.steps.marks import cited
from turnmark.assistant.steps.revise import UNCHANGED, last_reply

LABELS = json.loads((Path(__file__).parent / "chat_instruction_labels.json").read_text(encoding="utf-8"))["messages"]
BEFORE = conversation("How is the bread made?", "It is baked. [1]")


FIRST = "The Marigold carries 48 passengers (with a ramp). [1]"
SECOND = "She crosses in 50 minutes at eleven knots. [1]"
THIRD = "Two engines of 250 kW drive her. [2]"
FOURTH = "Otters are often seen from the deck. [3]"
ANSWER = f"{FIRST} {SECOND}\n\n{THIRD} {FOURTH}"
STEPS = ("Peel the lemons, which must be organic. Avoid the pith. [1]", "Let them infuse for 20 days. [1]",
         "Boil the water with sugar. [2]", "Filter it. [2]")  # fmt: skip
PROCEDURE = "Limoncello takes lemons. [1]\n\n" + "\n".join(f"{n}. {step}" for n, step in enumerate(STEPS, 1))


def changed(reply: str, message: str) -> str:
    change = edited(reply, edit_request(message), "How is the Marigold run?")
    assert change.outline is not None, change.reason
    return change.outline.text


def refused(reply: str, message: str) -> tuple[str, bool]:
    change = edited(reply, edit_request(message))
    assert change.outline is None
    return change.reason, change.elsewhere


@pytest.mark.parametrize("row", LABELS, ids=lambda row: row["message"])
def test_the_labelled_messages_of_a_chat(row):
    assert is_instruction(BEFORE, row["message"]) is row["instruction"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("as a list please", f"- {FIRST}\n- {SECOND}\n- {THIRD}\n- {FOURTH}"),
        ("only the first two", f"{FIRST} {SECOND}"),
        ("just the third sentence", THIRD),
        ("without the last one", f"{FIRST} {SECOND}\n\n{THIRD}"),
        ("skip the first two sentences", f"{THIRD} {FOURTH}"),
        ("remove the part about otters", f"{FIRST} {SECOND}\n\n{THIRD}"),
        ("just the part about engines", THIRD),
        ("swap the order", f"{THIRD} {FOURTH}\n\n{FIRST} {SECOND}"),
        ("as one paragraph", f"{FIRST} {SECOND} {THIRD} {FOURTH}"),
        (
            "in one sentence please",
            "The Marigold carries 48 passengers (with a ramp) [1]; she crosses in 50 minutes at eleven knots [1]; "
            "two engines of 250 kW drive her [2]; otters are often seen from the deck [3].",
        ),
    ],
)
def test_an_answer(message, text):
    assert changed(ANSWER, message) == text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("only the first two", f"1. {STEPS[0]}\n2. {STEPS[1]}"),
        ("without the last step", PROCEDURE.rsplit("\n", 1)[0]),
        ("in reverse order", "Limoncello takes lemons. [1]\n\n" + "\n".join(
            f"{n}. {step}" for n, step in enumerate(reversed(STEPS), 1))),
        ("as a list", PROCEDURE.replace("Limoncello", "- Limoncello")),
        ("make it shorter", "1. Peel the lemons, which must be organic. [1]\n2. Let them infuse for 20 days. [1]\n"
         "3. Boil the water with sugar. [2]\n4. Filter it. [2]"),
        ("in one sentence", "Peel the lemons, which must be organic [1]; let them infuse for 20 days [1]; boil the "
         "water with sugar [2]; filter it [2]."),
    ],
)  # fmt: skip
def test_a_procedure(message, text):
    assert changed(PROCEDURE, message) == text


@pytest.mark.parametrize("message", ["make it shorter", "tl;dr", "more briefly please", "half as long please"])
@pytest.mark.parametrize("reply", [ANSWER, PROCEDURE, f"{FIRST} {FOURTH}", "It floats (on water), which is odd. [1]"])
def test_shorter_is_shorter_and_says_nothing_new(message, reply):
    text = changed(reply, message)
    assert 0 < length(text) < length(reply)
    assert set(cited(text)) <= set(cited(reply))


def test_the_first_and_direct_answer_is_kept():
    answer = "In this section we will focus on fees. The fee is 20 euros. Fees were raised in spring. Ask at the desk."
    outline = edited(answer, edit_request("shorter"), "How much is the fee?").outline
    assert "20 euros" in outline.text
    assert "this section" not in outline.text


@pytest.mark.parametrize(
    ("reply", "message", "reason", "elsewhere"),
    [
        (ANSWER, "only the first nine", "4 sentences", False),
        (PROCEDURE, "just step 7", "4 items", False),
        (ANSWER, "remove the part about volcanoes", "nothing about volcanoes", True),
        (ANSWER, "in simpler words", "language model", False),
        ("It floats.", "make it shorter", "one short sentence", False),
        ("It floats.", "swap the order", "nothing to put in another order", False),
    ],
)
def test_what_cannot_be_done_is_said(reply, message, reason, elsewhere):
    refusal, about_something_else = refused(reply, message)
    assert reason in refusal
    assert about_something_else is elsewhere


@given(
    st.sampled_from([row["message"] for row in LABELS if row["instruction"]]),
    st.lists(st.sampled_from([FIRST, SECOND, "\n\n", "\n1. Do it.", "\n2. Then (so) that. [2]", "Hm? [3][4]", "- x"]),
             min_size=1, max_size=7).map(" ".join),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_no_reply_is_too_strange(message, reply):
    request = edit_request(message)
    if request is None or not any(map(str.isalnum, reply)):
        return
    change = edited(reply, request)
    if change.outline is None:
        assert change.reason
    else:
        assert change.outline.text.strip()
        assert set(cited(change.outline.text)) <= set(cited(reply))


def test_the_last_reply_is_the_last_that_is_about_something():
    talk = conversation(
        "What is it?", "A ferry. [1]", "thanks!", "You're welcome.", "reword that", f"{UNCHANGED}no model."
    )
    assert last_reply(talk) == (0, "A ferry.")
    assert last_reply([]) == (None, "")
    assert last_reply(talk[3:4]) == (None, "You're welcome.")


def test_shorter_leaves_a_command_after_a_colon():
    sentence = "To release a preview of the first major version, you could do: `hatch version major,rc` [3]"
    assert "`hatch version major,rc`" in clipped(sentence)
    assert clipped('See it by `$ python -c "import sys; print(1)"` (now) [1]').startswith(
        'See it by `$ python -c "import sys; print(1)"`.'
    )
    assert (
        clipped("There are three of them in it: two of iron and one of wood [1]")
        == "There are three of them in it. [1]"
    )
