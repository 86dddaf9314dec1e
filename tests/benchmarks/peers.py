"""Turnmark beside what one would use instead, measured side by side in one run: the README's table.

    pip install 'turnmark[bench]'
    TURNMARK_DATA=… python -m tests.benchmarks.peers [PASSAGES] [--only build,bm25,rouge,engine]

The passages are the first of ClapNQ's pool (2,000), the embedding model is the bundled MiniLM on both sides, and
LlamaIndex's classes have their defaults. Both sides take turns, so that other work slows both: read the ratios, not the
seconds. BM25 runs over the whole pool. The engine answers MTRAG's demo tasks, 64 at once, by a scripted endpoint in a
process of its own that takes 200 ms.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from turnmark.retrieval.embedding.embedders import MINILM_FOLDER

PASSAGES = 2000
CORPUS = Path("mt-rag-benchmark") / "corpora" / "passage_level" / "clapnq.jsonl"
QUERIES, WARM = 100, 8
K = 10
ROUNDS = 2
CONCURRENCY, SECONDS = 64, 0.2
REPEATS = 13
PARTS = ("build", "bm25", "rouge", "engine")
REPLY = json.dumps({
    "id": "x", "object": "chat.completion", "created": 0, "model": "tiny",
    "choices": [{
        "index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "The bell was cast by the river and hung the year after."},
    }],
    "usage": {"prompt_tokens": 1500, "completion_tokens": 30, "total_tokens": 1530},
}).encode()  # fmt: skip
Row = tuple[str, str, str, str, float]
"""What was measured, the peer, our figure, theirs, and how many times better ours is."""


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_memory() -> float:
    """The most memory that this process has had, in MiB (Linux)."""
    # Not getrusage: its peak includes that of the parent before exec.
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def shown(ratio: float) -> str:
    """A ratio with two or three digits."""
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def texts_of(corpus: Path, count: int | None = None) -> list[str]:
    """The texts of a BEIR corpus, or its first."""
    with open(corpus, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in islice(lines, count)]


def questions(texts: Sequence[str], count: int) -> list[str]:
    """Short queries: the beginnings of passages, drawn with a fixed seed."""
    drawn = random.Random(3).choices(texts, k=count)
    return [text[:60] for text in drawn]


# --- an index, beside LlamaIndex with Chroma -------------------------------------------------------------------------


def llama_embedding() -> Any:
    """LlamaIndex's own embedding of the bundled model."""
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    return HuggingFaceEmbedding(model_name=str(MINILM_FOLDER), device="cpu")


def llama_index(folder: Path, embedding: Any, texts: Sequence[str] | None) -> Any:
    """LlamaIndex's index over a Chroma collection on disk: built from texts, or opened."""
    import chromadb
    from llama_index.core import Document, StorageContext, VectorStoreIndex
    from llama_index.vector_stores.chroma import ChromaVectorStore

    settings = chromadb.Settings(anonymized_telemetry=False)
    collection = chromadb.PersistentClient(str(folder), settings=settings).get_or_create_collection("passages")
    store = ChromaVectorStore(chroma_collection=collection)
    if texts is None:
        return VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex.from_documents([Document(text=text) for text in texts], context, embed_model=embedding)


def build_and_query(corpus: Path, texts: Sequence[str], folder: Path) -> Iterator[Row]:
    """Rows for building, for one query at a time, and for the memory of a process that searches."""
    import turnmark as tm

    small = folder / "small.jsonl"
    with open(corpus, encoding="utf-8") as lines:
        small.write_text("".join(islice(lines, len(texts))), encoding="utf-8")
    warm = folder / "warm.jsonl"
    warm.write_text(json.dumps({"_id": "a", "title": "", "text": texts[0]}) + "\n", encoding="utf-8")
    tm.Index.build(warm, "warm", retriever="dense").search("warm", retriever="dense")
    embedding = llama_embedding()
    embedding.get_text_embedding_batch(list(texts[:32]))
    ours, theirs = [], []
    for number in range(ROUNDS):
        ours.append(seconds(lambda name=f"peers{number}": tm.Index.build(small, name, retriever="dense")))  # type: ignore[misc]
        theirs.append(seconds(lambda path=folder / f"chroma{number}": llama_index(path, embedding, texts)))  # type: ignore[misc]
    rates = [len(texts) / min(times) for times in (ours, theirs)]
    peer = "LlamaIndex with Chroma"
    yield (f"index of {len(texts):,} passages", peer, f"{rates[0]:.0f}/s", f"{rates[1]:.0f}/s", rates[0] / rates[1])

    searched = [json.loads(run_self("search", side, str(folder), str(len(texts)))) for side in ("ours", "theirs")]
    worst, peaks = ([each[name] for each in searched] for name in ("p95", "peak"))
    yield ("one query, p95", peer, f"{worst[0]:.0f} ms", f"{worst[1]:.0f} ms", worst[1] / worst[0])
    yield ("memory of a process that searches", peer, f"{peaks[0]:.0f} MiB", f"{peaks[1]:.0f} MiB", peaks[1] / peaks[0])


