"""The statistics of InsCoQA beside those of its paper: Tables 1 and 2 whole, but for tokens.

Table 1 counts words and tokens and does not say how: a word here is what white space divides, and tokens of a tokenizer
that is not named cannot be counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from turnmark.corpora import inscoqa
from turnmark.corpora.rows import Source
from turnmark.corpora.statistics import NOT_RECOVERABLE, Checked, Line, Sheet, counted, length, lengths, mean
from turnmark.corpora.types import Problem

SAMPLES: Mapping[str, int] = {"train": 9760, "validation": 1406, "test": 2793}
"""Section 4.1."""
Spread = tuple[int, int, float]
"""Smallest, largest, mean."""
TABLE_1: Mapping[str, Mapping[str, Spread]] = {
    "train": {
        "documents a sample": (1, 44, 4.07), "words a document": (15, 1024, 144), "words a procedure": (5, 292, 82),
        "steps a procedure": (1, 36, 6.5),
    },
    "validation": {
        "documents a sample": (1, 14, 4.18), "words a document": (12, 699, 138), "words a procedure": (10, 272, 84),
        "steps a procedure": (2, 28, 6.5),
    },
    "test": {
        "documents a sample": (1, 8, 4.10), "words a document": (10, 770, 141), "words a procedure": (10, 404, 83),
        "steps a procedure": (1, 23, 6.6),
    },
}  # fmt: skip
AVERAGES = ("documents a sample", "words of a sample's documents", "rounds", "steps a procedure")
"""The columns of Table 2."""
TABLE_2: Mapping[str, Sequence[float]] = {
    "Fashion": (4.36, 558, 3.09, 5.67),
    "Study": (3.98, 570, 3.22, 6.28),
    "Gourmet": (4.36, 630, 3.04, 7.17),
    "Makeup": (4.28, 613, 3.09, 6.36),
    "Movies & TV": (4.15, 537, 3.20, 6.16),
    "Workplace": (3.71, 609, 3.17, 6.75),
    "Relationships": (4.43, 717, 3.06, 6.52),
    "Home Decor": (4.06, 600, 3.16, 6.39),
    "Games": (3.69, 509, 3.08, 6.44),
    "Travel": (3.77, 636, 3.01, 5.91),
    "Health & Fitness": (4.22, 685, 3.02, 6.32),
    "Technology": (4.02, 558, 3.13, 7.24),
    "Others": (4.13, 643, 3.22, 7.06),
}
ALL_DOMAINS = (4.09, 606, 3.11, 6.50)


def check_inscoqa(source: Source) -> Checked:
    """The statistics of InsCoQA data in our schema.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    sheets: list[Sheet] = []
    problems: list[Problem] = []
    tasks: list[inscoqa.Task] = []
    there = inscoqa.splits(source.root)
    for split in there:
        loaded = inscoqa.load_tasks(source.root, split)
        problems += loaded.problems
        sheets.append(_split(split, list(loaded.data.values())))
        tasks += loaded.data.values()
    sheets += [_domains(tasks)] if tasks else []
    missing = [f"no {split}.jsonl" for split in get_args(inscoqa.Split) if split not in there]
    return Checked(
        benchmark="inscoqa",
        root=source.root,
        demo=source.demo,
        sheets=tuple(sheets),
        missing=() if source.demo else tuple(missing),
        problems=tuple(problems),
    )


def _split(split: inscoqa.Split, tasks: Sequence[inscoqa.Task]) -> Sheet:
    counts = {
        "documents a sample": [len(task.documents) for task in tasks],
        "words a document": [length(document.text) for task in tasks for document in task.documents],
        "words a procedure": [length(" ".join(task.procedure)) for task in tasks],
        "steps a procedure": [len(task.procedure) for task in tasks],
    }
    return Sheet(
        title=f"InsCoQA: {split}",
        source="InsCoQA, section 4.1 and Table 1",
        lines=(
            Line(what="samples", here=len(tasks), paper=SAMPLES[split]),
            *(line for what, values in counts.items() for line in _spread(what, values, TABLE_1[split][what])),
            *counted((task.domain for task in tasks), inscoqa.DOMAINS, note=NOT_RECOVERABLE, before="domain "),
            *lengths("answer", (task.answer for task in tasks)),
        ),
        note="how the paper counts words is not said; its tokens are left out, since it names no tokenizer",
    )


def _spread(what: str, values: Sequence[int], paper: Spread) -> Iterable[Line]:
    here = (min(values, default=None), max(values, default=None), mean(values))
    for name, ours, theirs in zip(("min", "max", "mean"), here, paper, strict=True):
        yield Line(what=f"{what}, {name}", here=ours, paper=theirs)


def _domains(tasks: Sequence[inscoqa.Task]) -> Sheet:
    """Table 2, over all splits that are here."""
    by: dict[str, list[inscoqa.Task]] = {}
    for task in tasks:
        by.setdefault(task.domain, []).append(task)
    named = [name for name in TABLE_2 if name in by] + sorted(by.keys() - TABLE_2.keys())
    lines = [line for name in named for line in _averages(name, by[name], TABLE_2.get(name))]
    lines += _averages("all domains", tasks, ALL_DOMAINS)
    return Sheet(
        title="InsCoQA: averages by domain",
        source="InsCoQA, Table 2",
        lines=tuple(lines),
        note="over the splits that are here; the paper's are over all three",
    )


def _averages(domain: str, tasks: Sequence[inscoqa.Task], paper: Sequence[float] | None) -> Iterable[Line]:
    here = (
        mean(len(task.documents) for task in tasks),
        mean(sum(length(document.text) for document in task.documents) for task in tasks),
        mean(task.rounds for task in tasks),
        mean(len(task.procedure) for task in tasks),
    )
    for place, what in enumerate(AVERAGES):
        yield Line(what=f"{domain}: {what}", here=here[place], paper=paper[place] if paper else None)
