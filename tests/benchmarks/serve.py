"""Many clients at one server: `python -m tests.benchmarks.serve [--clients 64] [--seconds 120]`.

Starts `turnmark serve` over the demo documents, with the embedded form, at its default limits. Each client asks, waits
for the answer, and asks the next question at once; every second one streams. Prints errors by kind, latency, and the
server's memory at the start (after a first answer to each question), in the middle and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.assistant.serving import serving
from tests.conftest import DEMO

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def questions() -> list[str]:
    """Those of the demo's conversation."""
    lines = (DEMO / "questions.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("/")]


def resident(pid: int) -> float:
    """Memory of a process that is in use, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


class Load:
    """What was asked and how it went."""

    def __init__(self, url: str, asked: Sequence[str]) -> None:
        self.url, self.asked = url, asked
        self.seconds: list[float] = []
        self.errors: Counter[str] = Counter()

    async def ask(self, client: httpx.AsyncClient, text: str, stream: bool) -> None:
        """One question, timed."""
        body = {"model": "demo", "stream": stream, "messages": [{"role": "user", "content": text}]}
        began = time.monotonic()
        try:
            found = await client.post(f"{self.url}/v1/chat/completions", json=body)
        except httpx.HTTPError as error:
            self.errors[type(error).__name__] += 1
            return
        whole = found.text.rstrip().endswith("data: [DONE]") if stream else "turnmark" in json.loads(found.content)
        if found.status_code == 200 and whole:
            self.seconds.append(time.monotonic() - began)
        else:
            self.errors[str(found.status_code) if found.status_code != 200 else "cut"] += 1

    async def run(self, clients: int, seconds: float) -> None:
        """So many clients for so long."""
        ends = time.monotonic() + seconds
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(timeout=180, limits=limits) as client:

            async def one(number: int) -> None:
                for text in itertools.islice(itertools.cycle(self.asked), number, None):
                    if time.monotonic() >= ends:
                        return
                    await self.ask(client, text, stream=number % 2 == 0)

            await asyncio.gather(*(one(number) for number in range(clients)))


async def watched(load: Load, clients: int, seconds: float, pid: int) -> list[float]:
    """The load, and the memory of the server before it and after each quarter of its time."""
    memory = [resident(pid)]
    running = asyncio.ensure_future(load.run(clients, seconds))
    for _ in range(4):
        await asyncio.sleep(seconds / 4)
        memory.append(resident(pid))
    await running
    return memory


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which so many lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--overload", action="store_true", help="a queue of 8, to see what is turned away")
    given = parser.parse_args()
    asked = questions()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TURNMARK_HOME"] = folder
        from retrieval.build import build_index

        build_index(DEMO / "documents", "demo")
        flags = ["--queue", "8"] if given.overload else []
        with serving(Path(folder), *flags) as server:
            load = Load(server.url, asked)
            for text in asked:
                server.post({"model": "demo", "messages": [{"role": "user", "content": text}]}).raise_for_status()
            began = time.monotonic()
            memory = asyncio.run(watched(load, given.clients, given.seconds, server.process.pid))
            took = time.monotonic() - began
            left = server.turns()
    done = len(load.seconds)
    print(f"{given.clients} clients, {took:.0f} s, {len(asked)} questions in turns, every second client streams")
    print(f"answers {done} ({done / took:.1f} a second), errors {sum(load.errors.values())} {dict(load.errors)}")
    print(f"seconds: p50 {percentile(load.seconds, 0.5):.2f}, p95 {percentile(load.seconds, 0.95):.2f}, "
          f"longest {max(load.seconds, default=0):.2f}")  # fmt: skip
    print(f"resident MB at the start and after each quarter: {', '.join(f'{one:.0f}' for one in memory)}")
    print(f"turns left at the end: {left}")


if __name__ == "__main__":
    main()