def run_self(*words: str) -> str:
    """What this program prints with other words, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.peers", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def search(side: str, folder: Path, count: int) -> None:
    """Search, and print the 95th percentile of a query in ms and the peak of memory in MiB. Each side has a process of
    its own: in one, the threads of one library would wait for work on the processors that the other needs.
    """
    import numpy as np

    queries = questions(texts_of(folder / "small.jsonl", count), WARM + QUERIES)
    if side == "ours":
        import turnmark as tm

        index = tm.Index.open("peers0")
        ask: Callable[[str], object] = partial(index.search, k=K, retriever="dense")
    else:
        ask = llama_index(folder / "chroma0", llama_embedding(), None).as_retriever(similarity_top_k=K).retrieve
    times = [1000 * seconds(lambda query=query: ask(query)) for query in queries]  # type: ignore[misc]
    print(json.dumps({"p95": float(np.percentile(times[WARM:], 95)), "peak": peak_memory()}))


# --- BM25, ROUGE -----------------------------------------------------------------------------------------------------


def bm25(corpus: Path) -> Iterator[Row]:
    """Queries a second beside rank-bm25 over the same terms; theirs on fewer queries."""
    import numpy as np
    from rank_bm25 import BM25Okapi

    import turnmark as tm
    from turnmark.corpora.text.analysis import open_analyzer

    texts = texts_of(corpus)
    index = tm.Index.build(corpus, "bm25", retriever="bm25")
    analyze = open_analyzer("en")
    reference = BM25Okapi([analyze(text) for text in texts], k1=0.9, b=0.4)
    queries = questions(texts, QUERIES)
    index.search("warm", K, retriever="bm25")
    ours = seconds(lambda: [index.search(query, K, retriever="bm25") for query in queries]) / QUERIES
    few = queries[: QUERIES // 4]
    scored = seconds(lambda: [np.argsort(-reference.get_scores(analyze(query)))[:K] for query in few]) / len(few)
    yield (f"BM25 over {len(texts):,} passages", "rank-bm25", f"{1 / ours:.0f}/s", f"{1 / scored:.0f}/s", scored / ours)


def rouge() -> Iterator[Row]:
    """Pairs a second beside rouge-score, whose values are the same to 1e-9."""
    from rouge_score.rouge_scorer import RougeScorer

    from turnmark.evaluation.metrics.overlap import rouge_l_word

    dice = random.Random(0)
    vocabulary = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(400)]
    drawn = [" ".join(vocabulary[int(400 * dice.random() ** 3)] for _ in range(90)) for _ in range(300)]
    pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
    scorer = RougeScorer(["rougeL"], use_stemmer=False)
    rouge_l_word(*pairs[0])
    apart = max(abs((rouge_l_word(a, b) or 0.0) - scorer.score(b, a)["rougeL"].fmeasure) for a, b in pairs)
    if apart > 1e-9:
        sys.exit(f"ROUGE-L differs from rouge-score by {apart}")
    ours = min(seconds(lambda: [rouge_l_word(a, b) for a, b in pairs]) for _ in range(3)) / len(pairs)
    theirs = min(seconds(lambda: [scorer.score(b, a) for a, b in pairs]) for _ in range(3)) / len(pairs)
    yield ("ROUGE-L of 90 words", "rouge-score", f"{1 / ours:,.0f}/s", f"{1 / theirs:,.0f}/s", theirs / ours)


# --- the engine, beside a bare client and the ideal ------------------------------------------------------------------


async def serve() -> None:
    """An endpoint that takes 200 ms for every request; prints its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                status, body = b"404 Not Found", b"{}"
                if length:
                    await reader.readexactly(int(length[0].split(b":")[1]))
                    await asyncio.sleep(SECONDS)
                    status, body = b"200 OK", REPLY
                heading = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(heading % (status, len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare(url: str, count: int) -> None:
    """So many requests by httpx alone, with nothing read from their replies."""
    import httpx

    body = {"model": "tiny", "messages": [{"role": "user", "content": "word " * 1200}]}

    async def ask_all() -> None:
        gate = asyncio.Semaphore(CONCURRENCY)
        limits = httpx.Limits(max_connections=CONCURRENCY)
        async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=None) as client:

            async def ask() -> None:
                async with gate:
                    (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()

            await asyncio.gather(*(ask() for _ in range(count)))

    asyncio.run(ask_all())


def evaluated(url: str, out: Path, *words: str) -> tuple[float, int]:
    """Seconds of generating the answers of a run with one call a sample, and how many they were."""
    flags = ("--protocol", "paper", "--concurrency", str(CONCURRENCY), "--json", "--out", str(out))
    spec = f"openai:tiny@{url}?context=8192"
    command = [sys.executable, "-m", "turnmark", "eval", "mtrag", "--generator", spec, *flags, *words]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    summary = json.loads(ran.stdout)
    return summary["seconds"]["generate"], summary["n"]


def engine(folder: Path) -> Iterator[Row]:
    """A run with one call a sample, beside as many bare requests and beside what the endpoint itself takes."""
    command = [sys.executable, "-m", "tests.benchmarks.peers", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        try:
            evaluated(url, folder / "warm-run", "--limit", "1")
            ours, plain, count = [], [], 0
            for number in range(ROUNDS):
                duration, count = evaluated(url, folder / f"run{number}", "--repeat", str(REPEATS))
                ours.append(duration)
                began = time.perf_counter()
                bare(url, count)
                plain.append(time.perf_counter() - began)
        finally:
            server.terminate()
    ideal = ceil(count / CONCURRENCY) * SECONDS
    name, figure = f"a run of {count} calls, {CONCURRENCY} at once", f"{min(ours):.2f} s"
    yield (name, "bare httpx", figure, f"{min(plain):.2f} s", min(plain) / min(ours))
    yield (name, "the endpoint alone (ideal)", figure, f"{ideal:.2f} s", ideal / min(ours))


def main(words: Sequence[str]) -> None:
    """Print the table, a line as soon as it is measured."""
    chosen = words[words.index("--only") + 1].split(",") if "--only" in words else PARTS
    count = int(words[0]) if words and words[0].isdigit() else PASSAGES
    corpus = Path(os.environ.pop("TURNMARK_DATA", "")) / CORPUS
    if {"build", "bm25"} & set(chosen) and not corpus.is_file():
        sys.exit(f"set TURNMARK_DATA to the folder that holds {CORPUS}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        from turnmark.core.home import home

        os.environ.setdefault("TURNMARK_CACHE", str(home() / "cache"))  # finding the 8-bit ranges is in no figure
        os.environ["TURNMARK_HOME"] = str(folder / "home")
        parts = {
            "build": lambda: build_and_query(corpus, texts_of(corpus, count), folder),
            "bm25": lambda: bm25(corpus), "rouge": rouge, "engine": lambda: engine(folder),
        }  # fmt: skip
        print("| what | against | Turnmark | the other | times better |\n|---|---|---|---|---|", flush=True)
        for part in chosen:
            for task, peer, ours, theirs, ratio in parts[part]():
                print(f"| {task} | {peer} | {ours} | {theirs} | {shown(ratio)} |", flush=True)
    print(f"\n{os.cpu_count()} processors, load over the last minute {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve())
    elif sys.argv[1:2] == ["search"]:
        search(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(sys.argv[1:])
