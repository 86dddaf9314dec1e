"""The retrievers over vectors and BM25, a `Kind` each; and a retriever from its spec, over an index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.models import MODELS, SPLADE, is_complete
from turnmark.corpora.specs import Spec, check_options, load_python, parse_spec, up_to
from turnmark.retrieval import chroma
from turnmark.retrieval.conversation import ANSWER_DECAY, ANSWERS_WEIGHT, BM25_WEIGHT, ConversationalRetriever
from turnmark.retrieval.embed import EMBEDDERS
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings, as_built, splade_option
from turnmark.retrieval.rerank import DEPTH, LATE_DEPTH, WEIGHT, Reranked, check_reranker, open_reranker
from turnmark.retrieval.search import (
    BM25_OPTIONS,
    LIST_OPTIONS,
    VARIANT_WEIGHT,
    BM25Ranker,
    Converters,
    DenseRanker,
    FusedRetriever,
    IndexRetriever,
    Kind,
    Options,
    Ranker,
    build_for,
    depth_option,
    fuse_rankers,
)
from turnmark.retrieval.servers import no_credentials, redact
from turnmark.retrieval.sparse import SPLADE_WEIGHT, encoder_option, splade_rankers
from turnmark.retrieval.table import RETRIEVERS
from turnmark.retrieval.types import Retriever

__all__ = ["RETRIEVERS", "build_settings", "default_retriever", "open_retriever", "retriever_to_build", "weights_of"]

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


# --- a spec ----------------------------------------------------------------------------------------------------------

NONE = "none"
LATE = "late"


def _reranker(text: str) -> str:
    return NONE if str(parse_spec(text)) == NONE else str(check_reranker(text))


RERANK: Converters = {"rerank": _reranker, "rerank_depth": depth_option, "rerank_weight": up_to(10)}
"""Options that every retriever takes and that are read here."""


def declared_kind(spec: Spec) -> Kind | None:
    """What the table's line of a spec's name declares; None for a factory of somebody else."""
    target = RETRIEVERS.factory(spec)
    return target if isinstance(target, Kind) else None


def options_of(spec: Spec) -> dict[str, Any]:
    """The options of a spec, converted; what a retriever does not take is refused, all at once.

    Of a factory, which reads its own options, only those of `RERANK`.
    """
    no_credentials(spec)
    if "://" in spec.options.get("rerank", ""):
        # Not repeated: there may be a password in it.
        raise RequestError(f"retriever {spec.name!r}: rerank= takes no address; rerankers run here")
    kind = declared_kind(spec)
    if kind is None:
        reranking = {key: text for key, text in spec.options.items() if key in RERANK}
        options = check_options(replace(spec, options=reranking), RERANK, "retriever")
    else:
        _check_form(spec, kind)
        options = check_options(spec, {**kind.options, **RERANK}, "retriever")
    if spec.name == "conversational":
        options.setdefault("rerank", LATE)
    if spec.name == "llama-index" and options.get("rerank") == LATE:
        raise RequestError(
            f"retriever {str(spec)!r}: rerank=late knows the passages of an index only, and what LlamaIndex finds "
            "need not be among them; leave it out, or write rerank=cross:MODEL"
        )
    if "splade_weight" in options and "splade" not in options:
        raise RequestError(f"retriever {str(spec)!r}: splade_weight without a model; add splade=MODEL")
    if options.get("rerank", NONE) == NONE and (dangling := sorted(options.keys() & RERANK.keys() - {"rerank"})):
        raise RequestError(
            f"retriever {str(spec)!r}: {', '.join(dangling)} without a reranker; add rerank=late or cross:…"
        )
    return options


def _check_form(spec: Spec, kind: Kind) -> None:
    """Make sure that a spec has no argument or address that its retriever does not take."""
    if spec.name in ("python", "llama-index"):
        if spec.url:
            raise RequestError(f"retriever {str(spec)!r}: write {spec.name}:package.module:factory, without an address")
    elif (spec.url and "+" not in spec.name) or (spec.argument and not kind.argument):
        raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes options only")


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """What an index for `retriever` is built with."""
    spec = RETRIEVERS.check(retriever)
    options, kind = options_of(spec), declared_kind(spec)
    settings = build_for(options, embedder) if kind is None else kind.settings(spec, options, embedder)
    if options.get("rerank") != LATE:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs an embedder's token vectors, which it has not")
    return settings.model_copy(update={"tokens": True})


def open_retriever(text: str, index: Index) -> Retriever:
    """The retriever that a spec names, over an index."""
    spec = RETRIEVERS.check(text)
    options, kind = options_of(spec), declared_kind(spec)
    if kind is None:
        own_spec = replace(spec, options={key: value for key, value in spec.options.items() if key not in RERANK})
        retriever: Retriever = RETRIEVERS.factory(spec)(own_spec, index=index)
    else:
        retriever = kind.open(spec, index, options)
    _check_bm25(spec, index, options)
    reranker = options.get("rerank", NONE)
    if reranker == NONE:
        return retriever
    if reranker == LATE and not index.manifest.tokens:
        build_settings(text)  # a retriever for which no index can have them says so
        index.need_tokens(str(spec))
    # One with a search of its own, or over another index, may find what is not one of our rows.
    rows = None
    if isinstance(retriever, IndexRetriever) and type(retriever).search is IndexRetriever.search:
        rows = retriever if retriever.index is index else None
    settings = {"depth": LATE_DEPTH} if reranker == LATE else {}
    settings |= {key: options[f"rerank_{key}"] for key in ("depth", "weight") if f"rerank_{key}" in options}
    return Reranked(str(spec), retriever, open_reranker(reranker, index), **settings, rows=rows)


def weights_of(text: str) -> str:
    """What a spec's lists count in its fusion, in words, as manifests hold it; empty if there is one list only."""
    spec = RETRIEVERS.check(text)
    options, kind = options_of(spec), declared_kind(spec)
    weights = [kind.weights(options)] if kind else []
    reranker = options.get("rerank", NONE)
    if reranker != NONE:
        depth = options.get("rerank_depth", LATE_DEPTH if reranker == LATE else DEPTH)
        weights.append(f"{reranker} {options.get('rerank_weight', WEIGHT):g} of {depth}")
    if "splade" in options:
        weights.append(f"splade {options.get('splade_weight', SPLADE_WEIGHT):g}")
    return "; ".join(filter(None, weights))


def _check_bm25(spec: Spec, index: Index, options: dict[str, Any]) -> None:
    """BM25's options belong to the build: asking for others than the index has is an error, not a surprise."""
    settings = index.manifest.bm25
    for key in BM25_OPTIONS.keys() & options.keys():
        if options[key] != getattr(settings, key):
            raise RequestError(
                f"index {index.manifest.name!r} was built with {key}={getattr(settings, key)}, not {options[key]}; "
                f"build it again: {index.build_command(str(spec))}"
            )


def retriever_to_build() -> str:
    """The spec that an index is built for if none is given; it has splade-tiny once that is fetched."""
    return SPLADE.use if is_complete(MODELS[SPLADE.name]) else "conversational"


def default_retriever(index: Index) -> str:
    """`conversational`, as far as the index goes; if it has no vectors, what it was built for."""
    manifest = index.manifest
    if manifest.embedder:
        late = {} if manifest.tokens else {"rerank": NONE}
        return str(Spec("conversational", options=late | splade_option(manifest)))
    return "bm25" if manifest.server else as_built(manifest)
