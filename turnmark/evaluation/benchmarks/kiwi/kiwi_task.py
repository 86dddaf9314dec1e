"""Code shared by KIWI's tasks: a turn with its session as an item, and questions to a model about a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import ErrorKind, Generator, GeneratorError, PromptMessage
from turnmark.assistant.llm.prompts.context_budget import count_tokens, prompt_room
from turnmark.assistant.llm.prompts.structured_output import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.benchmarks.checking import PUBLISHED_STATISTICS, count_kiwi, list_deviations
from turnmark.corpora.benchmarks.kiwi import KiwiTurn, RevisionRating, Session
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.types import Problem, exchange
from turnmark.evaluation.benchmarks.kiwi.options import KiwiOptions
from turnmark.evaluation.benchmarks.kiwi.rubrics import type_of
from turnmark.evaluation.calls.generator_wrappers import with_temperature
from turnmark.evaluation.judging.verdicts import Labels, ask_verdict
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import Value
from turnmark.evaluation.tasks.rating_form import RatingForm
from turnmark.evaluation.tasks.task import Task, data_used, hash_prompts

T = TypeVar("T", bound=BaseModel)
_KINDS: dict[str, ErrorKind] = {"length": "bad_reply", "invalid": "bad_reply", "content_filter": "refused"}


NUMBER_OF_WORDS = MetricStyle(digits=(1, 1), direction=None, fraction=False)
RATIO = MetricStyle(digits=(2, 2), direction=None, fraction=False)
EDITS_SHOWN = {
    "length_ratio": RATIO.model_copy(update={"headline": 170}),
    "edit_ratio": RATIO.model_copy(update={"headline": 180}),
    "edit_distance": NUMBER_OF_WORDS.model_copy(update={"headline": 190}),
    **dict.fromkeys(("instruction_words", "source_words", "target_words"), NUMBER_OF_WORDS),
}
EDIT_METRICS = ("length_ratio", "edit_distance", "edit_ratio")
EDITS_AS_WRITTEN = "words as written, against the previous answer (rapidfuzz Levenshtein)"
"""Instrument of the metrics of Table 6. Citation marks stay in the texts: the paper does not mention their removal."""


def measure_edits(revised: str, previous: str) -> dict[str, Value]:
    """Measure `EDIT_METRICS` of a revision."""
    return {name: getattr(overlap, name)(revised, previous) for name in EDIT_METRICS}


@dataclass(frozen=True)
class Instruction:
    """A turn and the session that it belongs to."""

    session: Session
    turn: KiwiTurn


def turn_item(task: Instruction, after: str | None = None) -> Item:
    """Make an item of a turn. Its history is the session's question and the previous answer.

    Sessions about one question form one cluster. A missing or unreadable label gives no value in its dimension. The
    names of the paper's models are converted to the paper's spelling (`turnmark.corpora.benchmarks.kiwi.model_name`),
    so that published rows match. A turn without a fine type in the data has a type by rules, under
    `instruction_by_rules`.
    """
    session, turn = task.session, task.turn
    labels = {
        "instruction": (turn.fine,) if turn.fine else (),
        "type": (turn.coarse,) if turn.coarse else (),
        "model": (kiwi.model_name(session.model),),
        "turn": ("later" if turn.turn else "first",),
        "rating": (turn.rating,),
    }
    if not turn.fine:
        labels["instruction_by_rules"] = (type_of(turn.instruction).fine,)
    passages_of_prefix = {
        f"{turn.id}#passage": turn.passages,
        f"{session.index}#passage": session.passages,
        f"{session.index}#paragraph": session.papers.paragraphs if session.papers else (),
    }
    passages = {
        f"{prefix}-{number}": (passage.title, passage.text)
        for prefix, group in passages_of_prefix.items()
        for number, passage in enumerate(group, 1)
    }
    return Item(
        turn.id,
        task,
        after=after,
        question=turn.instruction,
        history=exchange(session.question, turn.previous),
        reference=turn.edit or turn.answer,
        passages=passages,
        labels=labels,
        cluster=f"question {kiwi.same_question(session.question)}",
    )


class KiwiTask(Task):
    """Base class of the tasks over KIWI's recorded sessions."""

    options_type = KiwiOptions
    options: KiwiOptions
    rating_form = RatingForm({"rating": ("good", "neutral", "bad")}, asks="Instruction", pairs=False, revises=True)
    source: Source
    chain = False
    """Whether each turn starts from our answer to the one before it."""

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        if request.domains:
            errors.add("--domains: kiwi has no domains; leave it out")
        if self.name != "revise":
            if self.options.chain:
                errors.add(f"--chain is for the task revise; {self.name} looks at recorded answers")
            if self.options.protocol == "paper":
                reason = f"the prompts of {self.name} already follow the paper"
                errors.add(f"--protocol paper is for the task revise; {reason}")
        source = errors.collect(kiwi.locate, request.data)
        if source is not None:
            self.source = source
            errors.collect(kiwi.stream_sessions, source.root)  # checks the folder; reads nothing yet
            prompts, notes = errors.collect(self.open_turns) or ((), [])
            if not request.asks_model:
                prompts = ()
            self.inputs = errors.collect(hash_prompts, prompts, request.assistant.prompts) or {}
            self.notes = tuple(notes)
            self.data = data_used(source, kiwi.files(source.root))
        errors.raise_all()

    def doubts(self) -> Mapping[str, str]:
        """See `Task.doubts`. The published file was not available, so it is recognized by the numbers of Table 2."""
        sessions = [row for row in kiwi.stream_sessions(self.source.root) if not isinstance(row, Problem)]
        of_turns = [name for name in PUBLISHED_STATISTICS["kiwi"]["figures"] if name.endswith(("sessions", "turns"))]
        differing = list_deviations("kiwi", count_kiwi(sessions), of_turns)
        return {"": differing[0]} if differing else {}

    def items(self) -> Iterator[Item | Problem]:
        for session in kiwi.stream_sessions(self.source.root):
            if isinstance(session, Problem):
                yield session
                continue
            turn_before: str | None = None
            for turn in session.turns:
                yield turn_item(Instruction(session, turn), after=turn_before)
                turn_before = turn.id if self.chain else None

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        """Check the flags of this task and prepare it.

        Returns:
            Names of the prompts that the task asks a model with, and notes for the report.
        """
        raise NotImplementedError


