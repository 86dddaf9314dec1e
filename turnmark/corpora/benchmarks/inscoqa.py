"""InsCoQA: conversational questions over several instructional documents, from JSONL files in Turnmark's own schema.

Paper: "Benchmarking Large Language Models for Conversational Question Answering in Multi-instructional Documents". It
publishes how the data was made (section 3, appendices A to C), the metrics and the results, but not the data. The
schema is therefore Turnmark's own, one sample per line. A row of the demo split, shortened:

    {"id": "demo-gourmet-1", "domain": "Gourmet",
     "documents": [{"id": "handbook/sourdough-lighthouse-loaf.md", "title": "The lighthouse loaf: sourdough for …",
                    "text": "Ansel Rook baked this bread at Stack Nell for nineteen years, …"}, …],
     "history": [["Which of the island's sourdough breads needs the least handling?", "The lighthouse loaf …"], …],
     "question": "Good, I'll take that one. My starter has been in the refrigerator all week, so what do I do …?",
     "answer": "Wake the starter first: feed it twice, twelve hours apart, in the warm. After supper mix 500 g …",
     "procedure": ["Feed the starter twice, twelve hours apart, in the warm.", …]}

`documents` and `procedure` have at least one item: the task is answered from the documents, and the completion rate is
a share of the procedure's steps (section 5.1). `history` may be empty. Other fields are ignored. A row that cannot be
read becomes a Problem with file and line, and the others are still read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, TypeAdapter, field_validator

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora import jsonl_rows
from turnmark.corpora.jsonl_rows import JsonRow, LoadedRows, NonBlank, OptionalText, Source
from turnmark.corpora.types import Message, Problem, exchange

Split = Literal["train", "validation", "test"]

DOMAINS = (
    "Fashion", "Study", "Gourmet", "Makeup", "Movies & TV", "Workplace", "Relationships", "Home Decor", "Games",
    "Travel", "Health & Fitness", "Technology", "Others",
)  # fmt: skip
"""The thirteen domains of the paper, in the order of its Table 2. Your own data may have other values."""
DEMO_ROOT = Path(__file__).parents[1] / "demo" / "inscoqa"

_ADVICE = (
    "no public copy of InsCoQA exists, so point --data at a folder with a test.jsonl in the schema of docs/data.md"
)


class InstructionalDocument(Record, extra="ignore"):
    """One of the documents that a sample is answered from."""

    id: NonBlank
    title: OptionalText = Field(default="", description="empty if the file has none")
    text: NonBlank


def _messages(value: Any) -> Any:
    if isinstance(value, list):
        rounds = TypeAdapter(list[tuple[NonBlank, NonBlank]]).validate_python(value)
        return [message for question, answer in rounds for message in exchange(question, answer)]
    return value


class InscoqaTask(Record, extra="ignore"):
    """The last question of a conversation, with its documents and its reference answer (section 3.2)."""

    id: NonBlank
    domain: NonBlank
    documents: tuple[InstructionalDocument, ...] = Field(min_length=1)
    history: Annotated[tuple[Message, ...], BeforeValidator(_messages)] = Field(
        description="the rounds before the question: user and assistant in turn"
    )
    question: NonBlank
    answer: NonBlank = Field(description="the reference as plain text")
    procedure: tuple[NonBlank, ...] = Field(min_length=1, description="the reference as a flat list of steps")

    @field_validator("documents")
    @classmethod
    def _check_unique_ids(cls, documents: tuple[InstructionalDocument, ...]) -> tuple[InstructionalDocument, ...]:
        counts = Counter(document.id for document in documents)
        for name, count in counts.items():
            if count > 1:
                raise ValueError(f"the id {name!r} occurs twice")
        return documents

    @property
    def rounds(self) -> int:
        """Number of rounds of question and answer, including the last question (as in Table 2's #Q/A rounds)."""
        return len(self.history) // 2 + 1


def locate(data: Path | None) -> Source:
    """Find the folder to read: `data`, its child `inscoqa`, `$TURNMARK_DATA/inscoqa`, or the demo split.

    `data` may also be one of the three files; it then selects that split (`split_named`).
    """
    return jsonl_rows.locate(
        data.parent if data is not None and split_named(data) else data,
        "inscoqa",
        DEMO_ROOT,
        lambda root: any((root / f"{split}.jsonl").is_file() for split in get_args(Split)),
        "contains no train.jsonl, validation.jsonl or test.jsonl",
        _ADVICE,
    )


def split_named(data: Path | None) -> Split | None:
    """Return the split of a file such as `…/validation.jsonl`; None for a folder or another file."""
    if data is None or data.suffix != ".jsonl" or not data.is_file():
        return None
    return next((split for split in get_args(Split) if data.stem == split), None)


def splits(root: Path) -> tuple[Split, ...]:
    """Return the splits in a folder, in the paper's order (section 4.1)."""
    return tuple(split for split in get_args(Split) if (root / f"{split}.jsonl").is_file())


def _parse_split(root: Path, split: Split) -> Iterator[tuple[str, InscoqaTask] | Problem]:
    if split not in get_args(Split):
        raise RequestError(f"split {split!r}; there are: {', '.join(get_args(Split))}")

    def parse(row: JsonRow) -> tuple[str, InscoqaTask]:
        task = InscoqaTask.model_validate(row)
        return task.id, task

    label = f"{split}.jsonl"
    path = jsonl_rows.require_file(root, label, f"the {split} split of InsCoQA", _ADVICE)
    return jsonl_rows.parse_rows(path, label, parse)


def stream_tasks(root: Path, split: Split = "test") -> Iterator[InscoqaTask | Problem]:
    """Iterate over the tasks of a split in the file's order, with a Problem for each row that cannot be read."""
    return (item if isinstance(item, Problem) else item[1] for item in _parse_split(root, split))


def load_tasks(root: Path, split: Split = "test") -> LoadedRows[dict[str, InscoqaTask]]:
    """Read the tasks of a split into memory, by id, in the file's order."""
    return jsonl_rows.collect_rows(_parse_split(root, split), root / f"{split}.jsonl")
