"""The retrievers by name: the options in their specs, what an index must hold for each, and how one is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.models import MODELS, SPLADE, is_complete
from turnmark.corpora.specs import Entry, Registry, Spec, check_options, load_python, one_of, parse_spec, up_to
from turnmark.retrieval import chroma, elastic_store
from turnmark.retrieval.bm25 import BM25Settings, languages
from turnmark.retrieval.conversation import ANSWER_DECAY, ANSWERS_WEIGHT, BM25_WEIGHT, ConversationalRetriever
from turnmark.retrieval.embed import EMBEDDERS
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings, ModelInfo, splade_option
from turnmark.retrieval.rerank import DEPTH, LATE_DEPTH, WEIGHT, Reranked, check_reranker, open_reranker
from turnmark.retrieval.search import (
    HYBRID_BM25_WEIGHT,
    SPLADE_WEIGHT,
    VARIANT_WEIGHT,
    BM25Ranker,
    DenseRanker,
    FusedRetriever,
    IndexRetriever,
    Ranker,
    SpladeRanker,
)
from turnmark.retrieval.servers import no_credentials, redact
from turnmark.retrieval.sparse import ENCODER_OPTIONS, encoder_spec, named_encoder
from turnmark.retrieval.types import Retriever

_MODULE = "turnmark.retrieval.registry:"
_CHROMA = Entry(_MODULE + "open_chroma", "hybrid with the vectors on a Chroma server; …://HOST:PORT")
_ELASTIC = Entry(
    _MODULE + "open_elastic",
    "…://HOST:PORT[/INDEX]; options query=bm25|knn|hybrid|elser, text, title, vector, sparse, inference",
    "elasticsearch",
)
RETRIEVERS = Registry(
    "retriever",
    {
        "bm25": Entry(_MODULE + "open_bm25", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry(_MODULE + "open_dense", "embeddings; dense:MODEL for another than MiniLM"),
        "conversational": Entry(
            _MODULE + "open_conversational",
            "the default: knows the turns before, reranks by late interaction; options weight, splade, rerank=none",
        ),
        "hybrid": Entry(_MODULE + "open_hybrid", "dense and BM25, fused; options weight, splade, depth, fusion"),
        "splade": Entry(_MODULE + "open_splade", "splade:MODEL, a sparse encoder; options precision, depth"),
        "python": Entry(_MODULE + "open_python", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(
            "turnmark.retrieval.adapters:open_llama_index", "llama-index:pkg.mod:factory, a LlamaIndex retriever"
        ),
        **dict.fromkeys(("chroma+http", "chroma+https"), _CHROMA),
        **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), _ELASTIC),
    },
    group="turnmark.retrievers",
)

NONE = "none"
LATE = "late"


def _language(text: str) -> str:
    if text not in languages():
        raise ValueError(f"one of {', '.join(languages())}")
    return text


def _depth(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10_000:
        raise ValueError("a whole number from 1 to 10000")
    return value


Options = dict[str, Callable[[str], Any]]
BM25_OPTIONS: Options = {"k1": up_to(10), "b": up_to(1), "language": _language}
LIST_OPTIONS: Options = {"depth": _depth, "fusion": one_of("rrf", "zscore")}
HYBRID_OPTIONS: Options = {**BM25_OPTIONS, **LIST_OPTIONS, "weight": up_to(10)}
# SPLADE's list beside the others, where the index has its terms.
SPLADE_OPTIONS: Options = {"splade": named_encoder, "splade_weight": up_to(10)}
PROMPTS: Options = {"query_prompt": str, "passage_prompt": str}
# By built-in name; beside these, every name takes those of `RERANK`.
OPTIONS = {
    "bm25": BM25_OPTIONS,
    "dense": LIST_OPTIONS | PROMPTS,
    "hybrid": HYBRID_OPTIONS | SPLADE_OPTIONS,
    "conversational": {key: HYBRID_OPTIONS[key] for key in HYBRID_OPTIONS if key != "fusion"} | SPLADE_OPTIONS,
    "splade": LIST_OPTIONS | ENCODER_OPTIONS,
    **dict.fromkeys(("chroma+http", "chroma+https"), HYBRID_OPTIONS | chroma.OPTIONS),
    **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), HYBRID_OPTIONS | elastic_store.OPTIONS),
    "python": {},
    "llama-index": {},
}


def _reranker(text: str) -> str:
    return NONE if str(parse_spec(text)) == NONE else str(check_reranker(text))


# Options that every retriever takes and that are read here. What opens a built-in name is given the whole spec, for its
# name and its messages; what opens another's never sees them.
RERANK: Options = {"rerank": _reranker, "rerank_depth": _depth, "rerank_weight": up_to(10)}


def options_of(spec: Spec) -> dict[str, Any]:
    """The options of a spec, converted; what a built-in name does not take is refused.

    Of a name that reads its own options only those of `RERANK`.

    Raises:
        RequestError: unknown options or wrong values, all at once; or what does not go with the name.
    """
    no_credentials(spec)
    if "://" in spec.options.get("rerank", ""):
        # Not repeated: there may be a password in it.
        raise RequestError(f"retriever {spec.name!r}: rerank= takes no address; rerankers run here")
    if spec.name in OPTIONS:
        _check_form(spec)
        converters = OPTIONS[spec.name] | RERANK
        if spec.name.startswith("elasticsearch+") and spec.options.get("query") != "hybrid":
            converters.pop("weight")  # for one list there is nothing to weigh
        options = check_options(spec, converters, "retriever")
    else:
        reranking = {key: text for key, text in spec.options.items() if key in RERANK}
        options = check_options(replace(spec, options=reranking), RERANK, "retriever")
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


def _check_form(spec: Spec) -> None:
    """Make sure that a built-in name has no argument or address that it does not take."""
    if spec.name in ("python", "llama-index"):
        if spec.url:
            raise RequestError(f"retriever {str(spec)!r}: write {spec.name}:package.module:factory, without an address")
    elif (spec.url and "+" not in spec.name) or (spec.argument and spec.name not in ("dense", "splade")):
        raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes options only")


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """What an index for `retriever` is built with.

    Raises:
        RequestError: unknown names or options, a `dense:MODEL` beside another --embedder, or late interaction over a
            retriever without an embedder.
    """
    spec = RETRIEVERS.check(retriever)
    options = options_of(spec)
    settings = _settings(spec, options, embedder)
    if options.get("rerank") != LATE:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs an embedder's token vectors, which it has not")
    return settings.model_copy(update={"tokens": True})


def _settings(spec: Spec, options: dict[str, Any], embedder: str) -> BuildSettings:
    """See `build_settings`; token vectors left out."""
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in BM25_OPTIONS})
    without_vectors = BuildSettings(bm25=bm25, embedder="")
    server = None
    if spec.name in ("bm25", "llama-index"):
        return without_vectors
    if spec.name == "splade":
        return without_vectors.model_copy(update={"splade": str(encoder_spec(spec))})
    if spec.name.startswith("elasticsearch+"):
        server, exists = elastic_store.place_of(spec)
        if exists:  # passages and BM25 beside it
            return without_vectors
        if "dense" not in elastic_store.rankers_of(spec):
            return without_vectors.model_copy(update={"server": server})
    elif spec.name.startswith("chroma+"):
        server = chroma.place_of(spec)
    elif model := model_spec(spec):
        if embedder not in ("minilm", model):
            raise RequestError(f"--retriever {spec} and --embedder {embedder} name two models; give one of them")
        embedder = model
    return BuildSettings(
        bm25=bm25, embedder=str(EMBEDDERS.check(embedder)), splade=options.get("splade", ""), server=server
    )


def model_spec(spec: Spec) -> str:
    """The embedder that `dense:MODEL` means: a name of the table, or a sentence-transformers model. Else empty.

    Raises:
        RequestError: prompts without the model that they are for.
    """
    if spec.name != "dense":
        return ""
    prompts = {key: text for key, text in spec.options.items() if key in PROMPTS}
    if spec.argument in EMBEDDERS.entries():
        return str(Spec(spec.argument, options=prompts))
    if spec.argument:
        return str(Spec("sentence-transformers", spec.argument, options=prompts))
    if prompts:
        raise RequestError(f"retriever {str(spec)!r}: {', '.join(sorted(prompts))} without a model; dense:MODEL?…")
    return ""


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
    # One with a search of its own, or over another index, may find what none of our rows is.
    rows = None
    if isinstance(retriever, IndexRetriever) and type(retriever).search is IndexRetriever.search:
        rows = retriever if retriever.index is index else None
    settings = {"depth": LATE_DEPTH} if reranker == LATE else {}
    settings |= {key: options[f"rerank_{key}"] for key in ("depth", "weight") if f"rerank_{key}" in options}
    return Reranked(str(spec), retriever, open_reranker(reranker, index), **settings, rows=rows)


def weights_of(text: str) -> str:
    """What a spec's lists count in its fusion, in words, as manifests hold it; empty where there is one list only.

    Raises:
        RequestError: unknown name or options.
    """
    spec = RETRIEVERS.check(text)
    options, weights = options_of(spec), []
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
                f"build it again: {index.build_command(str(spec))}"
            )


def _check_model(spec: Spec, index: Index, kind: str, requested: Spec, info: ModelInfo | None) -> None:
    """Make sure that a model that was asked for is the one that an index was built with.

    Options that are left out are the index's."""
    if info is None:
        problem = "has no SPLADE terms"
    else:
        built_with = parse_spec(info.spec)
        same_model = (requested.name, requested.argument) == (built_with.name, built_with.argument)
        if same_model and requested.options.items() <= built_with.options.items():
            return
        problem = f"was built with the {kind} {info.spec!r}, not {str(requested)!r}"
    raise RequestError(f"index {index.manifest.name!r} {problem}; build it again: {index.build_command(str(spec))}")


