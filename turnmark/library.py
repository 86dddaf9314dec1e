"""The objects of the Python API: an index of documents, an assistant over it, a conversation with the assistant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from turnmark.assistant import open as opening
from turnmark.assistant.config import DEFAULT_TOKENS, AssistantConfig
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.stopping import Stop, stream_turn
from turnmark.assistant.session import Began, Conversation, Turned
from turnmark.assistant.types import Event, Reply
from turnmark.core.errors import RequestError
from turnmark.core.home import quiet_libraries
from turnmark.corpora.types import Message, Passage, Problem
from turnmark.retrieval import index as stored
from turnmark.retrieval.build import build_index
from turnmark.retrieval.joint import join_indexes, open_indexes
from turnmark.retrieval.registry import default_retriever, open_retriever, retriever_to_build
from turnmark.retrieval.types import Hit, Query, Retriever

quiet_libraries()


class Index:
    """A finished index; made by `Index.build` or `Index.open`.

    Attributes:
        stored: the index on disk, with its manifest and its components.
        problems: what `build` skipped in the source, and where; empty after `open`.
        unread: the number of files of types that are not read, by suffix.
    """

    def __init__(self, index: stored.Index, problems: Sequence[Problem] = ()) -> None:
        self.stored = index
        self.problems = tuple(problems)
        self.unread = dict(index.manifest.unread)
        self._retrievers: dict[str, Retriever] = {}

    @classmethod
    def build(
        cls,
        source: str | Path,
        name: str,
        *,
        retriever: str | None = None,
        embedder: str = "minilm",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Index:
        """Build an index, continue an interrupted build, or bring an index up to date with its source.

        Args:
            source: a folder, one file, or a BEIR corpus.jsonl; `~` is the home folder.
            name: the index's name.
            retriever: spec of the retriever to build for; `bm25` needs no model. None: as `turnmark index build`.
            embedder: `minilm`, or `sentence-transformers:MODEL`.
            include, exclude: globs for paths relative to the source.
        """
        path = Path(source).expanduser()
        spec = retriever or retriever_to_build()
        report = build_index(path, name, retriever=spec, embedder=embedder, include=include, exclude=exclude)
        return cls(stored.open_index(name), report.problems)

    @classmethod
    def open(cls, *names: str) -> Index:
        """Open a finished index, or several that are searched together."""
        return cls(open_indexes(",".join(names)))

    @property
    def name(self) -> str:
        """The name the index was built under; of several that are searched together, the names with commas."""
        return self.stored.manifest.name

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.stored.manifest.passages

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages in the order of their row numbers."""
        for page in self.stored.store.pages():
            yield from (passage.as_stored() for _, _, passage in page)

    def __repr__(self) -> str:
        manifest = self.stored.manifest
        return f"Index({manifest.name!r}, {manifest.documents} documents, {manifest.passages} passages)"

    def search(
        self, query: str, k: int = 10, *, retriever: str | None = None, where: Mapping[str, str] | None = None
    ) -> list[Hit]:
        """Return the `k` best passages for a query, best first.

        Args:
            retriever: a retriever spec; None: the default for this index.
            where: metadata key -> glob that the passage's value must match.
        """
        spec = retriever or default_retriever(self.stored)
        if spec not in self._retrievers:
            self._retrievers[spec] = open_retriever(spec, self.stored)
        (hits,) = self._retrievers[spec].search([Query(text=query, where=where or {})], k)
        return [hit.model_copy(update={"passage": hit.passage.as_stored()}) for hit in hits]


def _joined(index: Index | str | Sequence[Index | str]) -> Index | str:
    """Return one index, or several as one."""
    if isinstance(index, (Index, str)):
        return index
    opened = [each if isinstance(each, Index) else Index.open(each) for each in index]
    if not opened:
        raise RequestError("no index is given; name one, or several")
    return Index(join_indexes([each.stored for each in opened]))


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
            index=index.stored if isinstance(index, Index) else None,
            generator=None if isinstance(generator, str) else generator,
            retriever=None if isinstance(retriever, str) else retriever,
        )
        assert self.opened.index is not None, "open_assistant raises an error for an unknown name"
        self.index = index if isinstance(index, Index) else Index(self.opened.index)
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
        self._conversation.apply(Began(**dict(assistant.config)))

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
        self._conversation.apply(Turned(turn=turn, kind="revise" if revises else "ask", question=message, reply=reply))
        return reply
