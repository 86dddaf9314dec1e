"""A conversation: its events in order, and the exchanges that result from them.

Events are only appended: an answer that was repeated or edited stays in the file. `Conversation` applies the events to
get the current exchanges; `turnmark.assistant.session_files` stores them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.steps.marks import cited_numbers
from turnmark.assistant.types import Citation, Event, Reply, ToolUse
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index

FORMAT = 1
"""Version of the session format; a file with a higher one is not read."""
Rating = Literal["good", "neutral", "bad"]


def utc_time() -> str:
    """Return the current time in UTC, to the second (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Began(AssistantConfig):
    """Event: the conversation begins, with this assistant."""

    event: Literal["began"] = "began"
    format: int = FORMAT
    at: str = Field(default_factory=utc_time)


class Swapped(AssistantConfig):
    """Event: another assistant answers from here on."""

    event: Literal["swapped"] = "swapped"


class Turned(Record):
    """Event: a message and its reply."""

    event: Literal["turn"] = "turn"
    turn: int = Field(description="counts the turns of the session, from 1")
    at: str = Field(default_factory=utc_time)
    kind: Literal["ask", "revise"] = "ask"
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()


class Again(Record):
    """Event: another reply to the same message, which replaces the reply before."""

    event: Literal["again"] = "again"
    turn: int
    at: str = Field(default_factory=utc_time)
    reply: Reply
    events: tuple[Event, ...] = ()


class Stopped(Record):
    """Event: the person stopped a turn while a model was searching. The message does not join the conversation."""

    event: Literal["stopped"] = "stopped"
    at: str = Field(default_factory=utc_time)
    question: str
    calls: tuple[ToolUse, ...] = Field(description="the tool calls until then")


class TurnRated(Record):
    """Event: the person rates a reply."""

    event: Literal["rate"] = "rate"
    turn: int
    rating: Rating
    comment: str = ""


class Edited(Record):
    """Event: the person's own version of a reply."""

    event: Literal["edit"] = "edit"
    turn: int
    text: str


SessionEvent = Annotated[Began | Swapped | Turned | Again | Stopped | TurnRated | Edited, Field(discriminator="event")]
EVENT: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)


class Exchange(Record):
    """A message with its current reply and the person's rating, comment and edit."""

    turn: int
    at: str
    kind: Literal["ask", "revise"]
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()
    config: AssistantConfig = Field(description="configuration of the assistant that answered")
    rating: Rating | None = None
    comment: str = ""
    edit: str | None = None

    @property
    def answer(self) -> str:
        """The answer, steps included, or the person's version of it; without citation marks."""
        return strip_citations(self.edit if self.edit is not None else self.reply.answer)

    @property
    def approved(self) -> str | None:
        """The answer without citation marks if the person approved it (edited it, or rated it good); else None."""
        if self.edit is None and self.rating != "good":
            return None
        return self.answer.strip() or None


def messages(exchanges: Iterable[Exchange]) -> list[Message]:
    """Return the messages of exchanges, oldest first, answers without citation marks.

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
    """The current state of a conversation, built by applying its events."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.config = AssistantConfig()
        """Configuration of the current assistant."""
        self.stopped: Stopped | None = None
        """The turn that the person stopped after the last exchange."""

    @property
    def last(self) -> Exchange | None:
        """The last exchange, to which commands refer; None before the first."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def turns(self) -> int:
        """The number of the last turn; 0 before the first."""
        return self.last.turn if self.last else 0

    def history(self, end: int | None = None) -> list[Message]:
        """Return the messages, oldest first; with `end`, only those of the first `end` exchanges."""
        return messages(self.exchanges[:end])

    def apply(self, event: SessionEvent) -> None:
        """Apply one event. An event about a turn that does not exist changes nothing.

        Raises ValueError for a session of a newer format.
        """
        if isinstance(event, Turned | Again | Stopped):
            self.stopped = event if isinstance(event, Stopped) else None
        match event:
            case Began() | Swapped():
                if isinstance(event, Began) and event.format > FORMAT:
                    raise ValueError(f"format {event.format}; this version reads up to {FORMAT}")
                self.config = AssistantConfig(**event.model_dump(include=set(AssistantConfig.model_fields)))
            case Turned():
                self.exchanges.append(Exchange(**self._reply_fields(event), kind=event.kind, question=event.question))
            case Again():  # the rating, comment and edit were for the old answer
                self._update(event.turn, {**self._reply_fields(event), "rating": None, "comment": "", "edit": None})
            case TurnRated():
                self._update(event.turn, {"rating": event.rating, "comment": event.comment})
            case Edited():
                self._update(event.turn, {"edit": event.text})

    def _reply_fields(self, event: Turned | Again) -> dict[str, Any]:
        return {
            "turn": event.turn, "at": event.at, "reply": event.reply, "events": event.events, "config": self.config,
        }  # fmt: skip

    def _update(self, turn: int, fields: dict[str, Any]) -> None:
        for position, exchange in enumerate(self.exchanges):
            if exchange.turn == turn:
                self.exchanges[position] = exchange.model_copy(update=fields)


# --- the text and sources of a reply ---------------------------------------------------------------------------------

_LAYOUT = re.compile(r"^\W*Steps\W*$|^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)


def says_same(streamed: str, reply: Reply) -> bool:
    """Return whether a reply has the same words as its streamed text; marks, item numbers and layout do not count."""
    streamed_words = words(_LAYOUT.sub("", strip_citations(streamed)))
    reply_words = words(_LAYOUT.sub("", strip_citations(reply.answer)))
    return streamed_words == reply_words


def sources_used(reply: Reply) -> list[Citation]:
    """Return the citations that the answer or one of its steps refers to, by number."""
    used = set(cited_numbers(reply.answer))
    for step in reply.procedure:
        used.update(step.citations)
    return [citation for citation in reply.citations if citation.n in used]


def link(index: Index | None, citation: Citation) -> str:
    """Return a URL that opens the file of a source, a PDF at its page; "" if the file does not exist."""
    part = index.part(citation.index) if index else None
    file = part.source_file(citation.path) if part else None
    if file is None or file.suffix == ".jsonl":  # a row of a corpus, which has no file to open
        return ""
    page = f"#page={citation.page}" if citation.page and file.suffix.lower() == ".pdf" else ""
    return file.as_uri() + page


_CALLS = {
    "search": ("search", "searches"),
    "read": ("reading", "readings"),
    "grep": ("count", "counts"),
    "outline": ("outline", "outlines"),
    "documents": ("list", "lists"),
}


def calls_line(calls: Iterable[ToolUse]) -> str:
    """Return the number of calls of each tool: `3 searches, 2 readings`; "" if there were none."""
    counts = Counter(call.tool for call in calls)
    named = [(counts[tool], names) for tool, names in _CALLS.items() if counts[tool]]
    return ", ".join(f"{count} {names[count != 1]}" for count, names in named)


def cite(citation: Citation, section: bool = True) -> str:
    """Format a source in one line: title, headings, index, path and page.

    Args:
        section: whether to name the headings above it; False where they are shown already.
    """
    heading = citation.title
    if section and citation.section and not citation.section.startswith(citation.title):
        heading = f"{citation.title} › {citation.section}"
    page = f", page {citation.page}" if citation.page else ""
    index = f"{citation.index}: " if citation.index else ""
    return one_line(f"{heading}, {index}{citation.path or citation.document}{page}")