def _fused(spec: Spec, index: Index, rankers: Sequence[tuple[Ranker, float]]) -> Retriever:
    search = {key: value for key, value in options_of(spec).items() if key in LIST_OPTIONS}
    return FusedRetriever(str(spec), index, rankers, **search)


def open_bm25(spec: Spec, index: Index) -> Retriever:
    """`bm25[?k1=…&b=…&language=…]`."""
    return _fused(spec, index, [(BM25Ranker(index), 1.0)])


def open_dense(spec: Spec, index: Index) -> Retriever:
    """`dense[:MODEL]`; the index must have been built with that model."""
    info = index.manifest.embedder
    requested = model_spec(spec)
    if requested and info:
        _check_model(spec, index, "embedder", parse_spec(requested), info)
    return _fused(spec, index, [(DenseRanker(index), 1.0)])


def open_hybrid(spec: Spec, index: Index) -> Retriever:
    """`hybrid[?weight=…&splade=MODEL&splade_weight=…&depth=…&fusion=rrf|zscore]`.

    `weight` is BM25's, beside 1 for the dense list.
    """
    options = options_of(spec)
    weight = options.get("weight", HYBRID_BM25_WEIGHT)
    return _fused(
        spec, index, [(DenseRanker(index), 1.0), (BM25Ranker(index), weight), *_splade_ranker(spec, index, options)]
    )


