"""Label files: conversations, and what a right reply to each turn must contain."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from turnmark.core.errors import RequestError
from turnmark.core.record import Record

Kind = Literal["answer", "compound", "steps", "unknown", "revise", "courtesy"]
Half = Literal["tuning", "test"]
KINDS: tuple[Kind, ...] = ("answer", "compound", "steps", "unknown", "revise", "courtesy")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]


class LabelledTurn(Record):
    """A message and the conditions for its reply. Patterns ignore case and citation marks."""

    say: str = Field(min_length=1, description="what the user types")
    kind: Kind
    facts: tuple[Pattern, ...] = Field(default=(), description="patterns that must all match in the reply")
    wrong: tuple[Pattern, ...] = Field(default=(), description="patterns that must not match")
    lines: bool = Field(default=False, description="patterns see the lines of the reply; else all of it as one line")
    list: bool = Field(default=False, description="the reply must be a list")
    max_words: int | None = Field(default=None, ge=1)
    shorter: bool = Field(default=False, description="fewer words than the reply before")
    source: str = Field(default="", description="the evidence in the documents")

    @model_validator(mode="after")
    def _says_what_is_right(self) -> LabelledTurn:
        if self.kind in ("answer", "compound", "steps") and not self.facts:
            raise ValueError(f"a turn of kind {self.kind} needs facts")
        if self.kind in ("unknown", "courtesy") and self.facts:
            raise ValueError(f"a turn of kind {self.kind} takes no facts: its decision is what counts")
        if self.kind == "revise" and not (self.facts or self.wrong or self.list or self.max_words or self.shorter):
            raise ValueError("a turn of kind revise needs one of facts, wrong, list, max_words, shorter")
        return self


class LabelledConversation(Record):
    """Turns that one user types one after another."""

    id: str = Field(min_length=1)
    half: Half
    turn: tuple[LabelledTurn, ...]


class _LabelFile(Record):
    conversation: tuple[LabelledConversation, ...]


def read_labels(path: Path) -> tuple[LabelledConversation, ...]:
    """Read the conversations of a label file: our TOML, or the JSON of the project's data (see its README)."""
    try:
        text = path.read_text(encoding="utf-8")
        content = {"conversation": _suite(json.loads(text))} if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RequestError(f"label file {path}: {error!r}") from error
    try:
        conversations = _LabelFile.model_validate(content).conversation
    except ValidationError as error:
        problems = [f"{path.name}: {_address(one['loc'], content)}: {one['msg']}" for one in error.errors()]
        raise RequestError(problems) from error
    ids = [conversation.id for conversation in conversations]
    if repeated := sorted({name for name in ids if ids.count(name) > 1}):
        raise RequestError(f"{path.name}: conversation ids that occur twice: {', '.join(repeated)}")
    return conversations


def _suite(conversations: Any) -> list[dict[str, Any]]:
    """Convert a JSON suite to our fields. Its 1st, 3rd, 5th … conversations are for tuning, the others for testing."""
    return [
        {"id": one["id"], "half": ("tuning", "test")[at % 2], "turn": [_suite_turn(turn) for turn in one["turns"]]}
        for at, one in enumerate(conversations)
    ]


def _suite_turn(turn: Any) -> dict[str, Any]:
    source = ": ".join(filter(None, (turn["page"], turn["note"])))
    patterns = {"facts": turn["must"], "wrong": turn["must_not"], "lines": True}
    return {"say": turn["q"], "kind": turn["kind"], "source": source, **patterns}


def _address(location: tuple[str | int, ...], content: Any) -> str:
    """Format a location such as `conversation.3.turn.0.kind`, with the conversation's id if it has one."""
    address = ".".join(map(str, location))
    try:
        return f"{address} ({content['conversation'][location[1]]['id']})"
    except (KeyError, IndexError, TypeError):
        return address
