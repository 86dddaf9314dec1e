"""A rubric: one question to a judge about a reply, with its prompt, how the answer is read, and when it applies; and
what came of it: the outcome of one judge, and the file that keeps every outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, create_model, model_validator

from turnmark.assistant.asking import Failure
from turnmark.assistant.budget import Fitted, fit_prompt, room_for
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.verdicts import Offer, ask_verdict
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import ScoreStatus
from turnmark.evaluation.runs.journal import Journal
from turnmark.evaluation.scores.metric_info import PLAIN, How
from turnmark.evaluation.scores.stats import Level

T = TypeVar("T", bound=BaseModel)
BERT = ("bert_recall", "bert_k_precision", "rb_alg")
"""Metrics of `bertscore` judges, by whichever model."""
EMBEDDED = "embedded"
"""The judge without a language model, and what ends the names of its metrics in square brackets."""
OWN_WORDS = "prompt in our own words"
UNDERSPECIFIED = "UNDERSPECIFIED"
RAW = 20_000
"""Characters that are kept of what a judge wrote, of its end where it wrote more."""
REASON = 600
"""Characters of a judge's reasons that a score repeats; the rest is in `judgements.jsonl`."""
FILE = "judgements.jsonl"


class Outcome(Record):
    """What one judge made of a case.

    `failed`: the instrument failed, never the system; the reason says how, and `raw` holds what the judge wrote.
    """

    status: ScoreStatus
    value: FiniteFloat | None = Field(default=None, description="scored: in the units of the metric")
    label: str | None = Field(default=None, description="scored by a label: which of those on offer")
    reason: str = Field(default="", description="the judge's reasons; not scored: why there is no value")
    kind: str | None = Field(default=None, description="failed: the type of the failure, such as `invalid`, `length`")
    raw: str = Field(default="", description="failed: the last text that the judge wrote")
    parts: tuple[str, ...] = Field(default=(), description="what it was made of: claims with their verdicts, questions")
    notes: tuple[str, ...] = Field(default=(), description="what of the material the judge was not shown")
    weight: float = Field(
        default=1.0, gt=0, description="how much the value counts in a mean, such as parts it is over"
    )
    also: dict[str, FiniteFloat | None] = Field(
        default_factory=dict, description="further metrics of the same call; None: not applicable"
    )
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _status_fits(self) -> Outcome:
        if (self.status == "scored") != (self.value is not None):
            raise ValueError("an outcome has a value where it is scored, and nowhere else")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed outcome has a reason")
        return self


class Judgement(Outcome):
    """One line of `judgements.jsonl`: what a judge made of a case, found again by `key` when a run is scored anew."""

    key: str = Field(description="SHA-256 of all that can change it: the case, the measure, its prompts, the judge")
    id: str = Field(description="of the first sample that it was made for")
    repeat: int = 0
    measure: str
    judge: str = Field(description="spec in normal form")
    prompts: str = Field(default="", description="of a language model: hash of what it was asked with; empty: unknown")
    models: tuple[str, ...] = Field(default=(), description="that answered, as their endpoint names them")
    seconds: FiniteFloat = 0.0
    tries: int = Field(default=1, description="times it was asked for; `usage` is that of all of them")


def open_judgements(path: Path) -> Journal[str, Judgement]:
    """The judgements of a run, by key; one that failed is asked for again."""
    return Journal(path, Judgement, lambda judgement: judgement.key, lambda judgement: judgement.status != "failed")


Ask = Callable[[Generator, Case, Path | None], Outcome]


