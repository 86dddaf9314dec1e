"""InsCoQA samples divided into the paper's three splits, and its Tables 1 and 2 over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from turnmark.corpora import inscoqa
from turnmark.corpora.inscoqa import Split
from turnmark.corpora.statistics import Line, Sheet, length, mean
from turnmark.evaluation.synth.records import SynthItem

SHARES: Mapping[Split, float] = {"train": 0.7, "test": 0.2, "validation": 0.1}
"""Of the samples, as the paper's 9,760, 1,406 and 2,793 divide them."""
_TABLE_1: Mapping[Split, Mapping[str, tuple[float, float, float]]] = {
    "train": {
        "documents": (1, 44, 4.07), "words": (15, 1024, 144), "procedure": (5, 292, 82), "steps": (1, 36, 6.5),
    },
    "validation": {
        "documents": (1, 14, 4.18), "words": (12, 699, 138), "procedure": (10, 272, 84), "steps": (2, 28, 6.5),
    },
    "test": {"documents": (1, 8, 4.10), "words": (10, 770, 141), "procedure": (10, 404, 83), "steps": (1, 23, 6.6)},
}  # fmt: skip
_TABLE_2: Mapping[str, tuple[float, float, float, float]] = {
    "Fashion": (4.36, 558, 3.09, 5.67), "Study": (3.98, 570, 3.22, 6.28), "Gourmet": (4.36, 630, 3.04, 7.17),
    "Makeup": (4.28, 613, 3.09, 6.36), "Movies & TV": (4.15, 537, 3.20, 6.16), "Workplace": (3.71, 609, 3.17, 6.75),
    "Relationships": (4.43, 717, 3.06, 6.52), "Home Decor": (4.06, 600, 3.16, 6.39), "Games": (3.69, 509, 3.08, 6.44),
    "Travel": (3.77, 636, 3.01, 5.91), "Health & Fitness": (4.22, 685, 3.02, 6.32),
    "Technology": (4.02, 558, 3.13, 7.24), "Others": (4.13, 643, 3.22, 7.06), "all": (4.09, 606, 3.11, 6.50),
}  # fmt: skip
_OF: Mapping[str, tuple[str, Callable[[inscoqa.Task], Sequence[int]]]] = {
    "documents": ("documents", lambda task: [len(task.documents)]),
    "words": ("words a document", lambda task: [length(document.text) for document in task.documents]),
    "procedure": ("words a procedure", lambda task: [length(" ".join(task.procedure))]),
    "steps": ("steps", lambda task: [len(task.procedure)]),
}


def groups(items: Sequence[SynthItem]) -> list[list[SynthItem]]:
    """The items in groups that share no document with each other, largest first."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for item in items:
        names = [document["id"] for document in item.content["documents"]]
        for name in names[1:]:
            parents[root(name)] = root(names[0])
    by_root: dict[str, list[SynthItem]] = {}
    for item in items:
        by_root.setdefault(root(item.content["documents"][0]["id"]), []).append(item)
    return sorted(by_root.values(), key=lambda group: (-len(group), group[0].id))


def divided(items: Sequence[SynthItem]) -> tuple[dict[Split, list[SynthItem]], tuple[str, ...]]:
    """Split -> items, by groups where these are small enough, else by seed document; and notes about it.

    A group goes where most is lacking of the split's share, and test is never empty. Where one group holds so much that
    the shares would be far off, samples of one seed document stay together and others may share documents across
    splits; it is said how many.
    """
    units = groups(items)
    if units and len(units[0]) > max(SHARES.values()) * len(items):
        seeds: dict[str, list[SynthItem]] = {}
        for item in items:
            seeds.setdefault(item.seed, []).append(item)
        units = sorted(seeds.values(), key=lambda unit: (-len(unit), unit[0].id))
    splits: dict[Split, list[SynthItem]] = {name: [] for name in SHARES}
    placed: list[tuple[Split, list[SynthItem]]] = []
    for unit in units:
        lacking = max(SHARES, key=lambda name: SHARES[name] * len(items) - len(splits[name]))
        placed.append((lacking, unit))
        splits[lacking] += unit
    if placed and not splits["test"]:  # few groups: `eval` reads the test split, so the smallest is that
        split, last = placed[-1]
        splits["test"] = last
        splits[split] = [item for item in splits[split] if item not in last]
    shared = _shared(splits)
    return splits, (shared,) if shared else ()


def _shared(splits: Mapping[Split, Sequence[SynthItem]]) -> str:
    """How many test samples have a document that another split has too."""
    other_documents = {
        document["id"]
        for name, items in splits.items()
        if name != "test"
        for item in items
        for document in item.content["documents"]
    }
    count = sum(
        any(document["id"] in other_documents for document in item.content["documents"]) for item in splits["test"]
    )
    if not count:
        return ""
    return (
        f"leakage: {count} of {len(splits['test'])} test samples share a document with another split, since searches "
        "find the same documents again and again; samples of one seed document are in one split"
    )


def statistics(folder: Path) -> Sequence[Sheet]:
    """Tables 1 and 2 of the paper over what was written. Its tokens are not counted: it does not say whose they are."""
    loaded = {split: list(inscoqa.load_tasks(folder, split).data.values()) for split in inscoqa.splits(folder)}
    sheets = [Sheet(title=f"Samples: {split}", source="InsCoQA, section 4.1 and Table 1", lines=_table_1(split, tasks))
              for split, tasks in loaded.items()]  # fmt: skip
    tasks = [task for split in loaded.values() for task in split]
    if tasks:
        note = "words of a conversation's documents together, as far as the paper's figures tell"
        sheets.append(Sheet(title="By domain", source="InsCoQA, Table 2", lines=tuple(_table_2(tasks)), note=note))
    return sheets


def _table_1(split: Split, tasks: Sequence[inscoqa.Task]) -> tuple[Line, ...]:
    from turnmark.corpora.statistics import SAMPLES

    lines = [Line(what="samples", here=len(tasks), paper=SAMPLES[split])]
    for key, (label, values_of) in _OF.items():
        values = [value for task in tasks for value in values_of(task)]
        lowest, highest, middle = _TABLE_1[split][key]
        lines += [
            Line(what=f"{label}: least", here=min(values), paper=lowest),
            Line(what=f"{label}: most", here=max(values), paper=highest),
            Line(what=f"{label}: mean", here=mean(values), paper=middle),
        ]
    return tuple(lines)


def _table_2(tasks: Sequence[inscoqa.Task]) -> list[Line]:
    domains = [name for name in inscoqa.DOMAINS if any(task.domain == name for task in tasks)]
    lines = []
    for name in (*domains, "all"):
        selected = [task for task in tasks if name in ("all", task.domain)]
        measured = (
            ("documents", mean(len(task.documents) for task in selected)),
            (
                "words of documents",
                mean(sum(length(document.text) for document in task.documents) for task in selected),
            ),
            ("rounds", mean(task.rounds for task in selected)),
            ("steps", mean(len(task.procedure) for task in selected)),
        )
        lines += [
            Line(what=f"{name} ({len(selected)}): {label}", here=value, paper=paper)
            for (label, value), paper in zip(measured, _TABLE_2[name], strict=True)
        ]
    return lines
