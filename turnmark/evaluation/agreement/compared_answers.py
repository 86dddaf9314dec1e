"""Gather the answers of `agreement`, with ratings of people and scores of our runs.

A rating belongs to an answer, not to a task: a run's scores are added to a rated answer only if the run's answer to the
task is the same text.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.grouping import group_pairs
from turnmark.core.home import file_sha256
from turnmark.corpora.benchmarks.inspector_raget import HumanEvaluation, read_evaluation
from turnmark.corpora.benchmarks.task_ids import canonical_id, conversation_of
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import Sample, Summary
from turnmark.evaluation.report.finished_runs import StoredRun, distinct_names, first_answers, read_one, scores
from turnmark.evaluation.report.rating_page import is_key, is_ratings, read_rated_answers
from turnmark.evaluation.scores.score_tally import Facts, read_facts
from turnmark.evaluation.tasks.rating_form import ANSWER_PROPERTIES

FANC_MEAN = "FANC"
"""Harmonic mean of an answer's four ratings, each the median of the raters."""
_BASELINE_SUFFIXES = ("[lead]", "[-lead]", "[always-unknown]")
_RATIO_PREFIXES = ("unknown.", "clarify.", "hidden.")  # ratios of counts, which do not score a single sample


@dataclass
class ComparedAnswer:
    """An answer with its ratings and scores.

    Attributes:
        ratings: property -> one rating for each person.
        scores: metric -> value.
    """

    task: str
    system: str
    text: str
    answerability: str | None = None
    ratings: dict[str, tuple[float, ...]] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @cached_property
    def reference(self) -> dict[str, float]:
        """Property -> the median of the raters; `FANC_MEAN` -> the harmonic mean of the four."""
        medians = {name: float(statistics.median(values)) for name, values in self.ratings.items()}
        if all(name in medians for name in ANSWER_PROPERTIES):
            medians[FANC_MEAN] = statistics.harmonic_mean([medians[name] for name in ANSWER_PROPERTIES])
        return medians

    @property
    def conversation(self) -> str:
        """The conversation, which is the cluster of the bootstrap."""
        return conversation_of(self.task)


@dataclass
class Rows:
    """All answers of a request.

    Attributes:
        properties: names of the reference scores, in the order of the tables.
        metrics: names of the scores that are compared with them.
        points: property -> step of its scale.
        systems: system -> displayed name.
    """

    sources: list[str] = field(default_factory=list)
    answers: list[ComparedAnswer] = field(default_factory=list)
    properties: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    points: dict[str, float] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def gather(paths: Sequence[Path]) -> Rows:
    """Read the files, then add the runs' scores to their answers; without files, the runs' answers are the rows.

    Raises:
        RequestError: a source cannot be read or used, or there is no answer.
    """
    errors = ErrorCollector()
    rows = Rows()
    paths = list(dict.fromkeys(paths))
    names = dict(zip(paths, distinct_names(paths), strict=True))
    files = [path for path in paths if path.is_file()]
    by_content: dict[str, Path] = {}
    for path in files:
        first = by_content.setdefault(file_sha256(path), path)
        if first is not path:
            errors.add(f"{names[first]} and {names[path]} are the same file; name one of them")
    errors.raise_all()
    errors.collect(_add_pages, files, rows)
    for path in files:
        if not (is_key(path) or is_ratings(path)):
            content = errors.collect(read_evaluation, path)
            if content is not None:
                _add_evaluation(content, names[path], rows)
    occurrences = Counter((answer.task, answer.system) for answer in rows.answers)
    duplicates = [key for key, count in occurrences.items() if count > 1]
    if duplicates:
        first_task, _ = duplicates[0]
        errors.add(f"{len(duplicates)} answers are in several files (the first: {first_task!r}); name one of the files")
    runs = {names[path]: errors.collect(read_one, path) for path in paths if path not in files}
    errors.raise_all()
    add_run = _add_scores if files else _add_run_answers
    for name, run in runs.items():
        assert run is not None, "errors.raise_all() raised otherwise"
        errors.collect(add_run, run, name, rows)
    errors.raise_all()
    rows.metrics = list(dict.fromkeys(name for answer in rows.answers for name in answer.scores))
    if not rows.answers:
        raise RequestError("the named files and runs contain no readable answer")
    return rows


# --- files -----------------------------------------------------------------------------------------------------------


