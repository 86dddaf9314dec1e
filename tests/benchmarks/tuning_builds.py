"""Whether questions made without a model predict which build of an index answers people's questions earliest.

    TURNMARK_DATA=… TURNMARK_CONVERSATIONS=… python -m tests.benchmarks.tuning_builds measure COLLECTION…
    python -m tests.benchmarks.tuning_builds tables

A build is a size of passages and an embedder. `measure` builds each over collections of tests/conversations, computes
the gain of every configuration of `turnmark tune` for made questions and for labeled ones, and keeps it under
`$TURNMARK_HOME/cache/tuning-builds`. `tables` prints Kendall's tau between the two rankings of the builds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from tests.benchmarks.tuning import MADE, SEED, labeled_questions
from tests.conversations.collections import collections_named
from turnmark.core.console import NoProgress
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import home, write_json
from turnmark.evaluation.tune.questions import draw_questions, hide_answers
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.tune_run import measure_questions, plan_tune
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index

BUILDS = ((256, "minilm"), (192, "minilm"), (128, "minilm"), (96, "minilm"), (256, "multilingual-e5-small"))
"""Tokens of a passage and embedder; the first build is the default."""


def _built(collection: str, tokens: int, embedder: str) -> StoredIndex:
    source = collections_named([collection])[collection]
    name = f"builds-{collection}-{tokens}-{embedder}"
    build_index(
        source.documents(), name, retriever="conversational", embedder=embedder, passage_tokens=tokens,
        include=source.include, exclude=source.exclude, progress=NoProgress(),
    )  # fmt: skip
    return open_index(name)


def measure(collection: str) -> None:
    """Measure every configuration of each build on made and labeled questions, and keep the gains."""
    default = _built(collection, *BUILDS[0])
    made, labeled = draw_questions(default, MADE, SEED), list(labeled_questions(default, collection))
    result: dict[str, Any] = {
        "kinds": [one.kind for one in labeled],
        "units": [one.id.rpartition("-")[0] for one in labeled],
        "made_questions": [one.model_dump() for one in made],
        "builds": [],
    }
    for tokens, embedder in BUILDS:
        index = _built(collection, tokens, embedder)
        plan = plan_tune(TuneRequest(index=index.name, seed=SEED), ErrorCollector())
        result["choices"], result["default"] = [choice.model_dump() for choice in plan.choices], plan.default
        with tempfile.TemporaryDirectory() as scratch:
            copy = copy_with_passages(index, hide_answers(index, made), Path(scratch))
            gains = measure_questions(replace(plan), copy, made)
        on_labels = measure_questions(plan, index, labeled)
        result["builds"].append({
            "tokens": tokens, "embedder": embedder, "passages": index.manifest.passages,
            "made": gains.round(5).tolist(), "labeled": on_labels.round(5).tolist(),
        })  # fmt: skip
        means = gains[plan.default].mean(), on_labels[plan.default].mean(), on_labels.mean(axis=1).max()
        print(collection, tokens, embedder, index.manifest.passages, *(f"{mean:.3f}" for mean in means), flush=True)
    write_json(home() / "cache" / "tuning-builds" / f"{collection}.json", result)


def main() -> None:
    """Measure, or print the tables."""
    if sys.argv[1] == "measure":
        for name in sys.argv[2:]:
            measure(name)
        return
    for path in sorted((home() / "cache" / "tuning-builds").glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        default = stored["default"]
        made, labeled = (
            [float(np.mean(build[kind][default])) for build in stored["builds"]] for kind in ("made", "labeled")
        )
        print(path.stem, np.round(made, 3), np.round(labeled, 3), f"{kendalltau(made, labeled).statistic:.2f}")


if __name__ == "__main__":
    main()
