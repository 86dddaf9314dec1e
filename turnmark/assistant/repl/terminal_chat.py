"""A conversation of `turnmark chat`: run turns, draw their replies and record them in the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rich.console import Console

from turnmark.assistant.repl.screen import TurnView, ignore_interrupts, say, suppress_echo
from turnmark.assistant.sessions.conversation import (
    Conversation,
    Exchange,
    SessionBegan,
    SessionEvent,
    TurnAnswered,
    TurnInterrupted,
    TurnRetried,
)
from turnmark.assistant.sessions.session_files import ChatSession, new_session
from turnmark.assistant.turn.reopen import up_to_date
from turnmark.assistant.types import Event, Reply, ToolUse
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.untrusted import make_printable
from turnmark.corpora.types import Message

if TYPE_CHECKING:
    from turnmark.assistant.turn.assistant import Assistant

Grade = Callable[[Exchange, Sequence[Message]], Sequence[tuple[str, float | None, str]]]
"""A function from a turn and the messages before it to name, value (None: not applicable) and remark of each metric."""


class TerminalChat:
    """A conversation with an assistant.

    Args:
        session: the session to record to, or None for a new session that is not saved.
        grade: measures a turn, or None if `/grade` reports that there are no metrics.
        confirm: asks the user a yes-no question, or None to answer no every time.
        interactive: whether Ctrl-C cancels only the turn. If False, it ends the command.
        news: lines about the documents from other threads; they are shown only between turns.
    """

    def __init__(
        self,
        assistant: Assistant,
        console: Console,
        session: ChatSession | None = None,
        grade: Grade | None = None,
        confirm: Callable[[str], bool] | None = None,
        interactive: bool = True,
        news: SimpleQueue[str] | None = None,
    ) -> None:
        self.assistant, self.console, self.grade = assistant, console, grade
        self.session = session or new_session(SessionBegan(**dict(assistant.config)), keep=False)
        self.confirm: Callable[[str], bool] = confirm or (lambda _: False)
        self.interactive = interactive
        self._news = news or SimpleQueue()
        self.failed = 0
        """Number of failed turns."""
        self.over = False

    @property
    def conversation(self) -> Conversation:
        """The conversation of the session."""
        return self.session.conversation

    @property
    def history(self) -> list[Message]:
        """The messages so far."""
        return self.conversation.history()

    def history_before_last(self) -> list[Message]:
        """The messages before the last exchange."""
        return self.conversation.history(len(self.conversation.exchanges) - 1)

    # -- turns

    def take_news(self) -> None:
        """Between turns, switch to the newest generation of the indexes and show the news about the documents."""
        self.assistant = up_to_date(self.assistant)
        self.show_news()

    @property
    def has_news(self) -> bool:
        """Whether there is news about the documents to show above the prompt."""
        return not self._news.empty()

    def show_news(self) -> None:
        """Show what happened to the documents."""
        while not self._news.empty():
            self.say(self._news.get(), style="dim")

    def ask(self, message: str) -> None:
        """Run a turn, draw its reply and record it. A failed or canceled turn is not part of the conversation."""
        self._run("ask", self.history, message)

    def revise(self, instruction: str) -> None:
        """Run a turn that revises the last answer."""
        self.need_last("there is no answer to revise yet")
        self._run("revise", self.history, instruction)

    def answer_again(self) -> None:
        """Answer the last message again; the new reply replaces the old one."""
        last = self.need_last("there is nothing to answer again yet")
        self._run(last.kind, self.history_before_last(), last.question, replaced=last.turn)

    def _run(self, kind: str, history: Sequence[Message], message: str, replaced: int | None = None) -> None:
        """Run a turn, draw it and record it; report a canceled or failed turn.

        Args:
            replaced: number of the turn whose reply it replaces, or None for a new turn.
        """
        turn = self.assistant.revise if kind == "revise" else self.assistant.reply
        events: list[Event] = []

        def on_event(event: Event) -> None:
            if not event.delta:
                detail = {key: value for key, value in event.detail.items() if key != "searches"}  # the reply has them
                events.append(event.model_copy(update={"detail": detail}))
            view.on_event(event)

        try:
            with (
                suppress_echo() if self.interactive else nullcontext(),
                TurnView(self.console, self.assistant.generator is not None, self.assistant.index) as view,
            ):
                reply = turn(history, message, on_event)
                view.finish(reply)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            self._cancel(message, events)
        except TurnmarkError as error:
            self.failed += 1
            self.say("no answer: " + make_printable(str(error)), style="red")
        else:
            if replaced is not None:
                self.record(TurnRetried(turn=replaced, reply=reply, events=tuple(events)))
            else:
                number, revises = self.conversation.turns + 1, kind == "revise" or reply.revises
                self.record(
                    TurnAnswered(
                        turn=number,
                        kind="revise" if revises else "ask",
                        question=message,
                        reply=reply,
                        events=tuple(events),
                    )
                )
            self._note_answer(reply)

    def _cancel(self, message: str, events: Sequence[Event]) -> None:
        """Report a canceled turn. What a model found is recorded; the turn is not part of the conversation."""
        calls = tuple(ToolUse(**event.detail) for event in events if "found" in event.detail)
        if calls:
            self.record(TurnInterrupted(question=message, calls=calls))
        found = "; /why shows what was found" if calls else ""
        self.say(f"canceled; this question is not part of the conversation{found}", style="yellow")

    def _note_answer(self, reply: Reply) -> None:
        """Pass the answer to the retriever, which prepares for the next question while the user is reading."""
        retriever = self.assistant.retriever
        with suppress(TurnmarkError, KeyboardInterrupt):
            if retriever is not None:
                retriever.note_answer(reply.answer)

    # -- for the commands

    def need_last(self, otherwise: str = "there is no answer yet") -> Exchange:
        """Return the last exchange; raise `RequestError` with the message `otherwise` if there is none."""
        last = self.conversation.last
        if last is None:
            raise RequestError(otherwise)
        return last

    def record(self, event: SessionEvent) -> None:
        """Record an event in the session; report a failure to write it, and continue."""
        with ignore_interrupts():
            try:
                self.session.record(event)
            except TurnmarkError as error:
                self.complain(error)

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """Print a text; on a terminal, all of its lines are indented."""
        say(self.console, text, style, indent)

    def complain(self, error: TurnmarkError) -> None:
        """Print the problems of an error, one per line."""
        for problem in error.problems if isinstance(error, RequestError) else (str(error),):
            self.say(make_printable(problem), style="red")
