"""`turnmark where` and `turnmark remove`: what Turnmark keeps on this machine, and how to delete it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from turnmark.assistant.config_files import CONFIG_NAME
from turnmark.core.console import print_json, stdin_is_terminal
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError, unknown_name
from turnmark.core.flags import AsJson, Request, RequestCommand, command_from
from turnmark.core.home import home
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line

CONTENTS = {
    "indexes": "an index", "sessions": "a conversation", "models": "a model", "data": "benchmark data",
    "cache": "a cache", "": "your configuration, ratings or what you typed into chats",
}  # fmt: skip
"""Folder below the home folder -> what each of its entries is."""
MOVED_CACHES = ("centers", "int8")
"""Folders that are in `$TURNMARK_CACHE` if it is set, next to files of others."""


class LocalItem(Record):
    """Something that Turnmark keeps.

    Attributes:
        name: how `remove` calls it, e.g. `indexes/notes`.
        paths: its files and folders.
        bytes: size of its files.
        what: what it is.
    """

    name: str
    paths: tuple[Path, ...]
    bytes: int
    what: str


def list_local_items() -> list[LocalItem]:
    """Return everything in the home folder, without locks and other hidden files."""
    items = []
    for folder, what in CONTENTS.items():
        paths = sorted(path for path in (home() / folder).glob("*") if not path.name.startswith("."))
        own = [path for path in paths if folder or path.name not in CONTENTS]
        if folder == "cache" and (moved := os.environ.get("TURNMARK_CACHE")):
            own += [path for name in MOVED_CACHES if (path := Path(moved) / name).exists()]
        # An SQLite database consists of several files with the same stem.
        for stem, group in groupby(own, lambda path: path.stem if path.is_file() else path.name):
            files = tuple(group)
            name = f"{folder}/{stem}" if folder else files[0].name
            items.append(LocalItem(name=name, paths=files, bytes=sum(map(_size, files)), what=what))
    return items


def _size(path: Path) -> int:
    """Return the size of a file, or of all files in a folder. Links are not followed."""
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.lstat().st_size if not file.is_dir() else 0
    return size


def where(as_json: AsJson = False) -> None:
    """Show what Turnmark keeps: indexes, conversations, models, benchmark data and caches.

    Runs stay where `--out` puts them. The page of `serve` and other programs keep their own files.
    """
    kept = list_local_items()
    total = sum(item.bytes for item in kept)
    if as_json:
        print_json({"home": str(home()), "bytes": total, "kept": [item.model_dump(mode="json") for item in kept]})
        return
    typer.echo(f"{one_line(home())}: {_shown_size(total)}")
    for item in kept:
        typer.echo(f"{_shown_size(item.bytes):>9}  {one_line(item.name)}: {item.what}")
    typer.echo("delete with: turnmark remove NAME" if kept else "nothing is kept yet")


def _shown_size(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


class RemoveRequest(Request):
    """The options of `turnmark remove`."""

    names: Annotated[
        tuple[str, ...],
        typer.Argument(metavar="[NAME...]", help="Names that `turnmark where` shows, e.g. indexes/notes or only notes"),
    ] = ()
    everything: Annotated[bool, typer.Option("--all", help="Delete everything except your configuration")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")] = False
    as_json: AsJson = False


def remove(request: RemoveRequest, errors: ErrorCollector) -> None:
    """Delete what Turnmark keeps: an index, a conversation, a model or a cache. A terminal asks for confirmation."""
    kept = list_local_items()
    found = [errors.collect(_find, name, kept) for name in request.names]
    if request.everything == bool(request.names):
        errors.add("NAME is missing: `turnmark where` shows the names; --all, without a name, deletes everything")
    if request.everything and not request.yes and not stdin_is_terminal():
        errors.add("--all deletes everything that `turnmark where` shows: confirm it with --yes")
    errors.raise_all()
    everything = [item for item in kept if item.name != CONFIG_NAME]
    items = everything if request.everything else list(dict.fromkeys(item for item in found if item is not None))
    if not request.yes and stdin_is_terminal():
        listed = ", ".join(f"{one_line(item.name)} ({_shown_size(item.bytes)})" for item in items)
        typer.confirm(f"Delete {listed}?", abort=True, err=True)
    removed, failures = list[str](), list[str]()
    for item in items:
        try:
            _delete(item)
        except (TurnmarkError, OSError) as error:  # the others are deleted all the same
            failures.append(f"{item.name}: {error}")
            continue
        removed.append(item.name)
        if not request.as_json:
            typer.echo(f"{one_line(item.name)}: removed ({_shown_size(item.bytes)})")
    if request.as_json:
        print_json({"removed": removed, "failed": failures})
    if failures:
        raise TurnmarkError("\n".join(failures))


def _find(name: str, items: list[LocalItem]) -> LocalItem:
    """Return the item with this name, or the only one whose name ends with it."""
    exact = [item for item in items if item.name == name]
    matching = exact or [item for item in items if item.name.rpartition("/")[2] == name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise RequestError(f"{name!r} may be {' or '.join(item.name for item in matching)}; write the whole name")
    labels = [item.name if "/" in name else item.name.rpartition("/")[2] for item in items]
    raise RequestError(f"{unknown_name('kept item', name, labels)} (`turnmark where` shows them)")


def _delete(item: LocalItem) -> None:
    """Delete an item. An index that is being built and a conversation that is open are refused."""
    from turnmark.assistant.sessions.session_files import delete_session
    from turnmark.retrieval.index.components import remove_index

    kind, _, name = item.name.partition("/")
    if kind == "indexes":
        remove_index(name)
    elif kind == "sessions":
        delete_session(name)
    else:
        for path in item.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def add_local_state_commands(app: typer.Typer) -> None:
    """Mount `where` and `remove`."""
    app.command("where", epilog="Example: turnmark where --json")(where)
    app.command(
        "remove",
        cls=RequestCommand,
        epilog="Examples: turnmark remove notes sessions/kettles   ·   turnmark remove --all",
    )(command_from(RemoveRequest, remove))
