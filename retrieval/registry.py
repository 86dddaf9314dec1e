"""The retrievers by name, what an index must hold for each, and how one is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.models import MODELS, SPLADE, is_complete
from turnmark.corpora.specs import Entry, Registry, Spec, load_python, parse_spec
from turnmark.retrieval import elastic_store
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.chroma import hybrid_spec, place_of
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings, ModelInfo, splade_option
from turnmark.retrieval.options import (
    BM25_OPTIONS,
    LATE,
    LIST_OPTIONS,
    NONE,
    OPTIONS,
    PROMPTS,
    RERANK,
    SERVED,
    options_of,
)
from turnmark.retrieval.rerank import DEPTH, LATE_DEPTH, WEIGHT, Reranked, open_reranker
from turnmark.retrieval.search import (
    HYBRID_BM25_WEIGHT,
    SPLADE_WEIGHT,
    VARIANT_WEIGHT,
    BM25Ranker,
    DenseRanker,
    FusedRetriever,
    Ranker,
    RowRetriever,
)
from turnmark.retrieval.servers import redact
from turnmark.retrieval.sparse import SpladeRanker, encoder_spec
from turnmark.retrieval.types import Retriever

RETRIEVERS = Registry(
    "retriever",
    {
        "bm25": Entry(
            "turnmark.retrieval.registry:open_bm25", "BM25 (Lucene variant, stemmed); options k1, b, language"
        ),
        "dense": Entry("turnmark.retrieval.registry:open_dense", "embeddings; dense:MODEL for another than MiniLM"),
        "conversational": Entry(
            "turnmark.retrieval.registry:open_conversational",
            "the default: knows the turns before, reranks by late interaction; options weight, splade, rerank=none",
        ),
        "hybrid": Entry(
            "turnmark.retrieval.registry:open_hybrid", "dense and BM25, fused; options weight, splade, depth, fusion"
        ),
        "splade": Entry(
            "turnmark.retrieval.registry:open_splade", "splade:MODEL, a sparse encoder; options precision, depth"
        ),
        "python": Entry("turnmark.retrieval.registry:open_python", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(
            "turnmark.retrieval.adapters:open_llama_index", "llama-index:pkg.mod:factory, a LlamaIndex retriever"
        ),
        **dict.fromkeys(
            ("chroma+http", "chroma+https"),
            Entry(
                "turnmark.retrieval.registry:open_chroma", "hybrid with the vectors on a Chroma server; …://HOST:PORT"
            ),
        ),
        **dict.fromkeys(
            ("elasticsearch+http", "elasticsearch+https"),
            Entry(
                "turnmark.retrieval.elastic_search:open_elastic",
                "…://HOST:PORT[/INDEX]; options query=bm25|knn|hybrid|elser, text, title, vector, sparse, inference",
                "elasticsearch",
            ),
        ),
    },
    group="turnmark.retrievers",
)


_WITHOUT_VECTORS = ("bm25", "llama-index")


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """What an index for `retriever` is built with.

    Raises:
        RequestError: unknown names or options, a `dense:MODEL` beside another --embedder, or late interaction over a
            retriever without an embedder.
    """
    spec = RETRIEVERS.check(retriever)
    options = options_of(spec)
    settings = _settings(spec, options, retriever, embedder)
    if options.get("rerank") != LATE:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs an embedder's token vectors, which it has not")
    return settings.model_copy(update={"tokens": True})


def _settings(spec: Spec, options: dict[str, Any], retriever: str, embedder: str) -> BuildSettings:
    """See `build_settings`; token vectors left out."""
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in BM25_OPTIONS})
    if spec.name in SERVED:
        return _served_settings(spec, embedder, bm25)
    if spec.name in _WITHOUT_VECTORS:
        return BuildSettings(bm25=bm25, embedder="")
    if spec.name == "splade":
        return BuildSettings(bm25=bm25, embedder="", splade=str(encoder_spec(spec)))
    if model := model_spec(spec):
        if embedder not in ("minilm", model):
            raise RequestError(f"--retriever {retriever} and --embedder {embedder} name two models; give one of them")
        embedder = model
    from turnmark.retrieval.embed import EMBEDDERS

    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)), splade=options.get("splade", ""))


def _served_settings(spec: Spec, embedder: str, bm25: BM25Settings) -> BuildSettings:
    if spec.name.startswith("chroma+"):
        hybrid = build_settings(str(hybrid_spec(spec)), embedder)
        return hybrid.model_copy(update={"server": place_of(spec)})
    return elastic_store.settings_of(spec, embedder, bm25)


def model_spec(spec: Spec) -> str:
    """The embedder that `dense:MODEL` means: a name of the table, or a sentence-transformers model. Else empty.

    Raises:
        RequestError: prompts without the model that they are for.
    """
    from turnmark.retrieval.embed import EMBEDDERS

    if spec.name != "dense":
        return ""
    prompts = {key: text for key, text in spec.options.items() if key in PROMPTS}
    if not spec.argument:
        if prompts:
            raise RequestError(f"retriever {str(spec)!r}: {', '.join(sorted(prompts))} without a model; dense:MODEL?…")
        return ""
    if spec.argument in EMBEDDERS.entries():
        return str(Spec(spec.argument, options=prompts))
    return str(Spec("sentence-transformers", spec.argument, options=prompts))


def open_retriever(text: str, index: Index) -> Retriever:
    """The retriever that a spec names, over an index.

    Raises:
        RequestError: unknown name or options, or an index that was built otherwise.
    """
    spec = RETRIEVERS.check(text)
    options = options_of(spec)
    first = spec
    if not OPTIONS.get(spec.name):
        first = replace(spec, options={key: value for key, value in spec.options.items() if key not in RERANK})
    retriever: Retriever = RETRIEVERS.factory(spec)(first, index=index)
    _check_bm25(spec, index, options)
    reranker = options.get("rerank", NONE)
    if reranker == NONE:
        return retriever
    if reranker == LATE and not index.manifest.tokens:
        build_settings(text)  # a retriever for which no index can have them says so
        index.need_tokens(str(spec))
    settings = {"depth": LATE_DEPTH} if reranker == LATE else {}
    settings |= {key: options[f"rerank_{key}"] for key in ("depth", "weight") if f"rerank_{key}" in options}
    return Reranked(str(spec), retriever, open_reranker(reranker, index), **settings, rows=_rows_of(retriever, index))


def _rows_of(retriever: Retriever, index: Index) -> RowRetriever | None:
    """The retriever, if it is one of ours and finds rows of this very index; what others make of one may differ."""
    from turnmark.retrieval.conversation import ConversationalRetriever

    if type(retriever) is FusedRetriever or type(retriever) is ConversationalRetriever:
        return retriever if retriever.index is index else None
    return None


def weights_of(text: str) -> str:
    """What a spec's lists count in its fusion, in words, as manifests hold it; empty where there is one list only.

    Raises:
        RequestError: unknown name or options.
    """
    from turnmark.retrieval.conversation import ANSWER_DECAY, ANSWERS_WEIGHT, BM25_WEIGHT

    spec = RETRIEVERS.check(text)
    options = options_of(spec)
    weights = []
    if spec.name == "conversational":
        weights.append(f"message 1, in context 1, rewrites 1, answers {ANSWERS_WEIGHT:g}*{ANSWER_DECAY:g}^n")
        weights.append(f"bm25 {options.get('weight', BM25_WEIGHT):g}")
    elif spec.name == "hybrid" or spec.name.startswith("chroma+"):
        weights.append(f"dense 1, bm25 {options.get('weight', HYBRID_BM25_WEIGHT):g}, rewrites {VARIANT_WEIGHT:g}")
    reranker = options.get("rerank", NONE)
    if reranker != NONE:
        depth = options.get("rerank_depth", LATE_DEPTH if reranker == LATE else DEPTH)
        weights.append(f"{reranker} {options.get('rerank_weight', WEIGHT):g} of {depth}")
    if "splade" in options:
        weights.append(f"splade {options.get('splade_weight', SPLADE_WEIGHT):g}")
    return "; ".join(weights)


def _check_bm25(spec: Spec, index: Index, options: dict[str, Any]) -> None:
    """BM25's options belong to the build: asking for others than the index has is an error, not a surprise."""
    settings = index.manifest.bm25
    for key in BM25_OPTIONS.keys() & options.keys():
        if options[key] != getattr(settings, key):
            raise RequestError(
                f"index {index.manifest.name!r} was built with {key}={getattr(settings, key)}, not {options[key]}; "
                f"{_again(index, spec)}"
            )


