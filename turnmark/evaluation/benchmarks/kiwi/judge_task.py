"""KIWI's judging task (section 5): predict whether the user rated a recorded revision good; neutral counts as bad.

The turns are split into train, validation and test; the test turns are judged. The judge is a language model, zero-shot
or few-shot with the ten training turns whose instructions are most similar, or rules without a model, which learn
nothing from training turns (`turnmark.evaluation.benchmarks.kiwi.rubrics`). The metrics compare the predictions with
the users' ratings; the positive class is good. There are two baselines: always the majority label of the training
turns, and good at random as often as among the training turns.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import Generator, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.untrusted import fence_tag
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.benchmarks.kiwi import KiwiTurn, Session
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.kiwi.kiwi_task import (
    Instruction,
    KiwiTask,
    ask_for_label,
    ask_for_object,
    fits_context,
    is_good,
    turn_item,
)
from turnmark.evaluation.benchmarks.kiwi.rubrics import analyze_revision
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.metric_style import DEFAULT_STYLE, MetricStyle, MetricStyles
from turnmark.evaluation.metrics.idk_conditioning import sample_values
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, asks_for_text, find_origin
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import Metric, Value, metric

if TYPE_CHECKING:
    from turnmark.retrieval.ranking.bm25 import BM25

SplitPart = Literal["train", "validation", "test"]

TEST_TURNS, ALL_TURNS = 186, 1260
"""Number of test turns in the paper (the same as of validation turns), and of all turns."""
MAX_EXAMPLES = 10
"""Number of examples in the paper's few-shot prompt."""


def split_turns(sessions: Sequence[Session], seed: int) -> dict[str, SplitPart]:
    """Split the turns at random; return turn id -> part.

    Test and validation each get 186/1260 of the turns, but at least one; the rest is for training. The paper does not
    name its random seed, so its exact split cannot be reproduced.

    Raises:
        RequestError: there are fewer than three turns.
    """
    ids = [turn.id for session in sessions for turn in session.turns]
    if len(ids) < 3:
        raise RequestError(f"the data has {len(ids)} turns, and a split into three parts needs at least three")
    held_out = max(1, round(len(ids) * TEST_TURNS / ALL_TURNS))
    shuffled = list(ids)
    random.Random(seed).shuffle(shuffled)
    part_of: dict[str, SplitPart] = dict.fromkeys(ids, "train")
    part_of.update(dict.fromkeys(shuffled[held_out : 2 * held_out], "validation"))
    part_of.update(dict.fromkeys(shuffled[:held_out], "test"))
    return part_of


FEW_SHOT = "few-shot"
PROMPT = "kiwi-verdict"
MAJORITY, RANDOM = "[majority]", "[random]"
INSTRUMENT = "against the users' ratings, good being positive"
_HEADS = {
    "question": "Question", "previous": "Answer before", "instruction": "Instruction", "revised": "Revised answer",
}  # fmt: skip
_PRINTED_HEADS = {
    "question": "# Question", "previous": "# Original answer", "instruction": "# Instruction",
    "revised": "# Updated answer",
}  # fmt: skip
"""The headings of the paper's prompt (appendix A.5.1), for a user's copy of it."""
RATINGS = Labels(name="Rating", offered=("good", "bad"))
_STATISTICS = ("accuracy", "precision", "recall", "f1")
_BASELINES: Mapping[str, str] = {
    "": INSTRUMENT,
    MAJORITY: f"{INSTRUMENT}: always what most training turns are",
    RANDOM: f"{INSTRUMENT}: good as often as among the training turns, at random",
}


class VerdictReply(BaseModel):
    """The reply that the prompt `kiwi-verdict` asks for."""

    rating: Literal["good", "bad"]


@dataclass(frozen=True)
class JudgedTurn:
    """The context of the metrics.

    Attributes:
        good: whether the user rated the turn good.
        verdicts: mark -> whether that judge predicts good; the marks are "" (the judge), `MAJORITY` and `RANDOM`.
    """

    good: bool
    verdicts: Mapping[str, bool]


def _measure(context: JudgedTurn) -> Mapping[str, Value]:
    values_of: dict[str, Value] = {}
    for mark, predicted in context.verdicts.items():
        values_of[f"accuracy{mark}"] = float(predicted == context.good)
        values_of |= {f"{name}{mark}": value for name, value in sample_values(context.good, predicted).items()}
        values_of[f"predicted_good{mark}"] = float(predicted)
    return values_of


def _metric(mark: str, instrument: str) -> Metric[JudgedTurn]:
    names = tuple(f"{name}{mark}" for name in (*_STATISTICS, "predicted_good"))
    shown: MetricStyles = DEFAULT_STYLE
    if not mark:
        shown = {"accuracy": MetricStyle(headline=150), "f1": MetricStyle(headline=160)}
    without = "the turn counts in neither of the two sums (predicted good, rated good)"
    return Metric(names=names, by=instrument, measure=_measure, without=without, shown=shown)


@metric(by="share of turns that the user rated good")
def rated_good(context: JudgedTurn) -> float:
    """Measure whether the user rated the turn good."""
    return float(context.good)


