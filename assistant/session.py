"""A conversation that is kept: what happened in it, one event after the other, and what stands after them all.

Events only ever add to what was: an answer that was taken back stays in the file, and a correction stands beside the
answer that it corrects. `Conversation` folds them into the exchanges that count. `turnmark.assistant.session_files`
keeps them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from turnmark.assistant.steps.marks import cited
from turnmark.assistant.steps.outline import same_words
from turnmark.assistant.types import Citation, Event, Reply, RevisedAnswer
from turnmark.corpora.console import inert, valid_text
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Passage, Record

FORMAT = 1
RATINGS = ("good", "neutral", "bad")
Rating = Literal["good", "neutral", "bad"]


def now() -> str:
    """The time in UTC, to the second (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _known(value: Any) -> Any:
    # A file of a later version may say more of a reply than this one knows.
    return {key: item for key, item in value.items() if key in Reply.model_fields} if isinstance(value, dict) else value


KeptReply = Annotated[Reply, BeforeValidator(_known)]


class Swapped(Record):
    """The parts from here on."""

    event: Literal["swapped"] = "swapped"
    index: str
    generator: str
    retriever: str | None = None
    steps: tuple[str, ...] = ()


class Began(Record):
    """The conversation begins, over these parts."""

    event: Literal["began"] = "began"
    format: int = FORMAT
    at: str = Field(default_factory=now)
    index: str
    generator: str
    retriever: str | None = Field(default=None, description="None: the default for the index")
    steps: tuple[str, ...] = Field(default=(), description="`STEP=FORM`, where a step has another form than by default")

    @classmethod
    def of(cls, parts: Swapped) -> Began:
        """A conversation that begins over these parts."""
        return cls(index=parts.index, generator=parts.generator, retriever=parts.retriever, steps=parts.steps)


class Changed(Record):
    """A setting from here on."""

    event: Literal["changed"] = "changed"
    setting: str
    value: int | float | str | bool


class Turned(Record):
    """A message and its reply."""

    event: Literal["turn"] = "turn"
    turn: int = Field(description="counts every turn of the session, from 1; never used again after it is taken back")
    at: str = Field(default_factory=now)
    kind: Literal["ask", "revise"] = "ask"
    question: str
    reply: KeptReply
    events: tuple[Event, ...] = ()


class Again(Record):
    """Another reply to the same message; it replaces the one before."""

    event: Literal["again"] = "again"
    turn: int
    at: str = Field(default_factory=now)
    why: Literal["retry", "evidence"]
    reply: KeptReply
    events: tuple[Event, ...] = ()


class Undone(Record):
    """A turn was taken back."""

    event: Literal["undo"] = "undo"
    turn: int


class Rated(Record):
    """The person's verdict on a reply."""

    event: Literal["rate"] = "rate"
    turn: int
    rating: Rating
    comment: str = ""


class Edited(Record):
    """The person's own version of a reply. `score`: how much of the original it keeps; None: nothing measured it."""

    event: Literal["edit"] = "edit"
    turn: int
    text: str
    metric: str = ""
    score: float | None = None


class Labelled(Record):
    """What the person says of passages: id -> relevant or not; and these passages."""

    event: Literal["label"] = "label"
    turn: int
    labels: Mapping[str, bool]
    passages: tuple[Citation, ...] = ()


class Named(Record):
    """The session got a name."""

    event: Literal["name"] = "name"
    name: str


SessionEvent = Annotated[
    Began | Swapped | Changed | Turned | Again | Undone | Rated | Edited | Labelled | Named,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)


class Exchange(Record):
    """A message, the reply that stands now, and what the person said of it."""

    turn: int
    at: str
    kind: Literal["ask", "revise"]
    question: str
    reply: Reply
    events: tuple[Event, ...] = ()
    index: str
    generator: str
    retriever: str | None = None
    rating: Rating | None = None
    comment: str = ""
    edit: str | None = None
    metric: str = ""
    score: float | None = None
    labels: Mapping[str, bool] = Field(default_factory=dict, description="passage id -> relevant")
    seen: tuple[Citation, ...] = Field(default=(), description="every passage that was shown or labelled")

    @property
    def said(self) -> str:
        """What the assistant said, steps and all: the person's version where there is one; without marks."""
        return strip_citations(self.edit if self.edit is not None else self.reply.whole)

    @property
    def approved(self) -> str | None:
        """The answer that the person stands behind: an edit, or a reply rated good; without marks. Else None."""
        if self.edit is not None:
            return strip_citations(self.edit).strip() or None
        return strip_citations(self.reply.whole).strip() if self.rating == "good" else None

    @property
    def touched(self) -> bool:
        """Whether the person rated, edited or labelled."""
        return bool(self.rating or self.edit is not None or self.labels)


_STEPS_HEADING = re.compile(r"^\W*Steps\W*$", re.MULTILINE)


def says_same(streamed: str, reply: Reply) -> bool:
    """Whether what was told of a reply as it came has its words; marks, numbers of items and layout aside."""
    return same_words(_STEPS_HEADING.sub("", streamed), reply.whole)


def sources_used(reply: Reply) -> list[Citation]:
    """The citations that the answer or a step of it refers to, by number."""
    used = set(cited(reply.answer)) | {n for step in reply.procedure for n in step.citations}
    return [citation for citation in reply.citations if citation.n in used]


def where(citation: Citation) -> str:
    """Title, path and page of a source, in one line."""
    place = citation.path or citation.document
    page = f", page {citation.page}" if citation.page else ""
    return inert(f"{citation.title} — {place}{page}")


def passage_of(citation: Citation) -> Passage:
    """The passage that a source shows."""
    return Passage(**citation.model_dump(include=set(Passage.model_fields)))


def messages(exchanges: Iterable[Exchange]) -> list[Message]:
    """What was asked and answered, oldest first.

    A revised answer stands in the place of the one before it, and the instruction is no message: what comes after is
    about the question; it knows what it said before. A revision that was rated bad and not edited is left out, so that
    the answer before it stands (KIWI section 2.2).
    """
    turns: list[Message] = []
    earlier: tuple[str, ...] = ()
    for exchange in exchanges:
        if exchange.kind == "revise" and turns:
            if exchange.rating == "bad" and exchange.edit is None:
                continue
            earlier += (turns.pop().content,)
            turns.append(RevisedAnswer(role="assistant", content=exchange.said, before=earlier))
            continue
        earlier = ()
        turns.append(Message(role="user", content=exchange.question))
        turns.append(Message(role="assistant", content=exchange.said))
    return turns


class Conversation:
    """What stands after a session's events."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.name = ""
        self.parts = Swapped(index="", generator="extractive")
        """What answers now."""
        self.settings: dict[str, int | float | str | bool] = {}
        self.turns = 0

    @property
    def last(self) -> Exchange | None:
        """The exchange that commands are about."""
        return self.exchanges[-1] if self.exchanges else None

    def history(self, place: int | None = None) -> list[Message]:
        """The messages, oldest first; of the exchanges before place `place`, where that is given."""
        return messages(self.exchanges[:place])

    def apply(self, event: SessionEvent) -> None:
        """Take in one event. One about a turn that is not there changes nothing.

        Raises:
            ValueError: the session is of a later format.
        """
        match event:
            case Began() | Swapped():
                if isinstance(event, Began) and event.format > FORMAT:
                    raise ValueError(f"format {event.format}; this version reads up to {FORMAT}")
                self.parts = Swapped(
                    index=event.index, generator=event.generator, retriever=event.retriever, steps=event.steps
                )
            case Changed():
                self.settings[event.setting] = event.value
            case Named():
                self.name = event.name
            case Turned():
                self.turns = max(self.turns, event.turn)
                self.exchanges.append(self._exchange(event))
            case Undone():
                self.exchanges = [exchange for exchange in self.exchanges if exchange.turn != event.turn]
            case _:
                self._about(event)

    def _exchange(self, event: Turned) -> Exchange:
        return Exchange(
            turn=event.turn, at=event.at, kind=event.kind, question=event.question, reply=event.reply,
            events=event.events, index=self.parts.index, generator=self.parts.generator, retriever=self.parts.retriever,
            seen=event.reply.citations,
        )  # fmt: skip

    def _about(self, event: Again | Rated | Edited | Labelled) -> None:
        """An event about one turn."""
        for place, exchange in enumerate(self.exchanges):
            if exchange.turn == event.turn:
                self.exchanges[place] = exchange.model_copy(update=self._update(exchange, event))

    def _update(self, exchange: Exchange, event: Again | Rated | Edited | Labelled) -> dict[str, Any]:
        match event:
            case Again():
                # What was said of the old answer is not said of the new one; what was said of passages holds.
                return {
                    "reply": event.reply, "events": event.events, "rating": None, "comment": "", "edit": None,
                    "metric": "", "score": None, "index": self.parts.index, "generator": self.parts.generator,
                    "retriever": self.parts.retriever, "seen": _joined(exchange.seen, event.reply.citations),
                }  # fmt: skip
            case Rated():
                return {"rating": event.rating, "comment": event.comment}
            case Edited():
                return {"edit": event.text, "metric": event.metric, "score": event.score}
            case Labelled():
                labels = {**exchange.labels, **event.labels}
                return {"labels": labels, "seen": _joined(exchange.seen, event.passages)}


def _joined(older: tuple[Citation, ...], newer: tuple[Citation, ...]) -> tuple[Citation, ...]:
    return tuple({citation.id: citation for citation in (*newer, *older)}.values())


def storable(value: Any) -> Any:
    """A value as JSON can hold it: no NaN, no half surrogate pairs, and what it does not know as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return valid_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {valid_text(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [storable(item) for item in value]
    return valid_text(str(value))
