"""`turnmark ask`, `turnmark chat` and `turnmark sessions`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from turnmark.assistant.config import (
    EXTRACTIVE_SPEC,
    AssistantConfig,
    ConfigOverIndex,
    Generators,
    split_generators,
    with_index,
    without_index,
)
from turnmark.core.command_line import CommandGroup
from turnmark.core.console import print_json, stdin_is_terminal, stdin_lines
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.flags import AsJson, Request, RequestCommand, command_from
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line, valid_text
from turnmark.corpora.types import Message
from turnmark.retrieval.commands import DESCRIBE_NEEDS_FOLDER, DescribeSpec

if TYPE_CHECKING:
    from turnmark.assistant.repl.terminal_chat import Grade
    from turnmark.assistant.turn.assistant import Assistant
    from turnmark.retrieval.commands import CarryOut

WatchFolder = Annotated[
    bool, typer.Option("--watch", help="Watch the folder and index changed files at once, until Ctrl-C")
]

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="[FOLDER]", help="Documents to index first, or to bring up to date", show_default=False),
]

# --- ask -------------------------------------------------------------------------------------------------------------


class AskRequest(Request):
    """The options of `turnmark ask`. With several generators, their replies are shown side by side."""

    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION|-", help="-: read questions from standard input, one per line", show_default=False
        ),
    ] = None
    folder: Folder = None
    describe: DescribeSpec = None
    assistant: ConfigOverIndex = AssistantConfig()
    generator: Generators = (EXTRACTIVE_SPEC,)
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Earlier messages: JSON or JSONL of role and content")
    ] = None
    as_json: AsJson = False


def run_ask(request: AskRequest, errors: ErrorCollector) -> None:
    """Ask one question, or many from standard input; with several --generator, models answer side by side."""
    from turnmark.assistant.repl.generator_answers import answer_side_by_side, open_assistants
    from turnmark.assistant.turn.assistant import Assistant

    question = request.question
    if question is None and stdin_is_terminal():
        errors.add(
            "no question: write one in quotes, or read one per line from a file: turnmark ask - --index NAME < FILE"
        )
    if question is not None and not question.strip():
        errors.add("the question is empty")
    earlier = (errors.collect(read_history, request.history) if request.history else None) or []
    generators = split_generators(request.generator)
    config = request.assistant.model_copy(update={"generator": generators[0]})
    if request.folder is not None:
        errors.collect(open_assistants, without_index(config), generators)
        config = _over_folder(request, config, errors, err=True)
    elif request.describe is not None:
        errors.add(DESCRIBE_NEEDS_FOLDER)
    config = with_index(config, errors)
    answer: Callable[[str, bool], None] | None = None
    if len(generators) > 1:
        if assistants := errors.collect(open_assistants, config, generators):
            answer = partial(answer_side_by_side, assistants, earlier)
    elif assistant := errors.collect(Assistant.from_config, config):
        answer = partial(_answer, assistant, earlier)
    errors.raise_all()
    assert answer is not None, "a part that could not be opened has been reported"
    if question not in (None, "-"):
        answer(valid_text(question), request.as_json)
        return
    failed = 0
    for line in filter(None, map(str.strip, stdin_lines())):
        try:
            answer(line, request.as_json)
        except TurnmarkError as error:  # a question that fails does not stop the others
            failed += 1
            sys.stderr.write(f"turnmark: {one_line(repr(line))}: {one_line(error)}\n")
    if failed:
        raise TurnmarkError(f"{count_phrase(failed, 'question')} could not be answered")


def _answer(assistant: Assistant, history: list[Message], question: str, as_json: bool) -> None:
    """Answer one question on standard output; with `as_json` also a failure is written there, as an object."""
    if as_json:
        try:
            reply = assistant.reply(history, question)
        except TurnmarkError as error:
            default_kind = "request" if isinstance(error, RequestError) else "failed"
            kind = getattr(error, "kind", default_kind)
            print_json({"question": question, "error": {"kind": kind, "message": str(error)}})
            raise
        print_json(reply.model_dump(mode="json"))
        return
    from rich.console import Console

    from turnmark.assistant.repl.screen import TurnView

    streaming = assistant.generator is not None
    with TurnView(Console(highlight=False), streaming=streaming, index=assistant.index) as view:
        view.finish(assistant.reply(history, question, view.on_event))


class HistoryMessage(BaseModel):
    """A message in a file: role and content, or MTRAG's speaker and text."""

    role: Literal["user", "assistant", "agent"] = Field(validation_alias=AliasChoices("role", "speaker"))
    content: str = Field(validation_alias=AliasChoices("content", "text"), pattern=r"\S")


