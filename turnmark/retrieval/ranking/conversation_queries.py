"""Embeds the messages of a conversation: alone, in context, and the earlier answers.

A message that depends on the turn before ("and how long does it take?") means little alone. Embedding the turns as one
text does not help: on the MTRAG pools, the mean over all tokens of all turns finds less than the message alone. Here,
the model reads context and message together, and only the message's own tokens are averaged. Each of these tokens is
influenced by the context that it attends to. The figures are in docs/measured.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turnmark.corpora.chunking import Tokenizer
from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.embedding.embedders import Embedder
from turnmark.retrieval.embedding.vector_cache import Cache
from turnmark.retrieval.ranking.vectors import frame

MAX_CONTEXT_TOKENS = 64
"""Number of tokens read from the end of a context. 32, 64, 128 and 256 found about the same on the MTRAG pools."""
MAX_READ_TOKENS = 80
"""Maximum tokens of context and message together, including special tokens; a longer message gets less context."""
MAX_MESSAGE_TOKENS = 24
"""Maximum tokens of a message that is read in context; a longer one is clear by itself. With limits of 12, 16, 20, 24
and 32 and without a limit, nDCG@5 on the MTRAG pools is .390, .392, .393, .395, .395 and .395. Without a limit, the
longest messages were the slowest."""
CACHED_MESSAGES = 1024
"""Capacity of the cache of messages, and of that of answers. A message of 20 tokens takes 30 KiB."""
_PROBES = ("How long does a new passport take, and what does it cost?", "bread without yeast")
_MIN_POOLED_COSINE = 0.95
"""Minimum cosine of a model's vector and the mean of its token vectors if the model pools by the mean."""


@dataclass(frozen=True)
class MessageVectors:
    """A message as vectors: one vector of length 1, token vectors of shape (tokens, dimension), and token ids.

    The vector is the mean of the token vectors without special tokens if the model pools by the mean, and the model's
    own vector otherwise.
    """

    vector: FloatArray
    tokens: FloatArray
    ids: TokenIds


InContext = tuple[str, str]
"""A context, which may be empty, and a message."""
_TextInContext = tuple[str, int | None]
"""The text that the model reads, and how many of its last tokens belong to the message, or None for all of them."""


class Views:
    """The vectors of messages in their contexts. Safe to call from many threads.

    The latest vectors are cached, because each turn embeds the conversation again.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._messages: Cache[_TextInContext, MessageVectors] = Cache(self._message_views, CACHED_MESSAGES)
        self._answers: Cache[str, FloatArray] = Cache(lambda texts: embedder.encode(texts, "query"), CACHED_MESSAGES)
        self._ends: Cache[str, list[int]] = Cache(
            lambda texts: ([begin for begin, _ in self._tokens(text)[-MAX_CONTEXT_TOKENS:]] for text in texts),
            CACHED_MESSAGES,
        )
        """The starts of the last tokens of each answer."""

    def of(self, messages: Sequence[InContext]) -> list[MessageVectors]:
        """Return the vectors of messages, in order; those not cached are embedded as one batch."""
        return self._messages.get([self._read(*message) for message in messages])

    def plain(self, texts: Sequence[str]) -> list[FloatArray]:
        """Return the model's own vectors of texts, e.g. earlier answers, in order."""
        return self._answers.get(texts)

    def note_answer(self, answer: str) -> None:
        """Embed an answer in advance, so that the next turn is faster."""
        self.plain([answer])
        if self._traits[2]:
            self._ends.get([answer])

    @cached_property
    def _tokens(self) -> Tokenizer:
        return self._embedder.tokenizer()

    @cached_property
    def _traits(self) -> tuple[int, int, bool]:
        """The number of special tokens before and after a text, and whether the model pools by the mean."""
        return (*frame(self._embedder, "query"), _pools_tokens(self._embedder))

    def _message_views(self, missing: Sequence[_TextInContext]) -> list[MessageVectors]:
        leading, trailing, pools = self._traits
        vectors, tokens, ids = self._embedder.encode_both([text for text, _ in missing], "query")
        views = []
        for (_, length), vector, token_vectors, token_ids in zip(missing, vectors, tokens, ids, strict=True):
            end = len(token_ids) - trailing
            message_tokens = slice(leading if length is None else max(leading, end - length), end)
            views.append(_message_vectors(vector, token_vectors[message_tokens], token_ids[message_tokens], pools))
        return views

    def _read(self, context: str, message: str) -> _TextInContext:
        """Return the text to embed for a message in its context."""
        leading, trailing, pools = self._traits
        if not (context.strip() and pools):
            return message, None
        length, [ends] = len(self._tokens(message)), self._ends.get([context])
        room = min(MAX_CONTEXT_TOKENS, min(MAX_READ_TOKENS, self._embedder.max_tokens) - leading - trailing - length)
        if room <= 0 or not ends or not 0 < length <= MAX_MESSAGE_TOKENS:
            return message, None
        return f"{context[ends[-room:][0] :]} {message}", length


def _pools_tokens(embedder: Embedder) -> bool:
    """Return whether the model's vector of a text is close to the mean of its token vectors."""
    vectors, tokens, _ = embedder.encode_both(_PROBES, "query")
    means = [token_vectors.mean(axis=0) for token_vectors in tokens]
    if any(vector.shape != mean.shape for vector, mean in zip(vectors, means, strict=True)):
        return False  # a layer after the pooling changes the dimension
    return all(
        float(v @ m) > _MIN_POOLED_COSINE * float(np.linalg.norm(m)) for v, m in zip(vectors, means, strict=True)
    )


def _message_vectors(vector: FloatArray, tokens: FloatArray, ids: TokenIds, pools: bool) -> MessageVectors:
    if pools and len(tokens):
        mean = tokens.mean(axis=0)
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
    # Copies, because a slice would keep the context's tokens in memory.
    return MessageVectors(vector, tokens.copy(), ids.copy())
