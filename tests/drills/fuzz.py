"""Whatever comes in, mangled: no traceback, no hang, no memory blow-up, for every reader and parser."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.drills.forking import fine, turnmark
from tests.drills.fuzz_targets import build_kettle_index, targets
from tests.drills.tally import Effort, Tally
from turnmark.corpora.errors import TurnmarkError

HANG, WAITS = 10, 120
"""Seconds of the processor that one input may take, and seconds in all: other work may have the machine meanwhile."""
GROWTH = 700_000
"""Kilobytes that a parser's fuzzing may make the process grow by."""
A_ROUND = 50

TOKENS = (
    b"", b"null", b"true", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\r", b"\t", b"\x00", b"\xff\xfe",
    b"\xef\xbb\xbf", b"../",
    b"NaN", b"1e999", b"-1", b"9" * 400, b"\\ud800", b"\\u0000", "\u202e\u200b".encode(), "é😀".encode(), b"[" * 3000,
    b"{" * 3000, b"<" * 500, b"[[[1]]]", b"[1]", b"```", b"[[yes]]", b"?a=b&a=c", b"@http://", b"%00", b"*" * 300,
    b" " * 3000, b"a" * 20_000, b"<!ENTITY x 'y'>", b"\x1b[2J",
)  # fmt: skip
WAYS = ("insert", "replace", "cut", "double", "flip")
EDITS = st.lists(
    st.tuples(st.sampled_from(WAYS), st.floats(0, 1), st.sampled_from(TOKENS)),
    min_size=1, max_size=6,
)  # fmt: skip


def mangled(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """A content with edits at some places, each a share of its length."""
    result = bytearray(content)
    for way, share, token in edits:
        offset = int(share * len(result))
        if way == "insert":
            result[offset:offset] = token
        elif way == "replace":
            result[offset : offset + len(token)] = token
        elif way == "cut":
            del result[offset : offset + max(1, len(token))]
        elif way == "double":
            result[offset:offset] = result[offset : offset + 500]
        elif result:
            result[min(offset, len(result) - 1)] ^= 1 << (len(token) % 8)
    return bytes(result)


def drills(effort: Effort) -> Iterator[Tally]:
    """Every parser for the same time, and the commands of the chat; each in a process of its own, some at once."""
    folder = effort.folder("fuzz")
    parsers: dict[str, Callable[[], Tally]] = {"fuzz: commands of the chat": partial(_chat, effort)}
    for name, (seeds, parse) in targets(folder).items():
        parsers[f"fuzz: {name}"] = partial(_fuzzed, f"fuzz: {name}", seeds, parse, effort)
    names = [f"fuzz: {name}" for name in effort.parsers] or list(parsers)
    if strange := [name for name in names if name not in parsers]:
        raise SystemExit(f"there is no {', '.join(strange)}; there are: {', '.join(parsers)}")
    yield from side_by_side({name: parsers[name] for name in names}, effort.jobs, effort.folder("tallies"))


def side_by_side(work: Mapping[str, Callable[[], Tally]], jobs: int, folder: Path) -> Iterator[Tally]:
    """Do each piece in a fork of its own, `jobs` at once; one that dies of a signal has lost.

    What comes back is in the order in which they end.
    """
    waiting, running = list(work), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            child = os.fork()
            if child == 0:
                _alone(work[name], folder / f"{os.getpid()}.json")
            running[child] = name
        child, status = os.wait()
        if child not in running:
            continue
        name, report = running.pop(child), folder / f"{child}.json"
        if report.exists():
            yield Tally(**json.loads(report.read_text(encoding="utf-8")))
        else:
            yield Tally(name, 1, [f"its process ended with {os.waitstatus_to_exitcode(status)}"])


def _alone(work: Callable[[], Tally], report: Path) -> None:
    """In the fork: never returns."""
    code = 70
    try:
        part = report.with_suffix(".part")
        part.write_text(json.dumps(asdict(work())), encoding="utf-8")
        part.rename(report)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _fuzzed(name: str, seeds: list[bytes], parse: Callable[[bytes], Any], effort: Effort) -> Tally:
    tally = Tally(name)
    ends = time.monotonic() + effort.seconds
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number = 0
    while time.monotonic() < ends and len(tally.lost) < 3:
        tally.lost += _round(seeds, parse, effort.seed + number, ends, tally)
        number += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWTH:
        tally.lost.append(f"memory grew by {grown // 1000} MB")
    return tally


def _round(seeds: list[bytes], parse: Callable[[bytes], Any], number: int, ends: float, tally: Tally) -> list[str]:
    """One run of hypothesis, which makes a failing input small before it tells."""

    @seed(number)
    @settings(max_examples=A_ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), EDITS | st.just([]), st.none() | st.binary(max_size=200) | st.text(max_size=200))
    def attempt(content: bytes, edits: list[tuple[str, float, bytes]], splice: bytes | str | None) -> None:
        if time.monotonic() > ends:
            return
        tally.tried += 1
        if isinstance(splice, str):
            content = splice.encode("utf-8", "surrogatepass")
        elif splice is not None:
            content = splice
        # A mistake in words is what a bad input should come to.
        with Alarm(), suppress(TurnmarkError):
            parse(mangled(content, edits))

    try:
        attempt()
    except Exception as error:
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        message = " ".join(str(error).split())[:200]
        return [f"{type(error).__name__}: {message} at {' < '.join(places[:-5:-1])}"]
    return []


