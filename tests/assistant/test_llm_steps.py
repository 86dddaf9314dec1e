"""The language-model forms of rewriting and answering, through a scripted server and scripts."""

from __future__ import annotations

import json

import pytest

from tests.assistant.endpoint import opened
from tests.assistant.notes import conversation, hit
from tests.servers import Reset, Say, ScriptedServer, Status
from turnmark.assistant.generators import GeneratorError
from turnmark.assistant.steps.llm import (
    Written,
    answer,
    before_repeats,
    parse_steps,
    read_answer,
    rewrite,
    says_unknown,
)
from turnmark.assistant.types import Step, Usage

HISTORY = conversation("How do I make Älplermagronen?", "Boil pasta and potatoes, add cheese. [1]")


HITS = [hit("Use 200 g of cheese."), hit("Bacon is optional.", 2)]


def classed(kind, reworded):
    return Say(json.dumps({"class": kind, "reworded_version": reworded}))


def rewritten(*replies, message="And how much cheese does it take?", history=HISTORY):
    with ScriptedServer(*replies) as server:
        return rewrite(opened(server, "?retries=0"), history, message), server.bodies


def answered(*replies, steps=False, question="How much cheese?", history=HISTORY):
    notes = []
    with ScriptedServer(*replies) as server:
        generator = opened(server, "?retries=0&max_tokens=100")
        return answer(generator, question, history, HITS, steps, notes.append), notes, server.bodies


def test_a_message_is_rewritten_from_the_fenced_conversation():
    rewrite, bodies = rewritten(classed("non-standalone", "And how much cheese do\nÄlplermagronen take?"))
    assert rewrite.rewrite == "And how much cheese do Älplermagronen take?"
    assert (rewrite.standalone, rewrite.note, rewrite.usage.calls) == (False, None, 1)
    prompt = bodies[0]["messages"][-1]["content"]
    assert prompt.index("How do I make Älplermagronen?") < prompt.index("And how much cheese does it take?")
    assert "</user-" in prompt
    assert "</assistant-" in prompt


@pytest.mark.parametrize("kind", ["standalone", "Standalone", "stand-alone"])
def test_a_standalone_message_stays_as_it_is_whatever_the_model_made_of_it(kind):
    rewrite, _ = rewritten(classed(kind, "Something else entirely?"), message="What is fondue?")
    assert (rewrite.standalone, rewrite.rewrite, rewrite.note) == (True, "What is fondue?", None)


@pytest.mark.parametrize(
    "reply",
    [
        Status(500),
        Reset(),
        Status(401),
        Say("Hmm."),
        Say('{"class": "maybe", "reworded_version": "x"}'),
        Say('{"class": "non-standalone", "reworded_', finish_reason="length"),
        Say(None, refusal="No."),
        classed("non-standalone", "word " * 100),
    ],
)
def test_a_rewrite_that_fails_leaves_the_message_with_a_note(reply):
    rewrite, bodies = rewritten(reply)
    assert rewrite.rewrite == "And how much cheese does it take?"
    assert not rewrite.standalone
    assert rewrite.note.startswith("searched as typed")
    assert rewrite.usage.calls == len(bodies)


def test_an_answer_streams_and_keeps_its_marks():
    draft, notes, bodies = answered(Say("It takes 200 g [1]. Bacon is optional [2, 7]."))
    assert draft.draft.text == "".join(notes) == "It takes 200 g [1]. Bacon is optional [2, 7]."  # 7 is left to verify
    assert (draft.unknown, draft.draft.procedure, draft.notes) == (False, (), ())
    assert draft.usage.calls == 1
    assert bodies[0]["stream"] is True
    prompt = bodies[0]["messages"][-1]["content"]
    assert prompt.index("[1]\n<passage-") < prompt.index("Use 200 g of cheese.") < prompt.index("[2]\n<passage-")
    assert prompt.rstrip().endswith("How much cheese?")


