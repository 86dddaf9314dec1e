"""The assistant as a LlamaIndex chat engine."""

from __future__ import annotations

import asyncio
import threading

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import BaseChatEngine

from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.adapters import as_chat_engine
from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.open import open_assistant
from turnmark.corpora.types import Message

ASK = "How do I sharpen a kitchen knife?"
MORE = "And how often?"
RULES = ("understand=rules",)
"""So that a turn is one call."""


@pytest.fixture
def engine(home):
    return as_chat_engine(open_assistant("demo"))


def roles(engine: BaseChatEngine) -> list[str]:
    return [message.role.value for message in engine.chat_history]


def test_a_chat_is_the_assistants_turns(engine):
    assert isinstance(engine, BaseChatEngine)
    first = engine.chat(ASK)
    reply = engine.assistant.reply([], ASK)
    assert first.response == str(first) == reply.answer
    assert [node.node.node_id for node in first.source_nodes] == [citation.id for citation in reply.citations]
    assert [node.node.get_content() for node in first.source_nodes] == [citation.text for citation in reply.citations]
    assert first.metadata["decision"] == first.sources[0].raw_output.decision == reply.decision
    second = engine.chat(MORE)
    assert second.metadata["rewrite"] not in ("", MORE)
    assert roles(engine) == ["user", "assistant"] * 2
    engine.reset()
    assert engine.chat_history == []
    assert engine.chat(MORE).metadata["rewrite"] == MORE


def test_a_history_that_is_given_takes_the_place_of_the_one_before(engine):
    engine.chat("Good morning!")
    history = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=ASK),
        ChatMessage(role="assistant", content="On a stone. [1]"),
    ]
    response = engine.chat(MORE, chat_history=history)
    turns = [Message(role="user", content=ASK), Message(role="assistant", content="On a stone.")]
    assert response.metadata["rewrite"] == engine.assistant.reply(turns, MORE).rewrite != MORE
    assert len(engine.chat_history) == 5


def test_streams_say_the_same(engine):
    complete = engine.chat(ASK)
    engine.reset()
    streamed = engine.stream_chat(ASK)
    pieces = list(streamed.response_gen)
    assert len(pieces) > 1
    assert "".join(pieces) == complete.response
    assert streamed.response == complete.response
    assert [hit.node.node_id for hit in streamed.source_nodes] == [hit.node.node_id for hit in complete.source_nodes]
    assert roles(engine) == ["user", "assistant"]

    async def both() -> tuple[str, str]:
        engine.reset()
        answer = await engine.achat(ASK)
        engine.reset()
        stream = await engine.astream_chat(ASK)
        text = "".join([piece async for piece in stream.async_response_gen()])
        assert len(stream.source_nodes) == len(complete.source_nodes)
        return answer.response, text

    assert asyncio.run(both()) == (complete.response, complete.response)
    assert roles(engine) == ["user", "assistant"]


def test_drafts_come_as_they_are_written_and_a_failure_reaches_the_reader(home):
    with ScriptedServer(Say("Sharpen it on a wet stone. [1]"), Status(401)) as server:
        engine = as_chat_engine(open_assistant("demo", f"openai:tiny@{server.url}?retries=0", steps=RULES), drafts=True)
        pieces = list(engine.stream_chat("How is a knife sharpened?").response_gen)
        assert pieces[:2] == ["Sharpen", " it"]
        before = engine.chat_history
        with pytest.raises(GeneratorError):
            list(engine.stream_chat("How is a saw sharpened?").response_gen)
        assert engine.chat_history == before


def test_a_stream_that_is_left_ends_its_turn(home):
    with ScriptedServer(Say("Sharpen it on a wet stone. [1]", stall=30)) as server:
        engine = as_chat_engine(open_assistant("demo", f"openai:tiny@{server.url}", steps=RULES), drafts=True)
        stream = engine.stream_chat("How is a knife sharpened?").chat_stream
        assert next(stream).delta == "Sharpen"
        stream.close()
        assert server.disconnected.wait(10)
        assert engine.chat_history == []
        assert not any(thread.name == "turnmark-chat-engine" and thread.is_alive() for thread in ended())


def ended() -> list[threading.Thread]:
    """Threads of engines, after they had time to end."""
    response = [thread for thread in threading.enumerate() if thread.name == "turnmark-chat-engine"]
    for thread in response:
        thread.join(10)
    return response
