"""TREC run files: `query Q0 document rank score tag` a line, read and written the way trec_eval understands them.

Lists in the official form of the MTRAG family (`{"task_id", "contexts": [{"document_id", "score"}]}` a line, as in
submissions to task A of SemEval-2026 task 8) are read as runs too.

The order is by score, ties by document id descending; the rank column is not read. trec_eval keeps scores in single
precision, so two scores that are equal there are a tie here too.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.text import spans
from turnmark.evaluation.records import ContextRef

_FIELDS = re.compile(r"[^ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_TASKS = re.compile(rb"\s*\{(?!\S*\s+Q0\s)")  # an object, and no query that begins with a brace
_LARGEST = 3.4e38
BLANK = re.compile(r"\s")
"""What no id in a run may hold."""
Run = dict[str, tuple[ContextRef, ...]]
"""The list of each query, best first."""


def ranked(contexts: Iterable[ContextRef]) -> tuple[ContextRef, ...]:
    """The contexts in trec_eval's order: by score, ties by document id descending."""
    return tuple(sorted(contexts, key=lambda c: (ctypes.c_float(c.score).value, c.document_id), reverse=True))


def parse_run(content: bytes, name: str) -> Run:
    """Parse one run, in either form.

    Args:
        name: what the file is called in messages.

    Raises:
        RequestError: every line that is wrong, by kind of mistake with all its line numbers, or that there is no line.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    add = _add_task if _TASKS.match(content) else _add_row
    lists: dict[str, dict[str, float]] = {}
    lines_of_problem: dict[str, list[int]] = {}
    for number, raw in enumerate(content.split(b"\n"), 1):
        try:
            if raw.strip():
                add(lists, raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            unreadable = {UnicodeDecodeError: "not valid UTF-8", json.JSONDecodeError: "not valid JSON",
                          RecursionError: "not valid JSON"}  # fmt: skip
            lines_of_problem.setdefault(unreadable.get(type(error), str(error)), []).append(number)
    if lines_of_problem:
        raise RequestError([
            f"{name}, line{'s' if len(numbers) > 1 else ''} {', '.join(spans(numbers))}: {problem}"
            for problem, numbers in lines_of_problem.items()
        ])  # fmt: skip
    if not lists:
        raise RequestError(f"{name}: no line in it; a TREC run has lines `query Q0 document rank score tag`")
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
        raise ValueError("the fifth field, the score, is no finite number")
    if document in lists.get(query, {}):
        raise ValueError("a pair of query and document that stood before")
    lists.setdefault(query, {})[document] = float(score)


def _add_task(lists: dict[str, dict[str, float]], line: str) -> None:
    row = json.loads(line)
    query, contexts = (row.get("task_id"), row.get("contexts")) if isinstance(row, dict) else (None, None)
    if not isinstance(query, str) or not query.strip() or not isinstance(contexts, list):
        raise ValueError("not an object with the text `task_id` and the list `contexts`")
    scores: dict[str, float] = {}
    for context in contexts:
        fields = context if isinstance(context, dict) else {}
        document, score = fields.get("document_id"), fields.get("score")
        if not isinstance(document, str) or not document.strip():
            raise ValueError("a passage without the text `document_id`")
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= _LARGEST:
            raise ValueError("a passage whose `score` is no finite number")
        if document in scores:
            raise ValueError("a passage that stands in the list twice")
        scores[document] = float(score)
    if canonical_id(query) in lists:
        raise ValueError("a task that stood before")
    lists[canonical_id(query)] = scores


def read_runs(paths: Sequence[Path]) -> Run:
    """Read one or several run files as one run.

    Raises:
        RequestError: files that cannot be read, every wrong line in all of them, queries that two files answer.
    """
    problems: list[str] = []
    lists: Run = {}
    for path in paths:
        try:
            run = parse_run(path.read_bytes(), path.name)
        except OSError as error:
            problems.append(f"--predictions {str(path)!r} cannot be read: {error.strerror or error}")
            continue
        except RequestError as error:
            problems.extend(error.problems)
            continue
        twice = [query for query in run if query in lists]
        if twice:
            problems.append(f"{path.name}: {len(twice)} of its queries stand in an earlier file, {twice[0]!r} first")
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
                    raise ValueError(f"the id {text!r} cannot stand in a TREC run: it is empty or holds white space")
            lines.append(f"{query} Q0 {context.document_id} {rank} {context.score!r} {tag}\n")
    return "".join(lines)
