"""Tool calls at a real endpoint on loopback, streamed and not streamed."""

from __future__ import annotations

import json

import pytest

from tests.assistant.endpoint import ASK, opened
from tests.servers import Say, ScriptedServer
from turnmark.assistant.llm.calls.protocols import GeneratorError, Tool, ToolGenerator, ToolMessage
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.llm.generators.response_cache import with_cache
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator

pytestmark = pytest.mark.usefixtures("short_waits")

SEARCH = Tool(
    name="search",
    description="Find passages.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
ASKED = [ToolMessage(role="system", content="Be brief."), ToolMessage(role="user", content="How is a kettle descaled?")]


def test_conversation_with_tools_ends_in_an_answer():
    calls = [("search", '{"query": "descale kettle"}'), ("search", '{"query": "limescale"}')]
    with ScriptedServer(Say("", "tool_calls", calls=calls), Say("With vinegar.")) as server:
        generator, pieces = opened(server), []
        assert isinstance(generator, ToolGenerator)
        first = generator.converse(ASKED, [SEARCH], max_tokens=99)
        results = [ToolMessage(role="tool", content="vinegar", call_id=call.id) for call in first.calls]
        last = generator.converse([*ASKED, first.message, *results], [SEARCH], on_text=pieces.append)
    assert [(call.id, call.name, json.loads(call.arguments)["query"]) for call in first.calls] == [
        ("c0", "search", "descale kettle"),
        ("c1", "search", "limescale"),
    ]
    assert (first.finish_reason, first.usage.calls, first.usage.prompt_tokens) == ("stop", 1, 11)
    assert (last.text, last.calls, "".join(pieces)) == ("With vinegar.", (), "With vinegar.")
    sent = server.bodies[1]
    assert server.bodies[0]["max_tokens"] == 99
    assert sent["tools"] == [{"type": "function", "function": SEARCH.model_dump()}]
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert [call["function"]["arguments"] for call in sent["messages"][2]["tool_calls"]] == [text for _, text in calls]
    assert [message["tool_call_id"] for message in sent["messages"][3:]] == ["c0", "c1"]


def test_wrappers_support_tools_only_if_their_generator_does():
    with ScriptedServer(Say("", calls=[("search", "{}")])) as server:
        bounded = DeadlineGenerator(with_cache(opened(server)), 60)
        assert isinstance(bounded, ToolGenerator)
        assert bounded.converse(ASKED, [SEARCH]).calls[0].name == "search"
        assert bounded.usage.calls == 1
        ended = DeadlineGenerator(opened(server), 0)
        with pytest.raises(GeneratorError, match="deadline of 0 s has passed"):
            ended.converse(ASKED, [SEARCH])
    mock = open_generator("llama-index:llama_index.core.llms:MockLLM")
    assert not isinstance(mock, ToolGenerator)
    assert not isinstance(with_cache(mock), ToolGenerator)
    assert with_cache(mock).complete(ASK).text
