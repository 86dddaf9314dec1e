"""One conversation: what is typed becomes turns and commands, and what becomes of them is drawn and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turnmark.assistant.repl.screen import TurnView, quiet_keyboard, uninterrupted
from turnmark.assistant.session import Again, Began, Conversation, Exchange, SessionEvent, Turned
from turnmark.assistant.session_files import Session, new_session
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.text import printable
from turnmark.corpora.types import Message
from turnmark.retrieval.types import hear

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant
    from turnmark.assistant.open import Opened

OnEvent = Callable[[Event], None]

NO_SCORES = "nothing here measures answers: the metrics come with the evaluation room, which did not start this chat"


@runtime_checkable
class Scores(Protocol):
    """Measures of an answer that need no judge. The metrics live in a later room; whoever mounts `chat` brings them."""

    def similarity(self, answer: str, reference: str) -> tuple[str, float] | None:
        """A metric's name, and how alike it finds two texts, 0..1; None where there is nothing to compare."""
        ...

    def grade(self, exchange: Exchange, history: Sequence[Message]) -> Sequence[tuple[str, float | None, str]]:
        """Name, value and a remark of each metric of a turn; None where the metric is not applicable.

        Args:
            history: the messages before the turn.
        """
        ...


class Chat:
    """A conversation and the parts that hold it.

    Args:
        session: None: a new one that is kept nowhere.
        opened: what the assistant was opened from; without it no part can be swapped.
        scores: measures answers; None: `/grade` says that nothing does.
        confirm: asks the person a question; None: nobody is there, so the answer is always no.
        interactive: a person sits there: Ctrl-C ends the turn. Else it ends the command.
    """

    def __init__(
        self,
        assistant: Assistant,
        console: Console,
        session: Session | None = None,
        opened: Opened | None = None,
        scores: Scores | None = None,
        confirm: Callable[[str], bool] | None = None,
        interactive: bool = True,
    ) -> None:
        self.assistant, self.console, self.opened, self.scores = assistant, console, opened, scores
        self.session = session or new_session(Began(index="", generator=assistant.name), keep=False)
        self.confirm: Callable[[str], bool] = confirm or (lambda _: False)
        self.interactive = interactive
        self.failed = 0
        """Turns that gave no answer."""
        self.over = False

    @property
    def conversation(self) -> Conversation:
        """What was said."""
        return self.session.conversation

    @property
    def history(self) -> list[Message]:
        """The messages so far."""
        return self.conversation.history()

    def history_before_last(self) -> list[Message]:
        """The messages before the last exchange."""
        return self.conversation.history(len(self.conversation.exchanges) - 1)

    # -- turns

    def ask(self, message: str) -> None:
        """A turn: the reply is drawn and kept."""
        history = self.history
        self._record_turn("ask", message, self._run(lambda on_event: self.assistant.reply(history, message, on_event)))

    def revise(self, instruction: str) -> None:
        """A turn that revises the last answer.

        Raises:
            RequestError: there is none.
        """
        self.need_last("there is no answer to revise yet")
        history = self.history
        outcome = self._run(lambda on_event: self.assistant.revise(history, instruction, on_event))
        self._record_turn("revise", instruction, outcome)

    def answer_again(self, why: str, evidence: Sequence[Any] | None = None, trusted: bool = False) -> None:
        """The last message once more; the new reply takes the place of the old one.

        Args:
            why: `retry` or `evidence`.
            evidence: the passages to answer from; None: those that are found.
        """
        last = self.need_last("there is nothing to answer again yet")
        if last.kind == "revise" and evidence is not None:
            raise RequestError(
                "the last turn revised an answer; /undo it first, and give the answer other passages then"
            )
        history = self.history_before_last()

        def turn(on_event: OnEvent) -> Reply:
            if last.kind == "revise":
                return self.assistant.revise(history, last.question, on_event)
            return self.assistant.reply(history, last.question, on_event, evidence, trusted)

        if outcome := self._run(turn):
            reply, events = outcome
            self.record(Again.model_validate({"turn": last.turn, "why": why, "reply": reply, "events": events}))
            self._tell_retriever()

    def _record_turn(self, kind: str, message: str, outcome: tuple[Reply, tuple[Event, ...]] | None) -> None:
        if outcome is None:
            return
        reply, events = outcome
        understanding = reply.trace.understanding
        if understanding is not None and understanding.kind == "revision":
            kind = "revise"
        turn = self.conversation.turns + 1
        self.record(
            Turned.model_validate({"turn": turn, "kind": kind, "question": message, "reply": reply, "events": events})
        )
        self._tell_retriever()

    def _run(self, turn: Callable[[OnEvent], Reply]) -> tuple[Reply, tuple[Event, ...]] | None:
        """Run a turn and draw it; None where it was cancelled or failed, which is told."""
        view = TurnView(self.console, streaming=self.assistant.generator is not None)
        events: list[Event] = []

        def on_event(event: Event) -> None:
            if not event.delta:  # the answer is in the reply, and so are the searches
                detail = {key: value for key, value in event.detail.items() if key != "searches"}
                events.append(event.model_copy(update={"detail": detail}))
            view.on_event(event)

        try:
            with quiet_keyboard() if self.interactive else nullcontext():
                reply = turn(on_event)
        except KeyboardInterrupt:
            view.stop()
            if not self.interactive:
                raise
            self.say("cancelled; the conversation goes on without this question", style="yellow")
            return None
        except TurnmarkError as error:
            view.stop()
            self.failed += 1
            self.say("no answer: " + printable(str(error)), style="red")
            return None
        view.finish(reply)
        return reply, tuple(events)

    def _tell_retriever(self) -> None:
        """Let the retriever hear the answer while the person reads: the next question is understood the sooner."""
        last, retriever = self.conversation.last, self.assistant.retriever
        with suppress(TurnmarkError, KeyboardInterrupt):
            if last and retriever is not None:
                hear(retriever, last.said)

    # -- what commands need

    def need_last(self, otherwise: str = "there is no answer yet") -> Exchange:
        """The last exchange.

        Raises:
            RequestError: there is none.
        """
        last = self.conversation.last
        if last is None:
            raise RequestError(otherwise)
        return last

    def record(self, event: SessionEvent) -> None:
        """Keep an event; if it cannot be kept, that is told, and the conversation goes on."""
        with uninterrupted():
            try:
                self.session.record(event)
            except TurnmarkError as error:
                self.complain(error)

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """A line or more to the person; on a terminal every line of it is indented."""
        if self.console.is_terminal:
            self.console.print(
                Padding(Text(text, style=style), (0, 0, 0, indent)) if indent else Text(text, style=style)
            )
        else:
            self.console.print(Text(" " * indent + text, style=style), soft_wrap=True)

    def complain(self, error: TurnmarkError) -> None:
        """Every problem of an error, a line each."""
        for problem in error.problems if isinstance(error, RequestError) else (str(error),):
            self.say(printable(problem), style="red")
