"""Where the least faithfulness of a synthesised answer comes from, with the embedded judge.

    TURNMARK_DATA=… python -m tests.benchmarks.synth_faithful

Rates MTRAG's human references to answerable questions, 120 drawn at random: each against its own passages, against
those of another question of the same conversation, and of another conversation of the same domain. Prints quantiles,
and what share of each the product's threshold keeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from corpora import mtrag
from evaluation.embedding import shared_embedder
from evaluation.judging.embedded import FAITHFULNESS, fits
from evaluation.judging.embedded_support import Embedded, Looked
from evaluation.judging.records import Case
from evaluation.synth.mtrag import FAITHFUL
from tests.conftest import DATA

COUNT, SEED = 120, 0
QUANTILES = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95)
Choice = Callable[[mtrag.Task], mtrag.Task | None]


def main() -> None:
    """See the module."""
    found = mtrag.load_tasks(DATA / "mt-rag-benchmark", "mtrag").data.values()
    tasks = [task for task in found if task.answerability == "ANSWERABLE" and task.contexts and task.reference]
    random.Random(SEED).shuffle(tasks)
    tasks = tasks[:COUNT]
    embedded, fit = Embedded(shared_embedder("minilm")), fits()["faithfulness"]

    def first(fits_in: Callable[[mtrag.Task], bool]) -> mtrag.Task | None:
        return next((task for task in tasks if fits_in(task)), None)

    choices: dict[str, Choice] = {
        "own passages": lambda task: task,
        "same conversation": lambda task: first(
            lambda other: other.conversation == task.conversation and other.id != task.id
        ),
        "same domain": lambda task: first(
            lambda other: other.domain == task.domain and other.conversation != task.conversation
        ),
    }
    print(f"{FAITHFULNESS} of human references, by whose passages; quantiles {QUANTILES}")
    for name, choose in choices.items():
        values = []
        for task in tasks:
            other = choose(task)
            if other is None:
                continue
            passages = tuple(context.text for context in task.contexts)
            history = task.history if other is task else ()
            case = Case(question=task.question, answer=other.reference, history=history, passages=passages)
            values.append(fit.score(Looked(case, embedded).measures(tuple(fit.weights))))
        kept = sum(value >= FAITHFUL["embedded"] for value in values) / len(values)
        told = ", ".join(f"{value:.2f}" for value in np.quantile(values, QUANTILES))
        print(f"{name}: n {len(values)}: {told}; kept at {FAITHFUL['embedded']}: {kept:.3f}")


if __name__ == "__main__":
    main()
