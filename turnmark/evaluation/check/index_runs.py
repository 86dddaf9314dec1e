"""Requests and plans of runs over an index, which all checks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.runs.request_options import make_request
from turnmark.evaluation.storage.run_folder import default_folder
from turnmark.evaluation.synth.request import SynthRequest
from turnmark.evaluation.tasks.request import EvalRequest, command_line
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Query, Retriever


def eval_request(request: CheckRequest, index: StoredIndex | None, values: Mapping[str, Any]) -> EvalRequest:
    """Return the request of a run with the options of a check, and with the embedder of the index.

    Args:
        values: the benchmark and further fields of the request, which replace those of the check.
    """
    embedder = index.manifest.embedder if index is not None else None
    shared = {
        **request.assistant.model_dump(exclude={"index"}),
        "embedder": embedder.spec if embedder is not None else None,
        "concurrency": request.concurrency,
        "max_failures": request.max_failures,
        "budget": request.budget,
        "command": command_line(),
    }
    return make_request({**shared, **values}, ErrorCollector())


def open_loaded(retriever: str, index: StoredIndex) -> tuple[Retriever, str]:
    """Open a retriever over an index and load its models; return it with the fingerprint of the index."""
    opened = open_retriever(retriever, index)
    opened.search([Query(text="load the models")], 1)
    return opened, index.manifest.fingerprint()


def synth_request(request: CheckRequest, wanted: int, out: Path) -> SynthRequest:
    """Return the request to write questions over the index of a check."""
    return SynthRequest(
        index=request.index,
        n=wanted,
        generator=request.assistant.generator,
        seed=request.seed,
        concurrency=request.concurrency,
        max_failures=request.max_failures,
        budget=request.budget,
        out=out,
    )


def plan_over_index(
    request: CheckRequest, index: StoredIndex, out: Path, values: Mapping[str, Any], errors: ErrorCollector
) -> Plan:
    """Plan a run in the folder OUT/answers-HASH; the hash covers the index, so a changed index gets a run of its own.

    Args:
        values: the benchmark and further fields of the request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    retriever = request.assistant.retriever or default_retriever(index)
    made = plan_run(eval_request(request, index, {"retriever": retriever, **values}), errors)
    fingerprint = index.manifest.fingerprint()
    manifest = made.manifest.model_copy(update={"inputs": made.manifest.inputs | {"index": fingerprint}})

    folder = out / f"answers-{default_folder(manifest).name.rpartition('-')[2]}"
    return replace(made, manifest=manifest, folder=folder, open_corpus=lambda _: open_loaded(retriever, index))
