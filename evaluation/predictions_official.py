"""Lines of prediction files as samples: the official form of the MTRAG family, and ours.

The official form is that of MTRAG's generation tasks and of SemEval-2026 task 8, one line a task, shortened:

    {"task_id": "18ef…<::>7", "task_type": "rag", "Collection": "fiqa",
     "input": [{"speaker": "user", "text": "…"}],
     "contexts": [{"document_id": "162428-0-349", "text": "…", "title": "…", "score": 18.7}],
     "predictions": [{"text": "…"}]}

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation (the format checker and its readme). The checker
wants `input` and `contexts` too; as no answer is found by them, they may be left out here. Ours is a line of
`predictions.jsonl`, or as little of one as `id` and `prediction`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from turnmark.assistant.types import Decision, Usage
from turnmark.corpora.console import inert
from turnmark.corpora.mtrag import Benchmark, canonical_id, domain_of
from turnmark.corpora.rows import Row
from turnmark.evaluation.records import ContextRef, Sample, SampleStatus
from turnmark.evaluation.trec import ranked

Form = Literal["official", "turnmark"]
Key = tuple[str, int]
M = TypeVar("M", bound=BaseModel)

MTRAG_FAMILY: tuple[str, ...] = get_args(Benchmark)


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in a line: at which field, what, and which value."""

    path: str
    what: str
    detail: str = ""


@dataclass
class Line:
    """What a line says.

    Attributes:
        key: of its sample, where that can be told.
        sample: None where there are faults.
        remarks: what was decided on reading it, a kind each.
    """

    key: Key | None
    sample: Sample | None = None
    faults: list[Fault] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Text(_Wire):
    text: str


class _Utterance(BaseModel):
    speaker: str
    text: str


class _Official(_Wire):
    task_id: str = Field(pattern=r"\S")
    predictions: list[_Text] = Field(min_length=1)
    contexts: list[ContextRef] = []
    task_type: str | None = None
    conversation_id: str | None = None
    dataset: str | None = None
    Collection: str | None = None
    input: list[_Utterance] = []
    targets: list[_Utterance] = []


class _Step(BaseModel):
    model_config = ConfigDict(extra="allow")

    step: str


class _Ours(Sample):
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
        return steps  # which is so by their type, each mistake with its place


def form_of(row: Row) -> Form | None:
    """The form that a line is in; None where it is neither, or both at once."""
    if "predictions" in row:
        return None if "prediction" in row else "official"
    if "prediction" in row or "id" in row or "status" in row:
        return "turnmark"
    return "official" if "task_id" in row else None


def key_of(row: Row, form: Form, benchmark: str) -> Key | None:
    """Id and repeat of a line, where they are right."""
    name = "task_id" if form == "official" or _named_as_task(row, benchmark) else "id"
    identifier, repeat = row.get(name), 0 if form == "official" else row.get("repeat")
    repeat = 0 if repeat is None else repeat
    if (
        not isinstance(identifier, str)
        or not identifier.strip()
        or isinstance(repeat, bool)
        or not isinstance(repeat, int)
    ):
        return None
    return (canonical_id(identifier) if benchmark in MTRAG_FAMILY else identifier), repeat


def read_line(row: Row, form: Form, benchmark: str, keep_order: bool = False) -> Line:
    """What a line says, and every mistake in it. `row` is used up.

    Args:
        keep_order: the contexts stay as they stand; else they are brought into trec_eval's order.
    """
    line = Line(key_of(row, form, benchmark))
    if form == "official":
        _read_official(row, line)
    else:
        _read_ours(row, line, benchmark)
    if line.faults:
        line.sample = None
    elif line.sample is not None and line.sample.contexts and not keep_order:
        line.sample = line.sample.model_copy(update={"contexts": ranked(line.sample.contexts)})
    if line.sample is not None and line.sample.status == "done" and not (line.sample.prediction or "").strip():
        line.remarks.append("empty")
    return line


