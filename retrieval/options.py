"""The options in a retriever's spec: which a name takes, and what their values must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options, parse_spec
from turnmark.retrieval.bm25 import languages
from turnmark.retrieval.chroma import OPTIONS as CHROMA_OPTIONS
from turnmark.retrieval.elastic_store import OPTIONS as ELASTIC_OPTIONS
from turnmark.retrieval.fusion import Method
from turnmark.retrieval.rerank import check_reranker
from turnmark.retrieval.servers import no_credentials
from turnmark.retrieval.sparse import ENCODER_OPTIONS, named_encoder

NONE = "none"
LATE = "late"


def _language(text: str) -> str:
    if text not in languages():
        raise ValueError(f"one of {', '.join(languages())}")
    return text


def _up_to(limit: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if not 0 <= value <= limit:
            raise ValueError(f"a number from 0 to {limit:g}")
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


BM25_OPTIONS: dict[str, Callable[[str], Any]] = {"k1": _up_to(10), "b": _up_to(1), "language": _language}
LIST_OPTIONS: dict[str, Callable[[str], Any]] = {"depth": _depth, "fusion": _method}
SEARCH_OPTIONS: dict[str, Callable[[str], Any]] = {"weight": _up_to(10), **LIST_OPTIONS}
# SPLADE's list beside the others, where the index has its terms.
SPLADE: dict[str, Callable[[str], Any]] = {"splade": named_encoder, "splade_weight": _up_to(10)}
PROMPTS: dict[str, Callable[[str], Any]] = {"query_prompt": str, "passage_prompt": str}
# By built-in name; beside these, every name takes those of `RERANK`.
OPTIONS = {
    "bm25": BM25_OPTIONS,
    "dense": LIST_OPTIONS | PROMPTS,
    "hybrid": BM25_OPTIONS | SEARCH_OPTIONS | SPLADE,
    "conversational": BM25_OPTIONS | {"weight": _up_to(10), "depth": _depth} | SPLADE,
    "splade": LIST_OPTIONS | ENCODER_OPTIONS,
    **dict.fromkeys(("chroma+http", "chroma+https"), BM25_OPTIONS | SEARCH_OPTIONS | CHROMA_OPTIONS),
    **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), BM25_OPTIONS | SEARCH_OPTIONS | ELASTIC_OPTIONS),
    "python": {},
    "llama-index": {},
}
SERVED = tuple(name for name in OPTIONS if "+" in name)
_NAMES_A_FACTORY = ("python", "llama-index")
_NAMES_A_MODEL = ("dense", "splade")


def _reranker(text: str) -> str:
    try:
        return NONE if str(parse_spec(text)) == NONE else str(check_reranker(text))
    except RequestError as error:
        raise ValueError(str(error)) from error


# Options that every retriever takes and that are read here. What opens a built-in name is given the whole spec, for its
# name and its messages; what opens another's never sees them.
RERANK: dict[str, Callable[[str], Any]] = {
    "rerank": _reranker, "rerank_depth": _depth, "rerank_weight": _up_to(10),
}  # fmt: skip


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
    if spec.name not in OPTIONS:
        mine = {key: text for key, text in spec.options.items() if key in RERANK}
        options = check_options(replace(spec, options=mine), RERANK, "retriever")
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
    if "splade_weight" in options and "splade" not in options:
        raise RequestError(f"retriever {str(spec)!r}: splade_weight without a model; add splade=MODEL")
    if options.get("rerank", NONE) == NONE and (dangling := sorted(options.keys() & RERANK.keys() - {"rerank"})):
        raise RequestError(
            f"retriever {str(spec)!r}: {', '.join(dangling)} without a reranker; add rerank=late or cross:…"
        )
    return options


def _check_form(spec: Spec) -> None:
    """Make sure that a built-in name has no argument or address that it does not take."""
    if spec.name in _NAMES_A_FACTORY:
        if spec.url:
            raise RequestError(f"retriever {str(spec)!r}: write {spec.name}:package.module:factory, without an address")
    elif (spec.url and spec.name not in SERVED) or (spec.argument and spec.name not in _NAMES_A_MODEL):
        raise RequestError(f"retriever {str(spec)!r}: {spec.name!r} takes options only")


def _known(spec: Spec) -> dict[str, Callable[[str], Any]]:
    """The options of a built-in name; a weight only where there are two lists to weigh."""
    converters = OPTIONS[spec.name] | RERANK
    if spec.name.startswith("elasticsearch+") and spec.options.get("query") != "hybrid":
        converters.pop("weight")
    return converters
