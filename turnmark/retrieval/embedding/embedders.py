"""Embeds texts with the bundled MiniLM or any sentence-transformers model."""

from __future__ import annotations

import atexit
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256
from turnmark.core.specs import Entry, Registry, Spec, check_options
from turnmark.corpora.chunking import Tokenizer
from turnmark.retrieval.embedding.array_types import Encoded, FloatArray
from turnmark.retrieval.embedding.bert_files import BertConfig, NotBert, read_bert, read_tokenizer
from turnmark.retrieval.embedding.model_loading import Backend, has_gpu, load_model, local_folder, weights_digest
from turnmark.retrieval.embedding.torch_runner import TorchRunner

TextRole = Literal["query", "passage"]
TASKS: dict[TextRole, str] = {"query": "query", "passage": "document"}
"""What sentence-transformers calls the roles."""

DEFAULT_EMBEDDER = "minilm"
"""The embedder of an index for which none is named, unless its documents are in languages that it does not know."""

MINILM_FOLDER = Path(__file__).with_name("minilm")
"""The bundled model, with its weights in fp16."""
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the published weights of all-MiniLM-L6-v2, which are in fp32. It is in the fingerprint of the bundled
model, because an index that was built with the published weights is valid with the bundled ones."""
WEIGHTS_SHA256 = "4589e8cef7eb468ce074e9528174d370200b5e0e8d93b6b8dbdab9072c393ce3"
"""SHA-256 of the bundled weights."""

EMBEDDERS = Registry(
    "embedder",
    {
        "minilm": Entry(
            "turnmark.retrieval.embedding.embedders:open_minilm",
            "all-MiniLM-L6-v2, bundled: 384 dimensions, 256 tokens",
        ),
        "multilingual-e5-small": Entry(
            "turnmark.retrieval.embedding.centering:open_multilingual",
            "for documents in other languages than English: 384 dimensions, fetched by turnmark model get",
        ),
        "sentence-transformers": Entry(
            "turnmark.retrieval.embedding.embedders:open_sentence_transformer",
            "any sentence-transformers model, by name or folder",
        ),
    },
)


# Name of the model without its owner -> prefixes of a query and of a passage. Sources: the BGE table in FlagEmbedding's
# README ("query instruction for retrieval"; passages need none), and the first question in the E5 cards.
_CARDS = {
    r"bge-(small|base|large)-en(-v1\.5)?": ("Represent this sentence for searching relevant passages: ", ""),
    r"bge-(small|base|large)-zh(-v1\.5)?": ("为这个句子生成表示以用于检索相关文章：", ""),
    r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?": ("query: ", "passage: "),
}


def card_prompts(model: str) -> tuple[str, str]:
    """Return the prefixes of a query and of a passage from a model's card; empty for models we do not know.

    Args:
        model: a hub name, or a folder with such a name; a snapshot in the hub's cache is recognized by its
        repository.
    """
    parts = Path(model).parts
    names = [part.rpartition("--")[2] for part in parts if part.startswith("models--")] or list(parts[-1:])
    if not names:
        return "", ""
    name = names[-1].lower()
    return next((prompts for pattern, prompts in _CARDS.items() if re.fullmatch(pattern, name)), ("", ""))


_MADE_FOR = {"minilm": frozenset({"en"}), "splade:splade-tiny": frozenset({"en"})}


def languages_of(spec: str) -> frozenset[str] | None:
    """Return the codes of the languages that a model was made for, or None if they are unknown or too many."""
    return _MADE_FOR.get(spec)


def prompts_of(model: str, configured: Mapping[str, str | None]) -> tuple[str, str]:
    """Return the prefixes of a query and of a passage: those of the model's configuration, or those of its card.

    Args:
        configured: the prompts of a sentence-transformers model by name. The library uses `document` for passages, and
            adds it as empty to models that have only `passage` or `corpus`; here the first that is not empty counts.
    """
    query = configured.get("query") or ""
    passage = configured.get("document") or configured.get("passage") or configured.get("corpus") or ""
    return (query, passage) if query or passage else card_prompts(model)


class Embedder:
    """A sentence-transformers model, with the token limit of its configuration.

    Its vectors are float32 and of length 1, so that their dot product is the cosine. The weights of a BERT are loaded
    when it is first used.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        name: the spec that opens it.
        digest: identifies the weights in the fingerprint; by default, their SHA-256.
    """

    def __init__(self, model: str | Path, name: str, digest: str = "") -> None:
        self.name = name
        self._source = model
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._torch: TorchRunner | None = None
        digest = digest or weights_digest(str(model))
        self._config = self._read_config()
        self._backend = Backend(f"embedder {name!r}", self._config, digest)
        known = self._model() if isinstance(self._config, NotBert) else self._config
        if isinstance(known, BertConfig):
            self.dimension, self.max_tokens = known.dimension, known.max_tokens
        else:
            self.dimension, self.max_tokens = int(known.get_embedding_dimension()), int(known.max_seq_length or 512)
        query, passage = prompts_of(str(model), known.prompts)
        self._prompts: dict[TextRole, str] = {"query": query, "passage": passage}
        if passage:
            self.max_tokens -= len(self.tokenizer()(passage))
        self.fingerprint = f"{name}|{digest}|{self.dimension}|{self.max_tokens}"
        if query or passage:
            self.fingerprint += f"|{query!r}|{passage!r}"

    def _read_config(self) -> BertConfig | NotBert:
        folder = local_folder(str(self._source))
        if folder is None:
            # The library downloads the model.
            load_model("SentenceTransformer", str(self._source), f"embedder {self.name!r}")
            folder = local_folder(str(self._source))
        try:
            return read_bert(folder) if folder else NotBert("it has no folder")
        except NotBert as error:
            return error

    def _model(self) -> Any:
        half = self.backend == "torch bf16"
        with self._lock:
            if self._loaded is None:
                self._loaded = load_model("SentenceTransformer", str(self._source), f"embedder {self.name!r}", half)
            return self._loaded

    @property
    def backend(self) -> str:
        """The backend that runs the model and its precision, such as `openvino int8` or `torch fp32`.

        The vectors of different backends and precisions differ by a cosine of at most .01, so the fingerprint does not
        depend on the backend.
        """
        return str(self._backend.choice)

    @property
    def is_batch_independent(self) -> bool:
        """Whether a text has the same vector, to the bit, alone and among others, as with OpenVINO."""
        return self._backend.choice.backend == "openvino"

    @property
    def is_on_gpu(self) -> bool:
        """Whether the model runs on a GPU, in large batches."""
        return self._backend.choice.backend == "torch" and has_gpu()

    def _torch_runner(self) -> TorchRunner:
        model = self._model()
        with self._lock:
            if self._torch is None:
                self._torch = TorchRunner(model, self.max_tokens)
            return self._torch

    def encode(self, texts: Sequence[str], role: TextRole) -> FloatArray:
        """Return vectors of shape (len(texts), dimension), in the order of `texts`, each text with the prompt of the
        role.
        """
        return self._encode(texts, role, with_tokens=False)[0]

    def encode_both(self, texts: Sequence[str], role: TextRole) -> Encoded:
        """Return, from one pass, the vectors of `encode` and each text's token vectors and token ids, for late
        interaction.

        A text's token vectors have the shape (tokens, dimension) and length 1; its ids have the shape (tokens,). The
        tokens of the prompt and the special tokens are included; `frame` (`turnmark.retrieval.ranking.vectors`) counts
        them.
        """
        return self._encode(texts, role, with_tokens=True)

    def _encode(self, texts: Sequence[str], role: TextRole, with_tokens: bool) -> Encoded:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32), [], []
        prompt = self._prompts[role]
        if runner := self._backend.runner():
            return runner.encode([prompt + text for text in texts], with_tokens)
        return self._torch_runner().encode(texts, prompt, TASKS[role], with_tokens)

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer, without special tokens."""
        if isinstance(self._config, BertConfig):
            return offsets_of(read_tokenizer(self._config.folder))
        return library_offsets(self._model())


