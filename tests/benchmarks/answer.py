"""What the extractive answer is worth on MTRAG's reference setting, and where its weights come from.

    TURNMARK_DATA=… python -m tests.benchmarks.answer [train]

Without a word: the tables of docs/measured.md. Weights are learned on some conversations and measured on the others
(five folds, three times), and learned on one domain and measured on the other; MTRAG-UN, which nothing was chosen on,
stands beside. `train` learns them on all of MTRAG and writes `assistant/steps/select_weights.json`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq
from turnmark.assistant.steps.units import Unit, units_of

from tests.benchmarks.pools import root
from tests.intervals import mean_interval
from turnmark.assistant.steps import answer, select
from turnmark.assistant.steps.understand import understand
from turnmark.assistant.types import Draft, Understanding
from turnmark.corpora import mtrag
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks.measures import lead
from turnmark.evaluation.benchmarks.turns import with_steps
from turnmark.evaluation.metrics.overlap import _rouge_tokens, k_precision, rouge_l_word, token_recall
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.task_passages import Embed, by_text, hits_of
from turnmark.retrieval.types import Hit

Floats = NDArray[np.float64]
ORDERS = 40
"""Random orders of a task's sentences, over which what a sentence adds is averaged."""
RIDGE = 0.1
ROUNDS = 3
SEED = 0
REMEMBERED = 200_000
"""Vectors: of all texts."""


def remembering() -> Embed:
    """An embedder that remembers each text, so that every fold can ask again."""
    return by_text(lambda texts: open_embedder("minilm").encode(texts, "passage"), REMEMBERED)


@dataclass(frozen=True)
class Asked:
    """A task as the answer step sees it."""

    task: mtrag.Task
    hits: Sequence[Hit]
    understood: Understanding

    @cached_property
    def pool(self) -> list[Unit]:
        """What may be said."""
        return [unit for unit in units_of(self.hits) if unit.complete]


def tasks_of(benchmark: mtrag.Benchmark) -> list[Asked]:
    """The answerable and partial tasks of a benchmark that have passages."""
    cases = []
    for task in mtrag.load_tasks(root(), benchmark).data.values():
        if task.contexts and task.reference and task.answerability in ("ANSWERABLE", "PARTIAL"):
            passages = [
                Passage(id=c.document_id, document=c.document_id, title=c.title, text=c.text, start=0, end=len(c.text))
                for c in task.contexts[:10]
            ]
            cases.append(Asked(task, hits_of(passages), understand(task.history, task.question)))
    return cases


# -- learning


def gains(case: Asked, dice: np.random.Generator) -> Floats:
    """What each sentence adds to the subsequence that answer and reference share, for each word it has.

    The mean over random orders, in which sentences are taken until they are .2 to 1.2 times as long as the reference;
    the answer has them in the order of the passages. NaN where a sentence was never taken.
    """
    reference = _rouge_tokens(case.task.reference)
    tokens = [_rouge_tokens(unit.text) for unit in case.pool]
    gained, counts = np.zeros(len(tokens)), np.zeros(len(tokens))
    for _ in range(ORDERS):
        room, chosen, shared = len(reference) * dice.uniform(0.2, 1.2), list[int](), 0
        for place in dice.permutation(len(tokens)).tolist():
            chosen = sorted([*chosen, place])
            common = LCSseq.similarity([token for number in chosen for token in tokens[number]], reference)
            gained[place] += common - shared
            counts[place] += 1
            shared = common
            room -= len(tokens[place])
            if room <= 0:
                break
    sizes = np.array([len(number) for number in tokens], dtype=float)
    return np.where((counts > 0) & (sizes > 0), gained / np.maximum(counts * sizes, 1), np.nan)


Row = tuple[Floats, Floats, Floats]
"""Of a task's sentences: features, gains less their mean, and how much each counts."""


