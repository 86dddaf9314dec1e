"""The real data that benchmarks measure on: MTRAG's two pools of passages, and its turns in the order asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnmark.core.home import home
from turnmark.corpora.benchmarks import mtrag
from turnmark.retrieval.index.build import corpus_index
from turnmark.retrieval.index.index_api import Index

POOLS = ("clapnq", "fiqa")


def root() -> Path:
    """MTRAG's folder under `$TURNMARK_DATA`; ends the program where it is not there."""
    folder = Path(os.environ.get("TURNMARK_DATA", "")) / "mt-rag-benchmark"
    if not os.environ.get("TURNMARK_DATA") or not folder.is_dir():
        sys.exit("set TURNMARK_DATA to the folder that holds mt-rag-benchmark")
    return folder


def turns() -> list[mtrag.MtragTask]:
    """The turns that have qrels, conversation by conversation, each in its order."""
    judged = {task for domain in POOLS for task in mtrag.load_qrels(root(), "mtrag", domain).data}
    conversations: dict[str, list[mtrag.MtragTask]] = {}
    for task in mtrag.load_tasks(root(), "mtrag").data.values():
        if task.id in judged:
            conversations.setdefault(task.conversation, []).append(task)
    return [task for tasks in conversations.values() for task in sorted(tasks, key=lambda task: task.turn)]


def both_pools() -> Index:
    """One index over both pools, kept under `$TURNMARK_HOME`."""
    corpus = home() / "cache" / "both-pools.jsonl"
    corpus.parent.mkdir(parents=True, exist_ok=True)
    corpus.write_bytes(b"".join(mtrag.corpus_path(root(), domain).read_bytes() for domain in POOLS))
    return corpus_index(corpus, "conversational")


def middle_and_p95(seconds: Sequence[float]) -> str:
    """Median and 95th percentile, in milliseconds."""
    median, worst = 1000 * np.percentile(np.asarray(seconds, dtype=np.float64), [50, 95])
    return f"median {median:7.1f} ms   p95 {worst:7.1f} ms"
