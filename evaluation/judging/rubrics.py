"""A rubric: one question to a judge about a reply, with its prompt, how the answer is read, and when it applies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.structured import Failure
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.judging.judgements import (
    RAW,
    Case,
    Fitted,
    Messages,
    Outcome,
    fit,
    placeholder_values,
    room_for,
)
from turnmark.evaluation.judging.verdicts import Offer, ask_verdict
from turnmark.evaluation.metrics.agreement import Level
from turnmark.evaluation.prompts import load_prompt
from turnmark.evaluation.records import Sample

BERT = ("bert_recall", "bert_k_precision", "rb_alg")
"""Metrics of `bertscore` judges, by whichever model."""
EMBEDDED = "embedded"
"""The judge without a language model, and what ends the names of its metrics in square brackets."""
OWN_WORDS = "prompt in our own words"
UNDERSPECIFIED = "UNDERSPECIFIED"

Ask = Callable[[Generator, Case, Path | None], Outcome]


@dataclass(frozen=True)
class Rubric:
    """One metric that a judge gives a value to.

    Attributes:
        name: of the metric.
        by: what the metric is, for whoever sets it beside a published one.
        prompts: names of those that it asks with.
        ask: the judge, the case, the folder with own prompts -> what the judge says.
        without: case -> why there is nothing to judge; None: there is.
        level: of the values, for the judges' agreement.
        values: label -> value, where judges choose a label: several are summed up by majority, and not by the median.
        extra: what else can change an outcome, such as the embedder.
        also: names of further metrics that come out of the same call (`Outcome.also`).
        offers: what its verdict is one of; None: it is not made of a verdict.
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


_FORM = 1
"""Of what a key means; raised when an older judgement must not be used again."""


def judgement_key(case: Case, rubric: Rubric, prompts: Mapping[str, str], judge: str) -> str:
    """SHA-256 over all that can change a judgement.

    Args:
        prompts: name -> hash of those that the rubric asks with.
        judge: its spec in normal form.
    """
    case_fields = {**asdict(case), "history": [[turn.role, turn.content] for turn in case.history]}
    if not case.more:
        del case_fields["more"]  # keys of cases without are what they were
    parts = [_FORM, rubric.name, rubric.extra, sorted(prompts.items()), judge, case_fields]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def prompts_digest(prompts: Mapping[str, str]) -> str:
    """One hash of several prompts: 16 digits of a SHA-256; empty where there are none.

    Args:
        prompts: name -> hash of those that a rubric asks with.
    """
    pairs = json.dumps(sorted(prompts.items())).encode("ascii")
    return hashlib.sha256(pairs).hexdigest()[:16] if prompts else ""


def failed(failure: Failure, usage: Usage, notes: Sequence[str] = ()) -> Outcome:
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
        parts: what of the case it shows beside passages and history, by the case's own names, each between marks.
        extra_texts: further texts that it shows, each between marks.
        plain: values of ours that stand there without marks.
        reply: tokens of the reply; None: the generator's own.
    """
    prompt = load_prompt(name, prompts)
    texts = {part: str(getattr(case, part)) for part in parts} | dict(extra_texts or {})

    def render(passages: Sequence[str], history: Sequence[Message]) -> Messages:
        return prompt.render(**placeholder_values(prompt, case, texts, passages, history), **(plain or {}))

    passages = (case.passages or ()) if "passages" in prompt.placeholders else ()
    earlier = case.history if {"history", "conversation"} & prompt.placeholders else ()
    return fit(render, passages, earlier, room_for(generator, reply))


def by_verdict(name: str, offer: Offer, value: Callable[[str, float | None], float], *parts: str) -> Ask:
    """A rubric that is one prompt and one verdict."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt(name, case, generator, prompts, parts, dict(case.more))
        if prompt is None:
            return TOO_LONG
        reply, usage = ask_verdict(generator, prompt.messages, offer, prompts)
        if isinstance(reply, Failure):
            return failed(reply, usage, prompt.notes)
        verdict = reply.verdict
        return Outcome(
            status="scored",
            value=value(verdict.label, verdict.value),
            label=verdict.label if verdict.value is None else None,
            reason=reply.text[-RAW:],
            notes=prompt.notes,
            usage=usage,
        )

    return asked


def by_code(judge: str, grade: Callable[[Case], Outcome]) -> Ask:
    """What one judge without a language model says: another judge beside it, or an estimate, costs nothing here."""

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


CaseOf = Callable[[Item, Sample, Any], Case]
"""Item, a sample of it that is done, what the metrics look at -> what is judged."""


@dataclass(frozen=True)
class JudgedTask:
    """What judges are asked of the replies of one task of a benchmark.

    Attributes:
        rubrics: those whose names end in `[embedded]` are for the embedded judge, the others for language models.
        case: how a sample becomes what is judged.
    """

    rubrics: Sequence[Rubric]
    case: CaseOf
