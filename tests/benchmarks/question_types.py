"""Trains the classifier of question types, and says what it is worth.

    TURNMARK_DATA=… python -m tests.benchmarks.question_types [--write]

Rows: the questions of MTRAG's and MTRAG-UN's human conversations with the types that their annotators gave, without
conversational turns. Cross-validated in ten parts by conversation: no question is labelled by weights that saw its
conversation. The penalty was chosen by the figures of these same parts, so that they are a little kinder than those of
new questions would be. `--write` trains on all rows and writes the product's file: weights, and shares counted over
MTRAG's conversations, no text.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conftest import DATA
from turnmark.corpora import mtrag
from turnmark.evaluation.synth.question_types import TYPES, WEIGHTS, labels, surface

PENALTY = 0.1
"""C of scikit-learn's LogisticRegression."""
SCALE = 5.0
"""What vectors of length 1 are multiplied by, so that one dimension weighs about as much as a mark of the wording."""
FEWEST = 10
"""Questions of a type below which it is not learnt: Troubleshooting has 2, as two of MTRAG's four domains are here."""
PARTS, SEED = 10, 0


def human_tasks() -> list[tuple[str, mtrag.Task]]:
    """Benchmark and task of every question of a person that has a type."""
    root = DATA / "mt-rag-benchmark"
    names: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
    return [
        (name, task)
        for name in names
        for task in mtrag.load_tasks(root, name).data.values()
        if task.question_types and task.answerability != "CONVERSATIONAL"
    ]


def trained(x: NDArray[np.float64], y: NDArray[np.bool_]) -> dict[str, tuple[float, NDArray[np.float64]]]:
    """Type -> intercept and weights."""
    from sklearn.linear_model import LogisticRegression

    models = {}
    for place, name in enumerate(TYPES):
        if y[:, place].sum() >= FEWEST:
            model = LogisticRegression(C=PENALTY, class_weight="balanced", max_iter=5000).fit(x, y[:, place])
            models[name] = float(model.intercept_[0]), model.coef_[0]
    return models


def predicted(models: Mapping[str, tuple[float, NDArray[np.float64]]], row: NDArray[np.float64]) -> dict[str, float]:
    """Type -> probability."""
    return {name: float(1 / (1 + np.exp(-(row @ weights + start)))) for name, (start, weights) in models.items()}


def held_out(x: NDArray[np.float64], y: NDArray[np.bool_], groups: Sequence[str]) -> list[dict[str, float]]:
    """Probabilities for each row by a classifier that has not seen its conversation."""
    from sklearn.model_selection import GroupKFold

    probabilities: list[dict[str, float]] = [{} for _ in groups]
    for train, test in GroupKFold(PARTS, shuffle=True, random_state=SEED).split(x, y, groups):
        models = trained(x[train], y[train])
        for row in test:
            probabilities[row] = predicted(models, x[row])
    return probabilities


def told(title: str, predictions: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> None:
    """Print accuracy of the first label, macro F1, and F1 of each type."""
    first = sum(ours[0] in annotated for ours, annotated in zip(predictions, true, strict=True)) / len(true)
    scores = {}
    for name in TYPES:
        hits = sum(name in ours and name in annotated for ours, annotated in zip(predictions, true, strict=True))
        sizes = sum(name in ours for ours in predictions) + sum(name in ours for ours in true)
        if sum(name in ours for ours in true) >= FEWEST:
            scores[name] = 2 * hits / sizes
    macro = sum(scores.values()) / len(scores)
    print(f"{title}: n {len(true)}, first label right {first:.3f}, macro F1 {macro:.3f} over {len(scores)} types")
    print("  " + ", ".join(f"{name} {score:.2f}" for name, score in scores.items()))


def shares(counts: Mapping[str, float]) -> dict[str, float]:
    """Counts as shares of their sum, largest first."""
    total = sum(counts.values())
    return {name: round(count / total, 4) for name, count in sorted(counts.items(), key=lambda item: -item[1])}


def flow(tasks: Sequence[mtrag.Task]) -> dict[str, Any]:
    """What follows what in MTRAG's conversations; a question of several types counts in equal parts for each."""
    starts: Counter[str] = Counter()
    follows: dict[str, Counter[str]] = {name: Counter() for name in TYPES}
    by_conversation: dict[str, dict[int, mtrag.Task]] = {}
    for task in tasks:
        by_conversation.setdefault(task.conversation, {})[task.turn] = task
    for turns in by_conversation.values():
        for number, task in turns.items():
            for kind in task.question_types:
                if number == 1:
                    starts[kind] += 1 / len(task.question_types)  # type: ignore[assignment]
                before = turns.get(number - 1)
                for earlier in before.question_types if before else ():
                    assert before is not None
                    part = 1 / len(task.question_types) / len(before.question_types)
                    follows[earlier][kind] += part  # type: ignore[assignment]
    later = [task for task in tasks if task.turn > 1]
    return {
        "starts": shares(starts),
        "follows": {name: shares(counts) for name, counts in follows.items() if counts},
        "clarifies": round(sum(task.multi_turn == "Clarification" for task in later) / len(later), 4),
        "answerability": shares(Counter(str(task.answerability) for task in tasks)),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the product's weights")
    arguments = parser.parse_args()
    from turnmark.retrieval.embed import open_embedder

    tasks_by_benchmark = human_tasks()
    tasks = [task for _, task in tasks_by_benchmark]
    true = [task.question_types for task in tasks]
    vectors = np.asarray(open_embedder("minilm").encode([task.question for task in tasks], "passage"), np.float64)
    x = np.hstack([vectors * SCALE, np.asarray([surface(task.question) for task in tasks])])
    y = np.asarray([[name in kinds for name in TYPES] for kinds in true])

    predictions = [labels(probabilities) for probabilities in held_out(x, y, [task.conversation for task in tasks])]
    common = Counter(kind for kinds in true for kind in kinds).most_common(1)[0][0]
    for name in ("mtrag", "mtrag-un", None):
        rows = [place for place, (own, _) in enumerate(tasks_by_benchmark) if name in (None, own)]
        told(f"{name or 'both'}, always {common}", [(common,)] * len(rows), [true[row] for row in rows])
        told(f"{name or 'both'}, classifier", [predictions[row] for row in rows], [true[row] for row in rows])
    if arguments.write:
        models = trained(x, y)
        scaled = {name: [round(float(w) * SCALE, 4) for w in weights[:384]] for name, (_, weights) in models.items()}
        stored = {
            "made_by": "python -m tests.benchmarks.question_types --write",
            **flow([task for own, task in tasks_by_benchmark if own == "mtrag"]),
            "intercepts": {name: round(start, 4) for name, (start, _) in models.items()},
            "weights": {
                name: [*scaled[name], *(round(float(w), 4) for w in weights[384:])]
                for name, (_, weights) in models.items()
            },
        }
        WEIGHTS.write_text(json.dumps(stored, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
