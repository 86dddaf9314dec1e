"""The result of a check: shares with intervals, and the questions with their faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.check.request import MAX_FOUND_RANK

QuestionKind = Literal["known", "hidden", "sentence"]
WORST_SHOWN = 5
"""Number of questions on the screen, those with the most faults."""


class Share(Record):
    """A number of questions, out of all that count, with the interval of the share."""

    count: int
    n: int
    ci95: tuple[float, float] | None = Field(description="Wilson's interval of the share, or None if nothing counts")


def share(count: int, n: int) -> Share:
    """Return a share with its 95% interval by Wilson's score, which is valid for few questions (Wilson 1927)."""
    from scipy.stats import binomtest

    if not n:
        return Share(count=0, n=0, ci95=None)
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return Share(count=count, n=n, ci95=(round(float(low), 4), round(float(high), 4)))


class QuestionResult(Record):
    """One question and its result."""

    id: str
    kind: QuestionKind = Field(
        description="known: the index answers it; hidden: its section was hidden; sentence: removed from its passage"
    )
    question: str
    passage: str = Field(description="id of the passage that it was written from")
    place: str = Field(description="headings above that passage, or its document")
    text: str = Field(description="text of the passage")
    rank: int | None = Field(
        default=None, description="rank of its section, or a near-copy, among the passages, or None if not found"
    )
    first: str = Field(default="", description="place of the passage found first instead")
    decision: str | None = None
    hedged: bool = False
    answer: str = ""
    reference: str = Field(default="", description="the answer that was written with the question")
    support: float | None = Field(default=None, description="0..1 by the judge, or None if it is not judged")
    agreement: float | None = Field(
        default=None, description="share of the reference's words in the answer, or None without a reference"
    )
    failed: str | None = Field(default=None, description="why it has no answer; it is not counted")
    why: tuple[str, ...] = Field(default=(), description="its faults, in words")


def is_found(one: QuestionResult) -> bool:
    """Return whether the right section of a question, or a near-copy, is among the first passages."""
    return one.rank is not None and one.rank <= MAX_FOUND_RANK


class RetrieverComparison(Record):
    """The same sentences, searched with another retriever before."""

    retriever: str
    found: Share
    difference: float = Field(description="share of found sentences of this retriever minus that of the other one")
    ci95: tuple[float, float] | None = Field(description="over documents, or None if there are too few")
    p: float = Field(description="permutation test over documents")


class CheckResult(Record):
    """The result of a check, which `--json` prints."""

    index: str
    documents: int
    passages: int
    generator: str
    judge: str | None
    retriever: str
    out: str
    run: str = Field(description="folder of the run over the questions; empty for sentences")
    wanted: int
    found: Share = Field(
        description="right section or a near-copy among the first three, of known questions or sentences"
    )
    answered: Share | None = Field(default=None, description="of known questions")
    supported: Share | None = Field(default=None, description="of the answers to known questions")
    agreeing: Share | None = Field(
        default=None, description="of the answers to known questions, those that agree with the reference answer"
    )
    recognised: Share | None = Field(default=None, description="replies that say so, of hidden questions")
    hedged: int = Field(default=0, description="hidden questions with a hedged answer, which is not recognized")
    asked_back: int = Field(default=0, description="hidden questions that the assistant answered with a question")
    elsewhere: int = Field(
        default=0, description="hidden questions with an answer that the judge rates as supported by other sections"
    )
    copied: int = Field(default=0, description="hidden questions whose section has a near-copy; they are not counted")
    failed: int = 0
    worst: tuple[QuestionResult, ...]
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    notes: tuple[str, ...] = ()
    compared: tuple[RetrieverComparison, ...] = Field(
        default=(), description="other retrievers that searched for the same sentences"
    )
    other_runs: tuple[str, ...] = Field(default=(), description="finished runs over the same questions, to compare")


def worst_of(asked: Iterable[QuestionResult]) -> tuple[QuestionResult, ...]:
    """Return the questions with the most faults, the least supported first."""
    wrong = [one for one in asked if one.why]

    def badness(one: QuestionResult) -> tuple[int, float, int]:
        support = 1.0 if one.support is None else one.support
        return -len(one.why), support, -(one.rank or 1_000)

    return tuple(sorted(wrong, key=badness)[:WORST_SHOWN])


def finished_of(asked: Sequence[QuestionResult], kind: QuestionKind) -> list[QuestionResult]:
    """Return the questions of a kind that have a result."""
    return [one for one in asked if one.kind == kind and one.failed is None]
