"""Opens retrievers: parses a spec, checks its options against its kind, and opens it over an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.specs import Spec, check_options, load_python, parse_spec, up_to
from turnmark.core.untrusted import describe_error
from turnmark.corpora.downloads.small_models import MODELS, SPLADE, is_complete
from turnmark.retrieval.search.opened_index import SearchableIndex, StoredIndex
from turnmark.retrieval.search.rebuild_commands import spec_of_components, splade_option
from turnmark.retrieval.search.rerankers import (
    LATE_RERANK_DEPTH,
    RERANK_DEPTH,
    LateInteractionRetriever,
    RerankingRetriever,
    check_reranker,
    open_reranker,
)
from turnmark.retrieval.search.retriever_kinds import (
    BM25_OPTIONS,
    LATE_RERANKER,
    NO_RERANKER,
    RETRIEVERS,
    Converters,
    Options,
    RetrieverKind,
    chroma_server,
    dense_model,
    settings_for_options,
)
from turnmark.retrieval.search.retrievers import (
    ANSWERS_WEIGHT,
    BM25_WEIGHT,
    BM25Ranker,
    ConversationalRetriever,
    DenseRanker,
    FusedRetriever,
    IndexRetriever,
    Ranker,
)
from turnmark.retrieval.search.sparse import SpladeRanker
from turnmark.retrieval.search.tuned_search import read_tuned
from turnmark.retrieval.storage.manifest import BuildSettings
from turnmark.retrieval.storage.server_addresses import no_credentials
from turnmark.retrieval.types import Retriever, check_retriever

SPLADE_WEIGHT = 0.5
"""Weight of SPLADE's lists in a fusion (dense lists have weight 1): the middle of the best values on four data sets."""


# --- the functions that open each kind of retriever (`RetrieverKind.open`) -------------------------------------------


def open_bm25(spec: Spec, index: SearchableIndex, _: Options) -> FusedRetriever:
    """Open `bm25`."""
    return FusedRetriever(str(spec), index, [(BM25Ranker(index), 1.0)])


def open_dense(spec: Spec, index: SearchableIndex, _: Options) -> FusedRetriever:
    """Open `dense[:MODEL]`."""
    if index.manifest.embedder and (model := dense_model(spec)):
        index.check_model(spec, "embedder", "embedder", model)
    return FusedRetriever(str(spec), index, [(DenseRanker(index), 1.0)])


def _splade_rankers(spec: Spec, index: SearchableIndex, options: Options) -> Sequence[tuple[Ranker, float]]:
    """Return a SPLADE ranker with its weight, if the options name an encoder."""
    if "splade" not in options:
        return ()
    index.check_model(spec, "splade", "sparse encoder", options["splade"])
    weight = options.get("splade_weight", SPLADE_WEIGHT)
    return ((SpladeRanker(index), weight * index.manifest.share_of("splade")),)


