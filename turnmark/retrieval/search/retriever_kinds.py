"""The kinds of retrievers: for each, its options, what its index is built with, and the function that opens it.

The function is referenced by name. This module therefore loads no search code, and the code that suggests build
commands (`turnmark.retrieval.search.rebuild_commands`) reads the same declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from turnmark.core.errors import RequestError
from turnmark.core.specs import Entry, Registry, Spec, one_of, parse_spec, up_to
from turnmark.corpora.text.languages import language_names
from turnmark.retrieval.embedding.embedders import EMBEDDERS
from turnmark.retrieval.ranking.bm25 import BM25Settings
from turnmark.retrieval.storage import chroma
from turnmark.retrieval.storage.manifest import BuildSettings
from turnmark.retrieval.storage.server_addresses import ServerLocation, address, elastic_address

_HERE = "turnmark.retrieval.search.retriever_kinds:"
_OPENERS = "turnmark.retrieval.search.retriever_factory:"
_CHROMA = Entry(_HERE + "CHROMA_KIND", "hybrid with the vectors on a Chroma server; …://HOST:PORT", "chroma")
_ELASTIC = Entry(
    _HERE + "ELASTIC_KIND", "…://HOST:PORT/INDEX; options query=bm25|knn|elser, text, vector, sparse, inference",
    "elasticsearch",
)  # fmt: skip
RETRIEVERS = Registry(
    "retriever",
    {
        "bm25": Entry(_HERE + "BM25_KIND", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry(_HERE + "DENSE_KIND", "embeddings; dense:MODEL for a model other than MiniLM"),
        "conversational": Entry(
            _HERE + "CONVERSATIONAL_KIND",
            "the default: uses the conversation, reranks by late interaction; options weight, splade, rerank=none",
        ),
        "hybrid": Entry(_HERE + "HYBRID_KIND", "dense and BM25, fused; options weight, splade"),
        "splade": Entry(_HERE + "SPLADE_KIND", "splade:MODEL, a sparse encoder", "torch"),
        "python": Entry(_HERE + "PYTHON_KIND", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(
            _HERE + "LLAMA_INDEX_KIND", "llama-index:pkg.mod:factory, a LlamaIndex retriever", "llama-index"
        ),
        **dict.fromkeys(("chroma+http", "chroma+https"), _CHROMA),
        **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), _ELASTIC),
    },
    group="turnmark.retrievers",
)
"""An entry names a `RetrieverKind`; a third party's entry point may also name a `factory(spec, index=index)`."""

Options = Mapping[str, Any]
"""The options of a spec, converted."""
Converters = Mapping[str, Callable[[str], Any]]

NO_RERANKER = "none"
LATE_RERANKER = "late"
"""The value of `rerank` for late interaction."""


@dataclass(frozen=True)
class RetrieverKind:
    """A kind of retriever: what its spec may contain, what its index is built with, and how it is opened.

    Attributes:
        open: import path of a function `(spec, index, options)` that opens a retriever over an index. It raises
            RequestError if the index was not built for the retriever.
        options: converters of the spec's options, by name.
        argument: what the spec's argument names; empty if the spec takes no argument.
        vectors: whether the index contains the vectors of an embedder.
        rerank: the value of the option `rerank` if the spec does not set it.
        other_settings: returns the fields of `BuildSettings` for a spec other than `bm25` and `embedder`.
    """

    open: str
    options: Converters = field(default_factory=dict)
    argument: Literal["", "embedder", "sparse encoder", "factory"] = ""
    vectors: bool = True
    rerank: str = NO_RERANKER
    other_settings: Callable[[Spec, Options], Mapping[str, Any]] = lambda _, options: _splade_setting(options)

    def uses_embedder_flag(self, spec: Spec) -> bool:
        """Return whether `--embedder` chooses the embedder of the index."""
        return self.vectors and not (self.argument == "embedder" and spec.argument)

    def takes_bm25_options(self) -> bool:
        """Return whether the spec takes the options of the index's BM25."""
        return self.options.keys() >= BM25_OPTIONS.keys()

    def build_settings(self, spec: Spec, options: Options, embedder: str) -> BuildSettings:
        """Return the settings of an index for a spec, its options and `--embedder`."""
        if not self.vectors:
            embedder = ""
        elif not self.uses_embedder_flag(spec):
            model = dense_model(spec)
            if embedder not in ("minilm", model):
                raise RequestError(f"--retriever {spec} and --embedder {embedder} name two models; give one of them")
            embedder = model
        return settings_for_options(options, embedder, **self.other_settings(spec, options))


def find_built_in_kind(spec: Spec) -> RetrieverKind | None:
    """Return the kind of a spec, or None if it is unknown, or a third party's, whose code is not imported."""
    entry = RETRIEVERS.entries().get(spec.name)
    if entry is None or not entry.target.startswith(_HERE):
        return None
    kind: Any = RETRIEVERS.factory(spec)
    return kind if isinstance(kind, RetrieverKind) else None


