"""The steps of the turn in their forms: compound messages, thin evidence, several readings, looking ahead."""

from __future__ import annotations

import json

import pytest

from tests.assistant.notes import understanding, with_model
from turnmark.assistant.open import open_assistant
from turnmark.assistant.types import Reply
from turnmark.corpora.types import Message

TWO_PARTS = understanding(
    parts=[{"question": "What colour is the kettle?"}, {"question": "Who made the toaster?", "needs": [2]}]
)
CHAIN = understanding(
    parts=[{"question": "Who made the toaster?"}, {"question": "When did that person die?", "needs": [1]}]
)
BOTH = "What colour is the kettle, and who made the toaster?"
"""The message whose parts are `TWO_PARTS`; the need that points at no earlier part is dropped."""


def decided(*parts: tuple[str, str, str], readings: tuple[str, ...] = ()) -> str:
    rows = [
        {"part": n, "covered": covered, "missing": missing, "query": query}
        for n, (covered, missing, query) in enumerate(parts, 1)
    ]
    return json.dumps({"parts": rows, "readings": list(readings)})


def whys(reply: Reply) -> list[str]:
    return [search.why for search in reply.trace.searches]


def test_each_part_is_answered_from_its_own_evidence_in_the_order_asked(kitchen):
    reply = open_assistant("n").reply([], BOTH)
    assert reply.answer.index("The kettle is red.") < reply.answer.index("The toaster was made by Ada Berg.")
    assert [part.text for part in reply.sub_questions] == ["What colour is the kettle?", "Who made the toaster?"]
    assert "red" in reply.sub_questions[0].answer
    assert "Ada Berg" in reply.sub_questions[1].answer
    assert whys(reply)[:3] == ["a part of the message"] * 2 + ["the whole message"]
    documents = {citation.n: citation.document for citation in reply.citations}
    assert documents[int(reply.answer.split("The kettle is red. [")[1][0])] == "kettle.md"


def test_parts_that_all_find_nothing_are_one_unknown(kitchen):
    reply = open_assistant("n").reply([], "What is the capital of Peru, and who wrote Hamlet?")
    assert reply.decision == "unknown"
    assert reply.answer.startswith("I don't know")
    assert reply.answer.count("I don't know") == 1


def test_a_dependent_part_is_searched_for_when_what_it_builds_on_is_answered(kitchen):
    assistant = with_model(
        kitchen,
        CHAIN,
        {"match": "1. Who made the toaster?", "text": "Ada Berg made it [1]."},
        {"match": "1. When did that person die?", "text": "She died in 1931 [2]."},
    )
    reply = assistant.reply([], "Who made the toaster, and when did that person die?")
    assert reply.answer == "Ada Berg made it [1].\n\nShe died in 1931 [2]."
    first, *_, last = reply.trace.searches
    assert (first.why, first.query) == ("a part of the message", "Who made the toaster?")
    assert last.query == "When did that person die?"
    assert reply.usage["answer"].calls == 2


def test_parts_that_build_on_nothing_are_written_in_one_call(kitchen):
    written = "The kettle is red [1]. Aliens wove it from cheese [1].\n\nThe toaster was made by Ada Berg [2]."
    reply = with_model(kitchen, TWO_PARTS, {"match": "2. Who made the toaster?", "text": written}).reply([], BOTH)
    assert reply.usage["answer"].calls == 1
    assert reply.trace.understanding.needs == ()
    assert reply.answer == "The kettle is red [1].\n\nThe toaster was made by Ada Berg [2]."
    assert [part.answer for part in reply.sub_questions] == ["The kettle is red.", "The toaster was made by Ada Berg."]


def test_a_part_that_the_model_left_out_is_asked_for_once_more(kitchen):
    assistant = with_model(
        kitchen,
        TWO_PARTS,
        {"match": "2. Who made the toaster?", "text": "The kettle is red [1]."},
        {"match": "1. Who made the toaster?", "text": "The toaster was made by Ada Berg [2]."},
    )
    reply = assistant.reply([], BOTH)
    assert reply.answer == "The kettle is red [1].\n\nThe toaster was made by Ada Berg [2]."
    assert reply.checks.repaired
    assert [part.answered for part in reply.sub_questions] == [True, True]
    assert reply.usage["verify"].calls == 1


@pytest.mark.parametrize(
    "garbage",
    [
        "no JSON at all",
        understanding(parts=[{"question": ""}, {"question": "What colour is the kettle?"}]),
        understanding(parts=[{"question": f"Part {n}?"} for n in range(20)]),
        understanding(parts=[{"question": "Same?"}, {"question": "Same?"}]),
        '{"class": "sideways"}',
    ],
)
def test_a_decomposition_that_cannot_be_used_leaves_the_question_as_it_is(kitchen, garbage):
    assistant = with_model(
        kitchen, garbage, "The kettle is red [1].", "The kettle is red [1].", "The kettle is red [1]."
    )
    history = [Message(role="user", content="Hi there."), Message(role="assistant", content="Hello!")]
    reply = assistant.reply(history, "What colour is the kettle?")
    assert reply.answer == "The kettle is red [1]."
    assert [part.text for part in reply.sub_questions] == ["What colour is the kettle?"]


