"""The built-in retrievers over vectors and BM25, and those of other people's code: a `Kind` each."""

from __future__ import annotations

from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, load_python, parse_spec, up_to
from turnmark.retrieval import chroma
from turnmark.retrieval.conversation import ANSWER_DECAY, ANSWERS_WEIGHT, BM25_WEIGHT, ConversationalRetriever
from turnmark.retrieval.embed import EMBEDDERS
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings
from turnmark.retrieval.search import (
    BM25_OPTIONS,
    LIST_OPTIONS,
    VARIANT_WEIGHT,
    BM25Ranker,
    Converters,
    DenseRanker,
    FusedRetriever,
    Kind,
    Options,
    Ranker,
    build_for,
    fuse_rankers,
)
from turnmark.retrieval.servers import redact
from turnmark.retrieval.sparse import encoder_option, splade_rankers
from turnmark.retrieval.types import Retriever

HYBRID_BM25_WEIGHT = 0.3
PROMPTS: Converters = {"query_prompt": str, "passage_prompt": str}
HYBRID_OPTIONS: Converters = {**BM25_OPTIONS, **LIST_OPTIONS, "weight": up_to(10)}
# SPLADE's list next to the others, if the index has its terms.
SPLADE_OPTIONS: Converters = {"splade": encoder_option, "splade_weight": up_to(10)}


def _build_with_vectors(_: Spec, options: Options, embedder: str) -> BuildSettings:
    return build_for(options, embedder, splade=options.get("splade", ""))


BM25_ONLY = Kind(
    open=lambda spec, index, options: fuse_rankers(spec, index, options, [(BM25Ranker(index), 1.0)]),
    settings=lambda _, options, __: build_for(options),
    options=BM25_OPTIONS,
)
"""`bm25[?k1=…&b=…&language=…]`."""


def _open_dense(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    info, requested = index.manifest.embedder, dense_model(spec)
    if requested and info:
        index.check_model(spec, "embedder", parse_spec(requested), info)
    return fuse_rankers(spec, index, options, [(DenseRanker(index), 1.0)])


def dense_model(spec: Spec) -> str:
    """The embedder that `dense:MODEL` means: a name of the table, or a sentence-transformers model. Else empty."""
    prompts = {key: text for key, text in spec.options.items() if key in PROMPTS}
    if spec.argument in EMBEDDERS.entries():
        return str(Spec(spec.argument, options=prompts))
    if spec.argument:
        return str(Spec("sentence-transformers", spec.argument, options=prompts))
    if prompts:
        raise RequestError(f"retriever {str(spec)!r}: {', '.join(sorted(prompts))} without a model; dense:MODEL?…")
    return ""


def _build_dense(spec: Spec, options: Options, embedder: str) -> BuildSettings:
    model = dense_model(spec)
    if model and embedder not in ("minilm", model):
        raise RequestError(f"--retriever {spec} and --embedder {embedder} name two models; give one of them")
    return build_for(options, model or embedder)


DENSE = Kind(open=_open_dense, settings=_build_dense, options={**LIST_OPTIONS, **PROMPTS}, argument=True)
"""`dense[:MODEL]`; the index must have been built with that model."""


def _open_hybrid(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    rankers: list[tuple[Ranker, float]] = [(DenseRanker(index), 1.0)]
    rankers.append((BM25Ranker(index), options.get("weight", HYBRID_BM25_WEIGHT)))
    rankers += splade_rankers(spec, index, options)
    return fuse_rankers(spec, index, options, rankers)


def _hybrid_weights(options: Options) -> str:
    return f"dense 1, bm25 {options.get('weight', HYBRID_BM25_WEIGHT):g}, rewrites {VARIANT_WEIGHT:g}"


HYBRID = Kind(
    open=_open_hybrid,
    settings=_build_with_vectors,
    options={**HYBRID_OPTIONS, **SPLADE_OPTIONS},
    weights=_hybrid_weights,
)
"""`hybrid[?weight=…&splade=MODEL&splade_weight=…&depth=…&fusion=rrf|zscore]`; `weight` is BM25's."""


def _open_conversational(spec: Spec, index: Index, options: Options) -> ConversationalRetriever:
    search = {key: value for key, value in options.items() if key in ("weight", "depth")}
    return ConversationalRetriever(str(spec), index, more_rankers=splade_rankers(spec, index, options), **search)


def _conversational_weights(options: Options) -> str:
    message = f"message 1, in context 1, rewrites 1, answers {ANSWERS_WEIGHT:g}*{ANSWER_DECAY:g}^n"
    return f"{message}; bm25 {options.get('weight', BM25_WEIGHT):g}"


CONVERSATIONAL = Kind(
    open=_open_conversational,
    settings=_build_with_vectors,
    options={key: HYBRID.options[key] for key in HYBRID.options if key != "fusion"},
    weights=_conversational_weights,
)
"""`conversational[?weight=…&splade=MODEL&splade_weight=…&depth=…&rerank=late|none|cross:MODEL]`."""


def _open_chroma(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    server = chroma.server_of(spec)
    if index.manifest.server != server:
        location = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {location}, not at {server.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return _open_hybrid(spec, index, options)


CHROMA = Kind(
    open=_open_chroma,
    settings=lambda spec, options, embedder: build_for(options, embedder, server=chroma.server_of(spec)),
    options={**HYBRID_OPTIONS, "collection": chroma.collection_option},
    weights=_hybrid_weights,
)
"""`chroma+http(s)://HOST:PORT[?collection=…]`, with `hybrid`'s options."""


def _open_python(spec: Spec, index: Index, _: Options) -> Retriever:
    factory = load_python(spec.argument, "retriever")
    try:
        result: Any = factory(index)
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {redact(error)}") from error
    lacking = [name for name in ("name", "search") if not hasattr(result, name)]
    if lacking:
        raise RequestError(f"retriever {str(spec)!r} gave a {type(result).__name__}, which lacks: {', '.join(lacking)}")
    retriever: Retriever = result
    return retriever


PYTHON = Kind(open=_open_python, settings=lambda _, options, embedder: build_for(options, embedder), argument=True)
"""`python:pkg.mod:factory`: whatever the factory returns for the index; it must have `search` and `name`."""


def _open_llama_index(spec: Spec, index: Index, _: Options) -> Retriever:
    from turnmark.retrieval.adapters import open_llama_index_retriever

    return open_llama_index_retriever(spec, index)


LLAMA_INDEX = Kind(open=_open_llama_index, settings=lambda _, options, __: build_for(options), argument=True)
"""`llama-index:pkg.mod:factory`; see `turnmark.retrieval.adapters`."""
