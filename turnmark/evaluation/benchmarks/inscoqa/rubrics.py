"""Rubrics of InsCoQA: INSEVAL's judge score and task completion (section 5.1, appendix E).

`task_completion` is the paper's rate |M_c| / K: the number of the reply's steps that are in the reference, divided by
the number K of the reference's steps; at most 1. `task_coverage` is the number of the reference's steps that are in the
reply, divided by K. The two differ if one step of the reply covers two of the reference, or two cover one.

A percentage that a model writes is a guess, but a list of matching steps can be checked. So a second call asks for the
pairs of step numbers, which give `task_coverage` and `task_completion[steps]`.

`judge_score[embedded]` and `task_completion[embedded]` are formulas without a language model, for English only. The
data are not public, so no weights could be fitted; docs/measured.md says how well they work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, model_validator

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.reply_schemas import limit_characters
from turnmark.assistant.llm.prompts.structured_output import ask, number_lines
from turnmark.assistant.steps.verify.claim_support import language_of_sources, stems
from turnmark.corpora.text.segmentation import sentences
from turnmark.evaluation.judging.embedded_judge import VARIANT, SentenceVectors, parts_of, weighted_mean
from turnmark.evaluation.judging.rubrics import (
    EMBEDDED_JUDGE,
    MAX_RAW_CHARACTERS,
    OWN_WORDS,
    add_check,
    by_code,
    judge_prompt,
    require_answer,
    require_material,
    unless_unreadable,
)
from turnmark.evaluation.judging.verdicts import ask_ratings
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics.matching import MIN_STEP_LIKENESS, match_steps, step_likeness
from turnmark.evaluation.prompts import JUDGES, asks_for_text
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome, Rubric
from turnmark.retrieval.embedding.embedders import shared_embedder
from turnmark.retrieval.embedding.vector_cache import Embed

JUDGE_SCORE, COMPLETION, COVERAGE = "judge_score", "task_completion", "task_coverage"
BY_STEPS = f"{COMPLETION}[steps]"
STEP, REFERENCE_STEP = "step", "reference step"
"""Names of the texts in `Case.more`: each step of the reply's procedure, and each of the reference's, in order."""
PLAIN_FIELDS: Mapping[str, str] = {"Total rating": "rating", "Task completion rate": "completion"}
"""Name of the line that appendix E asks for -> field of `InsevalReply`."""
EMPTY_REPLY = "the reply is empty"
TOKENS_PER_STEP = 24
_NUMBER = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,4})?)\s*(?:/\s*([0-9]{1,3})|%)?\s*")


def judged_steps(case: Case) -> tuple[list[str], list[str]]:
    """Return the steps of the reply and of the reference. A reply without steps is judged by its lines or sentences."""
    steps = [text for name, text in case.more if name == STEP]
    expected = [text for name, text in case.more if name == REFERENCE_STEP]
    if not steps:
        steps = [line.strip() for line in case.answer.splitlines() if line.strip()]
        if len(steps) < 2:
            steps = [case.answer[start:end] for start, end in sentences(case.answer)]
    return steps, expected


def _number(value: object, top: float) -> object:
    """Parse a number as judges write it: `7`, `"8/10"`, `"85%"`. Other types are left for pydantic to reject."""
    if isinstance(value, bool):
        raise ValueError("a number was expected, not true or false")
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value)
    if match is None or (match[2] is not None and float(match[2]) != top):
        raise ValueError(f"a number up to {top:g} was expected")
    return float(match[1])


class InsevalReply(BaseModel):
    """The reply that the prompt `inseval` asks for: a rating from 1 to 10 and a completion in percent."""

    reason: Annotated[str, limit_characters()] = ""
    rating: Annotated[float, BeforeValidator(lambda value: _number(value, 10))]
    completion: Annotated[float, BeforeValidator(lambda value: _number(value, 100))]

    @model_validator(mode="after")
    def _on_the_scales(self) -> Self:
        if not 1 <= self.rating <= 10:
            raise ValueError(f"rating: a number from 1 to 10 was expected, not {self.rating:g}")
        if not 0 <= self.completion <= 100:
            raise ValueError(f"completion: a percentage from 0 to 100 was expected, not {self.completion:g}")
        if 0 < self.completion <= 1:
            # No step is as little as 1% of a procedure, so the judge wrote a fraction, and 1 may mean 100%.
            raise ValueError(
                f"completion: a percentage from 0 to 100 was expected, not the fraction {self.completion:g}"
            )
        return self


class CoveredStep(BaseModel):
    """The number of a reference step, and the number of the reply's step that agrees with it."""

    step: int
    by: int


