"""What each step of a turn finds, in the order of a turn, and the signatures of the steps.

Each step receives the results of the steps before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from turnmark.assistant.steps.turn_state import Step, Turn
from turnmark.assistant.types import (
    GROUNDED_DECISIONS,
    Checks,
    Decision,
    Judgment,
    ProcedureStep,
    SubQuestion,
    Understanding,
)
from turnmark.assistant.wording.phrases import is_same_wording
from turnmark.retrieval.storage.filters import Condition, Where
from turnmark.retrieval.tables.table_records import QueryResult
from turnmark.retrieval.types import Hit


@dataclass(frozen=True)
class Part:
    """A question to answer: a sub-question, or the message if it is not compound.

    Attributes:
        text: the wording of the message.
        question: the question, complete without the conversation.
        phrases: search phrases in the words of documents.
    """

    text: str
    question: str
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedDocument:
    """The document that a message names.

    Attributes:
        document: its id.
        heading: the named heading in it, or "" for the whole document.
        language: if the message asks for an overview of it, the language of the reply; otherwise "".
    """

    document: str
    heading: str = ""
    language: str = ""


@dataclass(frozen=True)
class UnderstoodMessage:
    """The result of the understand step.

    Attributes:
        understanding: what the message asks for, as the trace shows it.
        asked: the question of the message in the spelling of the documents; it may be the message itself.
        form: name of the form that found it, or "" for the chosen one.
        fallback: why the step fell back to rules, a `FailureKind`, or "" if it did not.
        named: the document that the message names, in which is searched.
    """

    understanding: Understanding
    asked: str
    form: str = ""
    fallback: str = ""
    named: NamedDocument | None = None

    @property
    def where(self) -> Where:
        """The filter of the search (`Query.where`)."""
        return (Condition("document", "=", self.named.document),) if self.named else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The questions to answer, in order."""
        understanding = self.understanding
        questions = understanding.sub_questions
        texts = (self.asked,) if len(questions) == 1 else understanding.asked or questions
        phrases = understanding.phrases or ((),) * len(questions)
        return tuple(Part(*each) for each in zip(texts, questions, phrases, strict=True))

    def as_revision(self, instruction: str) -> UnderstoodMessage:
        """Return the message as an instruction in its own words: what a model made of it only serves the search."""
        understanding = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
        return replace(self, understanding=understanding)

    def report(self, turn: Turn) -> None:
        """Report how the message was understood."""
        if self.form:
            turn.forms["understand"] = self.form
        understanding = self.understanding
        # A rewrite by rules only serves the search; a model's rewrite is worth showing.
        shows_rewrite = not understanding.topic and not is_same_wording(understanding.rewrite, turn.message)
        turn.report(
            "understand",
            understanding.rewrite if shows_rewrite else "",
            kind=understanding.kind,
            parts=list(understanding.sub_questions),
            phrases=[phrase for part in self.parts for phrase in part.phrases],
        )


