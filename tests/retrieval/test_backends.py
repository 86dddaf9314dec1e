"""What runs an embedding model: PyTorch and OpenVINO give the same, and what cannot run falls back with a word."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.retrieval.tiny import dense
from turnmark.core.errors import RequestError
from turnmark.retrieval.embedding import model_loading as backends
from turnmark.retrieval.embedding import openvino_runner
from turnmark.retrieval.embedding.bert_files import NotBert, read_bert, read_weights
from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, Embedder, open_embedder, prompts_of
from turnmark.retrieval.embedding.int8_ranges import SHIPPED_FILE

PRECISIONS = ["fp32", "int8", *(["bf16"] if backends.cpu_has_amx() else [])]
"""The precisions that this processor has in hardware."""

TEXTS = ["How do I bake bread?", "", "The tide table of the harbour " * 20, "Baking a loaf, and tea.", "æ 水 ?!"]


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With OpenVINO, in this file only: an embedder that others opened has settled on PyTorch."""
    monkeypatch.delenv("TURNMARK_BACKEND", raising=False)
    monkeypatch.delenv("TURNMARK_PRECISION", raising=False)
    open_embedder.cache_clear()
    yield
    open_embedder.cache_clear()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small model that has prompts."""
    folder = tmp_path_factory.mktemp("models")
    dense(folder, prompts={"query": "ask ", "document": "of "})
    return folder / "model"


def running(model: str, backend: str, precision: str) -> Embedder:
    """A model on a backend at a precision, whatever this processor would choose."""
    with pytest.MonkeyPatch.context() as patch:
        choice = backends.Choice(backend=backend, precision=precision)
        patch.setattr(backends, "choose_backend", lambda: choice)
        open_embedder.cache_clear()
        embedder = open_embedder(model)
        assert embedder.backend == f"{backend} {precision}"  # from here on it is settled
    return embedder


def both(model: str) -> tuple[Embedder, Embedder]:
    """A model on PyTorch and on OpenVINO, in fp32."""
    return running(model, "torch", "fp32"), running(model, "openvino", "fp32")


@pytest.mark.parametrize("role", ["query", "passage"])
def test_both_backends_return_the_same_vectors_tokens_and_ids(models, role):
    torch, openvino = both(f"sentence-transformers:{models}")
    ours, our_tokens, our_ids = openvino.encode_both(TEXTS, role)
    theirs, their_tokens, their_ids = torch.encode_both(TEXTS, role)
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert openvino.encode(TEXTS, role) == pytest.approx(torch.encode(TEXTS, role), abs=1e-4)
    texts = zip(our_tokens, their_tokens, our_ids, their_ids, strict=True)
    for ours_of_text, theirs_of_text, our_text_ids, their_text_ids in texts:
        assert ours_of_text == pytest.approx(theirs_of_text, abs=1e-4)
        assert our_text_ids.tolist() == their_text_ids.tolist()
        assert our_text_ids.dtype == np.int32
        assert len(ours_of_text) == len(our_text_ids) >= 2, "the special tokens are among them"
        assert np.linalg.norm(ours_of_text, axis=1) == pytest.approx(np.ones(len(ours_of_text)), abs=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_vector_does_not_depend_on_its_batch(precision, models, monkeypatch):
    """Alone, a few in one row, many in rows, and with cores that work together or apart.

    In 8-bit integers the bundled model, which every other test converts too; else a small one.
    """
    model = "minilm" if precision == "int8" else f"sentence-transformers:{models}"
    embedder = running(model, "openvino", precision)
    texts = [f"word {'long ' * (i % 23)}{i}" for i in range(23)]
    for role in ("query",) if precision == "int8" else ("query", "passage"):
        alone = np.concatenate([embedder.encode([text], role) for text in texts])
        assert (embedder.encode(texts, role) == alone).all()
        few = [embedder.encode_both(texts[start : start + 5], role) for start in range(0, 23, 5)]
        assert (np.concatenate([vectors for vectors, _, _ in few]) == alone).all()
        with monkeypatch.context() as patch:
            patch.setattr(openvino_runner, "MAX_SINGLE_BATCH_TOKENS", 0)
            assert (embedder.encode(texts, role) == alone).all()
        assert (few[0][1][3] == embedder.encode_both(texts[3:4], role)[1][0]).all()
    if precision == "int8" and backends.cpu_has_vnni():  # without, sums overflow, and no passage is embedded in it
        exact = running("minilm", "torch", "fp32")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        pieces = [readme[start : start + 600] for start in range(0, 6000, 600)]
        for role in ("query", "passage"):
            assert (embedder.encode(pieces, role) * exact.encode(pieces, role)).sum(axis=1).min() >= 0.99
        assert embedder.fingerprint == exact.fingerprint


def test_runs_a_model_with_its_own_token_positions(tmp_path):
    """A RoBERTa counts from its padding's id on."""
    torch, openvino = both(f"sentence-transformers:{dense(tmp_path, kind='RobertaModel')}")
    assert openvino.encode(TEXTS, "query") == pytest.approx(torch.encode(TEXTS, "query"), abs=1e-4)
    one_by_one = np.concatenate([openvino.encode([text], "query") for text in TEXTS])
    assert one_by_one == pytest.approx(torch.encode(TEXTS, "query"), abs=1e-4)


