"""The records of a turn: what was understood, what was found, what was decided, what is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from turnmark.core.record import Record

Kind = Literal["question", "conversational", "revision"]
Decision = Literal["answer", "partial", "unknown", "clarify", "converse"]

# The decisions whose replies rest on passages: these are cited and checked.
GROUNDED: frozenset[Decision] = frozenset(("answer", "partial"))


class Understanding(Record):
    """What a message asks for, seen from the conversation before it: one step, one result."""

    kind: Kind = "question"
    standalone: bool = True
    rewrite: str = Field(description="the message as it would be asked without the conversation; itself if standalone")
    sub_questions: tuple[str, ...] = Field(
        description="the questions to answer, in order, each complete in itself; one if the message is not compound"
    )
    asked: tuple[str, ...] = Field(
        default=(), description="the sub-questions as the message has them; empty: as in `sub_questions`"
    )
    phrases: tuple[tuple[str, ...], ...] = Field(
        default=(),
        description="for each sub-question what else to search for, in the words of documents",
    )
    wants_procedure: bool = Field(default=False, description="asks how something is done, so steps are wanted")
    topic: tuple[str, ...] = Field(default=(), description="terms carried over from earlier turns")


class Judgement(Record):
    """The outcome of the decide step."""

    decision: Decision
    confidence: float = Field(description="0..1: how well the evidence covers the question")
    reason: str = Field(description="one clause for the trace")


class ProcedureStep(Record):
    """One step of a procedure, with the citations it rests on."""

    step: str
    citations: tuple[int, ...] = ()


class Draft(Record):
    """An answer before it is checked.

    `text` is all that is said, a procedure included, with citation marks `[n]`, 1-based into the turn's hits.
    """

    text: str
    procedure: tuple[ProcedureStep, ...] = Field(default=(), description="the items of its list if that is a procedure")
    answers: tuple[str, ...] = Field(
        default=(), description='what it says to each part; "": that it does not know; empty: not known part by part'
    )
    claims: str | None = Field(
        default=None, description='what of the text is to be checked; "": nothing, it is a quotation; None: all of it'
    )


class Citation(Record):
    """A source as the reply shows it; the fields are those of the contract."""

    n: int
    id: str
    document: str
    title: str
    section: str = Field(default="", description="headings above it, joined by ' › '")
    path: str
    page: int | None
    start: int
    end: int
    text: str
    score: float


class SubQuestion(Record):
    """A part of the question, and whether the reply answers it."""

    text: str
    answered: bool
    answer: str = Field(default="", description="what the reply says to it, without marks, if that is separate")


class SearchHit(Record):
    """A passage that a search found, as the trace keeps it."""

    id: str
    title: str
    score: float
    similarity: float | None = Field(default=None, description="cosine with the message or its rewrite")


class Search(Record):
    """One search of a turn."""

    why: str = Field(description="in one clause: the message, a part of it, what evidence was missing …")
    query: str
    variants: tuple[str, ...] = ()
    part: int | None = Field(default=None, description="0-based sub-question it is for; None: the message")
    round: int = 1
    hits: tuple[SearchHit, ...] = ()


class Trace(Record):
    """How a turn came to its reply."""

    forms: Mapping[str, str] = Field(default_factory=dict, description="step -> the form of it that ran")
    understanding: Understanding | None = None
    searches: tuple[Search, ...] = ()
    judgement: Judgement | None = None
    parts: tuple[Judgement, ...] = Field(default=(), description="for each sub-question; empty if there is but one")


class Checks(Record):
    """What the verify step found. None: not applicable to this reply."""

    grounded: float | None = Field(default=None, description="share of sentences and steps supported by what they cite")
    unsupported: tuple[str, ...] = Field(
        default=(), description="the sentences and steps of the answer that no passage supports, without marks"
    )
    citations_valid: bool = Field(default=True, description="no mark pointed at nothing, and every claim has one")
    parts_answered: float | None = None
    procedure_valid: bool | None = None
    repaired: bool = False


class Usage(Record):
    """What language-model calls cost, summed over attempts. `cost` is None if no price is configured."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(default=0, description="of the prompt tokens, those not read anew, if reported")
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [c for c in (self.cost, other.cost) if c is not None]
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
        )


class Reply(Record):
    """One finished turn: what `turnmark ask --json` prints."""

    question: str
    answer: str
    procedure: tuple[ProcedureStep, ...] = ()
    citations: tuple[Citation, ...] = ()
    decision: Decision
    rewrite: str
    sub_questions: tuple[SubQuestion, ...] = ()
    checks: Checks = Checks()
    generator: str
    usage: Mapping[str, Usage] = Field(default_factory=dict)
    timings: Mapping[str, float] = Field(default_factory=dict, description="step -> seconds")
    notes: tuple[str, ...] = Field(default=(), description="what the person should know: what was cut, what failed")
    trace: Trace = Trace()

    @property
    def text(self) -> str:
        """The answer, with its citation marks `[n]`."""
        return self.answer

    @property
    def steps(self) -> tuple[ProcedureStep, ...]:
        """The procedure, if the answer has one; its text is part of the answer."""
        return self.procedure


class Event(Record):
    """What a step reports while it works; the terminal draws these, tracing exports them."""

    step: str = Field(description="understand, retrieve, decide, answer or verify, or another that ran; or note")
    text: str = ""
    delta: str = Field(default="", description="answer step only: the next piece of a streamed draft")
    detail: Mapping[str, Any] = Field(default_factory=dict)
