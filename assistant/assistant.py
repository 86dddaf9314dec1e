"""The assistant: one turn of a conversation over documents, as the steps that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from turnmark.assistant.forms import forms_for, open_steps, reader_of
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.courtesy import Courtesy
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Event, Reply, Understanding
from turnmark.corpora.types import Message
from turnmark.retrieval.task_passages import Embed, by_text
from turnmark.retrieval.types import Hit, Retriever

PASSAGES, READ_PASSAGES = 6, 10
"""Found for a question; the second for a model that reads them all."""
TOKENS = 3000


class Assistant:
    """Answers messages from passages. Holds no conversation: the state is the message list that is handed in.

    Args:
        retriever: finds the passages; None: every turn is given its evidence.
        generator: writes rewrites and answers; None: the extractive forms, which need no language model.
        embed: embeds sentences for the extractive forms; None: shared words decide.
        passages: how many passages are found for a question, or a part of one; None: by who reads.
        prompts: folder with other prompts.
        forms: step -> form (`turnmark.assistant.forms`); None: those of the reader.
        tokens: how much of the sections that were found a model reads, about; a message of many parts more.
    """

    def __init__(
        self,
        retriever: Retriever | None,
        generator: Generator | None = None,
        embed: Embed | None = None,
        passages: int | None = None,
        prompts: Path | None = None,
        forms: Mapping[str, str] | None = None,
        tokens: int = TOKENS,
    ) -> None:
        self.retriever, self.generator, self.embed = retriever, generator, embed
        self.prompts, self.tokens = prompts, tokens
        self.requested = passages  # another reader, swapped in, has its own default
        reader = reader_of(generator)
        self.passages = passages or (READ_PASSAGES if reader == "large" else PASSAGES)
        self.forms = forms_for(reader) if forms is None else forms
        self.steps = open_steps(self.forms)
        self.name = generator.name if generator else "extractive"

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

    def _begin(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None],
        *,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
    ) -> Turn:
        return Turn(
            message,
            tuple(history),
            evidence,
            trusted,
            self.retriever,
            self.generator,
            by_text(self.embed) if self.embed else None,
            self.prompts,
            self.passages,
            self.tokens,
            self.name,
            dict(self.forms),
            on_event,
            self.span,
        )
