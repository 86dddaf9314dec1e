"""Rows of predictions in either form, and what is wrong about a file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.predictions import check_predictions

OFFICIAL: dict[str, Any] = {
    "task_id": "c<::>2",
    "conversation_id": "c",
    "task_type": "rag",
    "turn": "2",
    "dataset": "MT-RAG",
    "Collection": "mt-rag-clapnq-elser-512-100-20240503",
    "contexts": [
        {"document_id": "d1", "text": "One.", "title": "T", "score": 1.5, "source": ""},
        {"document_id": "d2", "text": "Two.", "score": 7},
    ],
    "input": [
        {"speaker": "user", "text": "Hello?"}, {"speaker": "agent", "text": "Hi."}, {"speaker": "user", "text": "And?"},
    ],
    "targets": [{"speaker": "agent", "text": "Yes."}],
    "Answerability": ["ANSWERABLE"],
    "predictions": [{"text": "An answer."}],
}  # fmt: skip


OURS: dict[str, Any] = {
    "id": "a/b/1", "prediction": "An answer.", "procedure": [{"step": "Stir.", "citations": [1]}],
    "sub_answers": [{"question": "Who?", "answer": "They."}], "decision": "answer",
    "contexts": [{"document_id": "d1"}, {"document_id": "d2", "title": "T", "text": "Two."}], "domain": "cooking",
    "repeat": 1,
}  # fmt: skip


def written(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def problems(*paths: Path, benchmark: str = "mtrag") -> tuple[str, ...]:
    with pytest.raises(RequestError) as caught:
        check_predictions(paths, benchmark)
    return caught.value.problems
