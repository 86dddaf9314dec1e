"""The sentences that retrievers searched for in a folder of a check, and the difference of two retrievers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.evaluation.check.result import QuestionResult, RetrieverComparison, is_found, share
from turnmark.evaluation.scores.cluster_statistics import difference_statistic, intervals, permutation_tests
from turnmark.evaluation.storage.corpus_passages import span_of

SEED = 0
"""Random seed of the interval and the test."""


class SearchedSentences(Record):
    """The sentences of a check, and where a retriever found them."""

    retriever: str
    asked: tuple[QuestionResult, ...]


def sentences_file(retriever: str) -> str:
    """Return the name of the file with the sentences that a retriever searched for."""
    return f"sentences-{hashlib.sha256(retriever.encode()).hexdigest()[:12]}.json"


def write_sentences(folder: Path, searched: SearchedSentences) -> None:
    """Write the sentences that a retriever searched for."""
    write_atomic(folder / sentences_file(searched.retriever), searched.model_dump_json(indent=1) + "\n")


def read_sentences(folder: Path) -> list[SearchedSentences]:
    """Return the sentences of every retriever in a folder."""
    files = sorted(folder.glob("sentences-*.json"))
    return [SearchedSentences.model_validate_json(path.read_bytes()) for path in files]


def compare_sentences(asked: Sequence[QuestionResult], other: SearchedSentences) -> RetrieverComparison:
    """Compare what a retriever found with what another one found of the same sentences."""
    this, that = (np.array([float(is_found(one)) for one in each]) for each in (asked, other.asked))
    documents = [span.document if (span := span_of(one.passage)) else one.passage for one in asked]
    ones = np.ones(len(this))
    clusters = np.unique(documents, return_inverse=True)[1]
    difference = difference_statistic(that, ones, this, ones, clusters, share=True)
    assert difference is not None, "every sentence has weight 1"
    (interval,), (p,) = intervals([difference], SEED), permutation_tests([difference], SEED)
    found = share(int(that.sum()), len(that))
    return RetrieverComparison(retriever=other.retriever, found=found, difference=difference.value, ci95=interval, p=p)
