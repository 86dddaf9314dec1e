"""What the engine adds to the time that an endpoint takes: `python -m tests.benchmarks.engine`.

842 samples of MTRAG's reference setting (real tasks where they are, else the demo's, as often as it takes) are answered
at concurrency 64 by a scripted endpoint that takes 200 ms, in a process of its own. Beside it, in the same run: the
same requests by bare httpx, with nothing read from them and nothing written; and our samples once more with a model
that sleeps in this process, which leaves the HTTP client out. The best of the rounds counts. Exits with 1 above 1.05
times the ideal time, or above 3 ms of this process's own time a sample.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from math import ceil
from pathlib import Path
from typing import Any

from tests.conftest import DATA, DEMO
from turnmark.assistant.generators.base import Completion
from turnmark.assistant.types import Usage
from turnmark.corpora.console import NoProgress
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.engine import Job, Limits, generate
from turnmark.evaluation.records import DataUsed, RunManifest
from turnmark.evaluation.run import open_run
from turnmark.evaluation.spending import Ledger

SAMPLES, CONCURRENCY, SECONDS = 842, 64, 0.2
IDEAL = ceil(SAMPLES / CONCURRENCY) * SECONDS
MOST, OWN_MS = 1.05, 3.0
ROUNDS = 3

ANSWER = "The bell was cast in the foundry by the river and hung in the tower the year after [1]. It weighs two tons."
REPLY = json.dumps({
    "id": "x", "object": "chat.completion", "created": 0, "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1500, "completion_tokens": 30, "total_tokens": 1530},
}).encode()  # fmt: skip


async def _serve() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                if length:
                    await reader.readexactly(int(length[0].split(b":")[1]))
                    await asyncio.sleep(SECONDS)
                    status, body = b"200 OK", REPLY
                else:
                    status, body = b"404 Not Found", b"{}"
                writer.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                             % (status, len(body), body))  # fmt: skip
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def items() -> tuple[Any, list[Item]]:
    """MTRAG's reference setting, and its tasks."""
    from turnmark.corpora import mtrag
    from turnmark.evaluation.benchmarks.mtrag_evidence import Evidence
    from turnmark.evaluation.benchmarks.mtrag_generation import Mtrag

    root = DATA / "mt-rag-benchmark"
    loaded = mtrag.load_tasks(root if root.is_dir() else DEMO / "mt-rag-benchmark", "mtrag")
    benchmark = Mtrag("mtrag", "reference", loaded.data.values(), Parts(), Evidence({}, {}))
    return benchmark, [item for item in benchmark.items() if isinstance(item, Item)]


class Asleep:
    """A model of this process that takes as long as the endpoint: what is left is the engine and the turn."""

    name, context_tokens, reply_tokens = "asleep", 8192, 1024

    def complete(self, messages: Any, **_: Any) -> Completion:
        time.sleep(SECONDS)
        usage = Usage(calls=1, prompt_tokens=1500, completion_tokens=30)
        return Completion(text=ANSWER, finish_reason="stop", usage=usage, model="asleep", max_tokens=1024)


def ours(url: str) -> tuple[float, float]:
    """Seconds on the wall and of this process's own, for all samples; without a URL nothing is sent."""
    from turnmark.assistant.generators import open_generator

    benchmark, there = items()
    generator = open_generator(f"openai:tiny@{url}?context=8192") if url else Asleep()
    assert generator is not None
    benchmark.answer(there[0], generator)  # loads the client
    manifest = RunManifest(
        benchmark="mtrag", task="generation", setting="reference", specs={"generator": generator.name},
        data=DataUsed(name="benchmark", demo=False, fingerprint=""), domains=(), repeat=SAMPLES, seed=0,
        version="0", started="now",
    )  # fmt: skip
    jobs: Iterator[Job] = islice((Job(item, repeat) for repeat in count() for item in there), SAMPLES)
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", manifest) as run:
        began, spent = time.perf_counter(), time.process_time()
        limits = Limits(concurrency=CONCURRENCY)
        outcome = generate(jobs, benchmark.answer, generator, run, limits, Ledger(), NoProgress())
        took, own = time.perf_counter() - began, time.process_time() - spent
        assert outcome.done == SAMPLES, outcome
    return took, own


def bare(url: str) -> tuple[float, float]:
    """The same of bare requests, gathered."""
    import httpx

    body = {"model": "tiny", "messages": [{"role": "user", "content": "word " * 1200}]}

    async def ask_all() -> None:
        gate = asyncio.Semaphore(CONCURRENCY)
        limits = httpx.Limits(max_connections=CONCURRENCY)
        async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=None) as client:

            async def ask() -> None:
                async with gate:
                    (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()

            await asyncio.gather(*(ask() for _ in range(SAMPLES)))

    began, spent = time.perf_counter(), time.process_time()
    asyncio.run(ask_all())
    return time.perf_counter() - began, time.process_time() - spent


def main() -> int:
    """Measure, print, and say whether the targets were reached."""
    command = [sys.executable, "-m", "tests.benchmarks.engine", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        try:
            plain, made, inside = [], [], []
            for _ in range(ROUNDS):
                plain.append(bare(url))
                made.append(ours(url))
                inside.append(ours(""))
        finally:
            server.terminate()
    wall, own = (min(values) for values in zip(*made, strict=True))
    print(
        f"{SAMPLES} samples, {CONCURRENCY} at once, {SECONDS * 1000:.0f} ms each: ideal {IDEAL:.2f} s, {ROUNDS} rounds"
    )
    for name, rounds in (("bare httpx", plain), ("turnmark", made), ("less HTTP", inside)):
        took, spent = (min(values) for values in zip(*rounds, strict=True))
        print(f"{name:10} {took:.2f} s ({took / IDEAL:.3f} of ideal), own {spent * 1000 / SAMPLES:.2f} ms a sample")
    print(f"targets: {MOST} of ideal, {OWN_MS:g} ms a sample")
    return 0 if wall <= MOST * IDEAL and own * 1000 / SAMPLES < OWN_MS else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
    sys.exit(main())
