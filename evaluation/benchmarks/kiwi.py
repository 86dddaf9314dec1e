"""KIWI's revision task (section 2): carry out a writing instruction on a long answer, with the passages at hand.

Each turn starts from the recorded answer before it, whatever we made of the turn before. The evidence is what was
retrieved for the turn, else what was retrieved for the session, else the five paragraphs of the companion file that fit
instruction and question best (the paper, too, retrieves five, appendix A.1), else nothing.

Measured is what the revision changed (table 6), against the answer before it. There is no ROUGE against the recorded
revision, even where a user accepted it: it is one of many good ones, made by another model, and an answer left as it
was comes close to it anyway, so the figure would reward doing nothing. Whether an instruction was followed is for a
judge to say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assistant.generators.base import Generator
from assistant.steps.revise import revised
from assistant.types import Usage
from corpora import kiwi
from corpora.kiwi import Session, Turn
from corpora.rows import Source
from corpora.text import strip_citations
from corpora.types import Passage, Problem
from evaluation.benchmarks.base import Item, Metric, Value
from evaluation.benchmarks.measures import WORDS
from evaluation.benchmarks.turns import Parts
from evaluation.metrics import edits
from evaluation.metrics.overlap import answer_words
from evaluation.records import ContextRef, Sample
from evaluation.summary import Facts
from retrieval.given import Remembered, hits_of, ranked_by
from retrieval.types import Hit

PARAGRAPHS = 5
"""Paragraphs of the companion file that are evidence, where nothing was recorded."""


@dataclass(frozen=True)
class Revised:
    """What the metrics of a revision look at: the answer before and after, without citation marks."""

    previous: str
    answer: str


@dataclass(frozen=True)
class Instruction:
    """A turn with its session."""

    session: Session
    turn: Turn


def _edits(context: Revised) -> Mapping[str, Value]:
    return {
        "length_ratio": edits.length_ratio(context.answer, context.previous),
        "edit_distance": edits.edit_distance(context.answer, context.previous),
        "edit_ratio": edits.edit_ratio(context.answer, context.previous),
    }


def _words(context: Revised) -> Mapping[str, Value]:
    return {"answer_words": answer_words(context.answer)}


class Kiwi:
    """KIWI's turns, each a revision to make; see `evaluation.benchmarks.base.Benchmark`.

    Intervals resample sessions.

    Raises:
        RequestError: the interaction data is not there.
    """

    metrics: Sequence[Metric[Revised]] = (
        Metric(
            ("length_ratio", "edit_distance", "edit_ratio"),
            "words, against the previous answer (rapidfuzz Levenshtein)",
            _edits,
            "the previous answer has no word",
        ),
        Metric(("answer_words",), WORDS, _words),
    )

    def __init__(self, source: Source, parts: Parts) -> None:
        self.source, self.parts = source, parts
        kiwi.stream_sessions(source.root)  # says what is wrong with the folder; nothing is read yet
        self._embed = Remembered(parts.embed) if parts.embed else None

    def files(self) -> Mapping[str, Path]:
        """What is read, by name: the interaction data, and the companion file where there is one."""
        found: dict[str, Path] = {}
        for names in (kiwi.INTERACTIONS, kiwi.COMPANIONS):
            there = (name for name in names if (self.source.root / name).is_file())
            found |= {name: self.source.root / name for name in list(there)[:1]}
        return found

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`; an item is a turn."""
        for session in kiwi.stream_sessions(self.source.root):
            if isinstance(session, Problem):
                yield session
                continue
            for turn in session.turns:
                yield Item(turn.id, Instruction(session, turn))

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        began = time.perf_counter()
        task: Instruction = item.task
        question, turn = task.session.question, task.turn
        hits = self._evidence(task)
        made = revised(
            generator, question, turn.previous, turn.instruction, lambda _: hits, self.parts.embed, self.parts.prompts
        )
        return Sample(
            id=item.id,
            status="done",
            query=turn.instruction,
            contexts=tuple(ContextRef(document_id=hit.passage.id, score=round(hit.score, 4)) for hit in hits),
            prediction=made.text,
            turn=turn.turn,
            previous=turn.previous,
            operations=tuple(operation.model_dump(mode="json") for operation in made.operations),
            notes=tuple(made.notes),
            usage={"revise": made.usage} if made.usage != Usage() else {},
            timings={"revise": round(time.perf_counter() - began, 4)},
        )

    def context(self, item: Item, sample: Sample) -> Revised:
        """See `Benchmark.context`. The previous answer is the recorded one, whatever a file of predictions says."""
        task: Instruction = item.task
        return Revised(previous=strip_citations(task.turn.previous), answer=strip_citations(sample.prediction or ""))

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`. What a user did not say, or what cannot be read, is no value of a dimension."""
        session, turn = item.task.session, item.task.turn
        labels = {
            "instruction": (turn.fine,) if turn.fine else (),
            "type": (turn.coarse,) if turn.coarse else (),
            "model": (session.model,),
            "turn": ("later" if turn.turn else "first",),
            "rating": (turn.rating,),
        }
        return Facts(cluster=f"session {session.index}", labels=labels)

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, tuple[bool, float]]:  # noqa: ARG002
        """See `Benchmark.rankings`: none."""
        return {}

    def _evidence(self, task: Instruction) -> list[Hit]:
        session, turn = task.session, task.turn
        if turn.passages:
            return hits_of(_passages(turn.passages, f"{turn.id}#passage"))
        if session.passages:
            return hits_of(_passages(session.passages, f"{session.index}#passage"))
        if session.papers is None:
            return []
        paragraphs = _passages(session.papers.paragraphs, f"{session.index}#paragraph")
        return ranked_by(paragraphs, (turn.instruction, session.question), self._embed)[:PARAGRAPHS]


def _passages(given: Sequence[kiwi.Passage], place: str) -> list[Passage]:
    """Passages of the data as ours, one after the other in one document; ids count from 1, since the data has none."""
    made: list[Passage] = []
    start = 0
    for number, one in enumerate(given, 1):
        end = start + len(one.text)
        made.append(
            Passage(id=f"{place}-{number}", document=place, title=one.title, text=one.text, start=start, end=end)
        )
        start = end
    return made
