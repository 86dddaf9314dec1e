"""How grades and quotations without a model do on conversations over documents that nobody here wrote.

    TURNMARK_DATA=… python -m tests.benchmarks.decide

For each collection of tests/conversations that is installed, and each half of its conversations: how many questions
that the documents answer are said, hedged and refused, in how many replies to them all key facts are, and how many of
the other questions are said, hedged and refused. Thresholds were chosen on the tuning half and are in
assistant/steps/decide.py. Indexes are kept under TURNMARK_HOME.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.conversations.collections import COLLECTIONS
from tests.conversations.labels import read_labels
from tests.opened import assistant_over
from turnmark.assistant.steps import decide
from turnmark.assistant.steps.turn_state import MIN_ANSWER_CONFIDENCE
from turnmark.core.errors import RequestError
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index

GRADES = ("answer", "partial", "unknown")


@dataclass(frozen=True)
class Graded:
    """A question, its grade, and whether all key facts are in the reply."""

    suite: str
    half: str
    answerable: bool
    decision: str
    facts: bool


def graded() -> Iterator[Graded]:
    """Every question of every collection, each conversation held with the answers that were given."""
    for name, collection in COLLECTIONS.items():
        try:
            documents, talks = collection.documents(), read_labels(collection.labels)
        except RequestError as error:
            print(f"left out: {error}")
            continue
        index = f"conversations-{name}"
        build_index(documents, index, include=collection.include, exclude=collection.exclude)
        assistant = assistant_over(index)
        for talk in talks:
            history: list[Message] = []
            for turn in talk.turn:
                reply = assistant.reply(history, turn.say)
                text = strip_citations(reply.answer)
                history += [Message(role="user", content=turn.say), Message(role="assistant", content=text)]
                if turn.kind in ("answer", "compound", "steps", "unknown"):
                    line = " ".join(text.replace("**", "").split())
                    facts = all(re.search(fact, line, re.IGNORECASE) for fact in turn.facts)
                    yield Graded(name, talk.half, turn.kind != "unknown", reply.decision, facts)


def row(name: str, rows: Sequence[Graded]) -> str:
    """A line: said, hedged and refused, and with all key facts, of those that are answered; and of the others."""
    parts = [name.ljust(30)]
    for answerable in (True, False):
        kept = [each for each in rows if each.answerable is answerable]
        counts = Counter(each.decision for each in kept)
        facts = f" ({sum(each.facts for each in kept):3})" if answerable else ""
        parts.append(" ".join(f"{counts[grade]:4}" for grade in GRADES) + f"{facts} of {len(kept):3}")
    return "   ".join(parts)


def main() -> None:
    """Print the tables."""
    rows = list(graded())
    print(f"refused below {decide.MIN_PARTIAL_CONFIDENCE}, hedged below {MIN_ANSWER_CONFIDENCE}")
    print(f"{'':30}   answerable: said, hedged, refused (facts)   unanswerable: the same")
    for half in ("tuning", "test"):
        kept = [each for each in rows if each.half == half]
        for suite in dict.fromkeys(each.suite for each in kept):
            print(row(f"{suite}, {half}", [each for each in kept if each.suite == suite]))
        print(row(f"all, {half}", kept))


if __name__ == "__main__":
    main()
