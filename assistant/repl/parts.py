"""Commands that change what answers, and about what is kept: `/index` … `/generator`, `/save`, `/clear`, `/export`."""

from __future__ import annotations

from pathlib import Path

from turnmark.assistant.export import mtrag_files, transcript
from turnmark.assistant.open import Opened, swap_parts
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Began, Swapped
from turnmark.assistant.session_files import new_session
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import write_atomic

EXPORTS = ("mtrag", "markdown")


# --- what answers ----------------------------------------------------------------------------------------------------


def names_for(role: str) -> list[str]:
    """What there is for a role: the indexes, or the names that a spec begins with."""
    from turnmark.assistant.generators import GENERATORS
    from turnmark.retrieval.index import list_indexes
    from turnmark.retrieval.registry import RETRIEVERS

    if role == "index":
        return [manifest.name for manifest in list_indexes()]
    return sorted({"retriever": RETRIEVERS, "generator": GENERATORS}[role].entries())


def index(chat: Chat, argument: str) -> None:
    """Answer from another index."""
    _swap(chat, "index", argument)


def retriever(chat: Chat, argument: str) -> None:
    """Find passages in another way."""
    _swap(chat, "retriever", argument)


def generator(chat: Chat, argument: str) -> None:
    """Write answers with another model, or without one."""
    _swap(chat, "generator", argument)


def _swap(chat: Chat, role: str, spec: str) -> None:
    """Take another part; without a spec, say which it is and what there is. What cannot be opened changes nothing."""
    if chat.opened is None:
        raise RequestError("this chat was opened with a ready-made assistant, so its parts cannot be changed")
    if not spec:
        now = chat.opened
        used = {"index": now.index.manifest.name, "retriever": now.retriever or "default", "generator": now.generator}
        chat.say(f"{role}: {inert(used[role])}; there are: {inert(', '.join(names_for(role)))}")
        return
    chat.opened = swap_parts(chat.opened, **{role: spec})
    chat.assistant = chat.opened.assistant
    chat.record(swap_of(chat.opened))
    chat.say(f"{parts_line(chat.opened)}; the conversation goes on", style="dim")


def parts_line(opened: Opened) -> str:
    """What answers, in a line."""
    mode = "" if opened.assistant.generator else " (no language model: answers are quoted from the documents)"
    finder = f" · {inert(opened.retriever)}" if opened.retriever else ""
    return f"{opened.index.manifest.name}{finder} · {inert(opened.assistant.name)}{mode}"


def swap_of(opened: Opened) -> Swapped:
    """The event that says what answers from here on."""
    name = opened.index.manifest.name
    return Swapped(index=name, generator=opened.generator, retriever=opened.retriever, steps=opened.steps)


# --- what is kept ----------------------------------------------------------------------------------------------------


def save(chat: Chat, argument: str) -> None:
    """Keep the session, under a name."""
    with uninterrupted():
        name = chat.session.save(argument or None)
    chat.say(f"kept as {name}; continue it with: turnmark chat --resume {name}", style="dim")


def show_resumed(chat: Chat) -> None:
    """What was said last in a session that goes on."""
    last, count = chat.conversation.last, len(chat.conversation.exchanges)
    chat.say(f"session {chat.session.name}: {count} turn{'s'[: count != 1]} so far", style="dim")
    if last:
        chat.say(f"› {inert(last.question)}", style="bold")
        chat.say(inert(last.answer), style="dim")


def clear(chat: Chat, _: str) -> None:
    """Begin a new conversation; the old one stays where it is kept."""
    parts, keep = chat.conversation.parts, chat.session.keep
    chat.session.close()
    chat.session = new_session(Began(**parts.model_dump()), keep)
    chat.console.clear()
    chat.say("a new conversation begins", style="dim")


def export_chat(chat: Chat, argument: str) -> None:
    """Write what was said, in a format that others read."""
    form, _, target = argument.partition(" ")
    if form not in EXPORTS or not target.strip():
        raise RequestError(
            f"/export: expected a format ({', '.join(EXPORTS)}) and a file, such as /export markdown talk.md"
        )
    exchanges, name, path = chat.conversation.exchanges, chat.session.name, Path(target.strip()).expanduser()
    if not exchanges:
        raise RequestError("there is nothing to export yet")
    if path.exists() and path.is_dir() != (form == "mtrag"):
        raise RequestError(f"{inert(path)}: {form} needs a {'folder' if form == 'mtrag' else 'file'}")
    if form == "mtrag":
        files, note = mtrag_files(exchanges, name, path, chat.opened.index if chat.opened else None)
    else:
        files, note = {path: transcript(exchanges, name)}, ""
    shown = inert(path) if form == "markdown" else f"{len(files)} files in {inert(path)}"
    if any(file.exists() for file in files) and not chat.confirm(f"overwrite {shown}?"):
        raise RequestError(f"{shown}: exists already; nothing was written")
    for file, text in files.items():
        try:
            write_atomic(file, text)
        except OSError as error:
            raise TurnmarkError(f"{file} could not be written ({error.strerror or error})") from error
    if note:
        chat.say(f"note: {note}", style="yellow")
    score = f"; score it: turnmark eval mtrag --data {inert(path)}" if form == "mtrag" else ""
    chat.say(f"written: {shown}{score}", style="dim")
