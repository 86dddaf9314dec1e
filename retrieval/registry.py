"""The retrievers by name, what an index must hold for each, and how one is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from corpora.errors import RequestError
from corpora.specs import Entry, Spec, Table, check_options, load_python, parse_spec
from corpora.types import Record
from retrieval import late
from retrieval.bm25 import BM25Settings, languages
from retrieval.chroma_server import collection_name
from retrieval.elastic import OPTIONS as ELASTIC_OPTIONS
from retrieval.fusion import Method
from retrieval.index import Index
from retrieval.outside import no_credentials, told
from retrieval.rerank import Reranked, check_reranker, open_reranker
from retrieval.served import Served
from retrieval.sparse import ENCODER_OPTIONS, SpladeLeg, encoder_spec
from retrieval.types import Retriever

RETRIEVERS = Table(
    "retriever",
    {
        "bm25": Entry("retrieval.registry:open_bm25", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry("retrieval.registry:open_dense", "embeddings in Chroma; dense:MODEL for another than MiniLM"),
        "conversational": Entry(
            "retrieval.registry:open_conversational",
            "the default: knows the turns before, reranks by late interaction; options weight, depth, rerank=none",
        ),
        "hybrid": Entry("retrieval.registry:open_hybrid", "dense and BM25, fused; options weight, depth, fusion"),
        "splade": Entry("retrieval.registry:open_splade", "splade:MODEL, a sparse encoder; options precision, depth"),
        "python": Entry("retrieval.registry:open_python", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(
            "retrieval.adapters:open_llama_index", "llama-index:pkg.mod:factory, a LlamaIndex retriever"
        ),
        **dict.fromkeys(
            ("chroma+http", "chroma+https"),
            Entry("retrieval.chroma_server:open_chroma", "hybrid with the vectors on a Chroma server; …://HOST:PORT"),
        ),
        **dict.fromkeys(
            ("elasticsearch+http", "elasticsearch+https"),
            Entry(
                "retrieval.elastic:open_elastic",
                "…://HOST:PORT[/INDEX]; options query=bm25|knn|hybrid|elser, text, title, vector, sparse, inference",
                "elasticsearch",
            ),
        ),
    },
    group="turnwise.retrievers",
)


class BuildSettings(Record):
    """What a retriever spec settles when an index is built for it. No embedder: no vectors; no encoder: no SPLADE."""

    bm25: BM25Settings
    embedder: str
    splade: str = ""
    tokens: bool = Field(default=False, description="the embedder's token vectors too, for late interaction")
    server: Served | None = None


def _language(text: str) -> str:
    if text not in languages():
        raise ValueError(f"one of {', '.join(languages())}")
    return text


def _up_to(most: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if not 0 <= value <= most:
            raise ValueError(f"a number from 0 to {most:g}")
        return value

    return convert


def _depth(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10_000:
        raise ValueError("a whole number from 1 to 10000")
    return value


def _method(text: str) -> Method:
    if text == "rrf":
        return "rrf"
    if text == "zscore":
        return "zscore"
    raise ValueError("rrf or zscore")


_BM25: dict[str, Callable[[str], Any]] = {"k1": _up_to(10), "b": _up_to(1), "language": _language}
_LISTS: dict[str, Callable[[str], Any]] = {"depth": _depth, "fusion": _method}
_SEARCH: dict[str, Callable[[str], Any]] = {"weight": _up_to(10), **_LISTS}
_PROMPTS: dict[str, Callable[[str], Any]] = {"query_prompt": str, "passage_prompt": str}
_OPTIONS = {
    "bm25": _BM25,
    "dense": _LISTS | _PROMPTS,
    "hybrid": _BM25 | _SEARCH,
    "conversational": _BM25 | {"weight": _up_to(10), "depth": _depth},
    "splade": _LISTS | ENCODER_OPTIONS,
    **dict.fromkeys(("chroma+http", "chroma+https"), _BM25 | _SEARCH | {"collection": collection_name}),
    **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), _BM25 | _SEARCH | ELASTIC_OPTIONS),
    **dict.fromkeys(("python", "llama-index"), {}),
}
_SERVED = tuple(name for name in _OPTIONS if "+" in name)
_NAMES_A_FACTORY = ("python", "llama-index")
_NAMES_A_MODEL = ("dense", "splade")
_WITHOUT_VECTORS = ("bm25", "llama-index")


def _reranker(text: str) -> str:
    try:
        return NONE if str(parse_spec(text)) == NONE else str(check_reranker(text))
    except RequestError as error:
        raise ValueError(str(error)) from error


NONE = "none"
LATE = "late"

# Options that every retriever takes and that are read here. What opens a built-in name is given the whole spec, for its
# name and its messages; what opens another's never sees them.
_RERANK: dict[str, Callable[[str], Any]] = {
    "rerank": _reranker, "rerank_depth": _depth, "rerank_weight": _up_to(10),
}  # fmt: skip


def _options(spec: Spec) -> dict[str, Any]:
    """The options of a spec, converted; what a built-in name does not take is refused.

    Of a name that reads its own options only those of `_RERANK`.
    """
    no_credentials(spec)
    if "://" in spec.options.get("rerank", ""):
        # Not repeated: there may be a password in it.
        raise RequestError(f"retriever {spec.name!r}: rerank= takes no address; rerankers run here")
    if spec.name not in _OPTIONS:
        mine = {key: text for key, text in spec.options.items() if key in _RERANK}
        options = check_options(replace(spec, options=mine), _RERANK, "retriever")
    else:
        _check_form(spec)
        options = check_options(spec, _known(spec), "retriever")
    if spec.name == "conversational":
        options.setdefault("rerank", LATE)
    if spec.name == "llama-index" and options.get("rerank") == LATE:
        raise RequestError(
            f"retriever {str(spec)!r}: rerank=late knows the passages of an index only, and what LlamaIndex finds "
            "need not be among them; leave it out, or write rerank=cross:MODEL"
        )
    if options.get("rerank", NONE) == NONE and (alone := sorted(options.keys() & _RERANK.keys() - {"rerank"})):
        raise RequestError(
            f"retriever {str(spec)!r}: {', '.join(alone)} without a reranker; add rerank=late or cross:…"
        )
    return options


def _check_form(spec: Spec) -> None:
    """Make sure that a built-in name has no argument or address that it does not take.

    Raises:
        RequestError: it has.
    """
    if spec.name in _NAMES_A_FACTORY:
        if spec.url:
            raise RequestError(f"retriever {str(spec)!r}: write {spec.name}:package.module:factory, without an address")
    elif (spec.url and spec.name not in _SERVED) or (spec.argument and spec.name not in _NAMES_A_MODEL):
        raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes options only")


def _known(spec: Spec) -> dict[str, Callable[[str], Any]]:
    """The options of a built-in name; a weight only where there are two lists to weigh."""
    known = _OPTIONS[spec.name] | _RERANK
    if spec.name.startswith("elasticsearch+") and spec.options.get("query") != "hybrid":
        known.pop("weight")
    return known


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """What an index for `retriever` is built with.

    Raises:
        RequestError: unknown names or options, a `dense:MODEL` beside another --embedder, or late interaction over a
            retriever without an embedder.
    """
    spec = RETRIEVERS.check(retriever)
    options = _options(spec)
    settings = _settings(spec, options, retriever, embedder)
    if options.get("rerank") != LATE:
        return settings
    if not settings.embedder:
        raise RequestError(f"retriever {retriever!r}: rerank=late needs an embedder's token vectors, which it has not")
    return settings.model_copy(update={"tokens": True})


def _settings(spec: Spec, options: dict[str, Any], retriever: str, embedder: str) -> BuildSettings:
    """See `build_settings`; token vectors left out."""
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in _BM25})
    if spec.name in _SERVED:
        return _served_settings(spec, embedder, bm25)
    if spec.name in _WITHOUT_VECTORS:
        return BuildSettings(bm25=bm25, embedder="")
    if spec.name == "splade":
        return BuildSettings(bm25=bm25, embedder="", splade=str(encoder_spec(spec)))
    if named := model_spec(spec):
        if embedder not in ("minilm", named):
            raise RequestError(f"--retriever {retriever} and --embedder {embedder} name two models; give one of them")
        embedder = named
    from retrieval.embed import EMBEDDERS

    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)))


def _served_settings(spec: Spec, embedder: str, bm25: BM25Settings) -> BuildSettings:
    from retrieval import chroma_server, elastic

    if spec.name.startswith("chroma+"):
        return chroma_server.settings_of(spec, embedder)
    return elastic.settings_of(spec, embedder, bm25)


def model_spec(spec: Spec) -> str:
    """The embedder that `dense:MODEL` means: a name of the table, or a sentence-transformers model. Else empty.

    Raises:
        RequestError: prompts without the model that they are for.
    """
    from retrieval.embed import EMBEDDERS

    if spec.name != "dense":
        return ""
    prompts = {key: text for key, text in spec.options.items() if key in _PROMPTS}
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
    options = _options(spec)
    first = spec
    if not _OPTIONS.get(spec.name):
        first = replace(spec, options={key: value for key, value in spec.options.items() if key not in _RERANK})
    retriever: Retriever = RETRIEVERS.factory(spec)(first, index=index)
    _check_bm25(spec, index, options)
    chosen = options.get("rerank", NONE)
    if chosen == NONE:
        return retriever
    if chosen == LATE and not index.manifest.tokens:
        build_settings(text)  # a retriever for which no index can have them says so
        index.need_tokens(str(spec))
    settings = {"depth": late.DEPTH} if chosen == LATE else {}
    settings |= {key: options[f"rerank_{key}"] for key in ("depth", "weight") if f"rerank_{key}" in options}
    return Reranked(str(spec), retriever, open_reranker(chosen, index), **settings)


def _check_bm25(spec: Spec, index: Index, options: dict[str, Any]) -> None:
    """BM25's options belong to the build: asking for others than the index has is an error, not a surprise."""
    built = index.manifest.bm25
    for key in _BM25.keys() & options.keys():
        if options[key] != getattr(built, key):
            raise RequestError(
                f"index {index.manifest.name!r} was built with {key}={getattr(built, key)}, not {options[key]}; "
                f"{_again(index, spec)}"
            )


