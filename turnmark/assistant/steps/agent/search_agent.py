"""Retrieval by the model, which reads the results of a first search and may then search and read with tools.

The rounds are one conversation to which messages are only appended, so that a server with a prefix cache processes each
section once. The first reply that calls no tool is the answer; a model that answers at once costs as many calls as
without tools. The next turn sees the answer, not what was read for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.citations.not_stated_mark import MarkFilter, read_answer
from turnmark.assistant.llm.calls.protocols import (
    Completion,
    EmptyReply,
    GeneratorError,
    Tool,
    ToolCall,
    ToolGenerator,
    ToolMessage,
    ToolsRefused,
)
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.structured_output import WrittenText, complete_text, merge_roles
from turnmark.assistant.llm.prompts.tool_definitions import MAX_NAME_CHARACTERS, Result
from turnmark.assistant.steps.agent.document_tools import DocumentTools
from turnmark.assistant.steps.answer.answer_llm import draft_of_model, turn_prompt
from turnmark.assistant.steps.retrieve.retrieve_sections import (
    MIN_HITS,
    SectionSearch,
    hits_of_parts,
    interleave,
    is_navigation,
)
from turnmark.assistant.steps.step_results import (
    Assessment,
    Draft,
    Evidence,
    PartEvidence,
    UnderstoodMessage,
)
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import ToolUse, Usage
from turnmark.core.plural import count_phrase
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.types import Hit

MAX_ROUNDS, MAX_CALLS_PER_ROUND = 8, 8
"""Maximum rounds of tool calls in a turn, and maximum calls that are answered in a round."""
RESULTS_FACTOR, RESULT_DIVISOR = 5, 2
"""All results of a turn may have `RESULTS_FACTOR` times the tokens of the first search, and a single result the tokens
of the first search divided by `RESULT_DIVISOR`."""
FIRST_SEARCH_SHARE = 0.7
"""Share of the limit of tokens that the sections of the first search may have; further hits are only named, since the
model can read them by their number."""
MIN_SCORE_SHARE = 0.5
"""Minimum share of the best score for hits that are shown after the first `MIN_HITS`, while there is room."""
MIN_RESULT_TOKENS = 1500
"""Minimum tokens of results that the context must have room for; with less room, no tools are offered."""


class ToolSearch(SectionSearch):
    """Retrieve step with a first search, after which the model that answers may search and read with tools.

    A model that cannot call tools, or whose context is too small for them, answers from the first search, as in the
    form `read`.
    """

    tokens_share = FIRST_SEARCH_SHARE
    adds_adjacent = False

    def hits_to_read(self, parts: Sequence[PartEvidence]) -> list[Hit]:
        """Return the hits of each part that are near its best one, without navigation pages if there are others."""
        hits = interleave(_near_best(part.hits) for part in parts)
        return [hit for hit in hits if not is_navigation(hit.passage)] or hits

    def further_hits(self, parts: Sequence[PartEvidence]) -> Sequence[Hit]:
        """Return all hits but those of navigation pages."""
        return [hit for hit in hits_of_parts(parts) if not is_navigation(hit.passage)]

    def long_tables(self, turn: Turn) -> TableStore | None:
        """Return the tables that are shown in part if they are long, or None if the model cannot compute over them."""
        return turn.retriever.tables() if turn.retriever and isinstance(turn.generator, ToolGenerator) else None

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Evidence:
        evidence = super().__call__(turn, understood)
        turn.forms["retrieve"] = "read"  # until the endpoint has accepted tools
        return evidence if turn.evidence is not None else replace(evidence, search_on=answer_with_tools)


def answer_with_tools(
    turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment
) -> Draft | Evidence:
    """Let the model search with tools and answer. If it cannot, return the evidence with sections in full."""
    if not isinstance(turn.generator, ToolGenerator) or turn.retriever is None:
        return _without_tools(turn, evidence)
    agent = _Agent(turn, understood, turn.generator, DocumentTools(turn, turn.retriever, evidence))
    if agent.left < MIN_RESULT_TOKENS:
        return _without_tools(turn, evidence)
    try:
        written = agent.answer()
    except ToolsRefused as refused:
        # Later turns make no request for it and show no further note.
        note = "answered without tools: the endpoint takes none" if refused.usage.calls else None
        turn.use("answer", refused.usage, note)
        return _without_tools(turn, evidence)
    except GeneratorError as error:  # the prompt had become too long, or nothing was written
        if error.kind != "bad_request" and not isinstance(error, EmptyReply):
            raise
        turn.use("answer", error.usage, f"answered without more tools: {error}")
        return agent.evidence
    return draft_of_model(turn, agent.evidence, assessment, written, read_answer(written.text, len(agent.sources.hits)))


def _near_best(hits: Sequence[Hit]) -> list[Hit]:
    """Return the first hits and those whose score is near the best; all if the scores are not positive."""
    best = max((hit.score for hit in hits), default=0.0)
    return [hit for rank, hit in enumerate(hits) if rank < MIN_HITS or best <= 0 or hit.score >= MIN_SCORE_SHARE * best]


def _without_tools(turn: Turn, evidence: Evidence) -> Evidence:
    """Return the evidence with the sections in full that were only named; a revision has the sections that it needs."""
    if evidence.previous:
        return evidence
    hits = tuple(SectionSearch().choose_evidence(turn, evidence.parts))
    turn.report_hits(hits)
    return replace(evidence, hits=hits)


class _Agent:
    """The conversation with the model about one turn.

    Attributes:
        left: tokens left for further results.
    """

    def __init__(
        self, turn: Turn, understood: UnderstoodMessage, generator: ToolGenerator, tools: DocumentTools
    ) -> None:
        self.turn, self.generator, self.tools = turn, generator, tools
        self.sources = tools.sources
        collection = tools.collection
        prompt, notes = turn_prompt(turn, understood, tools.evidence, counts=collection is not None)
        # The rules about the tools are about as long as their definitions.
        tables = tools.computing.hints() if tools.computing else ""
        named = tools.named_sections()
        used = sum(count_tokens(text) for text in (*(message.content for message in prompt), tables, named))
        used += 2 * tools.tokens
        room = turn.model.context_tokens - turn.model.reply_tokens - used
        self.left = min(RESULTS_FACTOR * turn.config.tokens, room)
        self.piece = turn.config.tokens // RESULT_DIVISOR
        self.round = 0
        self.seen: set[str] = set()
        rules = [message for message in prompt if message.role == "system"]
        rules += load_prompt("agent", turn.prompts).render(
            rounds=str(MAX_ROUNDS),
            tokens=_round_down(max(self.left, MIN_RESULT_TOKENS)),
            documents=f"{collection.count():,} documents" if collection else "the documents",
            revises=bool(tools.evidence.previous),
            counts=collection is not None,
            computes=tools.computing is not None,
            looks=tools.looks,
            tables=tables,
            named=named,
            languages=turn.languages_to_search,
        )
        merged = merge_roles((*rules, *(message for message in prompt if message.role != "system")))
        self.messages = [ToolMessage(role=message.role, content=message.content) for message in merged]
        self.notes = notes

    @property
    def evidence(self) -> Evidence:
        """The evidence, with everything that the tools have shown so far."""
        return replace(self.tools.evidence, hits=tuple(self.sources.hits), computed=self.sources.computed)

    def answer(self) -> WrittenText:
        """Run rounds of tool calls until the model answers; after the last round it is offered no tools."""
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
            last = self.messages[-1]
            self.messages[-1] = last.model_copy(update={"content": f"{last.content}\n\n({self._what_is_left(ended)})"})
            self.turn.report_hits(self.sources.hits)
            reply = self._next(() if ended else self.tools.tools)
            if ended:
                break
        return self._complete(reply)

    def _why_ended(self, anything_new: bool) -> str:
        """Return why the model is offered no more tools, as a note for the user, or "" if it is offered more."""
        if self.left <= 0:
            return "the model had read as much as it may in a turn, and answered from that (--tokens)"
        if self.round >= MAX_ROUNDS:
            return f"the model had searched {MAX_ROUNDS} rounds, and answered from what it had found"
        return "" if anything_new else "the model repeated its calls, and answered from what it had found"

    def _what_is_left(self, ended: str) -> str:
        """Return what the model may still use, or that it has to answer now."""
        if ended:
            return "No calls are left: answer now."
        rounds = MAX_ROUNDS - self.round
        return f"Left: {count_phrase(rounds, 'round')}, about {_round_down(self.left)} tokens of results."

    def _next(self, tools: tuple[Tool, ...]) -> Completion:
        shown = MarkFilter(self.turn.stream, len(self.sources.hits))
        reply = self.generator.converse(self.messages, tools, on_text=shown)
        shown.finish()
        return reply

    def _complete(self, reply: Completion) -> WrittenText:
        """Return the answer; a cut one is continued."""
        prompt = sum(count_tokens(message.content) for message in self.messages)
        return complete_text(
            reply,
            lambda limit: self.generator.converse(self.messages, (), max_tokens=limit),
            self.turn.model.context_tokens - prompt,
        )

    def _take(self, call: ToolCall, at: int) -> bool:
        """Run a call and append its result. Return whether the call was a new one."""
        asked = self.tools.asked(call)
        key = self.tools.key(call)
        new = key not in self.seen
        name = call.name[:MAX_NAME_CHARACTERS]
        self.turn.report("retrieve", f"{name}: {asked}", tool=name, asked=asked)
        if not new:
            result = Result("This was called before: what it found stands above.", "called before")
        elif at >= MAX_CALLS_PER_ROUND:
            result = Result(f"At most {MAX_CALLS_PER_ROUND} calls in a round: call it again.", "too many calls at once")
        elif self.left <= 0:
            result = Result("There is no room for more: answer from what you have.", "no room left")
        else:
            self.seen.add(key)
            result = self.tools.result(call, min(self.piece, self.left))
        self.left -= count_tokens(result.text) + count_tokens(call.arguments)
        self.messages.append(ToolMessage(role="tool", content=result.text, call_id=call.id))
        used = ToolUse(tool=name, asked=asked, found=result.found, round=self.round)
        self.turn.calls.append(used)
        self.turn.report("retrieve", used.line, **used.model_dump())
        return new


def _round_down(tokens: int) -> str:
    """Return a number of tokens, rounded down to 500."""
    return f"{tokens // 500 * 500:,}"
