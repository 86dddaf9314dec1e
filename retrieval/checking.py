"""Holding an index against itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from corpora.errors import TurnmarkError
from retrieval.index import Index
from retrieval.parts import promised
from retrieval.seal import broken, strange_vectors


def verify_index(index: Index, sample: int = 8) -> list[str]:
    """Check an index against itself; an empty list means that everything holds.

    Looks at the checksums of its files, SQLite's own check, the digest of the passages, and all parts, and gives
    `sample` passages to the models again.
    """
    checks: list[Callable[[], Iterable[str]]] = [partial(broken, index), partial(_verify_passages, index)]
    checks += [partial(part.verify, index, sample) for part in promised(index.manifest)]
    checks += [partial(strange_vectors, index)] if index.manifest.embedder else []
    problems: list[str] = []
    for check in checks:
        try:
            problems += check()
        except TurnmarkError as error:
            problems.append(str(error))
    return problems


def _verify_passages(index: Index) -> Iterator[str]:
    state = index.store.check()
    if state != "ok":
        yield f"passages.db is damaged: {state}"
    elif index.store.digest() != index.manifest.digest:
        yield "passages.db holds other passages than the manifest says"
