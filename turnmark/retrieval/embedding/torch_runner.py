"""Runs a model of sentence-transformers with PyTorch, in batches by number of tokens.

While a GPU works on a batch, this thread tokenizes the next one. `SentenceTransformer.encode` does both in turn, uses
batches with a fixed number of texts, and copies the token vectors of each text separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from turnmark.retrieval.embedding.array_types import Encoded, FloatArray

BATCH_TOKENS = 131_072
"""Tokens of a batch on a GPU, padding included: 1,024 texts of 128 tokens."""
CPU_BATCH_TOKENS = 2048
"""Tokens of a batch on a processor. Small batches need the least padding."""
MIN_BATCH_TOKENS = 1024
BYTES_PER_TOKEN = 4
"""Average bytes of UTF-8 per token, for an estimate that needs no tokenizer: English has 4.2, Chinese 3 to 5."""


class TorchRunner:
    """A model of sentence-transformers with token-sized batches. A batch that does not fit in memory is halved.

    Args:
        model: the loaded model, on its device.
        max_tokens: the limit to which the model cuts texts.
    """

    def __init__(self, model: Any, max_tokens: int) -> None:
        self._model, self._max_tokens = model, max_tokens
        self._batch_tokens = CPU_BATCH_TOKENS if model.device.type == "cpu" else BATCH_TOKENS

    def encode(self, texts: Sequence[str], prompt: str, task: str, with_tokens: bool = False) -> Encoded:
        """Return the vectors of texts, in their order, and if asked for those of their tokens.

        Args:
            task: `query` or `document`; some models have separate modules for them.
        """
        import torch

        while True:
            try:
                return self._encode_once(texts, prompt, task, with_tokens)
            except torch.OutOfMemoryError:
                if self._batch_tokens <= MIN_BATCH_TOKENS:
                    raise
            self._batch_tokens //= 2
            torch.cuda.empty_cache()

    def _encode_once(self, texts: Sequence[str], prompt: str, task: str, with_tokens: bool) -> Encoded:
        import torch
        from sentence_transformers.util import batch_to_device

        vectors = np.zeros((len(texts), int(self._model.get_embedding_dimension())), dtype=np.float32)
        tokens: list[Any] = [None] * len(texts) if with_tokens else []
        ids: list[Any] = tokens.copy()

        def collect(batch: list[int], output: Any) -> None:
            vectors[batch] = unit_vectors(output["sentence_embedding"])
            if not with_tokens:
                return
            token_vectors = unit_vectors(output["token_embeddings"])
            mask = output["attention_mask"].bool().cpu().numpy()
            token_ids = output["input_ids"].cpu().numpy().astype(np.int32)
            for row, position in enumerate(batch):
                # Copied, so that the whole batch does not stay in memory.
                tokens[position], ids[position] = token_vectors[row][mask[row]], token_ids[row][mask[row]]

        running: tuple[list[int], Any] | None = None
        with torch.inference_mode():
            for batch in batches_by_tokens(texts, self._batch_tokens, self._max_tokens):
                features = self._model.preprocess([texts[i] for i in batch], prompt=prompt or None, task=task)
                # A GPU has only begun when this returns, and works while the next batch is tokenized.
                output = self._model(batch_to_device(features, self._model.device), task=task)
                if running is not None:
                    collect(*running)
                running = batch, output
            if running is not None:
                collect(*running)
        return vectors, tokens, ids


def batches_by_tokens(texts: Sequence[str], batch_tokens: int, max_tokens: int) -> Iterator[list[int]]:
    """Yield batches of positions of texts of similar length, the longest first.

    Args:
        batch_tokens: maximum estimated tokens of a batch, padding included; a batch has at least one text.
        max_tokens: the limit to which texts are cut.
    """
    lengths = [min(max_tokens, 2 + len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]
    batch: list[int] = []
    for position in sorted(range(len(texts)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def unit_vectors(vectors: Any) -> FloatArray:
    """Return vectors of PyTorch in float32, scaled to length 1 on their device and copied once."""
    import torch

    unit: FloatArray = torch.nn.functional.normalize(vectors.float(), dim=-1).cpu().numpy()
    return unit