def settings_for_options(options: Options, embedder: str = "", **more: Any) -> BuildSettings:
    """Return the build settings of an index for a retriever with these options.

    Args:
        embedder: spec of the embedder; if empty, no vectors.
        more: further fields of `BuildSettings`.
    """
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in BM25_OPTIONS})
    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)) if embedder else "", **more)


def dense_model(spec: Spec) -> str:
    """Return the embedder of `dense:MODEL`, which is a registered name or a sentence-transformers model.

    Without a model, return an empty text.
    """
    known = spec.argument in EMBEDDERS.entries()
    return spec.argument if known or not spec.argument else str(Spec("sentence-transformers", spec.argument))


def chroma_server(spec: Spec) -> ServerLocation:
    """Return the Chroma server of a spec."""
    base, path = address(spec.url, chroma.PORT, spec.name, chroma.TOKEN)
    if path:
        raise RequestError(f"retriever {spec.name!r}: the address must end with the port; remove {path!r}")
    return ServerLocation(kind="chroma", url=base)


# -- options


def _language(text: str) -> str:
    if text not in language_names():
        raise ValueError(f"one of {', '.join(language_names())}")
    return text


def _splade_model(model: str) -> str:
    """Return the encoder spec of an option `splade=MODEL`."""
    spec = parse_spec(f"splade:{model}")
    if spec.url or spec.options:
        raise RequestError("a folder or a hub name, without an address or options")
    return str(spec)


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


BM25_OPTIONS: Converters = {"k1": up_to(10), "b": up_to(1), "language": _language}
HYBRID_OPTIONS: Converters = {
    **BM25_OPTIONS, "weight": up_to(10), "splade": _splade_model, "splade_weight": up_to(10),
}  # fmt: skip
CONVERSATIONAL_OPTIONS: Converters = {**HYBRID_OPTIONS, "answers": up_to(10)}
ELASTIC_OPTIONS: Converters = {
    "query": one_of("bm25", "knn", "elser"),
    **dict.fromkeys(("text", "vector", "sparse", "inference"), _field),
}


# -- settings


def _splade_setting(options: Options) -> dict[str, Any]:
    return {"splade": options.get("splade", "")}


def _splade_argument(spec: Spec, _: Options) -> dict[str, Any]:
    if not spec.argument:
        raise RequestError("retriever 'splade' needs a model: splade:MODEL, a folder or a hub name")
    return {"splade": str(Spec("splade", spec.argument))}


def _chroma_settings(spec: Spec, options: Options) -> dict[str, Any]:
    return {**_splade_setting(options), "server": chroma_server(spec)}


def _no_settings(spec: Spec, _: Options) -> dict[str, Any]:
    """Check the address of an Elasticsearch index; its passages and BM25 are also built locally."""
    elastic_address(spec)
    return {}


# -- the kinds

BM25_KIND = RetrieverKind(_OPENERS + "open_bm25", BM25_OPTIONS, vectors=False)
"""`bm25[?k1=…&b=…&language=…]`."""
DENSE_KIND = RetrieverKind(_OPENERS + "open_dense", argument="embedder")
"""`dense[:MODEL]`; the index must have been built with that model."""
HYBRID_KIND = RetrieverKind(_OPENERS + "open_hybrid", HYBRID_OPTIONS)
"""`hybrid[?weight=…&splade=MODEL&splade_weight=…]`; `weight` is BM25's."""
CONVERSATIONAL_KIND = RetrieverKind(_OPENERS + "open_conversational", CONVERSATIONAL_OPTIONS, rerank=LATE_RERANKER)
"""`conversational[?weight=…&answers=…&splade=MODEL&rerank=late|none|cross:MODEL]`; `answers` is the weight of the
earlier answers."""
SPLADE_KIND = RetrieverKind(
    _OPENERS + "open_splade", argument="sparse encoder", vectors=False, other_settings=_splade_argument
)
"""`splade:MODEL`; the index must have been built with that model."""
CHROMA_KIND = RetrieverKind(_OPENERS + "open_chroma", HYBRID_OPTIONS, other_settings=_chroma_settings)
ELASTIC_KIND = RetrieverKind(
    "turnmark.retrieval.services.elasticsearch:open_elastic",
    ELASTIC_OPTIONS,
    vectors=False,
    other_settings=_no_settings,
)
PYTHON_KIND = RetrieverKind(_OPENERS + "open_python", argument="factory")
"""`python:pkg.mod:factory`: the `Retriever` that the factory returns for the index."""
LLAMA_INDEX_KIND = RetrieverKind(
    "turnmark.retrieval.services.llama_index:open_llama_index", argument="factory", vectors=False
)
"""`llama-index:pkg.mod:factory`: a LlamaIndex retriever."""