_ROWS = TypeAdapter(list[HistoryMessage])


def read_history(path: Path) -> list[Message]:
    """Read a conversation: a JSON list or JSON lines of {"role", "content"}, or of MTRAG's {"speaker", "text"}."""
    label = f"--history {one_line(path)}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise RequestError(f"{label}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    errors = ErrorCollector()
    rows: list[HistoryMessage] = []
    lines = [text] if text.lstrip().startswith("[") else text.split("\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.lstrip().startswith("["):
                rows += _ROWS.validate_json(line)
            elif line.strip():
                rows.append(HistoryMessage.model_validate_json(line))
        except ValidationError as error:
            place = label if line is text else f"{label}, line {number}"
            for problem in error.errors():
                location = [f"entry {key + 1}" if isinstance(key, int) else key for key in problem["loc"]]
                errors.add(one_line(f"{', '.join([place, *location])}: {problem['msg']}"))
    errors.raise_all()
    if not rows:
        raise RequestError(f"{label}: contains no message; leave out --history to begin a conversation")
    if rows[-1].role == "user":
        raise RequestError(
            f"{label}: ends with a message of the user; it must end with the assistant's, as the question follows"
        )
    return [
        Message(role="user" if row.role == "user" else "assistant", content=valid_text(row.content)) for row in rows
    ]


# --- chat ------------------------------------------------------------------------------------------------------------


class ChatCommand(RequestCommand):
    """A command whose `--resume` needs no value: a typer option always does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let `--resume` without a name resume the most recently used session."""
        bare = (word == "--resume" and after.startswith("-") for word, after in pairwise([*args, "-"]))
        return super().parse_args(ctx, ["--resume=" if each else word for word, each in zip(args, bare, strict=True)])


class ChatSessionRequest(Request):
    """The options of `turnmark chat`."""

    folder: Folder = None
    describe: DescribeSpec = None
    assistant: ConfigOverIndex = AssistantConfig()
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="[SESSION]", help="Continue a kept session; without a name, the last one"),
    ] = None
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not keep this conversation")] = False
    watch: WatchFolder = False


def start_chat(request: ChatSessionRequest, errors: ErrorCollector, grade: Grade | None = None) -> None:
    """Hold a conversation over your documents. Without FOLDER or --index, you choose one of your indexes."""
    from rich.console import Console

    from turnmark.assistant.repl.chat_commands import COMMANDS
    from turnmark.assistant.repl.chat_loop import choose_index, prompt_session, run_chat
    from turnmark.assistant.repl.prompt_during_build import PromptDuringBuild
    from turnmark.assistant.sessions.session_files import resume_session
    from turnmark.assistant.turn.assistant import Assistant
    from turnmark.retrieval.index.folder_watch import Watches

    console = Console(highlight=False)
    session = waiting = None
    config = request.assistant
    if request.folder is not None and request.resume is not None:
        errors.add("FOLDER and --resume exclude each other, as a session has an index already")
    elif request.folder is not None:
        errors.collect(Assistant.from_config, without_index(config))
        if stdin_is_terminal():
            waiting = PromptDuringBuild(console, prompt_session(COMMANDS, not request.no_save))
        config = _over_folder(request, config, errors, carry_out=waiting.carry_out if waiting else None)
    elif request.describe is not None:
        errors.add(DESCRIBE_NEEDS_FOLDER)
    with ExitStack() as stack:
        if request.resume is not None:
            session = errors.collect(resume_session, request.resume or None, not request.no_save)
        if session is not None:
            stack.callback(session.close)
            config = _resumed_config(request, session.conversation.config)
        if not config.index and (session is not None or request.resume is None):
            errors.collect(Assistant.from_config, config)  # a mistake is reported before the user is asked
            config = config.model_copy(update={"index": choose_index(console, errors)})
        assistant = errors.collect(Assistant.from_config, config)
        news: SimpleQueue[str] = SimpleQueue()
        watches = None
        building = waiting.building if waiting else None
        if request.watch and assistant is not None and assistant.index is not None:
            after = building.wait if building else lambda: None
            watches = errors.collect(Watches, assistant.index, news.put, after)
        errors.raise_all()
        assert assistant is not None, "a part that could not be opened has been reported"
        if watches is not None:
            stack.enter_context(watches)
        if waiting is not None and building is not None:
            building.announce(news.put)
            stack.callback(waiting.leave)
        entered, typed = (waiting.question, waiting.typed) if waiting else ("", "")
        status = building.describe if building else lambda: ""
        run_chat(assistant, console, session, not request.no_save, grade, news, entered, typed, status)


