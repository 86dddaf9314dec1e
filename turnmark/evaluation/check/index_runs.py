"""Plans a run of a check over an index, with the retriever and embedder of the index."""

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
from turnmark.evaluation.tasks.request import command_line
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Query, Retriever


def plan_over_index(
    request: CheckRequest, index: StoredIndex, out: Path, values: Mapping[str, Any], errors: ErrorCollector
) -> Plan:
    """Plan a run in the folder OUT/answers-HASH; the hash covers the index, so a changed index gets a run of its own.

    Args:
        values: the benchmark and further fields of the request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    retriever, embedder = request.assistant.retriever or default_retriever(index), index.manifest.embedder
    shared = {
        **request.assistant.model_dump(exclude={"index"}),
        "retriever": retriever,
        "embedder": embedder.spec if embedder is not None else None,
        "concurrency": request.concurrency,
        "max_failures": request.max_failures,
        "budget": request.budget,
        "command": command_line(),
    }
    made = plan_run(make_request({**shared, **values}, ErrorCollector()), errors)
    fingerprint = index.manifest.fingerprint()
    manifest = made.manifest.model_copy(update={"inputs": made.manifest.inputs | {"index": fingerprint}})

    def open_corpus(_: str) -> tuple[Retriever, str]:
        opened = open_retriever(retriever, index)
        opened.search([Query(text="load the models")], 1)
        return opened, fingerprint

    folder = out / f"answers-{default_folder(manifest).name.rpartition('-')[2]}"
    return replace(made, manifest=manifest, folder=folder, open_corpus=open_corpus)
