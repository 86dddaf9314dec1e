"""How long exact counts take over many passages: `turnmark.retrieval.collection` has no index and scans them.

    TURNMARK_DATA=… python -m tests.benchmarks.scan [PASSAGES]

The passages are those of the collections of tests/conversations that are indexed under TURNMARK_HOME, repeated with a
letter added to every seventh word. Seconds are of the processor, since other work on the machine changes those of the
wall.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, groupby, islice
from pathlib import Path

from tests.conversations.collections import COLLECTIONS
from tests.retrieval.conftest import stored_passages
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.search.opened_index import open_index


def real_passages() -> list[Passage]:
    """All passages of the indexes that are there."""
    passages: list[Passage] = []
    for name in COLLECTIONS:
        try:
            store = open_index(f"conversations-{name}").store
        except RequestError as error:
            print(f"left out: {error}")
            continue
        passages += [passage for page in store.pages() for _, _, passage in page]
    return passages


def repeated(passages: list[Passage], seed: int = 0) -> Iterator[Passage]:
    """The passages over and over, each time with other words."""
    chosen = random.Random(seed)
    for number in count():
        for passage in passages:
            words = passage.text.split(" ")
            words[::7] = [word + chosen.choice("aeiou") for word in words[::7]]
            text = " ".join(words)
            update = {"id": f"{number}/{passage.id}", "document": f"{number}/{passage.document}", "text": text}
            yield passage.model_copy(update={**update, "end": passage.start + len(text)})


def main() -> None:
    """Print a line for each scan."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "passages.db"
        passages = islice(repeated(real_passages()), int((sys.argv[1:2] or ["100000"])[0]))
        by_document = groupby(passages, lambda passage: passage.document)
        every = Collection(stored_passages(path, {document: list(group) for document, group in by_document}))
        scans: dict[str, Callable[[], object]] = {
            "documents": every.documents,
            "grep dutch oven": lambda: every.grep("dutch oven"),
            "grep package": lambda: every.grep("package"),
            "grep the": lambda: every.grep("the"),
            "grep /cast.iron/": lambda: every.grep("/cast.iron/"),
            "documents holding dpkg maintainer": lambda: every.containing("dpkg maintainer"),
        }
        print(f"{every.store.count():,} passages of {every.count():,} documents")
        for name, scan in scans.items():
            began = time.process_time()
            scan()
            print(f"{name}: {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    main()
