"""The benchmark that `turnmark check` runs over the user's own index: the tasks of MTRAG.

`turnmark check` uses only this module, so that its own code does not name the benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from turnmark.core.home import write_atomic
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.benchmarks.mtrag import MtragTask
from turnmark.corpora.benchmarks.task_ids import canonical_id
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks.mtrag import synthesis
from turnmark.evaluation.benchmarks.mtrag.rubrics import mtrag_rubrics
from turnmark.evaluation.storage.corpus_passages import CorpusTexts
from turnmark.evaluation.synth.synthesis_folder import write_rows
from turnmark.retrieval.search.opened_index import StoredIndex

Question = MtragTask
rubrics = mtrag_rubrics
QuestionSynthesis = synthesis.Questions
MIN_FAITHFULNESS = synthesis.MIN_FAITHFULNESS
QUESTIONS_BENCHMARK, SEARCHES_BENCHMARK = "mtrag-s", "mtrag"
"""The benchmark whose task answers the questions, and the one whose task `retrieval` searches for the sentences."""
QUERIES = "queries.jsonl"


def read_questions(folder: Path) -> list[Question]:
    """Read the questions that the synthesis wrote into a folder."""
    return list(mtrag.load_tasks(folder, "mtrag-s").data.values())


def has_questions(folder: Path) -> bool:
    """Return whether the synthesis has written its questions into a folder."""
    return (folder / synthesis.TASKS_FILE).is_file()


def write_searches(
    folder: Path, index: StoredIndex, sentence_of_passage: Mapping[str, str], altered: Mapping[str, Passage]
) -> None:
    """Write queries, relevance labels and the altered passages in MTRAG's layout.

    Args:
        sentence_of_passage: id of the relevant passage -> the sentence to search for, in the order of the queries.
        altered: id -> the altered passage.
    """
    domain = synthesis.domain_name(index.manifest.name)
    labels = ["query-id\tcorpus-id\tscore"]
    queries: list[dict[str, str]] = []
    for number, (passage, sentence) in enumerate(sentence_of_passage.items(), 1):
        labels.append(f"{_query_id(number)}\t{passage}\t1")
        queries.append({"_id": _query_id(number), "text": sentence})
    qrels = folder / "mtrag-human/retrieval_tasks" / domain / "qrels"
    qrels.mkdir(parents=True, exist_ok=True)
    write_atomic(qrels / "dev.tsv", "\n".join(labels) + "\n")
    write_atomic(folder / QUERIES, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in queries))
    write_rows(folder / synthesis.CORPORA_FOLDER / f"{domain}.jsonl", _rows(index, altered))


def corpus_of(folder: Path, index: StoredIndex) -> CorpusTexts:
    """Open the passages that a folder of questions or searches has of an index."""
    return CorpusTexts(folder / synthesis.CORPORA_FOLDER / f"{synthesis.domain_name(index.manifest.name)}.jsonl")


def _rows(index: StoredIndex, altered: Mapping[str, Passage]) -> Iterator[dict[str, str]]:
    for page in index.store.pages():
        for _, _, passage in page:
            yield synthesis.corpus_row(altered.get(passage.id, passage))


def _query_id(number: int) -> str:
    return f"sentence-{number:04d}<::>1"


def search_id(number: int) -> str:
    """Return the id that the sample of a sentence has."""
    return canonical_id(_query_id(number))
