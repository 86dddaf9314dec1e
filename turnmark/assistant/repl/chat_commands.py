"""The commands of `turnmark chat`: about the last answer, the parts of the assistant, and the session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import click
from rich.table import Table
from rich.text import Text

from turnmark.assistant.citations.provenance import provenance_lines
from turnmark.assistant.config import EXTRACTIVE_SPEC, AssistantConfig
from turnmark.assistant.repl.screen import ignore_interrupts, show_answer
from turnmark.assistant.repl.terminal_chat import TerminalChat
from turnmark.assistant.sessions.conversation import (
    AssistantSwapped,
    Exchange,
    Rating,
    SessionBegan,
    TurnEdited,
    TurnRated,
    calls_line,
    cite,
    picture_line,
)
from turnmark.assistant.sessions.export import kiwi_files, list_files, mtrag_files, transcript
from turnmark.assistant.sessions.session_files import list_sessions, new_session, resume_session
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.reopen import reopen_assistant
from turnmark.assistant.types import Reply, Search, ToolUse
from turnmark.assistant.wording.phrases import defined_subject, is_same_wording
from turnmark.core.console import stdin_is_terminal
from turnmark.core.errors import RequestError, TurnmarkError, nearest_name
from turnmark.core.home import write_atomic
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import make_printable, one_line, valid_text
from turnmark.retrieval.index.document_list import document_table
from turnmark.retrieval.storage.filters import parse_where

KEY_HELP = """\
Alt-Enter, or a backslash at the end of the line, starts a new line. Tab completes commands and names.
Ctrl-C cancels an answer that is being written. To leave, press Ctrl-D, or Ctrl-C twice at the prompt."""
EXPORT_FORMATS = ("mtrag", "kiwi", "markdown")
DEFAULT_RETRIEVER = "default"
"""The name in `/retriever` for the default retriever of the index."""
MAX_SHOWN_DOCUMENTS = 100
"""Maximum documents that `/documents` lists."""
MAX_SHOWN_HITS = 12
"""Maximum hits of a search that `/why` lists."""


# --- the last answer -------------------------------------------------------------------------------------------------


def grade_answer(chat: TerminalChat, _: str) -> None:
    """Print the metrics of the last answer."""
    last = chat.need_last()
    if chat.grade is None:
        raise RequestError("this chat has no metrics; start it with: turnmark chat")
    rows = chat.grade(last, chat.history_before_last())
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, remark in rows:
        figure = "   -"
        if value is not None:
            figure = f"{value:.2f}" if value <= 1 else f"{value:.0f}"
        chat.say(f"{name:<{width}}  {figure:>5}  {one_line(remark)}".rstrip())


def revise(chat: TerminalChat, argument: str) -> None:
    """Revise the last answer by the user's instruction."""
    if not argument:
        raise RequestError("/revise: an instruction is missing, e.g. /revise make it shorter")
    chat.revise(argument)


def retry(chat: TerminalChat, _: str) -> None:
    """Answer the last message again."""
    chat.answer_again()


