"""InsCoQA: conversational questions over several instructional documents, from JSONL files in Turnmark's own schema.

Paper: "Benchmarking Large Language Models for Conversational Question Answering in Multi-instructional Documents". It
publishes how the data was made (section 3, appendices A to C), the metrics and the results, but no data, so there is no
link and no official row. The schema below is ours; one sample a line. A row of the demo split, shortened:

    {"id": "demo-gourmet-1", "domain": "Gourmet",
     "documents": [{"id": "handbook/sourdough-lighthouse-loaf.md", "title": "The lighthouse loaf: sourdough for …",
                    "text": "Ansel Rook baked this bread at Stack Nell for nineteen years, …"}, …],
     "history": [["Which of the island's sourdough breads needs the least handling?", "The lighthouse loaf …"], …],
     "question": "Good, I'll take that one. My starter has been in the refrigerator all week, so what do I do …?",
     "answer": "Wake the starter first: feed it twice, twelve hours apart, in the warm. After supper mix 500 g …",
     "procedure": ["Feed the starter twice, twelve hours apart, in the warm.", …]}

`documents` and `procedure` hold at least one item, since the task is to answer from the one and a completion rate is a
share of the other (section 5.1); `history` may be empty. Fields that are not named here are not read. A row that cannot
be read is reported as a Problem with file and line and left out; it never stops the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from turnmark.corpora import rows
from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import Loaded, Row, Source, non_blank, objects, string
from turnmark.corpora.types import Message, Problem, Record

Split = Literal["train", "validation", "test"]

DOMAINS = (
    "Fashion", "Study", "Gourmet", "Makeup", "Movies & TV", "Workplace", "Relationships", "Home Decor", "Games",
    "Travel", "Health & Fitness", "Technology", "Others",
)  # fmt: skip
"""The thirteen domains of the paper, in the order of its Table 2. Data of one's own may have others."""
DEMO_ROOT = Path(__file__).parent / "demo" / "inscoqa"

_ADVICE = (
    "no public copy of InsCoQA exists, so point --data at a folder with a test.jsonl in the schema of docs/data.md"
)


class InstructionalDocument(Record):
    """One of the documents that a sample's answer is to be put together from."""

    id: str
    title: str = Field(description="empty where the file has none")
    text: str


class Task(Record):
    """The last question of a conversation, with the documents and the reference (section 3.2)."""

    id: str
    domain: str
    documents: tuple[InstructionalDocument, ...]
    history: tuple[Message, ...] = Field(description="the rounds before the question: user and assistant in turn")
    question: str
    answer: str = Field(description="the reference as plain text")
    procedure: tuple[str, ...] = Field(description="the reference as a flat list of steps")

    @property
    def rounds(self) -> int:
        """Rounds of question and answer, the last question's own included (the unit of Table 2's #Q/A rounds)."""
        return len(self.history) // 2 + 1


def locate(data: Path | None) -> Source:
    """The folder to read: `data`, its child `inscoqa`, `$TURNMARK_DATA/inscoqa`, or the demo split.

    Args:
        data: may also be one of the three files itself, which then is the split (`split_named`).
    """
    return rows.locate(
        data.parent if data is not None and split_named(data) else data,
        "inscoqa",
        DEMO_ROOT,
        lambda root: any((root / f"{split}.jsonl").is_file() for split in get_args(Split)),
        "holds no train.jsonl, validation.jsonl or test.jsonl",
        _ADVICE,
    )


def split_named(data: Path | None) -> Split | None:
    """The split whose file `data` is: `…/validation.jsonl`; None where it is a folder, or another file."""
    if data is None or data.suffix != ".jsonl" or not data.is_file():
        return None
    return next((split for split in get_args(Split) if data.stem == split), None)


def splits(root: Path) -> tuple[Split, ...]:
    """The splits that a folder holds, in the paper's order (section 4.1)."""
    return tuple(split for split in get_args(Split) if (root / f"{split}.jsonl").is_file())


def _texts(row: Row, key: str) -> tuple[str, ...]:
    value = row.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key!r} is missing" if value is None else f"{key!r} is not a list of texts")
    if not value or not all(item.strip() for item in value):
        raise ValueError(f"{key!r} is empty" if not value else f"{key!r} has an empty item")
    return tuple(value)


def _history(row: Row) -> tuple[Message, ...]:
    value: Any = row.get("history")
    if not isinstance(value, list):
        raise ValueError("'history' is missing" if value is None else "'history' is not a list of [question, answer]")
    messages: list[Message] = []
    for number, pair in enumerate(value, 1):
        is_pair = (
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) and part.strip() for part in pair)
        )
        if not is_pair:
            raise ValueError(f"'history': round {number} is not [question, answer], two texts that are not empty")
        messages += [Message(role="user", content=pair[0]), Message(role="assistant", content=pair[1])]
    return tuple(messages)


def _documents(row: Row) -> tuple[InstructionalDocument, ...]:
    documents: dict[str, InstructionalDocument] = {}
    for number, item in enumerate(objects(row, "documents"), 1):
        try:
            title = string({"title": item.get("title") or ""}, "title")
            document = InstructionalDocument(id=non_blank(item, "id"), title=title, text=non_blank(item, "text"))
        except ValueError as error:
            raise ValueError(f"'documents': number {number}: {error}") from None
        if document.id in documents:
            raise ValueError(f"'documents': the id {document.id!r} is there twice")
        documents[document.id] = document
    if not documents:
        raise ValueError("'documents' is empty")
    return tuple(documents.values())


def _parse(row: Row) -> tuple[str, Task]:
    task = Task(
        id=non_blank(row, "id"),
        domain=non_blank(row, "domain"),
        documents=_documents(row),
        history=_history(row),
        question=non_blank(row, "question"),
        answer=non_blank(row, "answer"),
        procedure=_texts(row, "procedure"),
    )
    return task.id, task


def _parsed(root: Path, split: Split) -> Iterator[tuple[str, Task] | Problem]:
    if split not in get_args(Split):
        raise RequestError(f"split {split!r}; there are: {', '.join(get_args(Split))}")
    label = f"{split}.jsonl"
    return rows.parsed(rows.existing(root, label, f"the {split} split of InsCoQA", _ADVICE), label, _parse)


def stream_tasks(root: Path, split: Split = "test") -> Iterator[Task | Problem]:
    """The tasks of a split one at a time, in the file's order, and a Problem for each row that cannot be read."""
    return (item if isinstance(item, Problem) else item[1] for item in _parsed(root, split))


def load_tasks(root: Path, split: Split = "test") -> Loaded[dict[str, Task]]:
    """The tasks of a split by id, in the file's order, all in memory."""
    return rows.collected(_parsed(root, split), root / f"{split}.jsonl")
