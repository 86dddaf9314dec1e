"""What judges are asked of MTRAG, MTRAG-UN and MTRAG-S (MTRAG section 6.3, appendix F)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event, Lock
from typing import Any

from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.judging.embedded import NAMES as EMBEDDED
from turnmark.evaluation.judging.embedded import embedded_measures
from turnmark.evaluation.judging.juries import CaseOf, Jury
from turnmark.evaluation.judging.measures import CLARIFICATION, IDK_JUDGE, RB_LLM, RL_F, RL_MTB, Measure, relevance
from turnmark.evaluation.judging.records import Case
from turnmark.evaluation.judging.seats import BERT
from turnmark.evaluation.records import Sample

RL_R = "rl_r"
EMBEDDER = "minilm"
_EVERY = (RB_LLM.name, RL_F.name, RL_MTB.name, RL_R, IDK_JUDGE.name, *EMBEDDED, *BERT)
NAMES: Mapping[str, tuple[str, ...]] = {
    "mtrag": _EVERY,
    "mtrag-un": (*_EVERY, CLARIFICATION.name),
    "mtrag-s": _EVERY,
}
"""Benchmark -> the metrics that judges are asked for. MTRAG section 9 says that MTRAG-S has no reference answers; the
published tasks have a target each, and the official scores of its answers compare with them (`mtrag-synthetic`). Those
of `bertscore` judges are brought by them, under names with their model."""


def names(benchmark: str, task: str) -> tuple[str, ...]:
    """See `turnmark.evaluation.judging.juries.names_of`."""
    return NAMES[benchmark] if task == "generation" else ()


def jury(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:
    """See `turnmark.evaluation.judging.juries.jury_of`."""
    from turnmark.evaluation.embedding import shared_embedder

    own = embedded_measures(shared_embedder(EMBEDDER), EMBEDDER)  # its weights were fitted over this one
    there = {one.name: one for one in (RB_LLM, RL_F, RL_MTB, _relevance(embedder), IDK_JUDGE, CLARIFICATION, *own)}
    return Jury([there[name] for name in names(benchmark, task) if name in there], case_of(setting))


def _relevance(embedder: str) -> Measure:
    from turnmark.evaluation.embedding import shared_embedder

    shared, lock, loaded = shared_embedder(embedder), Lock(), Event()

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with lock:
            if not loaded.is_set():
                # One text by itself first: OpenVINO may wait for itself where the first batches of a process are two.
                shared(["load the model"])
                loaded.set()
        vectors: Sequence[Sequence[float]] = shared(texts).tolist()
        return vectors

    return relevance(embed, embedder)


def case_of(setting: str | None) -> CaseOf:
    """Item, sample and context of the MTRAG family -> what is judged."""

    def case(item: Item, sample: Sample, context: Any) -> Case:
        task = item.task.task
        # Without texts, either nothing was shown to the system or nobody says what was. A file of another system that
        # names no passages says nothing of them, except where the task's own are given.
        known = context.passages or not (sample.contexts or (setting != "reference" and sample.decision is None))
        return Case(
            question=task.question,
            answer=context.answer,
            history=tuple(task.history),
            reference=context.reference,
            passages=tuple(context.passages) if known else None,
            answerability=context.answerability,
        )

    return case
