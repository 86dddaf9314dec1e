"""The benchmark that `turnmark check` runs over the user's own index: the tasks of MTRAG.

`turnmark check` uses only this module, so that its own code does not name the benchmark.
"""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.benchmarks.mtrag import MtragTask
from turnmark.evaluation.benchmarks.mtrag import synthesis
from turnmark.evaluation.benchmarks.mtrag.rubrics import mtrag_rubrics
from turnmark.evaluation.storage.corpus_passages import CorpusTexts
from turnmark.retrieval.search.opened_index import StoredIndex

Question = MtragTask
rubrics = mtrag_rubrics
QuestionSynthesis = synthesis.Questions
MIN_FAITHFULNESS = synthesis.MIN_FAITHFULNESS
QUESTIONS_BENCHMARK = "mtrag-s"
"""The benchmark whose task answers the questions."""


def read_questions(folder: Path) -> list[Question]:
    """Read the questions that the synthesis wrote into a folder."""
    return list(mtrag.load_tasks(folder, "mtrag-s").data.values())


def has_questions(folder: Path) -> bool:
    """Return whether the synthesis has written its questions into a folder."""
    return (folder / synthesis.TASKS_FILE).is_file()


def corpus_of(folder: Path, index: StoredIndex) -> CorpusTexts:
    """Open the passages that a folder of questions has of an index."""
    return CorpusTexts(folder / synthesis.CORPORA_FOLDER / f"{synthesis.domain_name(index.manifest.name)}.jsonl")
