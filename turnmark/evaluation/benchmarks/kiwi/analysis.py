"""KIWI's analysis of recorded sessions (section 4): instruction types, ratings, errors and the size of revisions.

It gives Tables 2, 3, 4 and 6 and the retrieval analysis of section 4.3. A model (few-shot prompts) or rules label each
turn with the type of its instruction, the error of the revision, and whether the retrieved passages were enough. Where
the data have human labels, the report gives the agreement with them. The paper's authors labeled some turns by hand and
the rest with GPT-4. They judged retrieval only by hand. The rules for retrieval check whether the passages contain the
sentences that a user inserted, so they cannot judge turns without an edit. All other values come from the data.

Table 6 counts the words of the texts as written: the paper does not mention that marks were removed. The table covers
815 turns. The paper says that it leaves out turns rated neutral or bad "with an edited answer". Of 1,260 turns, 760
have such a rating (section 4.3) and 315 were edited (Table 2), so at least 945 would remain; 815 is the sum of 500 good
turns and 315 edited ones. We keep these 815: the turns whose result the user accepted, as it came or as edited. That
result is the target.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import BaseModel, Field

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.steps.verify.claim_support import covers
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.corpora.benchmarks.kiwi import ERROR_TYPES, FINE_TYPES, KiwiTurn, Session
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.evaluation.benchmarks.kiwi.kiwi_task import (
    EDIT_METRICS,
    EDITS_AS_WRITTEN,
    EDITS_SHOWN,
    RATIO,
    KiwiTask,
    accepted_answer,
    ask_for_object,
    is_good,
    measure_edits,
)
from turnmark.evaluation.benchmarks.kiwi.rubrics import (
    INFORMATION_TYPES,
    analyze_revision,
    english_patterns,
    operations,
    type_of,
)
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import Metric, Value, metric

InstructionType = Literal[
    "More information", "Expand coverage", "Clarification",
    "Remove", "Specific edit", "Condense", "Reorganize", "Others",
]  # fmt: skip
Error = Literal["Unrequested change", "Ignored", "Constraint failure", "Poor integration", "Others"]
RetrievedShare = Literal["all", "some", "none"]
PROMPTS = ("kiwi-instruction", "kiwi-error", "kiwi-retrieved")
COVERED_SHARE = 0.6
"""The passages cover a sentence if they contain at least this share of its content words."""


class TurnLabels(Record):
    """The labels of a turn; as JSON, the prediction of a sample."""

    instruction: InstructionType
    error: Error | None = Field(default=None, description="None: rated good, or without a comment")
    retrieved: RetrievedShare | None = Field(
        default=None, description="None: nothing had to be retrieved, or it is unknown"
    )


class InstructionReply(BaseModel):
    """The reply that the prompt `kiwi-instruction` asks for."""

    category: InstructionType


class ErrorReply(BaseModel):
    """The reply that the prompt `kiwi-error` asks for."""

    category: Error


class RetrievedReply(BaseModel):
    """The reply that the prompt `kiwi-retrieved` asks for."""

    retrieved: RetrievedShare


def labels_by_model(
    session: Session, turn: KiwiTurn, generator: Generator, prompts: Path | None = None
) -> tuple[TurnLabels, dict[str, Usage]]:
    """Label a turn by a model, in up to three calls.

    Returns:
        The labels, and the usage of each call by the name of its label.
    """
    usage: dict[str, Usage] = {}
    texts = {"question": session.question, "instruction": turn.instruction}
    prompt = JUDGES.load("kiwi-instruction", prompts).fill(texts)
    reply, usage["instruction"] = ask_for_object(generator, prompt, InstructionReply)
    labels = TurnLabels(instruction=reply.category)
    if is_good(turn.rating):
        return labels, usage
    if turn.comment and turn.comment.strip():
        texts = {"instruction": turn.instruction, "comment": turn.comment}
        prompt = JUDGES.load("kiwi-error", prompts).fill(texts)
        error_reply, usage["error"] = ask_for_object(generator, prompt, ErrorReply)
        labels = labels.model_copy(update={"error": error_reply.category})
    if turn.passages and seeks_information(turn, labels):
        texts = {"question": session.question, "instruction": turn.instruction, "previous": turn.previous}
        passages = [passage.text for passage in turn.passages]
        prompt = JUDGES.load("kiwi-retrieved", prompts).fill(texts, passages)
        retrieved_reply, usage["retrieved"] = ask_for_object(generator, prompt, RetrievedReply)
        labels = labels.model_copy(update={"retrieved": retrieved_reply.retrieved})
    return labels, usage


def labels_by_rules(turn: KiwiTurn) -> TurnLabels:
    """Label a turn by rules, which read only English instructions and comments."""
    labels = TurnLabels.model_validate({"instruction": type_of(turn.instruction).fine})
    if is_good(turn.rating):
        return labels
    retrieved = retrieved_by_rules(turn) if seeks_information(turn, labels) else None
    return labels.model_copy(update={"error": error_by_rules(turn), "retrieved": retrieved})


def seeks_information(turn: KiwiTurn, labels: TurnLabels) -> bool:
    """Return whether an instruction seeks information, as its user ticked it or, without a tick, by its fine type."""
    return turn.coarse == "information-seeking" if turn.coarse else labels.instruction in INFORMATION_TYPES


# --- by rules --------------------------------------------------------------------------------------------------------

_COMMENTS = {
    cast(Error, kind): re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
    for kind, words in english_patterns()["errors"].items()
}


def error_by_rules(turn: KiwiTurn) -> Error:
    """Return the error of a revision that is not good, by words in the comment or, without any, by comparing the
    texts."""
    for kind, pattern in _COMMENTS.items():
        if turn.comment and pattern.search(turn.comment):
            return kind
    return cast(Error, analyze_revision(turn.instruction, turn.previous, turn.answer).error)


def retrieved_by_rules(turn: KiwiTurn) -> RetrievedShare | None:
    """Return how many of the user's inserted sentences the passages cover, or None without passages or insertions."""
    if not turn.passages or turn.edit is None:
        return None
    previous, edit = strip_citations(turn.previous), strip_citations(turn.edit)
    kinds = ("insert", "replace", "rewrite")
    inserted = [change.after for change in operations(previous, edit) if change.kind in kinds]
    if not inserted:
        return None
    texts = [passage.text for passage in turn.passages]
    covered_count = sum(covers(sentence, texts, COVERED_SHARE) for sentence in inserted)
    if covered_count == len(inserted):
        return "all"
    return "some" if covered_count else "none"


