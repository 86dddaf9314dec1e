"""The query mode that asks a language model: `minimal` (MTRAG section 5.2 and appendix C.1).

The raw message is always searched too, and a rewrite that does not come in time is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from turnmark.assistant.budget import fit_prompt
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import Messages, load_prompt
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.llm import has_drifted
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message, Record

SECONDS = 20.0
"""For the rewrite of one message."""
MINIMAL = "minimal"


class Rewrites(Record):
    """What came of asking for a rewrite."""

    variants: Mapping[str, str] = Field(default_factory=dict, description="name -> text, on one line, never empty")
    left_out: Mapping[str, str] = Field(
        default_factory=dict,
        description="name -> why it did not come: a `FailureKind`, `too_long`, `drifted` or `empty`",
    )
    usage: Usage = Usage()
    notes: tuple[str, ...] = Field(default=(), description="for the person: what went wrong, or was left out")


@dataclass(frozen=True)
class Mode:
    """A query mode by name in `MODES`.

    Attributes:
        make: asks for the rewrite of a message after its history; a folder may hold other prompts.
        prompts: names of those it asks with.
    """

    make: Callable[[Generator, Sequence[Message], str, Path | None], Rewrites]
    prompts: tuple[str, ...]


def _read_class(value: object) -> object:
    """`standalone` or `non-standalone`, however a model spells it; what is neither is left to be refused."""
    if isinstance(value, str):
        letters = re.sub(r"[^a-z]", "", value.lower())
        return {"standalone": "standalone", "nonstandalone": "non-standalone"}.get(letters, value)
    return value


class RewriteReply(BaseModel):
    """The object of MTRAG's protocol (appendix C.1): the class of a message, and the message reworded."""

    kind: Annotated[Literal["standalone", "non-standalone"], BeforeValidator(_read_class)] = Field(
        validation_alias="class"
    )
    reworded: str = Field(validation_alias=AliasChoices("reworded_version", "reworded version"))


def minimal(generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None) -> Rewrites:
    """The message reworded so that it needs no conversation. No call without earlier turns, or if nothing is asked."""
    if not history or is_conversational(message):
        return Rewrites()
    request = rewrite_prompt(generator, history, message, prompts)
    if request is None:
        return _without("too_long", "too long to be reworded")
    prompt, left_out = request
    reply, usage = ask(generator, prompt, RewriteReply)
    if isinstance(reply, Failure):
        reason = f"no rewrite came ({reply.kind.replace('_', ' ')}: {reply.reason})"
        return _without(reply.kind, reason, usage)
    reworded = " ".join(reply.reworded.split())
    if reply.kind == "non-standalone" and not reworded:
        return _without("empty", "the model's rewrite was empty", usage)
    if reply.kind == "non-standalone" and has_drifted(reworded, message):
        return _without("drifted", "the model's rewrite was far longer than the question", usage)
    changed = reply.kind == "non-standalone" and reworded != message
    notes = tuple(f"{MINIMAL}: {note}: the model's context is full" for note in left_out)
    return Rewrites(variants={MINIMAL: reworded} if changed else {}, usage=usage, notes=notes)


def _without(failure: str, reason: str, usage: Usage | None = None) -> Rewrites:
    note = f"{MINIMAL}: searched as typed: {reason}"
    return Rewrites(left_out={MINIMAL: failure}, usage=usage or Usage(), notes=(note,))


def rewrite_prompt(
    generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None
) -> tuple[Messages, tuple[str, ...]] | None:
    """The messages that ask for another wording, and which earlier turns were left out, if any.

    None if the message leaves no room for the reply.
    """
    # Room for a reply that is cut once and asked for again, and for one repair.
    room = generator.context_tokens - 3 * STRUCTURED_TOKENS
    fitted = fit_prompt(load_prompt("rewrite", prompts), room, {}, (), history, {"message": message}, message)
    return None if fitted is None else (fitted.messages, fitted.notes)


MODES: Mapping[str, Mode] = {MINIMAL: Mode(minimal, ("rewrite",))}
"""The query modes that ask a language model, by name."""
