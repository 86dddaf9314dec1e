"""The documents that data are made from: those of an index, in an order drawn by the seed, and what a search finds."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnmark.corpora.text import count_words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.passages import OneAtATime
from turnmark.evaluation.synth.folder import CorpusInfo
from turnmark.retrieval.index import Index
from turnmark.retrieval.types import Hit, Query, Retriever

LEAST_WORDS = 40
"""Words below which a document holds too little to ask about."""


class IndexSource:
    """An index to make data from. Safe to use from many threads."""

    def __init__(self, index: Index, retriever: Retriever) -> None:
        self._index = index
        self._retriever = OneAtATime(retriever)

    def corpus(self) -> CorpusInfo:
        """Which documents these are."""
        manifest = self._index.manifest
        return CorpusInfo(
            name=manifest.name,
            fingerprint=hashlib.sha256(self._index.fingerprint.encode("utf-8", "surrogatepass")).hexdigest(),
            source=Path(manifest.source).name,
            documents=manifest.documents,
            passages=manifest.passages,
        )

    def drawn(self, seed: int, least_words: int = LEAST_WORDS) -> list[str]:
        """The ids of all documents with so many words, in an order that the seed decides and nothing else."""
        counts: dict[str, int] = {}
        for passage in self.passages():
            counts[passage.document] = counts.get(passage.document, 0) + count_words(passage.text)
        documents = sorted(name for name, count in counts.items() if count >= least_words)
        random.Random(seed).shuffle(documents)
        return documents

    def drawn_passages(self, seed: int, least_words: int, most_words: int) -> list[str]:
        """The ids of all passages with so many words, each content once, in an order that the seed decides."""
        by_content: dict[str, str] = {}
        for passage in self.passages():
            if least_words <= count_words(passage.text) <= most_words:
                by_content.setdefault(passage.content_hash, passage.id)
        names = sorted(by_content.values())
        random.Random(seed).shuffle(names)
        return names

    def passage(self, name: str) -> Passage:
        """The passage with an id."""
        store = self._index.store
        return store.by_rows([store.rows_of([name])[name]])[0]

    def passages(self) -> Iterator[Passage]:
        """Every passage, in the order of the index."""
        for page in self._index.store.pages():
            for _, _, passage in page:
                yield passage

    def of_document(self, document: str) -> list[Passage]:
        """The passages of a document, in reading order."""
        return self._index.store.of_document(document)

    def text(self, document: str) -> str:
        """The text of a document, of which its passages may share parts."""
        return spliced(self.of_document(document))

    def search(self, text: str, history: Sequence[Message] = (), k: int = 5) -> list[Hit]:
        """What a search for a message finds, best first."""
        return self._retriever.search([Query(text=text, history=tuple(history))], k)[0]


def spliced(passages: Sequence[Passage]) -> str:
    """The text of passages of one document, in reading order, where they overlap once; a gap is an empty line."""
    text, end = "", 0
    for passage in passages:
        if text and passage.start > end:
            text += "\n\n"
        text += passage.text[max(0, end - passage.start) :] if text else passage.text
        end = max(end, passage.end)
    return text.strip()
