"""How the grades without a model do on conversations over documents that nobody here wrote.

    TURNMARK_DATA=… python -m tests.benchmarks.decide [--curve]

For each suite (those of tests/conversations whose documents are installed, and the two of conversations/ under
TURNMARK_DATA) and each half of it: how many questions that the documents answer are said, hedged and refused, and how
many that they do not. Every other conversation is for tuning: thresholds are chosen there (`--curve` prints others, for
the tuning half), and stand in assistant/steps/decide.py. Indexes are kept under TURNMARK_HOME.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conversations.collections import COLLECTIONS
from tests.conversations.labels import DATA, read_labels
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps import decide
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.build import build_index

OWN = {"clef": "clef-handbook", "uptime": "uptime-kuma-wiki"}
"""Suite under TURNMARK_DATA/conversations -> folder of its documents under TURNMARK_DATA/docs."""
GRADES = ("answer", "partial", "unknown")


@dataclass(frozen=True)
class Graded:
    """A question and its grade."""

    suite: str
    half: str
    answerable: bool
    decision: str
    confidence: float


Turns = Sequence[tuple[str, str]]
"""What is said, and its kind."""


def suites(data: Path) -> Iterator[tuple[str, str, list[tuple[str, Turns]]]]:
    """Name, index, and the conversations, each with its half."""
    for suite, folder in OWN.items():
        rows = json.loads((data / "conversations" / f"{suite}_suite.json").read_text(encoding="utf-8"))
        build_index(data / "docs" / folder, folder)
        talks = [[(turn["q"], turn["kind"]) for turn in row["turns"]] for row in rows]
        yield suite, folder, [("test" if at % 2 else "tuning", talk) for at, talk in enumerate(talks)]
    for name, collection in COLLECTIONS.items():
        try:
            documents = collection.documents()
        except RequestError as error:
            print(f"left out: {error}")
            continue
        index = f"conversations-{name}"
        build_index(documents, index, include=collection.include, exclude=collection.exclude)
        labels = read_labels(DATA / f"{name}.toml")
        yield name, index, [(row.half, [(turn.say, turn.kind) for turn in row.turn]) for row in labels]


def graded(data: Path) -> Iterator[Graded]:
    """Every question of every suite, each conversation held with the answers that were given."""
    for suite, index, talks in suites(data):
        assistant = open_assistant(index)
        for half, talk in talks:
            history: list[Message] = []
            for said, kind in talk:
                reply = assistant.reply(history, said)
                history += [
                    Message(role="user", content=said),
                    Message(role="assistant", content=strip_citations(reply.answer)),
                ]
                judgement = reply.trace.judgement
                if kind in ("answer", "compound", "steps", "unknown") and judgement is not None:
                    yield Graded(suite, half, kind != "unknown", reply.decision, judgement.confidence)


def row(name: str, rows: Sequence[Graded]) -> str:
    """A line: said, hedged and refused, of those that are answered and of the others."""
    parts = [name.ljust(30)]
    for answerable in (True, False):
        kept = [each for each in rows if each.answerable is answerable]
        counts = Counter(each.decision for each in kept)
        parts.append(" ".join(f"{counts[grade]:4}" for grade in GRADES) + f" of {len(kept):3}")
    return "   ".join(parts)


def curve(rows: Sequence[Graded]) -> Iterator[str]:
    """Thresholds around those that are set, and what they would refuse and hedge."""
    for step in range(-4, 5):
        unknown, unsure = decide.UNKNOWN + 0.02 * step, decide.UNSURE + 0.02 * step
        shares = []
        for answerable in (True, False):
            values = [each.confidence for each in rows if each.answerable is answerable]
            shares += [sum(value < least for value in values) / max(1, len(values)) for least in (unknown, unsure)]
        yield f"{unknown:.2f} {unsure:.2f}   answerable {shares[0]:.2f} {shares[1]:.2f}   unanswerable " + (
            f"{shares[2]:.2f} {shares[3]:.2f}"
        )


def main(words: Sequence[str]) -> None:
    """Print the tables."""
    data = Path(os.environ.get("TURNMARK_DATA", ""))
    if not (data / "conversations").is_dir():
        sys.exit("set TURNMARK_DATA to the folder that holds conversations and docs")
    rows = list(graded(data))
    print(f"refused below {decide.UNKNOWN}, hedged below {decide.UNSURE}")
    print(f"{'':30}   answerable: said, hedged, refused   unanswerable: the same")
    for half in ("tuning", "test"):
        kept = [each for each in rows if each.half == half]
        for suite in dict.fromkeys(each.suite for each in kept):
            print(row(f"{suite}, {half}", [each for each in kept if each.suite == suite]))
        print(row(f"all, {half}", kept))
    if "--curve" in words:
        print("refused and hedged or refused, shares of the tuning half:")
        for line in curve([each for each in rows if each.half == "tuning"]):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
