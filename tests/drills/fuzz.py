"""Fuzzing of every reader and parser: mangled input causes no traceback, no hang and no memory growth."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.drills.fuzz_targets import targets
from tests.drills.tally import Effort, Tally
from turnmark.core.errors import TurnmarkError

HANG = 10
"""Maximum processor seconds for one input."""
GROWTH = 700_000
"""Maximum growth of the process in kilobytes while one parser is fuzzed."""
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
    """Apply edits to a content at some places, each given as a share of its length."""
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


_WORK: dict[str, Callable[[], Tally]] = {}
"""Name -> function that its process runs; the fork inherits it."""


def drills(effort: Effort) -> Iterator[Tally]:
    """Fuzz every parser for the same time, each in a fork, a few at once."""
    for name, (seeds, parse) in targets(effort.folder("fuzz")).items():
        _WORK[f"fuzz: {name}"] = partial(_fuzzed, f"fuzz: {name}", seeds, parse, effort)
    names = [f"fuzz: {name}" for name in effort.parsers] or list(_WORK)
    if strange := [name for name in names if name not in _WORK]:
        raise SystemExit(f"there is no {', '.join(strange)}; there are: {', '.join(_WORK)}")
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        for name, work in [(name, pool.submit(_do, name)) for name in names]:
            try:
                yield work.result()
            except BrokenProcessPool as error:
                yield Tally(name, 1, [f"its process, or one that ran with it, died: {error}"])


def _do(name: str) -> Tally:
    return _WORK[name]()


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
    """Run hypothesis once; it shrinks a failing input before it reports it."""

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
        # A bad input should end in a readable error.
        with alarm(), suppress(TurnmarkError):
            parse(mangled(content, edits))

    try:
        attempt()
    except Exception as error:
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        message = " ".join(str(error).split())[:200]
        return [f"{type(error).__name__}: {message} at {' < '.join(places[:-5:-1])}"]
    return []


@contextmanager
def alarm() -> Iterator[None]:
    """Raise TimeoutError in code that takes longer than `HANG` processor seconds."""

    def late(*_: object) -> None:
        raise TimeoutError(f"hangs: no end after {HANG} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
