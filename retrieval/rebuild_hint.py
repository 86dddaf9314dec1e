"""The command that rebuilds an index, as it was or for another retriever; error messages end with it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from turnmark.corpora.specs import Spec, parse_spec
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.sparse import option_of

if TYPE_CHECKING:
    from turnmark.retrieval.manifest import Manifest

_TAKE_BM25 = ("bm25", "hybrid", "conversational", "chroma+http", "chroma+https")
_WITHOUT_EMBEDDER = ("bm25", "splade", "llama-index")


def build_command(manifest: Manifest, retriever: str) -> str:
    """The command that builds the index of a manifest for `retriever`, with the same source, globs and embedder.

    BM25's options and a Chroma server are added to the spec where it can have them and does not name them.
    """
    spec = parse_spec(retriever)
    full_spec = _with_bm25(manifest, _on_server(manifest, spec))
    words = [manifest.source, "--name", manifest.name]
    words += ["--retriever", retriever if full_spec == spec else str(full_spec)]
    names_model = spec.name in _WITHOUT_EMBEDDER or (spec.name == "dense" and spec.argument)
    if manifest.embedder and manifest.embedder.spec != "minilm" and not names_model:
        words += ["--embedder", manifest.embedder.spec]
    for flag, globs in (("--include", manifest.include), ("--exclude", manifest.exclude)):
        words += [word for glob in globs for word in (flag, glob)]
    return f"turnmark index build {shlex.join(words)}"


def retriever_of(manifest: Manifest) -> str:
    """The spec that an index was built for, with BM25's options and its server."""
    return str(_with_bm25(manifest, _on_server(manifest, parse_spec(as_built(manifest)))))


def rebuild_command(manifest: Manifest, retriever: str = "") -> str:
    """The two commands that rebuild a damaged index from its source, for `retriever` or as it was."""
    return f"turnmark index remove {manifest.name}, then {build_command(manifest, retriever or as_built(manifest))}"


def as_built(manifest: Manifest) -> str:
    """The spec of a retriever that needs exactly the parts of the index."""
    if manifest.server and manifest.server.kind == "elasticsearch":
        query = {"query": "hybrid"} if manifest.embedder else {}
        scheme = manifest.server.url.partition(":")[0]
        return str(Spec(f"elasticsearch+{scheme}", url=manifest.server.url, options=query | _bm25_options(manifest)))
    if manifest.embedder:
        return str(Spec("conversational" if manifest.tokens else "hybrid", options=splade_option(manifest)))
    return manifest.splade.spec if manifest.splade else "bm25"


def splade_option(manifest: Manifest) -> dict[str, str]:
    """The option by which `hybrid` and `conversational` name the sparse encoder of an index that also has vectors."""
    return {"splade": option_of(manifest.splade.spec)} if manifest.embedder and manifest.splade else {}


def without_late(retriever: str) -> str:
    """A retriever's spec without late interaction."""
    spec = parse_spec(retriever)
    options = {key: value for key, value in spec.options.items() if not key.startswith("rerank")}
    rerank = {"rerank": "none"} if spec.name == "conversational" else {}
    return str(replace(spec, options=options | rerank))


def _on_server(manifest: Manifest, spec: Spec) -> Spec:
    """The spec that keeps the vectors on the Chroma server that holds them."""
    server = manifest.server
    if not server or server.kind != "chroma" or spec.name not in ("hybrid", "conversational"):
        return spec
    options = dict(spec.options) | dict(server.within)
    options |= {"collection": server.name} if server.name else {}
    if spec.name == "conversational":
        options.setdefault("rerank", "late")
    return Spec(f"chroma+{server.url.partition(':')[0]}", url=server.url, options=options)


def _with_bm25(manifest: Manifest, spec: Spec) -> Spec:
    if spec.name not in _TAKE_BM25:
        return spec
    return replace(spec, options=_bm25_options(manifest) | dict(spec.options))


def _bm25_options(manifest: Manifest) -> dict[str, str]:
    """The options that differ from the default."""
    default = BM25Settings().model_dump()
    return {key: str(value) for key, value in manifest.bm25.model_dump().items() if value != default[key]}
