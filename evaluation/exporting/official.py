"""Answers as MTRAG's repository has them, and as SemEval-2026 task 8 takes them.

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation: the format of the evaluation scripts and what the
format checker asks for. The official form is a task of `generation_tasks` with `predictions`; a submission to task A
(retrieval) has `task_id`, `Collection` and `contexts` with `document_id` and `score`, to B (reference passages) and C
(retrieval and generation) `input` and `predictions` too. A submission has every task of the organisers' input, at most
ten passages for each, and at most 20 MB.
"""

from __future__ import annotations

from typing import Any

from turnmark.evaluation.exporting.material import COLLECTIONS, Told

MOST = 10
"""Passages of a task in a submission."""
LARGEST = 20 * 1024 * 1024
"""Bytes of a submission."""
LETTERS = {"reference": "B", "rag": "C"}
"""Setting -> the task of SemEval that it is."""


def official(told: Told, benchmark: str) -> dict[str, Any]:
    """A line of the official form."""
    labels = {
        "answerability" if benchmark == "mtrag-un" else "Answerability": told.labels("answerability"),
        "Question Type": told.labels("question_type"),
        "Multi-Turn": told.labels("multi_turn"),
    }
    domain = told.sample.domain or ""
    line: dict[str, Any] = {
        "conversation_id": told.conversation,
        "task_id": told.sample.id,
        "task_type": "rag",
        "turn": told.turn,
        # MTRAG-UN's own tasks name the bare domain.
        "Collection": domain if benchmark == "mtrag-un" else COLLECTIONS.get(domain, domain),
        "contexts": told.passages(),
        "input": told.messages(),
        "targets": [{"speaker": "agent", "text": text}] if (text := told.reference()) else [],
        **labels,
        "predictions": [{"text": told.answer}],
    }
    return {name: value for name, value in line.items() if value or name in ("contexts", "input")}


def submission(told: Told, letter: str) -> dict[str, Any]:
    """A line of a submission to task A, B or C; an answer that failed is empty, since every task has to be there."""
    domain = told.sample.domain or ""
    about = {"task_id": told.sample.id, "Collection": COLLECTIONS.get(domain, domain)}
    done = told.sample.status == "done"
    if letter == "A":
        refs = told.contexts[:MOST] if done else ()
        return {**about, "contexts": [{"document_id": ref.document_id, "score": ref.score} for ref in refs]}
    return {
        **about,
        "input": told.messages(),
        "contexts": told.passages(MOST),
        "predictions": [{"text": told.answer if done else ""}],
    }
