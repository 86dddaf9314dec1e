"""The assistant of the Python API, and a conversation with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from turnmark.assistant import open as opening
from turnmark.assistant.config import DEFAULT_TOKENS, AssistantConfig
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.stopping import Stop, stream_turn
from turnmark.assistant.session import Conversation, SessionBegan, TurnAnswered
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index
from turnmark.retrieval.types import Retriever


def _joined(index: Index | str | Sequence[Index | str]) -> Index | str:
    """Return one index, or several as one."""
    if isinstance(index, (Index, str)):
        return index
    return Index.join([each if isinstance(each, Index) else Index.open(each) for each in index])


class Assistant:
    """Answers questions from the documents of an index.

    Args:
        index: an index, or the name of one; or several, which are searched together.
        generator: a generator spec, or a generator of your own; `extractive` needs no language model.
        retriever: a retriever spec, or a retriever of your own; None: the default for the index.
        top_k: how many passages are retrieved for each part of a question; None: 10 for a large model, else 6.
        tokens: about how many tokens of sections a large model reads.
        prompts: a folder with prompts that replace the built-in ones.
        steps: step -> form, for each step that shall not use its default form, such as {"decide": "llm"}.

    Attributes:
        config: the arguments as one record; `turnmark ask`, `chat`, `serve` and `eval` make it from their options.
    """

    def __init__(
        self,
        index: Index | str | Sequence[Index | str],
        generator: str | Generator = "extractive",
        retriever: str | Retriever | None = None,
        *,
        top_k: int | None = None,
        tokens: int = DEFAULT_TOKENS,
        prompts: str | Path | None = None,
        steps: Mapping[str, str] | None = None,
    ) -> None:
        index = _joined(index)
        config = AssistantConfig(
            index=index.name if isinstance(index, Index) else index,
            generator=generator if isinstance(generator, str) else generator.name,
            retriever=retriever if retriever is None or isinstance(retriever, str) else retriever.name,
            top_k=top_k,
            tokens=tokens,
            prompts=None if prompts is None else Path(prompts).expanduser(),
            steps=tuple(f"{step}={form}" for step, form in (steps or {}).items()),
        )
        self.opened = opening.open_assistant(
            config,
            index=index if isinstance(index, Index) else None,
            generator=None if isinstance(generator, str) else generator,
            retriever=None if isinstance(retriever, str) else retriever,
        )
        assert self.opened.index is not None, "open_assistant raises an error for an unknown name"
        self.index = self.opened.index
        objects: list[str] = []
        if not isinstance(generator, str):
            objects.append("generator")
        if retriever is not None and not isinstance(retriever, str):
            objects.append("retriever")
        self.objects = tuple(objects)
        """Roles that were given as an object and not as a spec: `generator`, `retriever`."""

    @classmethod
    def from_config(cls, config: AssistantConfig) -> Assistant:
        """Open the assistant that a configuration describes, such as the one in a session or in a run's manifest."""
        steps = dict(step.split("=", 1) for step in config.steps)
        fields = config.model_dump(include={"index", "generator", "retriever", "top_k", "tokens", "prompts"})
        return cls(**fields, steps=steps)

    @property
    def config(self) -> AssistantConfig:
        """The configuration that the assistant was opened with."""
        return self.opened.config

    def __repr__(self) -> str:
        return f"Assistant({self.index!r}, generator={self.config.generator!r})"

    def reply(
        self, history: Sequence[Message], message: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Reply:
        """Return the reply to a message, after a history that the caller keeps. A `Chat` keeps the history itself.

        Args:
            history: the earlier messages, oldest first.
            on_event: called with every event of the turn as it happens.
        """
        return self.opened.reply(history, message, on_event)

    def chat(self) -> Chat:
        """Start a new conversation."""
        return Chat(self)


class Chat:
    """A conversation with an assistant. Nothing is written to disk. Use it from one thread at a time."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self._conversation = Conversation()
        self._conversation.apply(SessionBegan(**dict(assistant.config)))

    @property
    def history(self) -> list[Message]:
        """The messages so far, oldest first. A revised answer replaces the one before it."""
        return self._conversation.history()

    @property
    def replies(self) -> list[Reply]:
        """The reply of each turn, oldest first."""
        return [exchange.reply for exchange in self._conversation.exchanges]

    def ask(self, message: str) -> Reply:
        """Send the next message and return the reply."""
        return self._keep(message, self.assistant.reply(self.history, message))

    def stream(self, message: str) -> Iterator[Event]:
        """Send the next message and yield the turn's events; the `delta` of each event is the next piece of the answer.

        After the last event the reply is at the end of `replies`. Leaving the loop early ends the turn and leaves the
        conversation unchanged.
        """
        history = self.history
        for event in stream_turn(lambda report: self.assistant.reply(history, message, report), Stop()):
            if isinstance(event, Event):
                yield event
            else:
                self._keep(message, event)

    def _keep(self, message: str, reply: Reply) -> Reply:
        understanding = reply.trace.understanding
        revises = understanding is not None and understanding.kind == "revision"
        turn = self._conversation.turns + 1
        self._conversation.apply(
            TurnAnswered(turn=turn, kind="revise" if revises else "ask", question=message, reply=reply)
        )
        return reply
