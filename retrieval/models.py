"""Loads models of sentence-transformers, and chooses the backend and the precision that they run at.

An embedder runs on OpenVINO where that is installed, else on PyTorch. Texts are embedded at the fastest precision whose
vectors stay within a cosine of .01: bf16 where the processor has AMX, 8-bit integers where it has VNNI, else fp32.
Queries are embedded at the same precision as passages: in fp32 they take twice as long and find no more (nDCG@5 on the
ClapNQ pool .471 in fp32, .473 in 8-bit integers). `TURNMARK_BACKEND=torch` and `TURNMARK_PRECISION=fp32` give the same
vectors with and without the extra, and on every processor.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256
from turnmark.core.record import Record

if TYPE_CHECKING:
    from turnmark.retrieval.openvino_run import Runner

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
    """Return whether PyTorch has a GPU. PyTorch is imported only if there may be one."""
    if sys.platform == "linux" and not Path("/proc/driver/nvidia").exists() and not Path("/dev/kfd").exists():
        return False
    import torch

    return bool(torch.cuda.is_available())


def openvino_installed() -> bool:
    """Return whether the extra `openvino` is installed; imports nothing."""
    return importlib.util.find_spec("openvino") is not None


def _asks_for(variable: str, value: str) -> bool:
    """Return whether an environment variable is set to `value`, its one alternative to `auto`."""
    setting = os.environ.get(variable) or "auto"
    if setting not in ("auto", value):
        raise RequestError(f"{variable}={setting!r}: {value} or auto was expected")
    return setting == value


def torch_choice(note: str = "") -> Choice:
    """Choose PyTorch, in bf16 where that is faster."""
    half = not _asks_for(PRECISION, "fp32") and (has_gpu() or cpu_has_amx())
    return Choice(backend="torch", precision="bf16" if half else "fp32", note=note)


def choose() -> Choice:
    """Choose the backend and precision for an embedding model."""
    exact = _asks_for(PRECISION, "fp32")
    if _asks_for(BACKEND, "torch") or not openvino_installed() or has_gpu():
        return torch_choice()
    fastest = "bf16" if cpu_has_amx() else "int8" if cpu_has_vnni() else "fp32"
    try:
        from turnmark.retrieval.openvino_run import openvino

        openvino().Core()
    except (ImportError, OSError, RuntimeError) as error:
        return torch_choice(f"OpenVINO does not start here: {error}")
    return Choice(backend="openvino", precision="fp32" if exact else fastest)


class Backend:
    """The backend of one embedding model. It is chosen on first use; the model is converted for the first text.

    Args:
        owner: the embedder, for messages.
        key: returns the model's identity, the key of its converted form in the cache.
        convert: converts the model into a folder, with the 8-bit form if its second argument is True.
    """

    def __init__(self, owner: str, key: Callable[[], str], convert: Callable[[Path, bool], None]) -> None:
        self._owner, self._key, self._convert_into = owner, key, convert
        # Reentrant: a model without sizes is loaded for its key, and that reads `choice`.
        self._lock = threading.RLock()
        self._choice: Choice | None = None
        self._runner: Runner | None = None

    @property
    def choice(self) -> Choice:
        """The backend in use; before the first text, the one that will be tried."""
        with self._lock:
            return self._choice or self._settle(choose())

    def _settle(self, choice: Choice) -> Choice:
        self._choice = choice
        if choice.note:
            logging.getLogger("turnmark").warning("%s runs on %s: %s", self._owner, choice, choice.note)
        return choice

    def runner(self) -> Runner | None:
        """Return the converted model; None if PyTorch runs it."""
        with self._lock:
            if self._runner is None and self.choice.backend == "openvino":
                self._convert()
            return self._runner

    def _convert(self) -> None:
        from turnmark.retrieval.openvino_export import NotConvertible, export_folder
        from turnmark.retrieval.openvino_run import ABOUT, Runner, read_about

        choice = self.choice
        with_int8 = choice.precision == "int8"
        folder = export_folder(f"{self._key()}|{with_int8}")
        try:
            if not (folder / ABOUT).is_file():
                self._convert_into(folder, with_int8)
        except (NotConvertible, OSError) as error:
            self._settle(torch_choice(f"OpenVINO cannot run it: {error}"))
            return
        if with_int8 and not read_about(folder).int8_cosine:
            note = "8-bit integers would change its vectors by more than a cosine of .01"
            choice = self._settle(Choice(backend="openvino", precision="fp32", note=note))
        self._runner = Runner(folder, choice.precision)


def settings_digest(model: Path) -> str:
    """Return a digest of a local model's configuration and tokenizer; empty for a hub name."""
    if not model.is_dir():
        return ""
    files = sorted(path for path in model.rglob("*") if path.suffix in (".json", ".txt", ".model") and path.is_file())
    digests = "".join(f"{path.relative_to(model)}|{file_sha256(path)}|" for path in files)
    return hashlib.sha256(digests.encode()).hexdigest()


def state_digest(model: Any) -> str:
    """Return a digest of a loaded model's modules and weights."""
    digest = hashlib.sha256(repr(model).encode())
    for name, weights in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weights.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


ModelKind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]

_CALLED: dict[ModelKind, str] = {
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
        half: load in bf16; None: where that is faster.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Threads that spin while they wait make a model six times slower as soon as another program wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
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
            f"{owner} cannot be loaded: {first}; name a folder with {_CALLED[kind]}, or a hub model while the hub can "
            "be reached"
        ) from error
    # An embedder has no head that could be untrained.
    if kind != "SentenceTransformer" and (untrained := _untrained(loaded)):
        raise RequestError(f"{owner}: {model!r} is not {_CALLED[kind]}: {untrained} has no trained weights in it")
    loaded.eval()
    return loaded


def _untrained(loaded: Any) -> str:
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


def weights_digest(model: str) -> str:
    """Return a digest of a local model's weights; empty for a hub name, of which only the name is known."""
    folder = Path(model)
    paths = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    return hashlib.sha256("".join(map(file_sha256, paths)).encode()).hexdigest() if paths else ""


def check_finite(values: Any, source: str) -> None:
    """Raise TurnmarkError if a model's numbers are not all finite: NaN has no place in an order."""
    if not np.isfinite(values).all():
        raise TurnmarkError(f"{source} gave numbers that are not finite (NaN or infinite); its weights are damaged")
