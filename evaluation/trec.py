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
from turnmark.corpora.types import Record
from turnmark.evaluation.records import ContextRef

_FIELDS = re.compile(r"[^ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_LARGEST = 3.4e38
BLANK = re.compile(r"\s")
"""What no id in a run may hold."""


class TrecRun(Record):
    """The lists of a run, by query, each best first."""

    lists: dict[str, tuple[ContextRef, ...]]
    tags: tuple[str, ...]


def ranked(contexts: Iterable[ContextRef]) -> tuple[ContextRef, ...]:
    """The contexts in trec_eval's order: by score, ties by document id descending."""
    return tuple(sorted(contexts, key=lambda c: (ctypes.c_float(c.score).value, c.document_id), reverse=True))


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending line numbers in words: `line 3`, `lines 3, 7-9`."""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(spans(numbers))}"


def parse_run(content: bytes, name: str) -> TrecRun:
    """Parse one run, in either form.

    Raises:
        RequestError: as `parse_trec`.
    """
    lines = content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return _parse_lines(content, name) if lines else parse_trec(content, name)


def _parse_lines(content: bytes, name: str) -> TrecRun:
    lists: dict[str, tuple[ContextRef, ...]] = {}
    lines_of_problem: dict[str, list[int]] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            query, contexts = _line(json.loads(raw.decode("utf-8")))
            query = canonical_id(query)
            if query in lists:
                raise ValueError("a task that stood before")
        except RecursionError:
            lines_of_problem.setdefault("not valid JSON", []).append(number)
        except ValueError as error:
            problem = "not valid JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
            lines_of_problem.setdefault(problem, []).append(number)
        else:
            lists[query] = ranked(contexts)
    if lines_of_problem:
        raise RequestError([f"{name}, {_ranges(numbers)}: {problem}" for problem, numbers in lines_of_problem.items()])
    return TrecRun(lists=lists, tags=(BLANK.sub("-", Path(name).stem),))


def _line(row: object) -> tuple[str, list[ContextRef]]:
    query, contexts = (row.get("task_id"), row.get("contexts")) if isinstance(row, dict) else (None, None)
    if not isinstance(query, str) or not query.strip() or not isinstance(contexts, list):
        raise ValueError("not an object with the text `task_id` and the list `contexts`")
    by_document: dict[str, ContextRef] = {}
    for context in contexts:
        document, score = (
            (context.get("document_id"), context.get("score")) if isinstance(context, dict) else (None, None)
        )
        if not isinstance(document, str) or not document.strip():
            raise ValueError("a passage without the text `document_id`")
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= _LARGEST:
            raise ValueError("a passage whose `score` is no finite number")
        if document in by_document:
            raise ValueError("a passage that stands in the list twice")
        by_document[document] = ContextRef(document_id=document, score=float(score))
    return query, list(by_document.values())


def parse_trec(content: bytes, name: str) -> TrecRun:
    """Parse one run.

    Args:
        name: what the file is called in messages.

    Raises:
        RequestError: every line that is wrong, by kind of mistake with all its line numbers, or that there is no line.
    """
    lists: dict[str, dict[str, tuple[float, int]]] = {}
    tags: dict[str, None] = {}
    lines_of_problem: dict[str, list[int]] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            fields = _FIELDS.findall(raw.decode("utf-8"))
        except UnicodeDecodeError:
            lines_of_problem.setdefault("not valid UTF-8", []).append(number)
            continue
        if not fields:
            continue
        fields[0] = canonical_id(fields[0])
        if len(fields) != 6:
            lines_of_problem.setdefault("not the six fields `query Q0 document rank score tag`", []).append(number)
        elif not _NUMBER.fullmatch(fields[4]) or abs(float(fields[4])) > _LARGEST:
            lines_of_problem.setdefault("the fifth field, the score, is no finite number", []).append(number)
        elif fields[2] in lists.get(fields[0], {}):
            lines_of_problem.setdefault("a pair of query and document that stood before", []).append(number)
        else:
            lists.setdefault(fields[0], {})[fields[2]] = (float(fields[4]), number)
            tags[fields[5]] = None
    if lines_of_problem:
        raise RequestError([f"{name}, {_ranges(numbers)}: {problem}" for problem, numbers in lines_of_problem.items()])
    if not lists:
        raise RequestError(f"{name}: no line in it; a TREC run has lines `query Q0 document rank score tag`")
    return TrecRun(
        lists={
            query: ranked(ContextRef(document_id=document, score=score) for document, (score, _) in by_document.items())
            for query, by_document in lists.items()
        },
        tags=tuple(tags),
    )


def read_runs(paths: Sequence[Path]) -> TrecRun:
    """Read one or several run files as one run.

    Raises:
        RequestError: files that cannot be read, every wrong line in all of them, queries that two files answer.
    """
    problems: list[str] = []
    lists: dict[str, tuple[ContextRef, ...]] = {}
    tags: dict[str, None] = {}
    for path in paths:
        try:
            run = parse_run(path.read_bytes(), path.name)
        except OSError as error:
            problems.append(f"--predictions {str(path)!r} cannot be read: {error.strerror or error}")
            continue
        except RequestError as error:
            problems.extend(error.problems)
            continue
        twice = [query for query in run.lists if query in lists]
        if twice:
            problems.append(f"{path.name}: {len(twice)} of its queries stand in an earlier file, {twice[0]!r} first")
        lists.update(run.lists)
        tags.update(dict.fromkeys(run.tags))
    if problems:
        raise RequestError(problems)
    return TrecRun(lists=lists, tags=tuple(tags))


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
