"""The statistics of InsCoQA, Compound-QA and KIWI beside their papers'."""

from __future__ import annotations

import itertools
from typing import get_args

from corpora import compound_qa, inscoqa, kiwi
from corpora.rows import Source
from corpora.statistics import NOT_RECOVERABLE, Checked, Line, Sheet, counted, length, lengths, mean
from corpora.types import Problem

SAMPLES = {"train": 9760, "validation": 1406, "test": 2793}
"""InsCoQA, section 4.1."""
_TABLE_1 = {
    "train": {"documents": 4.07, "words": 144, "procedure": 82, "steps": 6.5},
    "validation": {"documents": 4.18, "words": 138, "procedure": 84, "steps": 6.5},
    "test": {"documents": 4.10, "words": 141, "procedure": 83, "steps": 6.6},
}
A_FILE = 100
"""Compound-QA, section 3.3: questions of each capability and type."""
SESSIONS, TURNS, EDITED = 234, 1260, 315
"""KIWI, Table 2."""
_MODELS = dict(zip(kiwi.MODELS, (370, 402, 488), strict=True))


def check_inscoqa(source: Source) -> Checked:
    """The statistics of InsCoQA data in our schema.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    sheets: list[Sheet] = []
    problems: list[Problem] = []
    there = inscoqa.splits(source.root)
    for split in there:
        loaded = inscoqa.load_tasks(source.root, split)
        problems += loaded.problems
        tasks = list(loaded.data.values())
        paper = _TABLE_1[split]
        sheets.append(
            Sheet(
                title=f"InsCoQA: {split}",
                source="InsCoQA, section 4.1, Tables 1 and 2",
                lines=(
                    Line(what="samples", here=len(tasks), paper=SAMPLES[split]),
                    Line(
                        what="documents a sample",
                        here=mean(len(task.documents) for task in tasks),
                        paper=paper["documents"],
                    ),
                    Line(
                        what="words a document",
                        here=mean(length(document.text) for task in tasks for document in task.documents),
                        paper=paper["words"],
                    ),
                    Line(what="rounds", here=mean(task.rounds for task in tasks), paper=3.11, note="all splits"),
                    Line(
                        what="words a procedure",
                        here=mean(length(" ".join(task.procedure)) for task in tasks),
                        paper=paper["procedure"],
                    ),
                    Line(
                        what="steps a procedure", here=mean(len(task.procedure) for task in tasks), paper=paper["steps"]
                    ),
                    *counted((task.domain for task in tasks), inscoqa.DOMAINS, note=NOT_RECOVERABLE, before="domain "),
                    *lengths("answer", (task.answer for task in tasks)),
                ),
                note="how the paper counts words is not said",
            )
        )
    missing = [f"no {split}.jsonl" for split in get_args(inscoqa.Split) if split not in there]
    return Checked(
        benchmark="inscoqa",
        root=source.root,
        demo=source.demo,
        sheets=tuple(sheets),
        missing=() if source.demo else tuple(missing),
        problems=tuple(problems),
    )


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
    models = [kiwi.model_name(session.model) for session in sessions for _ in session.turns]
    companion = kiwi.load_papers(source.root)
    missing = []
    if len(sessions) < SESSIONS:
        missing.append(f"{len(sessions)} of {SESSIONS} sessions")
    if companion is None:
        missing.append("no longform_sciqa.jsonl, the questions' cited papers")
    told = [turn for turn in turns if turn.coarse is not None]
    info = 100 * sum(turn.coarse == "information-seeking" for turn in told) / len(told) if told else None
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
                        here=info,
                        paper=54,
                        note="" if told or not turns else "the rows do not say it",
                    ),
                    *counted(models, tuple(_MODELS), _MODELS, before="turns of "),
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
