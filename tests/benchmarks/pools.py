"""The real data that benchmarks measure on: MTRAG's two pools of passages, and its turns in the order they were asked.

What the embedder made of the pools is taken from their own kept indexes (`turnmark eval mtrag` makes and keeps the
same), so that an index over both, or over the pools repeated, costs everything but the model.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora import mtrag
from turnmark.corpora.chunking import Tokenizer, chunk
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document
from turnmark.retrieval.corpus import corpus_index
from turnmark.retrieval.embed import Role, TokenEmbedder, open_embedder
from turnmark.retrieval.index import Index
from turnmark.retrieval.tokens import frame, packed_texts, unpack

POOLS = ("clapnq", "fiqa")
REPLACED = 7
"""In a repeated passage every so many words one is another passage's."""
NOISE = 0.48
"""Length of the noise added to the unit vector of a repeated passage: its cosine to the original is about .9."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]


def root() -> Path:
    """MTRAG's folder under `$TURNMARK_DATA`; ends the program where it is not there."""
    folder = Path(os.environ.get("TURNMARK_DATA", "")) / "mt-rag-benchmark"
    if not os.environ.get("TURNMARK_DATA") or not folder.is_dir():
        sys.exit("set TURNMARK_DATA to the folder that holds mt-rag-benchmark")
    return folder


def rows() -> list[dict[str, str]]:
    """The passages of both pools as BEIR rows, one pool after the other."""
    found = []
    for domain in POOLS:
        with open(mtrag.corpus_path(root(), domain), encoding="utf-8") as lines:
            found += [json.loads(line) for line in lines if line.strip()]
    return found


def turns() -> list[mtrag.Task]:
    """The turns that have qrels, conversation by conversation, each in its order."""
    judged = {task for domain in POOLS for task in mtrag.load_qrels(root(), "mtrag", domain).data}
    conversations: dict[str, list[mtrag.Task]] = {}
    for task in mtrag.load_tasks(root(), "mtrag").data.values():
        if task.id in judged:
            conversations.setdefault(task.conversation, []).append(task)
    return [task for some in conversations.values() for task in sorted(some, key=lambda task: task.turn)]


def write_corpus(path: Path, count: int | None = None) -> None:
    """Write passages as a BEIR corpus: both pools as they are, or `count` of them.

    `count` passages are drawn with a fixed seed, so that a larger corpus begins with the smaller one. Beyond the pools'
    own they are repeated with changed text: `repeated`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        for row in rows() if count is None else (row for _, _, row in repeated(rows(), count)):
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def repeated(pool: Sequence[dict[str, str]], count: int) -> Iterator[tuple[int, int, dict[str, str]]]:
    """`count` passages as (number in the pool, how often it was there before, row)."""
    order = list(range(len(pool)))
    random.Random(3).shuffle(order)
    for at in range(count):
        again, number = at // len(pool), order[at % len(pool)]
        row = dict(pool[number])
        if again:
            other = pool[(number + 1009 * again) % len(pool)]["text"].split() or [""]
            words = row["text"].split(" ")
            words[::REPLACED] = [other[place % len(other)] for place in range(0, len(words), REPLACED)]
            row |= {"_id": f"{row['_id']}~{again}", "text": " ".join([*words, other[0]])}
        yield number, again, row


class StoredEmbedder:
    """The bundled embedder, that looks up what it made of passages; queries and unknown passages go through the model.

    A repeated passage has its original's vector with noise, and its original's token vectors.

    Args:
        path: a file that `store_pools` and `store_texts` filled; read page by page, so that it takes no memory.
    """

    def __init__(self, path: Path, name: str = "minilm") -> None:
        real = open_embedder(name)
        assert isinstance(real, TokenEmbedder)
        self._real: Any = real
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        self.name, self.dimension = real.name, real.dimension
        self.max_tokens, self.fingerprint = real.max_tokens, real.fingerprint
        self._before, self._after = frame(real, "passage")

    def tokenizer(self) -> Tokenizer:
        """See `Embedder.tokenizer`."""
        tokenizer: Tokenizer = self._real.tokenizer()
        return tokenizer

    def encode(self, texts: Sequence[str], role: Role) -> Floats:
        """See `Embedder.encode`."""
        found = self._found(texts, role)
        if found is None:
            vectors: Floats = self._real.encode(texts, role)
            return vectors
        return np.stack([vector for vector, _ in found])

    def encode_both(self, texts: Sequence[str], role: Role) -> tuple[Floats, list[Floats], list[Ids]]:
        """See `TokenEmbedder.encode_both`."""
        found = self._found(texts, role)
        if found is None:
            both: tuple[Floats, list[Floats], list[Ids]] = self._real.encode_both(texts, role)
            return both
        pairs = [self._tokens(packed) for _, packed in found]
        return np.stack([vector for vector, _ in found]), [one for one, _ in pairs], [ids for _, ids in pairs]

    def real_vectors(self, texts: Sequence[str]) -> None:
        """Have the model embed passages, whether they are known or not."""
        self._real.encode(texts, "passage")

    def real_both(self, texts: Sequence[str]) -> None:
        """The same with token vectors, packed."""
        list(packed_texts(self._real, texts)[1])

    def _found(self, texts: Sequence[str], role: Role) -> list[tuple[Floats, bytes]] | None:
        """What is stored of passages; None for queries, and where one of them is unknown."""
        found = [self._one(text) for text in texts] if role == "passage" and texts else [None]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        return known

    def _one(self, text: str) -> tuple[Floats, bytes] | None:
        row = self._db.execute(
            "SELECT texts.number, again, vector, tokens FROM texts JOIN made USING (number) WHERE hash = ?",
            [_hash(text)],
        ).fetchone()
        if row is None:
            return None
        vector = np.frombuffer(row[2], dtype=np.float32)
        if row[1]:
            draw = np.random.default_rng([row[0], row[1]])
            vector = vector + draw.standard_normal(len(vector), dtype=np.float32) * NOISE / np.sqrt(len(vector))
            vector = vector / np.linalg.norm(vector)
        return vector.astype(np.float32), row[3]

    def _tokens(self, packed: bytes) -> tuple[Floats, Ids]:
        """Token vectors that pack to the same bytes again, with the special tokens that packing takes off."""
        signs, ids = unpack(packed)
        whole = np.zeros((self._before + len(ids) + self._after, self.dimension), dtype=np.float32)
        bits = np.unpackbits(signs, axis=1, count=self.dimension)
        whole[self._before : self._before + len(ids)] = bits.astype(np.float32) * 2 - 1
        return whole, np.pad(ids, (self._before, self._after)).astype(np.int32)


def pool_indexes() -> list[Index]:
    """The pools' own indexes with vectors and token vectors, built where they are not there."""
    return [corpus_index(mtrag.corpus_path(root(), domain), "conversational") for domain in POOLS]


