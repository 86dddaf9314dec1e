"""Read files of predictions of any system: answers as JSON lines in the official form or in ours, and ranked lists.

The official form of answers is that of MTRAG's generation tasks and of SemEval-2026 task 8, here shortened:

    {"task_id": "18ef…<::>7", "Collection": "fiqa", "input": [{"speaker": "user", "text": "…"}],
     "contexts": [{"document_id": "162428-0-349", "text": "…", "title": "…", "score": 18.7}],
     "predictions": [{"text": "…"}]}

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation (the format checker and its readme). If a line has
several predictions, the first counts, as in the official scripts. Our form is a line of `predictions.jsonl`; `id` and
`prediction` are enough. Naming the folder of a run means the file in it. In a run's file, the last line of a
sample counts and an incomplete last line is ignored, because the run may be in progress; in other files both are
mistakes.

Ranked lists are TREC runs (lines `query Q0 document rank score tag`), official tasks (as above, without predictions;
the form of submissions to task A), or samples of a run. TREC runs are read and written as trec_eval does: sorted by
score, ties by document id descending; the rank column is not read. trec_eval keeps scores in single precision, so
scores that are equal in single precision are ties here too.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from turnmark.assistant.types import Decision
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import mistakes_in
from turnmark.core.untrusted import one_line
from turnmark.corpora.benchmarks.task_ids import canonical_id
from turnmark.corpora.jsonl_rows import JsonRow, get_non_blank, json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import ContextRef, Sample, SampleStatus

MAX_LISTED_MISTAKES = 40
"""Maximum mistakes that are listed; the others are counted."""
RankedLists = dict[str, tuple[ContextRef, ...]]
"""Query id -> retrieved passages, best first."""
WHITE_SPACE = re.compile(r"\s")
"""White space, which ids in a TREC run must not contain."""
_FIELDS = re.compile(r"[^ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_TASK_LINE = re.compile(rb"\s*\{(?!\S*\s+Q0\s)")  # a JSON object, and not a query id that begins with a brace
_MAX_SCORE = 3.4e38
_CONTEXTS: TypeAdapter[tuple[ContextRef, ...]] = TypeAdapter(tuple[ContextRef, ...])


@dataclass(frozen=True)
class Answers:
    """The checked answers of prediction files, in the order of the files."""

    samples: tuple[Sample, ...]
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


class _Answer(Sample):
    """A sample in a prediction file, with the allowed values of its fields."""

    id: str = Field(pattern=r"\S")
    repeat: int = Field(default=0, ge=0)
    status: SampleStatus = "done"
    decision: Decision | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    turn: int | None = Field(default=None, ge=0)


DomainOf = Callable[[str], str]
"""Function from the field `Collection` of the official form to a domain; raises ValueError for an unknown one."""


def check_predictions(paths: Sequence[Path], benchmark: str, domain_of: DomainOf | None = None) -> Answers:
    """Read files of answers, and check every line.

    Args:
        paths: files or folders of runs; a system may have one for each domain.
        benchmark: the benchmark's name, for messages.
        domain_of: see `DomainOf`, or None if the benchmark has no official form of answers.

    Raises:
        RequestError: lists all mistakes.
    """
    errors, collector = ErrorCollector(), _PredictionCollector(benchmark, domain_of)
    files: list[Path] = []
    for path in paths:
        file = path / "predictions.jsonl" if path.is_dir() else path
        try:
            if file.exists() and not file.is_file():
                raise ValueError("is not a plain file")
            open(file, "rb").close()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            errors.add(f"--predictions {str(file)!r} cannot be read: {reason}")
            continue
        if any(file.samefile(earlier) for earlier in files):
            errors.add(f"--predictions {str(path)!r} is given twice")
            continue
        files.append(file)
        unique = [other.name for other in paths].count(path.name) == 1
        name = f"{path.name}/{file.name}" if path.is_dir() else file.name
        collector.read(file, name if unique else str(file))
    errors.problems += list_mistakes(collector.mistakes)
    errors.raise_all()
    return Answers(tuple(collector.samples.values()), tuple(files))


def list_mistakes(mistakes: Sequence[str]) -> list[str]:
    """Return the first mistakes, and the number of the others."""
    listed = list(mistakes[:MAX_LISTED_MISTAKES])
    more = len(mistakes) - MAX_LISTED_MISTAKES
    if more > 0:
        listed.append(f"{more:,} more mistakes; nothing is scored until they are fixed")
    return listed


class _PredictionCollector:
    """Collects samples and mistakes from several files."""

    def __init__(self, benchmark: str, domain_of: DomainOf | None) -> None:
        self.samples: dict[tuple[str, int], Sample] = {}
        self.mistakes: list[str] = []
        self._benchmark, self._domain_of = benchmark, domain_of
        self._lines: dict[tuple[str, int], tuple[str, int]] = {}

    def read(self, file: Path, name: str) -> None:
        """Read one more file.

        Args:
            name: the file's name in messages.
        """
        is_run = file.name == "predictions.jsonl" and (file.parent / "manifest.json").is_file()
        problem, number = "", 0  # problem: that of the previous line
        for number, row in json_lines(file, name):
            if problem:
                self.mistakes.append(problem)
            problem = str(row) if isinstance(row, Problem) else ""
            if not isinstance(row, Problem):
                self._add(row, name, number, is_run)
        # The last line of a run may be incomplete.
        if problem and (not is_run or _ends_a_line(file)):
            self.mistakes.append(problem)
        if not number:
            self.mistakes.append(f"{name}: the file is empty; expected a line for each answer")

    def _add(self, row: JsonRow, name: str, number: int, is_run: bool) -> None:
        mistakes: list[str] = []
        sample = _read_line(row, self._benchmark, self._domain_of, mistakes)
        self.mistakes += [f"{name}:{number}: {mistake}" for mistake in mistakes]
        if sample is None:
            return
        earlier = self._lines.get(sample.key)
        if earlier and not (is_run and earlier[0] == name):
            repeat = f", repeat {sample.repeat}" if sample.repeat else ""
            earlier_line = f"{earlier[0]}:{earlier[1]}"
            self.mistakes.append(
                f"{name}:{number}: {_quote_value(sample.id)}{repeat} is answered already in {earlier_line}"
            )
            return
        self.samples.pop(sample.key, None)  # the order is that of the last lines
        if sample.contexts and not is_run:  # a run has its passages in the order shown
            sample = sample.model_copy(update={"contexts": sort_passages(sample.contexts)})
        self._lines[sample.key] = (name, number)
        self.samples[sample.key] = sample


def _read_line(row: JsonRow, benchmark: str, domain_of: DomainOf | None, mistakes: list[str]) -> Sample | None:
    """Parse a line in either form, or return None if there are mistakes, which are added to the list. Changes `row`."""
    if domain_of and row.get("id") is None and row.get("task_id") is not None:
        row["id"] = row.pop("task_id")
    if "predictions" in row and domain_of is None:
        mistakes.append(f"`predictions` is not a field of answers to {benchmark}; use `prediction`")
        return None
    if "predictions" in row and "prediction" in row:
        mistakes.append("it has both `prediction` and `predictions`; keep one")
        return None
    if "predictions" in row and domain_of:
        _from_official(row, domain_of, mistakes)
    elif (row.get("status") or "done") == "done" and row.get("prediction") is None:
        mistakes.append("prediction: missing; expected the answer, or the status failed with a reason")
    # Unknown fields are ignored, and null fields count as missing.
    fields = {name: value for name, value in row.items() if value is not None and name in _Answer.model_fields}
    mistakes += _check_contexts(fields)
    try:
        answer = _Answer.model_validate_json(json.dumps(fields, allow_nan=False), strict=True)
    except ValidationError as error:
        fields_with_mistakes = {mistake.partition(":")[0] for mistake in mistakes}
        for mistake in map(_in_words, error.errors()):
            if mistake.partition(":")[0] not in fields_with_mistakes:
                mistakes.append(mistake)
    except ValueError:
        mistakes.append("a number that is NaN or infinity")
    if mistakes:
        return None
    name = canonical_id(answer.id) if domain_of else answer.id
    return Sample.model_validate({**answer.model_dump(), "id": name})


def _from_official(row: JsonRow, domain_of: DomainOf, mistakes: list[str]) -> None:
    """Change a row of the official form to ours."""
    texts = [answer.get("text") if isinstance(answer, dict) else None for answer in _as_list(row.pop("predictions"))]
    if not texts or not all(isinstance(text, str) for text in texts):
        mistakes.append('predictions: expected a list of {"text": "…"}')
    for name in row.keys() - {"id", "contexts", "input", "Collection"}:
        del row[name]  # the same name may have another meaning in our form, such as `turn`
    row["prediction"] = texts[0] if texts else None
    turns = [turn for turn in _as_list(row.get("input")) if isinstance(turn, dict)]
    row["query"] = turns[-1].get("text") if turns and turns[-1].get("speaker") == "user" else None
    collection = row.get("Collection")
    try:
        row["domain"] = domain_of(collection) if isinstance(collection, str) else None
    except ValueError:
        mistakes.append(f"Collection: unknown domain {_quote_value(collection)}")


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _in_words(error: Any) -> str:
    """Return the message of a pydantic error, with the field's path such as `contexts[2].score`."""
    path = ""
    for key in error["loc"]:
        if isinstance(key, int):
            path += f"[{key}]"
            continue
        is_plain_name = isinstance(key, str) and key.isidentifier() and len(key) <= 40
        name = key if is_plain_name else _quote_value(key, 40)
        path += f".{name}" if path else name
    message: str = error["msg"].removeprefix("Value error, ").replace(r"match pattern '\S'", "not be blank")
    if path:
        message = f"{path}: {message}"
    value = error["input"]
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        message += f" ({_quote_value(value)})"
    return message


