"""The gains of all configurations, measured question by question and kept in a journal."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.core.console import Progress
from turnmark.core.grouping import batched
from turnmark.core.record import Record
from turnmark.evaluation.storage.journal import Journal
from turnmark.evaluation.tune.contenders import open_contender
from turnmark.evaluation.tune.gains import PassagePlaces, measure_gains
from turnmark.evaluation.tune.plan import TunePlan, keys_of
from turnmark.evaluation.tune.questions import TuneQuestion, hide_answers
from turnmark.evaluation.tune.rankings import record_lists, reranker_of
from turnmark.evaluation.tune.searches import queries_of
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER

if TYPE_CHECKING:
    from turnmark.evaluation.scores.cluster_statistics import Bools, Floats

BUILDS_FOLDER = "builds"
"""Folder in that of the tuning with the builds of contenders, which is removed once the result is written."""
QUESTIONS_AT_ONCE = 8
"""Number of questions whose results are lost at most if the work is killed."""


class QuestionGains(Record):
    """The gain of every configuration for one question."""

    key: str = Field(description="changes with the question, the index, the configurations and the version")
    gains: tuple[float, ...]


def gains_of(plan: TunePlan, questions: Sequence[TuneQuestion], asked: Bools, progress: Progress) -> Floats:
    """Return the gain of each configuration for each question that is asked, (configurations, questions)."""
    import numpy as np

    chosen = [question for question, is_asked in zip(questions, asked.tolist(), strict=True) if is_asked]
    keys = keys_of(plan, (question.model_dump_json() for question in chosen))
    journal = Journal(plan.out / "gains.jsonl", QuestionGains, lambda one: one.key)
    if not all(key in journal for key in keys):
        index = open_contender(plan.index, plan.contender, plan.out / BUILDS_FOLDER, progress)
        progress.start(f"questions: {plan.contender}" if str(plan.contender) else "questions", len(chosen))
        progress.advance(sum(key in journal for key in keys))
        missing = [(one, key) for one, key in zip(chosen, keys, strict=True) if key not in journal]
        with tempfile.TemporaryDirectory(prefix="turnmark-tune-") as scratch:
            for hides in (False, True):
                some = [pair for pair in missing if pair[0].hides == hides]
                if some and hides:  # every question decides what is hidden, so that a resumed run has the same copy
                    index = copy_with_passages(index, hide_answers(index, questions), Path(scratch))
                _measure_missing(plan, index, some, journal, progress)
    return np.array([found.gains for key in keys if (found := journal.get(key))]).T


def _measure_missing(
    plan: TunePlan,
    index: StoredIndex,
    missing: Sequence[tuple[TuneQuestion, str]],
    journal: Journal[str, QuestionGains],
    progress: Progress,
) -> None:
    """Measure questions over an index or its copy, and write their gains by their keys."""
    for batch in batched(missing, QUESTIONS_AT_ONCE):
        columns = measure_questions(plan, index, [question for question, _ in batch]).T
        for (_, key), column in zip(batch, columns, strict=True):
            journal.append(QuestionGains(key=key, gains=tuple(round(gain, 6) for gain in column.tolist())))
        progress.advance(len(batch))


def measure_questions(plan: TunePlan, index: StoredIndex, questions: Sequence[TuneQuestion]) -> Floats:
    """Return the gain of each configuration for some questions over an index or its copy."""
    places = _places_of(index)
    recorded = record_lists(index, plan.retriever, queries_of(index, plan.retriever, questions), plan.choices)
    answering = [places.answering(question.gold) for question in questions]
    share = index.manifest.share_of("dense") if reranker_of(plan.retriever) == LATE_RERANKER else 1.0
    return measure_gains(recorded, answering, places.lengths, plan.choices, share)


@lru_cache(maxsize=2)
def _places_of(index: StoredIndex) -> PassagePlaces:
    return PassagePlaces(index)
