"""Commands that change what answers, and about what is kept: `/index` … `/set`, `/save` … `/clear`, `/export`."""

from __future__ import annotations

from pathlib import Path

from turnmark.assistant.export import FORMATS, export_session
from turnmark.assistant.open import Opened, open_parts, settings_of, swapped
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Began, Changed, Swapped
from turnmark.assistant.session_files import (
    Session,
    delete_session,
    existing,
    list_sessions,
    new_session,
    resumed,
    session_lines,
)
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError, TurnmarkError

MOST_PASSAGES = 50


# --- what answers ----------------------------------------------------------------------------------------------------


def index(chat: Chat, argument: str) -> None:
    """Answer from another index."""
    from turnmark.retrieval.index import list_indexes

    opened = _opened(chat)
    if argument:
        _swap(chat, swapped(opened, index=argument))
    else:
        _say_current(chat, "index", opened.index.manifest.name, [manifest.name for manifest in list_indexes()])


def retriever(chat: Chat, argument: str) -> None:
    """Find passages in another way."""
    from turnmark.retrieval.registry import RETRIEVERS, default_retriever

    opened = _opened(chat)
    if argument:
        _swap(chat, swapped(opened, retriever=argument))
    else:
        spec = opened.retriever or default_retriever(opened.index)
        _say_current(chat, "retriever", spec, sorted(RETRIEVERS.entries()))


def generator(chat: Chat, argument: str) -> None:
    """Write answers with another model, or without one."""
    from turnmark.assistant.generators import GENERATORS

    opened = _opened(chat)
    if argument:
        _swap(chat, swapped(opened, generator=argument))
    else:
        _say_current(chat, "generator", opened.assistant.name, sorted(GENERATORS.entries()))


def set_(chat: Chat, argument: str) -> None:
    """Change a setting; without arguments, show them."""
    settings = settings_of(chat.assistant)
    name, _, text = argument.partition(" ")
    if name and name not in settings:
        raise RequestError(f"/set: no setting is called {inert(name)!r}; there are: {', '.join(sorted(settings))}")
    if not text.strip():
        for key in [name] if name else sorted(settings):
            chat.say(f"{key} = {settings[key]:g}")
        return
    value = text.strip()
    if not (value.isascii() and value.isdecimal() and len(value) < 5 and 1 <= int(value) <= MOST_PASSAGES):
        raise RequestError(f"/set {name} {inert(value)}: a whole number from 1 to {MOST_PASSAGES} was expected")
    setattr(chat.assistant, name, int(value))
    chat.record(Changed(setting=name, value=int(value)))
    chat.say(f"{name} = {int(value)}", style="dim")


def parts_line(opened: Opened) -> str:
    """What answers, in a line."""
    mode = "" if opened.assistant.generator else " (no language model: answers are sentences of the documents)"
    retriever = f" · {inert(opened.retriever)}" if opened.retriever else ""
    return f"{opened.index.manifest.name}{retriever} · {inert(opened.assistant.name)}{mode}"


def swap_of(opened: Opened) -> Swapped:
    """The event that says what answers from here on."""
    return Swapped(
        index=opened.index.manifest.name, generator=opened.generator, retriever=opened.retriever, steps=opened.steps
    )


def _take(chat: Chat, opened: Opened) -> None:
    chat.opened, chat.assistant = opened, opened.assistant


def _swap(chat: Chat, opened: Opened) -> None:
    _take(chat, opened)
    chat.record(swap_of(opened))
    chat.say(f"{parts_line(opened)}; the conversation goes on", style="dim")


def _opened(chat: Chat) -> Opened:
    if chat.opened is None:
        raise RequestError("the parts of this assistant were handed in ready-made and cannot be swapped")
    return chat.opened


def _say_current(chat: Chat, role: str, spec: str, names: list[str]) -> None:
    chat.say(f"{role}: {inert(spec)}; there are: {inert(', '.join(names))}")


# --- what is kept ----------------------------------------------------------------------------------------------------


