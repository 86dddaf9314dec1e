"""`turnwise ask` and `turnwise chat`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from corpora.errors import RequestError, TurnwiseError
from corpora.types import Message

Generator = Annotated[
    str,
    typer.Option(
        "--generator",
        envvar="TURNWISE_GENERATOR",
        help="extractive (no language model), openai:MODEL[@URL], ollama:MODEL, vllm:MODEL, replay:FILE …",
    ),
]
Retriever = Annotated[str | None, typer.Option(help="default: hybrid, or bm25 where the index has no vectors")]


def ask(
    index: Annotated[str, typer.Option("--index", help="the index to answer from")],
    question: Annotated[
        str, typer.Argument(metavar="[QUESTION|-]", help="- reads a question a line from standard input")
    ] = "-",
    generator: Generator = "extractive",
    retriever: Retriever = None,
    history: Annotated[
        Path | None, typer.Option(help="the conversation before: JSON or JSONL of role and content")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a question on standard output")] = False,
) -> None:
    """Ask one question, or many from standard input."""
    from assistant.open import open_assistant

    before = read_history(history) if history else []
    if question != "-" and not question.strip():
        raise RequestError("the question is empty")
    assistant = open_assistant(index, generator, retriever)
    from rich.console import Console

    from assistant.show import TurnView

    console = Console(highlight=False)
    failed = 0
    questions = [question] if question != "-" else (line.strip() for line in sys.stdin if line.strip())
    for text in questions:
        view = TurnView(console, streaming=assistant.generator is not None and sys.stdout.isatty())
        try:
            reply = assistant.reply(before, text) if as_json else assistant.reply(before, text, view.on_event)
        except TurnwiseError as error:
            if question != "-":
                raise
            failed += 1
            sys.stderr.write(f"turnwise: {text!r}: {error}\n")
            continue
        if as_json:
            typer.echo(reply.model_dump_json())
        else:
            view.finish(reply)
    if failed:
        raise TurnwiseError(f"{failed} question{'s' if failed > 1 else ''} could not be answered")


def chat(
    index: Annotated[str | None, typer.Option("--index", help="default: offers the indexes there are")] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
) -> None:
    """Hold a conversation over your documents."""
    from rich.console import Console

    from assistant.open import open_assistant
    from assistant.repl import choose_index, run_chat
    from retrieval.index import list_indexes

    console = Console(highlight=False)
    name = index or choose_index([manifest.name for manifest in list_indexes()], console)
    run_chat(open_assistant(name, generator, retriever), name, console)


def read_history(path: Path) -> list[Message]:
    """A conversation from a file: a JSON list or JSON lines of {"role", "content"}, or MTRAG's {"speaker", "text"}.

    Raises:
        RequestError: every row that is not a message, with its place, at once.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"--history {path}: cannot be read ({error})") from error
    problems: list[str] = []
    rows: list[tuple[str, Any]] = []
    try:
        whole = json.loads(text)
        rows = [(f"entry {n}", row) for n, row in enumerate(whole if isinstance(whole, list) else [whole], 1)]
    except json.JSONDecodeError:
        for n, line in enumerate(text.splitlines(), 1):
            try:
                if line.strip():
                    rows.append((f"line {n}", json.loads(line)))
            except json.JSONDecodeError as error:
                problems.append(f"--history {path}, line {n}: not JSON ({error.msg})")
    messages = []
    for place, row in rows:
        message = _message(row)
        if message is None:
            problems.append(f'--history {path}, {place}: expected {{"role": "user" or "assistant", "content": text}}')
        else:
            messages.append(message)
    if problems:
        raise RequestError(problems)
    return messages


def _message(row: Any) -> Message | None:
    if not isinstance(row, dict):
        return None
    role, content = row.get("role", row.get("speaker")), row.get("content", row.get("text"))
    if role not in ("user", "assistant", "agent") or not isinstance(content, str):
        return None
    return Message(role="user" if role == "user" else "assistant", content=content)


def register(app: typer.Typer) -> None:
    """Mount `ask` and `chat`."""
    examples = (
        "turnwise ask 'How do I descale a kettle?' --index notes   ·   turnwise ask - --index notes --json < asked"
    )
    app.command("ask", epilog=f"Examples: {examples}")(ask)
    app.command("chat", epilog="Example: turnwise chat --index notes --generator openai:gpt-4o-mini")(chat)
