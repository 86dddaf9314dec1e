"""What judges are asked of KIWI's revisions: the rating that a user would give (section 2.2), by a model and by code.

Beside the published shares of good turns these are another instrument: there, users rated. In the other tasks a judge
is not the instrument but what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.structured import Failure
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.judging.asking import ask_verdict
from turnmark.evaluation.judging.juries import Jury
from turnmark.evaluation.judging.measures import OWN_WORDS, TOO_LONG, Measure, failed, fenced
from turnmark.evaluation.judging.records import RAW, Case, Outcome
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.records import Sample

GOOD, GOOD_EMBEDDED = "good", "good[embedded]"
REVISE = "revise"
PREVIOUS, INSTRUCTION = "previous", "instruction"
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> what it adds to the share of good turns."""
_OFFER = Labels(offered=tuple(RATINGS))


def names(benchmark: str, task: str) -> tuple[str, ...]:  # noqa: ARG001
    """See `turnmark.evaluation.judging.juries.names_of`."""
    return (GOOD, GOOD_EMBEDDED) if task == REVISE else ()


def jury(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:  # noqa: ARG001
    """See `turnmark.evaluation.judging.juries.jury_of`."""
    return Jury((_by_model(), _by_code()), case_of) if task == REVISE else None


def case_of(item: Item, sample: Sample, context: Any) -> Case:  # noqa: ARG001
    """A revision with the answer before it and its instruction, as written: instructions may be about references."""
    task = item.task
    more = ((PREVIOUS, context.previous_as_written), (INSTRUCTION, task.turn.instruction))
    return Case(question=task.session.question, answer=context.answer_as_written, more=more)


def _without(case: Case) -> str | None:
    return None if dict(case.more)[PREVIOUS].strip() else "there is no answer before the revision"


def _by_model() -> Measure:
    by = f"share of revisions that a judge rates good (section 2.2), {OWN_WORDS}"
    return Measure(GOOD, by, ("kiwi-rating",), _rated, _without, "nominal", RATINGS, offers=_OFFER)


def _rated(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    made = fenced("kiwi-rating", case, generator, prompts, ("question", "answer"), dict(case.more))
    if made is None:
        return TOO_LONG
    told, usage = ask_verdict(generator, made.messages, _OFFER, prompts)
    if isinstance(told, Failure):
        return failed(told, usage, made.notes)
    label = told.verdict.label
    return Outcome(
        status="scored", value=RATINGS[label], label=label, reason=told.text[-RAW:], notes=made.notes, usage=usage
    )


def _by_code() -> Measure:
    by = "embedded judge, no language model: constraints by code, unrequested change by sentence alignment"
    return Measure(GOOD_EMBEDDED, by, (), _read, _without, "nominal", RATINGS)


def _read(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
    from turnmark.evaluation.judging.embedded import NAME
    from turnmark.evaluation.judging.kiwi_code import read_revision

    if generator.name != NAME:
        return Outcome(status="not_applicable", reason=f"only the judge {NAME!r} is asked for it")
    more = dict(case.more)
    found = read_revision(more[INSTRUCTION], more[PREVIOUS], case.answer)
    return Outcome(status="scored", value=RATINGS[found.rating], label=found.rating, reason=found.reason)