def _again(index: Index, spec: Spec) -> str:
    """What to type to have the index that `spec` needs."""
    return f"build it again: {index.build_command(str(spec))}"


def _check_model(spec: Spec, index: Index, kind: str, requested: Spec, info: ModelInfo) -> None:
    """Make sure that a model that was asked for is the one that an index was built with.

    Options that are left out are the index's."""
    built_with = parse_spec(info.spec)
    same_model = (requested.name, requested.argument) == (built_with.name, built_with.argument)
    if not (same_model and requested.options.items() <= built_with.options.items()):
        raise RequestError(
            f"index {index.manifest.name!r} was built with the {kind} {info.spec!r}, not {str(requested)!r}; "
            f"{_again(index, spec)}"
        )


def open_bm25(spec: Spec, index: Index) -> Retriever:
    """`bm25[?k1=…&b=…&language=…]`."""
    return FusedRetriever(str(spec), index, [(BM25Ranker(index), 1.0)])


def open_dense(spec: Spec, index: Index) -> Retriever:
    """`dense[:MODEL]`; the index must have been built with that model."""
    options = options_of(spec)
    info = index.manifest.embedder
    requested = model_spec(spec)
    if requested and info:
        _check_model(spec, index, "embedder", parse_spec(requested), info)
    search = {key: value for key, value in options.items() if key in LIST_OPTIONS}
    return FusedRetriever(str(spec), index, [(DenseRanker(index), 1.0)], **search)


