"""In how many answerable turns the first passages hold all key facts: no model reads, so this is what one could know.

    TURNMARK_DATA=… python -m tests.benchmarks.sections [--half tuning|test|all]

The conversations of `tests/conversations` whose documents are installed. Each turn
is searched for as the assistant does without a model, after the earlier questions (their answers are left empty). In a
row: turns; facts in the first 1, 3, 6, 8 passages / their words (median); facts in as many passages as fit into 500 and
1,200 words; passages, and their words (median).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from tests.conversations.collections import COLLECTIONS
from tests.conversations.labels import read_labels
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Message
from turnmark.retrieval.build import build_index
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query

FIRST = (1, 3, 6, 8)
BUDGETS = (500, 1200)
DEPTH = 20
ANSWERABLE = ("answer", "compound", "steps")

Turn = tuple[str, str, Sequence[str]]
"""What is said, its kind, the facts of a right reply."""


class Source(NamedTuple):
    """Documents, and the conversations about them: half of each, and its turns."""

    folder: Path
    include: Sequence[str]
    exclude: Sequence[str]
    conversations: Iterable[tuple[str, Sequence[Turn]]]


def sources() -> Iterator[tuple[str, Source]]:
    """What is installed, by name."""
    for name, collection in COLLECTIONS.items():
        try:
            folder = collection.documents()
        except RequestError:
            continue
        turns: list[tuple[str, list[Turn]]] = [
            (each.half, [(turn.say, turn.kind, turn.facts) for turn in each.turn])
            for each in read_labels(collection.labels)
        ]
        yield name, Source(folder, collection.include, collection.exclude, turns)


def answerable(source: Source, half: str) -> Iterator[tuple[Query, Sequence[str]]]:
    """What is searched for at each answerable turn, and its facts."""
    for of, turns in source.conversations:
        history: list[Message] = []
        for said, kind, facts in turns:
            if kind in ANSWERABLE and half in (of, "all"):
                yield conversation_query(history, said), facts
            history += [Message(role="user", content=said), Message(role="assistant", content="")]


def holds(hits: Sequence[Hit], facts: Sequence[str]) -> bool:
    """Whether passages with their sections hold all facts, whatever the markup."""
    text = re.sub(r"[*`]+", "", " ".join(f"{hit.passage.section} {hit.passage.text}" for hit in hits))
    return all(re.search(fact, " ".join(text.split()), re.IGNORECASE) for fact in facts)


def words(hits: Sequence[Hit]) -> int:
    """Words of passages."""
    return sum(len(hit.passage.text.split()) for hit in hits)


def main() -> None:
    """Print a row for each collection."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sections")
    parser.add_argument("--half", choices=("tuning", "test", "all"), default="tuning")
    half = parser.parse_args().half
    for name, source in sources():
        index_name = f"sections-{name}"
        build_index(source.folder, index_name, include=source.include, exclude=source.exclude)
        index = open_index(index_name)
        queries, facts = zip(*answerable(source, half), strict=True)
        found = open_retriever(default_retriever(index), index).search(queries, DEPTH)
        cells = []
        for first in FIRST:
            share = fmean(holds(hits[:first], wanted) for hits, wanted in zip(found, facts, strict=True))
            cells.append(f"{share:.3f}/{median(words(hits[:first]) for hits in found):.0f}")
        for budget in BUDGETS:
            fitting = [[hits[:n] for n in range(DEPTH + 1) if words(hits[:n]) <= budget][-1] for hits in found]
            cells.append(f"{fmean(map(holds, fitting, facts)):.3f} in {budget}")
        lengths = [len(passage.text.split()) for page in index.store.pages() for _, _, passage in page]
        print(f"{name:22}{len(queries):4}  {'  '.join(cells)}  {len(lengths)} of {median(lengths):.0f}", flush=True)


if __name__ == "__main__":
    main()