def row_of(case: Asked, embed: Embed, dice: np.random.Generator) -> Row | None:
    """What is learned from one task; None where it has no sentences."""
    if not case.pool:
        return None
    rated = select.rated((case.task.question, case.understood.rewrite), case.pool, embed)
    gained = gains(Asked(case.task, case.hits, case.understood), dice)[: len(rated.units)]
    finite = ~np.isnan(gained)
    if not finite.any() or len(rated.units) < len(case.pool):
        return None
    sizes = np.sqrt([len(words(unit.text)) for unit in rated.units])
    return rated.features[finite], gained[finite] - gained[finite].mean(), sizes[finite]


def learn(rows: Sequence[Row | None]) -> tuple[float, ...]:
    """Ridge regression of the gains on the measures; the weights have length 1."""
    learnt = [row for row in rows if row is not None]
    features, gained, counts = (np.concatenate(parts) for parts in zip(*learnt, strict=True))
    weighted = features * counts[:, None]
    matrix = weighted.T @ features / counts.sum() + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(matrix, weighted.T @ gained / counts.sum())
    return tuple((weights / np.linalg.norm(weights)).tolist())


# -- measuring


@contextmanager
def weighing(weights: Sequence[float]) -> Iterator[None]:
    """Let the answer step use other weights."""
    before = select.learned
    select.learned = lambda: tuple(weights)  # type: ignore[assignment]
    try:
        yield
    finally:
        select.learned = before


def text_of(draft: Draft | None) -> str:
    """A draft as it is scored: steps count, marks do not."""
    steps = [step.model_dump() for step in draft.procedure] if draft else []
    return strip_citations(with_steps(draft.text, steps)).strip() if draft else ""


def said(case: Asked, embed: Embed) -> str:
    """The product's answer."""
    return text_of(answer.extract(case.understood, case.task.question, case.hits, embed))


def said_at_length(case: Asked, embed: Embed) -> str:
    """The product's answer, were it told how long the reference is: what a perfect guess of that would bring."""
    length = len(words(case.task.reference))
    lengths = {"LENGTH": length, "FACT_LENGTH": length, "MOST_SENTENCES": length, "FACT_SENTENCES": length}
    with patch.multiple(answer, **lengths):
        return said(case, embed)


Measured = Mapping[str, float]


def measured(case: Asked, text: str) -> Measured:
    """The figures of one answer, and of the first sentences at its length."""
    texts = [hit.passage.text for hit in case.hits]
    first, reference = lead(texts, len(words(text))), case.task.reference
    figures_of = {
        "rouge": rouge_l_word(text, reference), "recall": token_recall(text, reference),
        "k_prec": k_precision(text, texts), "words": float(len(words(text))), "lead": rouge_l_word(first, reference),
    }  # fmt: skip
    return {name: value for name, value in figures_of.items() if value is not None}


def line(name: str, tasks: Sequence[Asked], rows: Sequence[Measured]) -> str:
    """A row of a table, with the interval over conversations."""
    clusters = [case.task.conversation for case in tasks]
    mean, low, high = mean_interval([row["rouge"] for row in rows], clusters, SEED)
    beside = mean_interval([row["rouge"] - row["lead"] for row in rows], clusters, SEED)
    mean_of = {key: float(np.mean([row[key] for row in rows])) for key in ("recall", "k_prec", "words", "lead")}
    return (
        f"| {name} | {len(tasks)} | {mean:.4f} | {low:.3f}-{high:.3f} | {mean_of['lead']:.4f} | {beside[0]:+.4f} "
        f"({beside[1]:+.3f} to {beside[2]:+.3f}) | {mean_of['recall']:.3f} | {mean_of['k_prec']:.3f} | "
        f"{mean_of['words']:.0f} |"
    )


def show(name: str, tasks: Sequence[Asked], rows: Sequence[Measured]) -> None:
    """Print the row of all tasks and that of the answerable ones."""
    print(line(name, tasks, rows))
    answerable = [number for number, case in enumerate(tasks) if case.task.answerability == "ANSWERABLE"]
    print(
        line(f"{name}, ANSWERABLE", [tasks[number] for number in answerable], [rows[number] for number in answerable]),
        flush=True,
    )