@dataclass(frozen=True)
class PartEvidence(Part):
    """A question to answer, with the passages that were found for it.

    Attributes:
        hits: its evidence, best first.
        tables: further hits in the documents of `hits`, whose tables may have a row that answers; only without a model.
    """

    hits: tuple[Hit, ...] = ()
    tables: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The result of the retrieve step.

    Attributes:
        parts: each part with the hits of its searches.
        hits: all evidence; a citation `[n]` is the n-th, from 1.
        message_hits: hits of a compound message searched as one, best first.
        computed: the computations among the evidence, by the id of the passage that shows the result.
        previous: the answer to revise, with marks that number `hits`, or "" if the message is a question.
        search_on: lets the model that answers search on with tools, or None if no tools are offered. Returns the
            draft, or the evidence to answer from if the model cannot use tools.
    """

    parts: tuple[PartEvidence, ...]
    hits: tuple[Hit, ...] = ()
    message_hits: tuple[Hit, ...] = ()
    computed: Mapping[str, Computation] = field(default_factory=dict)
    previous: str = ""
    search_on: Callable[[Turn, UnderstoodMessage, Evidence, Assessment], Draft | Evidence] | None = None

    def report(self, turn: Turn) -> None:
        """Report the searches and hits so far."""
        turn.report_hits(self.hits)


@dataclass(frozen=True)
class Assessment:
    """The result of the decide step, which the answer step may correct.

    Attributes:
        judgment: the judgment of all evidence.
        parts: the judgment of each part.
    """

    judgment: Judgment
    parts: tuple[Judgment, ...] = ()

    def report(self, turn: Turn) -> None:
        """Report the decision."""
        judgment = self.judgment
        turn.report("decide", f"{judgment.decision}: {judgment.reason}", confidence=judgment.confidence)


def assess(parts: Sequence[Judgment]) -> Assessment:
    """Combine the judgments of the parts: `partial` if only some can be answered, or one only in part."""
    decisions = [part.decision for part in parts]
    grounded = sum(decision in GROUNDED_DECISIONS for decision in decisions)
    decision: Decision = "partial" if grounded else "unknown"
    if all(each == "answer" for each in decisions):
        decision = "answer"
    combined = (
        parts[0]
        if len(parts) == 1
        else Judgment(
            decision=decision,
            confidence=fmean(part.confidence for part in parts),
            reason=f"{grounded} of {len(parts)} parts are covered",
        )
    )
    return Assessment(combined, tuple(parts))


class Computation(NamedTuple):
    """A SELECT that the model ran over tables, and its result."""

    statement: str
    result: QueryResult

    @property
    def values(self) -> list[float]:
        """The numbers of the result."""
        return [value for row in self.result.rows for value in row if isinstance(value, int | float)]


class SourceList:
    """The sources of an answer while it is made: a citation `[n]` is the n-th, from 1.

    Attributes:
        hits: the sources in the order of their numbers.
        computed: the computations among them, by the id of the passage that shows the result.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.hits = list(evidence.hits)
        self.computed = dict(evidence.computed)

    def number(self, hits: Iterable[Hit]) -> list[int]:
        """Return the citation numbers of hits; new ones become sources."""
        numbers = {hit.passage.id: number for number, hit in enumerate(self.hits, 1)}
        hit_numbers = []
        for hit in hits:
            if hit.passage.id not in numbers:
                self.hits.append(hit)
                numbers[hit.passage.id] = len(self.hits)
            hit_numbers.append(numbers[hit.passage.id])
        return hit_numbers


@dataclass(frozen=True)
class Draft:
    """The result of the answer and revise steps: an answer before it is checked.

    Attributes:
        text: the complete answer, a procedure included, with citation marks `[n]`: the n-th of `hits`, from 1.
        assessment: the judgment that the answer expresses, which may differ from that of the decide step.
        hits: the sources.
        procedure: the items of the answer's list if that is a procedure.
        answers: the answer to each part; "" for a part that is not answered. Empty if the answer is not divided into
            parts.
        claims: the text to check, "" if the answer is a quotation and needs no check, or None for all of `text`.
        unstated: the sentences that the model marked as not stated in the documents.
        computed: the computations among the sources, by the id of the passage that shows the result.
        reasoning: what the model wrote for itself before the answer.
    """

    text: str
    assessment: Assessment
    hits: tuple[Hit, ...] = ()
    procedure: tuple[ProcedureStep, ...] = ()
    answers: tuple[str, ...] = ()
    claims: str | None = None
    unstated: tuple[str, ...] = ()
    computed: Mapping[str, Computation] = field(default_factory=dict)
    reasoning: str = ""

    def report(self, turn: Turn) -> None:
        """Report nothing: the text was streamed while it was written."""

    def with_sources(self, sources: SourceList) -> Draft:
        """Return the draft with the sources that it cites."""
        return replace(self, hits=tuple(sources.hits), computed=sources.computed)


@dataclass(frozen=True)
class CheckedDraft(Draft):
    """The result of the verify step: an answer without marks that have no source, and what checking it found.

    Attributes:
        sub_questions: the parts of the question, and whether the answer covers them.
    """

    checks: Checks = field(default_factory=Checks)
    sub_questions: tuple[SubQuestion, ...] = ()

    def report(self, turn: Turn) -> None:
        """Report the checks."""
        turn.report("verify", "", **self.checks.model_dump())


UnderstandStep = Step[[], UnderstoodMessage]
"""Finds out what a message asks for in its conversation."""
RetrieveStep = Step[[UnderstoodMessage], Evidence]
"""Finds evidence."""
DecideStep = Step[[Evidence], Assessment]
"""Judges whether the evidence answers the message."""
AnswerStep = Step[[UnderstoodMessage, Evidence, Assessment], Draft]
"""Answers from the evidence, and streams the answer (`Turn.stream`)."""
ReviseStep = Step[[UnderstoodMessage], Draft]
"""Changes the last answer as the message instructs, and streams it (`Turn.stream`)."""
VerifyStep = Step[[UnderstoodMessage, Draft], CheckedDraft]
"""Checks an answer against its sources."""


@dataclass
class Steps:
    """The steps of an assistant, each in one form."""

    understand: UnderstandStep
    retrieve: RetrieveStep
    decide: DecideStep
    answer: AnswerStep
    revise: ReviseStep
    verify: VerifyStep
