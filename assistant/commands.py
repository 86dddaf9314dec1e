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
from turnmark.corpora.types import Message

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant


def ask(
    index: Annotated[str, typer.Option("--index", help="the index to answer from")],
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION|-]", help="- reads a question a line from standard input", show_default=False
        ),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    history: Annotated[
        Path | None, typer.Option(help="the conversation before: JSON or JSONL of role and content")
    ] = None,
    step: Step = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a question on standard output")] = False,
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
    """Answer one question; with `as_json` a failure is an object on standard output too.

    Raises:
        TurnmarkError: there is no answer.
    """
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

    view = TurnView(Console(highlight=False), streaming=assistant.generator is not None and sys.stdout.isatty())
    view.finish(assistant.reply(past, question, view.on_event))


def _answer_all(assistant: Assistant, past: list[Message], questions: Iterable[str], as_json: bool) -> None:
    """Answer every question; one that fails does not stop the rest.

    Raises:
        TurnmarkError: there were some that failed.
    """
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
    """A conversation from a file: a JSON list or JSON lines of {"role", "content"}, or MTRAG's {"speaker", "text"}.

    Raises:
        RequestError: every row that is not a message, with its place, at once; no message at all; a last message that
            is not the assistant's.
    """
    label = f"--history {inert(path)}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"{label}: cannot be read ({reason})") from error
    errors, messages = ErrorCollector(), list[Message]()
    for place, row in _history_rows(text, label, errors):
        try:
            messages.append(_message(row))
        except ValueError as error:
            errors.add(f"{label}, {place}: {error}")
    errors.raise_all()
    if not messages:
        raise RequestError(f"{label}: holds no message; leave --history out for a conversation that begins")
    if messages[-1].role == "user":
        raise RequestError(
            f"{label}: ends with a message of the user; it must end with the assistant's, as the question comes next"
        )
    return messages


def _history_rows(text: str, label: str, errors: ErrorCollector) -> Iterator[tuple[str, Any]]:
    """Place and value of each row of a JSON list or of JSON lines; what is not JSON goes to `errors`."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("["):
            errors.add(f"{label}: not JSON ({_reason(error)})")
            return
    else:
        for n, row in enumerate(parsed if isinstance(parsed, list) else [parsed], 1):
            yield f"entry {n}", row
        return
    for n, line in enumerate(text.split("\n"), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            errors.add(f"{label}, line {n}: not JSON ({_reason(error)})")
        else:
            if line.strip():
                yield f"line {n}", row


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _message(row: Any) -> Message:
    """The message that a row holds; a ValueError says why it is none."""
    if isinstance(row, dict):
        role, content = row.get("role", row.get("speaker")), row.get("content", row.get("text"))
        if role in ("user", "assistant", "agent") and isinstance(content, str):
            if not content.strip():
                raise ValueError("the content is empty")
            return Message(role="user" if role == "user" else "assistant", content=valid_text(content))
    raise ValueError('expected {"role": "user" or "assistant", "content": text}')


def register(app: typer.Typer) -> None:
    """Mount `ask`, `chat`, `sessions` and `serve`."""
    examples = (
        "turnmark ask 'How do I descale a kettle?' --index notes   ·   turnmark ask - --index notes --json < asked"
    )
    app.command("ask", epilog=f"Examples: {examples}")(ask)
    chat_command.register(app)
    serve_command.register(app)