def rate(chat: TerminalChat, argument: str) -> None:
    """Rate the last answer: `good`, `neutral` or `bad`, with an optional comment."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    rating: Rating | None = next((name for name in get_args(Rating) if name == word.lower()), None)
    if rating is None:
        line = f"/rate {one_line(word)}".rstrip()
        raise RequestError(f"{line}: expected good, neutral or bad, then an optional comment")
    chat.record(TurnRated(turn=last.turn, rating=rating, comment=comment.strip()))
    dropped = last.kind == "revise" and rating == "bad" and last.edit is None
    chat.say(f"rated {rating}{'; the earlier answer is used again' if dropped else ''}", style="dim")


def edit(chat: TerminalChat, argument: str) -> None:
    """Record the user's version of the last answer, from the editor or from the command line."""
    last = chat.need_last("there is no answer to edit yet")
    previous = last.edit if last.edit is not None else last.reply.answer
    text = valid_text(argument or open_editor(previous)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed (use /rate bad to reject an answer)")
    if text == previous.strip():
        chat.say("nothing was changed", style="dim")
        return
    chat.record(TurnEdited(turn=last.turn, text=text))
    chat.say("edited; /grade compares it with the answer", style="dim")


def open_editor(text: str) -> str:
    """Let the user edit a text in `$VISUAL`, `$EDITOR` or a default editor; return the result."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or stdin_is_terminal()):
        raise RequestError("no editor is set; set EDITOR, or give the text with the command: /edit TEXT")
    try:
        with ignore_interrupts():
            return click.edit(text, require_save=False, extension=".md") or ""
    except (click.ClickException, ValueError, OSError) as error:
        raise TurnmarkError(f"{error}; nothing was changed") from error


def explain(chat: TerminalChat, argument: str) -> None:
    """Print the trace of the last turn; with a number, the text of that source."""
    stopped = chat.conversation.stopped
    if stopped and not argument:
        chat.say(f"canceled: {one_line(stopped.question)}", style="bold")
        _say_lines(chat, _call_lines(stopped.calls))
        return
    last = chat.need_last()
    if argument:
        source = next((source for source in last.reply.citations if str(source.n) == argument), None)
        if source is None:
            numbers = ", ".join(str(source.n) for source in last.reply.citations)
            raise RequestError(
                f"/why {one_line(argument)}: unknown source (expected one of: {numbers})"
                if numbers
                else "the last answer has no sources"
            )
        chat.say(f"[{source.n}] {cite(source)}", style="bold")
        chat.say(make_printable(source.text))
        _say_lines(chat, provenance_lines(source))
        if about_picture := picture_line(source):
            chat.say(about_picture, style="dim")
        return
    _say_lines(chat, trace_lines(last))


def _say_lines(chat: TerminalChat, lines: Iterable[str]) -> None:
    """Print lines; those that are not indented are headings."""
    for line in lines:
        chat.say(line, style="" if line.startswith(" ") else "bold")


def trace_lines(exchange: Exchange) -> Iterator[str]:
    """Yield the trace of a turn as printable lines; the details of a step are indented."""
    reply = exchange.reply
    understanding = reply.trace.understanding
    yield f"question: {one_line(exchange.question)}"
    if understanding:
        traits: list[str] = [understanding.kind]
        if understanding.wants_procedure:
            traits.append("asks for steps")
        if not understanding.standalone:
            traits.append("needs the conversation")
        subject = defined_subject(exchange.question)
        if subject and reply.generator == EXTRACTIVE_SPEC:
            traits.append(f"asks for the definition of “{one_line(subject)}”")
        yield f"  understood as: {', '.join(traits)}"
    if reply.rewrite and not is_same_wording(reply.rewrite, reply.question):
        yield f"  rewritten: {one_line(reply.rewrite)}"
    if len(reply.sub_questions) > 1:
        for part in reply.sub_questions:
            yield f"  part ({'answered' if part.answered else 'not answered'}): {one_line(part.text)}"
    if reply.trace.reasoning:
        yield "the model's reasoning:"
        yield from (f"  {line}" for line in make_printable(reply.trace.reasoning).splitlines() if line.strip())
    yield from _call_lines(reply.trace.calls)
    for number, search in enumerate(reply.trace.searches, 1):
        yield from _search_lines(number, search, reply)
    yield from _outcome_lines(exchange)
    yield from _cost_lines(reply)
    yield f"assistant: {' · '.join(_config_words(exchange.config))}"


def _call_lines(calls: Sequence[ToolUse]) -> Iterator[str]:
    if calls:
        yield f"the model searched: {calls_line(calls)}"
    for call in calls:
        yield f"  {call.round}. {one_line(call.line)}"


def _config_words(config: AssistantConfig) -> Iterator[str]:
    for name, value in config.model_dump(mode="json", exclude_defaults=True).items():
        text = " ".join(value) if isinstance(value, list) else str(value)
        yield f"{name} {one_line(text)}"


def _search_lines(number: int, search: Search, reply: Reply) -> Iterator[str]:
    title = f"search {number}"
    if search.part is not None and len(reply.sub_questions) > 1:
        title += f", part {search.part + 1}"
    yield f"{title}: {one_line(search.why)}"
    yield f"  query: {one_line(search.query)}"
    for variant in search.variants:
        yield f"  phrase: {one_line(variant)}"
    for rank, hit in enumerate(search.hits[:MAX_SHOWN_HITS], 1):
        cosine = "" if hit.similarity is None else f", cosine {hit.similarity:.3f}"
        yield f"  {rank:>2}. {hit.score:.4g}{cosine}  {one_line(hit.id)}"
    if not search.hits:
        yield "  no passages found"


def _outcome_lines(exchange: Exchange) -> Iterator[str]:
    reply = exchange.reply
    checks = reply.checks
    judgment = reply.trace.judgement
    yield f"decided: {reply.decision}"
    if judgment:
        yield f"  {judgment.decision}, confidence {judgment.confidence:.2f}, because {one_line(judgment.reason)}"
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


def _cost_lines(reply: Reply) -> Iterator[str]:
    yield f"answered by: {one_line(reply.generator)}"
    if reply.timings:
        yield f"  seconds: {' · '.join(f'{one_line(step)} {value:.2f} s' for step, value in reply.timings.items())}"
    for role, usage in reply.usage.items():
        cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        calls = count_phrase(usage.calls, "call")
        yield f"  {one_line(role)}: {calls}, {usage.prompt_tokens}{cached} + {usage.completion_tokens} tokens{cost}"
    if reply.trace.forms:
        forms = [f"{one_line(step)} {one_line(form)}" for step, form in reply.trace.forms.items()]
        yield f"  forms: {' · '.join(forms)}"
    for note in reply.notes:
        yield f"  note: {one_line(note)}"


# --- parts of the assistant ------------------------------------------------------------------------------------------


def names_for(role: str) -> list[str]:
    """Return the possible names for a role of the assistant: index, retriever or generator."""
    from turnmark.assistant.llm.generators.registry import GENERATORS
    from turnmark.retrieval.search.opened_index import list_indexes
    from turnmark.retrieval.search.retriever_kinds import RETRIEVERS

    if role == "index":
        return [manifest.name for manifest in list_indexes()]
    if role == "retriever":
        return sorted({*RETRIEVERS.entries(), DEFAULT_RETRIEVER})
    return sorted(GENERATORS.entries())


def make_swap(role: str) -> Callable[[TerminalChat, str], None]:
    """Return the command that replaces a part of the assistant; without an argument, it lists the possible names."""

    def run(chat: TerminalChat, spec: str) -> None:
        if not spec:
            used = getattr(chat.assistant.config, role) or DEFAULT_RETRIEVER
            chat.say(f"{role}: {one_line(used)} (available: {one_line(', '.join(names_for(role)))})")
            return
        value = None if (role, spec) == ("retriever", DEFAULT_RETRIEVER) else spec
        chat.assistant = reopen_assistant(chat.assistant, **{role: value})  # raises if it cannot be opened
        chat.record(AssistantSwapped(**dict(chat.assistant.config)))
        chat.say(f"{parts_line(chat.assistant)}; the conversation continues", style="dim")

    return run


def parts_line(assistant: Assistant) -> str:
    """Return the parts of the assistant in one line."""
    config = assistant.config
    mode = "" if assistant.generator else " (no language model: answers are quoted from the documents)"
    finder = f" · {one_line(config.retriever)}" if config.retriever else ""
    where = f" · where {one_line(' '.join(config.where))}" if config.where else ""
    return f"{one_line(config.index)}{finder}{where} · {one_line(assistant.name)}{mode}"


def filter_documents(chat: TerminalChat, conditions: str) -> None:
    """Answer only from documents that match; without conditions, show those that hold."""
    if conditions:
        try:
            where = () if conditions.lower() == "off" else tuple(shlex.split(conditions))
        except ValueError as error:
            raise RequestError(f"/where: {error}; write values with spaces in quotes, e.g. 'title=My notes'") from error
        chat.assistant = reopen_assistant(chat.assistant, where=where)  # raises if a condition is wrong
        chat.record(AssistantSwapped(**dict(chat.assistant.config)))
    where = chat.assistant.config.where
    index = chat.assistant.index
    if where and index is not None:
        chat.say(index.describe_filtered(parse_where(where)), style="dim")
    else:
        chat.say("all documents are searched; filter with e.g. /where date>=2025-01 tags=baking", style="dim")


def show_documents(chat: TerminalChat, words: str) -> None:
    """List the documents, or those with a passage that contains all of the words."""
    index = chat.assistant.index
    if index is None:
        raise RequestError("this chat has no index")
    documents = index.documents(words)
    chat.console.print(document_table(documents[:MAX_SHOWN_DOCUMENTS]))
    more = len(documents) - MAX_SHOWN_DOCUMENTS
    if more > 0:
        chat.say(f"and {more} more; `turnmark documents {one_line(index.name)}` lists all", style="dim")
    chat.say(f"{len(documents)} of {index.store.document_count} documents", style="dim")


# --- the session -----------------------------------------------------------------------------------------------------


def save(chat: TerminalChat, argument: str) -> None:
    """Save the session, with an optional name."""
    with ignore_interrupts():
        name = chat.session.save(argument or None)
    chat.say(f"saved as {name}; continue it with: turnmark chat --resume {name}", style="dim")


def clear(chat: TerminalChat, _: str) -> None:
    """Start a new conversation; the session so far stays saved."""
    keep = chat.session.keep
    chat.session.close()
    chat.session = new_session(SessionBegan(**dict(chat.assistant.config)), keep)
    chat.console.clear()
    chat.say("started a new conversation", style="dim")


def show_sessions(chat: TerminalChat, _: str) -> None:
    """List the kept conversations, most recently used first."""
    for session in list_sessions():
        chat.say(session.line)
    chat.say(f"this is {chat.session.name}; /resume NAME continues another", style="dim")


def resume(chat: TerminalChat, name: str) -> None:
    """Continue a kept conversation with its own assistant; the one so far stays saved."""
    if not name or name == chat.session.name:
        raise RequestError("/resume: name another session; /sessions lists them")
    session = resume_session(name, chat.session.keep)
    try:
        chat.assistant = reopen_assistant(chat.assistant, **dict(session.conversation.config))
    except TurnmarkError:
        session.close()
        raise
    chat.session.close()
    chat.session = session
    show_session(chat)


def show_session(chat: TerminalChat) -> None:
    """Show where a resumed conversation was: its number of turns, and the last of them."""
    if chat.session.note:
        chat.say(f"note: {chat.session.note}", style="yellow")
    turns = count_phrase(len(chat.conversation.exchanges), "turn")
    chat.say(f"session {chat.session.name}: {turns} so far", style="dim")
    if last := chat.conversation.last:
        chat.say(f"› {one_line(last.question)}", style="bold")
        show_answer(chat.console, last.reply.model_copy(update={"answer": last.answer}))


def export_chat(chat: TerminalChat, argument: str) -> None:
    """Export the conversation in the format of MTRAG or KIWI, or as Markdown."""
    form, _, target = argument.partition(" ")
    if form not in EXPORT_FORMATS or not target.strip():
        raise RequestError(
            f"/export: expected a format ({', '.join(EXPORT_FORMATS)}) and a file, e.g. /export markdown talk.md"
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
        tables = chat.assistant.index.tables if chat.assistant.index else None
        lists = list_files(exchanges, path, tables) if tables else {}
        note = f"lists as CSV: {', '.join(one_line(file.name) for file in lists)}" if lists else ""
        files |= lists
    shown = f"{count_phrase(len(files), 'file')} in {one_line(path)}" if benchmark else one_line(path)
    if any(file.exists() for file in files) and not chat.confirm(f"overwrite {shown}?"):
        raise RequestError(f"{shown}: would overwrite existing files; nothing was written (choose another name)")
    for file, text in files.items():
        try:
            write_atomic(file, text)
        except OSError as error:
            raise TurnmarkError(f"{file} cannot be written ({error.strerror or error})") from error
    if note:
        chat.say(f"note: {note}", style="yellow")
    score = f"; score it with: turnmark eval {form} --data {one_line(path)}" if benchmark else ""
    chat.say(f"wrote {shown}{score}", style="dim")


# --- by name ---------------------------------------------------------------------------------------------------------


def show_help(chat: TerminalChat, _: str) -> None:
    """Print every command with its summary."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", max_width=max(12, chat.console.width * 2 // 5))
    for name, command in COMMANDS.items():
        table.add_row(Text(f"{name} {command.arguments}".strip()), Text(command.summary))
    chat.console.print(table)
    chat.say(KEY_HELP)


def leave(chat: TerminalChat, _: str) -> None:
    """End the conversation."""
    chat.over = True


@dataclass(frozen=True)
class SlashCommand:
    """A command of the chat; `/help` shows `arguments` and `summary`."""

    arguments: str
    summary: str
    run: Callable[[TerminalChat, str], None]


COMMANDS: dict[str, SlashCommand] = {
    "/why": SlashCommand("[N]", "explain the last answer; with a number, show the text of that source", explain),
    "/grade": SlashCommand("", "measure the last answer", grade_answer),
    "/revise": SlashCommand("TEXT", "revise the last answer, e.g. make it shorter", revise),
    "/edit": SlashCommand("[TEXT]", "replace the last answer with your version; without TEXT, in your editor", edit),
    "/rate": SlashCommand("good|neutral|bad [COMMENT]", "rate the last answer", rate),
    "/retry": SlashCommand("", "answer the last question again", retry),
    "/documents": SlashCommand("[WORDS]", "list the documents, or those that contain all of the words", show_documents),
    "/where": SlashCommand(
        "[KEY=GLOB …|off]", "answer only from documents that match, e.g. date>=2025-01 folder=bread", filter_documents
    ),
    "/index": SlashCommand("[NAME]", "switch to another index; without NAME, list the indexes", make_swap("index")),
    "/retriever": SlashCommand(
        "[SPEC]", "switch to another retriever; without SPEC, list the names", make_swap("retriever")
    ),
    "/generator": SlashCommand(
        "[SPEC]",
        "switch to another model, or extractive for none; without SPEC, list the names",
        make_swap("generator"),
    ),
    "/save": SlashCommand("[NAME]", "save the session, optionally under a name", save),
    "/export": SlashCommand(
        "mtrag|kiwi|markdown FILE", "write the conversation to a folder (mtrag, kiwi) or file (markdown)", export_chat
    ),
    "/sessions": SlashCommand("", "list the kept conversations", show_sessions),
    "/resume": SlashCommand("NAME", "continue another conversation", resume),
    "/clear": SlashCommand("", "start a new conversation", clear),
    "/help": SlashCommand("", "list the commands", show_help),
    "/quit": SlashCommand("", "end the chat", leave),
}
"""Name -> command, in the order of `/help`."""


def run_command(chat: TerminalChat, line: str) -> None:
    """Run the command in a line; report an unknown command."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = nearest_name(name, COMMANDS)
        hint = f" (did you mean {near}?)" if near else ""
        chat.say(f"{one_line(name)}: unknown command{hint}; /help lists the commands")
    elif argument.strip() and not command.arguments and name != "/quit":
        chat.say(f"{one_line(line)}: {name} takes no argument")
    else:
        command.run(chat, argument.strip())
