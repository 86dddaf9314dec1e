"""The assistant: one turn of a conversation over documents, as the steps that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from turnmark.assistant.config import PASSAGES, READ_PASSAGES, AssistantConfig
from turnmark.assistant.forms import forms_for, open_steps, reader_of
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.courtesy import Courtesy
from turnmark.assistant.steps.retrieve import drop_repeats, in_turns
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Event, Reply, Search, Understanding, Usage
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index
from turnmark.retrieval.task_passages import Embed, by_text
from turnmark.retrieval.types import Hit, Retriever


@dataclass(frozen=True)
class Findings:
    """What a turn found before it answers.

    Attributes:
        hits: of the message, best first; of a compound one those of its parts follow, the best of each first.
        fallback: why rules understood the message though a model was asked; "": they did not.
    """

    understanding: Understanding
    searches: tuple[Search, ...]
    hits: tuple[Hit, ...]
    usage: Mapping[str, Usage]
    timings: Mapping[str, float]
    notes: tuple[str, ...]
    fallback: str


class Assistant:
    """Answers messages from passages. Holds no conversation: the state is the message list that is handed in.

    Args:
        config: what it is made of; the parts below are what its specs open.
        index: what the retriever searches; None: a benchmark's passages.
        retriever: finds the passages; None: every turn is given its evidence.
        generator: writes rewrites and answers; None: the extractive forms, which need no language model.
        embed: embeds sentences for the extractive forms; None: shared words decide.
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
        self.config, self.index = config, index
        self.retriever, self.generator, self.embed = retriever, generator, embed
        reader = reader_of(generator)
        self.passages = config.passages or (READ_PASSAGES if reader == "large" else PASSAGES)
        self.forms = forms_for(reader, config.steps)
        self.steps = open_steps(self.forms)
        self.name = generator.name if generator else "extractive"

    def using(self, retriever: Retriever | None, generator: Generator | None) -> Assistant:
        """The same configuration with other parts: a corpus of a benchmark, the generator of one sample."""
        return Assistant(self.config, index=self.index, retriever=retriever, generator=generator, embed=self.embed)

    def reply(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None] = lambda _: None,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
    ) -> Reply:
        """One turn.

        Args:
            history: the turns before, oldest first.
            on_event: called with what each step comes to, as it happens; the answer arrives in pieces (`delta`).
            evidence: passages to answer from, best first; nothing is searched then, and no model asked for a rewrite.
            trusted: the evidence is known to be about the question, however little it looks like it.
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
        """Revise the last answer as the user instructs; see `turnmark.assistant.steps.revise`."""
        turn = self._begin(history, instruction, on_event)
        turn.understood(Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,)), "by name")
        turn.run(self.steps["revise"])
        turn.run(self.steps["verify"])
        return turn.reply()

    def span(self, step: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """What wraps a step of a turn: nothing, or a span if turns are traced
        (`turnmark.assistant.tracing`).
        """
        return nullcontext()

    def find(self, history: Sequence[Message], message: str, passages: int | None = None) -> Findings:
        """What a turn searches for and finds at first, without an answer: the two first steps of `reply`.

        Args:
            passages: how many are found for a question, or a part of one; None: as the turn does.
        """
        turn = self._begin(history, message, lambda _: None, passages=passages)
        turn.run(self.steps["understand"])
        if turn.understanding.kind != "conversational":
            turn.run(self.steps["retrieve"])
        return Findings(
            understanding=turn.understanding,
            searches=tuple(turn.searches),
            hits=tuple(drop_repeats([*turn.message_hits, *in_turns(part.hits for part in turn.parts)])),
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
        passages: int | None = None,
    ) -> Turn:
        return Turn(
            message=message,
            history=tuple(history),
            config=self.config.model_copy(update={"passages": passages or self.passages}),
            retriever=self.retriever,
            generator=self.generator,
            embed=by_text(self.embed) if self.embed else None,
            evidence=evidence,
            trusted=trusted,
            forms=dict(self.forms),
            notify=on_event,
            span=self.span,
        )
