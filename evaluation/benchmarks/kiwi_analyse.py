"""KIWI's analysis of recorded sessions (section 4): who asks for what, how often it is done well, what goes wrong, how
much a revision changes. Tables 2, 3, 4 and 6, and the retrieval analysis of section 4.3.

Each turn is labelled by a model (few-shot prompts) or by rules: the type of its instruction, what went wrong, and
whether what was retrieved would have done. Where the data have labels of people, the two are held against each other.
The paper's authors labelled some turns by hand, and GPT-4 the rest; retrieval they judged by hand alone. By rules the
sentences that a user put in by hand are held against the passages, which says nothing of turns without an edit.
Everything else is measured of the data as they are.

Table 6 counts words of the texts as they were written; the paper speaks of no marks that were taken out. The table is
over 815 turns. The paper says that it
leaves out turns rated neutral or bad "with an edited answer". Of 1,260 turns 760 are so rated (section 4.3) and 315
edited (Table 2), so that 945 would be left at least; 815 is 500 good turns and the 315 that were edited. We keep those:
the turns whose result the user accepted, as it came or as edited, and that result is the target.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import BaseModel, Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.support import covers
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import ERROR_TYPES, FINE_TYPES, Session, Turn
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.kiwi_turns import (
    EDITS_AS_WRITTEN,
    EDITS_SHOWN,
    RATIO,
    Instruction,
    KiwiTask,
    asked,
    is_good,
    turn_item,
)
from turnmark.evaluation.judging.kiwi import INFORMATION, operations, read_revision, type_of
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Sample
from turnmark.evaluation.scores.metric_info import MetricStyle

InstructionType = Literal[
    "More information", "Expand coverage", "Clarification",
    "Remove", "Specific edit", "Condense", "Reorganize", "Others",
]  # fmt: skip
Error = Literal["Unrequested change", "Ignored", "Constraint failure", "Poor integration", "Others"]
Retrieved = Literal["all", "some", "none"]
PROMPTS = ("kiwi-instruction", "kiwi-error", "kiwi-retrieved")
SAID = 0.6
"""Share of a sentence's content words that the passages hold, from which on they say it."""


class TurnLabels(Record):
    """What is said of a turn: the text of a sample, as JSON."""

    instruction: InstructionType
    error: Error | None = Field(default=None, description="None: rated good, or there is no comment to go by")
    retrieved: Retrieved | None = Field(default=None, description="None: nothing was to be retrieved, or nobody knows")


class InstructionReply(BaseModel):
    category: InstructionType


class ErrorReply(BaseModel):
    category: Error


class RetrievedReply(BaseModel):
    retrieved: Retrieved


def labels_asked(
    session: Session, turn: Turn, generator: Generator, prompts: Path | None = None
) -> tuple[TurnLabels, dict[str, Usage]]:
    """What a model says of a turn, in up to three calls, and what each took."""
    used: dict[str, Usage] = {}
    texts = {"question": session.question, "instruction": turn.instruction}
    prompt = JUDGES.load("kiwi-instruction", prompts).fill(texts)
    reply, used["instruction"] = asked(generator, prompt, InstructionReply)
    labels = TurnLabels(instruction=reply.category)
    if is_good(turn.rating):
        return labels, used
    if turn.comment and turn.comment.strip():
        texts = {"instruction": turn.instruction, "comment": turn.comment}
        prompt = JUDGES.load("kiwi-error", prompts).fill(texts)
        error_reply, used["error"] = asked(generator, prompt, ErrorReply)
        labels = labels.model_copy(update={"error": error_reply.category})
    if turn.passages and seeks(turn, labels):
        texts = {"question": session.question, "instruction": turn.instruction, "previous": turn.previous}
        passages = [passage.text for passage in turn.passages]
        prompt = JUDGES.load("kiwi-retrieved", prompts).fill(texts, passages)
        retrieved_reply, used["retrieved"] = asked(generator, prompt, RetrievedReply)
        labels = labels.model_copy(update={"retrieved": retrieved_reply.retrieved})
    return labels, used


def labels_by_rules(turn: Turn) -> TurnLabels:
    """What rules say of a turn; English instructions and comments only."""
    labels = TurnLabels.model_validate({"instruction": type_of(turn.instruction).fine})
    if is_good(turn.rating):
        return labels
    retrieved = retrieved_by_rules(turn) if seeks(turn, labels) else None
    return labels.model_copy(update={"error": error_by_rules(turn), "retrieved": retrieved})


def seeks(turn: Turn, labels: TurnLabels) -> bool:
    """Whether an instruction seeks information: as its user ticked it, else by its fine type."""
    return turn.coarse == "information-seeking" if turn.coarse else labels.instruction in INFORMATION


# --- by rules --------------------------------------------------------------------------------------------------------

