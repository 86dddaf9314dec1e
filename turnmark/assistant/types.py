"""The records of a turn: understanding, searches, judgment, draft, checks and reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from turnmark.core.record import Record
from turnmark.core.untrusted import escape_markdown, escape_markdown_line, make_printable
from turnmark.corpora.types import Message
from turnmark.retrieval.tables.table_records import Basis

MessageKind = Literal["question", "conversational", "revision"]
Decision = Literal["answer", "partial", "unknown", "clarify", "converse"]

# The decisions whose replies cite passages and are checked against them.
GROUNDED_DECISIONS: frozenset[Decision] = frozenset(("answer", "partial"))


class Understanding(Record):
    """What a message asks for in its conversation: the result of the understand step."""

    kind: MessageKind = "question"
    standalone: bool = True
    rewrite: str = Field(
        description="the message reworded to be complete without the conversation; the message if standalone"
    )
    sub_questions: tuple[str, ...] = Field(
        description="the questions to answer, in order, each complete by itself; one if the message is not compound"
    )
    asked: tuple[str, ...] = Field(
        default=(), description="the sub-questions in the wording of the message; if empty, that of `sub_questions`"
    )
    phrases: tuple[tuple[str, ...], ...] = Field(
        default=(),
        description="search phrases of each sub-question, in the words of documents",
    )
    wants_procedure: bool = Field(
        default=False, description="whether it asks how something is done, so that steps are wanted"
    )
    topic: tuple[str, ...] = Field(default=(), description="terms carried over from earlier turns")


class Judgment(Record):
    """The result of the decide step."""

    decision: Decision
    confidence: float = Field(description="0..1: how well the evidence covers the question")
    reason: str = Field(description="one clause, for the trace")


class ProcedureStep(Record):
    """One step of a procedure, with its citation numbers."""

    step: str = Field(description="text of the step, without marks")
    citations: tuple[int, ...] = Field(default=(), description="numbers of the citations that support it")


class CitedPicture(Record):
    """A picture whose description is in a source."""

    sha256: str = Field(description="hash of the picture's bytes")
    model: str = Field(description="name of the model that described it")
    page: int | None = Field(default=None, description="its page, from 1; None without pages")
    caption: str = Field(default="", description="alternative text or caption")


class Citation(Record):
    """A source of the reply: a passage, a count, or rows computed from a table, with its number and score."""

    n: int = Field(description="its number in the answer, as in `[1]`")
    id: str = Field(description="id of the passage")
    document: str = Field(description="id of the document")
    title: str = Field(description="title of the document")
    section: str = Field(default="", description="headings above the passage, joined by ' › '")
    path: str = Field(description="path of the file, relative to the indexed folder")
    index: str = Field(
        default="",
        description="name of its index, if several are searched together",
        exclude_if=lambda index: not index,
    )
    page: int | None = Field(description="page on which the passage starts, from 1; None without pages")
    start: int = Field(description="offset of its first character in the document")
    end: int = Field(description="offset after its last character")
    text: str = Field(description="text of the passage")
    score: float = Field(description="score of the hit; comparable only within one reply")
    statement: str = Field(
        default="",
        description="the SELECT that computed `text` from tables",
        exclude_if=lambda statement: not statement,
    )
    basis: tuple[Basis, ...] = Field(
        default=(),
        description="for each table that the statement read, the first rows that the result rests on",
        exclude_if=lambda basis: not basis,
    )
    pictures: tuple[CitedPicture, ...] = Field(
        default=(),
        description="the pictures that are described in the text, starting with the one that the answer is about",
        exclude_if=lambda pictures: not pictures,
    )

    @property
    def key(self) -> str:
        """The id, preceded by the name of its index if it has one."""
        return f"{self.index}:{self.id}" if self.index else self.id


class SubQuestion(Record):
    """A part of the question, and whether the reply answers it."""

    text: str
    answered: bool
    answer: str = Field(
        default="", description="the answer to this part, without marks, if the reply is divided into parts"
    )


class SearchHit(Record):
    """A passage that a search found, for the trace."""

    id: str
    title: str
    score: float
    similarity: float | None = Field(default=None, description="cosine with the message or its rewrite")


class Search(Record):
    """One search of a turn."""

    why: str = Field(description="the purpose of the search in a few words: the message, a part of it …")
    query: str
    variants: tuple[str, ...] = ()
    part: int | None = Field(default=None, description="0-based sub-question that it was for, or None for the message")
    hits: tuple[SearchHit, ...] = ()


class ToolUse(Record):
    """One tool call with which a model searched or read the documents."""

    tool: str
    asked: str = Field(description="its arguments, in one line")
    found: str = Field(description="its result, in one line")
    round: int = 1

    @property
    def line(self) -> str:
        """The call and its result, in one line."""
        return f"{self.tool}: {self.asked} → {self.found}"


class Trace(Record):
    """The record of how a reply was made: forms, understanding, searches and judgments."""

    forms: Mapping[str, str] = Field(default_factory=dict, description="step -> name of the form that ran")
    understanding: Understanding | None = None
    searches: tuple[Search, ...] = ()
    calls: tuple[ToolUse, ...] = Field(default=(), description="tool calls of the model that answered")
    judgement: Judgment | None = None
    parts: tuple[Judgment, ...] = Field(default=(), description="judgment of each sub-question; empty for a single one")
    reasoning: str = Field(default="", description="what the model wrote for itself before the answer")


class Checks(Record):
    """The result of the verify step. A check that does not apply to this reply has the value None."""

    grounded: float | None = Field(default=None, description="share of sentences and steps supported by what they cite")
    unsupported: tuple[str, ...] = Field(
        default=(), description="the sentences and steps of the answer that no passage supports, without marks"
    )
    wording_checked: bool = Field(
        default=True,
        description="False if the answer is in another language than the sections, so that only its numbers, names and "
        "code were checked",
    )
    citations_valid: bool = Field(
        default=True, description="whether every mark points at a citation, and every claim has a mark"
    )
    parts_answered: float | None = Field(default=None, description="share of the sub-questions that are answered")
    procedure_valid: bool | None = Field(
        default=None, description="whether there are at least two steps, all different and cited"
    )
    repaired: bool = Field(default=False, description="whether marks without a source were removed")


class Usage(Record):
    """Calls, tokens and cost of a language model, summed over attempts; `cost` is None if no price is configured."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(
        default=0, description="prompt tokens that came from the endpoint's cache, if it reports them"
    )
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
        )