def library_offsets(model: Any) -> Tokenizer:
    """Return the tokenizer of a model of sentence-transformers, without special tokens."""
    from tokenizers import Tokenizer as Fast

    fast = Fast.from_str(model.tokenizer.backend_tokenizer.to_str())
    fast.no_truncation()
    fast.no_padding()
    return offsets_of(fast)


def offsets_of(fast: Any) -> Tokenizer:
    """Return a Tokenizer from a `tokenizers.Tokenizer`, without special tokens."""

    def offsets(text: str) -> list[tuple[int, int]]:
        return [span for span in fast.encode(text, add_special_tokens=False).offsets if span[0] < span[1]]

    return offsets


def open_minilm(spec: Spec) -> Embedder:
    """Open `minilm`, the bundled all-MiniLM-L6-v2, whose weights must have the expected SHA-256."""
    check_options(spec, {}, "embedder")
    path = MINILM_FOLDER / "model.safetensors"
    if file_sha256(path) != WEIGHTS_SHA256:
        raise TurnmarkError(f"{path} is damaged: its SHA-256 is not {WEIGHTS_SHA256}; install turnmark again")
    return Embedder(MINILM_FOLDER, str(spec), PUBLISHED_SHA256)


def open_sentence_transformer(spec: Spec) -> Embedder:
    """Open `sentence-transformers:MODEL`, a folder or hub name."""
    if not spec.argument:
        raise RequestError("embedder 'sentence-transformers' needs a model: sentence-transformers:MODEL")
    check_options(spec, {}, "embedder")
    return Embedder(spec.argument, str(spec))


