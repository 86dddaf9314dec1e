"""A small human evaluation in the format of InspectorRAGet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROPERTIES = ("naturalness", "appropriateness", "completeness", "faithfulness")
MODELS = ("reference", "gpt-4o", "llama-3.1-405b-instruct")


def ratings(median: int, lower: int) -> dict[str, dict[str, str]]:
    """Three ratings with this median; one of them a point lower, or higher, where the scale has it."""
    next_to = max(1, median - 1) if lower else min(4, median + (median == 2))
    return {f"r{number}": {"value": str(value)} for number, value in enumerate((next_to, median, median))}


def evaluation() -> dict[str, Any]:
    """Twelve tasks in four conversations, three systems, three raters."""
    tasks, evaluations = [], []
    for number in range(12):
        name = f"c{number // 3}<::>{number % 3 + 1}"
        label = "UNANSWERABLE" if number % 6 == 5 else "PARTIAL" if number % 4 == 3 else "ANSWERABLE"
        tasks.append({
            "task_id": name, "input": [{"speaker": "user", "text": f"question {number}?"}],
            "targets": [{"speaker": "agent", "text": f"the answer to question {number} is plain"}],
            "Answerability": [label], "Collection": "mt-rag-fiqa-x",
        })  # fmt: skip
        for model_number, model in enumerate(MODELS):
            text = f"the answer to question {number} is plain" if model == "reference" else f"{model} says {number}"
            quality = (3 * number * number + 7 * model_number + number * model_number) % 10
            annotations: dict[str, Any] = {
                name: ratings(
                    1 + (quality + place + number * model_number % 3) % 10 // 3, (number + model_number + place) % 2
                )
                for place, name in enumerate(PROPERTIES)
            }
            annotations["win-rate"] = {
                f"r{rater}": {"value": [0.0, 50.0, 100.0][(number * number + model_number + rater * (number % 3)) % 3]}
                for rater in range(3)
            }
            annotations["rl_f"] = {"composite": {"value": quality / 9}}
            annotations["rb_llm"] = {"composite": {"value": (quality + number % 3) / 12}}
            annotations["conditional_idk"] = {"composite": {"value": int(label != "UNANSWERABLE" or model_number == 0)}}
            evaluations.append({"task_id": name, "model_id": model, "model_response": text, "annotations": annotations})
    scale = [{"value": str(value), "numeric_value": value} for value in (1, 2, 3, 4)]
    metrics = [{"name": name, "author": "human", "type": "categorical", "values": scale} for name in PROPERTIES]
    metrics.append({"name": "win-rate", "author": "human", "type": "numerical"})
    metrics += [{"name": name, "author": "algorithm"} for name in ("rl_f", "rb_llm", "conditional_idk")]
    models = [{"model_id": model, "name": model.title()} for model in MODELS]
    return {"name": "a small one", "models": models, "metrics": metrics, "tasks": tasks, "evaluations": evaluations}


def write_evaluation(path: Path, content: Any = None) -> Path:
    path.write_text(json.dumps(evaluation() if content is None else content), encoding="utf-8")
    return path
