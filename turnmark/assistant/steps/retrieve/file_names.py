"""Search the files that a message names: "in sales.csv", "what does notes/plan.md say about it?".

A passage is not found by the name of its file, so other files about the same subject may rank before the named one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from turnmark.retrieval.types import Hit, Query, Retriever

MAX_NAMED_FILES = 3
"""Maximum named files that are searched."""
_FILE_NAME = re.compile(r"[^\s\"'`“”„‘’«»‹›「」《》<>|?*()\[\]:;,，。、]+\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w.])")


def search_named_files(retriever: Retriever, query: Query, hits: Sequence[Hit], depth: int) -> list[Hit]:
    """Return the hits of a query together with hits in the files that it names, at most `depth`.

    The first half comes from these files. The other hits follow, since the name may also belong to a file of the
    person's own, such as `config.toml`.
    """
    queries = [
        query.model_copy(update={"where": {**query.where, "path": path}})
        for path in _named_paths(retriever, query.text)
    ]
    if not queries:
        return list(hits)
    named = retriever.search(queries, depth)
    share = (depth + 1) // 2 // len(queries)
    merged: dict[str, Hit] = {}
    for hit in (
        *chain.from_iterable(each[:share] for each in named),
        *hits,
        *chain.from_iterable(each[share:] for each in named),
    ):
        merged.setdefault(hit.passage.id, hit)
    return [*merged.values()][:depth]


def _named_paths(retriever: Retriever, message: str) -> Iterator[str]:
    """Yield the paths of the files that a message names, by their name or the end of their path."""
    names = dict.fromkeys(match[0].strip("/") for match in _FILE_NAME.finditer(message))
    collection = retriever.collection() if names else None
    if collection is None:
        return
    for name in [*names][:MAX_NAMED_FILES]:
        rows = collection.documents({"path": f"*{name}"})
        paths = {row.path for row in rows if row.path == name or row.path.endswith(f"/{name}")}
        if len(paths) == 1:
            yield from paths
