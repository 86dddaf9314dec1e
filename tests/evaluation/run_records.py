"""Manifests and samples as tests of run folders make them."""

from __future__ import annotations

from typing import Any

from turnmark.evaluation.records import DataUsed, RunManifest, Sample

DATA = DataUsed(name="d", demo=False, fingerprint="f")


def manifest(**changes: Any) -> RunManifest:
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "specs": {"retriever": "bm25"}, "data": DATA, "domains": ("a",),
        "seed": 0, "version": "1", "started": "then",
    }  # fmt: skip
    return RunManifest(**(fields | changes))


def sample(name: str, **changes: Any) -> Sample:
    return Sample.model_validate({"id": name, "status": "done", "query": "what?"} | changes)
