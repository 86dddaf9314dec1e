"""Files of predictions, of any system: a line a sample, in the official form of the MTRAG family or in ours.

The official form is that of MTRAG's generation tasks and of SemEval-2026 task 8, shortened:

    {"task_id": "18ef…<::>7", "Collection": "fiqa", "input": [{"speaker": "user", "text": "…"}],
     "contexts": [{"document_id": "162428-0-349", "text": "…", "title": "…", "score": 18.7}],
     "predictions": [{"text": "…"}]}

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation (the format checker and its readme). The checker
wants `input` and `contexts` too; as no answer is found by them, they may be left out here. Ours is a line of
`predictions.jsonl`, or as little of one as `id` and `prediction`. A run's folder means the file in it. Of a run's file
the last line of a sample holds, and a torn last line is left out, since the run may be going on; in a file from
elsewhere both are mistakes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from turnmark.assistant.types import Decision, Usage
from turnmark.corpora.console import inert
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.mtrag import Benchmark, canonical_id, domain_of
from turnmark.corpora.rows import Row, json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import RunManifest, Sample, SampleStatus
from turnmark.evaluation.trec import check_contexts, ends_a_line, list_mistakes, ranked

MTRAG_FAMILY: tuple[str, ...] = get_args(Benchmark)
_REMARKS = {
    "several": "more than one prediction in a line: the first is used, as by the official scripts",
    "no_contexts": "nothing is said of the passages that the answer rests on",
    "empty": "an empty answer",
    "superseded": "superseded by a later line of the same sample in the run",
    "torn": "torn at the end of a run's file: the sample was not finished",
}


@dataclass(frozen=True)
class Answers:
    """Answers that are written already, checked.

    Attributes:
        samples: in the order of the files.
        notes: what was decided on reading, for the report, such as lines that were superseded.
        paths: the files that were read.
    """

    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    paths: tuple[Path, ...]


class _Step(BaseModel):
    model_config = ConfigDict(extra="allow")

    step: str


class _Answer(Sample):
    """A sample as it may be written, with what its fields may hold."""

    id: str = Field(pattern=r"\S")
    repeat: int = Field(default=0, ge=0)
    status: SampleStatus = "done"
    decision: Decision | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    procedure: tuple[_Step, ...] = ()  # type: ignore[assignment]
    turn: int | None = Field(default=None, ge=0)
    usage: Mapping[str, Usage] = Field(default_factory=dict)

    @field_validator("procedure")
    @classmethod
    def _steps_have_a_text(cls, steps: tuple[Any, ...]) -> tuple[Any, ...]:
        return steps  # which is so by their type, each mistake with its field


def check_predictions(paths: Sequence[Path], benchmark: str) -> Answers:
    """Read files, and check every line.

    Args:
        paths: files, or folders of runs; several if a system wrote one for each domain.
        benchmark: its name as on the command line.
    """
    errors, reader = ErrorCollector(), _Reader(benchmark)
    files: list[Path] = []
    for path in paths:
        file = errors.collect(_find_file, path)
        if file and any(file.resolve() == earlier.resolve() for earlier in files):
            errors.add(f"--predictions {str(path)!r} is given twice")
        elif file:
            files.append(file)
            # Its name, unless another file has the same.
            unique = [other.name for other in set(paths)].count(path.name) == 1
            name = f"{path.name}/{file.name}" if path.is_dir() else file.name
            reader.read(file, name if unique else str(file))
    errors.problems += list_mistakes(reader.mistakes)
    if not paths:
        errors.add("--predictions: no file is named")
    errors.raise_all()
    return Answers(tuple(reader.samples.values()), tuple(reader.notes()), tuple(files))


def _find_file(path: Path) -> Path:
    """The file that a path means."""
    try:
        file = path / "predictions.jsonl" if path.is_dir() else path
        if path.is_dir() and not file.is_file():
            raise RequestError(f"--predictions {str(path)!r} is not a run: there is no predictions.jsonl in it")
        if file.exists() and not file.is_file():
            raise RequestError(f"--predictions {str(path)!r} is not a plain file")
        with open(file, "rb"):
            return file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RequestError(f"--predictions {str(path)!r} cannot be read: {reason}") from None


def _is_run(file: Path) -> bool:
    try:
        RunManifest.model_validate_json((file.parent / "manifest.json").read_bytes())
    except (OSError, ValidationError):
        return False
    return file.name == "predictions.jsonl"


class _Reader:
    """What the files answer, and what is wrong with them."""

    def __init__(self, benchmark: str) -> None:
        self.samples: dict[tuple[str, int], Sample] = {}
        self.mistakes: list[str] = []
        self._benchmark = benchmark
        self._lines: dict[tuple[str, int], tuple[str, int]] = {}
        self._remarks: Counter[str] = Counter()

    def read(self, file: Path, name: str) -> None:
        """Check one more file."""
        run, torn, number = _is_run(file), "", 0
        for number, row in json_lines(file, name):
            if torn:
                self.mistakes.append(torn)
            torn = str(row) if isinstance(row, Problem) else ""
            if not isinstance(row, Problem):
                self._take(row, name, number, run)
        if torn and run and not ends_a_line(file):
            self._remarks["torn"] += 1
        elif torn:
            self.mistakes.append(torn)
        if not number:
            self.mistakes.append(f"{name}: no line in it; a line for each answer was expected")

    def _take(self, row: Row, name: str, number: int, run: bool) -> None:
        mistakes, remarks = list[str](), list[str]()
        try:
            sample = read_line(row, self._benchmark, mistakes, remarks)
        except ValueError as error:
            mistakes.append(str(error))
            sample = None
        self.mistakes += [f"{name}:{number}: {mistake}" for mistake in mistakes]
        self._remarks.update(remarks)
        if sample is None:
            return
        earlier = self._lines.get(sample.key)
        if earlier and not (run and earlier[0] == name):
            who = quoted(sample.id) + (f", repeat {sample.repeat}" if sample.repeat else "")
            self.mistakes.append(f"{name}:{number}: {who} is answered already in {earlier[0]}:{earlier[1]}")
            return
        if earlier:
            self._remarks["superseded"] += 1
            del self.samples[sample.key]
        if sample.contexts and not run:  # a run's are in the order in which they were shown
            sample = sample.model_copy(update={"contexts": ranked(sample.contexts)})
        self._lines[sample.key], self.samples[sample.key] = (name, number), sample

    def notes(self) -> Iterator[str]:
        """What was decided on reading, a sentence each."""
        for kind, words in _REMARKS.items():
            if count := self._remarks[kind]:
                yield f"predictions: {words} ({'1 line' if count == 1 else f'{count:,} lines'})"


def read_line(row: Row, benchmark: str, mistakes: list[str], remarks: list[str]) -> Sample | None:
    """The sample of a line in either form; None if there are mistakes, which are added. `row` is used up.

    Raises:
        ValueError: a mistake that leaves nothing more to check.
    """
    mtrag = benchmark in MTRAG_FAMILY
    if mtrag and row.get("id") is None and row.get("task_id") is not None:
        row["id"] = row.pop("task_id")
    if "predictions" in row:
        if not mtrag:
            raise ValueError(f"`predictions` is the official MTRAG form, not that of {benchmark}; use `prediction`")
        if "prediction" in row:
            raise ValueError("both `prediction` and `predictions`")
        _from_official(row, mistakes, remarks)
    elif (row.get("status") or "done") == "done" and row.get("prediction") is None:
        mistakes.append("prediction: missing: the answer is expected, or the status failed with a reason")
    usage = row.get("usage") or {}
    answer = _validate(row, mistakes)
    if answer is None or mistakes:
        return None
    if answer.status == "done" and not (answer.prediction or "").strip():
        remarks.append("empty")
    name = canonical_id(answer.id) if mtrag else answer.id
    return Sample.model_validate({**answer.model_dump(), "id": name, "usage": usage})


def _from_official(row: Row, mistakes: list[str], remarks: list[str]) -> None:
    """Give a row of the official form the fields of ours."""
    answers = row.pop("predictions")
    texts = [answer.get("text") if isinstance(answer, dict) else None for answer in _listed(answers)]
    if not texts or not all(isinstance(text, str) for text in texts):
        mistakes.append('predictions: a list of {"text": "…"} was expected')
    else:
        row["prediction"] = texts[0]
        remarks += ["several"] if len(texts) > 1 else []
    if row.get("contexts") is None:
        remarks.append("no_contexts")
    for name in row.keys() - {"id", "prediction", "contexts", "input", "Collection"}:
        del row[name]  # a `turn` of the official form, for one, is not ours
    turns = [turn for turn in _listed(row.get("input")) if isinstance(turn, dict)]
    row["query"] = turns[-1].get("text") if turns and turns[-1].get("speaker") == "user" else None
    collection = row.get("Collection")
    try:
        row["domain"] = domain_of(collection) if isinstance(collection, str) else None
    except ValueError:
        mistakes.append(f"Collection: names no domain ({quoted(collection)})")


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _validate(row: Row, mistakes: list[str]) -> _Answer | None:
    """The row as a sample. Fields that a sample lacks mean nothing; one that is null is as if it were not there."""
    fields = {name: value for name, value in row.items() if value is not None and name in _Answer.model_fields}
    mistakes += check_contexts(fields)
    try:
        return _Answer.model_validate_json(json.dumps(fields, allow_nan=False), strict=True)
    except ValidationError as error:
        known = {mistake.partition(":")[0] for mistake in mistakes}
        for fault in error.errors(include_url=False):
            field = _field(fault["loc"])
            if field in known:
                continue
            value, message = fault["input"], fault["msg"].removeprefix("Value error, ")
            message = message.replace(r"match pattern '\S'", "not be blank")
            shown = isinstance(value, str | int | float) and not isinstance(value, bool)
            mistakes.append(f"{field + ': ' if field else ''}{message}{f' ({quoted(value)})' if shown else ''}")
    except ValueError:
        mistakes.append("a number that is NaN or infinity")
    return None


def quoted(value: object, longest: int = 80) -> str:
    """A value from a file as a message may show it: one line without control characters, cut."""
    text = inert(repr(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _field(loc: Sequence[int | str]) -> str:
    """`("contexts", 2, "score")` as `contexts[2].score`."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step if step.isidentifier() and len(step) <= 40 else quoted(step, 40)
            path = f"{path}.{name}" if path else name
    return path
