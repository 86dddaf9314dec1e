"""The commands of `turnmark chat`: on the last answer, the parts of the assistant, and the session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

import click
from rich.table import Table
from rich.text import Text

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.export import kiwi_files, mtrag_files, transcript
from turnmark.assistant.open import reopen_assistant
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Began, Edited, Exchange, Rating, Swapped, TurnRated, calls_line, cite
from turnmark.assistant.session_files import new_session
from turnmark.assistant.types import Reply, Search, ToolUse
from turnmark.core.console import stdin_is_terminal
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.untrusted import one_line, printable, valid_text

KEYS = """\
Alt-Enter, or a backslash at the end: a new line. Tab completes.
Ctrl-C while an answer is written cancels the answer and keeps the conversation; twice at the prompt leaves, and so \
does Ctrl-D."""
EXPORTS = ("mtrag", "kiwi", "markdown")
MOST_SHOWN = 12
"""Maximum hits of a search that `/why` lists."""


# --- the last answer -------------------------------------------------------------------------------------------------


def grade_answer(chat: Chat, _: str) -> None:
    """Print the metrics of the last answer."""
    last = chat.need_last()
    if chat.grade is None:
        raise RequestError("there are no metrics in this chat")
    rows = chat.grade(last, chat.history_before_last())
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, remark in rows:
        figure = "   -"
        if value is not None:
            figure = f"{value:.2f}" if value <= 1 else f"{value:.0f}"
        chat.say(f"{name:<{width}}  {figure:>5}  {one_line(remark)}".rstrip())


def revise(chat: Chat, argument: str) -> None:
    """Revise the last answer by the user's instruction."""
    if not argument:
        raise RequestError("/revise: how? For example: /revise make it shorter")
    chat.revise(argument)


def retry(chat: Chat, _: str) -> None:
    """Answer the last message again."""
    chat.answer_again()


