"""What to type to have an index built again, as it was or for another retriever, with all else as it was."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from corpora.specs import Spec, parse_spec
from retrieval.bm25 import BM25Settings
from retrieval.sparse import option_of

if TYPE_CHECKING:
    from retrieval.index import Manifest

_TAKE_BM25 = ("bm25", "hybrid", "conversational", "chroma+http", "chroma+https")
_WITHOUT_EMBEDDER = ("bm25", "splade", "llama-index")


def build_command(made: Manifest, retriever: str) -> str:
    """The command that builds an index for `retriever`, otherwise as the manifest says.

    BM25's options and a Chroma server are put into the spec where it can have them and does not say otherwise.
    """
    spec = parse_spec(retriever)
    filled = _with_bm25(made, _on_server(made, spec))
    words = [made.source, "--name", made.name, "--retriever", retriever if filled == spec else str(filled)]
    own_model = spec.name in _WITHOUT_EMBEDDER or (spec.name == "dense" and spec.argument)
    if made.embedder and made.embedder.spec != "minilm" and not own_model:
        words += ["--embedder", made.embedder.spec]
    for flag, globs in (("--include", made.include), ("--exclude", made.exclude)):
        words += [word for glob in globs for word in (flag, glob)]
    return f"turnmark index build {shlex.join(words)}"


def retriever_of(made: Manifest) -> str:
    """The spec that an index was built for, with BM25's options and its server."""
    return str(_with_bm25(made, _on_server(made, parse_spec(as_built(made)))))


def anew(made: Manifest, retriever: str = "") -> str:
    """The two commands that build a damaged index from nothing, for `retriever` or as it was."""
    return f"turnmark index remove {made.name}, then {build_command(made, retriever or as_built(made))}"


def as_built(made: Manifest) -> str:
    """The spec of a retriever that an index is built for with just the parts it has."""
    if made.server and made.server.kind == "elasticsearch":
        query = {"query": "hybrid"} if made.embedder else {}
        scheme = made.server.url.partition(":")[0]
        return str(Spec(f"elasticsearch+{scheme}", url=made.server.url, options=query | _bm25_options(made)))
    if made.embedder:
        return str(Spec("conversational" if made.tokens else "hybrid", options=splade_option(made)))
    return made.splade.spec if made.splade else "bm25"


def splade_option(made: Manifest) -> dict[str, str]:
    """The option by which `hybrid` and `conversational` name the sparse encoder of an index that has vectors, too."""
    return {"splade": option_of(made.splade.spec)} if made.embedder and made.splade else {}


def without_late(retriever: str) -> str:
    """A retriever's spec without its late interaction."""
    spec = parse_spec(retriever)
    kept = {key: value for key, value in spec.options.items() if not key.startswith("rerank")}
    more = {"rerank": "none"} if spec.name == "conversational" else {}
    return str(replace(spec, options=kept | more))


def _on_server(made: Manifest, spec: Spec) -> Spec:
    """What keeps the vectors on the Chroma server that holds them."""
    if not made.server or made.server.kind != "chroma" or spec.name not in ("hybrid", "conversational"):
        return spec
    options = dict(spec.options) | dict(made.server.within)
    options |= {"collection": made.server.name} if made.server.name else {}
    if spec.name == "conversational":
        options.setdefault("rerank", "late")
    return Spec(f"chroma+{made.server.url.partition(':')[0]}", url=made.server.url, options=options)


def _with_bm25(made: Manifest, spec: Spec) -> Spec:
    if spec.name not in _TAKE_BM25:
        return spec
    return replace(spec, options=_bm25_options(made) | dict(spec.options))


def _bm25_options(made: Manifest) -> dict[str, str]:
    """Those that are not the usual ones."""
    usual = BM25Settings().model_dump()
    return {key: str(value) for key, value in made.bm25.model_dump().items() if value != usual[key]}
