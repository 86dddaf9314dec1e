"""What KIWI's tasks share: a turn with its session, and a model asked about one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel

from turnmark.assistant.asking import Failure, ask
from turnmark.assistant.budget import count_tokens, room_for
from turnmark.assistant.generators.base import ErrorKind, Generator, GeneratorError, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector
from turnmark.corpora import kiwi
from turnmark.corpora.kiwi import Rating, Session, Turn
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.task import Task, data_used, hash_prompts
from turnmark.evaluation.judging.kiwi import type_of
from turnmark.evaluation.judging.verdicts import Labels, ask_verdict
from turnmark.evaluation.runs.limits import with_temperature
from turnmark.evaluation.scores.metric_info import MetricStyle

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
EDITS_AS_WRITTEN = "words as written, against the previous answer (rapidfuzz Levenshtein)"
"""What measures Table 6, to be compared with what the paper did; it speaks of no marks taken out."""


@dataclass(frozen=True)
class Instruction:
    session: Session
    turn: Turn


def turn_item(task: Instruction, after: str | None = None) -> Item:
    """A turn as an item: the session's question and the answer before it are the history, passages have sample ids.

    Sessions about one question are one cluster. What a user did not say, or what cannot be read, is no value of a
    dimension. A model of the paper's has the paper's name, however the file spells it
    (`turnmark.corpora.kiwi.model_name`), so that published rows match it. A turn whose fine type nobody gave is
    under `instruction_by_rules`, by its words.
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
    groups = {
        f"{turn.id}#passage": turn.passages,
        f"{session.index}#passage": session.passages,
        f"{session.index}#paragraph": session.papers.paragraphs if session.papers else (),
    }
    return Item(
        turn.id,
        task,
        after=after,
        question=turn.instruction,
        history=(
            Message(role="user", content=session.question),
            Message(role="assistant", content=turn.previous),
        ),
        reference=turn.edit or turn.answer,
        passages={
            f"{prefix}-{number}": (passage.title, passage.text)
            for prefix, passages in groups.items()
            for number, passage in enumerate(passages, 1)
        },
        labels=labels,
        cluster=f"question {kiwi.same_question(session.question)}",
    )


class KiwiTask(Task):
    """A task over the recorded sessions."""

    flags = ("chain",)
    source: Source

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        if request.domains:
            errors.add("--domains: kiwi has no domains; leave it out")
        if self.name != "revise":
            if request.chain:
                errors.add(f"--chain is for the task revise; {self.name} looks at recorded answers")
            if request.protocol == "paper":
                own = f"the prompts of {self.name} are the paper's way to ask already"
                errors.add(f"--protocol paper is for the task revise; {own}")
        source = errors.collect(kiwi.locate, request.data)
        if source is not None:
            self.source = source
            errors.collect(kiwi.stream_sessions, source.root)  # says what is wrong with the folder; reads nothing yet
            prompts, notes = errors.collect(self.open_turns) or ((), [])
            self.inputs = errors.collect(hash_prompts, prompts if request.asks_model else (), request.prompts) or {}
            self.notes = tuple(notes)
            self.data = data_used(source, kiwi.files(source.root))
        errors.raise_all()

    def open_turns(self) -> tuple[tuple[str, ...], list[str]]:
        """Check what is the task's own.

        Returns:
            The prompts that a model is asked with, and notes.
        """
        raise NotImplementedError


def is_good(rating: Rating) -> bool:
    """The label that is predicted: neutral and bad count as one."""
    return rating == "good"


def leaves_room(generator: Generator, prompt: Sequence[PromptMessage]) -> bool:
    return sum(count_tokens(message.content) for message in prompt) <= room_for(generator)


def asked(generator: Generator, prompt: Sequence[PromptMessage], schema: type[T]) -> tuple[T, Usage]:
    _check_room(generator, prompt)
    reply, used = ask(generator, prompt, schema, temperature=0.0)
    if isinstance(reply, Failure):
        raise _error(reply, used)
    return reply, used


def asked_plainly(
    generator: Generator, prompt: Sequence[PromptMessage], offer: Labels, prompts: Path | None
) -> tuple[str, Usage]:
    """The label that a model's text is or ends in, for prompts that ask for no object."""
    _check_room(generator, prompt)
    reply, used = ask_verdict(with_temperature(generator, 0.0), prompt, offer, prompts)
    if isinstance(reply, Failure):
        raise _error(reply, used)
    return reply.label, used


def _check_room(generator: Generator, prompt: Sequence[PromptMessage]) -> None:
    if not leaves_room(generator, prompt):
        raise GeneratorError("bad_request", f"the turn does not fit into the context of {generator.name}")


def _error(failure: Failure, used: Usage) -> GeneratorError:
    kind = _KINDS.get(failure.kind) or cast(ErrorKind, failure.kind)
    return GeneratorError(kind, failure.reason or "no usable reply came", used)
