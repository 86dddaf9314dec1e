"""Ask a person's own questions of an index, and report which replies are right.

OUT/answers-HASH/   a run over the questions, one for each configuration, index and file; the same command resumes it
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from turnmark.core.errors import ErrorCollector
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.evaluation.benchmarks.index_questions import MIN_FAITHFULNESS
from turnmark.evaluation.check.index_runs import plan_over_index
from turnmark.evaluation.check.judged_figures import (
    AGREEMENT_NAME,
    MIN_AGREEMENT,
    SUPPORT_NAME,
    means_of,
    support_judge,
)
from turnmark.evaluation.check.own_questions.facts import find_facts
from turnmark.evaluation.check.own_questions.question_file import (
    OwnQuestion,
    check_documents,
    read_questions,
    read_replies,
)
from turnmark.evaluation.check.own_questions.question_task import BENCHMARK, OwnQuestions, first_documents
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.check.result import Share, share
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.runs.benchmark_run import run_plan
from turnmark.evaluation.runs.judge_setup import judge_problems
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.storage.corpus_passages import span_of
from turnmark.evaluation.storage.journal import read_records
from turnmark.evaluation.storage.run_folder import stored_manifest
from turnmark.evaluation.synth.synthesis_folder import join_passages
from turnmark.evaluation.tasks.items import MISSING_KIND
from turnmark.retrieval.search.opened_index import StoredIndex, open_index

FIGURES = {
    "right": "replies that meet all conditions of their question",
    "facts": "replies that state all facts, and nothing that is wrong",
    "document": "questions whose document is among those of the first three passages",
    "unknown": "unanswerable questions that the reply calls unknown",
    "agrees": "replies with enough of the words of the reference answer",
    "supported": "answers that their passages support, by the judge",
}
"""The figures of a check of one's own questions, and what each is the share of."""


RESULT_FILE = "questions.json"
"""The result of a check in the folder of its run, for the comparison with the next one."""


class QuestionOutcome(Record):
    """One question, what was expected of its reply, and what was found."""

    place: str = Field(description="where it is in the file, such as `row 7`")
    question: str
    right: bool | None = Field(description="whether all conditions are met, or None if it has none or has no reply")
    met: Mapping[str, bool] = Field(default_factory=dict, description="figure -> whether its condition is met")
    why: tuple[str, ...] = Field(default=(), description="what is wrong, in words")
    decision: str | None = None
    answer: str = ""
    documents: tuple[str, ...] = Field(default=(), description="documents of the first passages")
    failed: str | None = Field(default=None, description="why it has no reply; it is not counted")


class EarlierRun(Record):
    """The last run over the same file, and which questions changed since."""

    run: str
    generator: str
    started: str
    figures: Mapping[str, Share]
    better: tuple[str, ...] = Field(description="questions that were wrong and are right now")
    worse: tuple[str, ...] = Field(description="questions that were right and are wrong now")


class QuestionsResult(Record):
    """The result of a check of one's own questions, which `--json` prints."""

    index: str
    questions: str = Field(description="the file")
    generator: str
    retriever: str
    run: str
    figures: Mapping[str, Share] = Field(description="figure -> share of the questions with that condition")
    outcomes: tuple[QuestionOutcome, ...]
    failed: int
    earlier: EarlierRun | None
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    notes: tuple[str, ...] = ()


class Threshold(NamedTuple):
    """The smallest share of a figure with which the command succeeds."""

    figure: str
    least: float


def read_thresholds(texts: Sequence[str], errors: ErrorCollector) -> list[Threshold]:
    """Read `--fail-under FIGURE=VALUE`."""
    found: list[Threshold] = []
    for text in texts:
        figure, _, number = text.partition("=")
        try:
            least = float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            least = -1.0
        if figure.strip() not in FIGURES or not 0 <= least <= 1:
            errors.add(f"--fail-under {text}: expected FIGURE=SHARE, e.g. facts=.8; figures are {', '.join(FIGURES)}")
        else:
            found.append(Threshold(figure.strip(), least))
    return found


