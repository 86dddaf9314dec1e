"""What is agreed on: answers with what people, another judge, or a run of ours say of each.

A rating is of an answer, not of a task: a run's scores join the row of the same task only where the run's answer is the
text that was rated.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.inspector import Evaluation, RatedAnswer, read_evaluation
from turnmark.corpora.mtrag import canonical_id, conversation_of
from turnmark.corpora.rows import Row, filled, json_lines, objects, string
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Problem
from turnmark.evaluation import facts
from turnmark.evaluation.metrics.agreement import harmonic_mean
from turnmark.evaluation.records import Panel, Sample, Summary
from turnmark.evaluation.report.stored import StoredRun, read_run, samples, scores
from turnmark.evaluation.summary import Facts

FANC = ("faithfulness", "appropriateness", "naturalness", "completeness")
"""The properties that people rate, in the order of MTRAG's tables."""
ALL = "FANC"
"""The harmonic mean of the four, answer by answer, of the medians of the raters."""
_BASELINES = ("[lead]", "[-lead]", "[always-unknown]")
_PARTS = ("unknown.", "clarify.", "hidden.")  # what a sample adds to a ratio is no score of it
LARGEST = 1e300
"""A score beyond it, NaN included, is none."""
LEFT_OUT = "_idk"
"""Ends the names of an official file's conditioned scores, which are 0 where the paper's rule gives 1."""


@dataclass
class Answer:
    """An answer and all that is said of it.

    Attributes:
        target: the reference answer, where a file has it.
        ratings: property -> a rating for each person.
        reference: what the scores are held against: the medians of the raters, or another judge's scores.
        scores: metric -> value.
    """

    task: str
    system: str
    text: str
    answerability: str | None = None
    target: str = ""
    ratings: dict[str, tuple[float, ...]] = field(default_factory=dict)
    reference: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def conversation(self) -> str:
        """What is resampled as one."""
        return conversation_of(self.task)


@dataclass
class Gathered:
    """All rows of a request.

    Attributes:
        people: whether the reference scores are those of people.
        properties: names of the reference scores, in the order of the tables.
        metrics: names of the scores that are held against them.
        points: property -> step of its scale.
        panels: metric of a run -> its judges.
        systems: system -> its name in words.
    """

    sources: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    people: bool = False
    properties: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    points: dict[str, float] = field(default_factory=dict)
    panels: dict[str, Panel] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def gather(paths: Sequence[Path]) -> Gathered:
    """Read files first, then join the runs to them; runs alone are rows of their own.

    Raises:
        RequestError: everything that is wrong with the request.
    """
    errors, made = ErrorCollector(), Gathered()
    paths = list(dict.fromkeys(paths))
    files = [path for path in paths if path.is_file()]
    for path in files:
        errors.collect(_add_file, path, made)
    runs = [run for path in paths if path not in files and (run := errors.collect(_run, path)) is not None]
    errors.raise_all()
    for run in runs:
        errors.collect(_join if files else _alone, run, made)
    errors.raise_all()
    made.metrics = list(dict.fromkeys(name for answer in made.answers for name in answer.scores))
    if not made.answers:
        raise RequestError("there is no answer in what was named, or none that can be read")
    return made


# --- files -----------------------------------------------------------------------------------------------------------


def _add_file(path: Path, made: Gathered) -> None:
    """Tell the two forms apart by how the file begins: one JSON object, or lines with a task id each."""
    if path.suffix == ".jsonl":
        _add_lines(path, made)
    else:
        _add_evaluation(read_evaluation(path), path.name, made)
    made.sources.append(path.name)


def _add_evaluation(found: Evaluation, source: str, made: Gathered) -> None:
    made.people |= bool(found.people)
    made.problems += found.problems
    made.points |= found.points
    made.systems |= found.models
    named = [*(name for name in ("win-rate", *FANC) if name in found.people)]
    named += [name for name in found.people if name not in named]
    if all(name in found.people for name in FANC):
        named.insert(named.index(FANC[-1]) + 1, ALL)
    made.properties += [name for name in named if name not in made.properties]
    _add_answers([_rated(rated, found) for rated in found.answers], source, made)


