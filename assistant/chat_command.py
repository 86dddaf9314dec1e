"""`turnmark chat` and `turnmark sessions`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from turnmark.corpora.console import inert, print_json, stdin_is_terminal
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.flags import AsJson, HelpAll

if TYPE_CHECKING:
    from turnmark.assistant.session_files import ChatSession

Generator = Annotated[
    str,
    typer.Option(
        "--generator",
        envvar="TURNMARK_GENERATOR",
        metavar="SPEC",
        show_envvar=False,
        help="such as openai:MODEL[@URL], ollama:MODEL, local:MODEL; extractive needs no model",
    ),
]
Retriever = Annotated[
    str | None, typer.Option(metavar="SPEC", help="default: conversational, as far as the index allows")
]
Step = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP=FORM",
        help="another form of a step, such as retrieve=agent; repeatable",
        hidden=True,
    ),
]

sessions_app = typer.Typer(no_args_is_help=True, help="Conversations that were kept: list, show, delete.")


class ChatCommand(TyperCommand):
    """A command whose `--resume` needs no value: a typer option always does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--resume` at the end, or before another option, is `--resume=`: the session used last."""
        following = [*args[1:], "-"]
        words = [
            "--resume=" if word == "--resume" and after.startswith("-") else word
            for word, after in zip(args, following, strict=bool(args))
        ]
        return super().parse_args(ctx, words)


def _is_typed(ctx: typer.Context, option: str) -> bool:
    """Whether an option was given on the command line, not in a variable or a configuration file."""
    source = ctx.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def chat(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="documents: indexed first, or brought up to date")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            metavar="NAME",
            envvar="TURNMARK_INDEX",
            show_envvar=False,
            help="default: the folder's name, or a choice of all indexes",
        ),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    step: Step = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="[SESSION]", help="go on with a kept session; without a name, the last one"),
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="keep nothing of this conversation")] = False,
    help_all: HelpAll = False,  # noqa: ARG001
) -> None:
    """Hold a conversation over your documents."""
    from rich.console import Console

    from turnmark.assistant.open import open_checked
    from turnmark.assistant.repl.chat import Chat
    from turnmark.assistant.repl.loop import choose_index, make_confirm, run_chat
    from turnmark.assistant.repl.parts import show_resumed, swap_of
    from turnmark.assistant.session import Began
    from turnmark.assistant.session_files import new_session, resume_session
    from turnmark.retrieval.index import list_indexes

    console = Console(highlight=False)
    errors = ErrorCollector()
    session: ChatSession | None = None
    notes: list[str] = []
    steps = tuple(step or ())
    if folder is not None and resume is not None:
        errors.add("FOLDER and --resume: a session has an index already; name one of the two")
    elif resume is not None:
        session, notes = errors.collect(resume_session, resume or None, not no_save) or (None, [])
    elif folder is not None:
        index = _indexed(folder, index, retriever)
    try:
        if session is not None:  # what was not asked for is as the session has it
            parts = session.conversation.parts
            typed = index if _is_typed(ctx, "index") else None
            if retriever is None and typed in (None, parts.index):
                retriever = parts.retriever
            index = typed or parts.index or index  # a damaged session may not say which
            if not _is_typed(ctx, "generator"):
                generator, steps = parts.generator, steps or parts.steps
        if index is None:
            index = errors.collect(choose_index, [manifest.name for manifest in list_indexes()], console)
            if index is None and not errors.problems:
                return  # the person left
        opened = open_checked(errors, index, generator, retriever, steps)
        errors.raise_all()
        assert opened is not None, "what could not be opened is a mistake"
        used, goes_on = swap_of(opened), session is not None
        session = session or new_session(Began(**used.model_dump(exclude={"event"})), not no_save)
        interactive, grade = stdin_is_terminal(), ctx.obj if callable(ctx.obj) else None
        ask_person = make_confirm(console) if interactive else None
        talk = Chat(opened.assistant, console, session, opened, grade, ask_person, interactive)
        if goes_on:
            if session.conversation.parts.model_dump() != used.model_dump(exclude={"event"}):
                talk.record(used)
            for note in notes:
                talk.say(f"note: {note}", style="yellow")
            show_resumed(talk)
        run_chat(talk)
    finally:
        if session is not None:
            session.close()


def _indexed(folder: Path, name: str | None, retriever: str | None) -> str:
    """Build the index of a folder, or bring it up to date; its name."""
    from turnmark.retrieval.commands import build
    from turnmark.retrieval.index import list_indexes

    source = folder.expanduser().resolve()
    name = name or re.sub(r"[^A-Za-z0-9_-]+", "-", source.name).strip("-") or "documents"
    sources = {manifest.name: manifest.source for manifest in list_indexes()}
    if Path(sources.get(name, source)).resolve() != source:
        raise RequestError(f"the index {name!r} is of {sources[name]!r}; name another with --index")
    build(source, name, retriever)
    return name


Name = Annotated[str, typer.Argument(metavar="SESSION", help="its name, as `turnmark sessions list` shows it")]


@sessions_app.command("list", epilog="Example: turnmark sessions list --json")
def list_sessions_command(as_json: AsJson = False) -> None:
    """List the sessions that were kept, the last one first."""
    from turnmark.assistant.session_files import list_sessions, session_lines

    sessions = list_sessions()
    if as_json:
        print_json({"sessions": [session.model_dump(mode="json") for session in sessions]})
    else:
        typer.echo("\n".join(session_lines(sessions)))


@sessions_app.command("show", epilog="Example: turnmark sessions show kettles")
def show_session(name: Name, as_json: AsJson = False) -> None:
    """Show a session as Markdown, or all that is kept of it as JSON."""
    from turnmark.assistant.export import transcript
    from turnmark.assistant.session_files import read_session

    conversation, notes = read_session(name)
    for note in notes:
        typer.echo(inert(f"note: {note}"), err=True)
    if as_json:
        exchanges = [exchange.model_dump(mode="json") for exchange in conversation.exchanges]
        print_json({"session": name, "index": conversation.parts.index, "exchanges": exchanges})
    else:
        typer.echo(transcript(conversation.exchanges, name), nl=False)


@sessions_app.command("delete", epilog="Example: turnmark sessions delete kettles")
def delete_session_command(name: Name) -> None:
    """Delete a session for good."""
    from turnmark.assistant.session_files import delete_session

    try:
        delete_session(name)
    except OSError as error:
        raise TurnmarkError(f"session {name!r} could not be deleted ({error.strerror or error})") from error
    typer.echo(f"session {name} is deleted")


def add_chat_commands(app: typer.Typer) -> None:
    """Mount `chat` and `sessions`."""
    example = "Example: turnmark chat --index notes --generator openai:gpt-4o-mini   ·   turnmark chat --resume"
    app.command("chat", cls=ChatCommand, epilog=example)(chat)
    app.add_typer(sessions_app, name="sessions")
