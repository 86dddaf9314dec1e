"""`ragas:JUDGE`: faithfulness by the package ragas itself, with which MTRAG and MTRAG-UN measure RL_F (section 6.3.2).

The package writes the prompts and counts the claims; what it asks goes to a judge of ours, so that cache, budget,
prices and time limits hold. As in the official script (judge_wrapper.py) it is shown the conversation as the question,
the reply, and the texts of the passages. Its claims differ from run to run, so it is asked three times: the mean
counts, and `rl_f.spread` is the distance of the highest from the lowest. Its reports of usage are off.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from turnmark.assistant.asking import Failure
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.generators.cache import Cached, with_cache
from turnmark.assistant.prompts import turn_lines
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.rubrics import Outcome, Rubric, failed_outcome, needs
from turnmark.evaluation.runs.limits import ModelNoting
from turnmark.evaluation.scores.metric_info import MetricStyle

RAGAS = "ragas"
FAITHFULNESS, SPREAD = "rl_f", "rl_f.spread"
REPEATS = 3
BY = "RAGAS faithfulness by the package, mean of three"
_QUIET = {"RAGAS_DO_NOT_TRACK": "true", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


def ragas_rubrics() -> tuple[Rubric, ...]:
    """What a judge `ragas:JUDGE` is asked for."""
    os.environ.update(_QUIET)  # read once, when the package is first imported
    try:
        package = version(RAGAS)
    except importlib.metadata.PackageNotFoundError:
        raise RequestError("ragas is not installed: pip install 'turnmark[ragas]'") from None
    return (
        Rubric(
            FAITHFULNESS, BY, (), _faithfulness, needs(passages=True), extra=package, also=(SPREAD,),
            shown={FAITHFULNESS: MetricStyle(headline=80)},
        ),
    )  # fmt: skip


def _faithfulness(generator: Generator, case: Case, _: Path | None) -> Outcome:
    values: list[float] = []
    used = Usage()
    for number in range(REPEATS):
        asked = _Asked(_again(generator, number))
        try:
            value = asyncio.run(_scorer(asked)(case))
        except Exception as error:  # the package raises what it likes on a reply that it cannot read
            kind = error.kind if isinstance(error, GeneratorError) else "invalid"
            return failed_outcome(Failure(kind=kind, reason=f"ragas: {error}"), used + asked.used)
        used += asked.used
        if math.isnan(value):
            return Outcome(status="not_applicable", reason="the reply makes no claims", usage=used)
        values.append(value)
    mean, spread = sum(values) / len(values), max(values) - min(values)
    parts = tuple(f"{value:.4f}" for value in values)
    reason = f"{', '.join(parts)}; spread {spread:.4f}"
    return Outcome(status="scored", value=mean, reason=reason, parts=parts, also={SPREAD: spread}, usage=used)


def _again(generator: Generator, number: int) -> Generator:
    """The judge for one of the repeats: the cache does not say the same once more."""
    if isinstance(generator, ModelNoting):
        return generator.over(_again(generator.generator, number))
    return with_cache(generator, REPEATS * generator.repeat + number) if isinstance(generator, Cached) else generator


class _Asked:
    """A judge of ours, and what it took."""

    def __init__(self, generator: Generator) -> None:
        self.generator, self.used = generator, Usage()

    def __call__(self, text: str, temperature: float) -> str:
        try:
            reply = self.generator.complete(
                (PromptMessage(role="user", content=text),), temperature=temperature,
                max_tokens=self.generator.reply_tokens,
            )  # fmt: skip
        except GeneratorError as error:
            self.used += error.usage
            raise
        self.used += reply.usage
        return reply.text


def _without_vertex() -> None:
    """Let ragas be imported with a langchain-community without two classes that it names and we never use."""
    for name, kind in (("chat_models.vertexai", "ChatVertexAI"), ("llms.vertexai", "VertexAI"), ("llms", "VertexAI")):
        path = f"langchain_community.{name}"
        try:
            module = importlib.import_module(path)
        except ImportError:
            module = sys.modules[path] = ModuleType(path)
        if kind not in vars(module):
            with suppress(AttributeError, ImportError):
                getattr(module, kind)
                continue
            setattr(module, kind, type(kind, (), {}))


def _scorer(ask: Callable[[str, float], str]) -> Callable[[Case], Any]:
    """The package's faithfulness over a judge of ours."""
    _without_vertex()
    from langchain_core.outputs import Generation, LLMResult
    from ragas.dataset_schema import SingleTurnSample
    from ragas.llms.base import BaseRagasLLM
    from ragas.metrics import Faithfulness
    from ragas.run_config import RunConfig

    class Ours(BaseRagasLLM):  # type: ignore[misc]
        def generate_text(self, prompt: Any, n: int = 1, temperature: float = 1e-8, **_: Any) -> Any:
            texts = [ask(prompt.to_string(), temperature) for _ in range(n)]
            return LLMResult(generations=[[Generation(text=text) for text in texts]])

        async def agenerate_text(self, prompt: Any, n: int = 1, temperature: float | None = None, **_: Any) -> Any:
            return self.generate_text(prompt, n, 1e-8 if temperature is None else temperature)

        def is_finished(self, response: Any) -> bool:  # noqa: ARG002
            return True

    metric = Faithfulness(llm=Ours(run_config=RunConfig(max_retries=1, max_workers=1)))

    async def score(case: Case) -> float:
        conversation = turn_lines((*case.history, Message(role="user", content=case.question)))
        sample = SingleTurnSample(
            user_input=conversation, response=case.answer, retrieved_contexts=list(case.passages or ())
        )
        return float(await metric.single_turn_ascore(sample))

    return score
