"""The statistics of Compound-QA and KIWI beside their papers'."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import get_args

from turnmark.corpora import compound_qa, kiwi
from turnmark.corpora.rows import Source
from turnmark.corpora.statistics import NOT_RECOVERABLE, Checked, Line, Sheet, counted, lengths, mean

A_FILE = 100
"""Compound-QA, section 3.3: questions of each capability and type."""
SESSIONS, TURNS, EDITED = 234, 1260, 315
"""KIWI, Table 2."""
_TABLE_2 = dict(zip(kiwi.MODELS, ((370, 55, 4.7, 59), (402, 111, 5.2, 61), (488, 149, 6.3, 44)), strict=True))
"""Model -> turns, edited ones, turns a session, % of turns that seek information."""


def check_compound_qa(source: Source) -> Checked:
    """The statistics of Compound-QA.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    loaded = compound_qa.load_tasks(source.root)
    tasks = list(loaded.data.values())
    pairs = list(itertools.product(get_args(compound_qa.Capability), get_args(compound_qa.QuestionType)))
    files = {(file.capability, file.type) for file in compound_qa.files(source.root)}
    lines = [
        Line(
            what=f"{capability} {kind}",
            here=sum((task.capability, task.type) == (capability, kind) for task in tasks),
            paper=A_FILE,
        )
        for capability, kind in pairs
        if (capability, kind) in files
    ]
    return Checked(
        benchmark="compound-qa",
        root=source.root,
        demo=source.demo,
        sheets=(
            Sheet(
                title="Compound-QA: questions",
                source="Compound-QA, section 3.3",
                lines=(
                    Line(what="questions", here=len(tasks), paper=A_FILE * len(pairs)),
                    *lines,
                    Line(what="without a context", here=sum(task.closed_book for task in tasks)),
                    *counted((task.dataset for task in tasks), before="made from "),
                    *lengths("question", (task.question for task in tasks)),
                    *lengths("reference", (task.reference for task in tasks)),
                    *lengths("context", (task.context for task in tasks if task.context is not None)),
                ),
                note="the repository's files may hold more than the paper's 100 questions each",
            ),
        ),
        missing=()
        if source.demo
        else tuple(f"no file {capability} {kind}" for capability, kind in pairs if (capability, kind) not in files),
        problems=loaded.problems,
    )


def check_kiwi(source: Source) -> Checked:
    """The statistics of KIWI.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    loaded = kiwi.load_sessions(source.root)
    sessions = loaded.data
    turns = [turn for session in sessions for turn in session.turns]
    there = dict.fromkeys(kiwi.model_name(session.model) for session in sessions)
    names = [
        *(name for name in kiwi.MODELS if name in there or not source.demo),
        *(name for name in there if name not in kiwi.MODELS),
    ]
    companion = kiwi.load_papers(source.root)
    missing = []
    if len(sessions) < SESSIONS:
        missing.append(f"{len(sessions)} of {SESSIONS} sessions")
    if companion is None:
        missing.append("no longform_sciqa.jsonl, the questions' cited papers")
    return Checked(
        benchmark="kiwi",
        root=source.root,
        demo=source.demo,
        sheets=(
            Sheet(
                title="KIWI: sessions and turns",
                source="KIWI, Table 2",
                lines=(
                    Line(what="sessions", here=len(sessions), paper=SESSIONS),
                    Line(what="turns", here=len(turns), paper=TURNS),
                    Line(what="edited turns", here=sum(turn.edit is not None for turn in turns), paper=EDITED),
                    Line(what="turns a session", here=mean(len(session.turns) for session in sessions), paper=5.4),
                    Line(
                        what="information-seeking, % of turns",
                        here=_seeking(turns),
                        paper=54,
                        note="" if _seeking(turns) is not None or not turns else "the rows do not say it",
                    ),
                    *(line for name in names for line in _by_model(name, sessions)),
                    *counted(
                        (turn.rating for turn in turns), get_args(kiwi.Rating), note=NOT_RECOVERABLE, before="rated "
                    ),
                    *counted((turn.fine for turn in turns if turn.fine), kiwi.FINE_TYPES, before="type "),
                    Line(
                        what="sessions with cited papers", here=sum(session.papers is not None for session in sessions)
                    ),
                    *lengths("instruction", (turn.instruction for turn in turns)),
                    *lengths("revision", (turn.answer for turn in turns)),
                ),
            ),
        ),
        missing=() if source.demo else tuple(missing),
        problems=loaded.problems,
    )


def _seeking(turns: Sequence[kiwi.Turn]) -> float | None:
    """% of the turns whose class is known that seek information."""
    known = [turn.coarse == "information-seeking" for turn in turns if turn.coarse is not None]
    return 100 * sum(known) / len(known) if known else None


def _by_model(name: str, sessions: Sequence[kiwi.Session]) -> list[Line]:
    """A row of Table 2."""
    own = [session for session in sessions if kiwi.model_name(session.model) == name]
    turns = [turn for session in own for turn in session.turns]
    paper = _TABLE_2.get(name, (None, None, None, None))
    here = (
        len(turns), sum(turn.edit is not None for turn in turns), mean(len(session.turns) for session in own),
        _seeking(turns),
    )  # fmt: skip
    what = ("turns", "edited turns", "turns a session", "information-seeking, % of turns")
    return [
        Line(what=f"{name}: {told}", here=one, paper=other) for told, one, other in zip(what, here, paper, strict=True)
    ]