def missed_thresholds(result: QuestionsResult, thresholds: Sequence[Threshold]) -> Iterator[str]:
    """Yield what is below its threshold, or cannot be measured with this file."""
    for figure, least in thresholds:
        found = result.figures.get(figure)
        if found is None or not found.n:
            yield f"--fail-under {figure}={least:g}: no question of the file has this figure"
        elif found.count / found.n < least:
            yield f"{figure} is {found.count / found.n:.2f} ({found.count} of {found.n}), below {least:g}"


@dataclass(frozen=True)
class QuestionsPlan:
    """A checked request, with its run."""

    request: CheckRequest
    index: StoredIndex
    questions: Mapping[str, OwnQuestion]
    thresholds: Sequence[Threshold]
    plan: Plan
    began: float


def plan_questions(request: CheckRequest, errors: ErrorCollector, only: Sequence[str] = ()) -> QuestionsPlan:
    """Check a request.

    Args:
        only: ids of the questions to ask, which no judge grades; if empty, all are asked.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    path = request.questions
    assert path is not None, "the command comes here with a file of questions"
    thresholds = read_thresholds(request.fail_under, errors)
    index = errors.collect(open_index, request.index) if request.index else None
    questions = errors.collect(read_questions, path) or []
    if index is not None and questions:
        errors.collect(check_documents, questions, [entry.document for entry in index.store.documents()])
    judged = request.asks_model and not only
    if judged:
        errors.problems += judge_problems(BENCHMARK, ["generation"], [request.judge])
    errors.raise_all()
    assert index is not None
    out = request.out or Path("checks") / f"{index.manifest.name}-{path.stem}"
    values: dict[str, Any] = {"benchmark": BENCHMARK, "data": path, "only": tuple(only)}
    if request.answers:
        values["predictions"] = (_write_replies(out, errors.require(read_replies, request.answers, questions)),)
    elif judged:
        values["judge"] = (support_judge(request.judge),)
    plan = plan_over_index(request, index, out, values, errors)
    assert isinstance(plan.task, OwnQuestions)
    plan.task.text_of = partial(_text_of, index)
    asked = {one.id: one for one in questions if not only or one.id in only}
    return QuestionsPlan(request, index, asked, thresholds, plan, began)


def _write_replies(out: Path, replies: Mapping[OwnQuestion, str]) -> Path:
    """Write the replies of another system as predictions, and return their file."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "replies.jsonl"
    lines = (json.dumps({"id": own.id, "prediction": reply}) + "\n" for own, reply in replies.items())
    write_atomic(path, "".join(lines))
    return path


def _text_of(index: StoredIndex, name: str) -> str | None:
    """Return the text of a passage, or of a section that is joined from several; None for anything else."""
    wanted = span_of(name)
    if wanted is None:
        return None
    passages = [one for one in index.store.of_document(wanted.document) if wanted.start <= one.start < wanted.end]
    return join_passages(passages) or None


def run_questions(checked: QuestionsPlan) -> tuple[QuestionsResult, bool]:
    """Ask the questions that have no reply in the folder yet.

    Returns:
        The result, and whether failures stopped the work.
    """
    plan, request = checked.plan, checked.request
    summary, folder, gave_up = run_plan(plan)
    outcomes = _outcomes(checked.questions, folder)
    result = QuestionsResult(
        index=request.index,
        questions=str(request.questions),
        generator=str(request.answers) if request.answers else request.assistant.generator,
        retriever=plan.manifest.specs.get("retriever", "unknown"),
        run=str(folder),
        figures=_figures(outcomes),
        outcomes=tuple(outcomes),
        failed=sum(one.failed is not None for one in outcomes),
        earlier=_last_run(folder, outcomes),
        usage=summary.usage,
        seconds=round(time.perf_counter() - checked.began, 1),
        notes=plan.notes,
    )
    write_atomic(folder / RESULT_FILE, result.model_dump_json(indent=1) + "\n")
    return result, gave_up


