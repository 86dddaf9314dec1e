"""What a message asks for, by one structured call of a language model; where nothing usable comes, by rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.schema import at_most
from turnmark.assistant.steps.decompose import MOST_PARTS
from turnmark.assistant.steps.llm import class_of, drifted, rewrite_prompt
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.types import Kind, Understanding, Usage
from turnmark.corpora.types import Message, Record

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


class Understood(Record):
    """An understanding, what it cost, and what the person should know of it."""

    understanding: Understanding
    usage: Usage = Usage()
    note: str | None = None
    by_rules: bool = False


def understand_with(
    generator: Generator,
    history: Sequence[Message],
    message: str,
    rules: Callable[[], Understanding],
    prompts: Path | None = None,
) -> Understood:
    """One call. Never raises a `GeneratorError`: a turn goes on with what rules understand, and a note.

    Args:
        rules: the embedded form's understanding of the same message.
        prompts: folder with a prompt of one's own.
    """
    asked = rewrite_prompt("understand", generator, history, message, prompts)
    if asked is None:
        note = "understood by rules: the message is too long for the model"
        return Understood(understanding=rules(), note=note, by_rules=True)
    prompt, left_out = asked
    found, usage = ask(generator, prompt, UnderstandReply, max_tokens=2 * STRUCTURED_TOKENS)
    if isinstance(found, Failure):
        why = f"{found.kind.replace('_', ' ')}: {found.reason}"
        note = f"understood by rules: the model gave nothing usable ({why})"
        return Understood(understanding=rules(), usage=usage, note=note, by_rules=True)
    reworded = " ".join(found.reworded_version.split())
    if found.standalone == "standalone" or not reworded:
        reworded = message
    if reworded != message and drifted(reworded, message):
        note = "searched as typed: the model's rewrite was far longer than the question"
        return Understood(understanding=rules(), usage=usage, note=note, by_rules=True)
    return Understood(understanding=_understanding(found, reworded, message, rules()), usage=usage, note=left_out)


def _understanding(found: UnderstandReply, reworded: str, message: str, rules: Understanding) -> Understanding:
    """The reply as a record: parts that cannot be parts are left out, and one part is the rewrite itself."""
    kind: Kind = found.kind
    kept = [
        (at, " ".join(part.question.split()), part.needs)
        for at, part in enumerate(found.parts, 1)
        if part.question.strip() and not drifted(part.question, message)
    ]
    texts = [text for _, text, _ in kept]
    if len(kept) < 2 or len(kept) > MOST_PARTS or len(set(texts)) < len(texts) or len(kept) < len(found.parts):
        kept, texts = [], [reworded]
    places = {number: at for at, (number, _, _) in enumerate(kept)}
    needs = tuple(
        tuple(sorted({places[need] for need in wanted if places.get(need, at) < at}))
        for at, (_, _, wanted) in enumerate(kept)
    )
    readings = tuple(dict.fromkeys(" ".join(text.split()) for text in found.readings if text.strip()))[:MOST_READINGS]
    return Understanding(
        kind=kind,
        standalone=reworded == message,
        rewrite=reworded,
        sub_questions=tuple(texts),
        wants_procedure=rules.wants_procedure if found.procedure is None else found.procedure,
        needs=needs if any(needs) else (),
        underspecified=len(readings) > 1,
        readings=readings if len(readings) > 1 else (),
    )
