"""What judges are asked of InsCoQA: INSEVAL's judge score and task completion (section 5.1, appendix E).

The paper's rate is |M_c| / K: of the reply's steps those that are also in the reference, over the number of the
reference's steps; 1 at most. That is `task_completion`. `task_coverage` counts the reference's steps that the reply
holds, over the same K. They differ where one step of the reply holds two of the reference, or two hold one.

A percentage that a model writes down is a guess at a count; a list of the pairs that it counts can be held against both
procedures. So a second call asks for that list, by index: it gives `task_coverage` and `task_completion[steps]`.

`judge_score[embedded]` and `task_completion[embedded]` are plain formulas without a language model, in English only.
There is no public copy of the data, so nothing could be fitted; docs/measured.md says what they are worth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, model_validator

from turnmark.assistant.asking import Failure, ask, one_a_line
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.client import short_text
from turnmark.assistant.steps.support import stems
from turnmark.corpora.text import sentences, words
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.extractive import VARIANT, Embed, SentenceVectors, parts_of
from turnmark.evaluation.judging.rubrics import (
    EMBEDDED,
    OWN_WORDS,
    RAW,
    TOO_LONG,
    Outcome,
    Rubric,
    by_code,
    checked,
    failed_outcome,
    judge_prompt,
    needs,
)
from turnmark.evaluation.judging.verdicts import ask_ratings
from turnmark.evaluation.metrics.matching import LEAST, match_steps, step_likeness
from turnmark.evaluation.prompts import JUDGES, asks_for_text
from turnmark.evaluation.scores.metric_info import MetricStyle
from turnmark.retrieval.embed import shared_embedder

JUDGE_SCORE, COMPLETION, COVERAGE = "judge_score", "task_completion", "task_coverage"
BY_STEPS = f"{COMPLETION}[steps]"
STEP, REFERENCE_STEP = "step", "reference step"
"""Names of the texts in `Case.more`: each step of the reply's procedure, and each of the reference's, in order."""
PLAIN: Mapping[str, str] = {"Total rating": "rating", "Task completion rate": "completion"}
"""The lines that appendix E asks for -> fields of `InsevalReply`."""
NO_STEPS = "the reply is empty"
TOKENS_PER_STEP = 24
_NUMBER = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,4})?)\s*(?:/\s*([0-9]{1,3})|%)?\s*")


def judged_steps(case: Case) -> tuple[list[str], list[str]]:
    """The steps of the reply and those of the reference; a reply without any is judged by its lines, or sentences."""
    steps, expected = ([text for name, text in case.more if name == kind] for kind in (STEP, REFERENCE_STEP))
    if not steps:
        lines = [line.strip() for line in case.answer.splitlines() if line.strip()]
        steps = lines if len(lines) > 1 else [case.answer[start:end] for start, end in sentences(case.answer)]
    return steps, expected


def _number(value: object, top: float) -> object:
    """A number as judges write it: `7`, `"8/10"`, `"85%"`; anything else is left to be refused."""
    if isinstance(value, bool):
        raise ValueError("a number was expected, not true or false")
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value)
    if match is None or (match[2] is not None and float(match[2]) != top):
        raise ValueError(f"a number up to {top:g} was expected")
    return float(match[1])


class InsevalReply(BaseModel):
    """What the prompt `inseval` asks for."""

    reason: Annotated[str, short_text()] = ""
    rating: Annotated[float, BeforeValidator(lambda value: _number(value, 10))]
    completion: Annotated[float, BeforeValidator(lambda value: _number(value, 100))]

    @model_validator(mode="after")
    def _on_the_scales(self) -> Self:
        if not 1 <= self.rating <= 10:
            raise ValueError(f"rating: a number from 1 to 10 was expected, not {self.rating:g}")
        if not 0 <= self.completion <= 100:
            raise ValueError(f"completion: a percentage from 0 to 100 was expected, not {self.completion:g}")
        if 0 < self.completion <= 1:
            # A hundredth of a procedure is no step of it: this is a fraction, and 1 may mean all of it.
            raise ValueError(
                f"completion: a percentage from 0 to 100 was expected, not the fraction {self.completion:g}"
            )
        return self


class CoveredStep(BaseModel):
    """A reference step, and the number of a reply's step that agrees with it."""

    step: int
    by: int


