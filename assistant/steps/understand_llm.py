"""The understand step with a language model: a message that leans on its conversation is put as a question of its own
in one few-shot call (`Condense`), or kind, parts and readings are asked for in one structured call (`Structured`).

The question joins the search as a variant beside the raw message and never replaces it. On held-out conversations
that gains; in the place of the raw message it loses (docs/measured.md). Where nothing usable comes, rules understand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from turnmark.assistant.budget import INSTRUCTIONS, count_tokens
from turnmark.assistant.generators.base import GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.generators.schema import at_most
from turnmark.assistant.prompts import load_prompt, quoted
from turnmark.assistant.steps.llm import class_of, drifted, rewrite_prompt
from turnmark.assistant.steps.marks import unmarked
from turnmark.assistant.steps.split import MOST_PARTS, Rules, understand_parts
from turnmark.assistant.steps.support import stems
from turnmark.assistant.steps.understand import refers_back, understand
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Kind, Understanding, Usage
from turnmark.corpora.text import content_words, strip_citations, words
from turnmark.corpora.types import Message

TURNS = 4
"""Earlier messages that are shown."""
LONGEST_TURN = 50
"""Words of an earlier message that are shown."""
REPLY_TOKENS = 64
LONGEST_GROWTH, GROWTH_ALLOWED = 2, 20
"""A question with more words than so many times the message's and so many more has drifted from it."""

_LABEL = re.compile(r"^\W*(?:question|rewritten(?: question| message)?|last message|user)\s*:\s*", re.IGNORECASE)
_SPEAKER = {"user": "User", "assistant": "Assistant"}


class Condense:
    """Rules; a message that leans on its conversation is put as a question of its own by a model, in one call.

    Whether a message revises, or asks anything, rules decide. Where evidence is given nothing depends on a rewrite;
    where no usable one comes the turn goes on with what rules understand, and a note.
    """

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        Rules()(turn)
        if turn.understanding.kind != "question" or turn.understanding.standalone or turn.evidence is not None:
            return
        prompt = condense_prompt(turn.history, turn.message, turn.prompts)
        room = max(INSTRUCTIONS, turn.model.context_tokens - REPLY_TOKENS)
        if sum(count_tokens(message.content) for message in prompt) > room:
            turn.use("rewrite", Usage(), "understood by rules: the message is too long for the model")
            return
        try:
            reply = turn.model.complete(prompt, max_tokens=REPLY_TOKENS)
        except GeneratorError as error:
            kind = error.kind.replace("_", " ")
            turn.use("rewrite", error.usage, f"understood by rules: {kind}: {error}")
            return
        line = next(iter(without_thinking(reply.text).strip().splitlines()), "")
        question = strip_citations(_LABEL.sub("", line)).strip(" \t\"'“”`*")
        problem = fault_of(question, turn.history, turn.message)
        turn.use("rewrite", reply.usage)
        if problem:
            turn.tell("understand", "", problem=f"the model's rewrite {problem}")  # for the trace, nothing to read
        else:
            turn.forms["understand"] = "llm"
            turn.understanding = with_question(turn.understanding, turn.message, question)


def condense_prompt(history: Sequence[Message], message: str, prompts: Path | None = None) -> tuple[PromptMessage, ...]:
    """The messages that `Condense` sends: the last turns, each quoted on one line."""
    return load_prompt("condense", prompts).render(history=quoted_turns(history), message=" ".join(message.split()))


def quoted_turns(history: Sequence[Message]) -> str:
    """The last turns, a quoted line each, marks of citations left out and long ones cut."""
    lines = []
    for turn in history[-TURNS:]:
        shown_words = strip_citations(turn.content).split()
        text = " ".join(shown_words[:LONGEST_TURN]) + (" …" if len(shown_words) > LONGEST_TURN else "")
        lines.append(quoted(unmarked(f"{_SPEAKER[turn.role]}: {text}")))
    return "\n".join(lines)


def fault_of(question: str, history: Sequence[Message], message: str) -> str:
    """What is wrong about a rewrite, in words that follow "the model's rewrite"; "" where nothing is.

    It is empty, far longer than the message, an earlier message again, has nothing of the message in it, still refers
    to what was said before, or brings in more than a word that neither the message nor the conversation has.
    """
    if not words(question):
        return "is empty"
    if len(words(question)) > LONGEST_GROWTH * len(words(message)) + GROWTH_ALLOWED:
        return "is far longer than the message"
    if refers_back(question):
        return "still refers to earlier turns"
    if words(question) == words(message):
        return ""
    if any(words(question) == words(strip_citations(turn.content)) for turn in history):
        return "repeats an earlier message"
    message_stems = stems(" ".join(content_words(message)))
    question_stems = stems(" ".join(content_words(question)))
    if message_stems and not message_stems & question_stems:
        return "has no word of the message"
    known_stems = message_stems.union(*(stems(turn.content) for turn in history))
    if len(question_stems - known_stems) > 1 + len(question_stems) // 4:
        return "brings in what nobody has said"
    return ""


