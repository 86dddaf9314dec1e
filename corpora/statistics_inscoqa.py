"""The statistics of InsCoQA beside the paper's: Table 1 by split, Table 2 by domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from corpora import inscoqa
from corpora.inscoqa import Split, Task
from corpora.rows import Source
from corpora.statistics import NOT_RECOVERABLE, Checked, Line, Sheet, counted, length, lengths, mean
from corpora.types import Problem

SAMPLES = {"train": 9760, "validation": 1406, "test": 2793}
"""Section 4.1."""
Three = tuple[float, float, float]
_TABLE_1: Mapping[str, Mapping[str, Three]] = {
    "train": {
        "documents": (1, 44, 4.07), "words": (15, 1024, 144), "tokens": (23, 1478, 204), "procedure": (5, 292, 82),
        "steps": (1, 36, 6.5),
    },
    "validation": {
        "documents": (1, 14, 4.18), "words": (12, 699, 138), "tokens": (22, 986, 196), "procedure": (10, 272, 84),
        "steps": (2, 28, 6.5),
    },
    "test": {
        "documents": (1, 8, 4.10), "words": (10, 770, 141), "tokens": (18, 1032, 200), "procedure": (10, 404, 83),
        "steps": (1, 23, 6.6),
    },
}  # fmt: skip
"""Least, most and mean."""
_TABLE_2 = {
    "Fashion": (4.36, 558, 3.09, 5.67), "Study": (3.98, 570, 3.22, 6.28), "Gourmet": (4.36, 630, 3.04, 7.17),
    "Makeup": (4.28, 613, 3.09, 6.36), "Movies & TV": (4.15, 537, 3.20, 6.16), "Workplace": (3.71, 609, 3.17, 6.75),
    "Relationships": (4.43, 717, 3.06, 6.52), "Home Decor": (4.06, 600, 3.16, 6.39), "Games": (3.69, 509, 3.08, 6.44),
    "Travel": (3.77, 636, 3.01, 5.91), "Health & Fitness": (4.22, 685, 3.02, 6.32),
    "Technology": (4.02, 558, 3.13, 7.24), "Others": (4.13, 643, 3.22, 7.06),
}  # fmt: skip
"""Documents, their length, rounds and steps, each a mean."""
_ALL = (4.09, 606, 3.11, 6.50)


def check_inscoqa(source: Source) -> Checked:
    """The statistics of InsCoQA data in our schema.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    sheets: list[Sheet] = []
    problems: list[Problem] = []
    every: list[Task] = []
    there = inscoqa.splits(source.root)
    for split in there:
        loaded = inscoqa.load_tasks(source.root, split)
        problems += loaded.problems
        tasks = list(loaded.data.values())
        every += tasks
        sheets.append(_table_1(split, tasks))
    missing = [f"no {split}.jsonl" for split in get_args(Split) if split not in there]
    return Checked(
        benchmark="inscoqa",
        root=source.root,
        demo=source.demo,
        sheets=(*sheets, _table_2(every)),
        missing=() if source.demo else tuple(missing),
        problems=tuple(problems),
    )


def _table_1(split: Split, tasks: Sequence[Task]) -> Sheet:
    paper = _TABLE_1[split]
    documents = [document.text for task in tasks for document in task.documents]
    return Sheet(
        title=f"InsCoQA: {split}",
        source="InsCoQA, section 4.1, Table 1",
        lines=(
            Line(what="samples", here=len(tasks), paper=SAMPLES[split]),
            *_three("documents a sample", (len(task.documents) for task in tasks), paper["documents"]),
            *_three("words a document", map(length, documents), paper["words"]),
            *_three("tokens a document", None, paper["tokens"]),
            *_three("words a procedure", (length(" ".join(task.procedure)) for task in tasks), paper["procedure"]),
            *_three("steps a procedure", (len(task.procedure) for task in tasks), paper["steps"]),
            *counted((task.domain for task in tasks), inscoqa.DOMAINS, note=NOT_RECOVERABLE, before="domain "),
            *lengths("answer", (task.answer for task in tasks)),
        ),
        note="how the paper counts words is not said",
    )


def _three(what: str, values: Iterable[int] | None, paper: Three) -> list[Line]:
    """Least, most and mean.

    Args:
        values: None: the paper does not say how it counts, so that there is nothing to set beside it.
    """
    found = None if values is None else list(values)
    note = "the tokenizer is not named" if found is None else ""
    here = (min(found), max(found), mean(found)) if found else (None, None, None)
    names = ("min", "max", "mean")
    return [
        Line(what=f"{what}, {name}", here=one, paper=other, note=note)
        for name, one, other in zip(names, here, paper, strict=True)
    ]


def _table_2(tasks: Sequence[Task]) -> Sheet:
    names = [name for name in inscoqa.DOMAINS if any(task.domain == name for task in tasks)]
    lines = [
        line for name in names for line in _means(name, [task for task in tasks if task.domain == name], _TABLE_2[name])
    ]
    return Sheet(
        title="InsCoQA: by domain",
        source="InsCoQA, Table 2",
        lines=(*lines, *_means("all", tasks, _ALL)),
        note="of all splits; length: of all documents of a sample, since 606 words are about 4.09 documents of 144",
    )


def _means(name: str, tasks: Sequence[Task], paper: tuple[float, float, float, float]) -> list[Line]:
    values: Mapping[str, Iterable[int]] = {
        "documents": (len(task.documents) for task in tasks),
        "words of documents": (sum(length(one.text) for one in task.documents) for task in tasks),
        "rounds": (task.rounds for task in tasks),
        "steps": (len(task.procedure) for task in tasks),
    }
    pairs = zip(values.items(), paper, strict=True)
    return [Line(what=f"{name}: {what}", here=mean(found), paper=other) for (what, found), other in pairs]
