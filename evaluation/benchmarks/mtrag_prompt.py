"""MTRAG's own way to ask a model (appendix D.2): passages, the conversation and its last question in one prompt.

The assistant's turn does the same task by steps of its own. This one is there so that a model can be measured as the
paper's were.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.steps.llm import written
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.structured import joined
from turnmark.assistant.types import Decision
from turnmark.corpora.mtrag import Benchmark, Task
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.prompted import fitted, titled
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.retrieval.types import Hit

PROMPTS: Mapping[str, str] = {"mtrag": "mtrag-answer", "mtrag-s": "mtrag-answer", "mtrag-un": "mtrag-un-answer"}
"""Benchmark -> the prompt: MTRAG-UN's has a sentence more, on underspecified questions (section 3.3 of its paper)."""
NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompt: add --generator, or leave it out"


def prompted_sample(
    item: Item,
    task: Task,
    hits: Sequence[Hit],
    generator: Generator,
    benchmark: Benchmark = "mtrag",
    prompts: Path | None = None,
) -> Sample:
    """Ask a model as the paper does, and take down its reply.

    Args:
        hits: the passages of the setting, best first.
        prompts: folder with prompts of one's own.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the question does not fit into the model's context.
    """
    began = time.perf_counter()
    texts = [titled(hit.passage.title, hit.passage.text) for hit in hits]
    shown = fitted(PROMPTS[benchmark], texts, task.history, task.question, generator, prompts)
    if shown is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    said = written(generator, joined(shown.messages))
    decision: Decision | None = "unknown" if said.note is None and says_unknown(said.text) else "answer"
    if benchmark == "mtrag-un":
        decision = None  # whether a text asks back is for a judge to say, and not to be taken for an answer until then
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=task.question,
        contexts=tuple(ContextRef(document_id=hit.passage.id, score=round(hit.score, 4)) for hit in hits),
        prediction=said.text,
        decision=decision,
        notes=(*shown.notes, *([said.note] if said.note else [])),
        usage={"answer": said.usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )
