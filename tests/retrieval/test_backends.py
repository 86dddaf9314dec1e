"""What runs an embedding model: PyTorch and OpenVINO give the same, and what cannot run falls back with a word."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.patience import PATIENCE
from tests.retrieval.tiny import dense
from turnmark.core.errors import RequestError
from turnmark.retrieval import models as backends
from turnmark.retrieval import openvino_run
from turnmark.retrieval.embed import Embedder, open_embedder
from turnmark.retrieval.models import load_model
from turnmark.retrieval.openvino_export import export
from turnmark.retrieval.openvino_run import BATCH_TOKENS, STEP, _batches

HAS_OPENVINO = importlib.util.find_spec("openvino") is not None
needs_openvino = pytest.mark.skipif(not HAS_OPENVINO, reason="openvino is not installed")
PRECISIONS = ["fp32", "int8", *(["bf16"] if backends.cpu_has_amx() else [])]
"""Those that this processor has in hardware."""

TEXTS = ["How do I bake bread?", "", "The tide table of the harbour " * 20, "Baking a loaf, and tea.", "æ 水 ?!"]


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With OpenVINO, in this file only: an embedder that others opened has settled on PyTorch."""
    monkeypatch.delenv("TURNMARK_BACKEND", raising=False)
    monkeypatch.delenv("TURNMARK_PRECISION", raising=False)
    open_embedder.cache_clear()
    yield
    open_embedder.cache_clear()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert models in this process. Importing PyTorch in another one takes longer than the conversion."""

    def convert(model: str, owner: str, folder: Path, with_int8: bool) -> None:
        export(load_model("SentenceTransformer", model, owner, half=False), folder, with_int8)

    monkeypatch.setattr("turnmark.retrieval.openvino_convert.export_apart", convert)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model that has prompts."""
    folder = tmp_path_factory.mktemp("models")
    dense(folder, prompts={"query": "ask ", "document": "of "})
    return folder / "model"


def running(model: str, backend: str, precision: str) -> Embedder:
    """A model on a backend at a precision, whatever this processor would choose."""
    with pytest.MonkeyPatch.context() as patch:
        choice = backends.Choice(backend=backend, precision=precision)
        patch.setattr(backends, "choose", lambda: choice)
        open_embedder.cache_clear()
        embedder = open_embedder(model)
        assert embedder.backend == f"{backend} {precision}"  # from here on it is settled
    return embedder


def both(model: str) -> tuple[Embedder, Embedder]:
    """A model on PyTorch and on OpenVINO, in fp32."""
    return running(model, "torch", "fp32"), running(model, "openvino", "fp32")


@needs_openvino
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("role", ["query", "passage"])
def test_both_backends_give_the_same_vectors_tokens_and_ids(models, role):
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


@needs_openvino
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_vector_does_not_depend_on_its_neighbours_by_a_single_bit(precision, models, monkeypatch):
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
            patch.setattr(openvino_run, "QUICK_TOKENS", 0)
            assert (embedder.encode(texts, role) == alone).all()
        assert (few[0][1][3] == embedder.encode_both(texts[3:4], role)[1][0]).all()
    if precision == "int8":
        exact = running("minilm", "torch", "fp32")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        pieces = [readme[start : start + 600] for start in range(0, 6000, 600)]
        for role in ("query", "passage"):
            assert (embedder.encode(pieces, role) * exact.encode(pieces, role)).sum(axis=1).min() >= 0.99
        assert embedder.fingerprint == exact.fingerprint


@needs_openvino
@pytest.mark.usefixtures("in_this_process")
def test_a_model_that_numbers_its_tokens_itself_runs_too(tmp_path):
    """A RoBERTa counts from its padding's id on; none of its texts share a row."""
    torch, openvino = both(f"sentence-transformers:{dense(tmp_path, kind='RobertaModel')}")
    assert openvino.encode(TEXTS, "query") == pytest.approx(torch.encode(TEXTS, "query"), abs=1e-4)
    one_by_one = np.concatenate([openvino.encode([text], "query") for text in TEXTS])
    assert one_by_one == pytest.approx(torch.encode(TEXTS, "query"), abs=1e-4)


