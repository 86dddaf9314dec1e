"""Revising with a language model: KIWI's four prompts, edits by number, checks, and what happens when it goes wrong."""

from __future__ import annotations

import json

import pytest
from turnmark.assistant.steps.operations import Operation
from turnmark.assistant.steps.revise_llm import revised

from tests.assistant.endpoint import opened
from tests.assistant.notes import ANSWER, FIRST, FOURTH, SECOND, THIRD, hit
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.budget import INSTRUCTIONS, count_tokens
from turnmark.assistant.generators import GeneratorError
from turnmark.assistant.prompts import load_prompt

QUESTION = "How is the Marigold run?"
HITS = [hit("The launch Little Auk sails in January."), hit("A single ticket for an adult costs £7.20.", 2)]


LOOK_UP = Say('{"class": "information-seeking", "type": "More information"}')
STYLE = Say('{"class": "stylistic", "type": "Others"}')
FARE = "A ticket costs £7.20 [2]."


def kind(fine: str) -> Say:
    return Say(json.dumps({"class": "stylistic", "type": fine}))


def edits(*operations: dict, text: str = "") -> Say:
    filled = [{"sentence": 0, "after": 0, "text": "", **operation} for operation in operations]
    return Say(json.dumps({"operations": filled, "whole": text}))


def asked(*replies, instruction="Say 45 minutes.", hits=HITS, options="&max_tokens=600", answer=ANSWER, **more):
    """The revision with these replies, the last user message of each request, and what was searched for."""
    searched: list[str] = []

    def search(query: str):
        searched.append(query)
        return hits

    with ScriptedServer(*replies) as server:
        generator = opened(server, f"?retries=0{options}")
        revision = revised(generator, QUESTION, answer, instruction, search, None, **more)
    return revision, [body["messages"] for body in server.bodies], searched


def test_an_instruction_that_seeks_information_is_looked_up_summarised_and_put_in():
    insert = edits({"op": "insert", "after": 2, "text": FARE})
    revision, requests, searched = asked(LOOK_UP, Say(FARE), insert, instruction="What does a ticket cost?")
    assert revision.text == f"{FIRST} {SECOND} {FARE}\n\n{THIRD} {FOURTH}"
    assert revision.operations == (Operation(kind="insert", before="", after=FARE),)
    assert (revision.kind, revision.coarse) == ("More information", "information-seeking")
    assert revision.notes == revision.unmet == ()
    assert (revision.usage.calls, searched) == (3, ["What does a ticket cost?"])
    typing, summarising, integrating = (request[-1]["content"] for request in requests)
    assert "What does a ticket cost?" in typing
    assert ANSWER not in typing
    assert all(text in summarising for text in (ANSWER, HITS[1].passage.text, "[2]\n<passage-"))
    assert "S2| She crosses" in integrating
    assert FARE in integrating
    assert HITS[0].passage.text not in integrating  # the summary stands for the passages


def test_a_stylistic_instruction_searches_nothing():
    change = edits({"op": "replace", "sentence": 2, "text": SECOND.replace("50", "45")})
    revision, requests, searched = asked(STYLE, change)
    assert revision.text == ANSWER.replace("50 minutes", "45 minutes")
    assert (searched, len(requests), revision.usage.calls, revision.notes) == ([], 2, 2, ())
    assert "passage" not in requests[1][-1]["content"]


@pytest.mark.parametrize(("fine", "may"), [("Condense", True), ("Reorganize", True), ("Others", False)])
def test_only_what_touches_every_sentence_may_be_written_anew(fine, may):
    _, requests, _ = asked(kind(fine), edits(text="Short."), edits(), instruction="Make it sing.")
    assert ("may write the whole" in requests[1][0]["content"]) is may


def test_a_whole_new_answer_is_not_taken_for_anything_else():
    rewritten = edits(text="All is new. Nothing is as it was.")
    revision, requests, _ = asked(STYLE, rewritten, rewritten, instruction="Say 45 minutes.")
    assert revision.text == ANSWER
    assert "may not be written anew" in requests[2][-1]["content"]
    assert "may not be written anew" in revision.notes[0]


def test_new_passages_are_numbered_behind_those_that_the_answer_cites():
    known_hits = [hit("The Marigold carries 48 passengers.", 7), HITS[1]]
    insert = edits({"op": "insert", "after": 4, "text": "Little Auk sails in January [3]."})
    revision, requests, _ = asked(
        LOOK_UP, Say("Little Auk sails [3]."), insert, instruction="And in January?", known_hits=known_hits
    )
    summarising = requests[1][-1]["content"]
    assert summarising.index("[3]\n<passage-") < summarising.index("Little Auk")  # new
    assert "[2]\n<passage-" in summarising  # known already
    assert "[1]\n<passage-" not in summarising
    assert [hit.passage.id for hit in revision.hits] == [hit.passage.id for hit in (known_hits[0], HITS[1], HITS[0])]
    assert revision.notes == ()


@pytest.mark.parametrize(
    ("hits", "replies", "note"),
    [(HITS, [Say("NOTHING FOUND")], "say nothing"), (HITS, [Say("Nothing found.")], "say nothing"),
     ([], [], "no passage")],
)  # fmt: skip
def test_passages_that_say_nothing_change_nothing(hits, replies, note):
    revision, requests, _ = asked(LOOK_UP, *replies, instruction="What of volcanoes?", hits=hits)
    assert (revision.text, len(requests)) == (ANSWER, 1 + len(replies))
    assert note in revision.notes[0]


