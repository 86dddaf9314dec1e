"""One conversation: what is typed becomes turns and commands, and their outcome is drawn and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from rich.console import Console

from turnmark.assistant.repl.screen import TurnView, quiet_keyboard, say, uninterrupted
from turnmark.assistant.session import Again, Began, Conversation, Exchange, SessionEvent, Turned
from turnmark.assistant.session_files import ChatSession, new_session
from turnmark.assistant.types import Event, Reply
from turnmark.core.console import printable
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.types import Message
from turnmark.retrieval.types import note_answer

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant

Grade = Callable[[Exchange, Sequence[Message]], Sequence[tuple[str, float | None, str]]]
"""Name, value (None: not applicable) and a remark of each metric of a turn after these messages."""


class Chat:
    """A conversation and the assistant that holds it.

    Args:
        session: None: a new one that is not kept.
        grade: measures a turn; None: `/grade` says that there are no metrics.
        confirm: asks the person a question; None: nobody is there, so the answer is always no.
        interactive: a person sits there: Ctrl-C ends the turn. Else it ends the command.
    """

    def __init__(
        self,
        assistant: Assistant,
        console: Console,
        session: ChatSession | None = None,
        grade: Grade | None = None,
        confirm: Callable[[str], bool] | None = None,
        interactive: bool = True,
    ) -> None:
        self.assistant, self.console, self.grade = assistant, console, grade
        self.session = session or new_session(Began(**dict(assistant.config)), keep=False)
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
        """A turn: the reply is drawn and kept. One that failed or was cancelled leaves the conversation as it was."""
        self._turn("ask", message)

    def revise(self, instruction: str) -> None:
        """A turn that revises the last answer."""
        self.need_last("there is no answer to revise yet")
        self._turn("revise", instruction)

    def answer_again(self) -> None:
        """The last message once more; the new reply replaces the old one."""
        last = self.need_last("there is nothing to answer again yet")
        if outcome := self._run(last.kind, self.history_before_last(), last.question):
            self.record(Again(turn=last.turn, reply=outcome[0], events=outcome[1]))
            self._let_retriever_hear()

    def _turn(self, kind: str, message: str) -> None:
        outcome = self._run(kind, self.history, message)
        if outcome is None:
            return
        reply, events = outcome
        understanding = reply.trace.understanding
        revises = kind == "revise" or (understanding is not None and understanding.kind == "revision")
        turn, kept_kind = self.conversation.turns + 1, "revise" if revises else "ask"
        self.record(Turned(turn=turn, kind=kept_kind, question=message, reply=reply, events=events))
        self._let_retriever_hear()

    def _run(self, kind: str, history: Sequence[Message], message: str) -> tuple[Reply, tuple[Event, ...]] | None:
        """Run a turn and draw it; None: it was cancelled or failed, which is reported."""
        turn = self.assistant.revise if kind == "revise" else self.assistant.reply
        events: list[Event] = []

        def on_event(event: Event) -> None:
            if not event.delta:  # the answer is in the reply, and so are the searches
                detail = {key: value for key, value in event.detail.items() if key != "searches"}
                events.append(event.model_copy(update={"detail": detail}))
            view.on_event(event)

        try:
            with (
                quiet_keyboard() if self.interactive else nullcontext(),
                TurnView(self.console, self.assistant.generator is not None, self.assistant.index) as view,
            ):
                reply = turn(history, message, on_event)
                view.finish(reply)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self.say("cancelled; this question is not part of the conversation", style="yellow")
            return None
        except TurnmarkError as error:
            self.failed += 1
            self.say("no answer: " + printable(str(error)), style="red")
            return None
        return reply, tuple(events)

    def _let_retriever_hear(self) -> None:
        """Let the retriever hear the answer while the person reads: the next question is understood the sooner."""
        last, retriever = self.conversation.last, self.assistant.retriever
        with suppress(TurnmarkError, KeyboardInterrupt):
            if last and retriever is not None:
                note_answer(retriever, last.answer)

    # -- what commands need

    def need_last(self, otherwise: str = "there is no answer yet") -> Exchange:
        """The last exchange."""
        last = self.conversation.last
        if last is None:
            raise RequestError(otherwise)
        return last

    def record(self, event: SessionEvent) -> None:
        """Keep an event; if it cannot be kept, that is reported, and the conversation goes on."""
        with uninterrupted():
            try:
                self.session.record(event)
            except TurnmarkError as error:
                self.complain(error)

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """A line or more to the person; on a terminal every line of it is indented."""
        say(self.console, text, style, indent)

    def complain(self, error: TurnmarkError) -> None:
        """Every problem of an error, a line each."""
        for problem in error.problems if isinstance(error, RequestError) else (str(error),):
            self.say(printable(problem), style="red")
