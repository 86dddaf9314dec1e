"""Lists of passages in files: TREC runs (`query Q0 document rank score tag` a line), official tasks, samples of a run.

TREC runs are read and written the way trec_eval understands them: the order is by score, ties by document id
descending; the rank column is not read. trec_eval keeps scores in single precision, so two scores that are equal there
are a tie here too. Official tasks (`{"task_id", "contexts": [{"document_id", "score"}]}` a line) are also what
submissions to task A of SemEval-2026 task 8 are written in.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turnmark.corpora.errors import RequestError
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.rows import json_lines, non_blank
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import ContextRef

_FIELDS = re.compile(r"[^ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_TASKS = re.compile(rb"\s*\{(?!\S*\s+Q0\s)")  # an object, and no query that begins with a brace
_LARGEST = 3.4e38
BLANK = re.compile(r"\s")
"""What no id in a run may hold."""
Run = dict[str, tuple[ContextRef, ...]]
"""The list of each query, best first."""
MOST = 40
"""Mistakes of a file that are listed; the others are counted."""
_CONTEXTS: TypeAdapter[tuple[ContextRef, ...]] = TypeAdapter(tuple[ContextRef, ...])


def list_mistakes(mistakes: Sequence[str]) -> list[str]:
    """The first mistakes, and how many more there are."""
    more = len(mistakes) - MOST
    return [
        *mistakes[:MOST],
        *([f"{more:,} more mistakes; nothing is scored before they are put right"] if more > 0 else []),
    ]


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
    if torn and not ends_a_line(path):
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
    mistakes = list(check_contexts(fields))
    try:
        contexts = _CONTEXTS.validate_python(fields["contexts"])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        mistakes.append(f"contexts: {'.'.join(map(str, first['loc']))}: {first['msg']}")
    if mistakes:
        raise ValueError("; ".join(mistakes))
    lists[query] = contexts


def check_contexts(row: dict[str, Any]) -> Iterator[str]:
    """Mistakes in the contexts of a row that no type tells: blank and repeated ids.

    The contexts are reduced to the fields of a `ContextRef`, and get the scores of their ranks if none has a score.
    """
    contexts = row.get("contexts")
    if not isinstance(contexts, list):
        return
    known = [
        {name: value for name, value in entry.items() if value is not None and name in ContextRef.model_fields}
        if isinstance(entry, dict)
        else entry
        for entry in contexts
    ]
    if not any("score" in entry for entry in known if isinstance(entry, dict)):
        known = [
            {**entry, "score": 1 / rank} if isinstance(entry, dict) else entry for rank, entry in enumerate(known, 1)
        ]
    row["contexts"] = known
    ids: set[str] = set()
    for index, entry in enumerate(known):
        name = entry.get("document_id") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if not name.strip():
            yield f"contexts[{index}].document_id: a text that is not blank was expected"
        elif name in ids:
            yield f"contexts[{index}].document_id: the passage {name[:80]!r} is in the list already"
        ids.add(name)


def ends_a_line(path: Path) -> bool:
    """Whether the last line of a file is complete; the file is not empty."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


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
    """Write lists as a run, in their order, ranks from 1, scores to the last digit.

    Raises:
        ValueError: an id is empty or holds white space, which the format cannot carry.
    """
    lines: list[str] = []
    for query, contexts in lists.items():
        for rank, context in enumerate(contexts, 1):
            for text in (query, context.document_id):
                if not text or BLANK.search(text):
                    raise ValueError(f"a TREC run cannot hold the id {text!r}: it is empty or holds white space")
            lines.append(f"{query} Q0 {context.document_id} {rank} {context.score!r} {tag}\n")
    return "".join(lines)