def _resumed_config(request: ChatSessionRequest, kept: AssistantConfig) -> AssistantConfig:
    """Return the configuration of a resumed session: settings on the command line replace those it was kept with."""
    typed = {name: getattr(request.assistant, name) for name in request.typed & set(AssistantConfig.model_fields)}
    if typed.get("index", kept.index) != kept.index:
        typed.setdefault("retriever", None)  # the kept retriever was for another index
    if "generator" in typed:
        typed.setdefault("steps", ())  # the kept forms may not fit another model
    if not kept.index:  # a damaged session file may lack the index
        typed.setdefault("index", request.assistant.index)
    return kept.model_copy(update=typed)


def _over_folder(
    request: AskRequest | ChatSessionRequest,
    config: AssistantConfig,
    errors: ErrorCollector,
    err: bool = False,
    carry_out: CarryOut | None = None,
) -> AssistantConfig:
    """Index the folder of a request, or bring its index up to date, and return the configuration over it.

    Args:
        err: whether the build is reported on standard error.
        carry_out: function that carries out the build, or None to build with a progress bar.
    """
    from turnmark.retrieval.commands import build_with_bar, index_folder

    assert request.folder is not None, "called for a request with a folder"
    typed = config.index if "index" in request.typed else ""
    carry_out = carry_out or build_with_bar
    text = (request.question if isinstance(request, AskRequest) else None) or ""
    names = index_folder(request.folder, typed, config.retriever, errors, err, carry_out, request.describe, text)
    return config.model_copy(update={"index": names})


# --- sessions --------------------------------------------------------------------------------------------------------

sessions_app = CommandGroup(help="List kept conversations.")


@sessions_app.command("list", epilog="Example: turnmark sessions list --json")
def list_sessions_command(as_json: AsJson = False) -> None:
    """List the kept sessions, most recently used first."""
    from turnmark.assistant.sessions.session_files import NO_SESSION, list_sessions

    sessions = list_sessions()
    if as_json:
        print_json({"sessions": [session.model_dump(mode="json") for session in sessions]})
        return
    for session in sessions:
        typer.echo(session.line)
    if not sessions:
        typer.echo(NO_SESSION)


def add_assistant_commands(app: typer.Typer, grade: Grade | None = None) -> None:
    """Mount `ask`, `chat` and `sessions`.

    Args:
        grade: measures an answer for `/grade` of the chat, or None if there are no metrics.
    """

    def chat(request: ChatSessionRequest, errors: ErrorCollector) -> None:
        start_chat(request, errors, grade)

    chat.__doc__ = start_chat.__doc__
    examples = (
        "turnmark ask 'How do I descale a kettle?' --index notes   ·   turnmark ask - --index notes --json < asked   ·"
        "   turnmark ask 'How do I descale a kettle?' --index notes --generator extractive --generator ollama:llama3.2"
    )
    app.command("ask", cls=RequestCommand, epilog=f"Examples: {examples}")(command_from(AskRequest, run_ask))
    example = "Example: turnmark chat --index notes --generator openai:gpt-4o-mini   ·   turnmark chat --resume"
    app.command("chat", cls=ChatCommand, epilog=example)(command_from(ChatSessionRequest, chat))
    app.add_typer(sessions_app, name="sessions")
