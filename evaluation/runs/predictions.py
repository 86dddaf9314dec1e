"""Files of predictions of any system: answers, a line a sample in the official form or in ours, and lists of passages.

The official form of answers is that of MTRAG's generation tasks and of SemEval-2026 task 8, shortened:

    {"task_id": "18ef…<::>7", "Collection": "fiqa", "input": [{"speaker": "user", "text": "…"}],
     "contexts": [{"document_id": "162428-0-349", "text": "…", "title": "…", "score": 18.7}],
     "predictions": [{"text": "…"}]}

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation (the format checker and its readme). Of several
predictions in a line the first counts, as in the official scripts. Ours is a line of `predictions.jsonl`, or as little
of one as `id` and `prediction`. A run's folder means the file in it. Of a run's file the last line of a sample holds,
and a torn last line is left out, since the run may be going on; in a file from elsewhere both are mistakes.

Lists of passages are TREC runs (`query Q0 document rank score tag` a line), official tasks (as above, without
predictions: what submissions to task A are written in), or samples of a run. TREC runs are read and written the way
trec_eval understands them: the order is by score, ties by document id descending; the rank column is not read.
trec_eval keeps scores in single precision, so two scores that are equal there are a tie here too.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from turnmark.assistant.types import Decision
from turnmark.core.console import inert
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.mtrag import Benchmark, canonical_id, domain_of
from turnmark.corpora.rows import Row, json_lines, non_blank
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import ContextRef, Sample, SampleStatus

MTRAG_FAMILY: tuple[str, ...] = get_args(Benchmark)
MOST = 40
"""Mistakes of a file that are listed; the others are counted."""
Run = dict[str, tuple[ContextRef, ...]]
"""The list of each query, best first."""
BLANK = re.compile(r"\s")
"""What no id in a TREC run may hold."""
_FIELDS = re.compile(r"[^ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_TASKS = re.compile(rb"\s*\{(?!\S*\s+Q0\s)")  # an object, and no query that begins with a brace
_LARGEST = 3.4e38
_CONTEXTS: TypeAdapter[tuple[ContextRef, ...]] = TypeAdapter(tuple[ContextRef, ...])


@dataclass(frozen=True)
class Answers:
    """Answers that are written already, checked, in the order of the files."""

    samples: tuple[Sample, ...]
    paths: tuple[Path, ...]


class _Answer(Sample):
    """A sample as it may be written, with what its fields may hold."""

    id: str = Field(pattern=r"\S")
    repeat: int = Field(default=0, ge=0)
    status: SampleStatus = "done"
    decision: Decision | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    turn: int | None = Field(default=None, ge=0)


def check_predictions(paths: Sequence[Path], benchmark: str) -> Answers:
    """Read files of answers, and check every line.

    Args:
        paths: files, or folders of runs; several if a system wrote one for each domain.
        benchmark: its name as on the command line.
    """
    errors, reader = ErrorCollector(), _Reader(benchmark)
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
        reader.read(file, name if unique else str(file))
    errors.problems += list_mistakes(reader.mistakes)
    errors.raise_all()
    return Answers(tuple(reader.samples.values()), tuple(files))


def list_mistakes(mistakes: Sequence[str]) -> list[str]:
    """The first mistakes, and how many more there are."""
    more = len(mistakes) - MOST
    last = [f"{more:,} more mistakes; nothing is scored before they are put right"] if more > 0 else []
    return [*mistakes[:MOST], *last]


class _Reader:
    """What the files answer, and what is wrong with them."""

    def __init__(self, benchmark: str) -> None:
        self.samples: dict[tuple[str, int], Sample] = {}
        self.mistakes: list[str] = []
        self._benchmark = benchmark
        self._lines: dict[tuple[str, int], tuple[str, int]] = {}

    def read(self, file: Path, name: str) -> None:
        """Check one more file."""
        run, torn, number = file.name == "predictions.jsonl" and (file.parent / "manifest.json").is_file(), "", 0
        for number, row in json_lines(file, name):
            self.mistakes += [torn] if torn else []
            torn = str(row) if isinstance(row, Problem) else ""
            if not isinstance(row, Problem):
                self._take(row, name, number, run)
        if torn and not (run and not _ends_a_line(file)):
            self.mistakes.append(torn)
        if not number:
            self.mistakes.append(f"{name}: no line in it; a line for each answer was expected")

    def _take(self, row: Row, name: str, number: int, run: bool) -> None:
        mistakes: list[str] = []
        sample = _read_line(row, self._benchmark, mistakes)
        self.mistakes += [f"{name}:{number}: {mistake}" for mistake in mistakes]
        if sample is None:
            return
        earlier = self._lines.get(sample.key)
        if earlier and not (run and earlier[0] == name):
            who = _quoted(sample.id) + (f", repeat {sample.repeat}" if sample.repeat else "")
            self.mistakes.append(f"{name}:{number}: {who} is answered already in {earlier[0]}:{earlier[1]}")
            return
        self.samples.pop(sample.key, None)
        if sample.contexts and not run:  # a run's are in the order in which they were shown
            sample = sample.model_copy(update={"contexts": ranked(sample.contexts)})
        self._lines[sample.key], self.samples[sample.key] = (name, number), sample


def _read_line(row: Row, benchmark: str, mistakes: list[str]) -> Sample | None:
    """The sample of a line in either form; None if there are mistakes, which are added. `row` is used up."""
    mtrag = benchmark in MTRAG_FAMILY
    if mtrag and row.get("id") is None and row.get("task_id") is not None:
        row["id"] = row.pop("task_id")
    if "predictions" in row and not mtrag:
        mistakes.append(f"`predictions` is the official MTRAG form, not that of {benchmark}; use `prediction`")
        return None
    if "predictions" in row and "prediction" in row:
        mistakes.append("both `prediction` and `predictions`")
        return None
    if "predictions" in row:
        _from_official(row, mistakes)
    elif (row.get("status") or "done") == "done" and row.get("prediction") is None:
        mistakes.append("prediction: missing: the answer is expected, or the status failed with a reason")
    # Fields that a sample lacks mean nothing; one that is null is as if it were not there.
    fields = {name: value for name, value in row.items() if value is not None and name in _Answer.model_fields}
    mistakes += _check_contexts(fields)
    try:
        answer = _Answer.model_validate_json(json.dumps(fields, allow_nan=False), strict=True)
    except ValidationError as error:
        known = {mistake.partition(":")[0] for mistake in mistakes}
        mistakes += [mistake for mistake in map(_in_words, error.errors()) if mistake.partition(":")[0] not in known]
    except ValueError:
        mistakes.append("a number that is NaN or infinity")
    if mistakes:
        return None
    name = canonical_id(answer.id) if mtrag else answer.id
    return Sample.model_validate({**answer.model_dump(), "id": name})


def _from_official(row: Row, mistakes: list[str]) -> None:
    """Give a row of the official form the fields of ours."""
    texts = [answer.get("text") if isinstance(answer, dict) else None for answer in _listed(row.pop("predictions"))]
    if not texts or not all(isinstance(text, str) for text in texts):
        mistakes.append('predictions: a list of {"text": "…"} was expected')
    for name in row.keys() - {"id", "contexts", "input", "Collection"}:
        del row[name]  # a `turn` of the official form, for one, is not ours
    row["prediction"] = next(iter(texts), None)
    turns = [turn for turn in _listed(row.get("input")) if isinstance(turn, dict)]
    row["query"] = turns[-1].get("text") if turns and turns[-1].get("speaker") == "user" else None
    collection = row.get("Collection")
    try:
        row["domain"] = domain_of(collection) if isinstance(collection, str) else None
    except ValueError:
        mistakes.append(f"Collection: names no domain ({_quoted(collection)})")


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _in_words(fault: Any) -> str:
    """A mistake that pydantic found, with its field as `contexts[2].score`."""
    field = ""
    for step in fault["loc"]:
        name = step if isinstance(step, str) and step.isidentifier() and len(step) <= 40 else _quoted(step, 40)
        field += f"[{step}]" if isinstance(step, int) else f".{name}" if field else name
    message = fault["msg"].removeprefix("Value error, ").replace(r"match pattern '\S'", "not be blank")
    value = fault["input"]
    shown = isinstance(value, str | int | float) and not isinstance(value, bool)
    return f"{field + ': ' if field else ''}{message}{f' ({_quoted(value)})' if shown else ''}"


def _quoted(value: object, longest: int = 80) -> str:
    """A value from a file as a message may show it: one line without control characters, cut."""
    text = inert(repr(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _ends_a_line(path: Path) -> bool:
    """Whether the last line of a file is complete; the file is not empty."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# --- lists of passages -----------------------------------------------------------------------------------------------