# --- the tables -------------------------------------------------------------------------------------------------------

LABELS_INSTRUMENT = "the labels of this run, by its model or by rules"
NOT_ACCEPTED_REASON = "rated neutral or bad and not edited: there is no answer that the user accepted"


@dataclass(frozen=True)
class LabeledTurn:
    """The context of the metrics: a turn, its session and its labels."""

    session: Session
    turn: KiwiTurn
    labels: TurnLabels

    @property
    def target(self) -> str | None:
        """The answer that the user accepted, as written, or None if there is no such answer."""
        return accepted_answer(self.turn)


@metric(by="share of turns that the user rated good", style=MetricStyle(headline=140))
def good(labeled: LabeledTurn) -> float:
    """Measure whether the user rated the turn good."""
    return float(is_good(labeled.turn.rating))


@metric(by="turns / sessions", style=RATIO)
def turns_per_session(labeled: LabeledTurn) -> tuple[float, float]:
    """Weight each turn of a session of n turns by 1 / n, so that the mean is turns / sessions."""
    count = len(labeled.session.turns)
    return float(count), 1 / count


@metric(by="share of turns whose answer the user edited")
def edited(labeled: LabeledTurn) -> float:
    """Measure whether the user edited the answer of the turn."""
    return float(labeled.turn.edit is not None)


@metric(by="as the users ticked it", without="the data does not record what the user ticked")
def information_seeking(labeled: LabeledTurn) -> float | None:
    """Measure whether the instruction seeks information, where the data record it."""
    return None if labeled.turn.coarse is None else float(seeks_information(labeled.turn, labeled.labels))


