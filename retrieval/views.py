"""Embeds the messages of a conversation: a message alone, a message in its context, earlier answers.

A message that leans on the turn before ("and how long does it take?") means little alone, and embedding the turns as
one text drowns it: on the MTRAG pools the mean over all tokens of all turns finds less than the message alone. A view
keeps both apart: the model reads context and message together, and only the message's own tokens are averaged, each of
them colored by what it attends to. Measured in docs/measured.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turnmark.corpora.chunking import Tokenizer
from turnmark.retrieval.arrays import FloatArray, TokenIds
from turnmark.retrieval.embed import Embedder
from turnmark.retrieval.task_passages import Cache
from turnmark.retrieval.vectors import frame

CONTEXT_TOKENS = 64
"""Tokens of the end of a context that a view reads. 32, 64, 128 and 256 found about the same on the MTRAG pools."""
READ_TOKENS = 80
"""Most tokens of context and message together, special tokens included; a longer message gets less context."""
MESSAGE_TOKENS = 24
"""A message with more tokens is clear by itself, and is not read in context. With a limit of 12, 16, 20, 24, 32 and
none nDCG@5 on the MTRAG pools is .390, .392, .393, .395, .395 and .395, and the longest messages took the longest."""
REMEMBERED = 1024
"""Cached messages, and as many answers: 30 KiB each for a message of 20 tokens."""
_PROBES = ("How long does a new passport take, and what does it cost?", "bread without yeast")
_POOLED = 0.95


@dataclass(frozen=True)
class Spoken:
    """A message as vectors: one of length 1 for the message, its token vectors of shape (tokens, dimension), and token
    ids.

    The vector is the mean of the tokens' (special tokens left out) where the model pools so, else the model's own.
    """

    vector: FloatArray
    tokens: FloatArray
    ids: TokenIds


InContext = tuple[str, str]
"""A context, which may be empty, and a message."""
_TextInContext = tuple[str, int | None]
"""The text that the model reads, and how many of its last tokens are the message's; None: all of them."""


class Views:
    """Embeds messages in their contexts and caches the last ones, since each turn embeds the conversation again.

    Safe to call from many threads.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._messages: Cache[_TextInContext, Spoken] = Cache(self._spoken, REMEMBERED)
        self._answers: Cache[str, FloatArray] = Cache(lambda texts: embedder.encode(texts, "query"), REMEMBERED)
        self._ends: Cache[str, list[int]] = Cache(lambda texts: map(self._end, texts), REMEMBERED)

    def of(self, messages: Sequence[InContext]) -> list[Spoken]:
        """Return the views of some messages, in order; those not cached are embedded as one batch."""
        return self._messages.get([self._read(*message) for message in messages])

    def plain(self, texts: Sequence[str]) -> list[FloatArray]:
        """Return the model's own vectors of some texts, such as earlier answers, in order."""
        return self._answers.get(texts)

    def note_answer(self, answer: str) -> None:
        """Embed an answer ahead of the next message."""
        self.plain([answer])
        if self._traits[2]:
            self._ends.get([answer])

    @cached_property
    def _tokens(self) -> Tokenizer:
        return self._embedder.tokenizer()

    @cached_property
    def _traits(self) -> tuple[int, int, bool]:
        """Number of special tokens before and after a text; and whether its vector is the mean of its tokens'."""
        return (*frame(self._embedder, "query"), _pools_tokens(self._embedder))

    def _spoken(self, missing: Sequence[_TextInContext]) -> list[Spoken]:
        leading, trailing, pools = self._traits
        vectors, tokens, ids = self._embedder.encode_both([text for text, _ in missing], "query")
        views = []
        for (_, length), vector, token_vectors, token_ids in zip(missing, vectors, tokens, ids, strict=True):
            end = len(token_ids) - trailing
            message_tokens = slice(leading if length is None else max(leading, end - length), end)
            views.append(_spoken(vector, token_vectors[message_tokens], token_ids[message_tokens], pools))
        return views

    def _read(self, context: str, message: str) -> _TextInContext:
        """Return the text to embed for a message in its context."""
        leading, trailing, pools = self._traits
        if not (context.strip() and pools):
            return message, None
        length, [ends] = len(self._tokens(message)), self._ends.get([context])
        room = min(CONTEXT_TOKENS, min(READ_TOKENS, self._embedder.max_tokens) - leading - trailing - length)
        if room <= 0 or not ends or not 0 < length <= MESSAGE_TOKENS:
            return message, None
        return f"{context[ends[-room:][0] :]} {message}", length

    def _end(self, text: str) -> list[int]:
        """Return the starts of a text's last tokens, as many as a context may have."""
        return [begin for begin, _ in self._tokens(text)[-CONTEXT_TOKENS:]]


def _pools_tokens(embedder: Embedder) -> bool:
    """Return whether the model's vector of a text is close to the mean of its token vectors."""
    vectors, tokens, _ = embedder.encode_both(_PROBES, "query")
    means = [token_vectors.mean(axis=0) for token_vectors in tokens]
    if any(vector.shape != mean.shape for vector, mean in zip(vectors, means, strict=True)):
        return False  # a layer after the pooling gives vectors of another width
    return all(float(v @ m) > _POOLED * float(np.linalg.norm(m)) for v, m in zip(vectors, means, strict=True))


def _spoken(vector: FloatArray, tokens: FloatArray, ids: TokenIds, pools: bool) -> Spoken:
    if pools and len(tokens):
        mean = tokens.mean(axis=0)
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
    # A copy: a slice would keep all of the context's tokens alive.
    return Spoken(vector, tokens.copy(), ids.copy())