def ranked(contexts: Iterable[ContextRef]) -> tuple[ContextRef, ...]:
    """The contexts in trec_eval's order: by score, ties by document id descending."""
    return tuple(sorted(contexts, key=lambda c: (ctypes.c_float(c.score).value, c.document_id), reverse=True))


def parse_run(content: bytes, name: str) -> Run:
    """Parse one TREC run.

    Args:
        name: what the file is called in messages.
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
        problems.append(f"{name}: no line in it; a TREC run has lines `query Q0 document rank score tag`")
    if problems:
        raise RequestError(list_mistakes(problems))
    return {
        query: ranked(ContextRef(document_id=document, score=score) for document, score in scores.items())
        for query, scores in lists.items()
    }


def _add_row(lists: dict[str, dict[str, float]], line: str) -> None:
    fields = _FIELDS.findall(line)
    if len(fields) != 6:
        raise ValueError("not the six fields `query Q0 document rank score tag`")
    query, document, score = canonical_id(fields[0]), fields[2], fields[4]
    if not _NUMBER.fullmatch(score) or abs(float(score)) > _LARGEST:
        raise ValueError("the fifth field, the score, is not a finite number")
    if document in lists.get(query, {}):
        raise ValueError("this query has the document already")
    lists.setdefault(query, {})[document] = float(score)


def read_lists(path: Path, name: str) -> Run:
    """The lists of official tasks or of a run's samples, in the file's order, with the texts that it gives.

    Of a run the samples count that are done, at the first repeat. A torn last line is left out.

    Args:
        name: what the file is called in messages.
    """
    lists: Run = {}
    problems: list[str] = []
    torn = False
    for number, row in json_lines(path, name):
        torn = isinstance(row, Problem)
        try:
            if isinstance(row, Problem):
                raise ValueError(row.what)
            _add_list(lists, row)
        except ValueError as error:
            problems.append(f"{name}:{number}: {error}")
    if torn and not _ends_a_line(path):
        problems.pop()
    if not lists and not problems:
        problems.append(f"{name}: no list of passages in it; no sample in it is done")
    if problems:
        raise RequestError(list_mistakes(problems))
    return lists


def _add_list(lists: Run, row: dict[str, Any]) -> None:
    task = "task_id" in row
    query = canonical_id(non_blank(row, "task_id" if task else "id"))
    if not task and (row.get("status") != "done" or row.get("repeat", 0)):
        return
    if task and query in lists:
        raise ValueError(f"the task {query!r} has a list already")
    fields = {"contexts": row.get("contexts")}
    mistakes = list(_check_contexts(fields))
    try:
        lists[query] = _CONTEXTS.validate_python(fields["contexts"])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        mistakes.append(f"contexts: {'.'.join(map(str, first['loc']))}: {first['msg']}")
    if mistakes:
        raise ValueError("; ".join(mistakes))


def _check_contexts(row: dict[str, Any]) -> Iterator[str]:
    """Mistakes in the contexts of a row that no type tells: blank and repeated ids.

    The contexts are reduced to the fields of a `ContextRef`, and get the scores of their ranks if none has a score.
    """
    contexts = row.get("contexts")
    if not isinstance(contexts, list) or not all(isinstance(entry, dict) for entry in contexts):
        return
    known = [
        {name: value for name, value in entry.items() if value is not None and name in ContextRef.model_fields}
        for entry in contexts
    ]
    if not any("score" in entry for entry in known):
        known = [{**entry, "score": 1 / rank} for rank, entry in enumerate(known, 1)]
    row["contexts"] = known
    ids: set[str] = set()
    for index, entry in enumerate(known):
        name = entry.get("document_id")
        if isinstance(name, str) and not name.strip():
            yield f"contexts[{index}].document_id: a text that is not blank was expected"
        elif isinstance(name, str) and name in ids:
            yield f"contexts[{index}].document_id: the passage {name[:80]!r} is in the list already"
        ids |= {name} if isinstance(name, str) else set()


def read_runs(paths: Sequence[Path]) -> Run:
    """Read one or several run files as one run."""
    problems: list[str] = []
    lists: Run = {}
    for path in paths:
        try:
            content = path.read_bytes()
            if _TASKS.match(content.removeprefix(b"\xef\xbb\xbf")):
                run = {query: ranked(contexts) for query, contexts in read_lists(path, path.name).items()}
            else:
                run = parse_run(content, path.name)
        except OSError as error:
            problems.append(f"--predictions {str(path)!r} cannot be read: {error.strerror or error}")
            continue
        except RequestError as error:
            problems.extend(error.problems)
            continue
        twice = [query for query in run if query in lists]
        if twice:
            problems.append(f"{path.name}: {len(twice)} of its queries are in an earlier file, {twice[0]!r} first")
        lists.update(run)
    if problems:
        raise RequestError(problems)
    return lists


def format_trec(lists: Mapping[str, Sequence[ContextRef]], tag: str) -> str:
    """Write lists as a run, in their order, ranks from 1, scores to the last digit."""
    lines: list[str] = []
    for query, contexts in lists.items():
        for rank, context in enumerate(contexts, 1):
            for text in (query, context.document_id):
                if not text or BLANK.search(text):
                    raise ValueError(f"a TREC run cannot hold the id {text!r}: it is empty or holds white space")
            lines.append(f"{query} Q0 {context.document_id} {rank} {context.score!r} {tag}\n")
    return "".join(lines)