def test_steps_become_a_procedure():
    text = "Boil, then bake [1].\n\nSteps:\n1. Boil pasta. [1]\n2. Add cheese [1, 2].\n3. Bake [1-3][2].\n"
    draft, notes, _ = answered(Say(text), steps=True)
    assert draft.draft.text == "Boil, then bake [1]."
    assert draft.draft.procedure == (
        Step(step="Boil pasta.", citations=(1,)),
        Step(step="Add cheese.", citations=(1, 2)),
        Step(step="Bake.", citations=(1, 2, 3)),
    )
    assert "".join(notes).startswith("Boil, then bake [1].\n\nSteps:")


def test_steps_that_are_no_flat_list_stay_in_the_text_with_a_note():
    text = "So [1].\nSteps:\n1. Boil [1]\n   - in salted water\n2. Bake [1]"
    draft, _, _ = answered(Say(text), steps=True)
    assert draft.draft.text == text
    assert draft.draft.procedure == ()
    assert draft.notes == ("the steps are shown as they were written: there is a list inside the list under 'Steps:'",)


def test_a_cut_answer_is_asked_for_once_more_with_more_room_and_not_streamed():
    cut = "Boil [1].\nSteps:\n1. Boil [1].\n2. Add the chee"
    complete = "Boil [1].\nSteps:\n1. Boil [1].\n2. Add the cheese [1]."
    draft, notes, bodies = answered(Say(cut, finish_reason="length"), Say(complete), steps=True)
    assert "".join(notes) == cut
    assert [step.step for step in draft.draft.procedure] == ["Boil.", "Add the cheese."]
    assert [body["max_tokens"] for body in bodies] == [100, 200]
    assert draft.usage.calls == 2
    assert draft.notes == ()


@pytest.mark.parametrize(
    "second", [Say("Boil [1].\nSteps:\n1. Boil", finish_reason="length"), Status(400, "context is full")]
)
def test_an_answer_cut_twice_is_kept_with_a_note_and_not_parsed(second):
    cut = "I don't know.\nSteps:\n1. Boil [1].\n2. Add the chee"
    draft, _, bodies = answered(Say(cut, finish_reason="length"), second, steps=True)
    assert draft.draft.text == cut
    assert draft.draft.procedure == ()
    assert not draft.unknown
    assert "not whole" in draft.notes[0]
    assert draft.usage.calls == len(bodies) == 2


def test_a_filtered_answer_says_so():
    draft, _, _ = answered(Say("It takes", finish_reason="content_filter"))
    assert draft.draft.text == "It takes"
    assert "content filter" in draft.notes[0]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Say(""), "bad_reply"),
        (Say("<think>hm</think>"), "bad_reply"),
        (Say("", finish_reason="length"), "bad_reply"),
        (Say("", finish_reason="content_filter"), "refused"),
        (Status(500), "unavailable"),
    ],
)
def test_no_answer_is_an_error(reply, kind):
    with pytest.raises(GeneratorError) as raised:
        answered(reply)
    assert raised.value.kind == kind
    assert raised.value.usage.calls >= 1


def test_an_unknown_answer_carries_no_marks():
    draft, _, _ = answered(Say("I don't know: the passages do not say how much wine it takes [1][2]."))
    assert draft.unknown
    assert "[" not in draft.draft.text


@pytest.mark.parametrize("head", ["Steps:", "**Steps:**", "**Steps**:", "## Steps", "Steps"])
def test_the_line_that_begins_the_steps(head):
    body, steps, problem = parse_steps(f"Do it [1].\n\n{head}\n\n1. One [1]\n\n2) Two [2]\n")
    assert (body, problem) == ("Do it [1].", "")
    assert steps == (Step(step="One", citations=(1,)), Step(step="Two", citations=(2,)))


