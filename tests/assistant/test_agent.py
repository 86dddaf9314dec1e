"""A model that searches and reads on by itself, at a real endpoint on loopback."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.assistant.notes import notes, turn_of
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.generators.base import ToolCall
from turnmark.assistant.steps.agent import ROUNDS, TOOLS, _Agent
from turnmark.assistant.types import Event
from turnmark.retrieval.build import build_index

KETTLE = "What colour is the kettle?"
UNDERSTOOD = Say("{}")
MANUAL = "# Manual\n\nWelcome to it.\n\n## Lamps\n\nLamps are green.\n\n## Doors\n\nDoors are brown.\n"


@pytest.fixture
def manual(kitchen, tmp_path):
    build_index(notes(tmp_path / "m", manual=MANUAL, kettle="# Kettle\n\nThe kettle is red.\n"), "m", retriever="bm25")
    return assistant_over("m").retriever


def asked(index: str, *replies, message: str = KETTLE):
    events: list[Event] = []
    with ScriptedServer(UNDERSTOOD, *replies) as server:
        generator = f"openai:tiny@{server.url}?retries=0"
        assistant = assistant_over(index, generator, passages=1, steps=("retrieve=agent",))
        reply = assistant.reply([], message, events.append)
    return reply, server.bodies[1:], events


def tools_said(body: dict) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


@pytest.mark.usefixtures("kitchen")
def test_it_searches_on_and_what_it_finds_is_numbered_behind_what_is_there():
    calls = [("search", '{"query": "Ada Berg died"}')]
    reply, bodies, events = asked("n", Say("", calls=calls), Say("In 1931 [2]."))
    assert reply.answer == "In 1931 [2]."
    assert reply.decision == "answer"
    assert [citation.n for citation in reply.citations] == [1, 2]
    assert reply.citations[1].document == "berg.md"
    [result] = tools_said(bodies[1])
    assert result.startswith("[2]\n> Ada Berg")
    assert [search.why for search in reply.trace.searches] == ["the message", "the model searches on"]
    assert "search: Ada Berg died" in [event.text for event in events]
    assert reply.usage["answer"].calls == 2
    assert bodies[1]["messages"][: len(bodies[0]["messages"])] == bodies[0]["messages"], "one that only grows"
    system, user = bodies[0]["messages"]
    assert "search before you answer" in system["content"]
    assert user["content"].endswith(f"The user's message:\n{KETTLE}"), "the question comes last"


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (("read", '{"document": "manual.md", "section": "doors"}'), "Doors are brown."),
        (("read", '{"document": "manual.md", "section": "Roofs"}'), "No such section in it. Its sections:"),
        (("read", '{"document": "../etc/passwd", "section": ""}'), "No document is called '../etc/passwd'."),
        (("documents", '{"words": "kettle red"}'), "kettle.md: 1 section"),
        (("search", '{"query": "zyzzyva quux"}'), "Nothing was found."),
        (("delete", '{"query": "x"}'), "No tool 'delete' takes these arguments."),
        (("search", "{not JSON"), "The arguments are not JSON."),
    ],
)
@pytest.mark.usefixtures("manual")
def test_what_a_tool_says(call, result):
    reply, bodies, _ = asked("m", Say("", calls=[call]), Say("Red [1]."))
    assert result in tools_said(bodies[1])[0]
    assert reply.answer == "Red [1]."


@pytest.mark.usefixtures("kitchen")
def test_after_four_rounds_it_has_to_answer():
    call = Say("", calls=[("search", '{"query": "kettle"}')])
    reply, bodies, _ = asked("n", *[call] * ROUNDS, Say("Not known."))
    assert ["tools" in body for body in bodies] == [True] * ROUNDS + [False]
    assert reply.answer == "Not known."


@pytest.mark.usefixtures("kitchen")
def test_an_endpoint_that_takes_no_tools_answers_from_the_first_search():
    reply, bodies, _ = asked("n", Status(400, "tiny does not support tools"), Say("Ada Berg made it [1]."))
    assert reply.answer == "Ada Berg made it [1]."
    assert reply.notes == ("answered without tools: the endpoint takes none",)
    assert ["tools" in body for body in bodies] == [True, False]


KEYS = st.sampled_from(["query", "document", "section", "words"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=5,
)


@given(st.sampled_from([tool.name for tool in TOOLS]), JSON.map(json.dumps) | st.text(max_size=30))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_arguments_come_to_words(manual, name, arguments):
    agent = object.__new__(_Agent)
    agent.turn, agent.retriever = turn_of("x", retriever=manual), manual
    assert agent._result(ToolCall(id="1", name=name, arguments=arguments)).strip()