@lru_cache(maxsize=4)
def open_embedder(spec: str) -> Embedder:
    """Return the embedder of a spec; each is loaded once in a process."""
    parsed = EMBEDDERS.check(spec)
    embedder: Embedder = EMBEDDERS.factory(parsed)(parsed)
    return embedder


_PATIENCE = 5.0
"""Seconds that the exiting process waits for texts that are being embedded."""


class SharedEmbed:
    """An `Embed` (`turnmark.retrieval.embedding.vector_cache`) that may be called from any thread and calls `encode`
    from one only.

    PyTorch keeps memory and a thread pool for each calling thread: many callers would slow each other down, and 16 of
    them take 400 MB more. Requests are not merged: the last digits of a vector depend on the texts embedded with it,
    and a sample must not depend on the samples that run at the same time.
    """

    def __init__(self, encode: Callable[[Sequence[str]], FloatArray], name: str = "the embedder") -> None:
        self.name = name
        self._encode = encode
        self._requests: queue.SimpleQueue[tuple[list[str], Future[FloatArray]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = False

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # a forked process has none of its parent's threads
                self._thread = threading.Thread(target=self._work, daemon=True, name="embedding")
                self._thread.start()
                atexit.register(self._end, self._thread)
        future: Future[FloatArray] = Future()
        self._requests.put((list(texts), future))
        return future.result()

    def _end(self, thread: threading.Thread) -> None:
        """Stop the thread before the interpreter exits: a thread in native code would abort the process."""
        self._ending = True
        self._requests.put(([], Future()))
        thread.join(_PATIENCE)

    def _work(self) -> None:
        while True:
            texts, future = self._requests.get()
            if self._ending:
                return
            try:
                future.set_result(self._encode(texts))
            except BaseException as error:
                future.set_exception(error)


def shared_embedder(spec: str) -> SharedEmbed:
    """Return the embedder of a spec, loaded when the first text is embedded, since some runs embed nothing."""

    @cache
    def opened() -> Embedder:
        embedder = open_embedder(spec)
        # One text alone: OpenVINO may hang if the first batch of a process has several.
        embedder.encode(["load the model"], "passage")
        return embedder

    return SharedEmbed(lambda texts: opened().encode(texts, "passage"), spec)


@lru_cache(maxsize=4)
def in_one_thread(embedder: Embedder) -> SharedEmbed:
    """Return an embedder as a function for passages that may be called from any thread."""
    return SharedEmbed(lambda texts: embedder.encode(texts, "passage"), embedder.name)
