"""The assistant as a LlamaIndex chat engine. The LlamaIndex retriever is in `turnmark.retrieval.services.llama_index`.

engine = as_chat_engine(tm.Assistant("notes"))
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

from turnmark.assistant.llm.calls.cancellation import Stop, stream_turn
from turnmark.assistant.serving.completions_api import ReplyText, content
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Citation, Event, Reply
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.services.llama_index import node_of

TOOL_NAME = "turnmark"


def as_chat_engine(assistant: Assistant) -> TurnmarkChatEngine:
    """Wrap an assistant as a LlamaIndex `BaseChatEngine`.

    A response's `source_nodes` are the passages of the answer: mark `[n]` refers to the n-th node. Its `metadata` is
    the output of `ask --json`; of a stream, that is `sources[0].raw_output`. In a chat history that is passed in, only
    messages of user and assistant are used. A streamed turn starts when the stream is read. If the reader stops early,
    the turn is stopped and is not part of the conversation.
    """
    return TurnmarkChatEngine(assistant)


class TurnmarkChatEngine(BaseChatEngine):  # type: ignore[misc]
    """A Turnmark assistant and its conversation; see `as_chat_engine`."""

    def __init__(self, assistant: Assistant) -> None:
        super().__init__()
        self.assistant = assistant
        self._history: list[ChatMessage] = []

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The messages so far."""
        return list(self._history)

    def reset(self) -> None:
        """Start a new conversation."""
        self._history = []

    def chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """Reply to a message; `chat_history` replaces the conversation so far."""
        if chat_history is not None:
            self._history = list(chat_history)
        reply = self.assistant.reply(_messages(self._history), message)
        self._add(message, reply)
        return AgentChatResponse(
            response=content(reply, footnotes=False), sources=[_output(reply)], source_nodes=_nodes(reply.citations),
            metadata=reply.model_dump(mode="json"),
        )  # fmt: skip

    async def achat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """Run `chat` in a thread."""
        return await asyncio.to_thread(self.chat, message, chat_history)

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> StreamingAgentChatResponse:
        """Stream the reply to a message; the sources are set at the end of the stream."""
        response = self._response(chat_history)
        response.chat_stream = self._pieces(response, message, Stop())
        return response

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """Stream the reply to a message in an event loop."""
        response = self._response(chat_history)
        response.achat_stream = self._apieces(response, message)
        return response

    def _response(self, chat_history: list[ChatMessage] | None) -> StreamingAgentChatResponse:
        if chat_history is not None:
            self._history = list(chat_history)
        return StreamingAgentChatResponse(is_writing_to_memory=False)

    def _pieces(self, response: StreamingAgentChatResponse, message: str, stop: Stop) -> Iterator[ChatResponse]:
        history = _messages(self._history)
        reply_text = ReplyText(footnotes=False)
        text = ""
        for event in stream_turn(lambda report: self.assistant.reply(history, message, report), stop):
            pieces = [reply_text.add(event)] if isinstance(event, Event) else reply_text.rest(event)
            for piece in filter(None, pieces):
                text += piece
                yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=piece)
            if isinstance(event, Reply):
                response.sources = [_output(event)]
                response.source_nodes = _nodes(event.citations)
                response.response = text
                response.is_done = True
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
    """Convert LlamaIndex chat messages of user and assistant; empty ones are dropped, and citation marks removed."""
    messages: list[Message] = []
    for message in history:
        role = message.role.value
        text = strip_citations(message.content or "")
        if role in ("user", "assistant") and text.strip():
            messages.append(Message(role=role, content=text))
    return messages


def _nodes(citations: Sequence[Citation]) -> list[NodeWithScore]:
    """Convert citations to LlamaIndex nodes, in the same order."""
    nodes: list[NodeWithScore] = []
    for citation in citations:
        passage = Passage(**citation.model_dump(include=set(Passage.model_fields)))
        nodes.append(NodeWithScore(node=node_of(passage), score=citation.score))
    return nodes


def _output(reply: Reply) -> ToolOutput:
    """Convert a reply to a tool output, where LlamaIndex looks for sources."""
    return ToolOutput(
        tool_name=TOOL_NAME,
        content=content(reply, footnotes=False),
        raw_input={"message": reply.question},
        raw_output=reply,
    )
