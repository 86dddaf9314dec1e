"""Retrieval by the model itself: it reads what a first search found, and may search and read on, with tools.

One conversation that only grows, so that a server that caches prefixes reads each section once. What the model writes
when it calls no more tools is its answer; it may do so at once, in as many calls as without tools. Nothing of it is
kept for the next turn but the answer.
"""

from __future__ import annotations

from turnmark.assistant.asking import completed_text, merge_roles
from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import (
    EmptyReply,
    GeneratorError,
    Tool,
    ToolCall,
    ToolGenerator,
    ToolMessage,
    ToolReply,
    ToolsRefused,
)
from turnmark.assistant.prompts import load_prompt
from turnmark.assistant.steps.read import settle_reply, turn_prompt
from turnmark.assistant.steps.retrieve import SearchAndRead
from turnmark.assistant.steps.tools import TOOL_TOKENS, DocumentTools, Result
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import ToolUse, Usage

ROUNDS, CALLS = 8, 8
"""Rounds of calls, and calls that are answered in one of them."""
BUDGET, PIECE = 5, 2
"""Results in all have this many times the tokens of the first search's sections; one result has a part of these."""
LEAST = 1500
"""Tokens of results that the context must have room for; else no tools are offered."""


class SearchWithTools(SearchAndRead):
    """The first search; the model that answers may then search and read on, if its endpoint calls tools.

    A model or endpoint without tools, or with too little context for them, answers from the first search.
    """

    def __call__(self, turn: Turn) -> None:
        super().__call__(turn)
        turn.forms["retrieve"] = "read"  # until tools are offered
        if turn.evidence is None:
            turn.search_on = answer_with_tools


def answer_with_tools(turn: Turn) -> bool:
    """Let the model search on and answer; False: it cannot, and nothing was said."""
    if not isinstance(turn.generator, ToolGenerator) or turn.retriever is None:
        return False
    agent = _Agent(turn, turn.generator, DocumentTools(turn, turn.retriever))
    if agent.left < LEAST:
        return False
    try:
        agent.answer()
    except ToolsRefused as refused:
        told = (
            "answered without tools: the endpoint takes none" if refused.usage.calls else None
        )  # once, as it cost one
        turn.use("answer", refused.usage, told)
        return False
    except GeneratorError as error:  # the prompt had become too long, or nothing was written
        if error.kind != "bad_request" and not isinstance(error, EmptyReply):
            raise
        turn.use("answer", error.usage, f"answered without more tools: {error}")
        return False
    return True


class _Agent:
    def __init__(self, turn: Turn, generator: ToolGenerator, tools: DocumentTools) -> None:
        self.turn, self.generator, self.tools = turn, generator, tools
        prompt, notes = turn_prompt(turn)
        used = sum(count_tokens(message.content) for message in prompt) + 2 * TOOL_TOKENS  # and the rules about them
        room = turn.model.context_tokens - turn.model.reply_tokens - used
        self.left = min(BUDGET * turn.config.tokens, room)
        self.piece = turn.config.tokens // PIECE
        self.round = 0
        self.seen: set[tuple[str, str]] = set()
        collection = tools.collection
        rules = [message for message in prompt if message.role == "system"]
        rules += load_prompt("agent", turn.prompts).render(
            rounds=str(ROUNDS),
            tokens=f"{max(self.left, LEAST) // 500 * 500:,}",
            documents=f"{collection.count():,} documents" if collection else "the documents",
        )
        asked = merge_roles((*rules, *(message for message in prompt if message.role != "system")))
        self.messages = [ToolMessage(role=message.role, content=message.content) for message in asked]
        self.notes = notes

    def answer(self) -> None:
        """Rounds of calls until the model answers; in the last one it has no tools."""
        reply = self._next(self.tools.tools)
        self.turn.forms["retrieve"] = "agent"
        self.turn.use("answer", Usage(), *self.notes)
        while reply.calls:
            self.turn.use("answer", reply.usage)
            self.round += 1
            self.messages.append(reply.message)
            new = [self._take(call, at) for at, call in enumerate(reply.calls)]
            ended = self._why_ended(any(new))
            self.turn.use("answer", Usage(), ended)
            self.turn.report_hits()
            reply = self._next(() if ended else self.tools.tools)
            if ended:
                break
        self._settle(reply)

    def _why_ended(self, anything_new: bool) -> str:
        """Why the model gets no more tools, for the person; empty: it does."""
        if self.left <= 0:
            return "the model had read as much as it may in a turn, and answered from that (--tokens)"
        if self.round >= ROUNDS:
            return f"the model had searched {ROUNDS} rounds, and answered from what it had found"
        return "" if anything_new else "the model repeated its calls, and answered from what it had found"

    def _next(self, tools: tuple[Tool, ...]) -> ToolReply:
        return self.generator.converse(self.messages, tools, on_text=self.turn.stream)

    def _settle(self, reply: ToolReply) -> None:
        prompt = sum(count_tokens(message.content) for message in self.messages)
        written = completed_text(
            reply.completion,
            lambda limit: self.generator.converse(self.messages, (), max_tokens=limit).completion,
            self.turn.model.context_tokens - prompt,
        )
        settle_reply(self.turn, written)

    def _take(self, call: ToolCall, at: int) -> bool:
        """Answer a call; whether it was a new one."""
        asked = self.tools.asked(call)
        key = (call.name, asked)
        new = key not in self.seen
        self.turn.report("retrieve", f"{call.name}: {asked}", tool=call.name)
        if not new:
            result = Result("This was called before: what it found stands above.", "called before")
        elif at >= CALLS:
            result = Result(f"At most {CALLS} calls in a round: call it again.", "too many calls at once")
        elif self.left <= 0:
            result = Result("There is no room for more: answer from what you have.", "no room left")
        else:
            self.seen.add(key)
            result = self.tools.result(call, min(self.piece, self.left))
        self.left -= count_tokens(result.text) + count_tokens(call.arguments)
        self.messages.append(ToolMessage(role="tool", content=result.text, call_id=call.id))
        used = ToolUse(tool=call.name, asked=asked, found=result.found, round=self.round)
        self.turn.calls.append(used)
        self.turn.report("retrieve", used.line, **used.model_dump())
        return new
