"""The assistant for LlamaIndex: a chat engine. Its retrievers are in `turnmark.retrieval.adapters`.

engine = as_chat_engine(open_assistant(AssistantConfig(index="notes")))
engine.chat("How do I descale a kettle?").source_nodes
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import ToolOutput

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.stopping import Stop, stream_turn
from turnmark.assistant.serving.reply import ReplyText, content
from turnmark.assistant.types import Citation, Event, Reply
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.adapters import node_of

TOOL = "turnmark"


def as_chat_engine(assistant: Assistant) -> TurnmarkChatEngine:
    """An assistant as a LlamaIndex `BaseChatEngine`.

    A reply's `source_nodes` are what it was answered from: mark `[n]` is the n-th of them. Its `metadata` (of a stream:
    `sources[0].raw_output`) is what `ask --json` prints. Of a history that is handed in, the messages of user and
    assistant count. A streamed turn begins when the stream is read. One that is not read to its end is ended, and is no
    part of the conversation.
    """
    return TurnmarkChatEngine(assistant)


class TurnmarkChatEngine(BaseChatEngine):  # type: ignore[misc]
    """A Turnmark assistant, and the conversation that is held with it; see `as_chat_engine`."""

    def __init__(self, assistant: Assistant) -> None:
        super().__init__()
        self.assistant = assistant
        self._history: list[ChatMessage] = []

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The conversation so far."""
        return list(self._history)

    def reset(self) -> None:
        """Begin a new conversation."""
        self._history = []

    def chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """One turn; a history that is given replaces the one so far."""
        if chat_history is not None:
            self._history = list(chat_history)
        reply = self.assistant.reply(_messages(self._history), message)
        self._add(message, reply)
        return AgentChatResponse(
            response=content(reply, footnotes=False), sources=[_output(reply)], source_nodes=_nodes(reply.citations),
            metadata=reply.model_dump(mode="json"),
        )  # fmt: skip

    async def achat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """`chat`, in a thread."""
        return await asyncio.to_thread(self.chat, message, chat_history)

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> StreamingAgentChatResponse:
        """`chat` in pieces; sources are known when the stream has ended."""
        response = self._response(chat_history)
        response.chat_stream = self._pieces(response, message, Stop())
        return response

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """`stream_chat` for an event loop."""
        response = self._response(chat_history)
        response.achat_stream = self._apieces(response, message)
        return response

    def _response(self, chat_history: list[ChatMessage] | None) -> StreamingAgentChatResponse:
        if chat_history is not None:
            self._history = list(chat_history)
        return StreamingAgentChatResponse(is_writing_to_memory=False)

    def _pieces(self, response: StreamingAgentChatResponse, message: str, stop: Stop) -> Iterator[ChatResponse]:
        history, reply_text, text = _messages(self._history), ReplyText(footnotes=False), ""
        for event in stream_turn(lambda report: self.assistant.reply(history, message, report), stop):
            pieces = [reply_text.add(event)] if isinstance(event, Event) else reply_text.rest(event)
            for piece in filter(None, pieces):
                text += piece
                yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=piece)
            if isinstance(event, Reply):
                response.sources, response.source_nodes = [_output(event)], _nodes(event.citations)
                response.response, response.is_done = text, True
                self._add(message, event)

    async def _apieces(self, response: StreamingAgentChatResponse, message: str) -> AsyncIterator[ChatResponse]:
        stop = Stop()
        pieces = self._pieces(response, message, stop)
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        finally:
            stop.set()

    def _add(self, message: str, reply: Reply) -> None:
        answer = content(reply, footnotes=False)
        self._history += [ChatMessage(role="user", content=message), ChatMessage(role="assistant", content=answer)]


def _messages(history: Sequence[Any]) -> list[Message]:
    """The turns of a conversation in LlamaIndex's form, without citation marks."""
    turns = [(message.role.value, strip_citations(message.content or "")) for message in history]
    return [Message(role=role, content=text) for role, text in turns if role in ("user", "assistant") and text.strip()]


def _nodes(citations: Sequence[Citation]) -> list[NodeWithScore]:
    """Passages that were cited as nodes, in the order of their numbers."""
    passages = [Passage(**citation.model_dump(include=set(Passage.model_fields))) for citation in citations]
    return [
        NodeWithScore(node=node_of(passage), score=citation.score)
        for passage, citation in zip(passages, citations, strict=True)
    ]


def _output(reply: Reply) -> ToolOutput:
    """A reply as the output of a tool, which is where LlamaIndex looks for sources."""
    return ToolOutput(
        tool_name=TOOL, content=content(reply, footnotes=False), raw_input={"message": reply.question}, raw_output=reply
    )