def test_thin_evidence_is_searched_for_again_with_the_narrower_query(kitchen):
    assistant = with_model(
        kitchen,
        decided(("no", "when its maker died", "Ada Berg died")),
        decided(("yes", "", "")),
        "She died in 1931 [1].",
        steps=("decide=llm",),
    )
    reply = assistant.reply([], "When did the maker of the toaster die?")
    assert reply.decision == "answer"
    again = reply.trace.searches[-1]
    assert (again.variants, again.round) == (("Ada Berg died",), 2)
    assert again.why == "thin evidence: the model: no, missing when its maker died"
    assert reply.usage["decide"].calls == 2
    assert "berg.md" in {citation.document for citation in reply.citations}


def test_one_search_where_the_form_says_once(kitchen):
    assistant = with_model(
        kitchen, decided(("no", "all of it", "toaster maker")), steps=("decide=llm", "retrieve=once")
    )
    reply = assistant.reply([], "When did the maker of the toaster die?")
    assert reply.decision == "unknown"
    assert len(reply.trace.searches) == 1


def test_partly_covered_is_partial_with_what_is_missing(kitchen):
    assistant = with_model(
        kitchen,
        decided(("partly", "its price", "")),
        "It is red [1]. The passages do not say what it costs.",
        steps=("decide=llm",),
    )
    reply = assistant.reply([], "What colour is the kettle and its price?")
    assert reply.decision == "partial"
    assert reply.trace.judgement.missing == ("its price",)


@pytest.mark.parametrize(
    "garbage",
    ["nothing", decided(), decided(("yes", "", ""), ("yes", "", "")), '{"parts": [{"part": 1, "covered": "maybe"}]}'],
)
def test_a_judgement_that_cannot_be_used_is_made_without_the_model(kitchen, garbage):
    assistant = with_model(kitchen, garbage, garbage, {"match": "Question:", "text": "Red [1]."}, steps=("decide=llm",))
    reply = assistant.reply([], "What colour is the kettle?")
    assert reply.answer == "Red [1]."
    assert any("decided without the model" in note for note in reply.notes)
    assert reply.trace.forms["decide"] == "extractive"


def test_several_readings_are_asked_back_once(kitchen):
    assistant = with_model(
        kitchen,
        decided(("yes", "", ""), readings=("What colour is the kettle?", "What colour is the toaster?")),
        "It can mean the kettle, which is red [1], or the toaster. Which of them?",
        steps=("decide=llm",),
    )
    reply = assistant.reply([], "What colour is it in the kettle or toaster?")
    assert reply.decision == "clarify"
    assert reply.answer.endswith("Which of them?")
    assert reply.citations
    assert reply.usage["answer"].calls == 1


def test_a_reply_of_nothing_but_steps_is_an_answer(kitchen):
    assistant = with_model(kitchen, "Steps:\n1. Fill it with water. [1]\n2. Boil it. [1]")
    reply = assistant.reply([], "How do I use the kettle?")
    assert reply.decision == "answer"
    assert reply.answer.startswith("These are the steps.")
    assert [step.step for step in reply.procedure] == ["Fill it with water.", "Boil it."]
    assert reply.citations


def test_chained_parts_share_the_room_for_passages(kitchen):
    assistant = open_assistant("n")
    assistant.passages, assistant.most = 1, 2
    reply = assistant.reply([], "Who made the toaster? When did she die? What colour is the kettle? What did she make?")
    assert len(reply.citations) <= 2
    parts = [search.part for search in reply.trace.searches if search.why == "a part of the message"]
    assert parts == [0, 1, 2, 3]


def test_a_refused_part_is_quoted_as_one_phrase_and_is_no_claim(kitchen):
    message = "What colour is the kettle? The hill is high. It is green. Who is the president of Brazil?"
    reply = open_assistant("n").reply([], message)
    assert "“Who is the president of Brazil”" in reply.answer
    assert reply.checks.citations_valid
    assert reply.checks.grounded == 1.0


def test_a_long_part_is_not_echoed_whole(kitchen):
    reply = open_assistant("n").reply([], f"What colour is the kettle, and who is {'very ' * 400}old?")
    assert len(reply.answer) < 600


def test_a_step_that_fell_back_is_named_by_the_form_that_ran(kitchen):
    assistant = with_model(kitchen, "garbage", "garbage", "It is red [1].", "garbage", "garbage", steps=("verify=llm",))
    reply = assistant.reply([], "What colour is the kettle, and who made the toaster?")
    assert any("understood by rules" in note for note in reply.notes)
    assert any("verified by rules" in note for note in reply.notes)
    assert (reply.trace.forms["understand"], reply.trace.forms["verify"]) == ("rules", "extractive")
    assert reply.trace.forms["answer"] == "whole"
