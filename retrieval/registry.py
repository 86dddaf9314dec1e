"""The retrievers by name, what an index must hold for each, and how one is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corpora.errors import RequestError
from corpora.specs import Entry, Spec, Table, check_options, load_python
from corpora.types import Record
from retrieval.bm25 import BM25Settings, languages
from retrieval.fusion import Method
from retrieval.index import Index
from retrieval.types import Retriever

RETRIEVERS = Table(
    "retriever",
    {
        "bm25": Entry("retrieval.registry:open_bm25", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry("retrieval.registry:open_dense", "embeddings in Chroma; dense:MODEL for another than MiniLM"),
        "hybrid": Entry("retrieval.registry:open_hybrid", "dense and BM25, fused; options weight, depth, fusion"),
        "python": Entry("retrieval.registry:open_python", "python:pkg.mod:factory, called with the index"),
    },
    group="turnwise.retrievers",
)


class BuildSettings(Record):
    """What a retriever spec settles when an index is built for it. No embedder: BM25 only."""

    bm25: BM25Settings
    embedder: str


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
_SEARCH: dict[str, Callable[[str], Any]] = {"weight": _up_to(10), "depth": _depth, "fusion": _method}
_OPTIONS = {"bm25": _BM25, "dense": _SEARCH, "hybrid": _BM25 | _SEARCH}


def _options(spec: Spec) -> dict[str, Any]:
    """The options of a built-in, converted; what the name does not take is refused."""
    if spec.name not in _OPTIONS:
        return {}
    if spec.url or (spec.argument and spec.name != "dense"):
        raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes options only")
    return check_options(spec, _OPTIONS[spec.name], "retriever")


def build_settings(retriever: str, embedder: str = "minilm") -> BuildSettings:
    """What an index for `retriever` is built with.

    Raises:
        RequestError: unknown names or options, or a `dense:MODEL` beside another --embedder.
    """
    spec = RETRIEVERS.check(retriever)
    options = _options(spec)
    bm25 = BM25Settings(**{key: value for key, value in options.items() if key in _BM25})
    if spec.name == "bm25":
        return BuildSettings(bm25=bm25, embedder="")
    if spec.name == "dense" and spec.argument:
        named = model_spec(spec.argument)
        if embedder not in ("minilm", named):
            raise RequestError(f"--retriever {retriever} and --embedder {embedder} name two models; give one of them")
        embedder = named
    from retrieval.embed import EMBEDDERS

    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)))


def model_spec(model: str) -> str:
    """The embedder that `dense:MODEL` means: a name of the table, or a sentence-transformers model."""
    from retrieval.embed import EMBEDDERS

    return model if model in EMBEDDERS.entries() else f"sentence-transformers:{model}"


def open_retriever(text: str, index: Index) -> Retriever:
    """The retriever that a spec names, over an index.

    Raises:
        RequestError: unknown name or options, or an index that was built otherwise.
    """
    spec = RETRIEVERS.check(text)
    retriever: Retriever = RETRIEVERS.factory(spec)(spec, index=index)
    return retriever


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
    made = index.manifest
    return f"build it again: turnwise index build {made.source} --name {made.name} --retriever '{spec}'"


def open_bm25(spec: Spec, index: Index) -> Retriever:
    """`bm25[?k1=…&b=…&language=…]`."""
    from retrieval.search import BM25Leg, FusedRetriever

    _check_bm25(spec, index, _options(spec))
    return FusedRetriever(str(spec), index, [(BM25Leg(index), 1.0)])


def open_dense(spec: Spec, index: Index) -> Retriever:
    """`dense[:MODEL]`; the index must have been built with that model."""
    from retrieval.search import DenseLeg, FusedRetriever

    options = _options(spec)
    info = index.manifest.embedder
    if spec.argument and info and model_spec(spec.argument) != info.spec:
        raise RequestError(
            f"index {index.manifest.name!r} was built with the embedder {info.spec!r}, not "
            f"{model_spec(spec.argument)!r}; {_again(index, spec)}"
        )
    options.pop("weight", None)
    return FusedRetriever(str(spec), index, [(DenseLeg(index), 1.0)], **options)


def open_hybrid(spec: Spec, index: Index) -> Retriever:
    """`hybrid[?weight=…&depth=…&fusion=rrf|zscore]`; `weight` is BM25's beside 1 for the dense list."""
    from retrieval.search import HYBRID_BM25_WEIGHT, BM25Leg, DenseLeg, FusedRetriever

    options = _options(spec)
    _check_bm25(spec, index, options)
    weight = options.pop("weight", HYBRID_BM25_WEIGHT)
    search = {key: value for key, value in options.items() if key not in _BM25}
    return FusedRetriever(str(spec), index, [(DenseLeg(index), 1.0), (BM25Leg(index), weight)], **search)


def open_python(spec: Spec, index: Index) -> Retriever:
    """`python:pkg.mod:factory`: whatever the factory returns for the index; it must have `search` and `name`."""
    factory = load_python(spec.argument, "retriever")
    try:
        made = factory(index)
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {type(error).__name__}: {error}") from error
    lacking = [name for name in ("name", "search") if not hasattr(made, name)]
    if lacking:
        raise RequestError(f"retriever {str(spec)!r} gave a {type(made).__name__}, which lacks: {', '.join(lacking)}")
    retriever: Retriever = made
    return retriever


def default_retriever(index: Index) -> str:
    """`hybrid`, or `bm25` where the index has no vectors."""
    return "hybrid" if index.manifest.embedder else "bm25"
