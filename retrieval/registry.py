"""The registry of retrievers: what each kind takes as options, what its index is built with, and how it is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnmark.core.errors import RequestError
from turnmark.core.specs import Entry, Registry, Spec, check_options, load_python, one_of, parse_spec, up_to
from turnmark.core.untrusted import describe_error
from turnmark.corpora.languages import language_names
from turnmark.corpora.models import MODELS, SPLADE, is_complete
from turnmark.retrieval import chroma
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.embed import EMBEDDERS
from turnmark.retrieval.manifest import BuildSettings, as_built, splade_option
from turnmark.retrieval.rerank import DEPTH, LATE_DEPTH, LateReranked, Reranked, check_reranker, open_reranker
from turnmark.retrieval.search import (
    BM25_WEIGHT,
    BM25Ranker,
    ConversationalRetriever,
    DenseRanker,
    FusedRetriever,
    IndexRetriever,
    Ranker,
)
from turnmark.retrieval.servers import Served, address, no_credentials
from turnmark.retrieval.sparse import SpladeRanker
from turnmark.retrieval.stored import SearchableIndex, StoredIndex
from turnmark.retrieval.types import Retriever, check_retriever

_HERE = "turnmark.retrieval.registry:"
_CHROMA = Entry(_HERE + "CHROMA", "hybrid with the vectors on a Chroma server; …://HOST:PORT")
_ELASTIC = Entry(
    _HERE + "ELASTIC", "…://HOST:PORT/INDEX; options query=bm25|knn|elser, text, vector, sparse, inference",
    "elasticsearch",
)  # fmt: skip
RETRIEVERS = Registry(
    "retriever",
    {
        "bm25": Entry(_HERE + "BM25", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry(_HERE + "DENSE", "embeddings; dense:MODEL for another than MiniLM"),
        "conversational": Entry(
            _HERE + "CONVERSATIONAL",
            "the default: knows the turns before, reranks by late interaction; options weight, splade, rerank=none",
        ),
        "hybrid": Entry(_HERE + "HYBRID", "dense and BM25, fused; options weight, splade"),
        "splade": Entry(_HERE + "SPLADE_ONLY", "splade:MODEL, a sparse encoder"),
        "python": Entry(_HERE + "PYTHON", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(_HERE + "LLAMA_INDEX", "llama-index:pkg.mod:factory, a LlamaIndex retriever"),
        **dict.fromkeys(("chroma+http", "chroma+https"), _CHROMA),
        **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), _ELASTIC),
    },
    group="turnmark.retrievers",
)
"""An entry names a `RetrieverKind`; a third party's entry point may also name a `factory(spec, index=index)`."""

Options = Mapping[str, Any]
"""The options of a spec, converted."""
Converters = Mapping[str, Callable[[str], Any]]


def build_for(options: Options, embedder: str = "", **more: Any) -> BuildSettings:
    """Return the build settings of an index for a retriever with these options.

    Args:
        embedder: its spec; empty: no vectors.
        more: further fields of `BuildSettings`.
    """
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in BM25_OPTIONS})
    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)) if embedder else "", **more)


@dataclass(frozen=True)
class RetrieverKind:
    """A kind of retriever: how it is opened, and what its index is built with.

    Attributes:
        open: opens the retriever of a spec over an index; raises RequestError if the index was not built for it.
        settings: returns the build settings for a spec, its options and `--embedder`.
        options: converters of the spec's options, by name.
        argument: whether the spec takes an argument.
    """

    open: Callable[[Spec, SearchableIndex, Options], Retriever]
    settings: Callable[[Spec, Options, str], BuildSettings] = lambda _, options, embedder: build_for(options, embedder)
    options: Converters = field(default_factory=dict)
    argument: bool = False


def _language(text: str) -> str:
    if text not in language_names():
        raise ValueError(f"one of {', '.join(language_names())}")
    return text


