"""Answers to the sub-questions that replies are compared with: those of a run in the setting `dialogue`.

The paper has them from gpt-4o (section 5). Whoever checks them by hand edits `sub_answers` in that run's
`predictions.jsonl`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.benchmarks.compound_modes import DIALOGUE
from turnmark.evaluation.records import SubAnswer
from turnmark.evaluation.report.stored import read_run, samples


def read_references(run: Path) -> tuple[Mapping[str, tuple[SubAnswer, ...]], str]:
    """Id -> sub-questions with their answers, of the first repeat of what is done; and the file's SHA-256.

    Raises:
        RequestError: no run, or none of Compound-QA in the setting `dialogue` with an answer in it.
    """
    named = f"--references {str(run)!r}"
    try:
        stored = read_run(run)
    except RequestError as error:
        raise RequestError([f"--references: {problem}" for problem in error.problems]) from error
    summary = stored.runs[0].summary if stored.runs and not stored.several else None
    if summary is None or (summary.benchmark, summary.setting) != ("compound-qa", DIALOGUE):
        what = "the folder of several runs" if summary is None else " ".join(
            filter(None, (summary.benchmark, summary.task, summary.setting))
        )  # fmt: skip
        raise RequestError(f"{named} is {what}; name a run of compound-qa in the setting {DIALOGUE}")
    found = {
        sample.id: sample.sub_answers
        for sample in samples(run)
        if sample.status == "done" and not sample.repeat and any(part.answer.strip() for part in sample.sub_answers)
    }
    if not found:
        raise RequestError(f"{named}: none of its dialogues has an answer")
    return found, hashlib.sha256((run / "predictions.jsonl").read_bytes()).hexdigest()
