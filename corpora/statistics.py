"""Figures of benchmark data beside those that its paper prints: InsCoQA, Compound-QA and KIWI.

MTRAG's, and the check of a whole folder, are in `turnmark.corpora.checking`. InsCoQA's Tables 1 and 2 are whole but for
tokens: a word is what white space divides, and tokens of a tokenizer that the paper does not name cannot be counted.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import Field

from turnmark.corpora import compound_qa, inscoqa, kiwi
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem, Record


class Line(Record):
    """One figure, here and published."""

    what: str
    here: int | float | None = Field(description="None: cannot be told from the files that are here")
    paper: int | float | None = Field(default=None, description="None: not published, or not as a number")
    note: str = ""


class Sheet(Record):
    """A table of figures."""

    title: str
    source: str = Field(default="", description="where the published figures stand")
    lines: tuple[Line, ...]
    note: str = Field(default="", description="what to know before the columns are compared")


class Checked(Record):
    """What a folder holds of one benchmark."""

    benchmark: str
    root: Path
    demo: bool = Field(description="True: the split that ships with Turnmark")
    sheets: tuple[Sheet, ...]
    missing: tuple[str, ...] = Field(default=(), description="what a complete copy has besides")
    problems: tuple[Problem, ...] = Field(default=(), description="rows and files that cannot be read")


def mean(values: Iterable[int]) -> float | None:
    """The mean; None of nothing."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def length(text: str) -> int:
    """Words of a text: what white space divides. The papers do not say how they count; this is near MTRAG's Table 8."""
    return len(text.split())


def line(label: str, value: float | None, paper: float | None = None, note: str = "") -> Line:
    """A `Line`, its fields in order."""
    return Line(what=label, here=value, paper=paper, note=note)


def checked(
    benchmark: str, source: Source, sheets: Iterable[Sheet], missing: Iterable[str], problems: Iterable[Problem]
) -> Checked:
    """A `Checked`; of a demo split nothing is missing."""
    return Checked(
        benchmark=benchmark, root=source.root, demo=source.demo, sheets=tuple(sheets),
        missing=() if source.demo else tuple(missing), problems=tuple(problems),
    )  # fmt: skip


def counted(prefix: str, labels: Iterable[str], paper: Mapping[str, int] | None = None) -> list[Line]:
    """A line for each label with how often it is there, those that the paper prints first."""
    counts, published = Counter(labels), paper or {}
    names = [*published, *sorted(counts.keys() - published.keys())]
    return [line(f"{prefix} {name}", counts[name], published.get(name)) for name in names]


# --- InsCoQA

PRINTED = json.loads(Path(__file__).with_name("inscoqa_printed.json").read_text(encoding="utf-8"))
AVERAGES = ("documents a sample", "words of a sample's documents", "rounds", "steps a procedure")
"""The columns of Table 2."""


def check_inscoqa(source: Source) -> Checked:
    """The statistics of InsCoQA data in our schema.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    loaded = {split: inscoqa.load_tasks(source.root, split) for split in inscoqa.splits(source.root)}
    sheets = [_split(split, list(part.data.values())) for split, part in loaded.items()]
    tasks = [task for part in loaded.values() for task in part.data.values()]
    missing = [f"no {split}.jsonl" for split in get_args(inscoqa.Split) if split not in loaded]
    problems = [problem for part in loaded.values() for problem in part.problems]
    return checked("inscoqa", source, [*sheets, *([_domains(tasks)] if tasks else [])], missing, problems)


def _split(split: inscoqa.Split, tasks: Sequence[inscoqa.Task]) -> Sheet:
    counts = {
        "documents a sample": [len(task.documents) for task in tasks],
        "words a document": [length(document.text) for task in tasks for document in task.documents],
        "words a procedure": [length(" ".join(task.procedure)) for task in tasks],
        "steps a procedure": [len(task.procedure) for task in tasks],
    }
    spreads = [
        line(f"{label}, {name}", value, paper)
        for label, values in counts.items()
        for name, value, paper in zip(
            ("min", "max", "mean"),
            (min(values, default=None), max(values, default=None), mean(values)),
            PRINTED["table_1"][split][label],
            strict=True,
        )
    ]
    return Sheet(
        title=f"InsCoQA: {split}",
        source="InsCoQA, section 4.1 and Table 1",
        lines=(
            line("samples", len(tasks), PRINTED["samples"][split]),
            *spreads,
        ),
        note="how the paper counts words is not said; its tokens are left out, since it names no tokenizer",
    )


def _domains(tasks: Sequence[inscoqa.Task]) -> Sheet:
    """Table 2, over all splits that are here."""
    by_domain: dict[str, list[inscoqa.Task]] = {}
    for task in tasks:
        by_domain.setdefault(task.domain, []).append(task)
    paper = PRINTED["table_2"]
    names = [name for name in paper if name in by_domain] + sorted(by_domain.keys() - paper.keys())
    lines = [figure for name in names for figure in _averages(name, by_domain[name], paper.get(name))]
    return Sheet(
        title="InsCoQA: averages by domain",
        source="InsCoQA, Table 2",
        lines=(*lines, *_averages("all domains", tasks, PRINTED["all_domains"])),
        note="over the splits that are here; the paper's are over all three",
    )


def _averages(domain: str, tasks: Sequence[inscoqa.Task], paper: Sequence[float] | None) -> Iterator[Line]:
    values = (
        mean(len(task.documents) for task in tasks),
        mean(sum(length(document.text) for document in task.documents) for task in tasks),
        mean(task.rounds for task in tasks),
        mean(len(task.procedure) for task in tasks),
    )
    for place, label in enumerate(AVERAGES):
        yield line(f"{domain}: {label}", values[place], paper[place] if paper else None)


# --- Compound-QA

A_FILE = 100
"""Compound-QA, section 3.3: questions of each capability and type."""


def check_compound_qa(source: Source) -> Checked:
    """The statistics of Compound-QA.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    loaded = compound_qa.load_tasks(source.root)
    tasks = list(loaded.data.values())
    pairs = list(itertools.product(get_args(compound_qa.Capability), get_args(compound_qa.QuestionType)))
    files = {(file.capability, file.type) for file in compound_qa.files(source.root)}
    counts = Counter((task.capability, task.type) for task in tasks)
    sheet = Sheet(
        title="Compound-QA: questions",
        source="Compound-QA, section 3.3",
        lines=(
            line("questions", len(tasks), A_FILE * len(pairs)),
            *(line(" ".join(pair), counts[pair], A_FILE) for pair in pairs if pair in files),
            line("without a context", sum(task.closed_book for task in tasks)),
        ),
        note="the repository's files may hold more than the paper's 100 questions each",
    )
    missing = [f"no file {' '.join(pair)}" for pair in pairs if pair not in files]
    return checked("compound-qa", source, [sheet], missing, loaded.problems)


