"""The screen of simulated users: what the figures mean, and the conversations in which most went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turnmark.core.console import print_lines
from turnmark.core.untrusted import ellipsize, one_line, rich_line
from turnmark.evaluation.check.console_report import figure_table, note_lines
from turnmark.evaluation.check.simulation.users_check import UserConversation, UsersResult
from turnmark.evaluation.check.simulation.users_task import FIGURES

SHOWN_CONVERSATIONS, REPLY_CHARACTERS = 3, 160


def show_users(result: UsersResult, console: Console) -> None:
    """Print a result."""
    console.print(rich_line(f"{result.index}: {len(result.conversations)} conversations with simulated users", "bold"))
    print_lines([f"generator {result.generator}, worded by {result.worded_by or 'rules'}"], console)
    console.print()
    table = figure_table("users", "mean", "95%")
    for name, meaning in FIGURES.items():
        if (one := result.figures.get(name)) is None:
            continue
        interval = f"{one.ci95[0]:.2f} to {one.ci95[1]:.2f}" if one.ci95 else "–"
        table.add_row(f"{name}: {meaning}", str(one.n), f"{one.mean:.2f}", interval)
    console.print(table)
    console.print(rich_line("Simulated users are easier to satisfy than people, and prefer search by words: choose no "
                            "retriever by them, and measure with questions of your own."))  # fmt: skip
    for conversation in sorted(result.conversations, key=lambda one: -one.misses)[:SHOWN_CONVERSATIONS]:
        if conversation.misses:
            _show_conversation(conversation, console)
    console.print()
    print_lines(_ending(result), console)


def _show_conversation(conversation: UserConversation, console: Console) -> None:
    console.print()
    hidden = ", whose first goal is hidden" if conversation.hidden else ""
    console.print(Text(f"{conversation.id}{hidden}", style="bold"))
    for one in conversation.exchanges:
        state = "reached" if one.reached else "refused" if one.refused else "hedged" if one.hedged else "missed"
        console.print(Padding(Text(f"> {one_line(one.message)}"), (0, 0, 0, 3)))
        reply = ellipsize(" ".join(one.reply.split()), REPLY_CHARACTERS)
        console.print(Padding(rich_line(f"{state}: {reply}", "dim"), (0, 0, 0, 5)))


def _ending(result: UsersResult) -> Iterator[str]:
    failed = sum(one.failed is not None for one in result.conversations)
    if failed:
        yield f"{failed} conversations failed and are not counted; the same command tries them again"
    yield from note_lines(result.notes, result.usage)
    yield f"{result.seconds:.0f} s; every conversation is in {result.run}"