def _quote_value(value: object, longest: int = 80) -> str:
    """Quote a value from a file for a message: on one line, without control characters, at most `longest` long."""
    text = one_line(repr(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _ends_a_line(path: Path) -> bool:
    """Return whether the last line of a file is complete. The file must not be empty."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# --- ranked lists ----------------------------------------------------------------------------------------------------


def sort_passages(contexts: Iterable[ContextRef]) -> tuple[ContextRef, ...]:
    """Sort passages in trec_eval's order: by score, ties by document id descending."""
    by_document = sorted(contexts, key=lambda context: context.document_id, reverse=True)
    return tuple(sorted(by_document, key=lambda context: ctypes.c_float(context.score).value, reverse=True))


def note_ties(lists: RankedLists) -> tuple[str, ...]:
    """Return a note with the number of lists in which two passages have the same score, if there are any."""
    tied = sum(len({ctypes.c_float(ref.score).value for ref in refs}) < len(refs) for refs in lists.values())
    order = "by document id, descending, as in trec_eval; the rank column is not read"
    return (f"{tied} of {len(lists)} ranked lists have tied scores; ties are ordered {order}",) if tied else ()


def parse_run(content: bytes, name: str) -> RankedLists:
    """Parse one TREC run.

    Args:
        name: the file's name in messages.

    Raises:
        RequestError: lists all mistakes.
    """
    lists: dict[str, dict[str, float]] = {}
    problems: list[str] = []
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            if raw.strip():
                _add_row(lists, raw.decode("utf-8"))
        except UnicodeDecodeError:
            problems.append(f"{name}:{number}: not valid UTF-8")
        except ValueError as error:
            problems.append(f"{name}:{number}: {error}")
    if not lists and not problems:
        problems.append(f"{name}: the file is empty; expected lines `query Q0 document rank score tag`")
    if problems:
        raise RequestError(list_mistakes(problems))
    return {
        query: sort_passages(ContextRef(document_id=document, score=score) for document, score in scores.items())
        for query, scores in lists.items()
    }


def _add_row(lists: dict[str, dict[str, float]], line: str) -> None:
    fields = _FIELDS.findall(line)
    if len(fields) != 6:
        raise ValueError("expected the six fields `query Q0 document rank score tag`")
    query, document, score = canonical_id(fields[0]), fields[2], fields[4]
    if not _NUMBER.fullmatch(score) or abs(float(score)) > _MAX_SCORE:
        raise ValueError("the fifth field, the score, is not a finite number")
    if document in lists.get(query, {}):
        raise ValueError("duplicate document of this query")
    lists.setdefault(query, {})[document] = float(score)


def read_lists(path: Path, name: str) -> RankedLists:
    """Read the lists of official tasks or of a run's samples, in the file's order, with texts if the file has them.

    In a run, only finished samples of the first repeat count. An incomplete last line is ignored.

    Args:
        name: the file's name in messages.

    Raises:
        RequestError: lists all mistakes.
    """
    lists: RankedLists = {}
    problems: list[str] = []
    last_is_problem = False
    for number, row in json_lines(path, name):
        last_is_problem = isinstance(row, Problem)
        try:
            if isinstance(row, Problem):
                raise ValueError(row.what)
            _add_list(lists, row)
        except ValueError as error:
            problems.append(f"{name}:{number}: {error}")
    if last_is_problem and not _ends_a_line(path):
        problems.pop()
    if not lists and not problems:
        problems.append(f"{name}: no list of passages, because no sample in the file is done")
    if problems:
        raise RequestError(list_mistakes(problems))
    return lists


def _add_list(lists: RankedLists, row: dict[str, Any]) -> None:
    is_task = "task_id" in row
    query = canonical_id(get_non_blank(row, "task_id" if is_task else "id"))
    if not is_task and (row.get("status") != "done" or row.get("repeat", 0)):
        return
    if is_task and query in lists:
        raise ValueError(f"the task {query!r} has a list already")
    fields = {"contexts": row.get("contexts")}
    mistakes = list(_check_contexts(fields))
    try:
        lists[query] = _CONTEXTS.validate_python(fields["contexts"])
    except ValidationError as error:
        mistakes.append(f"contexts: {mistakes_in(error)[0]}")
    if mistakes:
        raise ValueError("; ".join(mistakes))


def _check_contexts(row: dict[str, Any]) -> Iterator[str]:
    """Yield mistakes in the contexts of a row that the types do not exclude: blank and repeated ids.

    Reduces the contexts to the fields of a `ContextRef`. If no context has a score, each gets 1 / rank.
    """
    contexts = row.get("contexts")
    if not isinstance(contexts, list) or not all(isinstance(entry, dict) for entry in contexts):
        return
    entries: list[dict[str, Any]] = []
    for context in contexts:
        known_fields = ((name, value) for name, value in context.items() if name in ContextRef.model_fields)
        entries.append({name: value for name, value in known_fields if value is not None})
    if not any("score" in entry for entry in entries):
        for rank, entry in enumerate(entries, 1):
            entry["score"] = 1 / rank
    row["contexts"] = entries
    ids: set[str] = set()
    for index, entry in enumerate(entries):
        document_id = entry.get("document_id")
        if not isinstance(document_id, str):
            continue
        if not document_id.strip():
            yield f"contexts[{index}].document_id: expected a text that is not blank"
        elif document_id in ids:
            yield f"contexts[{index}].document_id: the passage {document_id[:80]!r} is in the list already"
        ids.add(document_id)


def read_runs(paths: Sequence[Path]) -> RankedLists:
    """Read one or several files of ranked lists as one run.

    Raises:
        RequestError: lists all mistakes, and the queries that are in more than one file.
    """
    problems: list[str] = []
    lists: RankedLists = {}
    for path in paths:
        try:
            content = path.read_bytes()
            if _TASK_LINE.match(content.removeprefix(b"\xef\xbb\xbf")):
                run = {query: sort_passages(contexts) for query, contexts in read_lists(path, path.name).items()}
            else:
                run = parse_run(content, path.name)
        except OSError as error:
            problems.append(f"--predictions {str(path)!r} cannot be read: {error.strerror or error}")
            continue
        except RequestError as error:
            problems.extend(error.problems)
            continue
        repeated = [query for query in run if query in lists]
        if repeated:
            problems.append(
                f"{path.name}: {len(repeated)} of its queries are in an earlier file, {repeated[0]!r} first"
            )
        lists.update(run)
    if problems:
        raise RequestError(problems)
    return lists


def format_trec(lists: Mapping[str, Sequence[ContextRef]], tag: str) -> str:
    """Format lists as a TREC run, in their order, with ranks from 1 and scores in full precision.

    Raises:
        ValueError: an id is empty or contains white space.
    """
    lines: list[str] = []
    for query, contexts in lists.items():
        for rank, context in enumerate(contexts, 1):
            for text in (query, context.document_id):
                if not text or WHITE_SPACE.search(text):
                    raise ValueError(
                        f"a TREC run cannot contain the id {text!r}, which is empty or contains white space"
                    )
            lines.append(f"{query} Q0 {context.document_id} {rank} {context.score!r} {tag}\n")
    return "".join(lines)
