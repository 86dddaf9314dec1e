"""An endpoint that fails in three of ten calls, in nine ways: the right words come back, or an error in words."""

from __future__ import annotations

import random
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
RIGHT = "The bell of call {} was cast in 1754."

FAULTS = ("429", "500", "reset", "slow", "cut stream", "cut JSON", "garbage", "empty", "10 MB")


def _fault(kind: str, text: str, stream: bool) -> Scripted:
    """What the server does instead of answering."""
    replies: dict[str, Scripted] = {
        "429": Status(429, headers={"Retry-After": "0.01"}), "500": Status(500), "reset": Reset(),
        "slow": Say(text, pause=0.02 if stream else 0.1), "cut stream": Say(text, cut=2) if stream else Reset(),
        "cut JSON": Raw(b'{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "cont'),
        "garbage": Raw(bytes(range(256)) * 4), "empty": Raw(b""), "10 MB": Raw(b"x" * BIG, "text/plain"),
    }  # fmt: skip
    return replies[kind]


def drills(effort: Effort) -> Iterator[Tally]:
    """All calls, sixteen at once."""
    from turnmark.assistant.generators import GeneratorError, PromptMessage, open_generator

    tally = Tally(f"endpoint faults in {SHARE:.0%} of calls")
    dice, lock, faults = random.Random(effort.seed), threading.Lock(), Counter[str]()

    def reply(body: dict[str, Any]) -> Scripted:
        text = RIGHT.format(body["messages"][-1]["content"].split()[-1])
        with lock:
            kind = dice.choice(FAULTS) if dice.random() < SHARE else ""
            faults[kind] += 1
        return _fault(kind, text, bool(body.get("stream"))) if kind else Say(text)

    counts: Counter[str] = Counter()

    def call(number: int) -> None:
        began, complaint = time.monotonic(), ""
        try:
            pieces: list[str] = []
            on_text = pieces.append if number % 2 else None
            completion = generator.complete([PromptMessage(role="user", content=f"call {number}")], on_text=on_text)
            text, kind = completion.text, "answered"
        except GeneratorError as error:
            text, kind, complaint = "", error.kind, str(error)
        with lock:
            counts[kind] += 1
        assert "Traceback" not in complaint, complaint[:200]
        assert len(complaint) < 2_000, f"{len(complaint)} characters of error"
        assert text in ("", RIGHT.format(number)), f"taken for an answer: {text[:80]!r}"
        assert time.monotonic() - began < 90, "no end in sight"

    with ScriptedServer(reply, models=[{"id": "tiny"}]) as server, ThreadPoolExecutor(16) as pool:
        generator = open_generator(f"openai:tiny@{server.url}?retries=4&deadline=60&cache=0")
        assert generator is not None, "a spec with a model opens one"
        for number, future in enumerate([pool.submit(call, number) for number in range(effort.calls)]):
            with tally.attempt(f"call {number}"):
                future.result()
    tally.name += f" ({sum(faults.values()) - faults['']:,} faults; {counts['answered']:,} answered)"
    yield tally