def _again(index: Index, spec: Spec) -> str:
    """What to type to have the index that `spec` needs."""
    return f"build it again: {index.build_command(str(spec))}"


def _is_made_by(asked: Spec, made: str) -> bool:
    """Whether a model that was asked for is the one that an index was built with; options left out are the index's."""
    built = parse_spec(made)
    named = (asked.name, asked.argument) == (built.name, built.argument)
    return named and asked.options.items() <= built.options.items()


def search_options(spec: Spec) -> dict[str, Any]:
    """The options of a spec that say how lists are fused, converted."""
    return {key: value for key, value in _options(spec).items() if key in _SEARCH}


def open_bm25(spec: Spec, index: Index) -> Retriever:
    """`bm25[?k1=…&b=…&language=…]`."""
    from retrieval.search import BM25Leg, FusedRetriever

    return FusedRetriever(str(spec), index, [(BM25Leg(index), 1.0)])


def open_dense(spec: Spec, index: Index) -> Retriever:
    """`dense[:MODEL]`; the index must have been built with that model."""
    from retrieval.search import DenseLeg, FusedRetriever

    options = _options(spec)
    info = index.manifest.embedder
    asked = model_spec(spec)
    if asked and info and not _is_made_by(parse_spec(asked), info.spec):
        raise RequestError(
            f"index {index.manifest.name!r} was built with the embedder {info.spec!r}, not {asked!r}; "
            f"{_again(index, spec)}"
        )
    search = {key: value for key, value in options.items() if key in _LISTS}
    return FusedRetriever(str(spec), index, [(DenseLeg(index), 1.0)], **search)


