"""What a run would cost, from prompts that are rendered and not sent."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import PromptMessage
from turnmark.assistant.steps.llm import RewriteReply
from turnmark.assistant.structured import Failure, ask
from turnmark.evaluation import budget as module
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.budget import OBJECT_TOKENS, Counting, estimate
from turnmark.evaluation.records import Sample

ITEMS = [Item(str(number), number) for number in range(100)]


def answer(item: Item, generator: Any) -> Sample:
    text = "x" * 36 * (item.task + 1)
    reply = generator.complete([PromptMessage(role="user", content=text)])
    return Sample(id=item.id, status="done", usage={"answer": reply.usage.model_dump()})


def test_of_many_items_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    all_items = estimate(ITEMS, 100, answer, Counting("m"))["answer"]
    monkeypatch.setattr(module, "MOST", 20)
    ids: list[str] = []

    def seeing(item: Item, generator: Any) -> Sample:
        ids.append(item.id)
        return answer(item, generator)

    scaled = estimate(ITEMS, 100, seeing, Counting("m"))["answer"]
    assert len(ids) == 20
    assert scaled["calls"] == all_items["calls"] == 100
    assert scaled["prompt_tokens"] == pytest.approx(all_items["prompt_tokens"], rel=0.1)


def test_an_item_that_cannot_be_answered_costs_nothing() -> None:
    def failing(item: Item, generator: Any) -> Sample:
        if item.task % 2:
            raise ValueError("too long")
        return answer(item, generator)

    assert estimate(ITEMS[:4], 4, failing, Counting("m"))["answer"]["calls"] == 2


class _Nested(BaseModel):
    class Part(BaseModel):
        name: str
        kind: Literal["a", "b"]

    parts: list[Part]
    count: int
    sure: bool
    share: float


@pytest.mark.parametrize("schema", [RewriteReply, _Nested])
def test_a_reply_has_the_form_that_is_asked_for(schema: type[BaseModel]) -> None:
    prompt = [PromptMessage(role="user", content="a question")]
    value, usage = ask(Counting("m"), prompt, schema)
    assert not isinstance(value, Failure), value
    assert (usage.calls, usage.completion_tokens) == (1, OBJECT_TOKENS)
    assert usage.prompt_tokens == count_tokens("a question")
