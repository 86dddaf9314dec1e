"""An assistant over an index, and conversations with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from turnmark.assistant.assistant import PASSAGES
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.stopping import Stop, streamed
from turnmark.assistant.open import open_parts
from turnmark.assistant.session import Began, Conversation, Turned
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.home import quiet_libraries
from turnmark.corpora.types import Message
from turnmark.documents import Index
from turnmark.retrieval.types import Retriever

quiet_libraries()


class Assistant:
    """Answers questions from the documents of an index.

    Args:
        index: an index, or the name of one.
        generator: a generator spec, or a generator of your own; `extractive` needs no language model.
        retriever: a retriever spec, or a retriever of your own; None: the default for the index.
        passages: the number of passages that a question, or a part of one, is answered from.
        steps: step -> form, where a step takes another form than by default, such as {"decide": "llm"}.

    Raises:
        TurnmarkError: the index or a spec is wrong.
    """

    def __init__(
        self,
        index: Index | str,
        generator: str | Generator = "extractive",
        retriever: str | Retriever | None = None,
        *,
        passages: int = PASSAGES,
        steps: Mapping[str, str] | None = None,
    ) -> None:
        forms = tuple(f"{step}={form}" for step, form in (steps or {}).items())
        self.opened = open_parts(
            index.stored if isinstance(index, Index) else index, generator, retriever, passages, forms
        )
        self.index = index if isinstance(index, Index) else Index(self.opened.index)
        self.generator, self.retriever, self.steps = generator, retriever, forms

    def __repr__(self) -> str:
        return f"Assistant({self.index!r}, generator={self.opened.generator!r})"

    def reply(
        self, history: Sequence[Message], message: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Reply:
        """One turn over a history that the caller keeps; a `Chat` keeps its own.

        Args:
            history: the turns before, oldest first.
            on_event: called with every event of the turn as it happens.

        Raises:
            TurnmarkError: the language model could not be reached or gave nothing usable.
        """
        return self.opened.assistant.reply(history, message, on_event)

    def chat(self) -> Chat:
        """A new conversation."""
        return Chat(self)


class Chat:
    """A conversation. Nothing is written to disk; use from one thread at a time."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self._conversation = Conversation()
        self._conversation.apply(Began(index=assistant.index.name, generator=assistant.opened.generator))

    @property
    def history(self) -> list[Message]:
        """The messages so far, oldest first. A revised answer stands in the place of the one before it."""
        return self._conversation.history()

    @property
    def replies(self) -> list[Reply]:
        """The reply of each turn, oldest first."""
        return [exchange.reply for exchange in self._conversation.exchanges]

    def ask(self, message: str) -> Reply:
        """The reply to the next message.

        Raises:
            TurnmarkError: there is no reply; the conversation stands as it was before.
        """
        return self._keep(message, self.assistant.reply(self.history, message))

    def stream(self, message: str) -> Iterator[Event]:
        """As `ask`, event by event; the pieces of the answer are the events' `delta`.

        The reply is the last of `replies` when the events have ended. Leaving the loop early ends the turn, and the
        conversation stands as it was before.

        Raises:
            TurnmarkError: there is no reply.
        """
        history = self.history
        for event in streamed(lambda report: self.assistant.reply(history, message, report), Stop()):
            if isinstance(event, Event):
                yield event
            else:
                self._keep(message, event)

    def _keep(self, message: str, reply: Reply) -> Reply:
        understanding = reply.trace.understanding
        revises = understanding is not None and understanding.kind == "revision"
        turn = self._conversation.turns + 1
        self._conversation.apply(Turned(turn=turn, kind="revise" if revises else "ask", question=message, reply=reply))
        return reply
