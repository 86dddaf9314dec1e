"""`turnmark ask`; what mounts it, `chat`, `sessions` and `serve`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmark.assistant import chat_command
from turnmark.assistant.chat_command import Generator, Retriever, Step
from turnmark.assistant.serving import command as serve_command
from turnmark.corpora.console import inert, print_json, stdin_is_terminal, stdin_lines, valid_text
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.flags import AsJson, HelpAll
from turnmark.corpora.types import Message
from turnmark.retrieval.commands import IndexName

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant


def ask_command(
    index: IndexName,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION|-]", help="- reads a question a line from standard input", show_default=False
        ),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the conversation before: JSON or JSONL of role and content")
    ] = None,
    step: Step = None,
    as_json: AsJson = False,
    help_all: HelpAll = False,  # noqa: ARG001
) -> None:
    """Ask one question, or many from standard input."""
    errors = ErrorCollector()
    if question is None and stdin_is_terminal():
        errors.add(
            "no question: write one in quotes, or send questions in, one a line: turnmark ask - --index NAME < FILE"
        )
    if question is not None and not question.strip():
        errors.add("the question is empty")
    past = (errors.collect(read_history, history) if history else None) or []
    from turnmark.assistant.open import open_checked

    opened = open_checked(errors, index, generator, retriever, step or ())
    errors.raise_all()
    assert opened is not None, "what could not be opened is a mistake"
    assistant = opened.assistant
    if question is None or question == "-":
        _answer_all(assistant, past, (line.strip() for line in stdin_lines() if line.strip()), as_json)
    else:
        _answer(assistant, past, valid_text(question), as_json)


def _answer(assistant: Assistant, past: list[Message], question: str, as_json: bool) -> None:
    """Answer one question; with `as_json` a failure is an object on standard output too."""
    if as_json:
        try:
            reply = assistant.reply(past, question)
        except TurnmarkError as error:
            kind = getattr(error, "kind", "request" if isinstance(error, RequestError) else "failed")
            print_json({"question": question, "error": {"kind": kind, "message": str(error)}})
            raise
        print_json(reply.model_dump(mode="json"))
        return
    from rich.console import Console

    from turnmark.assistant.repl.screen import TurnView

    with TurnView(Console(highlight=False), streaming=assistant.generator is not None) as view:
        view.finish(assistant.reply(past, question, view.on_event))


def _answer_all(assistant: Assistant, past: list[Message], questions: Iterable[str], as_json: bool) -> None:
    """Answer every question; one that fails does not stop the rest."""
    failed = 0
    for question in questions:
        try:
            _answer(assistant, past, question, as_json)
        except TurnmarkError as error:
            failed += 1
            sys.stderr.write(f"turnmark: {inert(repr(question))}: {inert(error)}\n")
    if failed:
        raise TurnmarkError(f"{failed} question{'s' if failed > 1 else ''} could not be answered")


def read_history(path: Path) -> list[Message]:
    """A conversation from a file: a JSON list or JSON lines of {"role", "content"}, or MTRAG's {"speaker", "text"}."""
    label = f"--history {inert(path)}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"{label}: cannot be read ({reason})") from error
    errors, messages = ErrorCollector(), list[Message]()
    for row_label, row in _history_rows(text, label, errors):
        fields = row if isinstance(row, dict) else {}
        role, content = fields.get("role", fields.get("speaker")), fields.get("content", fields.get("text"))
        if role not in ("user", "assistant", "agent") or not isinstance(content, str):
            errors.add(f'{row_label}: expected {{"role": "user" or "assistant", "content": text}}')
        elif not content.strip():
            errors.add(f"{row_label}: the content is empty")
        else:
            messages.append(Message(role="user" if role == "user" else "assistant", content=valid_text(content)))
    errors.raise_all()
    if not messages:
        raise RequestError(f"{label}: holds no message; leave --history out for a conversation that begins")
    if messages[-1].role == "user":
        raise RequestError(
            f"{label}: ends with a message of the user; it must end with the assistant's, as the question comes next"
        )
    return messages


def _history_rows(text: str, label: str, errors: ErrorCollector) -> Iterator[tuple[str, Any]]:
    """Label and value of each row of a JSON list or of JSON lines; what is not JSON goes to `errors`."""
    listed = text.lstrip().startswith("[")
    for number, line in enumerate([text] if listed else text.split("\n"), 1):
        line_label = label if listed else f"{label}, line {number}"
        try:
            value = json.loads(line) if line.strip() else []
        except (ValueError, RecursionError) as error:
            errors.add(
                f"{line_label}: not JSON ({'nested too deeply' if isinstance(error, RecursionError) else error})"
            )
            continue
        if listed:
            yield from ((f"{label}, entry {n}", row) for n, row in enumerate(value, 1))
        elif line.strip():
            yield line_label, value


def add_assistant_commands(app: typer.Typer) -> None:
    """Mount `ask`, `chat`, `sessions` and `serve`."""
    examples = (
        "turnmark ask 'How do I descale a kettle?' --index notes   ·   turnmark ask - --index notes --json < asked"
    )
    app.command("ask", epilog=f"Examples: {examples}")(ask_command)
    chat_command.add_chat_commands(app)
    serve_command.add_serve_command(app)