class StepsReply(BaseModel):
    """The reply that the prompt `inseval-steps` asks for."""

    covered: list[CoveredStep]


def _problem(reply: StepsReply, expected: int, steps: int) -> str | None:
    """Return what is wrong with a list, in words for the judge, or None if nothing is.

    Args:
        expected: number of reference steps.
        steps: number of steps of the reply.
    """
    pairs = [(pair.step, pair.by) for pair in reply.covered]
    if not all(1 <= step <= expected for step, _ in pairs):
        return f"the reference steps are numbered from 1 to {expected}"
    if len(set(pairs)) < len(pairs):
        return "each pair is listed once"
    if not all(1 <= by <= steps for _, by in pairs):
        return f"the assistant's steps are numbered from 1 to {steps}"
    return None


def _judge_rating(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    steps, expected = judged_steps(case)
    texts = {"steps": number_lines(steps) or "(none)", "reference_steps": number_lines(expected)}
    prompt = judge_prompt("inseval", case, generator, prompts, ("question", "answer", "reference"), texts)
    if asks_for_text(JUDGES.load("inseval", prompts)):
        asked = ask_ratings(generator, prompt.messages, PLAIN_FIELDS, InsevalReply)
    else:
        asked = ask(generator, prompt.messages, InsevalReply, max_tokens=generator.reply_tokens)
    reply = require_answer(asked, prompt.notes)
    reason = f"{' '.join(reply.reason.split())} (completion {reply.completion:g}%)"
    return Outcome(
        status="scored", value=reply.rating, reason=reason.strip()[-MAX_RAW_CHARACTERS:],
        notes=prompt.notes, also={COMPLETION: reply.completion / 100},
    )  # fmt: skip


def _judge_steps(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    steps, expected = judged_steps(case)
    if not steps:
        return Outcome(status="scored", value=0.0, reason=EMPTY_REPLY, also={BY_STEPS: 0.0})
    texts = {"steps": number_lines(steps), "reference_steps": number_lines(expected)}
    limit = max(generator.reply_tokens, TOKENS_PER_STEP * (len(expected) + len(steps)))
    prompt = judge_prompt(
        "inseval-steps", case, generator, prompts, ("question",), texts, {"count": str(len(expected))}, limit
    )
    counts = len(expected), len(steps)
    form = add_check(StepsReply, sum(counts), lambda reply: _problem(reply, *counts))
    reply = require_answer(ask(generator, prompt.messages, form, max_tokens=limit), prompt.notes)
    first_by = {pair.step: pair.by for pair in reversed(reply.covered)}
    completion = min(1.0, len({pair.by for pair in reply.covered}) / len(expected))
    outcome = covered_outcome(first_by, steps, expected)
    return outcome.model_copy(update={"notes": prompt.notes, "also": {BY_STEPS: completion}})


def covered_outcome(covered: dict[int, int], steps: list[str], expected: list[str]) -> Outcome:
    """Return the outcome |covered| / K; its parts say which step covers each reference step.

    Args:
        covered: number of a reference step -> number of the reply's step that covers it, both from 1.
        steps: the reply's steps.
        expected: the K reference steps; K is at least 1.
    """
    parts: list[str] = []
    missing: list[str] = []
    for number, step in enumerate(expected, 1):
        if number in covered:
            covering = covered[number]
            parts.append(f"covered by step {covering} ({steps[covering - 1]}): {step}")
        else:
            parts.append(f"not covered: {step}")
            missing.append(step)
    reason = f"{len(covered)} of {len(expected)} reference steps are covered"
    if missing:
        reason += f"; not: {'; '.join(missing)}"
    return Outcome(status="scored", value=len(covered) / len(expected), reason=reason, parts=tuple(parts))


def without_procedure(case: Case) -> str | None:
    """Return that completion does not apply because the data have no procedure, or None if it applies."""
    _, expected = judged_steps(case)
    return None if expected else "the data has no reference procedure"


RATING_SHOWN = MetricStyle(digits=(2, 2), fraction=False, headline=60)
COMPLETION_SHOWN = MetricStyle(headline=50)
INSEVAL = Rubric(
    JUDGE_SCORE, f"rating 1-10, and the reply's steps found in the reference / its steps (appendix E), {OWN_WORDS}",
    ("inseval",),
    _judge_rating, require_material(reference=True), also=(COMPLETION,),
    shown={JUDGE_SCORE: RATING_SHOWN, COMPLETION: COMPLETION_SHOWN},
)  # fmt: skip
STEPS = Rubric(
    COVERAGE, f"share of reference steps that the reply holds; in [steps] task_completion; by a list, {OWN_WORDS}",
    ("inseval-steps",), _judge_steps, without_procedure, also=(BY_STEPS,),
)  # fmt: skip


SCORE_NAME, COMPLETION_NAME = f"{JUDGE_SCORE}{VARIANT}", f"{COMPLETION}{VARIANT}"
BETA = 2.0
"""Beta of the F score: recall weighs more than precision, because the grades of appendix E punish missing content and
ask for detail."""


def extractive_inseval(embed: Embed, embedder: str) -> tuple[Rubric, Rubric]:
    """Return the rubrics of the embedded judge: judge score and task completion. They are deterministic.

    Args:
        embed: function from texts to unit vectors; may be called from any thread.
        embedder: the embedder's spec.
    """
    embedded = SentenceVectors(embed)
    prefix = f"embedded judge over {embedder}, no language model: "
    return (
        Rubric(
            SCORE_NAME, f"{prefix}1 + 9 F{BETA:g} of meaning and words shared with the reference", (),
            by_code(EMBEDDED_JUDGE, partial(_score, embedded=embedded)),
            unless_unreadable(embedder, require_material(reference=True)),
            extra=json.dumps([embedder, BETA]), shown=RATING_SHOWN,
        ),
        Rubric(
            COMPLETION_NAME, f"{prefix}share of reference steps matched one to one", (),
            by_code(EMBEDDED_JUDGE, partial(_completion, embedded=embedded)),
            unless_unreadable(embedder, without_procedure),
            extra=json.dumps([embedder, MIN_STEP_LIKENESS]), shown=COMPLETION_SHOWN,
        ),
    )  # fmt: skip


def _score(case: Case, embedded: SentenceVectors) -> Outcome:
    answer, reference = parts_of(case.answer), parts_of(case.reference)
    if not answer:
        return Outcome(status="scored", value=1.0, reason="the reply has no words")
    if not reference:
        return Outcome(status="not_applicable", reason="the reference has no words")
    recall = _overlap(reference, answer, embedded)
    precision = _overlap(answer, reference, embedded)
    denominator = BETA**2 * precision + recall
    f_score = (1 + BETA**2) * precision * recall / denominator if denominator else 0.0
    value = 1 + 9 * f_score
    reason = f"{recall:.2f} of the reference is in the reply, {precision:.2f} of the reply in the reference"
    return Outcome(status="scored", value=value, reason=reason)


def _overlap(sentences: Sequence[str], other_sentences: Sequence[str], embedded: SentenceVectors) -> float:
    """Return how much of the content of some sentences is in other sentences, in 0..1.

    The value of a sentence is the mean of its best cosine with another sentence and of the share of its stemmed content
    words that occur in any of them. Sentences are weighted by their numbers of words.
    """
    best_cosines = (embedded(sentences) @ embedded(other_sentences).T).max(axis=1)
    language = language_of_sources(other_sentences)
    other_stems = stems(" ".join(other_sentences), language)
    values: list[float] = []
    for sentence, cosine in zip(sentences, best_cosines, strict=True):
        sentence_stems = stems(sentence, language)
        shared = len(sentence_stems & other_stems) / len(sentence_stems) if sentence_stems else 1.0
        values.append((min(1.0, max(0.0, float(cosine))) + shared) / 2)
    return weighted_mean(sentences, values)


def _completion(case: Case, embedded: SentenceVectors) -> Outcome:
    steps, expected = judged_steps(case)
    if not steps:
        return Outcome(status="scored", value=0.0, reason=EMPTY_REPLY)
    covered = match_steps(step_likeness(expected, steps, embedded(expected) @ embedded(steps).T))
    return covered_outcome(covered, steps, expected)


def inscoqa_rubrics(_setting: str | None, embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.tasks.task.Task.rubrics`.

    The rubric of `judge_score` also gives `task_completion`, that of `task_coverage` `task_completion[steps]`.
    """
    return INSEVAL, STEPS, *extractive_inseval(shared_embedder(embedder), embedder)
