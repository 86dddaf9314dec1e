"""KIWI's task of judging (section 5): say of a recorded revision whether its user rated it good; neutral counts as bad.

Asked is of the test turns of a split, zero-shot or with the ten training turns whose instructions are
nearest, or by code alone (`turnmark.evaluation.judging.kiwi`), which learns nothing from training turns. Measured
is agreement with the users, good being positive, next to a judge that always says what most training turns are, and one
that says good as often as they are.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel

from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.prompts import fence_tag
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import Session, Turn
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.kiwi_turns import (
    Instruction,
    KiwiTask,
    asked,
    asked_plainly,
    is_good,
    leaves_room,
    turn_item,
)
from turnmark.evaluation.judging.kiwi import read_revision
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.metrics.idk import sample_values
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, asks_for_text, whose
from turnmark.evaluation.records import Sample
from turnmark.evaluation.scores.metric_info import PLAIN, MetricStyle

Part = Literal["train", "validation", "test"]

HELD_OUT, OF = 186, 1260
"""Test turns of the paper, as many as validation turns, and all of its turns."""
NEAREST = 10
"""Examples of the paper's few-shot prompt."""


def split(sessions: Sequence[Session], seed: int) -> dict[str, Part]:
    """Turn id -> part. Test and validation have 186/1260 of the turns each, at least one; the rest is for training.

    The paper does not name its seed, so that its very split cannot be had again.
    """
    ids = [turn.id for session in sessions for turn in session.turns]
    if len(ids) < 3:
        raise RequestError(f"the data has {len(ids)} turns, and a split into three parts takes three at least")
    held_out = max(1, round(len(ids) * HELD_OUT / OF))
    drawn = list(ids)
    random.Random(seed).shuffle(drawn)
    test, validation = set(drawn[:held_out]), set(drawn[held_out : 2 * held_out])
    return {name: "test" if name in test else "validation" if name in validation else "train" for name in ids}


class Examples:
    """Rated turns to show with one that is to be judged: those whose instructions are nearest to its own.

    Args:
        turns: the training turns, each with its session.
    """

    def __init__(self, turns: Sequence[tuple[Session, Turn]]) -> None:
        from turnmark.retrieval.bm25 import BM25, BM25Settings, build_bm25

        self._turns = tuple(turns)
        settings = BM25Settings()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            build_bm25((turn.instruction for _, turn in turns), Path(folder), settings)
            self._index = BM25(Path(folder), settings)

    def nearest(self, instruction: str, limit: int = NEAREST) -> list[tuple[Session, Turn]]:
        """The nearest by BM25 over the instructions, best first; fewer where fewer share a word with it."""
        return [self._turns[row] for row, _ in self._index.top(instruction, limit)]


FEW_SHOT = "few-shot"
PROMPT = "kiwi-verdict"
MAJORITY, RANDOM = "[majority]", "[random]"
BY = "against the users' ratings, good being positive"
_HEADS = {
    "question": "Question", "previous": "Answer before", "instruction": "Instruction", "revised": "Revised answer",
}  # fmt: skip
_PRINTED = {
    "question": "# Question", "previous": "# Original answer", "instruction": "# Instruction",
    "revised": "# Updated answer",
}  # fmt: skip
"""The same as the paper's own prompt has them (appendix A.5.1)."""
RATINGS = Labels(name="Rating", offered=("good", "bad"))
_FIGURES = ("accuracy", "precision", "recall", "f1")
_BASELINES: Mapping[str, str] = {
    "": BY,
    MAJORITY: f"{BY}: always what most training turns are",
    RANDOM: f"{BY}: good as often as among the training turns, at random",
}


class VerdictReply(BaseModel):
    """What the prompt `kiwi-verdict` asks for."""

    rating: Literal["good", "bad"]


@dataclass(frozen=True)
class JudgedTurn:
    """What the metrics look at: whether a turn was rated good, and who says so; by mark, "" being the judge's."""

    good: bool
    verdicts: Mapping[str, bool]


def _measured(context: JudgedTurn) -> Mapping[str, Value]:
    values_of: dict[str, Value] = {}
    for mark, predicted in context.verdicts.items():
        values_of[f"accuracy{mark}"] = float(predicted == context.good)
        for name, values in sample_values(context.good, predicted).items():
            if values:
                values_of[f"{name}{mark}"] = (values[0], float(len(values)))
        values_of[f"predicted_good{mark}"] = float(predicted)
    return values_of


def _metric(mark: str, instrument: str) -> Metric[JudgedTurn]:
    names = tuple(f"{name}{mark}" for name in (*_FIGURES, "predicted_good"))
    return Metric(
        names,
        instrument,
        _measured,
        "the turn counts in none of its two sums: what was predicted, what is good",
        {f"accuracy{mark}": MetricStyle(headline=150), f"f1{mark}": MetricStyle(headline=160)} if not mark else PLAIN,
    )