def test_edits_that_cannot_be_made_are_asked_for_again():
    revision, requests, _ = asked(STYLE, edits({"op": "delete", "sentence": 9}), edits({"op": "delete", "sentence": 4}))
    assert revision.text == f"{FIRST} {SECOND}\n\n{THIRD}"
    assert "there is no sentence 9" in requests[2][-1]["content"]
    assert [message["role"] for message in requests[2]][-3:] == ["user", "assistant", "user"]
    assert (revision.notes, revision.usage.calls) == ((), 3)


def test_what_can_be_made_of_wrong_edits_is_made_and_the_rest_told():
    contradicting = edits({"op": "delete", "sentence": 4}, {"op": "replace", "sentence": 4, "text": "Seals."})
    revision, _, _ = asked(STYLE, contradicting, contradicting)
    assert revision.text == f"{FIRST} {SECOND}\n\n{THIRD}"
    assert revision.notes == (
        "not every edit could be made: operation 2 (replace): sentence 4 has another operation already that this one "
        "contradicts",
    )


def test_a_demand_that_is_missed_is_told_and_asked_for_again():
    long = edits({"op": "delete", "sentence": 4})
    short = edits({"op": "delete", "sentence": 1}, {"op": "delete", "sentence": 4})
    revision, requests, _ = asked(kind("Condense"), long, short, instruction="Shorten it to at most 15 words.")
    assert revision.text == f"{SECOND}\n\n{THIRD}"
    assert "words: 26, asked for: 15 at most" in requests[2][-1]["content"]
    assert (revision.unmet, revision.notes) == ((), ())


def test_words_that_a_model_garbles_twice_are_put_in_by_code():
    instruction = 'Add the sentence "The keel still lies there." at the beginning.'
    garbled = edits({"op": "insert", "after": 4, "text": "The keel is still lying there."})
    revision, _, _ = asked(kind("Specific edit"), garbled, garbled, instruction=instruction)
    assert revision.text.startswith("The keel still lies there. The Marigold")
    assert revision.unmet == ()


def test_what_is_still_missed_is_said():
    insertion = edits({"op": "insert", "after": 4, "text": FARE})
    revision, requests, _ = asked(
        LOOK_UP, Say(FARE), insertion, insertion, instruction="Explain the fares in three sentences."
    )
    assert len(requests) == 4
    assert revision.text == f"{ANSWER} {FARE}"
    assert revision.unmet == ("sentences that are new: 1, asked for: 3",)
    assert revision.unmet[0] in revision.notes[0]


def test_without_a_type_rules_type():
    revision, _, _ = asked(
        Say("hm"), Say("hm"), edits({"op": "delete", "sentence": 4}), instruction="Remove the sentence on otters."
    )
    assert (revision.kind, revision.coarse, revision.text) == ("Remove", "stylistic", f"{FIRST} {SECOND}\n\n{THIRD}")
    assert "typed by rules" in revision.notes[0]


def test_without_edits_rules_revise():
    revision, _, _ = asked(kind("Remove"), Say("Sure!"), Say("Sure!"), instruction="Remove the sentence on otters.")
    assert revision.text == f"{FIRST} {SECOND}\n\n{THIRD}"
    assert "revised by rules" in revision.notes[0]
    assert revision.usage.calls == 3


def test_prose_is_taken_for_the_whole_where_all_may_be_new():
    prose = Say("She is a small ferry.")
    revision, _, _ = asked(kind("Condense"), prose, prose, instruction="Shorten it.")
    assert revision.text == "She is a small ferry."
    assert "as a text" in revision.notes[0]


@pytest.mark.parametrize("replies", [(STYLE, Say(""), Say("")), (LOOK_UP, Say("")), (STYLE, Status(500))])
def test_an_endpoint_that_says_nothing_is_an_error_with_its_usage(replies):
    with pytest.raises(GeneratorError) as error:
        asked(*replies)
    assert error.value.usage.calls >= 2


def test_passages_that_do_not_fit_are_left_out_and_an_answer_that_does_not_is_an_error():
    tight = "&max_tokens=100&context=1000"
    long = [HITS[0], hit("Long words. " * 400, 2)]
    revision, requests, _ = asked(LOOK_UP, Say("Little Auk [1]."), edits(), hits=long, options=tight)
    assert "1 of 2 passages was left out" in revision.notes[0].replace("were", "was")
    assert "Long words" not in requests[1][-1]["content"]
    with pytest.raises(GeneratorError, match="does not fit") as error:
        asked(STYLE, answer="Long words. " * 400, options=tight)
    assert error.value.kind == "bad_request"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("revise-type", {"question": "", "instruction": ""}),
        ("revise-summarise", {"passages": "", "previous": "", "instruction": ""}),
        ("revise-integrate", {"question": "", "summary": "", "previous": "", "instruction": ""}),
        ("revise-stylistic", {"question": "", "previous": "", "instruction": "", "whole": True}),
        ("verify-claims", {"passages": "", "parts": "", "sentences": ""}),
        ("verify-repair", {"passages": "", "parts": "", "answer": "", "problems": ""}),
    ],
)
def test_the_instructions_are_within_what_the_budget_sets_aside_for_them(name, values):
    prompt = load_prompt(name).render(tag="", **values)
    assert sum(count_tokens(message.content) for message in prompt) <= INSTRUCTIONS
    assert not any(name in message.content for message in prompt for name in ("KIWI", "MTRAG", "{%", "{#"))
