"""The vectors of messages, alone and in context. The embedder is the real one, in fp32."""

from __future__ import annotations

import numpy as np
import pytest

from turnmark.retrieval.embedding.embedders import Embedder, open_embedder
from turnmark.retrieval.ranking.conversation_queries import MAX_MESSAGE_TOKENS, Views

ANSWER = "A sourdough starter is flour and water in which wild yeast lives. It is fed every day."
MESSAGE = "How long does it take?"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder("minilm")


class Counting:
    """The real embedder, which records the texts that it embeds."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name, self.dimension = embedder.name, embedder.dimension
        self.max_tokens, self.fingerprint = embedder.max_tokens, embedder.fingerprint
        self.tokenizer = embedder.tokenizer
        self.texts: list[str] = []

    def encode(self, texts, role):
        self.texts += texts
        return self._embedder.encode(texts, role)

    def encode_both(self, texts, role):
        self.texts += texts
        return self._embedder.encode_both(texts, role)


def test_context_changes_the_vector_but_not_the_tokens(embedder: Embedder) -> None:
    alone, in_context = Views(embedder).of([("", MESSAGE), (ANSWER, MESSAGE)])
    expected = embedder.encode(["How long does a sourdough starter take?"], "query")[0]
    assert in_context.ids.tolist() == alone.ids.tolist()
    assert float(in_context.vector @ expected) > float(alone.vector @ expected) + 0.1


def test_long_message_is_embedded_once_without_context(embedder: Embedder) -> None:
    counting = Counting(embedder)
    views = Views(counting)
    views.of([("", "warm up")])
    short, long = " word" * MAX_MESSAGE_TOKENS, " word" * (MAX_MESSAGE_TOKENS + 1)
    counting.texts.clear()
    alone, in_context, long_alone, long_in_context = views.of(
        [("", short), (ANSWER, short), ("", long), (ANSWER, long)]
    )
    assert counting.texts == [short, f"{ANSWER} {short}", long]
    assert not np.allclose(alone.vector, in_context.vector)
    assert (long_alone.vector == long_in_context.vector).all()


def test_repeated_conversation_is_cached(embedder: Embedder) -> None:
    counting = Counting(embedder)
    views = Views(counting)
    first = views.of([("", MESSAGE), (ANSWER, MESSAGE), ("", MESSAGE)])
    views.note_answer(ANSWER)
    views.plain([ANSWER, ANSWER])
    embedded = len(counting.texts)
    again = views.of([(ANSWER, MESSAGE), ("", MESSAGE)])
    views.plain([ANSWER])
    assert len(counting.texts) == embedded
    assert counting.texts.count(ANSWER) == 1
    assert again[0] is first[1]
    assert again[1] is first[0]