def save(chat: Chat, argument: str) -> None:
    """Keep the session, under a name."""
    with uninterrupted():
        name = chat.session.save(argument or None)
    chat.say(f"kept as {name}; go on with it: turnmark chat --resume {name}", style="dim")


def load(chat: Chat, argument: str) -> None:
    """Go on with a session that was kept, with the parts that it ended with."""
    if not argument:
        raise RequestError("/load: which? /sessions lists them")
    if argument == chat.session.name and chat.session.kept:
        raise RequestError(f"session {argument!r} is the one you are in")
    session, notes = resumed(argument)
    parts = session.conversation.parts
    try:
        opened = open_parts(parts.index, parts.generator, parts.retriever, steps=parts.steps)
    except TurnmarkError:
        session.close()
        raise
    settle(opened, session)
    chat.session.close()
    chat.session = session
    _take(chat, opened)
    for note in notes:
        chat.say(f"note: {note}", style="yellow")
    chat.say(parts_line(opened), style="dim")
    greet(chat)


def settle(opened: Opened, session: Session) -> None:
    """Give the assistant the settings of a session."""
    settings = settings_of(opened.assistant)
    for name, value in session.conversation.settings.items():
        if name in settings and type(value) is type(settings[name]):
            setattr(opened.assistant, name, value)


def greet(chat: Chat) -> None:
    """What was said last in a session that goes on."""
    talk = chat.conversation
    count = len(talk.exchanges)
    chat.say(f"session {chat.session.name}: {count} turn{'s'[: count != 1]} so far", style="dim")
    if talk.last:
        chat.say(f"› {inert(talk.last.question)}", style="bold")
        chat.say(inert(talk.last.said), style="dim")


def sessions(chat: Chat, argument: str) -> None:
    """List the sessions, or delete one."""
    word, _, name = argument.partition(" ")
    if word == "delete" and name.strip():
        name = name.strip()
        if name == chat.session.name and chat.session.kept:
            raise RequestError(f"session {name!r} is the one you are in; leave it first (/clear begins another)")
        existing(name)
        if chat.interactive and not chat.confirm(f"delete session {inert(name)}?"):
            chat.say("nothing was deleted", style="dim")
            return
        delete_session(name)
        chat.say(f"session {name} is deleted", style="dim")
    elif argument:
        raise RequestError(f"/sessions {inert(argument)}: /sessions lists them, /sessions delete NAME deletes one")
    else:
        for line in session_lines(list_sessions()):
            chat.say(line)


def clear(chat: Chat, _: str) -> None:
    """Begin a new conversation; the old one stays where it is kept."""
    parts, keep = chat.conversation.parts, chat.session.keep
    chat.session.close()
    chat.session = new_session(Began.of(parts), keep)
    chat.console.clear()
    chat.say("a new conversation begins", style="dim")


def export(chat: Chat, argument: str) -> None:
    """Write what was said, in a format that others read."""
    words = argument.split(maxsplit=1)
    if len(words) < 2 or words[0] not in FORMATS:
        names = ", ".join(FORMATS)
        raise RequestError(f"/export: a format ({names}) and a file were expected, e.g. /export markdown talk.md")
    target, all_turns = words[1], False
    if words[0] == "mtrag" and target.endswith(" all"):
        target, all_turns = target.removesuffix(" all").strip(), True
    path = Path(target).expanduser()
    store = chat.opened.index if chat.opened else None
    plan = export_session(words[0], chat.session, path, store, all_turns)
    existing_files = [file for file in plan.files if file.exists()]
    if existing_files and not chat.confirm(f"overwrite {_files_text(existing_files, path)}?"):
        raise RequestError(f"{_files_text(existing_files, path)}: there already; nothing was written")
    plan.write()
    for note in plan.notes:
        chat.say(f"note: {inert(note)}", style="yellow")
    chat.say(f"written: {_files_text(list(plan.files), path)}", style="dim")
    if plan.advice:
        chat.say(plan.advice, style="dim")


def _files_text(files: list[Path], under: Path) -> str:
    return inert(files[0]) if len(files) == 1 else f"{len(files)} files in {inert(under)}"
