"""What an index is and how it was made: the record that is written last, when everything else is there."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.core.specs import Spec, parse_spec
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.servers import Served

FORMAT = 3


class ModelInfo(Record):
    """Which model made a part of an index. `dimension`: of a vector; how many terms a sparse encoder has."""

    spec: str
    fingerprint: str
    dimension: int


class Manifest(Record):
    """What an index is and how it was made."""

    format: int = FORMAT
    name: str
    generation: int
    source: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    documents: int
    passages: int
    digest: str
    chunk_size: int
    bm25: BM25Settings
    embedder: ModelInfo | None
    splade: ModelInfo | None = None
    tokens: bool = Field(default=False, description="whether the embedder's token vectors are kept too")
    exact: bool = Field(default=False, description="whether the vectors are in one file, all compared with a query")
    server: Served | None = Field(default=None, description="which server holds a part of it, as it was asked for")
    sure_from: float | None = Field(
        default=None, description="confidence from which an answer without a model is sure; None: not known"
    )
    skipped: int = 0
    internal: bool = Field(default=False, description="kept for a benchmark's corpus; not offered to a person")
    created: str
    version: str

    def models(self) -> dict[str, ModelInfo]:
        """The models that made it, by their field."""
        named = {"embedder": self.embedder, "splade": self.splade}
        return {name: info for name, info in named.items() if info}


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a finished index, or None."""
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        return Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError) as error:
        raise TurnmarkError(
            f"{path} cannot be read ({type(error).__name__}); build the index again: "
            f"turnmark index remove {folder.name}, then turnmark index build SOURCE --name {folder.name}"
        ) from error


class BuildSettings(Record):
    """What a retriever spec settles when an index is built for it. No embedder: no vectors; no encoder: no SPLADE."""

    bm25: BM25Settings
    embedder: str = ""
    splade: str = ""
    tokens: bool = Field(default=False, description="the embedder's token vectors too, for late interaction")
    server: Served | None = None

    def models(self) -> dict[str, str]:
        """Field of the manifest -> spec of the model."""
        named = {"embedder": self.embedder, "splade": self.splade}
        return {name: spec for name, spec in named.items() if spec}


_TAKE_BM25 = ("bm25", "hybrid", "conversational", "chroma+http", "chroma+https")
_WITHOUT_EMBEDDER = ("bm25", "splade", "llama-index")


def build_command(manifest: Manifest, retriever: str) -> str:
    """The command that builds the index of a manifest for `retriever`, with the same source, globs and embedder.

    BM25's options are added to the spec where it can have them and does not name them.
    """
    spec = parse_spec(retriever)
    default = BM25Settings().model_dump()
    if spec.name in _TAKE_BM25:
        bm25 = {key: str(value) for key, value in manifest.bm25.model_dump().items() if value != default[key]}
        spec = replace(spec, options=bm25 | dict(spec.options))
    words = [manifest.source, "--name", manifest.name, "--retriever", str(spec)]
    names_model = spec.name in _WITHOUT_EMBEDDER or (spec.name == "dense" and spec.argument)
    if manifest.embedder and manifest.embedder.spec != "minilm" and not names_model:
        words += ["--embedder", manifest.embedder.spec]
    for flag, globs in (("--include", manifest.include), ("--exclude", manifest.exclude)):
        words += [word for glob in globs for word in (flag, glob)]
    return f"turnmark index build {shlex.join(words)}"


def rebuild_command(manifest: Manifest) -> str:
    """The two commands that rebuild a damaged index from its source, as it was."""
    return f"turnmark index remove {manifest.name}, then {build_command(manifest, as_built(manifest))}"


def as_built(manifest: Manifest) -> str:
    """The spec of a retriever that needs exactly the parts of the index."""
    if not manifest.embedder:
        return manifest.splade.spec if manifest.splade else "bm25"
    options = splade_option(manifest)
    if server := manifest.server:
        late = {"rerank": "late"} if manifest.tokens else {}
        return str(Spec(f"chroma+{server.url.partition(':')[0]}", url=server.url, options=options | late))
    return str(Spec("conversational" if manifest.tokens else "hybrid", options=options))


def splade_option(manifest: Manifest) -> dict[str, str]:
    """The option by which `hybrid` and `conversational` name the sparse encoder of an index that also has vectors."""
    return {"splade": manifest.splade.spec.removeprefix("splade:")} if manifest.embedder and manifest.splade else {}


def without_late(retriever: str) -> str:
    """A retriever's spec without late interaction."""
    spec = parse_spec(retriever)
    options = {key: value for key, value in spec.options.items() if not key.startswith("rerank")}
    rerank = {"rerank": "none"} if spec.name == "conversational" else {}
    return str(replace(spec, options=options | rerank))