def _splade(model: str) -> str:
    """Return the encoder spec of an option `splade=MODEL`."""
    spec = parse_spec(f"splade:{model}")
    if spec.url or spec.options:
        raise RequestError("a folder or a hub name, without an address or options")
    return str(spec)


BM25_OPTIONS: Converters = {"k1": up_to(10), "b": up_to(1), "language": _language}
HYBRID_OPTIONS: Converters = {**BM25_OPTIONS, "weight": up_to(10), "splade": _splade}
SPLADE_WEIGHT = 0.5
"""Weight of SPLADE's lists in a fusion, where dense lists have 1: the middle of the best values on four data sets."""

BM25 = RetrieverKind(
    open=lambda spec, index, _: FusedRetriever(str(spec), index, [(BM25Ranker(index), 1.0)]),
    settings=lambda _, options, __: build_for(options),
    options=BM25_OPTIONS,
)
"""`bm25[?k1=…&b=…&language=…]`."""


def _dense_model(spec: Spec) -> str:
    """Return the embedder of `dense:MODEL`: a registered name or a sentence-transformers model; else empty."""
    known = spec.argument in EMBEDDERS.entries()
    return spec.argument if known or not spec.argument else str(Spec("sentence-transformers", spec.argument))


def _open_dense(spec: Spec, index: SearchableIndex, _: Options) -> FusedRetriever:
    if index.manifest.embedder and (model := _dense_model(spec)):
        index.check_model(spec, "embedder", "embedder", model)
    return FusedRetriever(str(spec), index, [(DenseRanker(index), 1.0)])


def _build_dense(spec: Spec, options: Options, embedder: str) -> BuildSettings:
    model = _dense_model(spec)
    if model and embedder not in ("minilm", model):
        raise RequestError(f"--retriever {spec} and --embedder {embedder} name two models; give one of them")
    return build_for(options, model or embedder)


DENSE = RetrieverKind(open=_open_dense, settings=_build_dense, argument=True)
"""`dense[:MODEL]`; the index must have been built with that model."""


def _splade_rankers(spec: Spec, index: SearchableIndex, options: Options) -> Sequence[tuple[Ranker, float]]:
    """Return a SPLADE ranker with its weight, if the options name an encoder."""
    if "splade" not in options:
        return ()
    index.check_model(spec, "splade", "sparse encoder", options["splade"])
    return ((SpladeRanker(index), SPLADE_WEIGHT * index.manifest.share_of("splade")),)


