"""A run of a benchmark on one page: a plan becomes answers, scores, a summary and a report."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from turnmark.core.untrusted import one_line
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.html_page import write_page
from turnmark.evaluation.runs.judge_setup import open_judging
from turnmark.evaluation.runs.plan import CollectedAnswers, Plan
from turnmark.evaluation.runs.scoring import score_answers, summarize
from turnmark.evaluation.storage.run_folder import RunFolder, now, open_run
from turnmark.evaluation.tasks.data_notes import problem_notes


class FinishedRun(NamedTuple):
    """A finished run: its summary, its folder, and whether failures stopped it."""

    summary: Summary
    folder: Path
    gave_up: bool


def run_plan(plan: Plan) -> FinishedRun:
    """Carry out a plan, or continue it in its folder: make the missing samples, score all samples, write the report."""
    judging = open_judging(plan)
    with open_run(plan.folder, plan.manifest) as folder:
        answers = collect_answers(plan, folder)
        scores = score_answers(plan, folder, answers.task, judging)
        summary = summarize(plan, answers, scores)
        folder.finish(summary, now())
    write_page(plan.folder)
    return FinishedRun(summary, plan.folder, answers.gave_up)


def collect_answers(plan: Plan, folder: RunFolder) -> CollectedAnswers:
    """Collect the missing samples from the plan's source, with notes on what earlier calls and other versions made."""
    for line in folder.resumed:  # shown before the work begins, and repeated in the notes
        sys.stderr.write(f"turnmark: {one_line(line)}\n")
    finished = len(folder.samples) - folder.samples.unfinished
    pending = plan.samples - finished
    folder.reopen(pending)
    answers = plan.source.collect(plan, folder, pending)
    notes = [*folder.resumed, *problem_notes(folder.samples.problems)]
    if answers.stopped:
        notes.append(answers.stopped)
    if finished and not plan.request.scoring:
        verb = "queries were searched" if plan.task.retrieves else "samples were answered"
        notes.append(f"{finished} of {plan.samples} {verb} by an earlier call; the seconds are for this call only")
    return replace(answers, notes=(*notes, *plan.task.finish(folder)))