class StepsReply(BaseModel):
    """What the prompt `inseval-steps` asks for."""

    covered: list[CoveredStep]


def _problem(reply: StepsReply, expected: int, steps: int) -> str | None:
    """What is wrong with a list over so many reference steps and so many of the reply."""
    pairs = [(pair.step, pair.by) for pair in reply.covered]
    if not all(1 <= step <= expected for step, _ in pairs):
        return f"the reference steps are numbered from 1 to {expected}"
    if len(set(pairs)) < len(pairs):
        return "each pair is listed once"
    return None if all(1 <= by <= steps for _, by in pairs) else f"the assistant's steps are numbered from 1 to {steps}"


def _inseval(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    steps, expected = judged_steps(case)
    texts = {"steps": one_a_line(steps) or "(none)", "reference_steps": one_a_line(expected)}
    prompt = judge_prompt("inseval", case, generator, prompts, ("question", "answer", "reference"), texts)
    if prompt is None:
        return TOO_LONG
    if asks_for_text(JUDGES.load("inseval", prompts)):
        reply, usage = ask_ratings(generator, prompt.messages, PLAIN, InsevalReply)
    else:
        reply, usage = ask(generator, prompt.messages, InsevalReply, max_tokens=generator.reply_tokens)
    if isinstance(reply, Failure):
        return failed_outcome(reply, usage, prompt.notes)
    reason = f"{' '.join(reply.reason.split())} (completion {reply.completion:g}%)"
    return Outcome(
        status="scored", value=reply.rating, reason=reason.strip()[-RAW:], notes=prompt.notes, usage=usage,
        also={COMPLETION: reply.completion / 100},
    )  # fmt: skip


def _by_steps(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    steps, expected = judged_steps(case)
    if not steps:
        return Outcome(status="scored", value=0.0, reason=NO_STEPS, also={BY_STEPS: 0.0})
    texts = {"steps": one_a_line(steps), "reference_steps": one_a_line(expected)}
    limit = max(generator.reply_tokens, TOKENS_PER_STEP * (len(expected) + len(steps)))
    prompt = judge_prompt(
        "inseval-steps", case, generator, prompts, ("question",), texts, {"count": str(len(expected))}, limit
    )
    if prompt is None:
        return TOO_LONG
    counts = len(expected), len(steps)
    form = checked(StepsReply, sum(counts), lambda reply: _problem(reply, *counts))
    reply, usage = ask(generator, prompt.messages, form, max_tokens=limit)
    if isinstance(reply, Failure):
        return failed_outcome(reply, usage, prompt.notes)
    first_by = {pair.step: pair.by for pair in reversed(reply.covered)}
    completion = min(1.0, len({pair.by for pair in reply.covered}) / len(expected))
    return covered_outcome(first_by, steps, expected).model_copy(
        update={"notes": prompt.notes, "usage": usage, "also": {BY_STEPS: completion}}
    )


def covered_outcome(covered: dict[int, int], steps: list[str], expected: list[str]) -> Outcome:
    """The share |covered| / K of the reference's steps, with each of them and what covers it.

    Args:
        covered: number of a reference step -> number of the reply's step that covers it, both from 1.
        steps: the reply's steps.
        expected: the reference's; K of them, one at least.
    """
    parts = tuple(
        f"covered by step {covered[n]} ({steps[covered[n] - 1]}): {step}" if n in covered else f"not covered: {step}"
        for n, step in enumerate(expected, 1)
    )
    missing = "; ".join(step for n, step in enumerate(expected, 1) if n not in covered)
    reason = f"{len(covered)} of {len(expected)} reference steps are covered" + (f"; not: {missing}" if missing else "")
    return Outcome(status="scored", value=len(covered) / len(expected), reason=reason, parts=parts)


def without_procedure(case: Case) -> str | None:
    """Why completion does not apply: the data has no procedure."""
    return None if judged_steps(case)[1] else "the data has no reference procedure"


RATING_SHOWN = MetricStyle(digits=(2, 2), fraction=False, headline=60)
COMPLETION_SHOWN = MetricStyle(headline=50)
INSEVAL = Rubric(
    JUDGE_SCORE, f"rating 1-10, and the reply's steps found in the reference / its steps (appendix E), {OWN_WORDS}",
    ("inseval",),
    _inseval, needs(reference=True), also=(COMPLETION,),
    shown={JUDGE_SCORE: RATING_SHOWN, COMPLETION: COMPLETION_SHOWN},
)  # fmt: skip
STEPS = Rubric(
    COVERAGE, f"share of reference steps that the reply holds; in [steps] task_completion; by a list, {OWN_WORDS}",
    ("inseval-steps",), _by_steps, without_procedure, also=(BY_STEPS,),
)  # fmt: skip


SCORE_NAME, COMPLETION_NAME = f"{JUDGE_SCORE}{VARIANT}", f"{COMPLETION}{VARIANT}"
BETA = 2.0
"""How much more what is missing of the reference counts than what else the reply says: the grades of appendix E
speak of what is missing, and ask for detail."""


def extractive_inseval(embed: Embed, embedder: str) -> tuple[Rubric, Rubric]:
    """The two measures, the same for the same case, always; nobody's model but the embedded judge's is looked at.

    Args:
        embed: texts -> unit vectors, from any thread.
        embedder: its spec.
    """
    embedded = SentenceVectors(embed)
    prefix = f"embedded judge over {embedder}, no language model: "
    return (
        Rubric(
            SCORE_NAME, f"{prefix}1 + 9 F{BETA:g} of meaning and words shared with the reference", (),
            by_code(EMBEDDED, partial(_score, embedded=embedded)), needs(reference=True),
            extra=json.dumps([embedder, BETA]), shown=RATING_SHOWN,
        ),
        Rubric(
            COMPLETION_NAME, f"{prefix}share of reference steps matched one to one", (),
            by_code(EMBEDDED, partial(_completion, embedded=embedded)), without_procedure,
            extra=json.dumps([embedder, LEAST]), shown=COMPLETION_SHOWN,
        ),
    )  # fmt: skip


def _score(case: Case, embedded: SentenceVectors) -> Outcome:
    sentences, expected = parts_of(case.answer), parts_of(case.reference)
    if not sentences:
        return Outcome(status="scored", value=1.0, reason="the reply has no words")
    if not expected:
        return Outcome(status="not_applicable", reason="the reference has no words")
    recall, precision = _held(expected, sentences, embedded), _held(sentences, expected, embedded)
    below = BETA**2 * precision + recall
    value = 1 + 9 * ((1 + BETA**2) * precision * recall / below if below else 0.0)
    reason = f"{recall:.2f} of the reference is in the reply, {precision:.2f} of the reply in the reference"
    return Outcome(status="scored", value=value, reason=reason)


def _held(parts: Sequence[str], other_sentences: Sequence[str], embedded: SentenceVectors) -> float:
    """How much of some sentences other ones hold, 0..1: for each the mean of its best cosine with one of them and of
    the share of its stemmed content words that any of them has; sentences weigh as many as they have words."""
    best = (embedded(parts) @ embedded(other_sentences).T).max(axis=1)
    other_stems = stems(" ".join(other_sentences))
    total = covered = 0.0
    for part, cosine in zip(parts, best, strict=True):
        mine = stems(part)
        share = len(mine & other_stems) / len(mine) if mine else 1.0
        covered += len(words(part)) * (min(1.0, max(0.0, float(cosine))) + share) / 2
        total += len(words(part))
    return covered / total


def _completion(case: Case, embedded: SentenceVectors) -> Outcome:
    steps, expected = judged_steps(case)
    if not steps:
        return Outcome(status="scored", value=0.0, reason=NO_STEPS)
    covered = match_steps(step_likeness(expected, steps, embedded(expected) @ embedded(steps).T))
    return covered_outcome(covered, steps, expected)


def inscoqa_rubrics(_setting: str | None, embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.benchmarks.task.Task.rubrics`.

    `task_completion` comes with the judge score, `task_completion[steps]` with the coverage.
    """
    return INSEVAL, STEPS, *extractive_inseval(shared_embedder(embedder), embedder)
