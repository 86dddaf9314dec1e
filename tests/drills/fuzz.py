"""Whatever comes in, mangled: no traceback, no hang, no memory blow-up, for every reader and parser."""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from corpora.errors import TurnwiseError
from tests.drills.forking import fine, turnwise
from tests.drills.fuzz_targets import targets
from tests.drills.tally import Effort, Tally

HANG = 10
"""Seconds that one input may take."""
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
    made = bytearray(content)
    for way, share, token in edits:
        at = int(share * len(made))
        if way == "insert":
            made[at:at] = token
        elif way == "replace":
            made[at : at + len(token)] = token
        elif way == "cut":
            del made[at : at + max(1, len(token))]
        elif way == "double":
            made[at:at] = made[at : at + 500]
        elif made:
            made[min(at, len(made) - 1)] ^= 1 << (len(token) % 8)
    return bytes(made)


def drills(effort: Effort) -> Iterator[Tally]:
    """Every parser for the same time; the commands of the chat last."""
    folder = effort.folder("fuzz")
    for name, (seeds, parse) in targets(folder).items():
        yield _fuzzed(name, seeds, parse, effort)
    yield _chat(effort)


def _fuzzed(name: str, seeds: list[bytes], parse: Callable[[bytes], Any], effort: Effort) -> Tally:
    tally = Tally(f"fuzz: {name}")
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
    def attempt(content: bytes, edits: list[tuple[str, float, bytes]], other: bytes | str | None) -> None:
        if time.monotonic() > ends:
            return
        tally.tried += 1
        if isinstance(other, str):
            content = other.encode("utf-8", "surrogatepass")
        elif other is not None:
            content = other
        # A mistake in words is what a bad input should come to.
        with Alarm(), suppress(TurnwiseError):
            parse(mangled(content, edits))

    try:
        attempt()
    except Exception as error:
        import traceback

        places = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
        said = " ".join(str(error).split())[:200]
        return [f"{type(error).__name__}: {said} at {' < '.join(places[:-5:-1])}"]
    return []


class Alarm:
    """Raises TimeoutError in what takes longer than `HANG` seconds."""

    def __enter__(self) -> None:
        def late(*_: object) -> None:
            raise TimeoutError(f"hangs: no end after {HANG} s")

        self._before = signal.signal(signal.SIGALRM, late)
        signal.alarm(HANG)

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._before)


def _chat(effort: Effort) -> Tally:
    """Lines of commands with anything after them, some hundred to a conversation."""
    from assistant.repl.table import COMMANDS

    tally = Tally("fuzz: commands of the chat")
    folder, dice = effort.folder("chat"), random.Random(effort.seed)
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text(
        "# Kettle\n\nFill the kettle. Boil it. The kettle is red.\n", encoding="utf-8"
    )
    home = folder / "home"
    fine(turnwise("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25", home=home, folder=folder))
    words = (
        "", "1", "-1", "99999999999999999999", "0", "a b", "k", "bm25", "dense", "extractive", "openai:", "\x1b[2J",
        "\u202e", "é" * 300, "[red]", "%s {0}", "delete x", "passages 3", "passages x", "good", "bad \x07",
        "markdown f.md", "kiwi f", "mtrag f", "--help", "'\"", "\\", "a" * 5000,
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
                turnwise("chat", "--index", "k", home=home, folder=folder, stdin="\n".join(lines) + "\n",
                         environment={"EDITOR": "true", "VISUAL": "true"}, seconds=180),
                0, 1,
            )  # fmt: skip
            assert "\x1b[2J" not in ended.out + ended.err, "an escape reached the terminal"
            assert "\x07" not in ended.out + ended.err, "a bell reached the terminal"
    return tally