def open_hybrid(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    """Open `hybrid`."""
    bm25 = (BM25Ranker(index), options.get("weight", BM25_WEIGHT))
    splade = _splade_rankers(spec, index, options)
    dense = (DenseRanker(index), index.manifest.share_of("dense"))
    return FusedRetriever(str(spec), index, [dense, bm25, *splade])


def open_conversational(spec: Spec, index: SearchableIndex, options: Options) -> ConversationalRetriever:
    """Open `conversational`."""
    weight, answers = options.get("weight", BM25_WEIGHT), options.get("answers", ANSWERS_WEIGHT)
    return ConversationalRetriever(str(spec), index, weight, _splade_rankers(spec, index, options), answers)


def open_splade(spec: Spec, index: SearchableIndex, _: Options) -> FusedRetriever:
    """Open `splade:MODEL`."""
    index.check_model(spec, "splade", "sparse encoder", str(Spec("splade", spec.argument)))
    return FusedRetriever(str(spec), index, [(SpladeRanker(index), 1.0)])


def open_chroma(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    """Open `chroma+http` or `chroma+https`."""
    server = chroma_server(spec)
    if index.manifest.server != server:
        location = f"at {index.manifest.server.url}" if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} are {location}, not at {server.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return open_hybrid(spec, index, options)


def only_part(spec: Spec, index: SearchableIndex) -> StoredIndex:
    """Return the one stored index of a retriever that cannot search several indexes together.

    Raises:
        RequestError: there are several indexes.
    """
    if len(index.parts) > 1:
        raise RequestError(f"retriever {str(spec)!r} searches one index at a time; give one of {index.manifest.name}")
    return index.parts[0]


def call_factory(spec: Spec, index: SearchableIndex, convert: Callable[[Any], Any] = lambda made: made) -> Any:
    """Call the factory that a spec's argument names with an index, and return the converted result."""
    factory = load_python(spec.argument, "retriever")
    try:
        return convert(factory(index))
    except TurnmarkError:
        raise
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {describe_error(error)}") from error


def open_python(spec: Spec, index: SearchableIndex, _: Options) -> Retriever:
    """Open `python:pkg.mod:factory`."""
    return check_retriever(call_factory(spec, index), f"what the factory of {str(spec)!r} returns")


# --- a spec ----------------------------------------------------------------------------------------------------------


def _reranker(text: str) -> str:
    return NO_RERANKER if str(parse_spec(text)) == NO_RERANKER else str(check_reranker(text))


def _depth(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10_000:
        raise ValueError("an integer from 1 to 10000")
    return value


RERANK: Converters = {"rerank": _reranker, "rerank_depth": _depth, "rerank_weight": up_to(10)}
"""Options that every retriever takes."""


def _declared(spec: Spec) -> tuple[RetrieverKind | None, dict[str, Any]]:
    """Return the RetrieverKind of a spec (None for a third party's factory) and the spec's options.

    All invalid options are reported at once. A third party's factory reads its own options, except those of `RERANK`.
    """
    no_credentials(spec)
    if "://" in spec.options.get("rerank", ""):
        # The value is not shown, because it may contain a password.
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
        options.setdefault("rerank", kind.rerank)
    if kind is not None and kind.argument == "factory" and options.get("rerank") == LATE_RERANKER:
        raise RequestError(f"retriever {str(spec)!r}: rerank=late needs a built-in retriever; write rerank=cross:MODEL")
    if "splade_weight" in options and "splade" not in options:
        raise RequestError(f"retriever {str(spec)!r}: splade_weight without a sparse encoder; add splade=MODEL")
    for key in ("rerank_depth", "rerank_weight"):
        if key in options and options.get("rerank", NO_RERANKER) == NO_RERANKER:
            raise RequestError(f"retriever {str(spec)!r}: {key} without a reranker; add rerank=late or cross:…")
    return kind, options


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """Return the build settings of an index for `retriever`."""
    spec = RETRIEVERS.check(retriever)
    kind, options = _declared(spec)
    settings = settings_for_options(options, embedder) if kind is None else kind.build_settings(spec, options, embedder)
    if options.get("rerank") != LATE_RERANKER:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs token vectors, and its index has none")
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
        retriever = load_python(kind.open, "retriever")(spec, index, options)
    for key in BM25_OPTIONS.keys() & options.keys():
        # These options apply to the build, so other values than those of the index are an error.
        built_with = getattr(index.manifest.bm25, key)
        if options[key] != built_with:
            raise RequestError(
                f"index {index.manifest.name!r} was built with {key}={built_with}, not {options[key]}; "
                f"build it again: {index.build_command(str(spec))}"
            )
    reranker, weight = options.get("rerank", NO_RERANKER), options.get("rerank_weight", 1.0)
    if reranker == NO_RERANKER:
        return retriever
    if reranker != LATE_RERANKER:
        depth = options.get("rerank_depth", RERANK_DEPTH)
        return RerankingRetriever(str(spec), retriever, open_reranker(reranker, index), depth, weight)
    if not index.manifest.tokens:
        build_settings(text)  # raises RequestError if no index for this retriever can have token vectors
        index.need_tokens(str(spec))
    if not isinstance(retriever, IndexRetriever):
        raise RequestError(f"retriever {str(spec)!r}: rerank=late needs a built-in retriever; write rerank=cross:MODEL")
    return LateInteractionRetriever(str(spec), retriever, options.get("rerank_depth", LATE_RERANK_DEPTH), weight)


def retriever_to_build() -> str:
    """Return the spec that an index is built for by default: conversational, with splade-tiny if it was fetched."""
    return SPLADE.use if is_complete(MODELS[SPLADE.name]) else "conversational"


def default_retriever(index: SearchableIndex) -> str:
    """Return the retriever that searches an index by default: the one that it was tuned to, or else built for."""
    tuned = read_tuned(index)
    return tuned.retriever if tuned is not None else untuned_retriever(index)


def untuned_retriever(index: SearchableIndex) -> str:
    """Return the retriever that was given to the build of an index.

    If none was given, it is `conversational` with every component of the index. For an index without vectors, it is the
    retriever that needs exactly its components.
    """
    manifest = index.manifest
    if manifest.searches_by_words:
        return "bm25"
    if manifest.retriever:
        return manifest.retriever
    if manifest.embedder:
        late = {} if manifest.tokens else {"rerank": NO_RERANKER}
        return str(Spec("conversational", options=late | splade_option(manifest)))
    return spec_of_components(manifest)
