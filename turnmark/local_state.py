"""`turnmark where` and `turnmark remove`: what Turnmark keeps on this machine, and how to delete it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from turnmark.core.command_line import CheckedCommand
from turnmark.core.console import print_json, stdin_is_terminal
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError, unknown_name
from turnmark.core.flags import AsJson, Request, RequestCommand, command_from
from turnmark.core.home import home
from turnmark.core.plural import count_phrase
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line

CACHES = {
    "centers": "what the vectors of a multilingual embedder have in common",
    "int8": "ranges of embedding models",
    "local": "converted language models",
    "ocr": "text of scanned pages",
    "unzipped": "unpacked benchmark data",
    "vllm": "files of vLLM",
}
"""Folder in the cache -> what it contains."""
DATABASES = {
    "descriptions": "descriptions of pictures; without them, pictures are described again",
    "replies": "replies of language models",
}
"""Name of an SQLite file in the cache -> what it contains."""
RUN_FOLDERS = {"runs": "runs of eval and score", "checks": "runs of check"}
"""Name of a folder that commands create in the working folder -> what it contains."""


class LocalItem(Record):
    """Something that Turnmark keeps.

    Attributes:
        name: how `remove` calls it, e.g. `indexes/notes`.
        paths: its files and folders.
        bytes: size of its files.
        what: what it is.
        removable: whether `remove` deletes it. If False, it is yours to delete.
    """

    name: str
    paths: tuple[Path, ...]
    bytes: int
    what: str
    removable: bool = True


def list_local_items() -> list[LocalItem]:
    """Return everything that Turnmark keeps: in its home folder, and runs in the working folder."""
    fetched = (*_folders("models", "model"), *_folders("data", "benchmark data"))
    return [*_indexes(), *_sessions(), *_home_files(), *fetched, *_caches(), *_runs()]


def _item(name: str, paths: Iterable[Path], what: str, removable: bool = True) -> LocalItem:
    existing = tuple(path for path in paths if path.exists())
    return LocalItem(name=name, paths=existing, bytes=sum(map(_size, existing)), what=what, removable=removable)


def _size(path: Path) -> int:
    """Return the size of a file, or of all files in a folder. Links are not followed."""
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.lstat().st_size if not file.is_dir() else 0
    return size


def _entries(folder: Path) -> list[Path]:
    """Return what a folder contains, without locks and other hidden files; empty if it does not exist."""
    return sorted(path for path in folder.glob("*") if not path.name.startswith("."))


def _indexes() -> Iterator[LocalItem]:
    from turnmark.retrieval.search.opened_index import indexes_folder
    from turnmark.retrieval.storage.manifest import read_manifest

    for path in _entries(indexes_folder()):
        manifest = None
        with suppress(TurnmarkError):
            manifest = read_manifest(path)
        what = "an unfinished or damaged index"
        if manifest is not None:
            kind = "index for a benchmark" if manifest.internal else "index"
            what = f"{kind} of {manifest.source}, {manifest.documents} documents"
        yield _item(f"indexes/{path.name}", [path], what)


def _sessions() -> Iterator[LocalItem]:
    from turnmark.assistant.sessions.session_files import list_sessions, sessions_folder

    for session in list_sessions():
        turns = count_phrase(session.turns, "turn")
        path = sessions_folder() / f"{session.name}.jsonl"
        yield _item(f"sessions/{session.name}", [path], f"conversation over {session.index}, {turns}")


def _home_files() -> Iterator[LocalItem]:
    from turnmark.assistant.config_files import CONFIG_NAME

    for name, what in (("chat_history", "what you typed into chats"), ("ratings", "your verdicts on replies")):
        if (home() / name).exists():
            yield _item(name, [home() / name], what)
    if (home() / CONFIG_NAME).exists():
        yield _item(CONFIG_NAME, [home() / CONFIG_NAME], "your configuration", removable=False)


def _folders(parent: str, what: str) -> Iterator[LocalItem]:
    for path in _entries(home() / parent):
        yield _item(f"{parent}/{path.name}", [path], what)


def _caches() -> Iterator[LocalItem]:
    caches: dict[str, list[Path]] = {}
    own = os.environ.get("TURNMARK_CACHE")
    moved = [path for path in _entries(Path(own)) if path.name in CACHES] if own else []
    for path in (*_entries(home() / "cache"), *moved):
        stem, _, suffix = path.name.partition(".")
        name = stem if stem in DATABASES and suffix in ("db", "db-wal", "db-shm") else path.name
        caches.setdefault(name, []).append(path)
    for name, paths in caches.items():
        what = CACHES.get(name) or DATABASES.get(name, "prepared benchmark data")
        yield _item(f"cache/{name}", paths, f"cache: {what}")


def _runs() -> Iterator[LocalItem]:
    for name, what in RUN_FOLDERS.items():
        folder = Path(name).absolute()
        if any(folder.glob("*/manifest.json")):
            yield _item(name, [folder], f"{what}, in the working folder", removable=False)


# --- where -----------------------------------------------------------------------------------------------------------


def where(as_json: AsJson = False) -> None:
    """Show what Turnmark keeps: indexes, conversations, models, benchmark data, caches, and runs in this folder.

    The page of `serve` and other programs keep their own files.
    """
    kept = list_local_items()
    total = sum(item.bytes for item in kept)
    if as_json:
        print_json({"home": str(home()), "bytes": total, "kept": [item.model_dump(mode="json") for item in kept]})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    typer.echo(one_line(f"{home()}: {_shown_size(total)}"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for item in kept:
        elsewhere = [str(path) for path in item.paths if not path.is_relative_to(home())]
        what = "; ".join([item.what, *elsewhere])
        table.add_row(Text(one_line(item.name)), Text(_shown_size(item.bytes)), Text(one_line(what), style="dim"))
    Console(highlight=False).print(table)
    if kept:
        typer.echo("delete with: turnmark remove NAME, e.g. " + next((i.name for i in kept if i.removable), "--all"))
    else:
        typer.echo("nothing is kept yet")


def _shown_size(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


# --- remove ----------------------------------------------------------------------------------------------------------


class RemoveRequest(Request):
    """The options of `turnmark remove`."""

    names: Annotated[
        tuple[str, ...],
        typer.Argument(metavar="[NAME...]", help="Names that `turnmark where` shows, e.g. indexes/notes or only notes"),
    ] = ()
    everything: Annotated[bool, typer.Option("--all", help="Delete everything except your configuration and runs")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")] = False
    as_json: AsJson = False


def remove(request: RemoveRequest, errors: ErrorCollector) -> None:
    """Delete what Turnmark keeps: an index, a conversation, a model, a cache, or everything."""
    removable = [item for item in list_local_items() if item.removable]
    if request.everything and request.names:
        errors.add("NAME and --all exclude each other")
    elif not request.everything and not request.names:
        errors.add("NAME is missing: `turnmark where` shows the names; --all deletes everything")
    found = [errors.collect(_find, name, removable) for name in request.names]
    if request.everything and not request.yes and not stdin_is_terminal():
        errors.add("--all deletes everything that `turnmark where` shows: confirm it with --yes")
    errors.raise_all()
    items = removable if request.everything else [item for item in found if item is not None]
    if not request.yes and stdin_is_terminal():
        size = _shown_size(sum(item.bytes for item in items))
        names = f"{len(items)} items" if request.everything else ", ".join(one_line(item.name) for item in items)
        typer.confirm(f"Delete {names} ({size}) in {one_line(home())}?", abort=True, err=True)
    removed, failures = list[str](), list[str]()
    for item in dict.fromkeys(items):
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
    app.command("where", cls=CheckedCommand, epilog="Example: turnmark where --json")(where)
    app.command(
        "remove",
        cls=RequestCommand,
        epilog="Examples: turnmark remove notes   ·   turnmark remove sessions/kettles   ·   turnmark remove --all",
    )(command_from(RemoveRequest, remove))
