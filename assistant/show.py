"""How a turn looks in a terminal. Everything that came from documents or models is made printable first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turnmark.assistant.steps.marks import cited
from turnmark.assistant.types import Citation, Event, Reply
from turnmark.corpora.console import inert
from turnmark.corpora.text import printable, strip_citations, words

if TYPE_CHECKING:
    from turnmark.assistant.session_files import SessionInfo

SNIPPET = 160
QUESTION = 50


class TurnView:
    """Draws the events of a turn as they come, then what is only known at its end."""

    def __init__(self, console: Console, streaming: bool) -> None:
        self._console, self._streaming = console, streaming
        self._shown = ""
        self._inside = False  # a line of the answer is begun

    def on_event(self, event: Event) -> None:
        """Draw one event: the rewrite above the answer, the answer as it comes, notes."""
        if event.delta:
            self._shown += event.delta
            if self._streaming:
                self._console.print(Text(printable(event.delta)), end="", soft_wrap=True)
                self._inside = not event.delta.endswith("\n")
        elif event.step == "understand" and event.text:
            self.stop()
            self._console.print(Text(f"→ {inert(event.text)}", style="dim"))
        elif event.step == "note":
            self.stop()
            self._console.print(Text(f"note: {inert(event.text)}", style="yellow"))

    def finish(self, reply: Reply) -> None:
        """Draw the end of the turn: the answer unless it stands there already, sources, checks."""
        console = self._console
        self.stop()
        # A streamed answer ends with its steps; it is drawn again only when checking changed its words.
        if not self._streaming or not says_same(self._shown, reply):
            if self._streaming and self._shown:
                console.print(Text("after checking:", style="dim"))
            self._draw(reply)
        for source in sources_used(reply):
            console.print(Text(f"  [{source.n}] {where(source)}", style="dim"), soft_wrap=True)
        console.print(Text(checks_line(reply), style="dim"), soft_wrap=True)

    def stop(self) -> None:
        """End a line that was begun: for a note, for the end of the turn, or for a turn without a reply."""
        if self._inside:
            self._console.print()
        self._inside = False

    def _draw(self, reply: Reply) -> None:
        flowing = not self._console.is_terminal
        self._console.print(Text(printable(reply.answer)), soft_wrap=flowing)
        for number, step in enumerate(reply.procedure, 1):
            line = f"{number}. {printable(step.step)}{step.marks}"
            self._console.print(Text(f"  {line}") if flowing else Padding(Text(line), (0, 0, 0, 2)), soft_wrap=flowing)


_LIST_MARK = re.compile(r"^[ \t]*(?:\d{1,3}[.)][ \t]+|\W*Steps\W*$)", re.MULTILINE)


def says_same(streamed: str, reply: Reply) -> bool:
    """Whether what was drawn as it came has the words of the finished answer; its marks stand under it in any case."""
    return _words(streamed) == _words("\n".join([reply.answer, *(step.step for step in reply.procedure)]))


def _words(text: str) -> list[str]:
    return words(strip_citations(_LIST_MARK.sub("", text)))


def sources_used(reply: Reply) -> list[Citation]:
    """The citations that the answer or a step of it refers to, by number."""
    used = set(cited(reply.answer)) | {n for step in reply.procedure for n in step.citations}
    return [citation for citation in reply.citations if citation.n in used]


def where(citation: Citation) -> str:
    """Title, path and page of a source."""
    place = citation.path or citation.document
    page = f", page {citation.page}" if citation.page else ""
    return inert(f"{citation.title} — {place}{page}")


def checks_line(reply: Reply) -> str:
    """One line of what was checked: `grounded 0.93 · 5 sources · 2/2 parts · 7 steps`."""
    parts = []
    if reply.checks.grounded is not None:
        parts.append(f"grounded {reply.checks.grounded:.2f}")
    if used := len(sources_used(reply)):
        parts.append(f"{used} source{'s' if used > 1 else ''}")
    if reply.checks.parts_answered is not None:
        answered = sum(part.answered for part in reply.sub_questions)
        parts.append(f"{answered}/{len(reply.sub_questions)} part{'s' if len(reply.sub_questions) > 1 else ''}")
    if reply.procedure:
        parts.append(f"{len(reply.procedure)} steps")
    if reply.checks.repaired:
        parts.append("repaired")
    return " · ".join([reply.decision, *parts, f"{sum(reply.timings.values()):.2f} s"])


def show_sources(console: Console, citations: Sequence[Citation], number: int | None) -> None:
    """The sources of a turn in a line each, or one of them in full."""
    flowing = not console.is_terminal
    if not citations:
        console.print("the last answer rests on no sources")
    for citation in citations:
        if number is None:
            text = " ".join(printable(citation.text).split())
            console.print(Text(f"[{citation.n}] {where(citation)}", style="bold"), soft_wrap=flowing)
            snippet = Text(f"{text[:SNIPPET]}{'…' if len(text) > SNIPPET else ''}", style="dim")
            console.print(Padding(snippet, (0, 0, 0, 4)) if not flowing else Text("    ") + snippet, soft_wrap=flowing)
        elif citation.n == number:
            console.print(Text(where(citation), style="bold"), soft_wrap=flowing)
            console.print(Text(printable(citation.text)), soft_wrap=flowing)
            return
    if number is not None and citations:
        console.print(f"there is no source {number}; there are 1 to {len(citations)}")


def session_lines(sessions: Sequence[SessionInfo]) -> list[str]:
    """A line for each kept session: name, when it was used last, turns, index, first question."""
    if not sessions:
        return ["no session is kept yet"]
    width = max(len(session.name) for session in sessions)
    return [
        f"{session.name:<{width}}  {datetime.fromtimestamp(session.changed):%Y-%m-%d %H:%M}  "
        f"{session.turns} turn{'s' if session.turns != 1 else ' '}  {inert(session.index)}  {_short(session.question)}"
        for session in sessions
    ]


def _short(text: str) -> str:
    text = inert(text)
    return text if len(text) <= QUESTION else f"{text[:QUESTION]}…"