class Alarm:
    """Raises TimeoutError in what computes for longer than `HANG` seconds, or does nothing for longer than `WAITS`."""

    TIMERS = ((signal.ITIMER_PROF, signal.SIGPROF, HANG), (signal.ITIMER_REAL, signal.SIGALRM, WAITS))

    def __enter__(self) -> None:
        def late(*_: object) -> None:
            raise TimeoutError(f"hangs: no end after {HANG} s of computing or {WAITS} s in all")

        self._before = [signal.signal(number, late) for _, number, _ in self.TIMERS]
        for timer, _, seconds in self.TIMERS:
            signal.setitimer(timer, seconds)

    def __exit__(self, *_: object) -> None:
        for timer, _, _ in self.TIMERS:
            signal.setitimer(timer, 0)
        for (_, number, _), before in zip(self.TIMERS, self._before, strict=True):
            signal.signal(number, before)


def _chat(effort: Effort) -> Tally:
    """Lines of commands with anything after them, some hundred to a conversation."""
    from turnmark.assistant.repl.loop import COMMANDS

    tally = Tally("fuzz: commands of the chat")
    folder, dice = effort.folder("chat"), random.Random(effort.seed)
    home = folder / "home"
    build_kettle_index(folder, home)
    words = (
        "", "1", "-1", "99999999999999999999", "0", "a b", "k", "bm25", "dense", "extractive", "openai:", "\x1b[2J",
        "\u202e", "é" * 300, "[red]", "%s {0}", "good", "bad \x07",
        "markdown f.md", "mtrag f", "--help", "'\"", "\\", "a" * 5000,
    )  # fmt: skip
    ends = time.monotonic() + effort.seconds
    while time.monotonic() < ends and len(tally.lost) < 3:
        names = [name for name in COMMANDS if name != "/quit"]
        lines = [
            dice.choice(("Where is the kettle?", dice.choice(words), f"/{dice.choice(words)}"))
            if dice.random() < 0.2 else f"{dice.choice(names)} {dice.choice(words)}"
            for _ in range(40)
        ]  # fmt: skip
        tally.tried += len(lines) - 1
        with tally.attempt(f"{lines}"[:3000]):
            ended = fine(
                turnmark("chat", "--index", "k", home=home, folder=folder, stdin="\n".join(lines) + "\n",
                         environment={"EDITOR": "true", "VISUAL": "true"}, seconds=180),
                0, 1,
            )  # fmt: skip
            assert "\x1b[2J" not in ended.out + ended.err, "an escape reached the terminal"
            assert "\x07" not in ended.out + ended.err, "a bell reached the terminal"
    return tally
