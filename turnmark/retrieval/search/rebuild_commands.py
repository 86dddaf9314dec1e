"""The commands that rebuild an index, and the specs of retrievers that an existing index supports."""

from __future__ import annotations

import shlex
from dataclasses import replace

from turnmark.core.specs import Spec, parse_spec
from turnmark.retrieval.ranking.bm25 import BM25Settings
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER, find_built_in_kind
from turnmark.retrieval.storage.manifest import Manifest

EMBEDDED_PER_SECOND = 150
"""Passages that two cores embed per second with the default embedder (docs/measured.md)."""


def build_command(manifest: Manifest, retriever: str) -> str:
    """Return the command that builds the index of a manifest for `retriever`, with the same source, globs and embedder.

    The index's BM25 options are added to the spec if it accepts them and does not set them.
    """
    spec = parse_spec(add_bm25_options(manifest, retriever))
    words = [manifest.source, "--name", manifest.name, "--retriever", str(spec)]
    kind = find_built_in_kind(spec)
    takes_embedder = kind is None or kind.uses_embedder_flag(spec)
    if takes_embedder and manifest.embedder and manifest.embedder.spec != "minilm":
        words += ["--embedder", manifest.embedder.spec]
    if manifest.passage_tokens:
        words += ["--passage-tokens", str(manifest.passage_tokens)]
    if manifest.described:
        words += ["--describe", manifest.described.spec]
    for glob in manifest.include:
        words += ["--include", glob]
    for glob in manifest.exclude:
        words += ["--exclude", glob]
    return f"turnmark index build {shlex.join(words)}"


def add_bm25_options(manifest: Manifest, retriever: str) -> str:
    """Return a retriever's spec with the BM25 options of an index, if it accepts them and does not set them."""
    spec = parse_spec(retriever)
    kind = find_built_in_kind(spec)
    if kind is None or not kind.takes_bm25_options():
        return retriever
    default = BM25Settings().model_dump()
    options = {key: str(value) for key, value in manifest.bm25.model_dump().items() if value != default[key]}
    return str(replace(spec, options=options | dict(spec.options)))


def rebuild_command(manifest: Manifest) -> str:
    """Return the two commands that rebuild a damaged index from its source, with the same settings."""
    return f"turnmark index remove {manifest.name}, then {build_command(manifest, spec_of_build(manifest))}"


def describe_cost(manifest: Manifest) -> str:
    """Return what building an index again takes, in words."""
    if not manifest.embedder:
        return f"all files are read again, and none of its {manifest.passages:,} passages is embedded"
    minutes = max(round(manifest.passages / EMBEDDED_PER_SECOND / 60), 1)
    return f"all files are read again, and its {manifest.passages:,} passages are embedded, in about {minutes} min"


def spec_of_build(manifest: Manifest) -> str:
    """Return the spec that was given to the build; if none was given, that of `spec_of_components`."""
    return manifest.retriever or spec_of_components(manifest)


def spec_of_components(manifest: Manifest) -> str:
    """Return the spec of a retriever that needs exactly the components of the index."""
    if not manifest.embedder:
        return manifest.splade.spec if manifest.splade else "bm25"
    options = splade_option(manifest)
    server = manifest.server
    if server is None:
        return str(Spec("conversational" if manifest.tokens else "hybrid", options=options))
    if manifest.tokens:
        options["rerank"] = LATE_RERANKER
    scheme = server.url.partition(":")[0]
    return str(Spec(f"chroma+{scheme}", url=server.url, options=options))


def splade_option(manifest: Manifest) -> dict[str, str]:
    """Return the option that names the sparse encoder of an index with vectors, for `hybrid` and `conversational`."""
    if not manifest.embedder or not manifest.splade:
        return {}
    return {"splade": manifest.splade.spec.removeprefix("splade:")}
