"""INSEVAL's judged metrics without a language model: `judge_score[embedded]` and `task_completion[embedded]`.

They share names with the published metrics and are none of them. No rating of a person stands behind either: there is
no public copy of the data, so nothing could be fitted, and both are plain formulas. What they are worth is in
docs/benchmarks.md. English only, as all that counts stemmed words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.support import stems
from turnmark.corpora.text import words
from turnmark.evaluation.judging.embedded import NAME, VARIANT
from turnmark.evaluation.judging.embedded_support import Embed, Embedded, parts_of
from turnmark.evaluation.judging.inscoqa_measures import (
    COMPLETION,
    JUDGE_SCORE,
    NO_STEPS,
    covered_outcome,
    steps_of,
    without_procedure,
)
from turnmark.evaluation.judging.measures import Measure, needs
from turnmark.evaluation.judging.records import Case, Outcome
from turnmark.evaluation.metrics.steps import LEAST, likeness, matched

SCORE_NAME, COMPLETION_NAME = f"{JUDGE_SCORE}{VARIANT}", f"{COMPLETION}{VARIANT}"
BETA = 2.0
"""How much more what is missing of the reference counts than what the reply says beside it: the grades of appendix E
speak of what is missing, and ask for detail."""


def embedded_inseval(embed: Embed, embedder: str) -> tuple[Measure, Measure]:
    """The two measures, the same for the same case, always; nobody's model but the embedded judge's is looked at.

    Args:
        embed: texts -> unit vectors, from any thread.
        embedder: its spec.
    """
    embedded = Embedded(embed)
    by = f"embedded judge over {embedder}, no language model: "
    return (
        Measure(
            SCORE_NAME, f"{by}1 + 9 F{BETA:g} of meaning and words shared with the reference", (),
            _asked(partial(_score, embedded=embedded)), needs(reference=True), extra=_extra(embedder, BETA),
        ),
        Measure(
            COMPLETION_NAME, f"{by}share of reference steps matched one to one", (),
            _asked(partial(_completion, embedded=embedded)), without_procedure, extra=_extra(embedder, LEAST),
        ),
    )  # fmt: skip


def _extra(embedder: str, number: float) -> str:
    return json.dumps([embedder, number])


def _asked(judge: Callable[[Case], Outcome]) -> Callable[[Generator, Case, Path | None], Outcome]:
    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != NAME:
            return Outcome(status="not_applicable", reason=f"only the judge {NAME!r} is asked for it")
        return judge(case)

    return asked


def _score(case: Case, embedded: Embedded) -> Outcome:
    said, wanted = parts_of(case.answer), parts_of(case.reference)
    if not said:
        return Outcome(status="scored", value=1.0, reason="the reply has no words")
    if not wanted:
        return Outcome(status="not_applicable", reason="the reference has no words")
    recall, precision = _held(wanted, said, embedded), _held(said, wanted, embedded)
    value = 1 + 9 * f_beta(precision, recall)
    reason = f"{recall:.2f} of the reference is in the reply, {precision:.2f} of the reply in the reference"
    return Outcome(status="scored", value=value, reason=reason)


def _held(parts: Sequence[str], others: Sequence[str], embedded: Embedded) -> float:
    """How much of some sentences other ones hold, 0..1: for each the mean of its best cosine with one of them and of
    the share of its stemmed content words that stand in any of them; sentences weigh as many as they have words."""
    best = (embedded(parts) @ embedded(others).T).max(axis=1)
    there = stems(" ".join(others))
    total = held = 0.0
    for part, cosine in zip(parts, best, strict=True):
        mine = stems(part)
        share = len(mine & there) / len(mine) if mine else 1.0
        held += len(words(part)) * (min(1.0, max(0.0, float(cosine))) + share) / 2
        total += len(words(part))
    return held / total


def f_beta(precision: float, recall: float, beta: float = BETA) -> float:
    """(1 + beta^2) P R / (beta^2 P + R), 0..1; 0 where both are."""
    below = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / below if below else 0.0


def _completion(case: Case, embedded: Embedded) -> Outcome:
    said, wanted = steps_of(case)
    if not said:
        return Outcome(status="scored", value=0.0, reason=NO_STEPS)
    covered = matched(likeness(wanted, said, embedded(wanted) @ embedded(said).T))
    return covered_outcome(covered, said, wanted)