def _rated(rated: RatedAnswer, found: Evaluation) -> Answer:
    ratings = {name: tuple(by.values()) for name, by in rated.ratings.items() if name in found.people}
    medians = {name: float(statistics.median(values)) for name, values in ratings.items()}
    if all(name in medians for name in FANC):
        whole = harmonic_mean([medians[name] for name in FANC])
        medians |= {ALL: whole} if whole is not None else {}
    task = found.tasks[rated.task]
    return Answer(
        task=canonical_id(rated.task),
        system=rated.model,
        text=rated.response,
        answerability=task.answerability,
        target=task.reference,
        ratings=ratings,
        reference=medians,
        scores=dict(rated.scores),
    )


def _add_lines(path: Path, made: Gathered) -> None:
    """An official prediction file with another judge's scores under `metrics`."""
    made.systems[path.stem] = path.stem
    found: list[Answer] = []
    for number, row in json_lines(path, path.name):
        if isinstance(row, Problem):
            made.problems.append(row)
            continue
        try:
            answer, left_out = _line(row, path.stem)
        except ValueError as error:
            made.problems.append(Problem(file=path.name, line=number, what=str(error)))
            continue
        made.problems += [
            Problem(file=path.name, line=number, what=f"metrics.{name} is no number") for name in left_out
        ]
        found.append(answer)
        made.properties += [name for name in answer.reference if name not in made.properties]
    if not found:
        raise RequestError(
            f"{str(path)!r} has no line with an answer and scores: `task_id`, `predictions` and `metrics` were expected"
        )
    _add_answers(found, path.name, made)


def _add_answers(answers: Sequence[Answer], source: str, made: Gathered) -> None:
    """Take in the answers of a file; one that an earlier file has too counts once, with what both say of it."""
    there: dict[str, dict[str, list[Answer]]] = {}
    for answer in made.answers:
        there.setdefault(answer.system, {}).setdefault(answer.task, []).append(answer)
    new: dict[str, list[Answer]] = {}
    for answer in answers:
        new.setdefault(answer.system, []).append(answer)
    for system, mine in new.items():
        twin = system if system in there else next((name for name in there if _alike(mine, there[name])), system)
        if twin != system:
            made.systems.pop(system, None)
        pairs: list[tuple[Answer, Answer]] = []
        for answer in mine:
            answer.system = twin
            same = [one for one in there.get(twin, {}).get(answer.task, ()) if _says_the_same(one, answer)]
            if same:
                pairs.append((same[0], answer))
            else:
                made.answers.append(answer)
        if pairs:
            made.notes.append(_put_together(pairs, system, source))


def _alike(answers: Sequence[Answer], there: Mapping[str, Sequence[Answer]]) -> bool:
    """Whether these are a system's answers under another name: the same to every task of both, and not to one alone."""
    both = [(answer, there[answer.task]) for answer in answers if answer.task in there]
    same = all(any(_says_the_same(one, answer) for one in others) for answer, others in both)
    return same and len({answer.text for answer, _ in both}) > 1


def _says_the_same(one: Answer, other: Answer) -> bool:
    return _same(one.text, other.text) or _same(other.text, one.text)


def _put_together(pairs: Sequence[tuple[Answer, Answer]], system: str, source: str) -> str:
    """Put what a further file says of answers beside what is there; the note on it.

    Ratings and labels are those of the first file that has them. A score that is another one in the further file has
    that file's name beside its own.
    """
    apart = {
        name for one, other in pairs for name, value in other.scores.items() if one.scores.get(name, value) != value
    }
    otherwise = 0
    for one, other in pairs:
        otherwise += any(one.reference.get(name, value) != value for name, value in other.reference.items())
        one.ratings = other.ratings | one.ratings
        one.reference = other.reference | one.reference
        one.answerability, one.target = one.answerability or other.answerability, one.target or other.target
        named = {f"{name} ({source})" if name in apart else name: value for name, value in other.scores.items()}
        one.scores = named | one.scores
    name = pairs[0][0].system
    told = f"{source}: {len(pairs)} answers of {system} are answers of {name} in an earlier file; each counts once"
    return f"{told}; {otherwise} of them are rated otherwise there, and the earlier ratings hold" if otherwise else told