def open_hybrid(spec: Spec, index: Index) -> Retriever:
    """`hybrid[?weight=…&splade=MODEL&splade_weight=…&depth=…&fusion=rrf|zscore]`.

    `weight` is BM25's, beside 1 for the dense list.
    """
    options = options_of(spec)
    weight = options.pop("weight", HYBRID_BM25_WEIGHT)
    search = {key: value for key, value in options.items() if key in LIST_OPTIONS}
    rankers: list[tuple[Ranker, float]] = [(DenseRanker(index), 1.0), (BM25Ranker(index), weight)]
    rankers += _splade_ranker(spec, index, options)
    return FusedRetriever(str(spec), index, rankers, **search)


def open_chroma(spec: Spec, index: Index) -> Retriever:
    """`chroma+http(s)://HOST:PORT[?collection=…]`, with `hybrid`'s options.

    Raises:
        RequestError: the index's vectors lie elsewhere.
    """
    place = place_of(spec)
    if index.manifest.server != place:
        location = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {location}, not at {place.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return open_hybrid(spec, index)


def open_conversational(spec: Spec, index: Index) -> Retriever:
    """`conversational[?weight=…&splade=MODEL&splade_weight=…&depth=…&rerank=late|none|cross:MODEL]`.

    `weight` is BM25's, beside 1 for the dense list.
    """
    from turnmark.retrieval.conversation import ConversationalRetriever

    options = options_of(spec)
    search = {key: value for key, value in options.items() if key in ("weight", "depth")}
    return ConversationalRetriever(str(spec), index, more_rankers=_splade_ranker(spec, index, options), **search)


def open_splade(spec: Spec, index: Index) -> Retriever:
    """`splade:MODEL[?precision=…&depth=…&fusion=…]`; the index must have been built with that model."""
    options = options_of(spec)
    _check_splade(spec, index, encoder_spec(spec))
    search = {key: value for key, value in options.items() if key in LIST_OPTIONS}
    return FusedRetriever(str(spec), index, [(SpladeRanker(index), 1.0)], **search)


def _splade_ranker(spec: Spec, index: Index, options: dict[str, Any]) -> list[tuple[Ranker, float]]:
    """SPLADE beside other lists, where the options name an encoder, with its weight."""
    if "splade" not in options:
        return []
    _check_splade(spec, index, parse_spec(options["splade"]))
    return [(SpladeRanker(index), options.get("splade_weight", SPLADE_WEIGHT))]


def _check_splade(spec: Spec, index: Index, requested: Spec) -> None:
    """Make sure that an index has the terms of the encoder that was asked for."""
    info = index.manifest.splade
    if info is None:
        raise RequestError(f"index {index.manifest.name!r} has no SPLADE terms; {_again(index, spec)}")
    _check_model(spec, index, "sparse encoder", requested, info)


def open_python(spec: Spec, index: Index) -> Retriever:
    """`python:pkg.mod:factory`: whatever the factory returns for the index; it must have `search` and `name`."""
    factory = load_python(spec.argument, "retriever")
    try:
        result = factory(index)
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {redact(error)}") from error
    lacking = [name for name in ("name", "search") if not hasattr(result, name)]
    if lacking:
        raise RequestError(f"retriever {str(spec)!r} gave a {type(result).__name__}, which lacks: {', '.join(lacking)}")
    retriever: Retriever = result
    return retriever


def retriever_to_build() -> str:
    """The spec that an index is built for where none is given; it has splade-tiny once that is fetched."""
    return SPLADE.use if is_complete(MODELS[SPLADE.name]) else "conversational"


def default_retriever(index: Index) -> str:
    """`conversational`, as far as the index goes; where it has no vectors, its `splade:MODEL`, or else `bm25`."""
    manifest = index.manifest
    if manifest.embedder:
        late = {} if manifest.tokens else {"rerank": NONE}
        return str(Spec("conversational", options=late | splade_option(manifest)))
    return manifest.splade.spec if manifest.splade else "bm25"