def with_question(understood: Understanding, message: str, question: str) -> Understanding:
    """An understanding by rules, with a message put as a question of its own in the place of the rules' rewrite.

    Its parts are those of the question, as the message has them where it has as many.
    """
    if words(question) == words(message):
        question = message
    alone = understand_parts((), question)
    parts = alone.sub_questions if alone.kind == "question" else (question,)
    typed_parts = understood.asked if len(understood.asked) == len(parts) else ()
    return understood.model_copy(
        update={
            "standalone": question == message,
            "rewrite": question,
            "topic": (),
            "sub_questions": parts if len(parts) > 1 else (question,),
            "asked": typed_parts if len(parts) > 1 else (),
            "needs": alone.needs if len(parts) > 1 else (),
            "wants_procedure": understood.wants_procedure or alone.wants_procedure,
        }
    )


MOST_READINGS = 12


class AskedPart(BaseModel):
    """A part of a message."""

    question: str
    needs: Annotated[list[int], at_most(MOST_PARTS - 1)] = Field(default_factory=list)


class UnderstandReply(BaseModel):
    """What the prompt `understand` asks for. A small model may leave out all but the class and the rewording."""

    kind: Annotated[
        Literal["question", "conversational", "revision"],
        BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
    ] = "question"
    standalone: Annotated[Literal["standalone", "non-standalone"], BeforeValidator(class_of)] = Field(
        validation_alias="class"
    )
    reworded_version: str
    parts: Annotated[list[AskedPart], at_most(MOST_PARTS)] = Field(default_factory=list)
    procedure: bool | None = None
    readings: Annotated[list[str], at_most(MOST_READINGS)] = Field(default_factory=list)


class Structured:
    """Kind, parts and readings by one structured call; by rules, with a note, where nothing usable comes of it."""

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        Rules()(turn)
        rules = turn.understanding
        simple = not turn.history and len(rules.sub_questions) == 1
        if turn.evidence is not None or rules.kind != "question" or simple:
            return
        request = rewrite_prompt("understand", turn.model, turn.history, turn.message, turn.prompts)
        if request is None:
            turn.use("rewrite", Usage(), "understood by rules: the message is too long for the model")
            return
        prompt, omitted = request
        reply, usage = ask(turn.model, prompt, UnderstandReply, max_tokens=2 * STRUCTURED_TOKENS)
        if isinstance(reply, Failure):
            reason = f"{reply.kind.replace('_', ' ')}: {reply.reason}"
            turn.use("rewrite", usage, f"understood by rules: the model gave nothing usable ({reason})")
            return
        reworded = " ".join(reply.reworded_version.split())
        if reply.standalone == "standalone" or not reworded:
            reworded = turn.message
        if reworded != turn.message and drifted(reworded, turn.message):
            turn.use("rewrite", usage, "searched as typed: the model's rewrite was far longer than the question")
            return
        turn.use("rewrite", usage, omitted)
        turn.forms["understand"] = "structured"
        # What tells to revise, rules say; a model takes questions for it.
        revises = reply.kind == "revision"
        turn.understanding = (
            understand(turn.history, turn.message) if revises else _understanding(reply, reworded, turn.message, rules)
        )


def _understanding(reply: UnderstandReply, reworded: str, message: str, rules: Understanding) -> Understanding:
    """The reply as a record: parts that cannot be parts are left out, and one part is the rewrite itself."""
    kind: Kind = reply.kind
    usable = [
        (at, " ".join(part.question.split()), part.needs)
        for at, part in enumerate(reply.parts, 1)
        if part.question.strip() and not drifted(part.question, message)
    ]
    texts = [text for _, text, _ in usable]
    if len(usable) < 2 or len(usable) > MOST_PARTS or len(set(texts)) < len(texts) or len(usable) < len(reply.parts):
        usable, texts = [], [reworded]
    places = {number: at for at, (number, _, _) in enumerate(usable)}
    needs = tuple(
        tuple(sorted({places[need] for need in needed if places.get(need, at) < at}))
        for at, (_, _, needed) in enumerate(usable)
    )
    readings = tuple(dict.fromkeys(" ".join(text.split()) for text in reply.readings if text.strip()))[:MOST_READINGS]
    return Understanding(
        kind=kind,
        standalone=reworded == message,
        rewrite=reworded,
        sub_questions=tuple(texts),
        wants_procedure=rules.wants_procedure if reply.procedure is None else reply.procedure,
        needs=needs if any(needs) else (),
        underspecified=len(readings) > 1,
        readings=readings if len(readings) > 1 else (),
    )
