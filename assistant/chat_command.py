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

    console = Console(highlight=False)
    errors = ErrorCollector()
    session: Session | None = None
    notes: list[str] = []
    if resume is not None:
        from turnmark.assistant.session_files import resumed

        resumed_session = errors.collect(resumed, resume or None, not no_save)
        session, notes = resumed_session or (None, [])
    if folder is not None and resume is not None:
        errors.add("FOLDER and --resume: a session has its own index; name one of the two")
    if folder is not None and not errors.problems:
        index = _indexed(folder, index, retriever)
    choice = _Choice(index, generator, retriever, tuple(step or ()))
    if session is not None:
        source = ctx.get_parameter_source("generator")
        choice.complete(session, generator_given=source is not None and source.name == "COMMANDLINE")
    try:
        _talk(ctx, console, errors, choice, session, notes, keep=not no_save)
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


class _Choice:
    """The parts that were asked for, filled up from a session."""

    def __init__(self, index: str | None, generator: str, retriever: str | None, steps: tuple[str, ...]) -> None:
        self.index, self.generator, self.retriever, self.steps = index, generator, retriever, steps

    def complete(self, session: Session, generator_given: bool) -> None:
        """What was not asked for is as the session has it."""
        talk = session.conversation
        if self.retriever is None and self.index in (None, talk.index):
            self.retriever = talk.retriever
        self.index = self.index or talk.index
        if not generator_given:
            self.generator = talk.generator
            self.steps = self.steps or talk.steps


def _talk(
    ctx: typer.Context,
    console: Console,
    errors: ErrorCollector,
    choice: _Choice,
    session: Session | None,
    notes: list[str],
    keep: bool,
) -> None:
    from turnmark.assistant.open import open_checked
    from turnmark.assistant.repl.chat import Chat, Scores
    from turnmark.assistant.repl.loop import choose_index, confirmed, run_chat
    from turnmark.assistant.repl.parts import greet, settle, swap_of
    from turnmark.assistant.session import Began
    from turnmark.assistant.session_files import new_session
    from turnmark.retrieval.index import list_indexes

    choice.index = choice.index or None  # a damaged session may not say which
    if choice.index is None:
        choice.index = errors.collect(choose_index, [manifest.name for manifest in list_indexes()], console)
        if choice.index is None and not errors.problems:
            return
    opened = open_checked(errors, choice.index, choice.generator, choice.retriever, choice.steps)
    errors.raise_all()
    assert opened is not None, "what could not be opened is a mistake"
    current_parts = swap_of(opened)
    resumed_conversation = session.conversation if session else None
    if session is None:
        session = new_session(Began.of(current_parts), keep)
    interactive = stdin_is_terminal()
    confirm = confirmed(console) if interactive else None
    scores = ctx.obj if isinstance(ctx.obj, Scores) else None
    talk = Chat(opened.assistant, console, session, opened, scores, confirm, interactive)
    if resumed_conversation is not None:
        settle(opened, session)
        if resumed_conversation.parts != current_parts:
            talk.record(current_parts)
        for note in notes:
            talk.say(f"note: {note}", style="yellow")
        greet(talk)
    run_chat(talk)


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
        print_json({"session": name, "index": conversation.index, "exchanges": exchanges})
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
