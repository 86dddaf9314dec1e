"""KIWI's analysis of recorded sessions (section 4): who asks for what, how often it is done well, what goes wrong, how
much a revision changes. Tables 2, 3, 4 and 6, and the retrieval analysis of section 4.3.

Each turn is labelled (`kiwi_labels`), by a model or by rules; where the data have labels of people, the two are held
against each other. Everything else is measured of the data as they are.

Table 6 counts words of the texts as they were written; the paper speaks of no marks that were taken out. The same
figures without citation marks follow them (`[unmarked]`). The table is over 815 turns. The paper says that it
leaves out turns rated neutral or bad "with an edited answer". Of 1,260 turns 760 are so rated (section 4.3) and 315
edited (Table 2), so that 945 would be left at least; 815 is 500 good turns and the 315 that were edited. We keep those:
the turns whose result the user accepted, as it came or as edited, and that result is the target.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.types import Usage
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import ERROR_TYPES, FINE_TYPES, Session, Turn
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.kiwi_labels import (
    PROMPTS,
    Retrieved,
    TurnLabels,
    labels_asked,
    labels_by_rules,
    seeks,
)
from turnmark.evaluation.benchmarks.kiwi_turns import (
    EDITS,
    EDITS_AS_WRITTEN,
    EDITS_SHOWN,
    RATIO,
    Instruction,
    KiwiTask,
    is_good,
    turn_item,
)
from turnmark.evaluation.metric_info import MetricStyle
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.records import Sample

GOOD = "share of turns that the user rated good"
LABELLED = "the labels of this run, by its model or by rules"
TICKED = "as the users ticked it"
UNMARKED = "[unmarked]"
"""Marks figures over texts without citation marks."""
NOT_ACCEPTED = "rated neutral or bad and not edited: there is no answer that the user accepted"


@dataclass(frozen=True)
class Analysed:
    """What the metrics look at: a turn of a session and what is said of it."""

    session: Session
    turn: Turn
    labels: TurnLabels

    @property
    def target(self) -> str | None:
        """The answer that the user accepted, as written; None if there is no such answer."""
        return self.turn.edit or (self.turn.answer if is_good(self.turn.rating) else None)


def _session(analysed: Analysed) -> Mapping[str, Value]:
    """Weighed so that the mean is turns / sessions: each turn of n brings in n / n turns and 1 / n sessions."""
    count = len(analysed.session.turns)
    return {"turns_per_session": (float(count), 1 / count)}


def _asked(analysed: Analysed) -> Mapping[str, Value]:
    return {
        "information_seeking": None if analysed.turn.coarse is None else float(seeks(analysed.turn, analysed.labels))
    }


def _types(analysed: Analysed) -> Mapping[str, Value]:
    values: dict[str, Value] = {
        f"instruction[{name}]": float(name == analysed.labels.instruction) for name in FINE_TYPES
    }
    values[f"good[{analysed.labels.instruction}]"] = float(is_good(analysed.turn.rating))
    if analysed.turn.coarse:
        values[f"information_seeking[{analysed.labels.instruction}]"] = float(seeks(analysed.turn, analysed.labels))
    return values


def _errors(analysed: Analysed) -> Mapping[str, Value]:
    return (
        {f"error[{name}]": float(name == analysed.labels.error) for name in ERROR_TYPES}
        if analysed.labels.error
        else {}
    )


def _retrieved(analysed: Analysed) -> Mapping[str, Value]:
    label = analysed.labels.retrieved
    return {f"retrieved[{name}]": float(name == label) for name in get_args(Retrieved)} if label else {}


def _agrees(analysed: Analysed) -> Mapping[str, Value]:
    values: dict[str, Value] = {}
    if analysed.turn.fine:
        values["instruction_accuracy"] = float(analysed.labels.instruction == analysed.turn.fine)
    if analysed.turn.coarse:
        by_type = seeks(analysed.turn.model_copy(update={"coarse": None}), analysed.labels)
        values["type_accuracy"] = float(by_type == seeks(analysed.turn, analysed.labels))
    if analysed.turn.error and analysed.labels.error:
        values["error_accuracy"] = float(analysed.labels.error == analysed.turn.error)
    return values


def _edits(analysed: Analysed) -> Mapping[str, Value]:
    if analysed.target is None:
        return {}
    return {
        "instruction_words": float(len(overlap.edit_words(analysed.turn.instruction))),
        **_edits_between(analysed.turn.previous, analysed.target),
    }


def _edits_unmarked(analysed: Analysed) -> Mapping[str, Value]:
    if analysed.target is None:
        return {}
    values = _edits_between(strip_citations(analysed.turn.previous), strip_citations(analysed.target))
    return {name + UNMARKED: value for name, value in values.items()}


def _edits_between(source: str, target: str) -> dict[str, Value]:
    return {
        "length_ratio": overlap.length_ratio(target, source),
        "edit_distance": overlap.edit_distance(target, source),
        "edit_ratio": overlap.edit_ratio(target, source),
        "source_words": float(len(overlap.edit_words(source))),
        "target_words": float(len(overlap.edit_words(target))),
    }


def _each(name: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}[{value}]" for value in values)


class KiwiAnalyse(KiwiTask):
    """KIWI's turns as they were recorded, each to be labelled."""

    name = "analyse"
    measures_judges = True
    raters = ("human",)
    """Whose ratings the figures are of, for whoever compares them with published ones."""
    metrics: Sequence[Metric[Analysed]] = (
        Metric(("good",), GOOD, lambda analysed: {"good": float(is_good(analysed.turn.rating))},
               shown=MetricStyle(headline=140)),
        Metric(("turns_per_session",), "turns / sessions", _session, shown=RATIO),
        Metric(("edited",), "share of turns whose answer the user edited",
               lambda analysed: {"edited": float(analysed.turn.edit is not None)}),
        Metric(("information_seeking",), TICKED, _asked, "the data do not say what the user ticked"),
        Metric(("length_ratio", "edit_distance", "edit_ratio", "instruction_words", "source_words", "target_words"),
               EDITS_AS_WRITTEN, _edits, NOT_ACCEPTED, EDITS_SHOWN),
        Metric(tuple(name + UNMARKED for name in
                     ("length_ratio", "edit_distance", "edit_ratio", "source_words", "target_words")),
               EDITS, _edits_unmarked, NOT_ACCEPTED),
        Metric(tuple(name for metric in ("instruction", "good", "information_seeking")
                     for name in _each(metric, FINE_TYPES)),
               LABELLED, _types, "the turn is of another type"),
        Metric(_each("error", ERROR_TYPES), LABELLED, _errors, "the turn was rated good, or there is nothing to go by"),
        Metric(_each("retrieved", get_args(Retrieved)), LABELLED, _retrieved,
               "rated good, nothing was to be retrieved, or what was needed is not known"),
        Metric(("instruction_accuracy", "type_accuracy", "error_accuracy"), "against the labels of the data", _agrees,
               "the data have no such label"),
    )  # fmt: skip

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        """See `KiwiTask.open_turns`."""
        labeller = "a language model" if self.request.asks_model else "rules"
        note = f"instruction types, errors and what was retrieved are labelled by {labeller}; all else is as recorded"
        return PROMPTS, [note]

    def items(self) -> Iterator[Item | Problem]:
        """See `Task.items`; an item is a turn."""
        for session in kiwi.stream_sessions(self.source.root):
            if isinstance(session, Problem):
                yield session
                continue
            yield from (turn_item(Instruction(session, turn)) for turn in session.turns)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`; the sample's text is `TurnLabels` as JSON.

        Raises:
            GeneratorError: the model gave no label, or the turn does not fit into its context.
        """
        began = time.perf_counter()
        session, turn = item.task.session, item.task.turn
        used: dict[str, Usage] = {}
        if generator is None:
            labels = labels_by_rules(turn)
        else:
            labels, used = labels_asked(session, turn, generator, self.parts.prompts)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=labels.model_dump_json(), turn=turn.turn,
            previous=turn.previous, usage=used, timings={"label": round(time.perf_counter() - began, 4)},
        )  # fmt: skip

    def context(self, item: Item, sample: Sample) -> Analysed:
        """See `Task.context`.

        Raises:
            ValueError: the sample's text is no `TurnLabels`.
        """
        return Analysed(item.task.session, item.task.turn, TurnLabels.model_validate_json(sample.prediction or ""))