class Reply(Record):
    """One finished turn: what `turnmark ask --json` prints."""

    question: str = Field(description="the message, as it was sent")
    answer: str = Field(description="the complete answer, with its citation marks `[n]`")
    procedure: tuple[ProcedureStep, ...] = Field(
        default=(), description="the steps, if the answer is a procedure; their text is part of the answer"
    )
    citations: tuple[Citation, ...] = Field(default=(), description="the passages that the answer cites")
    decision: Decision = Field(description="what the turn decided to do")
    rewrite: str = Field(description="the message reworded to be complete without the conversation")
    sub_questions: tuple[SubQuestion, ...] = Field(default=(), description="the questions that the message contains")
    checks: Checks = Field(default=Checks(), description="the result of checking the answer against its citations")
    generator: str = Field(description="spec of the language model; `extractive`: none")
    usage: Mapping[str, Usage] = Field(default_factory=dict, description="calls and tokens of each step")
    timings: Mapping[str, float] = Field(default_factory=dict, description="seconds of each step")
    notes: tuple[str, ...] = Field(default=(), description="notes for the person, such as what was cut or failed")
    trace: Trace = Field(default=Trace(), description="how the reply was made: searches, judgments, tool calls")

    def __str__(self) -> str:
        return self.answer

    def _repr_markdown_(self) -> str:
        """Show the answer and its sources in a notebook; text of documents and models is never run or loaded."""
        parts = map(escape_markdown, make_printable(self.answer).split("**"))  # bold text is harmless
        answer = "**".join(parts).replace("\n", "  \n")
        sources = []
        for source in self.citations:
            place = [source.title, source.section, f"page {source.page}" if source.page else ""]
            sources.append(f"\\[{source.n}\\] {escape_markdown_line(' › '.join(filter(None, place)))}  ")
        return "\n".join([answer, "", *sources])

    @property
    def revises(self) -> bool:
        """Whether the message was understood as a request to revise the last answer."""
        return self.trace.understanding is not None and self.trace.understanding.kind == "revision"

    @property
    def text(self) -> str:
        """The same as `answer`."""
        return self.answer

    @property
    def steps(self) -> tuple[ProcedureStep, ...]:
        """The same as `procedure`."""
        return self.procedure


class AnswerMessage(Message):
    """An answer in a conversation, with the reply of which it is the text, so that a revision knows its sources."""

    role: Literal["assistant"] = "assistant"
    reply: Reply = Field(exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.role, self.content) == (other.role, other.content)

    def __hash__(self) -> int:
        return hash((self.role, self.content))


class Event(Record):
    """A report of a step while it runs: the terminal shows it, and `serve` streams it."""

    step: str = Field(
        description="name of the step: understand, retrieve, decide, answer, verify or another; or `note` or `wait`"
    )
    text: str = Field(default="", description="what the step did, in one line")
    delta: str = Field(default="", description="answer step only: the next piece of a streamed draft")
    detail: Mapping[str, Any] = Field(default_factory=dict, description="figures and names that belong to `text`")
