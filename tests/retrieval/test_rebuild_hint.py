"""The build commands in error messages: they build what is needed and keep the settings of the index."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError
from turnmark.core.home import home
from turnmark.core.specs import Spec, load_python
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.ranking.bm25 import BM25Settings
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.rebuild_commands import build_command, rebuild_command, spec_of_components
from turnmark.retrieval.search.retriever_factory import build_settings, default_retriever, open_retriever
from turnmark.retrieval.search.retriever_kinds import RETRIEVERS, find_built_in_kind
from turnmark.retrieval.storage.manifest import Manifest, ModelInfo

BGE = "sentence-transformers:/models/my bge"


def manifest(embedder: str = "minilm", **changed: Any) -> Manifest:
    info = ModelInfo(spec=embedder, fingerprint="x", dimension=3) if embedder else None
    fields: dict[str, Any] = {
        "name": "n", "generation": 1, "source": "/my notes", "documents": 1, "passages": 1, "digest": "d",
        "chunk_size": 1, "bm25": BM25Settings(), "embedder": info, "created": "", "version": "",
    }  # fmt: skip
    return Manifest(**fields | changed)


def words(command: str) -> list[str]:
    """Return the words after `--retriever`."""
    before, _, flags = command.partition(" --retriever ")
    assert before.endswith("turnmark index build '/my notes' --name n")
    return shlex.split(flags)


def test_build_command_keeps_embedder_globs_and_bm25_options():
    index = manifest(BGE, include=("a b/*", "*.md"), exclude=("x'y",))
    flags = ["--embedder", BGE, "--include", "a b/*", "--include", "*.md", "--exclude", "x'y"]
    assert words(build_command(index, "conversational")) == ["conversational", *flags]
    assert words(build_command(index, "dense:other?rerank=late")) == ["dense:other?rerank=late", *flags[2:]]
    assert words(build_command(index, "splade:m")) == ["splade:m", *flags[2:]]
    assert words(build_command(manifest(), "hybrid")) == ["hybrid"]
    tuned = BM25Settings(k1=2, language="german")
    assert words(build_command(manifest(bm25=tuned), "conversational?b=0&k1=1&rerank=none")) == [
        "conversational?b=0&k1=1&language=german&rerank=none"
    ]
    assert words(build_command(manifest(bm25=tuned), "dense")) == ["dense"]
    assert words(build_command(index, "elasticsearch+http://h/there")) == ["elasticsearch+http://h/there", *flags[2:]]
    assert words(build_command(index, "of-a-plugin?k1=1")) == ["of-a-plugin?k1=1", *flags]


@pytest.mark.parametrize("name", sorted(RETRIEVERS.entries()))
def test_each_registered_retriever_declares_how_it_is_opened(name):
    kind = find_built_in_kind(Spec(name))
    assert kind is not None
    assert callable(load_python(kind.open, "retriever"))


@pytest.mark.parametrize(
    "retriever",
    ["bm25?k1=2", "hybrid?b=0", "conversational?language=german", "splade:m", "dense",
     "chroma+http://h:1?rerank=late"],
)  # fmt: skip
def test_rebuild_command_restores_the_settings(retriever):
    """The command that builds an index again results in the same settings, for any retriever."""
    settings = build_settings(retriever)
    parts = {
        "splade": ModelInfo(spec=settings.splade, fingerprint="x", dimension=3) if settings.splade else None,
        "bm25": settings.bm25, "tokens": settings.tokens, "server": settings.server,
    }  # fmt: skip
    index = manifest(settings.embedder, **parts)
    [again] = words(build_command(index, spec_of_components(index)))
    assert build_settings(again) == settings
    assert rebuild_command(index) == f"turnmark index remove n, then {build_command(index, spec_of_components(index))}"


def test_advised_command_builds_an_index_for_the_whole_spec(tmp_path: Path, turnmark):
    notes = write(tmp_path / "my notes", boat="# Boat\n\nDrain the fuel tank.\n", bees="# Bees\n\nFeed the bees.\n")
    build_index(notes, "n", retriever="hybrid?b=0", exclude=["bees*"])
    spec = "conversational?k1=2&rerank=none"
    with pytest.raises(RequestError, match=r"was built with k1=0\.9, not 2\.0; build it again: turnmark ") as raised:
        open_retriever(spec, open_index("n"))
    command = str(raised.value).partition("build it again: turnmark ")[2]
    assert turnmark(*shlex.split(command)).code == 0
    index = open_index("n")
    assert (index.manifest.bm25.k1, index.manifest.bm25.b, index.manifest.documents) == (2, 0, 1)
    assert not index.manifest.tokens
    assert open_retriever(spec, index).name == spec
    assert default_retriever(index) == index.manifest.retriever == "conversational?b=0.0&k1=2&rerank=none"
    assert open_retriever(default_retriever(index), index).name == index.manifest.retriever


def test_advised_command_rebuilds_an_index_of_an_older_format(tmp_path: Path, turnmark):
    build_index(write(tmp_path / "notes", boat="# Boat\n\nDrain the fuel tank.\n"), "n")
    folder = home() / "indexes" / "n"
    content = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(content | {"format": 1}))
    (folder / "g0001" / "passages.db").write_bytes(b"")
    with pytest.raises(RequestError, match=r"has format 1, this version reads 6; .*: turnmark ") as raised:
        open_index("n")
    result = turnmark(*shlex.split(str(raised.value).partition("): turnmark ")[2]))
    assert result.code == 0
    assert "embedding everything again" not in result.err
    assert open_index("n").manifest.documents == 1
