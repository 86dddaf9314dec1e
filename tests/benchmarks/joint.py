"""A collection as one index, and as two that are searched together: `python -m tests.benchmarks.joint NAME…`.

Every other document goes into the second index. Prints, over the labelled conversations of the collection, how many
replies without a language model are right, and in how many turns the first five passages for the message hold all facts
of the label. NAME is a collection of `tests/conversations/collections.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conversations.collections import COLLECTIONS, Collection, work_folder
from tests.conversations.labels import LabelledConversation, read_labels
from tests.conversations.opening import open_system
from tests.conversations.scoring import score
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Query

SHOWN = 5


def split(collection: Collection, folder: Path) -> list[Path]:
    """Copy every other document into another folder, and return the two folders."""
    source = collection.documents()
    documents = read_source(source, collection.include, collection.exclude)
    paths = dict.fromkeys(document.path for document in documents if isinstance(document, Document))
    halves = [folder / "first", folder / "second"]
    shutil.rmtree(folder, ignore_errors=True)
    for position, path in enumerate(sorted(paths)):
        target = halves[position % 2] / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target)
    return halves


def indexes(collection: Collection) -> dict[str, Index]:
    """The collection as one index and as two."""
    name = f"joint-{collection.name}"
    build_index(collection.documents(), name, include=collection.include, exclude=collection.exclude)
    halves = split(collection, work_folder() / "halves" / collection.name)
    for half in halves:
        build_index(half, f"{name}-{half.name}")
    return {"one": Index.open(name), "two": Index.open(",".join(f"{name}-{half.name}" for half in halves))}


def right(index: Index, conversations: Sequence[LabelledConversation]) -> tuple[int, int]:
    """The number of right replies, and of all."""
    system = open_system("extractive", index, [])
    count = turns = 0
    for conversation in conversations:
        ask, before = system.converse(), None
        for turn in conversation.turn:
            answer = ask(turn.say)
            count += score(turn, answer, before).right
            turns += 1
            before = answer
    return count, turns


def found(index: Index, conversations: Sequence[LabelledConversation]) -> tuple[int, int]:
    """The number of messages whose first passages hold all facts, and of all messages with facts."""
    import re

    retriever = open_retriever(default_retriever(index), index)
    turns = [turn for conversation in conversations for turn in conversation.turn if turn.facts]
    lists = retriever.search([Query(text=turn.say) for turn in turns], SHOWN)
    count = 0
    for turn, hits in zip(turns, lists, strict=True):
        text = " ".join(" ".join(hit.passage.text.split()) for hit in hits)
        count += all(re.search(fact, text) for fact in turn.facts)
    return count, len(turns)


def main() -> None:
    """Print a line for each collection."""
    os.environ.setdefault("TURNMARK_HOME", str(work_folder() / "home"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in sys.argv[1:]:
        collection = COLLECTIONS[name]
        conversations = read_labels(collection.labels)
        for form, index in indexes(collection).items():
            replies, of_replies = right(index, conversations)
            messages, of_messages = found(index, conversations)
            print(
                f"{name}, {form}: {replies} of {of_replies} replies right, {messages} of {of_messages} found",
                flush=True,
            )


if __name__ == "__main__":
    main()
