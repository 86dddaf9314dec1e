"""The smallest parts that docs/architecture.md tells how to write, as somebody else's package would hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from turnmark.assistant.asking import Failure
from turnmark.assistant.generators.base import Completion, Generator
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.judging.mtrag import YES_NO
from turnmark.evaluation.judging.rubrics import Rubric, failed_outcome, judge_prompt
from turnmark.evaluation.judging.verdicts import ask_verdict
from turnmark.evaluation.metric_info import MetricStyle
from turnmark.evaluation.records import Sample
from turnmark.retrieval.types import Found, Hit, Query


class First:
    """A retriever: the first passages of the index, whatever is asked."""

    name = "first"

    def __init__(self, index: Any) -> None:
        self._index = index

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        passages = [passage for _, _, passage in next(self._index.store.pages(2))][:k]
        found_by = {"first": Found(rank=1, score=1.0)}
        return [[Hit(passage=passage, score=1.0, found=found_by) for passage in passages] for _ in queries]


def retriever(index: Any) -> First:
    """For `python:tests.docs.own:retriever`."""
    return First(index)


def named_retriever(spec: Any, index: Any) -> First:
    """For an entry point."""
    return First(index)


class Shorter:
    """A reranker: the shorter a passage, the better."""

    name = "shorter"

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        return [[1 / (1 + len(hit.passage.text)) for hit in query_hits] for query_hits in hits]


def shorter(*_: Any, **__: Any) -> Shorter:
    """For a line in the table of rerankers."""
    return Shorter()


class Parrot:
    """A generator: the same words to everything."""

    name, context_tokens, reply_tokens = "parrot", 8192, 1024

    def complete(self, messages: Any, **_: Any) -> Completion:
        usage = Usage(calls=1, prompt_tokens=1, completion_tokens=1)
        return Completion(text="Polly. [1]", finish_reason="stop", usage=usage, model="parrot", max_tokens=1024)


def generator(*_: Any) -> Parrot:
    """For `python:tests.docs.own:generator`, and for an entry point."""
    return Parrot()


def vowels(answer: str) -> float:
    """A metric: the share of letters that are vowels."""
    return sum(letter in "aeiou" for letter in answer) / len(answer)


STYLE = MetricStyle(digits=(2, 1), headline=1)


class Capitals(Task):
    """A benchmark of two tasks."""

    metrics: Sequence[Metric[str]] = (
        Metric(
            ("vowels",), "own", lambda answer: {"vowels": vowels(answer)}, shown=MetricStyle(digits=(2, 1), headline=1)
        ),
    )

    def items(self) -> Iterator[Item | Problem]:
        yield Item("c1", question="aeio", labels={"half": ("c1",)})
        yield Item("c2", question="abab", labels={"half": ("c2",)})

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        return Sample(id=item.id, status="done", prediction=item.question)

    def context(self, item: Item, sample: Sample) -> str:
        return sample.prediction or ""


def asked(judge: Generator, case: Case, prompts: Path | None) -> Outcome:
    """What a judge says to whether a reply asks back; the prompt is one that there is."""
    fitted = judge_prompt("clarification", case, judge, prompts, ("question", "answer"))
    assert fitted is not None
    reply, usage = ask_verdict(judge, fitted.messages, YES_NO, prompts)
    if isinstance(reply, Failure):
        return failed_outcome(reply, usage)
    return Outcome(status="scored", value=float(reply.label == "yes"), label=reply.label, usage=usage)


ASKS_BACK = Rubric("asks_back", "own", ("clarification",), asked, offers=YES_NO)
