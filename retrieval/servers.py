"""Reaching the servers that hold a component of an index, and deleting what they hold."""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.errors import TurnmarkError
from turnmark.retrieval.served import NOTE, Served, noted


def reach(place: Served) -> None:
    """Make sure that a server is there before work is done for it.

    Raises:
        TurnmarkError: it is not, or refuses.
    """
    if place.kind == "chroma":
        from turnmark.retrieval.chroma_server import connect

        connect(place)
    else:
        from turnmark.retrieval.elastic_store import greet

        greet(place.url)


def forget(folder: Path) -> list[str]:
    """Delete what servers hold for the parts in a folder, before the folder is deleted.

    Returns:
        What is left on a server that cannot be reached, or refused; a sentence each.
    """
    left = []
    for note in sorted(folder.rglob(NOTE)):
        try:
            place = noted(note.parent)
        except ValueError:
            left.append(f"{note} cannot be read; what it names is left on its server")
            continue
        try:
            if place is not None:
                _remove(place)
        except TurnmarkError as error:
            left.append(f"{place} is left on its server: {error}")
    return left


def _remove(place: Served) -> None:
    if place.kind == "chroma":
        from turnmark.retrieval.chroma_server import remove

        remove(place)
    else:
        from turnmark.retrieval.elastic_store import remove as remove_index

        remove_index(place)
