"""The assistant: runs the steps of one turn of a conversation over documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from turnmark.assistant.config import DEFAULT_TOP_K, LARGE_MODEL_TOP_K, MAX_HISTORY_MESSAGES, AssistantConfig
from turnmark.assistant.forms import calls_tools, forms_for, open_steps, reader_of
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.courtesy import Courtesy
from turnmark.assistant.steps.retrieve import drop_repeats, interleave
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Event, Reply, Search, Understanding, Usage
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index
from turnmark.retrieval.task_passages import Embed, by_text
from turnmark.retrieval.types import Hit, Retriever


@dataclass(frozen=True)
class Findings:
    """What the understand and retrieve steps of a turn found, without an answer.

    Attributes:
        hits: hits of the message, best first; for a compound message the hits of its parts follow, taking one of each
            part in turn.
        fallback: why the understand step fell back to rules; "": it did not.
    """

    understanding: Understanding
    searches: tuple[Search, ...]
    hits: tuple[Hit, ...]
    usage: Mapping[str, Usage]
    timings: Mapping[str, float]
    notes: tuple[str, ...]
    fallback: str


class Assistant:
    """Answers messages from passages. It keeps no conversation: the caller passes in the messages so far.

    Args:
        config: the configuration; the other arguments are the opened parts that it names.
        index: the index that the retriever searches; None: the passages come from a benchmark.
        retriever: finds the passages; None: every call of `reply` passes in its evidence.
        generator: language model for rewrites and answers; None: the extractive forms, which need none.
        embed: embeds sentences for the extractive forms; None: they compare words only.
    """

    def __init__(
        self,
        config: AssistantConfig,
        *,
        index: Index | None = None,
        retriever: Retriever | None = None,
        generator: Generator | None = None,
        embed: Embed | None = None,
    ) -> None:
        self.config = config
        self.index = index
        self.retriever = retriever
        self.generator = generator
        self.embed = embed
        reader = reader_of(generator)
        self.top_k = config.top_k or (LARGE_MODEL_TOP_K if reader == "large" else DEFAULT_TOP_K)
        self.forms = forms_for(reader, config.steps, calls_tools(generator))
        self.steps = open_steps(self.forms)
        self.name = generator.name if generator else "extractive"

    def using(self, retriever: Retriever | None, generator: Generator | None) -> Assistant:
        """Return an assistant with this configuration and another retriever and generator, as benchmarks need it."""
        return Assistant(self.config, index=self.index, retriever=retriever, generator=generator, embed=self.embed)

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
        turn = self._begin(history, message, on_event, evidence=evidence, trusted=trusted)
        turn.run(self.steps["understand"])
        if turn.understanding.kind == "conversational":
            turn.run(Courtesy())
        elif turn.understanding.kind == "revision" and evidence is None:
            turn.run(self.steps["revise"])
        else:
            for _ in turn.rounds(self.steps["retrieve"]):
                turn.run(self.steps["retrieve"])
                turn.run(self.steps["decide"])
            turn.run(self.steps["answer"])
        turn.run(self.steps["verify"])
        return turn.reply()

    def revise(
        self, history: Sequence[Message], instruction: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Reply:
        """Revise the last answer by an instruction; see `turnmark.assistant.steps.revise`."""
        turn = self._begin(history, instruction, on_event)
        turn.understood(Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,)), "by name")
        turn.run(self.steps["revise"])
        turn.run(self.steps["verify"])
        return turn.reply()

    def span(self, step: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return the context in which a step runs: an empty one, or a span if tracing is on
        (`turnmark.assistant.tracing`).
        """
        return nullcontext()

    def find(self, history: Sequence[Message], message: str, top_k: int | None = None) -> Findings:
        """Run only the understand and retrieve steps of a turn, with one round of searching.

        Args:
            top_k: passages to retrieve for a question, or for each part of one; None: as in `reply`.
        """
        turn = self._begin(history, message, lambda _: None, top_k=top_k)
        turn.run(self.steps["understand"])
        if turn.understanding.kind != "conversational":
            turn.run(self.steps["retrieve"])
        return Findings(
            understanding=turn.understanding,
            searches=tuple(turn.searches),
            hits=tuple(drop_repeats([*turn.message_hits, *interleave(part.hits for part in turn.parts)])),
            usage=turn.usage,
            timings=turn.timings,
            notes=tuple(turn.notes),
            fallback=turn.fallback,
        )

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
        return Turn(
            message=message,
            history=tuple(history[-MAX_HISTORY_MESSAGES:]),
            config=self.config.model_copy(update={"top_k": top_k or self.top_k}),
            retriever=self.retriever,
            generator=self.generator,
            embed=by_text(self.embed) if self.embed else None,
            evidence=evidence,
            trusted=trusted,
            forms=dict(self.forms),
            notify=on_event,
            span=self.span,
        )