def rate(chat: Chat, argument: str) -> None:
    """Rate the last answer: `good`, `neutral` or `bad`, with an optional comment."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    rating: Rating | None = next((name for name in get_args(Rating) if name == word.lower()), None)
    if rating is None:
        line = f"/rate {one_line(word)}".rstrip()
        raise RequestError(f"{line}: expected good, neutral or bad, then a comment if you like")
    chat.record(TurnRated(turn=last.turn, rating=rating, comment=comment.strip()))
    dropped = last.kind == "revise" and rating == "bad" and last.edit is None
    chat.say(f"rated {rating}{'; the earlier answer counts again' if dropped else ''}", style="dim")


def edit(chat: Chat, argument: str) -> None:
    """Record the user's version of the last answer, from the editor or from the command line."""
    last = chat.need_last("there is no answer to edit yet")
    previous = last.edit if last.edit is not None else last.reply.answer
    text = valid_text(argument or open_editor(previous)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed")
    if text == previous.strip():
        chat.say("nothing was changed", style="dim")
        return
    chat.record(Edited(turn=last.turn, text=text))
    chat.say("edited; /grade compares it with the answer", style="dim")


def open_editor(text: str) -> str:
    """Let the user edit a text in `$VISUAL`, `$EDITOR` or a default editor; return the result."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or stdin_is_terminal()):
        raise RequestError("no editor: set EDITOR to one, or give the text with the command: /edit TEXT")
    try:
        with uninterrupted():
            return click.edit(text, require_save=False, extension=".md") or ""
    except (click.ClickException, ValueError, OSError) as error:
        raise TurnmarkError(f"{error}; nothing was changed") from error


def why(chat: Chat, argument: str) -> None:
    """Print the trace of the last turn; with a number, the text of that source."""
    stopped = chat.conversation.stopped
    if stopped and not argument:
        chat.say(f"cancelled: {one_line(stopped.question)}", style="bold")
        for line in _calls(stopped.calls):
            chat.say(line, style="" if line.startswith(" ") else "bold")
        return
    last = chat.need_last()
    if argument:
        source = next((source for source in last.reply.citations if str(source.n) == argument), None)
        if source is None:
            numbers = ", ".join(str(source.n) for source in last.reply.citations)
            raise RequestError(f"/why {one_line(argument)}: no such source; there are: {numbers or 'none'}")
        chat.say(f"[{source.n}] {cite(source)}", style="bold")
        chat.say(printable(source.text))
        return
    for line in trace_lines(last):
        chat.say(line, style="" if line.startswith(" ") else "bold")


def trace_lines(exchange: Exchange) -> Iterator[str]:
    """Yield the trace of a turn in printable lines; the details of a step are indented."""
    reply = exchange.reply
    understanding = reply.trace.understanding
    yield f"question: {one_line(exchange.question)}"
    if understanding:
        traits: list[str] = [understanding.kind]
        if understanding.wants_procedure:
            traits.append("asks for steps")
        if not understanding.standalone:
            traits.append("needs the conversation")
        yield f"  understood as: {', '.join(traits)}"
    if reply.rewrite not in ("", reply.question):
        yield f"  rewritten: {one_line(reply.rewrite)}"
    if len(reply.sub_questions) > 1:
        for part in reply.sub_questions:
            yield f"  part ({'answered' if part.answered else 'not answered'}): {one_line(part.text)}"
    yield from _calls(reply.trace.calls)
    for number, search in enumerate(reply.trace.searches, 1):
        yield from _search(number, search, reply)
    yield from _outcome(exchange)
    yield from _cost(reply)
    yield f"assistant: {' · '.join(_config_words(exchange.config))}"


def _calls(calls: Sequence[ToolUse]) -> Iterator[str]:
    """Yield the tool calls of a model with their results."""
    if calls:
        yield f"the model searched: {calls_line(calls)}"
    for call in calls:
        yield f"  {call.round}. {one_line(call.line)}"


def _config_words(config: AssistantConfig) -> Iterator[str]:
    """Yield the fields of a configuration that are not defaults."""
    for name, value in config.model_dump(mode="json", exclude_defaults=True).items():
        text = " ".join(value) if isinstance(value, list) else str(value)
        yield f"{name} {one_line(text)}"


def _search(number: int, search: Search, reply: Reply) -> Iterator[str]:
    title = f"search {number}"
    if search.part is not None and len(reply.sub_questions) > 1:
        title += f", part {search.part + 1}"
    if search.round > 1:
        title += f", round {search.round}"
    yield f"{title}: {one_line(search.why)}"
    yield f"  query: {one_line(search.query)}"
    for variant in search.variants:
        yield f"  phrase: {one_line(variant)}"
    for rank, hit in enumerate(search.hits[:MOST_SHOWN], 1):
        cosine = "" if hit.similarity is None else f", cosine {hit.similarity:.3f}"
        yield f"  {rank:>2}. {hit.score:.4g}{cosine}  {one_line(hit.id)}"
    if not search.hits:
        yield "  nothing was found"


def _outcome(exchange: Exchange) -> Iterator[str]:
    """Yield decision, checks, and the user's rating."""
    reply = exchange.reply
    checks = reply.checks
    judgement = reply.trace.judgement
    yield f"decided: {reply.decision}"
    if judgement:
        yield f"  {judgement.decision}, confidence {judgement.confidence:.2f}, because {one_line(judgement.reason)}"
    for number, part in enumerate(reply.trace.parts, 1):
        yield f"  part {number}: {part.decision}, confidence {part.confidence:.2f}, {one_line(part.reason)}"
    if checks.grounded is not None:
        yield f"  grounded: {checks.grounded:.2f}, citations {'valid' if checks.citations_valid else 'not all valid'}"
    for sentence in checks.unsupported:
        yield f"  not in the documents: {one_line(sentence)}"
    if exchange.rating:
        comment = f" ({one_line(exchange.comment)})" if exchange.comment else ""
        yield f"  rated: {exchange.rating}{comment}"
    if exchange.edit is not None:
        yield "  edited by hand"


def _cost(reply: Reply) -> Iterator[str]:
    yield f"answered by: {one_line(reply.generator)}"
    if reply.timings:
        yield f"  seconds: {' · '.join(f'{one_line(step)} {value:.2f} s' for step, value in reply.timings.items())}"
    for role, usage in reply.usage.items():
        cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
        yield f"  {one_line(role)}: {calls}, {usage.prompt_tokens}{cached} + {usage.completion_tokens} tokens{cost}"
    if reply.trace.forms:
        forms = [f"{one_line(step)} {one_line(form)}" for step, form in reply.trace.forms.items()]
        yield f"  forms: {' · '.join(forms)}"
    for note in reply.notes:
        yield f"  note: {one_line(note)}"


# --- parts of the assistant ------------------------------------------------------------------------------------------


def names_for(role: str) -> list[str]:
    """Return the names for a role of the assistant: the indexes, or the names of retrievers or generators."""
    from turnmark.assistant.generators import GENERATORS
    from turnmark.retrieval.registry import RETRIEVERS
    from turnmark.retrieval.stored import list_indexes

    if role == "index":
        return [manifest.name for manifest in list_indexes()]
    return sorted({"retriever": RETRIEVERS, "generator": GENERATORS}[role].entries())


def swap(role: str) -> Callable[[Chat, str], None]:
    """Return the command that replaces a part of the assistant; without a spec, it lists the names for the role."""

    def run(chat: Chat, spec: str) -> None:
        used = getattr(chat.assistant.config, role) or "default"
        if not spec:
            chat.say(f"{role}: {one_line(used)}; there are: {one_line(', '.join(names_for(role)))}")
            return
        chat.assistant = reopen_assistant(chat.assistant, **{role: spec})  # raises if it cannot be opened
        chat.record(Swapped(**dict(chat.assistant.config)))
        chat.say(f"{parts_line(chat.assistant)}; the conversation goes on", style="dim")

    return run


def parts_line(assistant: Assistant) -> str:
    """Return the parts of the assistant in one line."""
    config = assistant.config
    mode = "" if assistant.generator else " (no language model: answers are quoted from the documents)"
    finder = f" · {one_line(config.retriever)}" if config.retriever else ""
    return f"{one_line(config.index)}{finder} · {one_line(assistant.name)}{mode}"


# --- the session -----------------------------------------------------------------------------------------------------


def save(chat: Chat, argument: str) -> None:
    """Save the session, with an optional name."""
    with uninterrupted():
        name = chat.session.save(argument or None)
    chat.say(f"kept as {name}; continue it with: turnmark chat --resume {name}", style="dim")


def clear(chat: Chat, _: str) -> None:
    """Begin a new conversation; a saved session stays saved."""
    keep = chat.session.keep
    chat.session.close()
    chat.session = new_session(Began(**dict(chat.assistant.config)), keep)
    chat.console.clear()
    chat.say("a new conversation begins", style="dim")


def export_chat(chat: Chat, argument: str) -> None:
    """Export the conversation in the format of MTRAG or KIWI, or as Markdown."""
    form, _, target = argument.partition(" ")
    if form not in EXPORTS or not target.strip():
        raise RequestError(
            f"/export: expected a format ({', '.join(EXPORTS)}) and a file, such as /export markdown talk.md"
        )
    exchanges = chat.conversation.exchanges
    name = chat.session.name
    path = Path(target.strip()).expanduser()
    if not exchanges:
        raise RequestError("there is nothing to export yet")
    benchmark = form != "markdown"
    if path.exists() and path.is_dir() != benchmark:
        raise RequestError(f"{one_line(path)}: {form} needs a {'folder' if benchmark else 'file'}")
    if form == "mtrag":
        files, note = mtrag_files(exchanges, name, path, chat.assistant.index)
    elif form == "kiwi":
        files, note = kiwi_files(exchanges, path)
    else:
        files, note = {path: transcript(exchanges, name)}, ""
    shown = one_line(path)
    if benchmark:
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        shown = f"{count} in {one_line(path)}"
    if any(file.exists() for file in files) and not chat.confirm(f"overwrite {shown}?"):
        raise RequestError(f"{shown}: exists already; nothing was written")
    for file, text in files.items():
        try:
            write_atomic(file, text)
        except OSError as error:
            raise TurnmarkError(f"{file} could not be written ({error.strerror or error})") from error
    if note:
        chat.say(f"note: {note}", style="yellow")
    score = f"; score it: turnmark eval {form} --data {one_line(path)}" if benchmark else ""
    chat.say(f"written: {shown}{score}", style="dim")


# --- by name ---------------------------------------------------------------------------------------------------------


def help_(chat: Chat, _: str) -> None:
    """Print every command with its summary."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", max_width=max(12, chat.console.width * 2 // 5))
    for name, command in COMMANDS.items():
        usage = f"{name} {command.arguments}".strip()
        table.add_row(Text(usage), Text(command.summary))
    chat.console.print(table)
    chat.say(KEYS)


def quit_(chat: Chat, _: str) -> None:
    """End the conversation."""
    chat.over = True


@dataclass(frozen=True)
class Command:
    """A command; `arguments` and `summary` are shown by `/help`."""

    arguments: str
    summary: str
    run: Callable[[Chat, str], None]


COMMANDS: dict[str, Command] = {
    "/why": Command("[N]", "how the last answer came about; with a number, the text of that source", why),
    "/grade": Command("", "what the metrics say of the last answer", grade_answer),
    "/revise": Command("TEXT", "revise the last answer as you say", revise),
    "/edit": Command("[TEXT]", "replace it with your version, from your editor", edit),
    "/rate": Command("good|neutral|bad [COMMENT]", "say what you think of it", rate),
    "/retry": Command("", "answer the last question again", retry),
    "/index": Command("[NAME]", "continue with another index", swap("index")),
    "/retriever": Command("[SPEC]", "continue with another retriever", swap("retriever")),
    "/generator": Command("[SPEC]", "continue with another model, or extractive", swap("generator")),
    "/save": Command("[NAME]", "keep the session, under a name if you give one", save),
    "/export": Command("mtrag|kiwi|markdown FILE", "write the conversation to a folder or file", export_chat),
    "/clear": Command("", "begin a new conversation", clear),
    "/help": Command("", "this list", help_),
    "/quit": Command("", "leave", quit_),
}
"""Name -> command, in the order of `/help`."""


def obey(chat: Chat, line: str) -> None:
    """Run the command in a line; report an unknown one."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        chat.say(f"{one_line(line)}: not a command{hint}; there are: {', '.join(COMMANDS)}")
    elif argument.strip() and not command.arguments and name != "/quit":
        chat.say(f"{one_line(line)}: {name} takes nothing after it")
    else:
        command.run(chat, argument.strip())
