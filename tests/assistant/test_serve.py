"""Our generator against a real `transformers serve`, with a tiny random model made on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served import serving
from turnmark.assistant.generators import Generator, PromptMessage, open_generator
from turnmark.assistant.open import open_assistant
from turnmark.assistant.types import Event
from turnmark.corpora.types import Message

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    with serving(tmp_path_factory.mktemp("served")) as spec:
        generator = open_generator(spec)
        yield generator


ASK = [
    PromptMessage(role="system", content="Be brief."),
    PromptMessage(role="user", content="How do I descale a kettle?"),
]


def test_chat(served: Generator) -> None:
    reply = served.complete(ASK, max_tokens=12)
    assert reply.text
    assert 0 < reply.usage.completion_tokens <= 12
    assert reply.usage.prompt_tokens > 20
    assert not reply.estimated
    assert reply.finish_reason == ("length" if reply.usage.completion_tokens == 12 else "stop")


def test_streaming_says_the_same(served: Generator) -> None:
    pieces: list[str] = []
    streamed = served.complete(ASK, max_tokens=12, on_text=pieces.append)
    assert len(pieces) > 1
    assert "".join(pieces) == streamed.text
    assert streamed.text == served.complete(ASK, max_tokens=12).text  # greedy, so repeatable


def test_a_turn_survives_a_model_that_talks_nonsense(served: Generator, home: Path) -> None:
    history = [Message(role="user", content="How do I sharpen a knife?"), Message(role="assistant", content="A stone.")]
    assistant = open_assistant("demo", served.name)
    events: list[Event] = []
    reply = assistant.reply(history, "And how often?", events.append)
    assert any(event.delta for event in events)
    assert reply.answer
    assert reply.usage["answer"].completion_tokens > 0