# In this order: a comment that names a change nobody asked for counts as that, whatever else it says (the commonest
# kind, Table 4), and most comments say "did not", so that "Ignored" comes last.
_WORDS: Mapping[Error, str] = {
    "Unrequested change": r"""unasked|unrequested|unprompted|unnecessar(?:y|ily)|nobody asked
        without (?:being asked|asking)|(?:had|did|was|were)(?: not|n['’]t) (?:been )?ask(?:ed)?
        not (?:been )?(?:asked|requested|mentioned)|rewrote the (?:whole|entire)
        (?:also|too|even) (?:removed|changed|deleted|dropped|rewrote|rewritten|altered|added|modified)
        (?:removed|changed|deleted|dropped|lost|altered|modified) (?:some|other|parts?|most|the rest|too much|important)
        (?:removed|changed|deleted|dropped|lost|altered|modified) (?:relevant|useful|everything else)
        (?:is|are|was|were) (?:gone|lost)|should (?:not have|have (?:been|stayed|kept) (?:a copy|as|the))""",
    "Poor integration": r"""flow|awkward\w*|disconnect\w*|integrat\w*|coheren\w*|incoheren\w*|tacked|stuck on|abrupt\w*
        imbalanc\w*|unbalanced|out of place|does(?: not|n['’]t) fit|repet\w*|redundan\w*|disjointed|choppy
        transition\w*""",
    "Constraint failure": r"""too (?:long|short|many|few)|(?:more|fewer|less|longer|shorter) than|word limit
        (?:wrong|another) (?:place|position|order|number|length)|verbatim|word for word
        (?:at|in|to) the (?:wrong|end|beginning|start|middle|last|first|second)
        not (?:at|in|as) the (?:first|last|beginning|end)|instead of (?:\d+|one|two|three|four|five|a)
        (?:\d+|two|three|four|five|six) (?:sentences?|paragraphs?|words)""",
    "Ignored": r"""still (?:there|here|in|has|have|the|mentions?|contains?)|ignor\w*|no changes?|same answer|unchanged
        nothing (?:was |has |is )?(?:changed|done|added|removed)|failed to
        did(?: not|n['’]t) (?:do|follow|remove|add|change|answer|address|make|include|provide|shorten|condense)
        does(?: not|n['’]t) (?:follow|answer|include|provide|address|remove)
        not (?:in it|followed|done|added|removed|answered|addressed)""",
}
_COMMENTS: Mapping[Error, re.Pattern[str]] = {
    kind: re.compile(rf"\b(?:{'|'.join(line.strip() for line in lines.splitlines())})\b", re.IGNORECASE)
    for kind, lines in _WORDS.items()
}


def error_by_rules(turn: Turn) -> Error:
    """What went wrong in a revision that is not good: by words of the comment, else by what code finds in the texts."""
    for kind, pattern in _COMMENTS.items():
        if turn.comment and pattern.search(turn.comment):
            return kind
    return cast(Error, read_revision(turn.instruction, turn.previous, turn.answer).error)


def retrieved_by_rules(turn: Turn) -> Retrieved | None:
    """Whether the passages say what the user put in by hand; None where nothing was retrieved, or nothing put in."""
    if not turn.passages or turn.edit is None:
        return None
    previous, edit = strip_citations(turn.previous), strip_citations(turn.edit)
    kinds = ("insert", "replace", "rewrite")
    needed = [change.after for change in operations(previous, edit) if change.kind in kinds]
    if not needed:
        return None
    texts = [passage.text for passage in turn.passages]
    supported_count = sum(covers(sentence, texts, SAID) for sentence in needed)
    return "all" if supported_count == len(needed) else "some" if supported_count else "none"


# --- the tables -------------------------------------------------------------------------------------------------------

GOOD = "share of turns that the user rated good"
LABELLED = "the labels of this run, by its model or by rules"
TICKED = "as the users ticked it"
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
    source, target = analysed.turn.previous, analysed.target
    if target is None:
        return {}
    return {
        "instruction_words": float(len(overlap.edit_words(analysed.turn.instruction))),
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
        labeller = "a language model" if self.request.asks_model else "rules"
        note = f"instruction types, errors and what was retrieved are labelled by {labeller}; all else is as recorded"
        return PROMPTS, [note]

    def items(self) -> Iterator[Item | Problem]:
        for session in kiwi.stream_sessions(self.source.root):
            if isinstance(session, Problem):
                yield session
                continue
            yield from (turn_item(Instruction(session, turn)) for turn in session.turns)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`; the sample's text is `TurnLabels` as JSON."""
        began = time.perf_counter()
        session, turn = item.task.session, item.task.turn
        used: dict[str, Usage] = {}
        if generator is None:
            labels = labels_by_rules(turn)
        else:
            labels, used = labels_asked(session, turn, generator, self.assistant.config.prompts)
        return Sample(
            id=item.id, status="done", query=turn.instruction, prediction=labels.model_dump_json(), turn=turn.turn,
            previous=turn.previous, usage=used, timings={"label": round(time.perf_counter() - began, 4)},
        )  # fmt: skip

    def context(self, item: Item, sample: Sample) -> Analysed:
        return Analysed(item.task.session, item.task.turn, TurnLabels.model_validate_json(sample.prediction or ""))
