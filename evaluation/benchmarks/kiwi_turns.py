"""What KIWI's tasks share: a turn with its session, a model asked about one, and the paper's own way to have it revise.

In that (section 2.2, appendix A.1) the complete answer is written anew, by plain prompts.

An instruction that seeks information takes two calls: what the passages say to it, then the answer with that put in.
Any other takes one, with question, answer and instruction. The reply is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel

from turnmark.assistant.asking import Failure, ask, merge_roles, write_text
from turnmark.assistant.budget import count_tokens, fit_prompt, room_for
from turnmark.assistant.generators.base import ErrorKind, Generator, GeneratorError, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.corpora import kiwi
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.kiwi import Rating, Session, Turn
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.task import Task, data_used, hash_prompts
from turnmark.evaluation.benchmarks.turns import titled
from turnmark.evaluation.judging.kiwi import type_of
from turnmark.evaluation.judging.verdicts import Labels, ask_verdict
from turnmark.evaluation.limits import with_temperature
from turnmark.evaluation.metric_info import MetricStyle
from turnmark.evaluation.prompts import JUDGES
from turnmark.retrieval.types import Hit

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
    """The object that a model gives, and what it took."""
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


FIRST, INFORMATION, REWRITE = "kiwi-first", "kiwi-information", "kiwi-rewrite"
PROMPTS = (FIRST, INFORMATION, REWRITE)
NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompts: add --generator, or leave it out"


@dataclass(frozen=True)
class Rewritten:
    """An answer as a model wrote it, what it took, and what is to be noted."""

    text: str
    usage: Usage
    notes: tuple[str, ...] = ()


def first_answer(generator: Generator, question: str, hits: Sequence[Hit], prompts: Path | None = None) -> Rewritten:
    """The answer that a session begins with, from the passages found for the question."""
    return _reply(generator, FIRST, {"question": question}, hits, prompts)


def rewrite_as_paper(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    seeks_information: bool,
    prompts: Path | None = None,
) -> Rewritten:
    """The answer revised as instructed, written anew.

    Args:
        hits: passages for the instruction, best first; shown only where it seeks information.
        prompts: folder with prompts of one's own.
    """
    texts = {"previous": previous, "instruction": instruction}
    if not seeks_information:
        return _reply(generator, REWRITE, {"question": question, **texts, "information": ""}, (), prompts)
    summary = _reply(generator, INFORMATION, texts, hits, prompts)
    try:
        texts |= {"question": question, "information": summary.text}
        rewrite = _reply(generator, REWRITE, texts, (), prompts)
    except GeneratorError as error:
        raise GeneratorError(error.kind, str(error), summary.usage + error.usage) from error
    return Rewritten(rewrite.text, summary.usage + rewrite.usage, (*summary.notes, *rewrite.notes))


def _reply(
    generator: Generator, name: str, texts: Mapping[str, str], hits: Sequence[Hit], prompts: Path | None
) -> Rewritten:
    prompt = JUDGES.load(name, prompts)
    shown = "Paper title: {}\nPassage: {}".format if prompt.bare else titled  # bare as in the paper (appendix A.1)
    passages = [shown(hit.passage.title, hit.passage.text) for hit in hits]
    filled = {key: text or None for key, text in texts.items()}
    fitted = fit_prompt(prompt, room_for(generator), filled, passages)
    if fitted is None:
        reason = f"question, answer and instruction do not fit into the context of {generator.name}"
        raise GeneratorError("bad_request", reason)
    reply = write_text(generator, merge_roles(fitted.messages))
    return Rewritten(reply.text, reply.usage, (*fitted.notes, *([reply.note] if reply.note else [])))