def open_chroma(spec: Spec, index: Index) -> Retriever:
    """`chroma+http(s)://HOST:PORT[?collection=…]`, with `hybrid`'s options.

    Raises:
        RequestError: the index's vectors lie elsewhere.
    """
    place = chroma.place_of(spec)
    if index.manifest.server != place:
        location = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {location}, not at {place.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return open_hybrid(spec, index)


def open_elastic(spec: Spec, index: Index) -> Retriever:
    """`elasticsearch+http(s)://HOST:PORT[/INDEX][?…]`; see `turnmark.retrieval.elastic_search.open_rankers`."""
    from turnmark.retrieval.elastic_search import open_rankers

    rankers = open_rankers(spec, index)
    # One list alone has nothing to be weighed against.
    weight = options_of(spec).get("weight", HYBRID_BM25_WEIGHT) if len(rankers) > 1 else 1.0
    return _fused(spec, index, [(ranker, weight if ranker.name == "bm25" else 1.0) for ranker in rankers])


def open_conversational(spec: Spec, index: Index) -> Retriever:
    """`conversational[?weight=…&splade=MODEL&splade_weight=…&depth=…&rerank=late|none|cross:MODEL]`.

    `weight` is BM25's, beside 1 for the dense list.
    """
    options = options_of(spec)
    search = {key: value for key, value in options.items() if key in ("weight", "depth")}
    return ConversationalRetriever(str(spec), index, more_rankers=_splade_ranker(spec, index, options), **search)


def open_splade(spec: Spec, index: Index) -> Retriever:
    """`splade:MODEL[?precision=…&depth=…&fusion=…]`; the index must have been built with that model."""
    _check_model(spec, index, "sparse encoder", encoder_spec(spec), index.manifest.splade)
    return _fused(spec, index, [(SpladeRanker(index), 1.0)])


def _splade_ranker(spec: Spec, index: Index, options: dict[str, Any]) -> list[tuple[Ranker, float]]:
    """SPLADE beside other lists, where the options name an encoder, with its weight."""
    if "splade" not in options:
        return []
    _check_model(spec, index, "sparse encoder", parse_spec(options["splade"]), index.manifest.splade)
    return [(SpladeRanker(index), options.get("splade_weight", SPLADE_WEIGHT))]


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
    return result  # type: ignore[no-any-return]


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