def test_a_model_in_the_cache_of_the_hub_runs_too(models, tmp_path, monkeypatch):
    """Many threads use it at once."""
    snapshot = tmp_path / "models--tiny--model" / "snapshots" / ("0" * 40)
    shutil.copytree(models, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    openvino = running("sentence-transformers:tiny/model", "openvino", "fp32")
    expected = running(f"sentence-transformers:{models}", "torch", "fp32").encode(TEXTS, "query")
    assert openvino.tokenizer()("bread")
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: np.concatenate([openvino.encode([t], "query") for t in TEXTS]), range(8)):
            assert vectors == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("flags", "precision"),
    [({"amx_bf16", "avx512_vnni"}, "bf16"), ({"avx512_bf16", "avx512_vnni"}, "int8"), ({"avx512_bf16"}, "fp32")],
)
def test_chooses_the_fastest_precision_of_the_processor(flags, precision, monkeypatch):
    """bf16 without AMX takes 1.6 times as long as fp32, and three times as long as 8-bit integers."""
    monkeypatch.setattr(backends, "_cpu_flags", lambda: flags)
    assert str(backends.choose_backend()) == f"openvino {precision}"


def test_environment_selects_torch_and_fp32(monkeypatch):
    monkeypatch.setattr(backends, "cpu_has_amx", lambda: True)
    assert backends.torch_choice().precision == "bf16"
    monkeypatch.setenv("TURNMARK_PRECISION", "fp32")
    assert backends.choose_backend().precision == backends.torch_choice().precision == "fp32"
    monkeypatch.setenv("TURNMARK_BACKEND", "torch")
    assert str(backends.choose_backend()) == "torch fp32"
    monkeypatch.setenv("TURNMARK_PRECISION", "bf16")
    with pytest.raises(RequestError, match="TURNMARK_PRECISION='bf16': fp32 or auto was expected"):
        backends.choose_backend()


def test_torch_runs_where_openvino_cannot_be_loaded(monkeypatch):
    monkeypatch.setenv("TURNMARK_PRECISION", "fp32")
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert str(backends.choose_backend()) == "torch fp32"
    assert "OpenVINO does not start here" in backends.choose_backend().note


def test_unsupported_model_runs_on_torch_with_a_notice(tmp_path, caplog, monkeypatch):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    monkeypatch.setenv("TURNMARK_PRECISION", "fp32")
    dense(tmp_path, "plain")
    base = str(tmp_path / "plain")
    model = SentenceTransformer(modules=[Transformer(base, max_seq_length=32), Pooling(16, pooling_mode="max")])
    model.save(str(tmp_path / "max"))
    embedder = open_embedder(f"sentence-transformers:{tmp_path / 'max'}")
    with caplog.at_level(logging.WARNING, logger="turnmark"):
        vectors = embedder.encode(TEXTS, "passage")
    expected = model.encode(TEXTS, normalize_embeddings=True)
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert embedder.backend == "torch fp32"
    assert "OpenVINO cannot run it: its pooling is 'max'" in caplog.text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config.json": {"model_type": "mpnet"}}, "its type is 'mpnet'"),
        ({"config.json": {"hidden_act": "relu"}}, "its hidden_act is 'relu'"),
        ({"sentence_bert_config.json": {"do_lower_case": True}}, "it lowercases its texts"),
        ({"1_Pooling/config.json": {"include_prompt": False}}, "its pooling is 'mean'"),
    ],
)
def test_a_model_that_is_not_quite_a_bert_is_refused(models, tmp_path, change, reason):
    shutil.copytree(models, tmp_path / "model")
    for name, values in change.items():
        path = tmp_path / "model" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(NotBert, match=reason):
        read_bert(tmp_path / "model")


