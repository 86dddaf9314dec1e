"""The query mode that asks a language model: `minimal`, the turn's own rewrite (MTRAG section 5.2 and appendix C.1).

The raw message is always searched too, and a rewrite that does not come in time is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps import llm
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message, Record

SECONDS = 20.0
"""For the rewrite of one message."""
MINIMAL = "minimal"


class Rewrites(Record):
    """What came of asking for a rewrite."""

    variants: Mapping[str, str] = Field(default_factory=dict, description="name -> text, on one line, never empty")
    left_out: Mapping[str, str] = Field(
        default_factory=dict, description="name -> in a word why it did not come: `timeout`, `invalid`, `drifted` …"
    )
    usage: Usage = Usage()
    notes: tuple[str, ...] = Field(default=(), description="for the person: what went wrong, or was left out")


@dataclass(frozen=True)
class Mode:
    """A query mode by name in `MODES`.

    Attributes:
        make: asks for the rewrite of a message after its history; prompts of one's own are in the folder.
        prompts: names of those it asks with.
    """

    make: Callable[[Generator, Sequence[Message], str, Path | None], Rewrites]
    prompts: tuple[str, ...]


def minimal(generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None) -> Rewrites:
    """The turn's own rewrite. No call if there are no earlier turns, or if nothing is asked."""
    if not history or is_conversational(message):
        return Rewrites()
    rewritten = llm.rewrite(generator, history, message, prompts)
    note = rewritten.note or ("searched as typed: the model's rewrite was empty" if rewritten.failure else None)
    return Rewrites(
        variants={} if rewritten.rewrite == message else {MINIMAL: rewritten.rewrite},
        left_out={MINIMAL: rewritten.failure} if rewritten.failure else {},
        usage=rewritten.usage,
        notes=(f"{MINIMAL}: {note}",) if note else (),
    )


MODES: Mapping[str, Mode] = {MINIMAL: Mode(minimal, ("rewrite",))}
"""The query modes that ask a language model, by name."""
