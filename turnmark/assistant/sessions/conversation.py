"""A conversation: its events in order, and the exchanges that result from them.

Events are only appended, so an answer that was retried or edited stays in the file. `Conversation` applies the events
to get the current exchanges; `turnmark.assistant.sessions.session_files` stores them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.types import AnswerMessage, Citation, Event, Reply, ToolUse
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.index.index_api import Index

FORMAT = 1
"""Version of the session format; a file with a higher version is refused."""
Rating = Literal["good", "neutral", "bad"]


def utc_time() -> str:
    """Return the current time in UTC, to the second (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class SessionBegan(AssistantConfig):
    """Event: the conversation began with this assistant."""

    event: Literal["began"] = "began"
    format: int = FORMAT
    at: str = Field(default_factory=utc_time)


class AssistantSwapped(AssistantConfig):
    """Event: the user switched to another assistant."""

    event: Literal["swapped"] = "swapped"


class TurnAnswered(Record):
    """Event: a message was answered."""

    event: Literal["turn"] = "turn"
    turn: int = Field(description="number of the turn in the session, from 1")
    at: str = Field(default_factory=utc_time)
    kind: Literal["ask", "revise"] = "ask"
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()


class TurnRetried(Record):
    """Event: the same message was answered again; the new reply replaces the old one."""

    event: Literal["again"] = "again"
    turn: int
    at: str = Field(default_factory=utc_time)
    reply: Reply
    events: tuple[Event, ...] = ()


class TurnInterrupted(Record):
    """Event: the user stopped a turn while a model was searching. The message is not part of the conversation."""

    event: Literal["stopped"] = "stopped"
    at: str = Field(default_factory=utc_time)
    question: str
    calls: tuple[ToolUse, ...] = Field(description="the tool calls up to then")


class TurnRated(Record):
    """Event: the user rated a reply."""

    event: Literal["rate"] = "rate"
    turn: int
    rating: Rating
    comment: str = ""


class TurnEdited(Record):
    """Event: the user replaced a reply with their own version."""

    event: Literal["edit"] = "edit"
    turn: int
    text: str


SessionEvent = Annotated[
    SessionBegan | AssistantSwapped | TurnAnswered | TurnRetried | TurnInterrupted | TurnRated | TurnEdited,
    Field(discriminator="event"),
]
EVENT_ADAPTER: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)


class Exchange(Record):
    """A message with its current reply and the user's rating, comment and edit."""

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
        """The answer with its steps, or the user's version of it; without citation marks."""
        return strip_citations(self.edit if self.edit is not None else self.reply.answer)

    @property
    def approved(self) -> str | None:
        """The answer without citation marks if the user edited it or rated it good; otherwise None."""
        if self.edit is None and self.rating != "good":
            return None
        return self.answer.strip() or None


def messages(exchanges: Iterable[Exchange]) -> list[Message]:
    """Return the messages of exchanges, oldest first; answers have their replies, and no citation marks.

    A revision that was rated bad and not edited is left out: the answer before it is used (KIWI section 2.2).
    """
    turns: list[Message] = []
    for exchange in exchanges:
        if exchange.kind == "revise" and exchange.rating == "bad" and exchange.edit is None:
            continue
        turns.append(Message(role="user", content=exchange.question))
        turns.append(AnswerMessage(content=exchange.answer, reply=exchange.reply))
    return turns


class Conversation:
    """The current state of a conversation, built by applying its events."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.config = AssistantConfig()
        """Configuration of the current assistant."""
        self.stopped: TurnInterrupted | None = None
        """The turn that the user stopped after the last exchange."""

    @property
    def last(self) -> Exchange | None:
        """The last exchange, which commands refer to; None before the first one."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def turns(self) -> int:
        """The number of the last turn; 0 before the first one."""
        return self.last.turn if self.last else 0

    def history(self, end: int | None = None) -> list[Message]:
        """Return the messages, oldest first; with `end`, only those of the first `end` exchanges."""
        return messages(self.exchanges[:end])

    def apply(self, event: SessionEvent) -> None:
        """Apply one event. An event about a turn that does not exist changes nothing.

        Raises ValueError for a session of a newer format.
        """
        if isinstance(event, TurnAnswered | TurnRetried | TurnInterrupted):
            self.stopped = event if isinstance(event, TurnInterrupted) else None
        match event:
            case SessionBegan() | AssistantSwapped():
                if isinstance(event, SessionBegan) and event.format > FORMAT:
                    raise ValueError(f"format {event.format}; this version reads up to {FORMAT}")
                self.config = AssistantConfig(**event.model_dump(include=set(AssistantConfig.model_fields)))
            case TurnAnswered():
                self.exchanges.append(Exchange(**self._reply_fields(event), kind=event.kind, question=event.question))
            case TurnRetried():  # the rating, comment and edit referred to the old answer
                self._update(event.turn, {**self._reply_fields(event), "rating": None, "comment": "", "edit": None})
            case TurnRated():
                self._update(event.turn, {"rating": event.rating, "comment": event.comment})
            case TurnEdited():
                self._update(event.turn, {"edit": event.text})

    def _reply_fields(self, event: TurnAnswered | TurnRetried) -> dict[str, Any]:
        return {
            "turn": event.turn, "at": event.at, "reply": event.reply, "events": event.events, "config": self.config,
        }  # fmt: skip

    def _update(self, turn: int, fields: dict[str, Any]) -> None:
        for position, exchange in enumerate(self.exchanges):
            if exchange.turn == turn:
                self.exchanges[position] = exchange.model_copy(update=fields)