def test_damaged_weights_are_not_those_of_a_bert(models, tmp_path):
    for content in (b"", b"short", (1 << 40).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{}"):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(NotBert, match="does not contain a BERT"):
            read_weights(tmp_path)


def test_the_sizes_and_prompts_of_a_bert_are_those_that_the_library_reads(models, tmp_path):
    from sentence_transformers import SentenceTransformer

    for folder in (models, models.parent / "base", dense(tmp_path, kind="RobertaModel"), MINILM_FOLDER):
        theirs, ours = SentenceTransformer(str(folder), device="cpu"), read_bert(folder)
        assert ours.max_tokens == theirs.max_seq_length
        assert ours.dimension == theirs.get_embedding_dimension()
        assert prompts_of("", ours.prompts) == prompts_of("", theirs.prompts)


def test_8_bit_ranges_are_found_once_and_announced(tmp_path, monkeypatch, caplog):
    """Those of the bundled model come with it."""
    monkeypatch.setenv("TURNMARK_CACHE", str(tmp_path / "cache"))
    shipped = running("minilm", "openvino", "int8").encode(TEXTS, "passage")
    assert not caplog.text
    shutil.copytree(MINILM_FOLDER, tmp_path / "model", ignore=shutil.ignore_patterns(SHIPPED_FILE))
    found = running(f"sentence-transformers:{tmp_path / 'model'}", "openvino", "int8").encode(TEXTS, "passage")
    assert (found * shipped).sum(axis=1).min() > 0.99
    assert caplog.text.count("preparing its 8-bit form") == 1
    again = running(f"sentence-transformers:{tmp_path / 'model'}", "openvino", "int8").encode(TEXTS, "passage")
    assert (found == again).all()
    assert caplog.text.count("preparing its 8-bit form") == 1
    assert [path.suffix for path in (tmp_path / "cache").rglob("*.*")] == [".npz"]


def test_a_model_that_8_bit_integers_would_change_runs_in_fp32_and_says_so(tmp_path, models, monkeypatch, caplog):
    monkeypatch.setenv("TURNMARK_CACHE", str(tmp_path))
    monkeypatch.setattr("turnmark.retrieval.embedding.int8_ranges.MIN_COSINE", 1.1)
    for _ in range(2):
        embedder = running(f"sentence-transformers:{models}", "openvino", "int8")
        exact = running(f"sentence-transformers:{models}", "openvino", "fp32")
        assert (embedder.encode(TEXTS, "query") == exact.encode(TEXTS, "query")).all()
        assert embedder.backend == "openvino fp32"
    assert "8-bit integers would change its vectors" in caplog.text


def test_embedding_opens_no_socket_writes_into_the_cache_alone_and_needs_no_torch(models, tmp_path):
    code = (
        "import socket, sys\n"
        "def watch(event, arguments):\n"
        "    if event in ('socket.__new__', 'socket.connect', 'socket.getaddrinfo', 'socket.gethostbyname'):\n"
        "        print(event, arguments)\n"
        "sys.addaudithook(watch)\n"
        "from turnmark.retrieval.embedding import model_loading\n"
        "model_loading.choose_backend = lambda: model_loading.Choice(backend='openvino', precision='int8')\n"
        "from turnmark.retrieval.embedding.embedders import open_embedder\n"
        f"made = open_embedder('sentence-transformers:{models}')\n"
        "assert made.encode(['tea', 'bread'], 'passage').shape == (2, 16)\n"
        "assert not {'torch', 'openvino_telemetry', 'sentence_transformers', 'transformers'} & set(sys.modules)\n"
    )
    places = {name: tmp_path / name for name in ("HOME", "cwd", "TURNMARK_HOME", "TURNMARK_CACHE")}
    for place in places.values():
        place.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "HF_", "TORCH"))}
    env |= {name: str(place) for name, place in places.items() if name != "cwd"}
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=places["cwd"], env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (0, ""), process.stderr
    written = {name: [path for path in place.rglob("*") if path.is_file()] for name, place in places.items()}
    assert [path.suffix for path in written.pop("TURNMARK_CACHE")] == [".npz"]
    assert not any(written.values()), written