def _open_hybrid(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    bm25 = (BM25Ranker(index), options.get("weight", BM25_WEIGHT))
    splade = _splade_rankers(spec, index, options)
    dense = (DenseRanker(index), index.manifest.share_of("dense"))
    return FusedRetriever(str(spec), index, [dense, bm25, *splade])


def _open_conversational(spec: Spec, index: SearchableIndex, options: Options) -> ConversationalRetriever:
    weight = options.get("weight", BM25_WEIGHT)
    return ConversationalRetriever(str(spec), index, weight, _splade_rankers(spec, index, options))


def _build_hybrid(_: Spec, options: Options, embedder: str) -> BuildSettings:
    return build_for(options, embedder, splade=options.get("splade", ""))


HYBRID = RetrieverKind(open=_open_hybrid, settings=_build_hybrid, options=HYBRID_OPTIONS)
"""`hybrid[?weight=…&splade=MODEL]`; `weight` is BM25's."""
CONVERSATIONAL = RetrieverKind(open=_open_conversational, settings=_build_hybrid, options=HYBRID_OPTIONS)
"""`conversational[?weight=…&splade=MODEL&rerank=late|none|cross:MODEL]`."""


def _open_splade(spec: Spec, index: SearchableIndex, _: Options) -> FusedRetriever:
    index.check_model(spec, "splade", "sparse encoder", str(Spec("splade", spec.argument)))
    return FusedRetriever(str(spec), index, [(SpladeRanker(index), 1.0)])


def _build_splade(spec: Spec, options: Options, _: str) -> BuildSettings:
    if not spec.argument:
        raise RequestError("retriever 'splade' needs a model: splade:MODEL, a folder or a hub name")
    return build_for(options, splade=str(Spec("splade", spec.argument)))


SPLADE_ONLY = RetrieverKind(open=_open_splade, settings=_build_splade, argument=True)
"""`splade:MODEL`; the index must have been built with that model."""


def _server(spec: Spec) -> Served:
    """Return the Chroma server of a spec."""
    base, path = address(spec.url, chroma.PORT, spec.name, chroma.TOKEN)
    if path:
        raise RequestError(f"retriever {spec.name!r}: an address ends with the port; leave {path!r} out")
    return Served(kind="chroma", url=base)


def _open_chroma(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    server = _server(spec)
    if index.manifest.server != server:
        location = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {location}, not at {server.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return _open_hybrid(spec, index, options)


def _build_chroma(spec: Spec, options: Options, embedder: str) -> BuildSettings:
    return build_for(options, embedder, splade=options.get("splade", ""), server=_server(spec))


CHROMA = RetrieverKind(open=_open_chroma, settings=_build_chroma, options=HYBRID_OPTIONS)


def _only_part(spec: Spec, index: SearchableIndex) -> StoredIndex:
    """Return the one stored index that a retriever searches whose passages are also kept elsewhere.

    Raises:
        RequestError: several indexes are to be searched together.
    """
    if len(index.parts) > 1:
        raise RequestError(f"retriever {str(spec)!r} searches one index at a time; give one of {index.manifest.name}")
    return index.parts[0]


def _open_elastic(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    from turnmark.retrieval.elastic import ElasticRanker

    return FusedRetriever(str(spec), index, [(ElasticRanker(spec, _only_part(spec, index), options), 1.0)])


def _build_elastic(spec: Spec, options: Options, _: str) -> BuildSettings:
    """Check the address, and build passages and BM25 locally."""
    from turnmark.retrieval.elastic import index_address

    index_address(spec)
    return build_for(options)


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


ELASTIC = RetrieverKind(
    open=_open_elastic,
    settings=_build_elastic,
    options={
        "query": one_of("bm25", "knn", "elser"),
        **dict.fromkeys(("text", "vector", "sparse", "inference"), _field),
    },
)


def _open_python(spec: Spec, index: SearchableIndex, _: Options) -> Retriever:
    factory = load_python(spec.argument, "retriever")
    try:
        result: Any = factory(index)
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {describe_error(error)}") from error
    return check_retriever(result, f"what the factory of {str(spec)!r} returns")


PYTHON = RetrieverKind(open=_open_python, argument=True)
"""`python:pkg.mod:factory`: the `Retriever` that the factory returns for the index."""


def _open_llama_index(spec: Spec, index: SearchableIndex, _: Options) -> Retriever:
    from turnmark.retrieval.adapters import open_llama_index_retriever

    _only_part(spec, index)
    return open_llama_index_retriever(spec, index)


LLAMA_INDEX = RetrieverKind(open=_open_llama_index, settings=lambda _, options, __: build_for(options), argument=True)


# --- a spec ----------------------------------------------------------------------------------------------------------

NONE = "none"
LATE = "late"


def _reranker(text: str) -> str:
    return NONE if str(parse_spec(text)) == NONE else str(check_reranker(text))


def _depth(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10_000:
        raise ValueError("an integer from 1 to 10000")
    return value


RERANK: Converters = {"rerank": _reranker, "rerank_depth": _depth}
"""Options of every retriever, read here."""


def _declared(spec: Spec) -> tuple[RetrieverKind | None, dict[str, Any]]:
    """Return the RetrieverKind of a spec (None: a third party's factory) and the spec's options.

    All invalid options are reported at once. A third party's factory reads its own options, except those of `RERANK`.
    """
    no_credentials(spec)
    if "://" in spec.options.get("rerank", ""):
        # The value is not shown: it may hold a password.
        raise RequestError(f"retriever {spec.name!r}: rerank= takes no address; rerankers run here")
    target = RETRIEVERS.factory(spec)
    kind = target if isinstance(target, RetrieverKind) else None
    if kind is None:
        reranking = {key: text for key, text in spec.options.items() if key in RERANK}
        options = check_options(replace(spec, options=reranking), RERANK, "retriever")
    else:
        if (spec.url and "+" not in spec.name) or (spec.argument and not kind.argument):
            takes = "options and an argument" if kind.argument else "options"
            raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes {takes} only")
        options = check_options(spec, {**kind.options, **RERANK}, "retriever")
    if spec.name == "conversational":
        options.setdefault("rerank", LATE)
    if spec.name in ("python", "llama-index") and options.get("rerank") == LATE:
        raise RequestError(f"retriever {str(spec)!r}: rerank=late is for our own retrievers; write rerank=cross:MODEL")
    if "rerank_depth" in options and options.get("rerank", NONE) == NONE:
        raise RequestError(f"retriever {str(spec)!r}: rerank_depth without a reranker; add rerank=late or cross:…")
    return kind, options


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """Return the build settings of an index for `retriever`."""
    spec = RETRIEVERS.check(retriever)
    kind, options = _declared(spec)
    settings = build_for(options, embedder) if kind is None else kind.settings(spec, options, embedder)
    if options.get("rerank") != LATE:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs an embedder's token vectors, which it has not")
    return settings.model_copy(update={"tokens": True})


def open_retriever(text: str, index: SearchableIndex) -> Retriever:
    """Open the retriever of a spec over an index."""
    spec = RETRIEVERS.check(text)
    kind, options = _declared(spec)
    if kind is None:
        factory_options = {key: value for key, value in spec.options.items() if key not in RERANK}
        factory_spec = replace(spec, options=factory_options)
        opened = RETRIEVERS.factory(spec)(factory_spec, index=index)
        retriever = check_retriever(opened, f"what the factory of {str(spec)!r} returns")
    else:
        retriever = kind.open(spec, index, options)
    for key in BM25_OPTIONS.keys() & options.keys():
        # These options belong to the build: values other than the index's are an error.
        built_with = getattr(index.manifest.bm25, key)
        if options[key] != built_with:
            raise RequestError(
                f"index {index.manifest.name!r} was built with {key}={built_with}, not {options[key]}; "
                f"build it again: {index.build_command(str(spec))}"
            )
    reranker = options.get("rerank", NONE)
    if reranker == NONE:
        return retriever
    if reranker != LATE:
        depth = options.get("rerank_depth", DEPTH)
        return Reranked(str(spec), retriever, open_reranker(reranker, index), depth)
    if not index.manifest.tokens:
        build_settings(text)  # raises an error if no index for this retriever can have token vectors
        index.need_tokens(str(spec))
    if not isinstance(retriever, IndexRetriever):
        raise RequestError(f"retriever {str(spec)!r}: rerank=late is for our own retrievers; write rerank=cross:MODEL")
    return LateReranked(str(spec), retriever, options.get("rerank_depth", LATE_DEPTH))


def retriever_to_build() -> str:
    """Return the spec to build for by default: conversational, with splade-tiny if it has been fetched."""
    return SPLADE.use if is_complete(MODELS[SPLADE.name]) else "conversational"


def default_retriever(index: SearchableIndex) -> str:
    """Return the spec to search an index with by default: the one that its build was given.

    Without one, it is `conversational` with every component that the index has; without vectors, the spec of what the
    index has.
    """
    manifest = index.manifest
    if manifest.retriever:
        return manifest.retriever
    if manifest.embedder:
        late = {} if manifest.tokens else {"rerank": NONE}
        return str(Spec("conversational", options=late | splade_option(manifest)))
    return as_built(manifest)
