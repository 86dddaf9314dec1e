"""What an index is and how it was made: the record that is written last, when everything else is there."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.specs import Spec, parse_spec
from turnmark.corpora.types import Record
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.servers import Served

FORMAT = 2


class ModelInfo(Record):
    """Which model made a part of an index. `dimension`: of a vector; how many terms a sparse encoder has."""

    spec: str
    fingerprint: str
    dimension: int


class Manifest(Record, extra="allow"):
    """What an index is and how it was made.

    Further fields say which model made the component of that name, as `splade` does.
    """

    __pydantic_extra__: dict[str, ModelInfo] = Field(init=False)

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
    skipped: int = 0
    internal: bool = Field(default=False, description="kept for a benchmark's corpus; not offered to a person")
    created: str
    version: str

    def models(self) -> dict[str, ModelInfo]:
        """The models that made it: `embedder`, and by component the others."""
        named = {"embedder": self.embedder, "splade": self.splade, **self.__pydantic_extra__}
        return {name: info for name, info in named.items() if info}

    def model(self, name: str) -> ModelInfo | None:
        """The model that made the vectors (`embedder`) or a component."""
        return self.models().get(name)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a finished index, or None."""
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content.pop("chunk_overlap", None)  # of format 1, which is still to be named in a message
        return Manifest.model_validate(content)
    except (OSError, ValueError, ValidationError) as error:
        raise TurnmarkError(
            f"{path} cannot be read ({type(error).__name__}); build the index again: turnmark index build SOURCE "
            f"--name {folder.name}"
        ) from error


class BuildSettings(Record, extra="allow"):
    """What a retriever spec settles when an index is built for it. No embedder: no vectors; no encoder: no SPLADE.

    Further fields are specs of the models of components, as `splade` is.
    """

    __pydantic_extra__: dict[str, str] = Field(init=False)

    bm25: BM25Settings
    embedder: str = ""
    splade: str = ""
    tokens: bool = Field(default=False, description="the embedder's token vectors too, for late interaction")
    server: Served | None = None

    def component_models(self) -> dict[str, str]:
        """Component -> spec of its model."""
        named = {"splade": self.splade, **self.__pydantic_extra__}
        return {name: spec for name, spec in named.items() if spec}


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


def rebuild_command(manifest: Manifest, retriever: str = "") -> str:
    """The two commands that rebuild a damaged index from its source, for `retriever` or as it was."""
    return f"turnmark index remove {manifest.name}, then {build_command(manifest, retriever or as_built(manifest))}"


def as_built(manifest: Manifest) -> str:
    """The spec of a retriever that needs exactly the parts of the index."""
    if manifest.embedder:
        return str(Spec("conversational" if manifest.tokens else "hybrid", options=splade_option(manifest)))
    return next((info.spec for info in manifest.models().values()), "bm25")


def splade_option(manifest: Manifest) -> dict[str, str]:
    """The option by which `hybrid` and `conversational` name the sparse encoder of an index that also has vectors."""
    return {"splade": manifest.splade.spec.removeprefix("splade:")} if manifest.embedder and manifest.splade else {}


def without_late(retriever: str) -> str:
    """A retriever's spec without late interaction."""
    spec = parse_spec(retriever)
    options = {key: value for key, value in spec.options.items() if not key.startswith("rerank")}
    rerank = {"rerank": "none"} if spec.name == "conversational" else {}
    return str(replace(spec, options=options | rerank))


def _on_server(manifest: Manifest, spec: Spec) -> Spec:
    """The spec that keeps the vectors on the Chroma server that holds them."""
    server = manifest.server
    if not server or spec.name not in ("hybrid", "conversational"):
        return spec
    options = dict(spec.options)
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
