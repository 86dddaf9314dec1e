"""Elasticsearch by its official client: `elasticsearch+http(s)://HOST:PORT[/INDEX][?query=bm25|knn|hybrid|elser&…]`.

With INDEX an index that is there is searched, and nothing is written: its documents' ids must be our passages' ids, and
its vectors those of the option `embedder`, or else of the bundled model.
Without, the index that `turnmark index build` wrote for this retriever is. Lists are fused here, since RRF on the
server needs a paid licence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from turnmark.corpora.errors import MissingExtra, RequestError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.elastic_store import KEYS, PORT
from turnmark.retrieval.outside import address
from turnmark.retrieval.served import Served
from turnmark.retrieval.settings import BuildSettings

FORMS: Mapping[str, tuple[str, ...]] = {
    "bm25": ("bm25",), "knn": ("dense",), "hybrid": ("dense", "bm25"), "elser": ("elser",)
}  # fmt: skip
FIELDS = ("text", "title", "vector", "sparse", "inference")


def _form(text: str) -> str:
    if text not in FORMS:
        raise ValueError(f"one of {', '.join(FORMS)}")
    return text


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


def _embedder(text: str) -> str:
    from turnmark.retrieval.embed import EMBEDDERS

    try:
        return str(EMBEDDERS.check(text))
    except RequestError as error:
        raise ValueError(str(error)) from error


OPTIONS: dict[str, Callable[[str], Any]] = {"query": _form, "embedder": _embedder, **dict.fromkeys(FIELDS, _field)}
"""Beside those of BM25 and of the fusion."""


def place_of(spec: Spec) -> tuple[Served, bool]:
    """Where a spec's index is, and whether it is one that was there before: then `name` is its own name.

    Raises:
        RequestError: a wrong address, or options that do not go with it; all of it at once.
    """
    where = address(spec.url, PORT, spec.name, KEYS[0])
    problems = []
    # One name, for a pattern could find a passage twice.
    if where.path and not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", where.path):
        problems.append(
            f"retriever {spec.name!r}: {where.path!r} is not the name of one Elasticsearch index (lower case, no '/', "
            "no '*')"
        )
    if where.path and (built := sorted(spec.options.keys() & {"k1", "b", "language"})):
        problems.append(f"retriever {spec.name!r}: {', '.join(built)} belong to an index that is built; leave them out")
    if not where.path and (named := sorted(spec.options.keys() & {*FIELDS, "embedder"})):
        problems.append(
            f"retriever {spec.name!r}: {', '.join(named)} are for an index that is there; name it: {where.base}/INDEX"
        )
    if not where.path and spec.options.get("query") == "elser":
        problems.append(
            f"retriever {spec.name!r}: query=elser searches an index that is there, since its terms are made by the "
            f"server's own model; name it: {where.base}/INDEX"
        )
    if problems:
        raise RequestError(problems)
    if find_spec("elasticsearch") is None:
        raise MissingExtra(f"retriever {spec.name!r}", "elasticsearch")
    return Served(kind="elasticsearch", url=where.base, name=where.path), bool(where.path)


def settings_of(spec: Spec, embedder: str, bm25: BM25Settings) -> BuildSettings:
    """What an index for the spec is built with; see `turnmark.retrieval.registry.build_settings`.

    Beside an index that is there, passages and BM25 only; else what its queries need, and the documents on the server.
    """
    from turnmark.retrieval.embed import EMBEDDERS

    place, there = place_of(spec)
    if there:
        return BuildSettings(bm25=bm25, embedder="")
    dense = "dense" in FORMS[spec.options.get("query", "bm25")]
    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)) if dense else "", server=place)