def _types(labeled: LabeledTurn) -> Mapping[str, Value]:
    turn, label = labeled.turn, labeled.labels.instruction
    values: dict[str, Value] = {f"instruction[{name}]": float(name == label) for name in FINE_TYPES}
    values[f"good[{label}]"] = float(is_good(turn.rating))
    if turn.coarse:
        values[f"information_seeking[{label}]"] = float(seeks_information(turn, labeled.labels))
    return values


def _measure_label(labeled: LabeledTurn, field: str, known: Sequence[str]) -> Mapping[str, Value]:
    """Measure which of the known labels a turn has in a field; nothing if it has none."""
    label = getattr(labeled.labels, field)
    return {f"{field}[{name}]": float(name == label) for name in known} if label else {}


def _agreement(labeled: LabeledTurn) -> Mapping[str, Value]:
    """Measure the agreement of the labels with those of the data."""
    turn, labels = labeled.turn, labeled.labels
    values: dict[str, Value] = {}
    if turn.fine:
        values["instruction_accuracy"] = float(labels.instruction == turn.fine)
    if turn.coarse:
        by_fine_type = labels.instruction in INFORMATION_TYPES
        values["type_accuracy"] = float(by_fine_type == seeks_information(turn, labels))
    if turn.error and labels.error:
        values["error_accuracy"] = float(labels.error == turn.error)
    return values


def _edits(labeled: LabeledTurn) -> Mapping[str, Value]:
    source, target = labeled.turn.previous, labeled.target
    if target is None:
        return {}
    return {
        **measure_edits(target, source),
        "instruction_words": float(len(overlap.edit_words(labeled.turn.instruction))),
        "source_words": float(len(overlap.edit_words(source))),
        "target_words": float(len(overlap.edit_words(target))),
    }


def _metric_names(name: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}[{value}]" for value in values)


class KiwiAnalyse(KiwiTask):
    """The task `analyse`: label each turn of KIWI as it was recorded."""

    name = "analyse"
    measures_judges = True
    raters = ("human",)

    metrics: Sequence[Metric[LabeledTurn]] = (
        good,
        turns_per_session,
        edited,
        information_seeking,
        Metric(names=(*EDIT_METRICS, "instruction_words", "source_words", "target_words"),
               by=EDITS_AS_WRITTEN, measure=_edits, without=NOT_ACCEPTED_REASON, shown=EDITS_SHOWN),
        Metric(names=(*_metric_names("instruction", FINE_TYPES), *_metric_names("good", FINE_TYPES),
                *_metric_names("information_seeking", FINE_TYPES)),
               by=LABELS_INSTRUMENT, measure=_types, without="the turn is of another type"),
        Metric(names=_metric_names("error", ERROR_TYPES), by=LABELS_INSTRUMENT,
               measure=partial(_measure_label, field="error", known=ERROR_TYPES),
               without="the turn was rated good, or nothing shows its error"),
        Metric(names=_metric_names("retrieved", get_args(RetrievedShare)), by=LABELS_INSTRUMENT,
               measure=partial(_measure_label, field="retrieved", known=get_args(RetrievedShare)),
               without="rated good, nothing had to be retrieved, or it is unknown what was needed"),
        Metric(names=("instruction_accuracy", "type_accuracy", "error_accuracy"), by="against the labels of the data",
               measure=_agreement, without="the data have no such label"),
    )  # fmt: skip

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        labeler = "a language model" if self.request.asks_model else "rules"
        note = f"instruction types, errors and what was retrieved are labeled by {labeler}; all else is as recorded"
        return PROMPTS, [note]

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`; the prediction is `TurnLabels` as JSON."""
        began = time.perf_counter()
        session, turn = item.task.session, item.task.turn
        usage: dict[str, Usage] = {}
        if generator is None:
            labels = labels_by_rules(turn)
        else:
            labels, usage = labels_by_model(session, turn, generator, self.assistant.config.prompts)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=labels.model_dump_json(), turn=turn.turn,
            previous=turn.previous, usage=usage, timings={"label": round(time.perf_counter() - began, 4)},
        )  # fmt: skip

    def context(self, item: Item, sample: Sample) -> LabeledTurn:
        return LabeledTurn(item.task.session, item.task.turn, TurnLabels.model_validate_json(sample.prediction or ""))
