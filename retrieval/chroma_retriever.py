"""The retriever over an index whose vectors are on a Chroma server."""

from __future__ import annotations

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.chroma_server import place_of
from turnmark.retrieval.index import Index
from turnmark.retrieval.registry import open_hybrid
from turnmark.retrieval.types import Retriever


def open_chroma(spec: Spec, index: Index) -> Retriever:
    """`chroma+http(s)://HOST:PORT[?collection=…]`, with `hybrid`'s options.

    Raises:
        RequestError: the index's vectors lie elsewhere.
    """
    place = place_of(spec)
    if index.manifest.server != place:
        there = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {there}, not at {place.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return open_hybrid(spec, index)
