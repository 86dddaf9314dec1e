"""Loads models of sentence-transformers, and chooses the backend and the precision that they run at.

A BERT (`turnmark.retrieval.embedding.bert_files`), such as the bundled model, runs on OpenVINO, and every other model
on PyTorch. Texts are embedded at the fastest precision whose vectors stay within a cosine of .01: bf16 where the
processor has AMX, 8-bit integers where it has VNNI, else fp32. Queries are embedded at the same precision as passages:
in fp32 they take twice as long and find no more (nDCG@5 on the ClapNQ pool .471 in fp32, .473 in 8-bit integers).
`TURNMARK_PRECISION=fp32` gives the same vectors on every processor, and `TURNMARK_BACKEND=torch` those of PyTorch.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.extras import is_installed, require_extra
from turnmark.core.home import file_sha256
from turnmark.core.record import Record
from turnmark.retrieval.embedding.bert_files import WORD_VECTORS, BertConfig, NotBert, read_weights

if TYPE_CHECKING:
    from turnmark.retrieval.embedding.openvino_runner import Runner

BACKEND, PRECISION = "TURNMARK_BACKEND", "TURNMARK_PRECISION"


class Choice(Record):
    """A backend and its precision; `note` says why a faster one is not used."""

    backend: str
    precision: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.backend} {self.precision}"


def cpu_has_amx() -> bool:
    """Return whether the processor multiplies matrices of bf16 (AMX, Linux). Without, bf16 is slower than fp32, even
    where AVX-512 has instructions for it.
    """
    return "amx_bf16" in _cpu_flags()


def cpu_has_vnni() -> bool:
    """Return whether the processor adds products of 8-bit integers in 32 bits; otherwise sums may overflow (Linux)."""
    return not _cpu_flags().isdisjoint(("avx512_vnni", "avx_vnni"))


@cache
def _cpu_flags() -> frozenset[str]:
    try:
        return frozenset(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    except OSError:
        return frozenset()


def has_gpu() -> bool:
    """Return whether PyTorch has a GPU. PyTorch is imported only if it is installed and there may be one."""
    if sys.platform == "linux" and not Path("/proc/driver/nvidia").exists() and not Path("/dev/kfd").exists():
        return False
    if not is_installed("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _asks_for(variable: str, value: str) -> bool:
    """Return whether an environment variable is set to `value`, the only alternative to `auto`."""
    setting = os.environ.get(variable) or "auto"
    if setting not in ("auto", value):
        raise RequestError(f"{variable}={setting!r}: {value} or auto was expected")
    return setting == value


def torch_choice(note: str = "") -> Choice:
    """Choose PyTorch, in bf16 where that is faster. `note` says why no other backend is used."""
    require_extra("torch", f"PyTorch ({note or f'{BACKEND}=torch'})")
    half = not _asks_for(PRECISION, "fp32") and (has_gpu() or cpu_has_amx())
    return Choice(backend="torch", precision="bf16" if half else "fp32", note=note)


def choose_backend() -> Choice:
    """Choose the backend and precision for an embedding model."""
    exact = _asks_for(PRECISION, "fp32")
    if _asks_for(BACKEND, "torch") or has_gpu():
        return torch_choice()
    fastest = "bf16" if cpu_has_amx() else "int8" if cpu_has_vnni() else "fp32"
    try:
        from turnmark.retrieval.embedding.openvino_runner import openvino

        openvino().Core()
    except (ImportError, OSError, RuntimeError) as error:
        return torch_choice(f"OpenVINO does not start here: {error}")
    return Choice(backend="openvino", precision="fp32" if exact else fastest)


class Backend:
    """The backend of one embedding model. It is chosen when it is first requested, and prepared for the first text.

    Args:
        owner: the embedder, for messages.
        config: the model's configuration, or why it is not a BERT.
        digest: of the weights; empty if it is not known.
    """

    def __init__(self, owner: str, config: BertConfig | NotBert, digest: str) -> None:
        self._owner, self._config, self._digest = owner, config, digest
        self._lock = threading.RLock()
        self._choice: Choice | None = None
        self._runner: Runner | None = None

    @property
    def choice(self) -> Choice:
        """The backend in use; before the first text, the one that will be tried."""
        with self._lock:
            if self._choice is None:
                choice = choose_backend()
                if choice.backend == "openvino" and isinstance(self._config, NotBert):
                    choice = torch_choice(f"OpenVINO cannot run it: {self._config}")
                self._settle(choice)
            assert self._choice is not None
            return self._choice

    def _settle(self, choice: Choice) -> None:
        self._choice = choice
        if choice.note:
            logging.getLogger("turnmark").warning("%s runs on %s: %s", self._owner, choice, choice.note)

    def runner(self) -> Runner | None:
        """Return what runs the model with OpenVINO, or None if PyTorch runs it."""
        with self._lock:
            if self._runner is None and self.choice.backend == "openvino" and isinstance(self._config, BertConfig):
                try:
                    self._runner = self._open(self._config)
                except NotBert as error:
                    self._settle(torch_choice(f"OpenVINO cannot run it: {error}"))
            return self._runner

    def _open(self, config: BertConfig) -> Runner:
        from turnmark.retrieval.embedding.bert_graph import build_graph
        from turnmark.retrieval.embedding.int8_ranges import known_ranges
        from turnmark.retrieval.embedding.openvino_runner import Runner

        weights, ranges = read_weights(config.folder), None
        if self.choice.precision == "int8":
            digest = self._digest or file_sha256(config.folder / "model.safetensors")
            key = digest + settings_digest(config.folder)
            ranges = known_ranges(config, weights, key, self._announce)
            if not ranges:
                note = "8-bit integers would change its vectors by more than a cosine of .01"
                self._settle(Choice(backend="openvino", precision="fp32", note=note))
        return Runner(build_graph(config, weights, ranges), weights[WORD_VECTORS], config, self.choice.precision)

    def _announce(self) -> None:
        logging.getLogger("turnmark").warning(
            "%s: preparing its 8-bit form. This is done once and takes some seconds.", self._owner
        )


def settings_digest(model: Path) -> str:
    """Return a digest of the configuration and the tokenizer in a model's folder."""
    files = sorted(path for path in model.rglob("*") if path.suffix in (".json", ".txt", ".model") and path.is_file())
    digests = "".join(f"{path.relative_to(model)}|{file_sha256(path)}|" for path in files)
    return hashlib.sha256(digests.encode()).hexdigest()