def _add_pages(files: Sequence[Path], rows: Rows) -> None:
    rating_files = [path for path in files if is_ratings(path)]
    for key in filter(is_key, files):
        rated_list, problems = read_rated_answers(key, rating_files)
        answers = [ComparedAnswer(*rated) for rated in rated_list]
        rows.problems += problems
        _add_properties(rows, [name for answer in answers for name in answer.reference])
        rows.points |= dict.fromkeys((*ANSWER_PROPERTIES, "rating"), 1.0) | {"win-rate": 50.0}
        rows.systems |= {answer.system: answer.system for answer in answers}
        rows.answers += answers
        rows.sources += [key.name, *(path.name for path in rating_files)]


def _add_properties(rows: Rows, names: Sequence[str]) -> None:
    rows.properties = list(dict.fromkeys((*rows.properties, *names)))


def _add_evaluation(content: HumanEvaluation, name: str, rows: Rows) -> None:
    rows.sources.append(name)
    rows.problems += content.problems
    rows.points |= content.points
    rows.systems |= content.models
    ordered = [name for name in ("win-rate", *ANSWER_PROPERTIES) if name in content.people]
    if all(name in content.people for name in ANSWER_PROPERTIES):
        ordered.append(FANC_MEAN)
    _add_properties(rows, ordered)
    _add_properties(rows, content.people)
    for rated in content.answers:
        answer = ComparedAnswer(
            canonical_id(rated.task),
            rated.model,
            rated.response,
            content.tasks[rated.task].answerability,
            {name: tuple(by.values()) for name, by in rated.ratings.items() if name in content.people},
            dict(rated.scores),
        )
        rows.answers.append(answer)


def _normalize(text: str) -> str:
    return " ".join(strip_citations(text).split())


# --- runs ------------------------------------------------------------------------------------------------------------


def sample_metrics(summary: Summary) -> list[str]:
    """Return the metrics of a run that score a single answer: no baselines, no ratios of counts."""
    return [
        name
        for name in summary.metrics
        if not name.endswith(_BASELINE_SUFFIXES) and not name.startswith(_RATIO_PREFIXES)
    ]


def _scored_samples(run: StoredRun) -> Iterator[tuple[Sample, dict[str, float]]]:
    """Yield the finished samples of the first repeat, with their scores."""
    finished = first_answers(run.path).values()
    scores_of = scores(run.path, [sample.key for sample in finished], sample_metrics(run.summary))
    for sample in finished:
        yield sample, {name: score.value for name, score in scores_of[sample.key].items() if score.value is not None}


def _add_scores(run: StoredRun, name: str, rows: Rows) -> None:
    """Add a run's scores to the answers that it scored; a metric that is already there gets the run's name."""
    answers_of = group_pairs((answer.task, answer) for answer in rows.answers)
    matches: dict[str, list[tuple[ComparedAnswer, dict[str, float]]]] = {}
    tasks = 0
    for sample, values in _scored_samples(run):
        answers = answers_of.get(sample.id, [])
        if answers:
            tasks += 1
        for answer in answers:
            if sample.prediction is not None and _normalize(answer.text) == _normalize(sample.prediction):
                matches.setdefault(answer.system, []).append((answer, values))
    if not matches:
        raise RequestError(
            f"RUN {str(run.path)!r}: the file rates none of its answers ({tasks} shared tasks); a rating belongs to "
            "an answer, so name a run of the rated answers (turnmark score)"
        )
    # Two systems sometimes give the same answer, so the run belongs to the system with the most matches.
    system = max(matches, key=lambda match: len(matches[match]))
    matched = matches[system]
    existing = {metric for answer, _ in matched for metric in answer.scores}
    for answer, values in matched:
        for metric, value in values.items():
            answer.scores[f"{metric} ({name})" if metric in existing else metric] = value
    rows.sources.append(name)
    rows.notes.append(f"{name}: its answers match those of {system} on {len(matched)} of {tasks} shared tasks")


def _add_run_answers(run: StoredRun, name: str, rows: Rows) -> None:
    facts_of: Mapping[str, Facts] = read_facts(run.path) or {}
    for sample, values in _scored_samples(run):
        facts = facts_of.get(sample.id)
        labels = facts.labels.get("answerability", ()) if facts is not None else ()
        answer = ComparedAnswer(
            task=sample.id,
            system=name,
            text=sample.prediction or "",
            answerability=labels[0] if labels else None,
            scores=values,
        )
        rows.answers.append(answer)
    rows.systems[name] = name
    rows.sources.append(name)
