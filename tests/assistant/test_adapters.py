"""The assistant as a LlamaIndex chat engine."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import BaseChatEngine

from tests.opened import assistant_over
from tests.patience import PATIENCE
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.adapters import as_chat_engine
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.corpora.types import Message

ASK = "How do I sharpen a kitchen knife?"
MORE = "And how often?"
RULES = ("understand=rules",)
"""With these steps, a turn is one model call."""


@pytest.fixture
def engine(home):
    return as_chat_engine(assistant_over("demo"))


def test_chat_engine_runs_turns_and_accepts_a_history(engine):
    assert isinstance(engine, BaseChatEngine)
    first, reply = engine.chat(ASK), engine.assistant.reply([], ASK)
    assert first.response == str(first) == reply.answer
    shown = [(node.node.node_id, node.node.get_content()) for node in first.source_nodes]
    assert shown == [(citation.id, citation.text) for citation in reply.citations]
    assert first.metadata["decision"] == first.sources[0].raw_output.decision == reply.decision
    assert engine.chat(MORE).metadata["rewrite"] not in ("", MORE)
    assert [message.role.value for message in engine.chat_history] == ["user", "assistant"] * 2
    history = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=ASK),
        ChatMessage(role="assistant", content="On a stone. [1]"),
    ]
    turns = [Message(role="user", content=ASK), Message(role="assistant", content="On a stone.")]
    response = engine.chat(MORE, chat_history=history)
    assert response.metadata["rewrite"] == engine.assistant.reply(turns, MORE).rewrite != MORE
    assert len(engine.chat_history) == 5
    engine.reset()
    assert engine.chat_history == []


def test_streams_contain_the_same_answer(engine):
    complete = engine.chat(ASK)
    engine.reset()
    streamed = engine.stream_chat(ASK)
    assert "".join(streamed.response_gen) == streamed.response == complete.response
    assert [hit.node.node_id for hit in streamed.source_nodes] == [hit.node.node_id for hit in complete.source_nodes]

    async def both() -> tuple[str, str]:
        engine.reset()
        answer = await engine.achat(ASK)
        engine.reset()
        stream = await engine.astream_chat(ASK)
        return answer.response, "".join([piece async for piece in stream.async_response_gen()])

    assert asyncio.run(both()) == (complete.response, complete.response)
    assert len(engine.chat_history) == 2


def test_failed_and_abandoned_turns_are_not_part_of_the_history(home):
    with ScriptedServer(Say("Sharpen it on a wet stone. [1]"), Status(401), Say("Sharpen it. [1]", stall=30)) as server:
        engine = as_chat_engine(assistant_over("demo", f"openai:tiny@{server.url}?retries=0", steps=RULES))
        streamed = engine.stream_chat("How is a knife sharpened?").response_gen
        assert "".join(streamed) == "Sharpen it on a wet stone. [1]"
        before = engine.chat_history
        with pytest.raises(GeneratorError):
            list(engine.stream_chat("How is a saw sharpened?").response_gen)
        stream = engine.stream_chat("How is a knife sharpened?").chat_stream
        assert next(stream).delta == "Sharpen"
        stream.close()
        assert server.disconnected.wait(PATIENCE)
        assert engine.chat_history == before
