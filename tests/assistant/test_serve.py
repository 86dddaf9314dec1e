"""Our generator against a real `transformers serve`, with a tiny random model made on the spot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.served import serving
from turnmark.assistant.generators import Generator, PromptMessage, open_generator
from turnmark.assistant.generators.cache import with_cache
from turnmark.assistant.steps.llm import rewrite, written
from turnmark.assistant.steps.read import answer_prompt
from turnmark.assistant.types import Understanding
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.types import Hit

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


def test_a_seed_is_taken(served: Generator) -> None:
    generator = open_generator(f"{served.name}&seed=7")
    first = generator.complete(ASK, max_tokens=8)
    assert first.usage.calls == 1
    assert generator.complete(ASK, max_tokens=8).text == first.text


def test_the_response_cache_in_front_of_it(served: Generator) -> None:
    cached = with_cache(served)
    first, again = (cached.complete(ASK, max_tokens=4) for _ in range(2))
    assert again.text == first.text
    assert (again.saved is not None) == (first.finish_reason == "stop")  # a reply that was cut is asked for anew


def test_the_steps_of_a_turn_survive_a_model_that_talks_nonsense(served: Generator) -> None:
    history = [
        Message(role="user", content="How do I descale a kettle?"),
        Message(role="assistant", content="Vinegar."),
    ]
    rewritten = rewrite(served, history, "And how often?")
    assert rewritten.rewrite == "And how often?"
    assert rewritten.usage.calls >= 1
    text = "Descale the kettle with vinegar."
    hit = Hit(passage=Passage(id="k-0-32", document="k", title="Kettles", text=text, start=0, end=32), score=1.0)
    pieces: list[str] = []
    question = Understanding(rewrite="And how often?", sub_questions=("And how often?",))
    reply = written(served, answer_prompt(served, question, "And how often?", history, [hit])[0], pieces.append)
    assert pieces
    assert reply.text
    assert reply.usage.completion_tokens > 0
