"""The assistant, which runs the steps of one turn of a conversation over documents, and a conversation with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from turnmark.assistant.config import (
    EXTRACTIVE_SPEC,
    MAX_HISTORY_MESSAGES,
    AssistantConfig,
)
from turnmark.assistant.llm.calls.cancellation import Stop, stop_context, stream_turn
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.reply_normalizer import normalize_replies
from turnmark.assistant.llm.calls.tracing import tracing_to
from turnmark.assistant.sessions.conversation import Conversation, SessionBegan, TurnAnswered
from turnmark.assistant.steps.retrieve.retrieve_sections import drop_repeats, hits_of_parts
from turnmark.assistant.steps.step_results import Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn, rare_languages
from turnmark.assistant.steps.understand.courtesy import Courtesy
from turnmark.assistant.turn.components import AssistantParts, open_parts
from turnmark.assistant.turn.replies import reply_of
from turnmark.assistant.turn.step_forms import calls_tools, forms_for, open_steps, profile_of
from turnmark.assistant.turn.unread_files import unread_file_note
from turnmark.assistant.types import Event, Reply, Search, Understanding, Usage
from turnmark.core.errors import ErrorCollector
from turnmark.corpora.types import Message
from turnmark.retrieval.embedding.choose_embedder import advice_for_question
from turnmark.retrieval.embedding.vector_cache import cache_by_text
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.filtered_retriever import FilteredRetriever
from turnmark.retrieval.storage.filters import parse_where
from turnmark.retrieval.types import DEFAULT_TOP_K, LARGE_MODEL_TOP_K, Hit, Retriever


@dataclass(frozen=True)
class Findings:
    """What the understand and retrieve steps of a turn found, without an answer.

    Attributes:
        hits: hits of the message, best first; for a compound message the hits of its parts follow, taking one of each
            part in turn.
        fallback: why the understand step fell back to rules, or "" if it did not.
    """

    understanding: Understanding
    searches: tuple[Search, ...]
    hits: tuple[Hit, ...]
    usage: Mapping[str, Usage]
    timings: Mapping[str, float]
    notes: tuple[str, ...]
    fallback: str


class Assistant:
    """An assistant that answers messages from the documents of an index.

    It keeps no conversation: `reply` is passed the messages so far, and a `Chat` keeps them.

    Args:
        index: an index or its name, or several of them, which are searched together.
        generator: a generator spec, or a generator of your own; `extractive` needs no language model.
        retriever: a retriever spec, or a retriever of your own. By default, the retriever that the index was built for.
        settings: further fields of `AssistantConfig`, e.g. `top_k=5` or `steps={"decide": "llm"}`.

    Attributes:
        config: all settings as one record, an `AssistantConfig`.
        objects: roles that were given as an object and not as a spec: `generator`, `retriever`.
    """

    def __init__(
        self,
        index: Index | str | Sequence[Index | str],
        generator: str | Generator = EXTRACTIVE_SPEC,
        retriever: str | Retriever | None = None,
        **settings: Any,
    ) -> None:
        errors = ErrorCollector()
        given = AssistantParts(
            index=None if isinstance(index, str) else errors.collect(_join, index),
            generator=None if isinstance(generator, str) else generator,
            retriever=None if isinstance(retriever, str) else retriever,
        )
        names = {
            "index": index if isinstance(index, str) else given.index.name if given.index else "",
            "generator": generator if isinstance(generator, str) else generator.name,
            "retriever": given.retriever.name if given.retriever else retriever,
        }
        config = AssistantConfig.build({**settings, **names}, errors)
        if not config.index and not errors.problems:
            errors.add("no index is given; name one, or several")
        self._assemble(*open_parts(config, given, errors))
        self.objects: tuple[str, ...] = tuple(
            role for role in ("generator", "retriever") if getattr(given, role) is not None
        )

    @classmethod
    def from_config(
        cls,
        config: AssistantConfig,
        *,
        index: Index | None = None,
        generator: Generator | None = None,
        retriever: Retriever | None = None,
    ) -> Assistant:
        """Open the assistant that a configuration describes, such as the one in a session or in a run's manifest.

        Args:
            index, generator, retriever: opened parts to use in place of those that the configuration names.

        Raises:
            RequestError: the configuration has mistakes; all of them are reported at once.
        """
        given = AssistantParts(index=index, generator=generator, retriever=retriever)
        return cls.from_parts(*open_parts(config, given, ErrorCollector()))

    @classmethod
    def from_parts(cls, config: AssistantConfig, parts: AssistantParts = AssistantParts()) -> Assistant:
        """Return an assistant with parts that are open already. The parts that the configuration names are not
        opened."""
        assistant = cls.__new__(cls)
        assistant.objects = ()
        assistant._assemble(config, parts)
        return assistant

    def _assemble(self, config: AssistantConfig, parts: AssistantParts) -> None:
        self.config = config
        self.parts = parts
        self.index = parts.index
        self.embed = parts.embed
        self.generator = parts.tracing.generator(parts.generator and normalize_replies(parts.generator))
        self.retriever = parts.tracing.retriever(parts.retriever)
        self._where = parse_where(config.where)
        if self._where and self.retriever is not None and self.index is not None:
            self.retriever = FilteredRetriever(self.retriever, self.index.only(self._where))
        reader = profile_of(parts.generator)
        self.top_k = config.top_k or (LARGE_MODEL_TOP_K if reader == "large" else DEFAULT_TOP_K)
        self.forms = forms_for(reader, config.steps, calls_tools(parts.generator))
        self.steps = open_steps(self.forms)
        self.name = parts.generator.name if parts.generator else EXTRACTIVE_SPEC

    def __repr__(self) -> str:
        return f"Assistant({self.index!r}, generator={self.config.generator!r})"

    def using(self, retriever: Retriever | None, generator: Generator | None) -> Assistant:
        """Return an assistant with this configuration and another retriever and generator, as benchmarks need it."""
        return self.from_parts(self.config, replace(self.parts, retriever=retriever, generator=generator))

    def traced(self, provider: Any, content: bool = False) -> Assistant:
        """Return an assistant that writes a span for each turn, step, search and call of the model.

        Args:
            provider: an OpenTelemetry `TracerProvider`.
            content: whether spans also contain questions, answers, prompts and passages.
        """
        return self.from_parts(self.config, replace(self.parts, tracing=tracing_to(provider, content)))

    def chat(self) -> Chat:
        """Start a new conversation."""
        return Chat(self)

    def ask(self, question: str) -> Reply:
        """Answer one question, without a conversation."""
        return self.reply((), question)

    async def areply(self, history: Sequence[Message], message: str) -> Reply:
        """Reply to a message as `reply` does, in a thread of its own; canceling the task stops the turn."""
        stop = Stop()

        def run() -> Reply:
            with stop_context(stop):
                return self.reply(history, message, on_event=lambda _: stop.check())

        try:
            return await asyncio.to_thread(run)
        finally:
            stop.set()

    def reply(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None] = lambda _: None,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
    ) -> Reply:
        """Reply to a message: run all steps of one turn.

        Args:
            history: the messages before, oldest first; only the last `MAX_HISTORY_MESSAGES` are read.
            on_event: called with each event of a step while it runs; the answer arrives in pieces (`delta`).
            evidence: passages to answer from, best first; then nothing is searched, and no model writes a rewrite.
            trusted: the evidence is known to be about the question, so it is not judged by similarity.
        """
        steps = self.steps
        with self.parts.tracing.turn(message) as finish:
            turn = self._begin(history, message, on_event, evidence=evidence, trusted=trusted)
            understood = turn.run(steps.understand)
            if understood.understanding.kind == "conversational":
                return finish(reply_of(turn, understood, turn.run(Courtesy(), understood)))
            if understood.understanding.kind == "revision" and evidence is None:
                draft = turn.run(steps.revise, understood)
                understood = understood.as_revision(message)
            else:
                found = turn.run(steps.retrieve, understood)
                assessment = turn.run(steps.decide, found)
                draft = turn.run(steps.answer, understood, found, assessment)
                self._advise(turn, understood, draft)
            return finish(reply_of(turn, understood, turn.run(steps.verify, understood, draft)))

    def revise(
        self,
        history: Sequence[Message],
        instruction: str,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> Reply:
        """Revise the last answer as an instruction says, e.g. "shorter, please"; the arguments are those of `reply`."""
        turn = self._begin(history, instruction, on_event)
        understanding = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
        understood = UnderstoodMessage(understanding, instruction, "by name")
        understood.report(turn)
        draft = turn.run(self.steps.revise, understood)
        return reply_of(turn, understood, turn.run(self.steps.verify, understood, draft))

    def find(self, history: Sequence[Message], message: str, top_k: int | None = None) -> Findings:
        """Run only the understand and retrieve steps of a turn.

        Args:
            top_k: passages to retrieve for a question, or for each part of one. The default is that of `reply`.
        """
        turn = self._begin(history, message, lambda _: None, top_k=top_k)
        understood = turn.run(self.steps.understand)
        hits: list[Hit] = []
        if understood.understanding.kind != "conversational":
            found = turn.run(self.steps.retrieve, understood)
            hits = drop_repeats([*found.message_hits, *hits_of_parts(found.parts)])
        return Findings(
            understanding=understood.understanding,
            searches=tuple(turn.searches),
            hits=tuple(hits),
            usage=turn.usage,
            timings=turn.timings,
            notes=tuple(turn.notes),
            fallback=understood.fallback,
        )

    def _advise(self, turn: Turn, understood: UnderstoodMessage, draft: Draft) -> None:
        """Add a note if a filter leaves documents out, if a file of that name was not read, or if the embedder does not
        know the language of the message. The first question of a conversation gets the last one even if it is answered.
        """
        if self.index is not None and turn.evidence is None:
            question = understood.understanding.rewrite
            if note := unread_file_note(self.index, question, turn.language, draft.hits):
                turn.note(note)
        manifest = self.index.manifest if self.index else None
        is_sure = draft.assessment.judgment.decision not in ("unknown", "partial")
        if not is_sure and self._where and self.index is not None:
            turn.note(self.index.describe_filtered(self._where))
        if manifest is None or manifest.embedder is None or (is_sure and (turn.history or not draft.hits)):
            return
        name = "NAME" if self.index and len(self.index.parts) > 1 else manifest.name
        if advice := advice_for_question(manifest.embedder.spec, manifest.languages, turn.language, name):
            turn.note(advice)

    def _begin(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None],
        *,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
        top_k: int | None = None,
    ) -> Turn:
        languages = {} if self.index is None else self.index.manifest.languages
        return Turn(
            message=message,
            history=tuple(history[-MAX_HISTORY_MESSAGES:]),
            config=self.config.model_copy(update={"top_k": top_k or self.top_k}),
            retriever=self.retriever,
            generator=self.generator,
            embed=cache_by_text(self.embed) if self.embed else None,
            evidence=evidence,
            trusted=trusted,
            languages=tuple(languages),
            rare_languages=rare_languages(languages),
            forms=dict(self.forms),
            notify=on_event,
            span=self.parts.tracing.step,
        )


def _join(index: Index | Sequence[Index | str]) -> Index:
    """Return one index, or several as one."""
    if isinstance(index, Index):
        return index
    return Index.join([each if isinstance(each, Index) else Index.open(each) for each in index])


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
        kind: Literal["ask", "revise"] = "revise" if reply.revises else "ask"
        turn = self._conversation.turns + 1
        self._conversation.apply(TurnAnswered(turn=turn, kind=kind, question=message, reply=reply))
        return reply