def open_hybrid(spec: Spec, index: Index) -> Retriever:
    """`hybrid[?weight=…&depth=…&fusion=rrf|zscore]`; `weight` is BM25's beside 1 for the dense list."""
    from retrieval.search import HYBRID_BM25_WEIGHT, BM25Leg, DenseLeg, FusedRetriever

    options = _options(spec)
    weight = options.pop("weight", HYBRID_BM25_WEIGHT)
    search = {key: value for key, value in options.items() if key in _LISTS}
    return FusedRetriever(str(spec), index, [(DenseLeg(index), 1.0), (BM25Leg(index), weight)], **search)


def open_conversational(spec: Spec, index: Index) -> Retriever:
    """`conversational[?weight=…&depth=…&rerank=late|none|cross:MODEL]`; `weight` is BM25's."""
    from retrieval.conversation import ConversationalRetriever

    options = _options(spec)
    search = {key: value for key, value in options.items() if key in ("weight", "depth")}
    return ConversationalRetriever(str(spec), index, **search)


def open_splade(spec: Spec, index: Index) -> Retriever:
    """`splade:MODEL[?precision=…&depth=…&fusion=…]`; the index must have been built with that model."""
    from retrieval.search import FusedRetriever

    options, asked, info = _options(spec), encoder_spec(spec), index.manifest.splade
    if info is None:
        raise RequestError(f"index {index.manifest.name!r} has no SPLADE terms; {_again(index, spec)}")
    if not _is_made_by(asked, info.spec):
        raise RequestError(
            f"index {index.manifest.name!r} was built with the sparse encoder {info.spec!r}, not {str(asked)!r}; "
            f"{_again(index, spec)}"
        )
    search = {key: value for key, value in options.items() if key in _LISTS}
    return FusedRetriever(str(spec), index, [(SpladeLeg(index), 1.0)], **search)


def open_python(spec: Spec, index: Index) -> Retriever:
    """`python:pkg.mod:factory`: whatever the factory returns for the index; it must have `search` and `name`."""
    factory = load_python(spec.argument, "retriever")
    try:
        made = factory(index)
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {told(error)}") from error
    lacking = [name for name in ("name", "search") if not hasattr(made, name)]
    if lacking:
        raise RequestError(f"retriever {str(spec)!r} gave a {type(made).__name__}, which lacks: {', '.join(lacking)}")
    retriever: Retriever = made
    return retriever


def default_retriever(index: Index) -> str:
    """`conversational`, as far as the index goes; where it has no vectors, its `splade:MODEL`, or else `bm25`."""
    made = index.manifest
    if made.embedder:
        return "conversational" if made.tokens else "conversational?rerank=none"
    return made.splade.spec if made.splade else "bm25"
