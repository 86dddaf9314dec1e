"""An endpoint that fails in three of ten calls, in nine ways: the right words come back, or an error in words."""

from __future__ import annotations

import random
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.drills.tally import Effort, Tally
from tests.servers import Raw, Reset, Say, Scripted, ScriptedServer, Status

SHARE = 0.3
BIG = 10_000_000
GROWTH = 1_000_000
"""Kilobytes that the process, with the server in it, may grow by: sixteen replies of 10 MB at once, and their texts."""
LEAK = 200_000
"""Kilobytes that it may grow by in the second half of the calls, after all that is kept for good is there."""
RIGHT = "The bell of call {} was cast in 1754."

FAULTS = ("429", "500", "reset", "slow", "cut stream", "cut JSON", "garbage", "empty", "10 MB")


def _fault(kind: str, text: str, stream: bool) -> Scripted:
    """What the server does instead of answering."""
    made: dict[str, Scripted] = {
        "429": Status(429, headers={"Retry-After": "0.01"}),
        "500": Status(500),
        "reset": Reset(),
        "slow": Say(text, pause=0.02 if stream else 0.1),
        "cut stream": Say(text, cut=2) if stream else Reset(),
        "cut JSON": Raw(b'{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "cont'),
        "garbage": Raw(bytes(range(256)) * 4),
        "empty": Raw(b""),
        "10 MB": Raw(b"x" * BIG, "text/plain"),
    }
    return made[kind]


def drills(effort: Effort) -> Iterator[Tally]:
    """All calls, sixteen at once."""
    from assistant.generators import GeneratorError, PromptMessage, open_generator

    tally = Tally(f"endpoint faults in {SHARE:.0%} of calls")
    dice, lock, faults = random.Random(effort.seed), threading.Lock(), Counter[str]()

    def reply(body: dict[str, Any]) -> Scripted:
        text = RIGHT.format(body["messages"][-1]["content"].split()[-1])
        with lock:
            kind = dice.choice(FAULTS) if dice.random() < SHARE else ""
            faults[kind] += 1
        return _fault(kind, text, bool(body.get("stream"))) if kind else Say(text)

    told: Counter[str] = Counter()

    def call(number: int) -> None:
        began, complaint = time.monotonic(), ""
        try:
            pieces: list[str] = []
            on_text = pieces.append if number % 2 else None
            said = generator.complete([PromptMessage(role="user", content=f"call {number}")], on_text=on_text)
            text, kind = said.text, "answered"
        except GeneratorError as error:
            text, kind, complaint = "", error.kind, str(error)
        with lock:
            told[kind] += 1
        assert "Traceback" not in complaint, complaint[:200]
        assert len(complaint) < 2_000, f"{len(complaint)} characters of error"
        assert text in ("", RIGHT.format(number)), f"taken for an answer: {text[:80]!r}"
        assert time.monotonic() - began < 90, "no end in sight"

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ScriptedServer(reply, models=[{"id": "tiny"}]) as server, ThreadPoolExecutor(16) as pool:
        generator = open_generator(f"openai:tiny@{server.url}?retries=4&deadline=60&cache=0")
        assert generator is not None, "a spec with a model opens one"
        halfway = before
        for half in (range(effort.calls // 2), range(effort.calls // 2, effort.calls)):
            halfway = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number, done in zip(half, [pool.submit(call, number) for number in half], strict=True):
                with tally.attempt(f"call {number}"):
                    done.result()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown, leaked = after - before, after - halfway
    tally.name += f" ({sum(faults.values()) - faults['']:,} faults; {told['answered']:,} answered)"
    yield tally
    memory = Tally(f"memory in them (peak +{grown / 1000:.0f} MB, second half +{leaked / 1000:.0f} MB)")
    with memory.attempt("growth"):
        assert grown < GROWTH, f"grew by {grown} kB"
        assert leaked < LEAK, f"grew by {leaked} kB in the second half"
    yield memory
