"""`turnmark chat` and `turnmark sessions`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from turnmark.corpora.console import inert, print_json, stdin_is_terminal
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError

if TYPE_CHECKING:
    from rich.console import Console

    from turnmark.assistant.open import Opened
    from turnmark.assistant.repl.chat import Scores
    from turnmark.assistant.session_files import Session

Generator = Annotated[
    str,
    typer.Option(
        "--generator",
        envvar="TURNMARK_GENERATOR",
        help="extractive (no language model), openai:MODEL[@URL], ollama:MODEL, vllm:MODEL, local:MODEL, replay:FILE …",
    ),
]
Retriever = Annotated[
    str | None, typer.Option(help="default: conversational; splade:MODEL or bm25 where the index holds only those")
]
Step = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP=FORM",
        help="another form of a step than by default, e.g. decide=llm; may be repeated",
        show_default=False,
    ),
]

LAST = ""
"""What `--resume` stands for without a name."""

sessions_app = typer.Typer(no_args_is_help=True, help="Conversations that were kept: list, show, delete.")


class ChatCommand(TyperCommand):
    """A command whose `--resume` may stand without a value: a typer option cannot."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--resume` at the end, or before another option, is `--resume=`."""
        words = list(args)
        for place, word in enumerate(words):
            if word == "--resume" and (place + 1 == len(words) or words[place + 1].startswith("-")):
                words[place] = f"--resume={LAST}"
        return super().parse_args(ctx, words)


def chat(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="documents: indexed first, or brought up to date")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option("--index", help="default: the folder's name; without a folder, offers the indexes there are"),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    step: Step = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="[SESSION]", help="go on with a kept session; without a name, the last one"),
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="keep nothing of this conversation")] = False,
) -> None:
    """Hold a conversation over your documents."""
    from rich.console import Console

    from turnmark.assistant.repl.chat import Scores

    console = Console(highlight=False)
    errors = ErrorCollector()
    session: Session | None = None
    notes: list[str] = []
    steps = tuple(step or ())
    if resume is not None:
        from turnmark.assistant.session_files import resumed

        session, notes = errors.collect(resumed, resume or None, not no_save) or (None, [])
    if folder is not None and resume is not None:
        errors.add("FOLDER and --resume: a session has its own index; name one of the two")
    if folder is not None and not errors.problems:
        index = _indexed(folder, index, retriever)
    if session is not None:  # what was not asked for is as the session has it
        parts = session.conversation.parts
        if retriever is None and index in (None, parts.index):
            retriever = parts.retriever
        index = index or parts.index or None  # a damaged session may not say which
        source = ctx.get_parameter_source("generator")
        if source is None or source.name != "COMMANDLINE":
            generator, steps = parts.generator, steps or parts.steps
    try:
        opened = _opened(errors, index, generator, retriever, steps, console)
        if opened is not None:
            scores = ctx.obj if isinstance(ctx.obj, Scores) else None
            _talk(opened, console, session, notes, scores, keep=not no_save)
    finally:
        if session is not None:
            session.close()


def _indexed(folder: Path, name: str | None, retriever: str | None) -> str:
    """Build the index of a folder, or bring it up to date; its name.

    Raises:
        TurnmarkError: the folder cannot be indexed, or the name is that of an index of something else.
    """
    from turnmark.retrieval.commands import build
    from turnmark.retrieval.index import list_indexes

    source = folder.expanduser().resolve()
    name = name or re.sub(r"[^A-Za-z0-9_-]+", "-", source.name).strip("-") or "documents"
    sources = {manifest.name: manifest.source for manifest in list_indexes()}
    if Path(sources.get(name, source)).resolve() != source:
        raise RequestError(f"the index {name!r} is of {sources[name]!r}; name another with --index")
    build(source, name, retriever)
    return name


def _opened(
    errors: ErrorCollector,
    index: str | None,
    generator: str,
    retriever: str | None,
    steps: tuple[str, ...],
    console: Console,
) -> Opened | None:
    """The parts of a chat; None: the person was asked for an index, and left.

    Raises:
        RequestError: every mistake so far, and in the parts.
    """
    from turnmark.assistant.open import open_checked
    from turnmark.assistant.repl.loop import choose_index
    from turnmark.retrieval.index import list_indexes

    if index is None:
        index = errors.collect(choose_index, [manifest.name for manifest in list_indexes()], console)
        if index is None and not errors.problems:
            return None
    opened = open_checked(errors, index, generator, retriever, steps)
    errors.raise_all()
    return opened


def _talk(
    opened: Opened, console: Console, session: Session | None, notes: list[str], scores: Scores | None, keep: bool
) -> None:
    from turnmark.assistant.repl.chat import Chat
    from turnmark.assistant.repl.loop import confirmed, run_chat
    from turnmark.assistant.repl.parts import greet, settle, swap_of
    from turnmark.assistant.session import Began
    from turnmark.assistant.session_files import new_session

    parts, resumed_conversation = swap_of(opened), session.conversation if session else None
    session = session or new_session(Began.of(parts), keep)
    interactive = stdin_is_terminal()
    chat = Chat(
        opened.assistant, console, session, opened, scores, confirmed(console) if interactive else None, interactive
    )
    if resumed_conversation is not None:
        settle(opened, session)
        if resumed_conversation.parts != parts:
            chat.record(parts)
        for note in notes:
            chat.say(f"note: {note}", style="yellow")
        greet(chat)
    run_chat(chat)


AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]
Name = Annotated[str, typer.Argument(metavar="SESSION", help="its name, as `turnmark sessions list` shows it")]


@sessions_app.command("list", epilog="Example: turnmark sessions list --json")
def list_(as_json: AsJson = False) -> None:
    """List the sessions that were kept, the last one first."""
    from turnmark.assistant.session_files import list_sessions, session_lines

    kept_sessions = list_sessions()
    if as_json:
        print_json({"sessions": [session.model_dump(mode="json") for session in kept_sessions]})
        return
    for line in session_lines(kept_sessions):
        typer.echo(line)


@sessions_app.command("show", epilog="Example: turnmark sessions show kettles")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a session as Markdown, or all that is kept of it as JSON."""
    from turnmark.assistant.export import markdown
    from turnmark.assistant.session_files import read_session

    conversation, notes = read_session(name)
    for note in notes:
        typer.echo(inert(f"note: {note}"), err=True)
    if as_json:
        exchanges = [exchange.model_dump(mode="json") for exchange in conversation.exchanges]
        print_json({"session": name, "index": conversation.parts.index, "exchanges": exchanges})
        return
    typer.echo(markdown(conversation.exchanges, name), nl=False)


@sessions_app.command("delete", epilog="Example: turnmark sessions delete kettles")
def delete(name: Name) -> None:
    """Delete a session for good."""
    from turnmark.assistant.session_files import delete_session

    try:
        delete_session(name)
    except OSError as error:
        raise TurnmarkError(f"session {name!r} could not be deleted ({error.strerror or error})") from error
    typer.echo(f"session {name} is deleted")


def register(app: typer.Typer) -> None:
    """Mount `chat` and `sessions`."""
    example = "Example: turnmark chat --index notes --generator openai:gpt-4o-mini   ·   turnmark chat --resume"
    app.command("chat", cls=ChatCommand, epilog=example)(chat)
    app.add_typer(sessions_app, name="sessions")