def _outcomes(questions: Mapping[str, OwnQuestion], folder: Path) -> list[QuestionOutcome]:
    samples = {sample.id: sample for sample in read_records(folder / "predictions.jsonl", Sample)}
    met: dict[str, dict[str, bool]] = {}
    for figure in ("facts", "document", "unknown"):
        for name, value in means_of(folder, re.compile(figure)).items():
            met.setdefault(name, {})[figure] = value == 1
    for name, value in means_of(folder, AGREEMENT_NAME).items():
        met.setdefault(name, {})["agrees"] = value >= MIN_AGREEMENT
    support = means_of(folder, SUPPORT_NAME)
    for name, value in support.items():
        if samples[name].decision in ("answer", "partial"):
            met.setdefault(name, {})["supported"] = value >= MIN_FAITHFULNESS
    return [_outcome(own, samples.get(name), met.get(name, {})) for name, own in questions.items()]


def _outcome(own: OwnQuestion, sample: Sample | None, met: Mapping[str, bool]) -> QuestionOutcome:
    if sample is not None and sample.kind == MISSING_KIND:  # a system must not gain by leaving questions out
        met = dict.fromkeys(own.conditions, False)
        right = False if own.conditions else None
        return QuestionOutcome(place=own.place, question=own.question, right=right, met=met, why=("has no reply",))
    if sample is None or sample.status != "done":
        reason = (sample.reason or sample.status) if sample else "it was not asked"
        return QuestionOutcome(place=own.place, question=own.question, right=None, failed=reason)
    conditions = {figure: value for figure, value in met.items() if figure != "supported"}
    return QuestionOutcome(
        place=own.place,
        question=own.question,
        right=all(conditions.values()) if conditions else None,
        met=met,
        why=tuple(_faults(own, sample, met)),
        decision=sample.decision,
        answer=strip_citations(sample.prediction or ""),
        documents=first_documents(sample),
    )


def _faults(own: OwnQuestion, sample: Sample, met: Mapping[str, bool]) -> Iterator[str]:
    reply = sample.prediction or ""
    if sample.decision == "unknown" and not own.unanswerable:
        yield "the reply says that it is unknown"
    elif met.get("facts") is False:
        for fact, found in zip(own.facts, find_facts(own.facts, reply), strict=True):
            if not found:
                yield f"does not state: {fact}"
        for fact, found in zip(own.wrong, find_facts(own.wrong, reply), strict=True):
            if found:
                yield f"states what is wrong: {fact}"
    if met.get("document") is False:
        yield f"expected {own.document}, found {', '.join(first_documents(sample)) or 'nothing'}"
    if met.get("unknown") is False:
        yield "is answered, but the file says that the documents do not answer it"
    if met.get("agrees") is False:
        yield "has few words of the reference answer"
    if met.get("supported") is False:
        yield "is hardly supported by the passages found"


def _figures(outcomes: Sequence[QuestionOutcome]) -> dict[str, Share]:
    """Return the share of each figure that at least one question has."""
    values: dict[str, list[bool]] = {"right": [one.right for one in outcomes if one.right is not None]}
    for figure in FIGURES:
        values.setdefault(figure, [one.met[figure] for one in outcomes if figure in one.met])
    return {figure: share(sum(found), len(found)) for figure, found in values.items() if found}


def _last_run(folder: Path, outcomes: Sequence[QuestionOutcome]) -> EarlierRun | None:
    """Compare with the newest other finished run in the same folder, by the text of the questions."""
    others: list[tuple[str, Path]] = []
    for path in folder.parent.glob(f"{folder.name.partition('-')[0]}-*"):
        manifest = stored_manifest(path, RunManifest) if path != folder else None
        if manifest is not None and manifest.ended is not None and (path / RESULT_FILE).is_file():
            others.append((manifest.started, path))
    if not others:
        return None
    started, path = max(others)
    stored = QuestionsResult.model_validate_json((path / RESULT_FILE).read_bytes())
    before = {one.question: one.right for one in stored.outcomes}
    changed = [one for one in outcomes if None not in (one.right, before.get(one.question))]
    return EarlierRun(
        run=str(path),
        generator=stored.generator,
        started=started,
        figures=stored.figures,
        better=tuple(one.question for one in changed if one.right and not before[one.question]),
        worse=tuple(one.question for one in changed if not one.right and before[one.question]),
    )