def is_good(rating: RevisionRating) -> bool:
    """Return whether a rating is `good`; neutral and bad count as one label."""
    return rating == "good"


def accepted_answer(turn: KiwiTurn) -> str | None:
    """Return the answer that the user accepted: the edited one or, if rated good, the revision itself; None if there is
    none."""
    if turn.edit:
        return turn.edit
    return turn.answer if is_good(turn.rating) else None


def fits_context(generator: Generator, prompt: Sequence[PromptMessage]) -> bool:
    """Return whether a prompt fits into a model's context, with room for the reply."""
    return sum(count_tokens(message.content) for message in prompt) <= prompt_room(generator)


def ask_for_object(generator: Generator, prompt: Sequence[PromptMessage], schema: type[T]) -> tuple[T, Usage]:
    """Ask a model for a JSON object at temperature 0.

    Raises:
        GeneratorError: the prompt does not fit into the context, or no usable reply came.
    """
    _check_room(generator, prompt)
    reply, usage = ask(generator, prompt, schema, temperature=0.0)
    if isinstance(reply, Failure):
        raise _error(reply, usage)
    return reply, usage


def ask_for_label(
    generator: Generator, prompt: Sequence[PromptMessage], labels: Labels, prompts: Path | None
) -> tuple[str, Usage]:
    """Ask a model for one of some labels as plain text at temperature 0; the reply is the label or ends in it.

    Raises:
        GeneratorError: the prompt does not fit into the context, or no usable reply came.
    """
    _check_room(generator, prompt)
    reply, usage = ask_verdict(with_temperature(generator, 0.0), prompt, labels, prompts)
    if isinstance(reply, Failure):
        raise _error(reply, usage)
    return reply.label, usage


def _check_room(generator: Generator, prompt: Sequence[PromptMessage]) -> None:
    if not fits_context(generator, prompt):
        raise GeneratorError("bad_request", f"the turn does not fit into the context of {generator.name}")


def _error(failure: Failure, usage: Usage) -> GeneratorError:
    kind = _KINDS.get(failure.kind) or cast(ErrorKind, failure.kind)
    return GeneratorError(kind, failure.reason or "no usable reply came", usage)
