"""A conversation: its events, one after the other, and the exchanges that they come to.

Events only ever add: an answer that was given again or edited stays in the file. `Conversation` folds them into the
exchanges that count; `turnmark.assistant.session_files` keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.steps.marks import cited_numbers
from turnmark.assistant.types import Citation, Event, Reply
from turnmark.core.console import inert
from turnmark.core.record import Record
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index

FORMAT = 1
Rating = Literal["good", "neutral", "bad"]


def utc_time() -> str:
    """The time in UTC, to the second (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Began(AssistantConfig):
    """The conversation begins, with this assistant."""

    event: Literal["began"] = "began"
    format: int = FORMAT
    at: str = Field(default_factory=utc_time)


class Swapped(AssistantConfig):
    """Another assistant from here on."""

    event: Literal["swapped"] = "swapped"


class Turned(Record):
    """A message and its reply."""

    event: Literal["turn"] = "turn"
    turn: int = Field(description="counts the turns of the session, from 1")
    at: str = Field(default_factory=utc_time)
    kind: Literal["ask", "revise"] = "ask"
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()


class Again(Record):
    """Another reply to the same message; it replaces the one before."""

    event: Literal["again"] = "again"
    turn: int
    at: str = Field(default_factory=utc_time)
    reply: Reply
    events: tuple[Event, ...] = ()


class TurnRated(Record):
    """The person's verdict on a reply."""

    event: Literal["rate"] = "rate"
    turn: int
    rating: Rating
    comment: str = ""


class Edited(Record):
    """The person's version of a reply."""

    event: Literal["edit"] = "edit"
    turn: int
    text: str


SessionEvent = Annotated[Began | Swapped | Turned | Again | TurnRated | Edited, Field(discriminator="event")]
EVENT: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)


class Exchange(Record):
    """A message, the reply that counts now, and what the person said of it."""

    turn: int
    at: str
    kind: Literal["ask", "revise"]
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()
    config: AssistantConfig = Field(description="of the assistant that answered")
    rating: Rating | None = None
    comment: str = ""
    edit: str | None = None

    @property
    def answer(self) -> str:
        """What the assistant said, steps included, or the person's version of it; without marks."""
        return strip_citations(self.edit if self.edit is not None else self.reply.answer)

    @property
    def approved(self) -> str | None:
        """The answer that the person approved: an edit, or a reply rated good; without marks. Else None."""
        return self.answer.strip() or None if self.edit is not None or self.rating == "good" else None


def messages(exchanges: Iterable[Exchange]) -> list[Message]:
    """What was asked and answered, oldest first.

    A revision that was rated bad and not edited is left out: the answer before it counts (KIWI section 2.2).
    """
    turns: list[Message] = []
    for exchange in exchanges:
        if exchange.kind == "revise" and exchange.rating == "bad" and exchange.edit is None:
            continue
        turns.append(Message(role="user", content=exchange.question))
        turns.append(Message(role="assistant", content=exchange.answer))
    return turns


class Conversation:
    """What a session's events come to."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.config = AssistantConfig()
        """Of the assistant that answers now."""

    @property
    def last(self) -> Exchange | None:
        """The exchange that commands are about."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def turns(self) -> int:
        """The number of the last turn."""
        return self.last.turn if self.last else 0

    def history(self, end: int | None = None) -> list[Message]:
        """The messages, oldest first; with `end`, those of the first `end` exchanges."""
        return messages(self.exchanges[:end])

    def apply(self, event: SessionEvent) -> None:
        """Take in one event. One about a turn that is not there changes nothing."""
        match event:
            case Began() | Swapped():
                if isinstance(event, Began) and event.format > FORMAT:
                    raise ValueError(f"format {event.format}; this version reads up to {FORMAT}")
                self.config = AssistantConfig(**event.model_dump(include=set(AssistantConfig.model_fields)))
            case Turned():
                self.exchanges.append(Exchange(**self._answered(event), kind=event.kind, question=event.question))
            case Again():  # the person's verdict was on the old answer
                self._update(event.turn, {**self._answered(event), "rating": None, "comment": "", "edit": None})
            case TurnRated():
                self._update(event.turn, {"rating": event.rating, "comment": event.comment})
            case Edited():
                self._update(event.turn, {"edit": event.text})

    def _answered(self, event: Turned | Again) -> dict[str, Any]:
        return {
            "turn": event.turn, "at": event.at, "reply": event.reply, "events": event.events, "config": self.config,
        }  # fmt: skip

    def _update(self, turn: int, fields: dict[str, Any]) -> None:
        self.exchanges = [
            exchange.model_copy(update=fields) if exchange.turn == turn else exchange for exchange in self.exchanges
        ]


# --- what a reply shows ----------------------------------------------------------------------------------------------

_LAYOUT = re.compile(r"^\W*Steps\W*$|^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)


def says_same(streamed: str, reply: Reply) -> bool:
    """Whether a reply has the words that were streamed of it; marks, numbers of items and layout aside."""
    first, second = (words(_LAYOUT.sub("", strip_citations(text))) for text in (streamed, reply.answer))
    return first == second


def sources_used(reply: Reply) -> list[Citation]:
    """The citations that the answer or a step of it refers to, by number."""
    used = set(cited_numbers(reply.answer)) | {n for step in reply.procedure for n in step.citations}
    return [citation for citation in reply.citations if citation.n in used]


def link(index: Index | None, citation: Citation) -> str:
    """A URL that opens the file of a source, a PDF at the page; "" if the file is not there."""
    file = index.source_file(citation.path) if index else None
    if file is None or file.suffix == ".jsonl":  # a row of a corpus is no place to open
        return ""
    page = f"#page={citation.page}" if citation.page and file.suffix.lower() == ".pdf" else ""
    return file.as_uri() + page


def cite(citation: Citation, section: bool = True) -> str:
    """A source in one line: title, headings, path and page.

    Args:
        section: with the headings above it; False: they are shown already.
    """
    with_section = section and citation.section and not citation.section.startswith(citation.title)
    heading = f"{citation.title} › {citation.section}" if with_section else citation.title
    page = f", page {citation.page}" if citation.page else ""
    return inert(f"{heading}, {citation.path or citation.document}{page}")
