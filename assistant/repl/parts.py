"""Commands that change what answers, in the middle of a conversation: `/index`, `/retriever`, `/generator`, `/set`."""

from __future__ import annotations

from turnmark.assistant.open import Opened, settings_of, swapped
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.session import Changed, Swapped
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError

MOST_PASSAGES = 50


def index(chat: Chat, argument: str) -> None:
    """Answer from another index."""
    from turnmark.retrieval.index import list_indexes

    opened = _opened(chat)
    if not argument:
        _say_current(chat, "index", opened.index.manifest.name, [manifest.name for manifest in list_indexes()])
        return
    _take(chat, swapped(opened, index=argument))


def retriever(chat: Chat, argument: str) -> None:
    """Find passages in another way."""
    from turnmark.retrieval.registry import RETRIEVERS, default_retriever

    opened = _opened(chat)
    if not argument:
        spec = opened.retriever or default_retriever(opened.index)
        _say_current(chat, "retriever", spec, sorted(RETRIEVERS.entries()))
        return
    _take(chat, swapped(opened, retriever=argument))


def generator(chat: Chat, argument: str) -> None:
    """Write answers with another model, or without one."""
    from turnmark.assistant.generators import GENERATORS

    opened = _opened(chat)
    if not argument:
        _say_current(chat, "generator", opened.assistant.name, sorted(GENERATORS.entries()))
        return
    _take(chat, swapped(opened, generator=argument))


def set_(chat: Chat, argument: str) -> None:
    """Change a setting; without arguments, show them."""
    settings = settings_of(chat.assistant)
    name, _, text = argument.partition(" ")
    if not name:
        for key, current in sorted(settings.items()):
            chat.say(f"{key} = {_shown(current)}")
        return
    if name not in settings:
        raise RequestError(f"/set: no setting is called {inert(name)!r}; there are: {', '.join(sorted(settings))}")
    if not text.strip():
        chat.say(f"{name} = {_shown(settings[name])}")
        return
    value = parse_setting(name, text.strip(), settings[name])
    setattr(chat.assistant, name, value)
    chat.record(Changed(setting=name, value=value))
    chat.say(f"{name} = {_shown(value)}", style="dim")


def parse_setting(name: str, text: str, current: int | float | bool) -> int | float | bool:
    """The value of a setting that a text stands for, of the type that it has now.

    Raises:
        RequestError: it stands for none.
    """
    if isinstance(current, bool):
        if text.lower() not in ("on", "off", "true", "false"):
            raise RequestError(f"/set {name} {inert(text)}: on or off was expected")
        return text.lower() in ("on", "true")
    if isinstance(current, int):
        if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST_PASSAGES):
            raise RequestError(f"/set {name} {inert(text)}: a whole number from 1 to {MOST_PASSAGES} was expected")
        return int(text)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise RequestError(f"/set {name} {inert(text)}: a number from 0 to 1 was expected")
    return number


def parts_line(opened: Opened) -> str:
    """What answers, in a line."""
    mode = "" if opened.assistant.generator else " (no language model: answers are sentences of the documents)"
    retriever = f" · {inert(opened.retriever)}" if opened.retriever else ""
    return f"{opened.index.manifest.name}{retriever} · {inert(opened.assistant.name)}{mode}"


def take(chat: Chat, opened: Opened) -> None:
    """Go on with these parts."""
    chat.opened, chat.assistant = opened, opened.assistant


def _take(chat: Chat, opened: Opened) -> None:
    take(chat, opened)
    chat.record(swap_of(opened))
    chat.say(f"{parts_line(opened)}; the conversation goes on", style="dim")


def swap_of(opened: Opened) -> Swapped:
    """The event that says what answers from here on."""
    return Swapped(
        index=opened.index.manifest.name, generator=opened.generator, retriever=opened.retriever, steps=opened.steps
    )


def _opened(chat: Chat) -> Opened:
    if chat.opened is None:
        raise RequestError("the parts of this assistant were handed in ready-made and cannot be swapped")
    return chat.opened


def _say_current(chat: Chat, role: str, spec: str, names: list[str]) -> None:
    chat.say(f"{role}: {inert(spec)}; there are: {inert(', '.join(names))}")


def _shown(value: int | float | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else f"{value:g}"
