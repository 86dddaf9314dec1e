"""What the thresholds of the decide step come to without a model, on the conversation suites that are installed.

    TURNMARK_DATA=… python -m tests.benchmarks.decide [--half tuning|test|all]

The AUROC of the confidence, answerable turns against unanswerable ones; and for each threshold how many of either are
below it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import roc_auc_score

from tests.conversations.collections import COLLECTIONS
from tests.conversations.labels import read_labels
from tests.conversations.runner import Corpus
from turnmark.assistant.open import open_assistant
from turnmark.corpora.console import NoProgress
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Message

ANSWERABLE = ("answer", "compound", "steps")
THRESHOLDS = np.arange(0.20, 0.62, 0.02)


def confidences(half: str) -> Iterator[tuple[bool, float]]:
    """Of every question: whether the documents answer it, and the confidence of the turn."""
    for collection in COLLECTIONS.values():
        try:
            collection.documents()
        except RequestError:
            continue
        assistant = open_assistant(Corpus(collection, NoProgress()).index)
        for conversation in read_labels(collection.labels):
            history: list[Message] = []
            for turn in conversation.turn if half in (conversation.half, "all") else ():
                reply = assistant.reply(history, turn.say)
                history += [Message(role="user", content=turn.say), Message(role="assistant", content=reply.answer)]
                if turn.kind in (*ANSWERABLE, "unknown") and reply.trace.judgement is not None:
                    yield turn.kind != "unknown", reply.trace.judgement.confidence


def main() -> None:
    """Print AUROC and thresholds."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.decide")
    parser.add_argument("--half", choices=("tuning", "test", "all"), default="tuning")
    rows = list(confidences(parser.parse_args().half))
    known, confidence = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    print(f"AUROC {roc_auc_score(known, confidence):.3f} of {known.sum()} answerable, {(~known).sum()} unanswerable")
    for threshold in THRESHOLDS:
        below = confidence < threshold
        print(f"{threshold:.2f}  unanswerable {below[~known].mean():.2f}  answerable {below[known].mean():.2f}")


if __name__ == "__main__":
    main()