ModelKind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]

_MODEL_NAMES: dict[ModelKind, str] = {
    "SentenceTransformer": "a sentence-transformers model",
    "SparseEncoder": "a sparse encoder (SPLADE)",
    "CrossEncoder": "a cross-encoder",
}


def load_model(kind: ModelKind, model: str, owner: str, half: bool | None = None) -> Any:
    """Load a model for inference.

    Args:
        kind: the class of sentence-transformers.
        model: a folder, or a name on the Hugging Face hub.
        owner: the component that needs the model, for messages ("reranker 'cross:…'").
        half: load in bf16, or None to do so only where that is faster.
    """
    require_extra("torch", owner)
    import sentence_transformers
    import torch
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    half = torch_choice().precision == "bf16" if half is None else half
    try:
        loaded: Any = getattr(sentence_transformers, kind)(
            model, model_kwargs={"torch_dtype": torch.bfloat16 if half else torch.float32}
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RequestError(
            f"{owner} cannot be loaded: {first}; name a folder with {_MODEL_NAMES[kind]}, or a hub model while "
            "the hub can be reached"
        ) from error
    # An embedder has no head that could be untrained.
    if kind != "SentenceTransformer" and (untrained := _untrained_part(loaded)):
        raise RequestError(f"{owner}: {model!r} is not {_MODEL_NAMES[kind]}: {untrained} has no trained weights in it")
    loaded.eval()
    return loaded


def _untrained_part(loaded: Any) -> str:
    """Return the part of a model that has random weights because the files lack it; empty if there is none.

    sentence-transformers adds missing layers with random weights, so that the model would score at random.
    """
    stored = getattr(loaded, "module_kwargs", None) or {}
    for name, module in loaded.named_children():
        if type(module).__name__ == "SparseAutoEncoder" and name not in stored:
            return "the sparse layer"
    inner = loaded.transformers_model
    made_for = getattr(getattr(inner, "config", None), "architectures", None) or ()
    headless = getattr(inner, "base_model", None) is inner
    if inner is not None and made_for and type(inner).__name__ not in made_for and not headless:
        return f"the head of {type(inner).__name__} (its configuration says {', '.join(made_for)})"
    return ""


def local_folder(model: str) -> Path | None:
    """Return the folder of a model, which for a hub name is in the hub's cache, or None if it was not downloaded."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        return None


def weights_digest(model: str) -> str:
    """Return a digest of a local model's weights; empty for a hub name, whose weights are not at hand."""
    folder = Path(model)
    paths = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    return hashlib.sha256("".join(map(file_sha256, paths)).encode()).hexdigest() if paths else ""


def check_finite(values: Any, source: str) -> None:
    """Raise TurnmarkError if a model's numbers are not all finite: NaN has no place in an order."""
    if not np.isfinite(values).all():
        raise TurnmarkError(f"{source} gave numbers that are not finite (NaN or infinite); its weights are damaged")
