"""`ragas:JUDGE`: faithfulness by the package ragas, with which MTRAG and MTRAG-UN measure RL_F (section 6.3.2).

The package writes the prompts and counts the claims. Its calls go to one of our judges, so that cache, budget, prices
and time limits apply. As in the official script (judge_wrapper.py) it sees the conversation as the question, the reply,
and the texts of the passages. Its claims vary, so it runs three times: the metric is the mean, and `rl_f.spread` the
difference between the highest and the lowest value. Its telemetry is switched off.
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

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, PromptMessage
from turnmark.assistant.llm.generators.response_cache import CachedGenerator, for_repeat
from turnmark.assistant.llm.prompts.prompt_files import turn_lines
from turnmark.assistant.llm.prompts.structured_output import Failure
from turnmark.core.extras import require_extra
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.rubrics import judge_failure, require_material
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import CallRecorder, Outcome, Rubric

RAGAS = "ragas"
FAITHFULNESS, SPREAD = "rl_f", "rl_f.spread"
REPEATS = 3
BY = "RAGAS faithfulness by the package, mean of three"
_QUIET = {"RAGAS_DO_NOT_TRACK": "true", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


def ragas_rubrics() -> tuple[Rubric, ...]:
    """Return the rubrics of a judge `ragas:JUDGE`.

    Raises:
        RequestError: the package ragas is not installed.
    """
    require_extra("ragas", "judge 'ragas'")
    os.environ.update(_QUIET)  # the package reads them once, at its first import
    return (
        Rubric(
            FAITHFULNESS, BY, (), _faithfulness, require_material(passages=True), extra=version(RAGAS), also=(SPREAD,),
            shown={FAITHFULNESS: MetricStyle(headline=80)},
        ),
    )  # fmt: skip


def _faithfulness(generator: Generator, case: Case, _: Path | None) -> Outcome:
    values: list[float] = []
    for number in range(REPEATS):
        try:
            value = asyncio.run(_scorer(_for_repeat(generator, number))(case))
        except Exception as error:  # on an unreadable reply the package may raise any exception
            kind = error.kind if isinstance(error, GeneratorError) else "invalid"
            raise judge_failure(Failure(kind=kind, reason=f"ragas: {error}")) from error
        if math.isnan(value):
            return Outcome(status="not_applicable", reason="the reply makes no claims")
        values.append(value)
    mean, spread = sum(values) / len(values), max(values) - min(values)
    parts = tuple(f"{value:.4f}" for value in values)
    reason = f"{', '.join(parts)}; spread {spread:.4f}"
    return Outcome(status="scored", value=mean, reason=reason, parts=parts, also={SPREAD: spread})


def _for_repeat(generator: Generator, number: int) -> Generator:
    """Return the judge for one of the repeats, each of which has its own cache entries."""
    if isinstance(generator, CallRecorder):
        return generator.over(_for_repeat(generator.generator, number))
    repeat = generator.repeat if isinstance(generator, CachedGenerator) else 0
    return for_repeat(generator, REPEATS * repeat + number)


def stub_vertex_classes() -> None:
    """Stub two classes that ragas imports and newer versions of langchain-community lack; nothing here uses them."""
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


def _scorer(generator: Generator) -> Callable[[Case], Any]:
    """Return the package's faithfulness metric, asking one of our judges."""
    stub_vertex_classes()
    from langchain_core.outputs import Generation, LLMResult
    from ragas.dataset_schema import SingleTurnSample
    from ragas.llms.base import BaseRagasLLM
    from ragas.metrics import Faithfulness
    from ragas.run_config import RunConfig

    def ask(text: str, temperature: float) -> str:
        message, limit = PromptMessage(role="user", content=text), generator.reply_tokens
        return generator.complete((message,), temperature=temperature, max_tokens=limit).text

    class RagasModel(BaseRagasLLM):  # type: ignore[misc]
        def generate_text(self, prompt: Any, n: int = 1, temperature: float = 1e-8, **_: Any) -> Any:
            texts = [ask(prompt.to_string(), temperature) for _ in range(n)]
            return LLMResult(generations=[[Generation(text=text) for text in texts]])

        async def agenerate_text(self, prompt: Any, n: int = 1, temperature: float | None = None, **_: Any) -> Any:
            return self.generate_text(prompt, n, 1e-8 if temperature is None else temperature)

        def is_finished(self, response: Any) -> bool:  # noqa: ARG002
            return True

    metric = Faithfulness(llm=RagasModel(run_config=RunConfig(max_retries=1, max_workers=1)))

    async def score(case: Case) -> float:
        conversation = turn_lines((*case.history, Message(role="user", content=case.question)))
        sample = SingleTurnSample(
            user_input=conversation, response=case.answer, retrieved_contexts=list(case.passages or ())
        )
        return float(await metric.single_turn_ascore(sample))

    return score
