"""Reads a person's own questions and what a right reply to each of them must contain.

A file is a table (.csv, .tsv, .xlsx), or has one record per line (.jsonl), or is a list of records (.yaml). The columns
are the fields of `OwnQuestion`, by their aliases; only `question` is required. Questions with the same `conversation`
are asked one after the other, by `order` or else in the order of the file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from turnmark.core.errors import RequestError, nearest_name, unknown_name
from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line
from turnmark.evaluation.check.own_questions.facts import fact_problem, split_facts

MAX_LISTED_MISTAKES = 40
"""Maximum mistakes that are listed; the others are counted."""
_NO = frozenset(("", "no", "n", "false", "0", "nein", "non"))
_YES = frozenset(("yes", "y", "true", "1", "x", "ja", "oui"))


def _facts(value: object) -> object:
    facts = split_facts(value) if isinstance(value, str) else value
    if isinstance(facts, (int, float)):
        facts = [str(facts)]
    if not isinstance(facts, (list, tuple)):
        return facts
    found = tuple(str(fact).strip() for fact in facts)
    problems = [problem for fact in found if (problem := fact_problem(fact))]
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _yes_or_no(value: object) -> object:
    word = str(value).strip().lower() if isinstance(value, (str, int, float)) else ""
    if word in _NO or word in _YES:
        return word in _YES
    raise ValueError(f"{value!r} is neither yes nor no")


def _text(value: object) -> object:
    return str(value).strip() if isinstance(value, (str, int, float)) else value


FactCells = Annotated[tuple[str, ...], BeforeValidator(_facts)]
CellText = Annotated[str, BeforeValidator(_text)]


class OwnQuestion(Record):
    """A question, and what a right reply to it must contain."""

    model_config = ConfigDict(populate_by_name=True)

    question: CellText = Field(min_length=1)
    answer: CellText = Field(default="", description="reference answer, whose words the reply should have")
    facts: FactCells = Field(default=(), description="what the reply must state, see `find_facts`")
    wrong: FactCells = Field(default=(), alias="not", description="what the reply must not state")
    document: CellText = Field(default="", description="path of the document with the answer, or its end")
    unanswerable: Annotated[bool, BeforeValidator(_yes_or_no)] = Field(
        default=False, description="whether the documents do not answer it, so that the reply must say so"
    )
    conversation: CellText = Field(
        default="", description="name of the conversation; empty if it has no other question"
    )
    order: float | None = Field(default=None, description="place in the conversation; default: that in the file")
    place: str = Field(default="", description="where it is in the file, such as `row 7`")

    @model_validator(mode="after")
    def _says_what_is_right(self) -> OwnQuestion:
        if self.unanswerable and (self.facts or self.answer):
            raise ValueError("an unanswerable question has no facts and no answer")
        return self

    @property
    def id(self) -> str:
        """The place as the id of a sample."""
        return self.place.replace(" ", "-")

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of its reply; a question without any only leads up to the next one."""
        given = {
            "facts": bool(self.facts or self.wrong),
            "document": bool(self.document),
            "unknown": self.unanswerable,
            "agrees": bool(self.answer),
        }
        return tuple(name for name, holds in given.items() if holds)


COLUMNS = tuple(field.alias or name for name, field in OwnQuestion.model_fields.items() if name != "place")


def read_questions(path: Path) -> list[OwnQuestion]:
    """Read a file of questions, the questions of a conversation one after the other.

    Raises:
        RequestError: lists all mistakes, with their rows and columns.
    """
    try:
        rows = list(_rows(path))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else one_line(str(error))
        raise RequestError(f"--questions {path}: {reason}") from error
    mistakes = [f"{path.name}: {mistake}" for mistake in _unknown_columns(rows)]
    questions: list[OwnQuestion] = []
    for place, row in rows:
        given = {str(name): value for name, value in row.items() if str(name) in COLUMNS and value not in ("", None)}
        if not given:
            continue
        try:
            questions.append(OwnQuestion.model_validate({**given, "place": place}))
        except ValidationError as error:
            for problem in error.errors():
                column = f", column {problem['loc'][0]}" if problem["loc"] else ""
                mistakes.append(f"{path.name}: {place}{column}: {problem['msg'].removeprefix('Value error, ')}")
    if not questions and not mistakes:
        mistakes.append(f"{path.name}: has no question; a file begins with the columns {', '.join(COLUMNS[:4])} …")
    if questions and not any(one.conditions for one in questions):
        mistakes.append(f"{path.name}: no question says what is right: fill in facts, answer, document or unanswerable")
    if mistakes:
        more = len(mistakes) - MAX_LISTED_MISTAKES
        raise RequestError([*mistakes[:MAX_LISTED_MISTAKES], *([f"{more} more mistakes"] if more > 0 else [])])
    return _in_order(questions)


