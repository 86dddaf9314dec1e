"""What a label file holds: conversations, and of every turn what a right reply must contain."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Record

DATA = Path(__file__).parent / "data"

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
    """A message and what its reply is judged by. Patterns ignore case and see one line without citation marks."""

    say: str = Field(min_length=1, description="what the user types")
    kind: Kind
    facts: tuple[Pattern, ...] = Field(default=(), description="patterns that must all match somewhere in the reply")
    wrong: tuple[Pattern, ...] = Field(default=(), description="patterns that must not match")
    list: bool = Field(default=False, description="the reply must be a list or hold steps")
    max_words: int | None = Field(default=None, ge=1)
    shorter: bool = Field(default=False, description="fewer words than the reply before")
    source: str = Field(default="", description="where in the documents the label rests")

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
    """The conversations of a label file.

    Raises:
        RequestError: it cannot be read, or fields of it are wrong: all of them, each with its place.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"label file {path}: {error}") from error
    try:
        conversations = _LabelFile.model_validate(content).conversation
    except ValidationError as error:
        problems = [f"{path.name}: {_place(one['loc'], content)}: {one['msg']}" for one in error.errors()]
        raise RequestError(problems) from error
    ids = [conversation.id for conversation in conversations]
    if repeated := sorted({name for name in ids if ids.count(name) > 1}):
        raise RequestError(f"{path.name}: conversation ids that occur twice: {', '.join(repeated)}")
    if empty := [conversation.id for conversation in conversations if not conversation.turn]:
        raise RequestError(f"{path.name}: conversations without a turn: {', '.join(empty)}")
    return conversations


def _place(location: tuple[str | int, ...], content: object) -> str:
    """`conversation.3.turn.0.kind` with the conversation's id beside its number, where it has one."""
    place = ".".join(map(str, location))
    try:
        return f"{place} ({content['conversation'][location[1]]['id']})"  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return place