class KiwiJudge(KiwiTask):
    """KIWI's test turns, each a revision to judge.

    The request's seed is that of the split and of the random baseline.
    """

    name, settings = "judge", ("zero-shot", FEW_SHOT)
    measures_judges = True
    metrics: Sequence[Metric[JudgedTurn]] = (
        *(_metric(mark, by) for mark, by in _BASELINES.items()),
        Metric(
            ("rated_good",),
            "share of turns that the user rated good",
            lambda verdict: {"rated_good": float(verdict.good)},
        ),
    )

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        self.seed, self._lock = self.request.seed, threading.Lock()
        errors = ErrorCollector()
        if self._few_shot and not (self.request.asks_model or self.request.scoring):
            errors.add(
                f"--setting {self.setting}: examples are shown to a language model; name one with --judge (the "
                "embedded judge learns nothing from them)"
            )
        loaded = kiwi.load_sessions(self.source.root)
        self._sessions, self._problems = loaded.data, loaded.problems
        self.parts_of = errors.collect(split, self._sessions, self.seed) or {}
        errors.raise_all()
        counts = Counter(self.parts_of.values())
        shares = ", ".join(f"{counts[part]} {part}" for part in get_args(Part))
        note = f"split by seed {self.seed}, turns at random, as in the paper: {shares}; judged are the test turns"
        return (PROMPT,), [note]

    @property
    def _few_shot(self) -> bool:
        return self.setting == FEW_SHOT

    def items(self) -> Iterator[Item | Problem]:
        yield from self._problems
        for session, turn in self._turns("test"):
            item = turn_item(Instruction(session, turn))
            yield replace(item, labels={**item.labels, "split": (self.parts_of[turn.id],)})

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        began = time.perf_counter()
        turn: Turn = item.task.turn
        if generator is None:
            revision = read_revision(turn.instruction, turn.previous, turn.answer)
            rating, notes, used = ("good" if revision.rating == "good" else "bad"), [revision.reason], Usage()
        else:
            rating, notes, used = self._asked(item.task, generator)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=rating, turn=turn.turn,
            previous=turn.previous, notes=tuple(notes), usage={"judge": used} if used != Usage() else {},
            timings={"judge": round(time.perf_counter() - began, 4)},
        )  # fmt: skip

    def context(self, item: Item, sample: Sample) -> JudgedTurn:
        rating = (sample.prediction or "").strip().lower()
        if rating not in ("good", "neutral", "bad"):
            raise ValueError(f"{rating[:40]!r} is no rating; good, neutral or bad was expected")
        share = self._share
        random_verdict = random.Random(f"{self.seed}/{item.id}").random() < share
        return JudgedTurn(
            is_good(item.task.turn.rating), {"": rating == "good", MAJORITY: share > 1 / 2, RANDOM: random_verdict}
        )

    # --- asking ------------------------------------------------------------------------------------------------------

    def _turns(self, part: Part) -> list[tuple[Session, Turn]]:
        return [(s, turn) for s in self._sessions for turn in s.turns if self.parts_of[turn.id] == part]

    @cached_property
    def _share(self) -> float:
        """Share of the training turns that were rated good."""
        train = [is_good(turn.rating) for _, turn in self._turns("train")]
        return sum(train) / max(1, len(train))

    @cached_property
    def _examples(self) -> Examples:
        return Examples(self._turns("train"))

    def _asked(self, task: Instruction, generator: Generator) -> tuple[str, list[str], Usage]:
        nearest: list[tuple[Session, Turn]] = []
        if self._few_shot:
            with self._lock:
                nearest = self._examples.nearest(task.turn.instruction)
        examples = nearest
        prompt = _prompt(task, examples, self.assistant.config.prompts)
        while examples and not leaves_room(generator, prompt):
            examples = examples[:-1]
            prompt = _prompt(task, examples, self.assistant.config.prompts)
        # The paper's own prompt wants "ONLY the ratings"; ours, an object.
        if asks_for_text(JUDGES.load(PROMPT, self.assistant.config.prompts)):
            rating, used = asked_plainly(generator, prompt, RATINGS, self.assistant.config.prompts)
        else:
            reply, used = asked(generator, prompt, VerdictReply)
            rating = reply.rating
        notes = [f"examples: {', '.join(turn.id for _, turn in examples)}"] if examples else []
        if len(examples) < len(nearest):
            notes.append(f"{len(nearest) - len(examples)} of {len(nearest)} examples left out: the context is full")
        return rating, notes, used

    @property
    def asks_as_paper(self) -> bool:
        return whose((PROMPT,), self.assistant.config.prompts) == OFFICIAL


def _prompt(
    task: Instruction, examples: Sequence[tuple[Session, Turn]], prompts: Path | None
) -> tuple[PromptMessage, ...]:
    """The request; the nearest example comes last, next to what is asked for."""
    texts_of_turns = [_texts(session, turn) for session, turn in (*reversed(examples), (task.session, task.turn))]
    tag = fence_tag(*(text for texts in texts_of_turns for text in texts.values()))
    own = JUDGES.load(PROMPT, prompts)
    *rated, own_texts = (
        {name: own.frame(text, name, tag) for name, text in texts.items()} for texts in texts_of_turns
    )  # fmt: skip
    heads, rating_head, line = (_PRINTED, "# Rating of the Updated answer:\n", "\n") if own.bare else (
        _HEADS, "Rating: ", "\n\n"
    )  # fmt: skip
    rated_texts = (
        line.join([
            *(f"{heads[name]}:\n{text}" for name, text in texts.items()),
            rating_head + ("good" if is_good(turn.rating) else "bad"),
        ])
        for texts, (_, turn) in zip(rated, reversed(examples), strict=True)
    )  # fmt: skip
    return own.render(tag=tag, examples="\n\n\n".join(rated_texts), **own_texts)


def _texts(session: Session, turn: Turn) -> dict[str, str]:
    """What is shown of a turn, by the names of the prompt: as written, since instructions may be about references."""
    return {
        "question": session.question,
        "previous": turn.previous,
        "instruction": turn.instruction,
        "revised": turn.answer,
    }