def _line(row: Row, system: str) -> tuple[Answer, list[str]]:
    """A row, and its metrics that have no number."""
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("'metrics' is missing, or no object")
    predictions = objects(row, "predictions")
    if not predictions:
        raise ValueError("'predictions' is empty")
    said = row.get("Answerability", row.get("answerability"))
    label = said[0] if isinstance(said, list) and said else said
    values = {name: _value(value) for name, value in metrics.items() if not name.endswith(LEFT_OUT)}
    answer = Answer(
        task=canonical_id(filled(row, "task_id")),
        system=system,
        text=string(predictions[0], "text"),
        answerability=label if isinstance(label, str) else None,
        reference={name: value for name, value in values.items() if value is not None},
    )
    return answer, [name for name, value in values.items() if value is None]


def _value(value: Any) -> float | None:
    first = value[0] if isinstance(value, list) and value else value
    number = isinstance(first, int | float) and not isinstance(first, bool) and abs(first) <= LARGEST
    return float(first) if number else None


# --- runs ------------------------------------------------------------------------------------------------------------


def _run(path: Path) -> StoredRun:
    stored = read_run(path)
    if stored.several:
        inside = ", ".join(str(run.path) for run in stored.runs) or "none has ended"
        raise RequestError(f"RUN {str(path)!r} holds the runs of `eval all`; name one of them: {inside}")
    if not (path / "predictions.jsonl").is_file():
        raise RequestError(f"RUN {str(path)!r} has no predictions.jsonl; score or evaluate again")
    return stored.runs[0]


def sample_metrics(summary: Summary) -> list[str]:
    """The metrics of a run that say something of a single answer: no baselines, no parts of a ratio."""
    return [name for name in summary.metrics if not name.endswith(_BASELINES) and not name.startswith(_PARTS)]


def _measured(run: StoredRun) -> Iterator[tuple[Sample, dict[str, float]]]:
    """The samples that are done, of the first repeat, and their scores."""
    done = [sample for sample in samples(run.path) if sample.status == "done" and not sample.repeat]
    found = scores(run.path, [sample.key for sample in done], sample_metrics(run.summary))
    for sample in done:
        yield sample, {name: score.value for name, score in found[sample.key].items() if score.value is not None}


def _join(run: StoredRun, made: Gathered) -> None:
    """Put a run's scores beside the rows whose very answer it scored; under its own name where a score is there."""
    rated: dict[str, list[Answer]] = {}
    for answer in made.answers:
        rated.setdefault(answer.task, []).append(answer)
    found: dict[str, list[tuple[Answer, dict[str, float]]]] = {}
    tasks = 0
    for sample, values in _measured(run):
        rows = rated.get(sample.id, [])
        tasks += bool(rows)
        for row in rows:
            if _same(row.text, sample.prediction):
                found.setdefault(row.system, []).append((row, values))
    if not found:
        raise RequestError(
            f"RUN {str(run.path)!r}: none of its answers is one that the file rates ({tasks} tasks in common); ratings "
            "are of answers, so the run has to be of the same ones (turnmark score)"
        )
    # A run is of one system, though two of them may now and then say the same.
    system = max(found, key=lambda name: len(found[name]))
    joined = found[system]
    there = {name for row, _ in joined for name in row.scores}
    for row, values in joined:
        row.scores |= {f"{name} ({run.path.name})" if name in there else name: one for name, one in values.items()}
    _say_judges(run, made)
    made.sources.append(run.path.name)
    made.notes.append(f"{run.path.name}: its answers are those of {system} to {len(joined)} of {tasks} tasks in common")


def _same(rated: str, written: str | None) -> bool:
    return written is not None and rated.split() in (written.split(), strip_citations(written).split())


def _alone(run: StoredRun, made: Gathered) -> None:
    known: Mapping[str, Facts] = facts.read(run.path, run.summary.benchmark) or {}
    name = run.path.name
    for sample, values in _measured(run):
        labels = known[sample.id].labels.get("answerability", ()) if sample.id in known else ()
        answer = Answer(
            task=sample.id,
            system=name,
            text=sample.prediction or "",
            answerability=labels[0] if labels else None,
            scores=values,
        )
        made.answers.append(answer)
    made.systems[name] = name
    _say_judges(run, made)
    made.sources.append(name)


def _say_judges(run: StoredRun, made: Gathered) -> None:
    for metric, panel in run.summary.judging.items():
        made.panels[metric if metric not in made.panels else f"{metric} ({run.path.name})"] = panel