def _in_order(questions: Sequence[OwnQuestion]) -> list[OwnQuestion]:
    """Sort the questions of each conversation, which stands where its first question does."""
    conversations = group_pairs((one.conversation or number, one) for number, one in enumerate(questions))
    for turns in conversations.values():
        turns.sort(key=lambda one: (one.order is None, one.order or 0.0))
    return [one for turns in conversations.values() for one in turns]


def _unknown_columns(rows: Sequence[tuple[str, Mapping[Any, Any]]]) -> Iterator[str]:
    names = dict.fromkeys(str(name) for _, row in rows for name in row if name is not None and str(name).strip())
    for name in names:
        if name not in COLUMNS:
            yield unknown_name("column", name, COLUMNS)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the place and the fields of each record of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has another form.
    """
    kind = path.suffix.lower()
    if kind == ".xlsx":
        yield from _sheet_rows(path)
    elif kind in (".csv", ".tsv"):
        yield from _table_rows(path)
    elif kind == ".jsonl":
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
            if line.strip():
                try:
                    yield f"line {number}", _record(json.loads(line), number)
                except json.JSONDecodeError as error:
                    raise ValueError(f"line {number} is not JSON: {error}") from error
    elif kind in (".yaml", ".yml"):
        import yaml

        try:
            records = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
        except yaml.YAMLError as error:
            raise ValueError(f"is not YAML: {error}") from error
        if not isinstance(records, list):
            raise ValueError("a YAML file of questions is a list: each item begins with `- question: …`")
        for number, record in enumerate(records, 1):
            yield f"item {number}", _record(record, number)
    else:
        raise ValueError("expected a file that ends in .csv, .tsv, .xlsx, .jsonl or .yaml")


def _record(record: object, number: int) -> Mapping[Any, Any]:
    if not isinstance(record, dict):
        raise ValueError(f"record {number} is not an object with the fields {', '.join(COLUMNS[:4])} …")
    return record


def _table_rows(path: Path) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    text = path.read_text(encoding="utf-8-sig")
    header = text.partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    table = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
    for row in table:
        extra = row.pop(None, None)
        if extra:
            raise ValueError(
                f"row {table.line_num} has more cells than the header; put a text with {delimiter!r} in quotes"
            )
        yield f"row {table.line_num}", {str(name).strip(): (value or "").strip() for name, value in row.items()}


def _sheet_rows(path: Path) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        rows = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    except CalamineError as error:
        raise ValueError(f"is not a workbook: {error}") from error
    header = [str(cell).strip() for cell in rows[0]] if rows else []
    for number, row in enumerate(rows[1:], 2):
        cells = (int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in row)
        yield f"row {number}", {name: cell for name, cell in zip(header, cells, strict=False) if name}


def read_replies(path: Path, questions: Sequence[OwnQuestion]) -> dict[OwnQuestion, str]:
    """Read another system's replies, records with `question` and `answer`; return question -> reply.

    A question that occurs several times takes the replies to it in their order.

    Raises:
        RequestError: the file cannot be read, or answers none of the questions.
    """
    try:
        replies = group_pairs((_same(row.get("question")), str(row.get("answer") or "")) for _, row in _rows(path))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else one_line(str(error))
        raise RequestError(f"--answers {path}: {reason}") from error
    waiting = {text: iter(found) for text, found in replies.items()}
    found = {one: next(waiting.get(_same(one.question), iter(())), None) for one in questions}
    answered = {one: reply for one, reply in found.items() if reply is not None}
    if not answered:
        raise RequestError(
            f"--answers {path}: has no reply to any of the {len(questions)} questions; expected records "
            "with `question`, in the same words, and `answer`"
        )
    return answered


def _same(question: object) -> str:
    return " ".join(str(question or "").split()).casefold()


def check_documents(questions: Sequence[OwnQuestion], documents: Sequence[str]) -> None:
    """Raise RequestError if a question names a document that the index does not have."""
    mistakes: list[str] = []
    for one in questions:
        if one.document and not any(is_document(document, one.document) for document in documents):
            near = nearest_name(one.document, documents)
            hint = f"; did you mean {near!r}?" if near else ""
            mistakes.append(f"{one.place}, column document: the index has no document {one.document!r}{hint}")
    if mistakes:
        raise RequestError(mistakes)


def is_document(document: str, named: str) -> bool:
    """Return whether a document is the one that a question names by its path or by the end of it."""
    return document == named or document.endswith(f"/{named}") or Path(document).stem == named