class KiwiJudge(KiwiTask):
    """The task `judge`: judge the revision of each test turn of KIWI.

    `--seed` is the random seed of the split and of the random baseline.
    """

    name, settings = "judge", ("zero-shot", FEW_SHOT)
    measures_judges = True
    metrics: Sequence[Metric[JudgedTurn]] = (
        *(_metric(mark, by) for mark, by in _BASELINES.items()),
        rated_good,
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
        self.parts_of = errors.collect(split_turns, self._sessions, self.seed) or {}
        errors.raise_all()
        counts = Counter(self.parts_of.values())
        shares = ", ".join(f"{counts[part]} {part}" for part in get_args(SplitPart))
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
        turn: KiwiTurn = item.task.turn
        if generator is None:
            revision = analyze_revision(turn.instruction, turn.previous, turn.answer)
            rating = "good" if revision.rating == "good" else "bad"
            notes, usage = [revision.reason], Usage()
        else:
            rating, notes, usage = self._ask(item.task, generator)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=rating, turn=turn.turn,
            previous=turn.previous, notes=tuple(notes), usage={"judge": usage} if usage != Usage() else {},
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

    def _turns(self, part: SplitPart) -> list[tuple[Session, KiwiTurn]]:
        turns = ((session, turn) for session in self._sessions for turn in session.turns)
        return [(session, turn) for session, turn in turns if self.parts_of[turn.id] == part]

    @cached_property
    def _share(self) -> float:
        """Share of the training turns that were rated good."""
        train = [is_good(turn.rating) for _, turn in self._turns("train")]
        return sum(train) / max(1, len(train))

    @cached_property
    def _index(self) -> BM25:
        """The instructions of the training turns."""
        from turnmark.retrieval.ranking.bm25 import BM25, BM25Settings

        return BM25.of_texts((turn.instruction for _, turn in self._turns("train")), BM25Settings())

    def _nearest(self, instruction: str) -> list[tuple[Session, KiwiTurn]]:
        """Return the training turns with the most similar instructions, best first; only turns that share a word."""
        with self._lock:
            found = self._index.top(instruction, MAX_EXAMPLES)
        turns = self._turns("train")
        return [turns[row] for row, _ in found]

    def _ask(self, task: Instruction, generator: Generator) -> tuple[str, list[str], Usage]:
        """Ask a model for a rating; return the rating, notes on the examples, and usage."""
        nearest = self._nearest(task.turn.instruction) if self._few_shot else []
        examples = nearest
        prompt = _prompt(task, examples, self.assistant.config.prompts)
        while examples and not fits_context(generator, prompt):
            examples = examples[:-1]
            prompt = _prompt(task, examples, self.assistant.config.prompts)
        # The paper's prompt asks for "ONLY the ratings"; ours asks for a JSON object.
        if asks_for_text(JUDGES.load(PROMPT, self.assistant.config.prompts)):
            rating, usage = ask_for_label(generator, prompt, RATINGS, self.assistant.config.prompts)
        else:
            reply, usage = ask_for_object(generator, prompt, VerdictReply)
            rating = reply.rating
        notes = [f"examples: {', '.join(turn.id for _, turn in examples)}"] if examples else []
        if len(examples) < len(nearest):
            notes.append(f"{len(nearest) - len(examples)} of {len(nearest)} examples left out: the context is full")
        return rating, notes, usage

    @property
    def asks_as_paper(self) -> bool:
        return find_origin((PROMPT,), self.assistant.config.prompts) == OFFICIAL


def _prompt(
    task: Instruction, examples: Sequence[tuple[Session, KiwiTurn]], prompts: Path | None
) -> tuple[PromptMessage, ...]:
    """Render the prompt. The most similar example comes last, next to the turn to judge."""
    prompt = JUDGES.load(PROMPT, prompts)
    examples = list(reversed(examples))
    texts_of_examples = [_texts(session, turn) for session, turn in examples]
    texts_of_turn = _texts(task.session, task.turn)
    tag = fence_tag(*(text for texts in (*texts_of_examples, texts_of_turn) for text in texts.values()))
    if prompt.bare:
        heads, rating_head, separator = _PRINTED_HEADS, "# Rating of the Updated answer:\n", "\n"
    else:
        heads, rating_head, separator = _HEADS, "Rating: ", "\n\n"
    shown_examples: list[str] = []
    for texts, (_, turn) in zip(texts_of_examples, examples, strict=True):
        sections = [f"{heads[name]}:\n{prompt.frame(text, name, tag)}" for name, text in texts.items()]
        rating = "good" if is_good(turn.rating) else "bad"
        shown_examples.append(separator.join([*sections, rating_head + rating]))
    framed_texts = {name: prompt.frame(text, name, tag) for name, text in texts_of_turn.items()}
    return prompt.render(tag=tag, examples="\n\n\n".join(shown_examples), **framed_texts)


def _texts(session: Session, turn: KiwiTurn) -> dict[str, str]:
    """Return placeholder -> text of a turn, with citation marks, because instructions may be about them."""
    return {
        "question": session.question,
        "previous": turn.previous,
        "instruction": turn.instruction,
        "revised": turn.answer,
    }
