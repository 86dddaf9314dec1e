"""Values out of models: whole, valid, or a typed failure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.assistant.endpoint import opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.asking import ask, find_object, parse_object
from turnmark.assistant.generators import PromptMessage

PROMPT = [PromptMessage(role="system", content="Be exact."), PromptMessage(role="user", content="Which colour?")]
RED = '{"name": "red", "warm": true}'


class Colour(BaseModel):
    name: str
    warm: bool


def answered(*replies, **options):
    """What `ask` gives with these replies, what it cost, and the requests that were made."""
    with ScriptedServer(*replies) as server:
        outcome, usage = ask(opened(server, "?retries=0"), PROMPT, Colour, **options)
    return outcome, usage, server.bodies


def test_a_valid_object_is_the_value():
    outcome, usage, bodies = answered(Say(RED))
    assert outcome == Colour(name="red", warm=True)
    assert (usage.calls, usage.completion_tokens) == (1, 7)
    assert bodies[0]["response_format"]["json_schema"]["name"] == "Colour"
    assert [message["content"] for message in bodies[0]["messages"]] == ["Be exact.", "Which colour?"]


def test_a_refused_schema_is_told_in_words():
    outcome, usage, bodies = answered(Status(400, "response_format is not supported here"), Say(RED))
    assert outcome == Colour(name="red", warm=True)
    assert usage.calls == 2
    assert ["response_format" in body for body in bodies] == [True, False]
    messages = bodies[1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]  # turns alternate
    assert '"warm"' in messages[1]["content"]


def test_an_object_cut_by_the_limit_is_asked_for_again_with_twice_the_room():
    outcome, usage, bodies = answered(Say('{"name": "re', finish_reason="length"), Say(RED), max_tokens=50)
    assert outcome == Colour(name="red", warm=True)
    assert [body["max_tokens"] for body in bodies] == [50, 100]
    assert usage.calls == 2
    assert usage.completion_tokens == 14


def test_one_cut_in_white_space_without_an_end_is_asked_for_again_without_the_schema():
    """A grammar allows white space between any two parts, and a small model may never leave it."""
    outcome, _, bodies = answered(Say('{"name": "red",' + "\n" * 40, finish_reason="length"), Say(RED), max_tokens=50)
    assert outcome == Colour(name="red", warm=True)
    assert [body["max_tokens"] for body in bodies] == [50, 50]
    assert ["response_format" in body for body in bodies] == [True, False]
    assert '"warm"' in bodies[1]["messages"][-1]["content"], "it is told in words"


@pytest.mark.parametrize(
    "text", ['{"name": "red' + " and red, as it is said to be" * 9, '{"name": "' + "".join(map(str, range(900)))]
)
def test_a_reply_that_runs_on_is_given_no_more_room(text):
    outcome, _, bodies = answered(Say(text, finish_reason="length"), Say(RED), max_tokens=50)
    assert (outcome.kind, len(bodies)) == ("length", 1)
    assert "ran on" in outcome.reason


def test_the_finish_reason_comes_before_the_text():
    """A cut reply that happens to be valid JSON is not taken for whole."""
    outcome, _, bodies = answered(Say(RED, finish_reason="length"))
    assert (outcome.kind, outcome.raw) == ("length", RED)
    assert len(bodies) == 2
    outcome, _, bodies = answered(Say(RED, finish_reason="content_filter"))
    assert outcome.kind == "content_filter"
    assert len(bodies) == 1


@pytest.mark.parametrize(
    "bad", ['{"name": "red"}', "Red, I would say.", '{"name": "red", "warm": "very"}', "", RED + RED]
)
def test_an_invalid_object_is_asked_for_once_more_with_what_is_wrong(bad):
    outcome, _, bodies = answered(Say(bad), Say(RED))
    assert outcome == Colour(name="red", warm=True)
    last = bodies[1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert ("warm" in last[-1]["content"].split("schema")[0]) == ("name" in bad and bad != RED + RED)


def test_invalid_twice_is_a_failure_with_what_was_written():
    outcome, usage, bodies = answered(Say("Red."), Say('{"name": "blue"}'))
    assert (outcome.kind, outcome.raw) == ("invalid", '{"name": "blue"}')
    assert "warm" in outcome.reason
    assert usage.calls == len(bodies) == 2


def test_trouble_with_the_endpoint_is_a_failure_of_its_kind():
    outcome, usage, _ = answered(Status(500, "overloaded"))
    assert (outcome.kind, usage.calls) == ("unavailable", 1)
    assert "overloaded" in outcome.reason
    outcome, usage, _ = answered(Say("Red."), Status(401))
    assert (outcome.kind, outcome.raw, usage.calls) == ("auth", "Red.", 2)


def test_a_cut_reply_to_a_repair_is_asked_for_again_once_and_its_rest_is_not_guessed():
    outcome, _, bodies = answered(Say("Red."), Say('{"name": "r', finish_reason="length"), Say(RED), max_tokens=20)
    assert outcome == Colour(name="red", warm=True)
    assert [body["max_tokens"] for body in bodies] == [20, 20, 40]
    outcome, _, bodies = answered(Say(RED[:9], finish_reason="model_length"), max_tokens=20)
    assert (outcome.kind, len(bodies)) == ("length", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RED, RED),
        (f"```json\n{RED}\n```", RED),
        (f"Sure! Here it is: {RED} Anything else?", RED),
        (f"<think>{{maybe}} {RED}</think>{RED}", RED),
        ('{"a": {"b": {}}}', '{"a": {"b": {}}}'),
        (f"{RED} or {RED}", None),
        ("no object", None),
        ('{"outer": {"name": "red", "warm": true}', None),  # cut: its inside is not the answer
        (f"the set {{x}} and {RED}", None),
        ("{" * 100_000, None),
        ('{"a":' * 100_000, None),
    ],
)
def test_exactly_one_object_is_found_or_none(text, expected):
    assert find_object(text) == expected


@settings(max_examples=50)
@given(st.dictionaries(st.text(), st.none() | st.integers() | st.lists(st.text(), max_size=3), max_size=5), st.text())
def test_any_object_is_found_in_prose_without_braces(value, prose):
    prose = prose.replace("{", "(").replace("<", "(")
    text = json.dumps(value)
    assert find_object(f"{prose}{text}{prose}") == text


def test_what_is_wrong_is_told_in_words():
    assert parse_object('{"name": 5}', Colour) == "name: Input should be a valid string; warm: Field required."