def store_pools(path: Path) -> None:
    """Keep what the embedder made of both pools, from their own indexes."""
    indexes = pool_indexes()
    db = _opened(path)
    with db:
        for index in indexes:
            first = db.execute("SELECT count(*) FROM made").fetchone()[0]
            for page in index.store.pages():
                vectors = index.vectors_of([passage.id for _, _, passage in page])
                made = [
                    (first + row, vectors[passage.id].tobytes(), index.tokens.packed(row)) for row, _, passage in page
                ]
                db.executemany("INSERT INTO made VALUES (?, ?, ?)", made)
                texts = [(_hash(passage.indexed_text), first + row, 0) for row, _, passage in page]
                db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", texts)
    db.close()


def store_texts(path: Path, count: int, corpus: Path) -> None:
    """Tell which of the pools' passages stands behind each of the `count` passages that `write_corpus` wrote."""
    db = _opened(path)
    documents = (item for item in read_source(corpus) if isinstance(item, Document))
    numbers = ((number, again) for number, again, _ in repeated(rows(), count))
    with db:
        for document, (number, again) in zip(documents, numbers, strict=True):
            # A row of such a corpus is one passage: nothing is cut, so no tokenizer is needed.
            (passage,) = chunk(document, lambda _: [])
            db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", [_hash(passage.indexed_text), number, again])
    db.close()


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS made (number INTEGER PRIMARY KEY, vector BLOB, tokens BLOB)")
    db.execute("CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY, number INTEGER, again INTEGER) WITHOUT ROWID")
    return db


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


@contextmanager
def stored_embedder(path: Path, fill: Callable[[Path], None] = lambda _: None) -> Iterator[None]:
    """Inside, builds in this process take their vectors from `path`, which is filled when the first one begins."""
    import turnmark.retrieval.encoders

    module: Any = turnmark.retrieval.encoders
    real = module.open_embedder

    def opened(_: str) -> StoredEmbedder:
        if not path.is_file():
            fill(path)
        return StoredEmbedder(path)

    module.open_embedder = opened
    try:
        yield
    finally:
        module.open_embedder = real


def middle_and_p95(seconds: Sequence[float]) -> str:
    """Median and 95th percentile, in milliseconds."""
    found = 1000 * np.percentile(np.asarray(seconds, dtype=np.float64), [50, 95])
    return f"median {found[0]:7.1f} ms   p95 {found[1]:7.1f} ms"