def across(
    tasks: Sequence[Asked], rows: Sequence[Row | None], parts: Sequence[NDArray[np.bool_]], embed: Embed
) -> list[Measured]:
    """Every task measured with weights that were learned on the tasks of the other parts."""
    by_task: dict[int, Measured] = {}
    for part in parts:
        with weighing(learn([row for row, inside in zip(rows, part, strict=True) if not inside])):
            by_task |= {
                number: measured(tasks[number], said(tasks[number], embed)) for number in np.flatnonzero(part).tolist()
            }
    return [by_task[number] for number in range(len(tasks))]


def by_conversation(tasks: Sequence[Asked], rows: Sequence[Row | None], embed: Embed) -> list[Measured]:
    """As `across`, over folds of conversations, the mean of several rounds."""
    rounds = []
    for number in range(ROUNDS):
        names = [case.task.conversation for case in tasks]
        order = np.random.default_rng(number).permutation(sorted(set(names))).tolist()
        folds = conversation_folds([f"{order.index(name):03}" for name in names])
        rounds.append(across(tasks, rows, folds, embed))
    return [
        {key: float(np.mean([results[number][key] for results in rounds])) for key in rounds[0][number]}
        for number in range(len(tasks))
    ]


def first_sentences(case: Asked) -> str:
    """The first sentences of the passages, as many words as references have on average."""
    return lead([hit.passage.text for hit in case.hits], 97)


def figures() -> None:
    """Print the tables."""
    embed, dice = remembering(), np.random.default_rng(SEED)
    tasks = tasks_of("mtrag")
    rows = [row_of(case, embed, dice) for case in tasks]
    domains = np.array([case.task.domain for case in tasks])
    print("| weights | n | ROUGE-L | 95% | lead | beside lead | token recall | K-precision | words |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    show("first sentences, 97 words", tasks, [measured(case, first_sentences(case)) for case in tasks])
    alone = [float(name == "message") for name in select.FEATURES]
    with weighing(alone):
        show("similarity to the message alone", tasks, [measured(case, said(case, embed)) for case in tasks])
    show("other conversations", tasks, by_conversation(tasks, rows, embed))
    names = sorted(set(domains.tolist()))
    crossed = across(tasks, rows, [domains == name for name in names], embed)
    show("the other domain", tasks, crossed)
    for name in names:
        of_domain = np.flatnonzero(domains == name).tolist()
        print(
            line(
                f"the other domain: {name}",
                [tasks[number] for number in of_domain],
                [crossed[number] for number in of_domain],
            )
        )
    show("the product's, on what they were learned", tasks, [measured(case, said(case, embed)) for case in tasks])
    show("told the length of each reference", tasks, [measured(case, said_at_length(case, embed)) for case in tasks])
    unseen = tasks_of("mtrag-un")
    show("the product's, MTRAG-UN", unseen, [measured(case, said(case, embed)) for case in unseen])


def train() -> None:
    """Learn the weights on all of MTRAG and write them."""
    embed, dice = remembering(), np.random.default_rng(SEED)
    weights = learn([row_of(case, embed, dice) for case in tasks_of("mtrag")])
    stored = {
        "made_by": "python -m tests.benchmarks.answer train",
        "weights": {name: round(value, 3) for name, value in zip(select.FEATURES, weights, strict=True)},
    }
    select.WEIGHTS.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(stored))


def conversation_folds(conversations: Sequence[str], folds: int = 5) -> list[NDArray[np.bool_]]:
    """Which rows are in each fold; those of one conversation are in one fold. One conversation makes none."""
    names = list(dict.fromkeys(conversations))
    if len(names) < 2:
        return []
    shuffled = np.random.default_rng(0).permutation(len(names))
    parts = np.array_split(shuffled, min(folds, len(names)))
    numbers = np.array([names.index(name) for name in conversations])
    return [np.isin(numbers, part) for part in parts]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    word = " ".join(sys.argv[1:])
    commands = {"": figures, "train": train}
    if word not in commands:
        raise SystemExit(f"unknown: {word!r}; nothing, or train")
    commands[word]()
