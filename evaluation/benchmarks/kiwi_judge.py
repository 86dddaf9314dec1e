"""KIWI's task of judging (section 5): say of a recorded revision whether its user rated it good; neutral counts as bad.

Asked is of the test turns of a split (`kiwi_split`), zero-shot or with the ten training turns whose instructions are
nearest, or by code alone (`turnmark.evaluation.judging.kiwi`), which learns nothing from training turns. Measured
is agreement with the users, good being positive, beside a judge that always says what most training turns are, and one
that says good as often as they are.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel

from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.prompts import fence, fence_tag
from turnmark.assistant.types import Usage
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import Session, Turn
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.kiwi import Instruction, facts_of
from turnmark.evaluation.benchmarks.kiwi_asking import asked, fits
from turnmark.evaluation.benchmarks.kiwi_split import Examples, Part, is_good, split
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.judging.kiwi import read_revision
from turnmark.evaluation.metrics.decisions import sample_values
from turnmark.evaluation.prompts import load_prompt
from turnmark.evaluation.records import Sample
from turnmark.evaluation.summary import Facts

FEW_SHOT = "few-shot"
BY_QUESTION = "+by-question"
"""Ends a setting in which whole questions are drawn, not turns as in the paper."""
PROMPT = "kiwi-verdict"
MAJORITY, RANDOM = "[majority]", "[random]"
BY = "against the users' ratings, good being positive"
_HEADS = {
    "question": "Question", "previous": "Answer before", "instruction": "Instruction", "revised": "Revised answer",
}  # fmt: skip
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
class Verdict:
    """What the metrics look at: whether a turn was rated good, and who says so; by mark, "" being the judge's."""

    good: bool
    said: Mapping[str, bool]


def _measured(context: Verdict) -> Mapping[str, Value]:
    found: dict[str, Value] = {}
    for mark, said in context.said.items():
        found[f"accuracy{mark}"] = float(said == context.good)
        for name, values in sample_values(context.good, said).items():
            if values:
                found[f"{name}{mark}"] = (values[0], float(len(values)))
        found[f"predicted_good{mark}"] = float(said)
    return found


def _metric(mark: str, by: str) -> Metric[Verdict]:
    names = tuple(f"{name}{mark}" for name in (*_FIGURES, "predicted_good"))
    return Metric(names, by, _measured, "the turn counts in none of its two sums: what was predicted, what is good")


class KiwiJudge:
    """KIWI's test turns, each a revision to judge; see `turnmark.evaluation.benchmarks.base.Benchmark`.

    Args:
        setting: `zero-shot` or `few-shot`, either with `+by-question` behind it.
        seed: of the split and of the random baseline.

    Raises:
        RequestError: the interaction data is not there, or too little to be split.
    """

    embeds = False
    """No embedder has to be loaded."""
    metrics: Sequence[Metric[Verdict]] = (
        *(_metric(mark, by) for mark, by in _BASELINES.items()),
        Metric(("rated_good",), "share of turns that the user rated good", lambda one: {"rated_good": float(one.good)}),
    )

    def __init__(self, source: Source, setting: str, parts: Parts, seed: int) -> None:
        self.source, self.setting, self.parts, self.seed = source, setting, parts, seed
        self._lock = threading.Lock()
        loaded = kiwi.load_sessions(source.root)
        self._sessions, self._problems = loaded.data, loaded.problems
        self.parts_of: Mapping[str, Part] = split(self._sessions, seed, setting.endswith(BY_QUESTION))

    def told(self) -> str:
        """How the turns were split, for the report."""
        counts = Counter(self.parts_of.values())
        how = "whole questions" if self.setting.endswith(BY_QUESTION) else "turns at random, as in the paper"
        shares = ", ".join(f"{counts[part]} {part}" for part in get_args(Part))
        return f"split by seed {self.seed}, {how}: {shares}; judged are the test turns"

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`; an item is a test turn."""
        yield from self._problems
        for session, turn in self._turns("test"):
            yield Item(turn.id, Instruction(session, turn))

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`.

        Raises:
            GeneratorError: the judge gave no rating, or the turn does not fit into its context.
        """
        began = time.perf_counter()
        turn: Turn = item.task.turn
        if generator is None:
            read = read_revision(turn.instruction, turn.previous, turn.answer)
            rating, notes, used = ("good" if read.rating == "good" else "bad"), [read.reason], Usage()
        else:
            rating, notes, used = self._asked(item.task, generator)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=rating, turn=turn.turn,
            previous=turn.previous, notes=tuple(notes), usage={"judge": used} if used != Usage() else {},
            timings={"judge": round(time.perf_counter() - began, 4)},
        )  # fmt: skip

    def context(self, item: Item, sample: Sample) -> Verdict:
        """See `Benchmark.context`.

        Raises:
            ValueError: the sample's text is none of the ratings.
        """
        said = (sample.prediction or "").strip().lower()
        if said not in ("good", "neutral", "bad"):
            raise ValueError(f"{said[:40]!r} is no rating; good, neutral or bad was expected")
        share = self._share
        drawn = random.Random(f"{self.seed}/{item.id}").random() < share
        return Verdict(is_good(item.task.turn.rating), {"": said == "good", MAJORITY: share > 1 / 2, RANDOM: drawn})

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        known = facts_of(item.task)
        return known.model_copy(update={"labels": {**known.labels, "split": (self.parts_of[item.id],)}})

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, tuple[bool, float]]:  # noqa: ARG002
        """See `Benchmark.rankings`: none."""
        return {}

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

    def _nearest(self, turn: Turn) -> list[tuple[Session, Turn]]:
        if not self.setting.startswith(FEW_SHOT):
            return []
        with self._lock:
            return self._examples.nearest(turn.instruction)

    def _asked(self, task: Instruction, generator: Generator) -> tuple[str, list[str], Usage]:
        """The rating, what is to be noted, and what it took."""
        nearest = self._nearest(task.turn)
        shown = nearest
        prompt = _prompt(task, shown, self.parts.prompts)
        while shown and not fits(generator, prompt):
            shown = shown[:-1]
            prompt = _prompt(task, shown, self.parts.prompts)
        reply, used = asked(generator, prompt, VerdictReply)
        notes = [f"examples: {', '.join(turn.id for _, turn in shown)}"] if shown else []
        if len(shown) < len(nearest):
            notes.append(f"{len(nearest) - len(shown)} of {len(nearest)} examples left out: the context is full")
        return reply.rating, notes, used


def _prompt(
    task: Instruction, examples: Sequence[tuple[Session, Turn]], prompts: Path | None
) -> tuple[PromptMessage, ...]:
    """The request; the nearest example stands last, next to what is asked for."""
    shown = [_texts(session, turn) for session, turn in (*reversed(examples), (task.session, task.turn))]
    tag = fence_tag(*(text for texts in shown for text in texts.values()))
    *rated, own = ({name: fence(text, name, tag) for name, text in texts.items()} for texts in shown)
    ratings = ("good" if is_good(turn.rating) else "bad" for _, turn in reversed(examples))
    told = (
        "\n\n".join([*(f"{_HEADS[name]}:\n{text}" for name, text in texts.items()), f"Rating: {rating}"])
        for texts, rating in zip(rated, ratings, strict=True)
    )
    return load_prompt(PROMPT, prompts).render(tag=tag, examples="\n\n\n".join(told), **own)


def _texts(session: Session, turn: Turn) -> dict[str, str]:
    """What is shown of a turn, by the names of the prompt: as written, since instructions may be about references."""
    return {
        "question": session.question,
        "previous": turn.previous,
        "instruction": turn.instruction,
        "revised": turn.answer,
    }
