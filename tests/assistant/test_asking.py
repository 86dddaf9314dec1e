"""Requests to a model: streamed prose, or a validated value or a typed failure."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.assistant.endpoint import ASK, opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.assistant.llm.prompts.structured_output import ask, find_object, write_text

RED = '{"name": "red", "warm": true}'
REFUSED = Status(400, "response_format is not supported here")


class Colour(BaseModel):
    name: str
    warm: bool


def cut(text: str) -> Say:
    return Say(text, finish_reason="length")


@pytest.mark.parametrize(
    ("replies", "room", "schema"),
    [
        ([Say(RED)], [50], [True]),
        ([REFUSED, Say(RED)], [50, 50], [True, False]),
        ([cut('{"name": "re'), Say(RED)], [50, 100], [True, True]),
        # A grammar allows white space between any two tokens, and a small model may repeat it forever.
        ([cut('{"name": "red",' + "\n" * 40), Say(RED)], [50, 50], [True, False]),
        ([cut(RED), Say(RED)], [50, 100], [True, True]),  # the finish reason comes before the text
        ([Say("Red."), cut('{"name": "r'), Say(RED)], [50, 50, 100], [True] * 3),
        *(
            ([Say(bad), Say(RED)], [50, 50], [True, True])
            for bad in ('{"name": "red"}', "Red, I would say.", '{"name": "red", "warm": "very"}', "", RED + RED)
        ),
    ],
)
def test_returns_a_valid_value_after_retries(replies, room, schema):
    with ScriptedServer(*replies) as server:
        outcome, usage = ask(opened(server, "?retries=0"), ASK, Colour, max_tokens=50)
    assert outcome == Colour(name="red", warm=True)
    assert usage.calls == len(replies)
    assert [body["max_tokens"] for body in server.bodies] == room
    assert ["response_format" in body for body in server.bodies] == schema
    messages = server.bodies[-1]["messages"]
    assert all(one["role"] != two["role"] for one, two in pairwise(messages)), "roles alternate"
    if not schema[-1]:
        assert '"warm"' in messages[-1]["content"], "the schema is described in the prompt"


@pytest.mark.parametrize(
    ("replies", "kind", "reason"),
    [
        ([cut('{"name": "red' + " and red, as it is said to be" * 9)], "length", "ran on"),
        ([cut('{"name": "' + "".join(map(str, range(900))))], "length", "ran on"),
        ([cut(RED)] * 2, "length", "cut by the limit"),
        ([Say(RED, finish_reason="content_filter")], "content_filter", "content filter"),
        ([Say("Red."), Say('{"name": 5}')], "invalid", "name: Input should be a valid string; warm: Field required."),
        ([Status(500, "overloaded")], "unavailable", "overloaded"),
        ([Say("Red."), Status(401)], "auth", "401"),
    ],
)
def test_reports_the_kind_of_failure(replies, kind, reason):
    with ScriptedServer(*replies) as server:
        outcome, usage = ask(opened(server, "?retries=0"), ASK, Colour, max_tokens=50)
    assert (outcome.kind, usage.calls, len(server.bodies)) == (kind, len(replies), len(replies))
    assert reason in outcome.reason
    assert outcome.raw == (next((reply.text for reply in replies[::-1] if isinstance(reply, Say)), ""))


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
        ('{"outer": {"name": "red", "warm": true}', None),  # truncated: the inner object is not the answer
        (f"the set {{x}} and {RED}", None),
        ("{" * 100_000, None),
        ('{"a":' * 100_000, None),
    ],
)
def test_finds_an_object_only_if_it_is_the_only_one(text, expected):
    assert find_object(text) == expected


@settings(max_examples=50)
@given(st.dictionaries(st.text(), st.none() | st.integers() | st.lists(st.text(), max_size=3), max_size=5), st.text())
def test_finds_any_object_in_prose(value, prose):
    prose = prose.replace("{", "(").replace("<", "(")
    text = json.dumps(value)
    assert find_object(f"{prose}{text}{prose}") == text


# --- prose ---


def written(*replies):
    """Return the reply, the streamed text and the requests."""
    pieces: list[str] = []
    with ScriptedServer(*replies) as server:
        reply = write_text(opened(server, "?retries=0&max_tokens=100"), ASK, pieces.append)
    return reply, "".join(pieces), server.bodies


def test_prose_is_streamed_unchanged():
    text = "It takes **200 g** [1].\n\n1. Boil [2, 7].\n   - salt"
    reply, streamed, bodies = written(Say(text))
    assert reply.text == streamed == text
    assert (reply.note, reply.usage.calls, bodies[0]["stream"]) == (None, 1, True)


def test_truncated_reply_is_requested_again_with_more_tokens():
    cut, complete = "Boil [1].\n2. Add the chee", "Boil [1].\n2. Add the cheese [1]."
    reply, streamed, bodies = written(Say(cut, finish_reason="length"), Say(complete))
    assert (reply.text, streamed, reply.note) == (complete, cut, None)
    assert [body["max_tokens"] for body in bodies] == [100, 200]
    assert reply.usage.calls == 2


@pytest.mark.parametrize("second", [Say("Boil [1]. Add", finish_reason="length"), Status(400, "context is full")])
def test_reply_truncated_twice_is_kept_with_a_note(second):
    cut = "I don't know.\nBoil [1].\n2. Add the chee"
    reply, _, bodies = written(Say(cut, finish_reason="length"), second)
    assert reply.text == cut
    assert "incomplete" in reply.note
    assert reply.usage.calls == len(bodies) == 2


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
def test_empty_reply_is_an_error(reply, kind):
    with pytest.raises(GeneratorError) as raised:
        written(reply)
    assert raised.value.kind == kind
    assert raised.value.usage.calls >= 1


def test_repeating_reply_is_cut_at_its_first_repetition():
    steps = "1. Open the lid of it [1].\n2. Pour it out now [1].\n3. Close the lid of it [1].\n"
    reply, _, bodies = written(Say(f"Do this first.\n{steps * 6}", finish_reason="length"))
    assert reply.text.split("\n")[-1].startswith("3. Close")
    assert reply.text.count("Open the lid") == 1
    assert len(bodies) == 1
