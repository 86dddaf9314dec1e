"""Reads Compound-QA (several questions asked at once) from the files of the official repository.

Source: https://github.com/sustech-nlp/Compound-QA, folder `data/<Capability>/`, one JSONL file per question type (the
paper says CC BY-SA 4.0). Paper: "Compound-QA: A Benchmark for Evaluating LLMs on Compound Questions". One row of
`data/Understanding/Understanding_Factual_Statement.jsonl`, shortened:

    {"ID": "adversarial_qa_1",
     "context": "Céloron's expedition force consisted of about 200 Troupes de la marine and 30 Indians. …",
     "com_question": "Which lake was part of Céloron's expedition before Lake Erie, and where did they bury …?",
     "com_reference": "Before reaching Lake Erie, Céloron's expedition followed the northern shore of Lake Ontario. …"}

The same IDs recur in every file with different contexts, so a task's id is `<capability>/<type>/<ID>`. Rows without a
`context` are closed-book. The repository spells one folder `Knowleage` and writes type names with `_` or `-`; all
spellings are read. A row that cannot be read becomes a Problem with file and line, and the others are still read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora import jsonl_rows
from turnmark.corpora.jsonl_rows import JsonRow, LoadedRows, Source, get_non_blank
from turnmark.corpora.types import Problem

Capability = Literal["Understanding", "Reasoning", "Knowledge"]
QuestionType = Literal[
    "Factual-Statement",
    "Cause-and-Effect",
    "Hypothetical-Analysis",
    "Comparison-and-Selection",
    "Evaluation-and-Suggestion",
]

REPOSITORY = "https://github.com/sustech-nlp/Compound-QA"
DEMO_ROOT = Path(__file__).parents[1] / "demo" / "compound-qa"

_FOLDERS: dict[str, Capability] = {name.lower(): name for name in get_args(Capability)} | {"knowleage": "Knowledge"}


class DataFile(Record):
    """One file of the benchmark: a capability and a question type."""

    capability: Capability
    type: QuestionType
    path: Path
    shown: str = Field(description="its path under the root, for messages")


class CompoundQuestion(Record):
    """A compound question with its reference answer (sections 3.1 and 3.2)."""

    id: str = Field(description="<capability>/<type>/<ID>")
    capability: Capability = Field(description="what the question tests (a capability of the paper)")
    type: QuestionType
    source_id: str = Field(description="ID of the row; it recurs in the files of other types")
    context: str | None = Field(description="the text to answer from, or None if the question is closed-book")
    question: str
    reference: str


def _key(name: str) -> str:
    return re.sub(r"[^a-z]+", "-", name.lower()).strip("-")


_TYPES: dict[str, QuestionType] = {_key(name): name for name in get_args(QuestionType)}


def _find_files(root: Path) -> Iterator[DataFile | Problem]:
    """Yield the data files under a root, in the order of capability and type, and a Problem for each file that is left
    out.
    """
    paths_taken: dict[tuple[str, str], str] = {}
    files: list[DataFile] = []
    data = root / "data" if (root / "data").is_dir() else root
    paths = sorted(data.glob("*/*.jsonl"), key=lambda path: (path.parent.name not in get_args(Capability), path))
    for path in paths:
        capability = _FOLDERS.get(path.parent.name.lower())
        if capability is None:
            continue
        label = path.relative_to(root).as_posix()
        head, _, tail = path.stem.partition("_")
        kind = _TYPES.get(_key(tail)) if _FOLDERS.get(head.lower()) == capability else None
        if kind is None:
            kinds = ", ".join(get_args(QuestionType))
            yield Problem(file=label, what=f"the name is not {capability}_<Type>.jsonl with one of the types {kinds}")
        elif first_path := paths_taken.get((capability, kind)):
            yield Problem(file=label, what=f"left out, because {first_path} already contains {capability} {kind}")
        else:
            paths_taken[capability, kind] = label
            files.append(DataFile(capability=capability, type=kind, path=path, shown=label))
    order = (*get_args(Capability), *get_args(QuestionType))
    yield from sorted(files, key=lambda file: (order.index(file.capability), order.index(file.type)))


def file_of(task_id: str) -> str:
    """Return `<capability>/<type>` of a task's id: the sampling stratum."""
    return "/".join(task_id.split("/")[:2])


def files(root: Path) -> tuple[DataFile, ...]:
    """Return the data files under a root, in the paper's order of capabilities and types, without opening them."""
    return tuple(file for file in _find_files(root) if isinstance(file, DataFile))


def locate(data: Path | None) -> Source:
    """Find the folder to read: `data`, its child `compound-qa`, `$TURNMARK_DATA/compound-qa`, or the demo split."""
    return jsonl_rows.locate(
        data,
        "compound-qa",
        DEMO_ROOT,
        lambda root: bool(files(root)),
        "contains no data/<Capability>/<Capability>_<Type>.jsonl",
        f"git clone {REPOSITORY} and point --data at the clone",
    )


def _task(file: DataFile, row: JsonRow) -> tuple[str, CompoundQuestion]:
    context = row.get("context")
    if context is not None and not isinstance(context, str):
        raise ValueError(f"'context' is {type(context).__name__}, not text")
    source_id = get_non_blank(row, "ID")
    task = CompoundQuestion(
        id=f"{file.capability}/{file.type}/{source_id}",
        capability=file.capability,
        type=file.type,
        source_id=source_id,
        context=context if context and context.strip() else None,
        question=get_non_blank(row, "com_question"),
        reference=get_non_blank(row, "com_reference"),
    )
    return task.id, task


def _select_rows(
    root: Path, capabilities: Collection[str], types: Collection[str]
) -> Iterator[tuple[str, CompoundQuestion] | Problem]:
    """Check the filters, and iterate over (id, task) and Problems of the selected files."""
    for names, valid in ((capabilities, get_args(Capability)), (types, get_args(QuestionType))):
        unknown = [name for name in names if name not in valid]
        if unknown:
            raise RequestError(f"Compound-QA has no {', '.join(map(repr, unknown))}; there are: {', '.join(valid)}")
    files = list(_find_files(root))
    selected = [
        file
        for file in files
        if isinstance(file, DataFile)
        and (not capabilities or file.capability in capabilities)
        and (not types or file.type in types)
    ]
    if not selected:
        names = " for " + ", ".join([*capabilities, *types]) if capabilities or types else ""
        raise RequestError(
            f"Compound-QA: expected data/<Capability>/<Capability>_<Type>.jsonl{names} in {str(root)!r}, and there is "
            f"none; git clone {REPOSITORY} and point --data at the clone"
        )

    def items() -> Iterator[tuple[str, CompoundQuestion] | Problem]:
        yield from (file for file in files if isinstance(file, Problem))
        for file in selected:
            yield from jsonl_rows.parse_rows(file.path, file.shown, lambda row, file=file: _task(file, row))  # type: ignore[misc]

    return items()


def stream_tasks(
    root: Path, capabilities: Collection[str] = (), types: Collection[str] = ()
) -> Iterator[CompoundQuestion | Problem]:
    """Iterate over the tasks, file after file, with a Problem for each row or file that cannot be read.

    `capabilities` and `types` select tasks; empty: all.
    """
    return (item if isinstance(item, Problem) else item[1] for item in _select_rows(root, capabilities, types))


def load_tasks(root: Path) -> LoadedRows[dict[str, CompoundQuestion]]:
    """Read all tasks into memory, by id."""
    return jsonl_rows.collect_rows(_select_rows(root, (), ()), root)
