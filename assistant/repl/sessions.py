"""Commands about sessions and files: `/save`, `/load`, `/sessions`, `/clear`, `/export`."""

from __future__ import annotations

from pathlib import Path

from turnmark.assistant.export import FORMATS, export_session
from turnmark.assistant.open import Opened, open_parts, settings_of
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.parts import parts_line, take
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Began
from turnmark.assistant.session_files import Session, delete_session, existing, list_sessions, new_session, resumed
from turnmark.assistant.show import session_lines
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError, TurnmarkError


def save(chat: Chat, argument: str) -> None:
    """Keep the session, under a name."""
    with uninterrupted():
        name = chat.session.save(argument or None)
    chat.say(f"kept as {name}; go on with it: turnmark chat --resume {name}", style="dim")


def load(chat: Chat, argument: str) -> None:
    """Go on with a session that was kept."""
    if not argument:
        raise RequestError("/load: which? /sessions lists them")
    if argument == chat.session.name and chat.session.kept:
        raise RequestError(f"session {argument!r} is the one you are in")
    session, notes = resumed(argument)
    try:
        opened = restored(session)
    except TurnmarkError:
        session.close()
        raise
    chat.session.close()
    chat.session = session
    take(chat, opened)
    for note in notes:
        chat.say(f"note: {note}", style="yellow")
    chat.say(parts_line(opened), style="dim")
    greet(chat)


def restored(session: Session) -> Opened:
    """The parts that a session ended with, and its settings.

    Raises:
        RequestError: one of them cannot be had any more.
    """
    talk = session.conversation
    opened = open_parts(talk.index, talk.generator, talk.retriever, steps=talk.steps)
    settle(opened, session)
    return opened


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
    talk, keep = chat.conversation, chat.session.keep
    chat.session.close()
    began = Began.model_validate(talk.parts.model_dump(exclude={"event"}))
    chat.session = new_session(began, keep)
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