# --- the text and sources of a reply ---------------------------------------------------------------------------------

_LIST_LAYOUT = re.compile(r"^\W*Steps\W*$|^\s*(?:[-*+•]|\d{1,3}[.)])\s", re.MULTILINE)


def has_same_words(streamed: str, reply: Reply) -> bool:
    """Return whether a reply has the same words as its streamed text; marks, item numbers and layout are ignored."""
    streamed_words = words(_LIST_LAYOUT.sub("", strip_citations(streamed)))
    reply_words = words(_LIST_LAYOUT.sub("", strip_citations(reply.answer)))
    return streamed_words == reply_words


def sources_used(reply: Reply) -> list[Citation]:
    """Return the citations that the answer or one of its steps refers to, by number."""
    used = set(cited_numbers(reply.answer)).union(*(step.citations for step in reply.procedure))
    return [citation for citation in reply.citations if citation.n in used]


def source_url(index: Index | None, citation: Citation) -> str:
    """Return a URL that opens the file of a source, a PDF at its page, or "" if the file does not exist."""
    part = index.part(citation.index) if index else None
    file = part.source_file(citation.path) if part else None
    if file is None or file.suffix == ".jsonl":  # a row of a corpus has no file to open
        return ""
    page = f"#page={citation.page}" if citation.page and file.suffix.lower() == ".pdf" else ""
    return file.as_uri() + page


def picture_url(index: Index | None, citation: Citation) -> str:
    """Return a URL that opens the first picture of a source, or "" if there is none."""
    part = index.part(citation.index) if index else None
    if part is None or part.pictures is None or not citation.pictures:
        return ""
    found = part.pictures.find(citation.document, citation.pictures[0].sha256)
    return part.pictures.file_of(found).as_uri() if found else ""


_CALL_NOUNS = {
    "search": ("search", "searches"),
    "read": ("reading", "readings"),
    "grep": ("count", "counts"),
    "outline": ("outline", "outlines"),
    "look": ("look", "looks"),
    "documents": ("list", "lists"),
    "tables": ("list of tables", "lists of tables"),
    "sql": ("computation", "computations"),
}


def calls_line(calls: Iterable[ToolUse]) -> str:
    """Return the number of calls of each tool, e.g. `3 searches, 2 readings`, or "" if there are none."""
    counts = Counter(call.tool for call in calls)
    named = [(counts[tool], names) for tool, names in _CALL_NOUNS.items() if counts[tool]]
    return ", ".join(f"{count} {names[count != 1]}" for count, names in named)


def picture_line(citation: Citation) -> str:
    """Describe in one line the picture that a source describes, and count further ones; empty if there is none."""
    if not citation.pictures:
        return ""
    first, *others = citation.pictures
    caption = f" “{first.caption}”" if first.caption else ""
    page = f" on page {first.page}" if first.page else ""
    more = f"; {len(others)} more" if others else ""
    return one_line(f"picture{caption}{page}, described by {first.model}{more}")


def cite(citation: Citation, section: bool = True) -> str:
    """Format a source in one line: title, headings, index, path and page.

    Args:
        section: whether to name the headings above it; False if they are shown already.
    """
    heading = citation.title
    if section and citation.section and not citation.section.startswith(citation.title):
        heading = f"{citation.title} › {citation.section}"
    page = f", page {citation.page}" if citation.page else ""
    index = f"{citation.index}: " if citation.index else ""
    return one_line(f"{heading}, {index}{citation.path or citation.document}{page}")