@dataclass(frozen=True)
class Rubric:
    """One metric that a judge gives a value to.

    Attributes:
        name: of the metric.
        by: what the metric is, for whoever compares it with a published one.
        prompts: names of those that it asks with.
        ask: the judge, the case, the folder with own prompts -> what the judge says.
        without: case -> why there is nothing to judge; None: there is.
        level: of the values, for the judges' agreement.
        values: label -> value, where judges choose a label: several are summed up by majority, and not by the median.
        extra: what else can change an outcome, such as the embedder.
        also: names of further metrics that come out of the same call (`Outcome.also`).
        offers: what its verdict is one of; None: it is not made of a verdict.
        shown: how reports show the metric and those that it also gives.
    """

    name: str
    by: str
    prompts: tuple[str, ...]
    ask: Ask
    without: Callable[[Case], str | None] = lambda _: None
    level: Level = "interval"
    values: Mapping[str, float] | None = None
    extra: str = ""
    also: tuple[str, ...] = ()
    offers: Offer | None = None
    shown: How = PLAIN

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that come out of it."""
        return (self.name, *self.also)


_FORM = 1
"""Of what a key means; raised when an older judgement must not be used again."""


def judgement_key(case: Case, rubric: Rubric, prompts: Mapping[str, str], judge: str) -> str:
    """SHA-256 over all that can change a judgement.

    Args:
        prompts: name -> hash of those that the rubric asks with.
        judge: its spec in normal form.
    """
    shown = {
        "question": case.question, "answer": case.answer, "reference": case.reference,
        "history": [[turn.role, turn.content] for turn in case.history],
        "passages": case.passages if case.passages_judged else (), "answerability": case.answerability,
        **({"more": case.more} if case.more else {}),
    }  # fmt: skip
    parts = [_FORM, rubric.name, rubric.extra, sorted(prompts.items()), judge, shown]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def prompts_digest(prompts: Mapping[str, str]) -> str:
    """One hash of several prompts: 16 digits of a SHA-256; empty without prompts.

    Args:
        prompts: name -> hash of those that a rubric asks with.
    """
    pairs = json.dumps(sorted(prompts.items())).encode("ascii")
    return hashlib.sha256(pairs).hexdigest()[:16] if prompts else ""


def failed_outcome(failure: Failure, usage: Usage, notes: Sequence[str] = ()) -> Outcome:
    """The outcome of a judge that gave no verdict."""
    reason = f"{failure.kind.replace('_', ' ')}: {failure.reason or 'no usable reply came'}"
    return Outcome(
        status="failed", kind=failure.kind, reason=reason, raw=failure.raw[-RAW:], notes=tuple(notes), usage=usage
    )


TOO_LONG = Outcome(
    status="failed",
    kind="too_long",
    reason="too long: question, reply and reference do not fit into the judge's context",
)


def judge_prompt(
    name: str,
    case: Case,
    generator: Generator,
    prompts: Path | None,
    parts: Sequence[str],
    extra_texts: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    reply: int | None = None,
) -> Fitted | None:
    """The prompt `name` over a case, within the judge's context; None where it does not fit.

    Args:
        parts: what of the case it shows besides passages and history, by their names there, each between marks.
        extra_texts: further texts that it shows, each between marks.
        plain: our own values, without marks.
        reply: tokens of the reply; None: the generator's own.
    """
    prompt = JUDGES.load(name, prompts)
    shown = [part for part in ("question", "answer", "reference") if part in (*parts, *prompt.placeholders)]
    texts = {part: str(getattr(case, part)) for part in shown} | dict(extra_texts or {})
    passages = (case.passages or ()) if case.passages_judged else ()
    return fit_prompt(prompt, room_for(generator, reply), texts, passages, case.history, plain, case.question)


def checked(schema: type[T], most: int, check: Callable[[T], str | None]) -> type[T]:
    """A schema for one case, whose values pass a check too: a reply that does not is asked for once more.

    Args:
        most: items of its lists.
        check: value -> what is wrong with it, in words for the judge; None: nothing.
    """

    def raised(value: T) -> T:
        if problem := check(value):
            raise ValueError(problem)
        return value

    validator: Any = model_validator(mode="after")(raised)
    return create_model(
        schema.__name__, __base__=schema, __validators__={"checked": validator}, most_items=(ClassVar[int], most)
    )


def by_verdict(name: str, offer: Offer, value: Callable[[str, float | None], float], *parts: str) -> Ask:
    """A rubric that is one prompt and one verdict."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt(name, case, generator, prompts, parts, dict(case.more))
        if prompt is None:
            return TOO_LONG
        verdict, usage = ask_verdict(generator, prompt.messages, offer, prompts)
        if isinstance(verdict, Failure):
            return failed_outcome(verdict, usage, prompt.notes)
        return Outcome(
            status="scored",
            value=value(verdict.label, verdict.value),
            label=verdict.label if verdict.value is None else None,
            reason=verdict.text[-RAW:],
            notes=prompt.notes,
            usage=usage,
        )

    return asked


def by_code(judge: str, grade: Callable[[Case], Outcome]) -> Ask:
    """What one judge without a language model says: another judge, or an estimate, costs nothing here."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != judge:
            return Outcome(status="not_applicable", reason=f"only the judge {judge!r} is asked for it")
        return grade(case)

    return asked


def tenth(_: str, number: float | None) -> float:
    assert number is not None, "a scale gives a number"
    return number / 10


def needs(passages: bool = False, reference: bool = False) -> Callable[[Case], str | None]:
    """Why a rubric does not apply to a case, or None: it is underspecified, or lacks what the rubric looks at."""

    def without(case: Case) -> str | None:
        if case.answerability == UNDERSPECIFIED:
            return "underspecified tasks count in `clarification` alone"
        if reference and not case.reference.strip():
            return "the data has no reference answer"
        if passages and case.passages is None:
            return "not all texts of the passages are known"
        return None

    return without
