"""What a message asks for, by one structured call of a language model; where nothing usable comes, by rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from turnmark.assistant.generators.schema import at_most
from turnmark.assistant.steps.decompose import MOST_PARTS, Rules
from turnmark.assistant.steps.llm import class_of, drifted, rewrite_prompt
from turnmark.assistant.steps.understand import understand
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Kind, Understanding, Usage

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
            why = f"{reply.kind.replace('_', ' ')}: {reply.reason}"
            turn.use("rewrite", usage, f"understood by rules: the model gave nothing usable ({why})")
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
        tuple(sorted({places[need] for need in wanted if places.get(need, at) < at}))
        for at, (_, _, wanted) in enumerate(usable)
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
