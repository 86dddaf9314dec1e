"""How fast building and searching are, each as a ratio to a reference in the same run.

    pip install 'turnmark[bench]'
    TURNMARK_DATA=… python -m tests.benchmarks.retrieval [PASSAGES]

BM25 stands beside rank-bm25 over both MTRAG pools, with the last messages of its turns (without TURNMARK_DATA: over
the texts below), and its ranks beside Lucene's formula over the texts below. Both get the same index terms; cutting
the query into them is in both times. For the rest, texts are the sentences of the demo documents, put together anew,
and the reference is a loop over single texts. `tests.benchmarks.query` has the default retriever over the pools.
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.pools import rows, turns
from tests.retrieval import tiny
from turnmark.corpora.readers import read_source
from turnmark.corpora.specs import parse_spec
from turnmark.corpora.text import sentences
from turnmark.corpora.types import Document
from turnmark.retrieval.bm25 import BM25, BM25Settings, analyser, build_bm25
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.sparse import BATCH, SpladeEncoder
from turnmark.retrieval.types import Query

DOCUMENTS = Path(__file__).parents[2] / "corpora" / "demo" / "documents"


def texts(count: int) -> list[str]:
    """Texts of 2 to 12 sentences, drawn with a fixed seed."""
    documents = [item for item in read_source(DOCUMENTS) if isinstance(item, Document)]
    pool = [document.text[a:b] for document in documents for a, b in sentences(document.text)]
    pick = random.Random(3)
    return [" ".join(pick.choices(pool, k=pick.randint(2, 12))) for _ in range(count)]


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(what: str, ours: float, reference: float, unit: int, name: str) -> None:
    """One line: our rate, the reference's, and their ratio."""
    rates = f"{unit / ours:10.1f}/s   {name} {unit / reference:10.1f}/s"
    sys.stdout.write(f"{what:28} {rates}   ratio {reference / ours:6.1f}\n")


def plain_bm25(documents: list[Counter[str]], query: list[str]) -> list[float]:
    """The Lucene formula over all documents, term by term."""
    lengths = [document.total() for document in documents]
    average = sum(lengths) / len(documents)
    scores = [0.0] * len(documents)
    for term in query:
        n = sum(term in document for document in documents)
        idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        for i, document in enumerate(documents):
            scores[i] += idf * document[term] / (document[term] + 0.9 * (0.6 + 0.4 * lengths[i] / average))
    return scores


def ranks_equal(bm25: BM25, documents: list[Counter[str]], query: str) -> bool:
    """Whether every passage with a score is found, in the formula's order; passages of one score may change places."""
    scores = plain_bm25(documents, bm25.analyse(query))
    best = sorted((score for score in scores if score > 0), reverse=True)
    found = [scores[row] for row, _ in bm25.top(query, len(documents))]
    same = (math.isclose(score, other, rel_tol=1e-5) for score, other in zip(found, best, strict=False))
    return len(found) == len(best) and all(same)


def compare_bm25(passages: list[str], queries: list[str], folder: Path) -> None:
    """One line: our queries a second, and rank-bm25's over the same terms; the latter on fewer queries."""
    import numpy as np
    from rank_bm25 import BM25Okapi

    build_bm25(passages, folder, BM25Settings())
    bm25, analyse = BM25(folder, BM25Settings()), analyser("english")
    reference = BM25Okapi([analyse(text) for text in passages], k1=0.9, b=0.4)

    def theirs(query: str) -> object:
        return np.argsort(-reference.get_scores(analyse(query)))[:10]

    for query in queries[:20]:
        bm25.top(query, 10)
    few = queries[: len(queries) // 4]
    ours = seconds(lambda: [bm25.top(query, 10) for query in queries]) / len(queries)
    loop = seconds(lambda: [theirs(query) for query in few]) / len(few)
    show(f"BM25 over {len(passages)}", ours, loop, 1, "rank-bm25")


def compare_splade(passages: list[str], folder: Path) -> None:
    """One line: passages a second through a sparse encoder of BERT-tiny's shape, and through the library's own path."""
    from sentence_transformers import SparseEncoder

    model = tiny.splade(folder, words=30_522, hidden_size=128, intermediate_size=512, initializer_range=0.1)
    encoder = SpladeEncoder(parse_spec(f"splade:{model}?precision=fp32"))
    library = SparseEncoder(str(model), device="cpu")

    def theirs() -> object:
        return library.encode_document(passages, batch_size=BATCH, show_progress_bar=False, save_to_cpu=True)

    encoder.encode(passages[:BATCH], "passage")
    ours = seconds(lambda: encoder.encode(passages, "passage")) / len(passages)
    show(f"SPLADE of {len(passages)}", ours, seconds(theirs) / len(passages), 1, "the library")


def main(count: int) -> None:
    """Print the table."""
    passages = texts(count)
    queries = [text[:80] for text in texts(64)]
    folder = Path(tempfile.mkdtemp())
    if os.environ.get("TURNMARK_DATA"):
        compare_bm25([row["text"] for row in rows()], [task.question for task in turns()], folder / "pools")
    else:
        compare_bm25(passages, queries, folder / "pools")
    build_bm25(passages, folder / "bm25", BM25Settings())
    bm25 = BM25(folder / "bm25", BM25Settings())
    counted = [Counter(bm25.analyse(text)) for text in passages]
    right = sum(ranks_equal(bm25, counted, query) for query in queries)
    sys.stdout.write(f"ranks equal to Lucene's formula: {right} of {len(queries)} queries over {len(passages)}\n")

    compare_splade(passages[:200], folder / "splade")
    embedder = open_embedder("minilm")
    embedder.encode(passages[:32], "passage")
    few = passages[: max(64, count // 8)]
    ours = seconds(lambda: embedder.encode(passages, "passage")) / count
    loop = seconds(lambda: [embedder.encode([text], "passage") for text in few]) / len(few)
    show("embedding passages", ours, loop, 1, "one by one")

    os.environ["TURNMARK_HOME"] = str(folder)
    from turnmark.retrieval.build import build_index

    source = folder / "texts"
    source.mkdir()
    for number, text in enumerate(passages):
        (source / f"{number}.txt").write_text(text, encoding="utf-8")
    build_index(source, "bench")
    hybrid = open_retriever("hybrid", open_index("bench"))
    asked = [Query(text=query) for query in queries]
    hybrid.search(asked[:1], 10)
    ours = seconds(lambda: hybrid.search(asked, 10))
    loop = seconds(lambda: [hybrid.search([query], 10) for query in asked])
    show("hybrid queries, as a batch", ours, loop, len(asked), "one by one")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