@needs_openvino
@pytest.mark.usefixtures("in_this_process")
def test_a_model_of_the_hub_is_converted_too(models, monkeypatch):
    """Its name tells nothing of its content, which is asked of the loaded model while it is converted."""
    monkeypatch.setattr("turnmark.retrieval.embed.settings_digest", lambda _: "")
    torch, openvino = both(f"sentence-transformers:{models}")
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(openvino.encode, TEXTS, "query"), pool.submit(lambda: openvino.tokenizer()("bread"))]
        assert all(future.result(PATIENCE) is not None for future in waiting), "one waits for the other"
    expected = openvino.encode(TEXTS, "query")
    assert expected == pytest.approx(torch.encode(TEXTS, "query"), abs=1e-4)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: np.concatenate([openvino.encode([t], "query") for t in TEXTS]), range(8)):
            assert vectors == pytest.approx(expected, abs=1e-4)


@needs_openvino
@pytest.mark.parametrize(
    ("flags", "precision"),
    [({"amx_bf16", "avx512_vnni"}, "bf16"), ({"avx512_bf16", "avx512_vnni"}, "int8"), ({"avx512_bf16"}, "fp32")],
)
def test_the_fastest_precision_of_the_processor_is_chosen(flags, precision, monkeypatch):
    """bf16 without AMX takes 1.6 times as long as fp32, and three times as long as 8-bit integers."""
    monkeypatch.setattr(backends, "_cpu_flags", lambda: flags)
    assert str(backends.choose()) == f"openvino {precision}"


def test_the_environment_asks_for_torch_and_for_fp32_on_every_processor(monkeypatch):
    monkeypatch.setattr(backends, "cpu_has_amx", lambda: True)
    assert backends.torch_choice().precision == "bf16"
    monkeypatch.setenv("TURNMARK_PRECISION", "fp32")
    assert backends.choose().precision == backends.torch_choice().precision == "fp32"
    monkeypatch.setenv("TURNMARK_BACKEND", "torch")
    assert str(backends.choose()) == "torch fp32"
    monkeypatch.setenv("TURNMARK_PRECISION", "bf16")
    with pytest.raises(RequestError, match="TURNMARK_PRECISION='bf16': fp32 or auto was expected"):
        backends.choose()
    monkeypatch.delenv("TURNMARK_BACKEND")
    monkeypatch.setenv("TURNMARK_PRECISION", "fp32")
    monkeypatch.setattr(backends, "openvino_installed", lambda: False)
    assert str(backends.choose()) == "torch fp32"


@needs_openvino
def test_a_model_of_another_form_runs_on_torch_and_says_so(tmp_path, caplog, monkeypatch):
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


@needs_openvino
def test_a_kept_conversion_needs_no_torch_and_reports_to_nobody():
    open_embedder("minilm").encode(["tea"], "query")
    code = (
        "import sys; from turnmark.retrieval.embed import open_embedder\n"
        "open_embedder('minilm').encode(['tea'], 'query')\n"
        "print(sorted({'torch', 'openvino_telemetry', 'sentence_transformers'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.slow
@needs_openvino
def test_converting_and_running_opens_no_socket_and_writes_into_the_cache_alone(models, tmp_path):
    code = (
        "import socket, sys\n"
        "def watch(event, arguments):\n"
        "    if event in ('socket.__new__', 'socket.connect', 'socket.getaddrinfo', 'socket.gethostbyname'):\n"
        "        print(event, arguments)\n"
        "sys.addaudithook(watch)\n"
        "from turnmark.retrieval.embed import open_embedder\n"
        f"made = open_embedder('sentence-transformers:{models}')\n"
        "assert made.encode(['tea', 'bread'], 'passage').shape == (2, 16)\n"
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
    assert {path.name for path in written.pop("TURNMARK_CACHE")} >= {"model.xml", "model.bin", "about.json"}
    assert not any(written.values()), written


@given(st.lists(st.integers(1, 600), max_size=200))
def test_batches_hold_every_text_once_and_little_padding(lengths):
    batches = list(_batches(lengths))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= BATCH_TOKENS
        assert lengths[batch[0]] == longest
    assert STEP <= BATCH_TOKENS
