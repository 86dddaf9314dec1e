"""Recorded hits of five retrievers over 120 queries, so that no change of retrieval alters them unnoticed.

They are searched in the demo benchmark's 395 passages, which are not cut further. The queries are the turns of the demo
conversations. After an intended change of the ranking, run `TURNMARK_PRECISION=fp32 python -m
tests.retrieval.test_frozen_hits` to write the file again, and explain the change in the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import VECTORS
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Query

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "turnmark" / "corpora" / "demo"
FROZEN = Path(__file__).parent / "data" / "frozen_hits.jsonl"
RETRIEVERS = ("bm25", "dense", "hybrid", "conversational?rerank=none", "conversational")
QUERIES = 120
DEPTH = 10
TOLERANCE = 1e-3
"""Relative tolerance of scores: in fp32 processors differ in the last bits, so that a number of a stored vector may be
rounded to the next of its 8-bit steps. Ids are compared exactly."""


def write_corpus(path: Path) -> Path:
    """Write both domains of the demo benchmark as one BEIR corpus."""
    parts = sorted((DEMO / "mt-rag-benchmark" / "corpora" / "passage_level").glob("*.jsonl"))
    path.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
    return path


def queries() -> list[Query]:
    """Return each turn with its history, then the first rewritten turns with the rewrite as a variant."""
    conversations = json.loads((DEMO / "conversations.json").read_text(encoding="utf-8"))
    plain: list[Query] = []
    rewritten: list[Query] = []
    for conversation in conversations:
        history: tuple[Message, ...] = ()
        for turn in conversation["turns"]:
            plain.append(Query(text=turn["user"], history=history))
            if turn["rewrite"] != turn["user"]:
                rewritten.append(Query(text=turn["user"], history=history, variants=(turn["rewrite"],)))
            history += Message(role="user", content=turn["user"]), Message(role="assistant", content=turn["agent"])
    return (plain + rewritten)[:QUERIES]


def search(corpus: Path) -> Iterator[dict[str, object]]:
    """Return a record for each retriever and query: the rows and scores of its hits."""
    build_index(corpus, "frozen")
    index = open_index("frozen")
    for spec in RETRIEVERS:
        for number, hits in enumerate(open_retriever(spec, index).search(queries(), DEPTH)):
            rows = index.store.rows_of([hit.passage.id for hit in hits])
            yield {
                "retriever": spec,
                "query": number,
                "rows": [rows[hit.passage.id] for hit in hits],
                "scores": [round(hit.score, 7) for hit in hits],
            }


def test_hits_are_the_recorded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `hybrid` asks for the vectors of the same texts as `dense`.
    monkeypatch.setattr(VECTORS, "on", True)
    frozen = [json.loads(line) for line in FROZEN.read_text(encoding="utf-8").splitlines()]
    assert len(frozen) == QUERIES * len(RETRIEVERS)
    records = list(search(write_corpus(tmp_path / "corpus.jsonl")))
    for record, expected in zip(records, frozen, strict=True):
        label = f"{expected['retriever']}, query {expected['query']}"
        assert record["rows"] == expected["rows"], label
        assert record["scores"] == pytest.approx(expected["scores"], rel=TOLERANCE), label


if __name__ == "__main__":
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TURNMARK_HOME"] = folder
        lines = [json.dumps(record) + "\n" for record in search(write_corpus(Path(folder) / "corpus.jsonl"))]
    FROZEN.write_text("".join(lines), encoding="utf-8")