# --- KIWI

SESSIONS, TURNS, EDITED = 234, 1260, 315
"""KIWI, Table 2."""
_KIWI_TABLE_2 = dict(zip(kiwi.MODELS, ((370, 55, 4.7, 59), (402, 111, 5.2, 61), (488, 149, 6.3, 44)), strict=True))
"""Model -> turns, edited ones, turns a session, % of turns that seek information."""


def check_kiwi(source: Source) -> Checked:
    """The statistics of KIWI.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    loaded = kiwi.load_sessions(source.root)
    sessions = loaded.data
    turns = [turn for session in sessions for turn in session.turns]
    models = dict.fromkeys(kiwi.model_name(session.model) for session in sessions)
    names = [name for name in kiwi.MODELS if name in models or not source.demo]
    names += [name for name in models if name not in kiwi.MODELS]
    missing = [f"{len(sessions)} of {SESSIONS} sessions"] if len(sessions) < SESSIONS else []
    if kiwi.load_papers(source.root) is None:
        missing.append("no longform_sciqa.jsonl, the questions' cited papers")
    seeking = _seeking(turns)
    sheet = Sheet(
        title="KIWI: sessions and turns",
        source="KIWI, Table 2",
        lines=(
            line("sessions", len(sessions), SESSIONS),
            line("turns", len(turns), TURNS),
            line("edited turns", sum(turn.edit is not None for turn in turns), EDITED),
            line("turns a session", mean(len(session.turns) for session in sessions), 5.4),
            line(_SEEKING, seeking, 54, "" if seeking is not None or not turns else "the rows do not say it"),
            *(figure for name in names for figure in _by_model(name, sessions)),
            *counted("rated", (turn.rating for turn in turns)),
            line("sessions with cited papers", sum(session.papers is not None for session in sessions)),
        ),
    )
    return checked("kiwi", source, [sheet], missing, loaded.problems)


_SEEKING = "information-seeking, % of turns"


def _seeking(turns: Sequence[kiwi.Turn]) -> float | None:
    """% of the turns whose class is known that seek information."""
    is_seeking = [turn.coarse == "information-seeking" for turn in turns if turn.coarse is not None]
    return 100 * sum(is_seeking) / len(is_seeking) if is_seeking else None


def _by_model(name: str, sessions: Sequence[kiwi.Session]) -> Iterator[Line]:
    """A row of Table 2."""
    sessions_of_model = [session for session in sessions if kiwi.model_name(session.model) == name]
    turns = [turn for session in sessions_of_model for turn in session.turns]
    edited = sum(turn.edit is not None for turn in turns)
    values = (len(turns), edited, mean(len(session.turns) for session in sessions_of_model), _seeking(turns))
    labels = ("turns", "edited turns", "turns a session", _SEEKING)
    for label, count, paper in zip(labels, values, _KIWI_TABLE_2.get(name, (None,) * 4), strict=True):
        yield line(f"{name}: {label}", count, paper)