def _read_official(row: Row, line: Line) -> None:
    if row.get("contexts") is None:
        line.remarks.append("no_contexts")
    official = _validated(_Official, row, line)
    collection = row.get("Collection")
    domain = None
    if isinstance(collection, str):
        try:
            domain = domain_of(collection)
        except ValueError:
            line.faults.append(Fault("Collection", "names no domain", quoted(collection)))
    if official is None or line.faults:
        return
    if len(official.predictions) > 1:
        line.remarks.append("several")
    last_turn = official.input[-1] if official.input and official.input[-1].speaker == "user" else None
    line.sample = Sample(
        id=canonical_id(official.task_id),
        status="done",
        domain=domain,
        query=last_turn.text if last_turn else None,
        contexts=tuple(official.contexts),
        prediction=official.predictions[0].text,
    )


def _read_ours(row: Row, line: Line, benchmark: str) -> None:
    if _named_as_task(row, benchmark):
        row["id"] = row.pop("task_id")
    status = row.get("status") or "done"
    if status == "done" and row.get("prediction") is None:
        line.faults.append(Fault("prediction", "missing: the answer is expected, or the status failed with a reason"))
    ours = _validated(_Ours, row, line)
    if ours is not None and not line.faults:
        name = canonical_id(ours.id) if benchmark in MTRAG_FAMILY else ours.id
        line.sample = Sample.model_validate({**ours.model_dump(), "id": name, "usage": row.get("usage", {})})


def _named_as_task(row: Row, benchmark: str) -> bool:
    return benchmark in MTRAG_FAMILY and row.get("id") is None and row.get("task_id") is not None


# --- one line against its model --------------------------------------------------------------------------------------


def _validated(model: type[M], row: Row, line: Line) -> M | None:
    """The row as a model, or None and the faults. Fields that the model lacks mean nothing here.

    A field that is null is as if it were not there.
    """
    for name in [name for name, value in row.items() if value is None or name not in model.model_fields]:
        del row[name]
    line.faults += _fill_contexts(row)
    paths = {fault.path for fault in line.faults}
    errors: list[ErrorDetails] = []
    for _ in range(2):  # once more without the fields that the model lacks
        try:
            return model.model_validate_json(json.dumps(row, allow_nan=False), strict=True)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        except ValueError:
            line.faults.append(Fault("", "a number that is none: NaN or infinity"))
            return None
        extra = [fault["loc"] for fault in errors if fault["type"] == "extra_forbidden"]
        for loc in extra:
            _remove(row, loc)
        if not extra:
            break
    for fault in errors:
        if (path := _path(fault["loc"])) not in paths:
            value = fault["input"]
            shown = isinstance(value, str | int | float) and not isinstance(value, bool)
            message = fault["msg"].removeprefix("Value error, ").replace(r"match pattern '\S'", "not be blank")
            line.faults.append(Fault(path, message, quoted(value) if shown else ""))
    return None


def _fill_contexts(row: Row) -> Iterator[Fault]:
    """Give passages without scores those of their ranks, and tell what no type tells: blank and repeated ids."""
    contexts = row.get("contexts")
    if not isinstance(contexts, list):
        return
    entries = [entry for entry in contexts if isinstance(entry, dict)]
    for entry in entries:
        for name in [name for name, value in entry.items() if value is None]:
            del entry[name]
    if not any("score" in entry for entry in entries):
        for rank, entry in enumerate(entries, 1):
            entry["score"] = 1 / rank
    ids: set[str] = set()
    for at, entry in enumerate(contexts):
        name = entry.get("document_id") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if not name.strip():
            yield Fault(f"contexts[{at}].document_id", "a text that is not blank was expected")
        elif name in ids:
            yield Fault(f"contexts[{at}].document_id", "the passage stands in the list already", quoted(name))
        ids.add(name)


def _remove(row: Row, loc: Sequence[int | str]) -> None:
    inner: Any = row
    for step in loc[:-1]:
        inner = inner[step]
    inner.pop(loc[-1], None)


# --- words -----------------------------------------------------------------------------------------------------------


def quoted(value: object, longest: int = 80) -> str:
    """A value from a file as it may stand in a message: one inert line, cut."""
    text = inert(repr(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _joined(path: str, name: str) -> str:
    name = name if name.isidentifier() and len(name) <= 40 else quoted(name, 40)
    return f"{path}.{name}" if path else name


def _path(loc: Sequence[int | str]) -> str:
    """`("contexts", 2, "score")` as `contexts[2].score`."""
    path = ""
    for step in loc:
        path = f"{path}[{step}]" if isinstance(step, int) else _joined(path, step)
    return path
