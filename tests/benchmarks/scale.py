"""Large indexes beside LlamaIndex with Chroma: seconds and memory of writing, of searching, and milliseconds a query.

    pip install 'turnmark[bench]'
    TURNMARK_DATA=… python -m tests.benchmarks.scale [PASSAGES [ours]]

The passages are copies of MTRAG's two pools with every seventh word exchanged. Embedding is left out on both sides, so
that half a million passages take minutes: a copy has the vectors of its original, a little turned. Everything else is
real: reading, BM25, the stores, and the queries, which are MTRAG's judged questions, each embedded when it is asked.
Writing and searching run in a process of their own for each side, whose peak of memory is printed (Linux).
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.peers import llama_embedding, llama_index, peak_memory, seconds
from tests.benchmarks.pools import both_pools, middle_and_p95, turns
from turnmark.retrieval.ranking.vectors import PooledTokens

PASSAGES = 100_000
K = 10
NAME = "scale"
EXCHANGED = 7
"""Every seventh word is another one."""
TURNED = 0.03
"""Deviation of what is added to each component of a vector of length 1."""
PAGE = 5000
COPY = re.compile(r"copy(\d+)x\d+")
"""The title of a copy names the row of its original."""


def write_copies(corpus: Path, count: int) -> None:
    """Write copies of both pools as a BEIR corpus."""
    passages = [passage for page in both_pools().store.pages() for _, _, passage in page]
    words = [word for passage in passages[::10] for word in passage.text.split(" ")]
    dice = random.Random(0)
    with open(corpus, "w", encoding="utf-8") as file:
        for number in range(count):
            row = number % len(passages)
            text = passages[row].text.split(" ")
            for position in range(dice.randrange(EXCHANGED), len(text), EXCHANGED):
                text[position] = dice.choice(words)
            line = {"_id": str(number), "title": f"copy{row}x{number // len(passages)}", "text": " ".join(text)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def turned(vectors: NDArray[np.float32], dice: np.random.Generator) -> NDArray[np.float32]:
    """Vectors near to some vectors, of length 1."""
    moved = vectors + dice.normal(0, TURNED, vectors.shape).astype(np.float32)
    unit: NDArray[np.float32] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def originals(texts: Sequence[str]) -> list[int]:
    """The rows of the passages that texts are copies of."""
    return [int(found[1]) if (found := COPY.search(text)) else 0 for text in texts]


def write_ours(corpus: Path) -> None:
    """Build the index."""
    from turnmark.retrieval.index import build, components, encoders
    from turnmark.retrieval.search.opened_index import indexes_folder

    if (indexes_folder() / NAME).is_dir():
        components.remove_index(NAME)
    base, dice = both_pools(), np.random.default_rng(0)

    def copied(_: object, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[PooledTokens]]:
        rows = originals(texts)
        return turned(base.flat.of(rows), dice), list(map(base.tokens.pooled, base.rows.slots[rows].tolist()))

    encoders.__dict__["pool_tokens_of"] = copied
    build.build_index(corpus, NAME, retriever="conversational")


def write_theirs(corpus: Path, folder: Path) -> None:
    """Add the passages to LlamaIndex's index over Chroma, a page at a time."""
    from llama_index.core.schema import TextNode

    base, dice = both_pools(), np.random.default_rng(0)
    index = llama_index(folder, llama_embedding(), None)
    nodes: list[TextNode] = []
    with open(corpus, encoding="utf-8") as lines:
        for line in lines:
            passage = json.loads(line)
            nodes.append(TextNode(id_=passage["_id"], text=f"{passage['title']}\n{passage['text']}"))
            if len(nodes) == PAGE:
                insert(index, nodes, base, dice)
                nodes = []
    insert(index, nodes, base, dice)


def insert(index: Any, nodes: list[Any], base: Any, dice: np.random.Generator) -> None:
    """Give nodes their vectors, and insert them."""
    vectors = turned(base.flat.of(originals([node.text for node in nodes])), dice)
    for node, vector in zip(nodes, vectors, strict=True):
        node.embedding = vector.tolist()
    index.insert_nodes(nodes)


def search(ask: Callable[[str], object]) -> None:
    """Ask each judged question once, after a few to warm up, and print how long one takes."""
    questions = [task.question for task in turns()]
    for question in questions[:8]:
        ask(question)
    print(f"  {middle_and_p95([seconds(lambda question=question: ask(question)) for question in questions])}", end="")  # type: ignore[misc]


def search_ours(spec: str) -> None:
    """Search the index with one retriever."""
    import turnmark as tm

    index = tm.Index.open(NAME)
    search(lambda question: index.search(question, K, retriever=spec))


def search_theirs(folder: Path) -> None:
    """Search LlamaIndex's index."""
    retriever = llama_index(folder, llama_embedding(), None).as_retriever(similarity_top_k=K)
    search(retriever.retrieve)


def run_part(*words: str) -> None:
    """Run a part of this program in a process of its own."""
    print(" ".join(words[:2] if words[0].startswith("search-ours") else words[:1]), end="", flush=True)
    subprocess.run([sys.executable, "-m", "tests.benchmarks.scale", *words], check=True)


def bytes_under(folder: Path) -> int:
    """The size of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(count: int, with_theirs: bool) -> None:
    """Print the figures of both sides, or only of ours."""
    both_pools()
    with tempfile.TemporaryDirectory() as temporary:
        corpus, theirs = Path(temporary) / "copies.jsonl", Path(temporary) / "chroma"
        write_copies(corpus, count)
        print(f"{count:,} passages, {corpus.stat().st_size / 2**20:,.0f} MiB of text")
        run_part("write-ours", str(corpus))
        from turnmark.retrieval.search.opened_index import indexes_folder

        size = bytes_under(indexes_folder() / NAME)
        print(f"on disk: ours {size / 2**20:,.0f} MiB, {size / count:,.0f} bytes per passage", flush=True)
        if with_theirs:
            run_part("write-theirs", str(corpus), str(theirs))
            print(f"theirs {bytes_under(theirs) / 2**20:,.0f} MiB")
        run_part("search-ours", "dense")
        run_part("search-ours", "conversational?rerank=none")
        run_part("search-ours", "conversational")
        if with_theirs:
            run_part("search-theirs", str(theirs))
    print(f"load of the machine over the last 1, 5 and 15 minutes: {os.getloadavg()}")


PARTS: dict[str, Callable[..., None]] = {
    "write-ours": lambda corpus: write_ours(Path(corpus)),
    "write-theirs": lambda corpus, folder: write_theirs(Path(corpus), Path(folder)),
    "search-ours": search_ours,
    "search-theirs": lambda folder: search_theirs(Path(folder)),
}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in PARTS:
        began = time.perf_counter()
        PARTS[sys.argv[1]](*sys.argv[2:])
        print(f"  {time.perf_counter() - began:,.0f} s, peak {peak_memory():,.0f} MiB")
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else PASSAGES, "ours" not in sys.argv)
