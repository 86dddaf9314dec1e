"""Which part of a compound question an answer's sentences answer, with the real embedder."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from turnmark.assistant.wording.reply_texts import UNKNOWN_TEXT
from turnmark.evaluation.metrics.matching import assign_sentences


@cache
def embed_one(text):
    from turnmark.retrieval.embedding.embedders import open_embedder

    return open_embedder("minilm").encode([text], "passage")[0]


def embed(texts):
    return np.stack([embed_one(text) for text in texts])


FERRY = ("How many passengers does the Marigold carry?", "How long does she take for a crossing?")
CARRIES = "The Marigold carries 48 passengers and six cars."
TAKES = "She takes 50 minutes for a crossing."


@pytest.mark.parametrize(
    ("parts", "answer", "texts"),
    [
        (FERRY, f"{CARRIES} {TAKES}", (CARRIES, TAKES)),
        (FERRY, f"{TAKES}\n\n{CARRIES}", (CARRIES, TAKES)),
        (FERRY, f"{CARRIES} [1] {TAKES[:-1]} [1][2].", (CARRIES, TAKES)),
        (FERRY, CARRIES, (CARRIES, "")),
        (FERRY, "Lactic acid gives the bread its sour taste.", ("", "")),
        (
            ("What is the otter's diet?", "What is the tern's diet?"),
            "The diet of both, otter and tern, is fish.",
            ("The diet of both, otter and tern, is fish.",) * 2,
        ),
        (FERRY, f"{CARRIES} The passages do not say how long she takes for a crossing.", (CARRIES, "")),
    ],
)
def test_sentences_are_assigned_to_the_part_they_answer(parts, answer, texts):
    assert assign_sentences(parts, answer, embed) == texts


@pytest.mark.parametrize("answer", ["", "  \n", UNKNOWN_TEXT, "I don't know how many passengers the Marigold carries."])
def test_refusals_and_empty_answers_cover_nothing(answer):
    def never(texts):
        raise AssertionError(texts)

    assert assign_sentences(FERRY, answer, never) == ("", "")


def covered(parts, answer, vectors):
    """Share of the parts that are answered."""
    return sum(map(bool, assign_sentences(parts, answer, vectors))) / len(parts)


@pytest.mark.data
def test_references_cover_their_own_questions_and_not_those_of_others(real_data):
    import random

    from turnmark.assistant.steps.understand.compound_questions import split_questions
    from turnmark.corpora.benchmarks.compound_qa import load_tasks

    tasks = list(load_tasks(real_data / "compound-qa").data.values())
    drawn = [task for task in random.Random(11).sample(tasks, 24) if len(split_questions(task.question)) > 1]
    own = [covered(split_questions(task.question), task.reference, embed) for task in drawn]
    of_others = [
        covered(split_questions(task.question), stranger.reference, embed)
        for task, stranger in zip(drawn, drawn[1:] + drawn[:1], strict=True)
    ]
    assert sum(own) / len(own) >= 0.85
    assert sum(of_others) / len(of_others) <= 0.1
