"""What a worker sends back is what the engine would have made of the same sample here."""

from __future__ import annotations

from typing import Any

import pytest

from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT, Completion, GeneratorError
from turnmark.assistant.types import Usage
from turnmark.core.errors import TurnmarkError
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.ray_workers import answer_item, remote_answer
from turnmark.evaluation.runs.sample_scheduler import SampleJob, failed_sample
from turnmark.evaluation.tasks.items import Item
from turnmark.retrieval.services.ray_cluster import WorkerLost

ITEM = Item("a", None)


class Model:
    """Takes ten tokens a call, after so many complaints."""

    name, context_tokens, reply_tokens, deadline = "model", 8192, 1024, 60.0
    complaints = 0

    def complete(self, messages, **_):
        for _time in range(self.complaints):
            complain = ON_RATE_LIMIT.get()
            complain()
        usage = Usage(calls=1, prompt_tokens=8, completion_tokens=2)
        return Completion(text="yes", finish_reason="stop", usage=usage, model="m", max_tokens=9)


class Bench:
    def __init__(self, error=None):
        self.error = error

    def answer(self, item, generator):
        if generator is not None:
            generator.complete([])
        if self.error is not None:
            raise self.error
        return Sample(id=item.id, status="done", prediction="A")


class Elsewhere:
    """`Workers.call`, in this process."""

    def __init__(self, reply):
        self.reply, self.asked = reply, list[tuple[Any, float]]()

    def call(self, task, seconds):
        self.asked.append((task, seconds))
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply


@pytest.mark.parametrize(
    "error",
    [GeneratorError("auth", "no key"), TurnmarkError("broken"), ValueError("x" * 5000), SystemExit(3), KeyError("k")],
)
def test_worker_failure_has_the_same_type_as_in_the_engine(error):
    reply = answer_item(Bench(error), ITEM, 1, Model(), 60.0)  # type: ignore[arg-type]
    assert reply.sample == failed_sample(SampleJob(ITEM, 1), error)
    assert reply.usage.calls == 1


def test_usage_and_rate_limits_return_with_the_sample():
    model = Model()
    model.complaints = 3
    reply = answer_item(Bench(), ITEM, 0, model, 60.0)  # type: ignore[arg-type]
    assert (reply.sample.prediction, reply.usage.prompt_tokens, reply.complaints) == ("A", 8, 3)
    assert ON_RATE_LIMIT.get() is None

    bounded, complaints = DeadlineGenerator(model, 60.0), list[int]()
    before = ON_RATE_LIMIT.set(lambda: complaints.append(1))
    workers = Elsewhere(reply)
    sample = remote_answer(workers, 300.0)(ITEM, bounded)  # type: ignore[arg-type]
    ON_RATE_LIMIT.reset(before)
    assert sample == reply.sample
    assert bounded.usage == reply.usage
    assert complaints == [1]  # a burst halves the pace once
    [((item, repeat, seconds), patience)] = workers.asked
    assert (item, repeat) == (ITEM, 0)
    assert 59 < seconds <= 60 < patience


@pytest.mark.parametrize(("error", "kind"), [(TimeoutError(), "timeout"), (WorkerLost("3 died"), "unavailable")])
def test_worker_without_a_reply_is_a_typed_failure(error, kind):
    with pytest.raises(GeneratorError) as caught:
        remote_answer(Elsewhere(error), 1.0)(ITEM, None)  # type: ignore[arg-type]
    assert caught.value.kind == kind