@pytest.mark.parametrize(
    "block", ["1. One\n  1. Half\n2. Two", "1. One\n- Two", "1. One\n3. Three", "2. Two", "1. One\nThat is all.", ""]
)
def test_what_is_no_flat_list_is_not_split_off(block):
    text = f"Do it.\nSteps:\n{block}"
    body, steps, problem = parse_steps(text)
    assert (body, steps) == (text, ())
    assert problem


def test_a_reply_without_steps_is_left_alone():
    assert parse_steps("Steps: there are many [1].") == ("Steps: there are many [1].", (), "")
    assert parse_steps("1. One\n2. Two") == ("1. One\n2. Two", (), "")


UNKNOWN = [
    "I don't know.",
    "I don’t know.",
    "I do not know who won the 1998 World Cup.",
    "I'm sorry, but I don't know.",
    "Sorry, I don't have that information.",
    "I do not have specific information.",
    "Unfortunately, the passages do not mention the price.",
    "The provided documents don't contain any information about that [1][2].",
    "There is no information about football in the documents.",
    "None of the passages says who won.",
    "It is not mentioned in the passages.",
    "I couldn't find an answer to that. The passages do not say who won [1].",
    "I don't know: I found nothing about that in the documents.",
    "I don't know, but the passages might be incomplete.",
]
FACTS = [
    "",
    "France won the 1998 World Cup [1].",
    "It takes 200 g of cheese [1]. The passages do not say how much bacon.",
    "The passages do not say how much bacon it takes. It takes 200 g of cheese [1].",
    "I don't know the exact figure, but it takes about 200 g [1].",
    '"I don\'t know," said Watson when he was asked [1].',
    "I don't know of a better way than boiling [1].",
    "It is not given to children under five [1].",
    "The documents do not have to be notarised [1].",
    "Information is stored for a year [1].",
    "No answer key is needed [1].",
    "I do not know. A. B. C. D is what happens next in a long list. And so on. And on.",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_reply_that_does_not_know(text):
    assert says_unknown(text)


@pytest.mark.parametrize("text", FACTS)
def test_a_reply_that_knows(text):
    assert not says_unknown(text)


@pytest.mark.parametrize(
    "text",
    [
        "Do this. Steps: 1. Open the lid [1]. 2. Pour it out [2]. 3. Close the lid.",
        "To do so, follow these steps:\n1. Open the lid [1]\n2. Pour it out [2]\n3. Close the lid",
        "**Steps:**\n\n1. Open the lid [1]\n\n2. Pour it out [2]\n\n3. Close the lid",
        "Do this.\nStep 1: Open the lid [1].\nStep 2: Pour it out [2].\nStep 3: Close the lid.",
        "Do this. 1) Open the lid [1]. 2) Pour it out [2]. 3) Close the lid.",
    ],
)
def test_steps_are_read_however_a_model_lays_them_out(text):
    written = Written(text=text, usage=Usage(), note=None, finish_reason="stop")
    draft = read_answer(written, wants_procedure=True).draft
    assert [step.step.rstrip(".") for step in draft.procedure] == ["Open the lid", "Pour it out", "Close the lid"]
    assert [step.citations for step in draft.procedure] == [(1,), (2,), ()]
    assert draft.text in ("Do this.", "To do so, follow these steps:", "")


def test_a_reply_that_runs_on_is_cut_where_it_begins_again_and_not_given_more_room():
    steps = "1. Open the lid of it [1].\n2. Pour it out now [1].\n3. Close the lid of it [1].\n"
    draft, _, bodies = answered(Say(f"Do this first.\n{steps}Steps:\n" + steps * 5, finish_reason="length"), steps=True)
    told = ["Open the lid of it.", "Pour it out now.", "Close the lid of it."]
    assert [step.step for step in draft.draft.procedure] == told
    assert len(bodies) == 1
    assert "repeating itself" in draft.notes[0]


def test_a_long_reply_that_says_new_things_does_not_run_on():
    assert before_repeats(" ".join(f"The {n}th otter swims in the bay." for n in range(40))) == ""
