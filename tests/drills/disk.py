"""Full disks, and folders without permission to write or read."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.drills.forking import fine, turnmark
from tests.drills.kills import NOTES, _same, _source
from tests.drills.tally import Effort, Tally


def drills(effort: Effort) -> Iterator[Tally]:
    """Run the drills one after the other."""
    dice = random.Random(effort.seed)
    tries = max(3, effort.kills // 10)
    yield _full(effort.folder("full"), dice, tries)
    yield _refused(effort.folder("refused"))


def _build(folder: Path) -> tuple[str | Path, ...]:
    return ("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25")


def _eval(out: Path) -> tuple[str | Path, ...]:
    return ("eval", "compound-qa", "--limit", "6", "--out", out)


def _at_most(size: int) -> None:
    """Limit every file to `size` bytes, so that a write fails in the middle as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _full(folder: Path, dice: random.Random, tries: int) -> Tally:
    """Check that a full disk gives a readable error, and that the same command completes once there is room."""
    tally = Tally("disk full (no file may grow)")
    _source(folder / "notes")
    home = folder / "home"
    for number in range(tries):
        size = int(dice.choice([0, 100, 5_000, 20_000]) + dice.random() * 3_000)
        with tally.attempt(f"build, at most {size} bytes"):
            shutil.rmtree(home, ignore_errors=True)
            ended = turnmark(*_build(folder), home=home, folder=folder, before=partial(_at_most, size))
            fine(ended, 0, 1, 2)
            fine(turnmark(*_build(folder), home=home, folder=folder))
            verified = fine(turnmark("index", "verify", "k", home=home, folder=folder))
            assert f"{NOTES} passages, everything is intact" in verified.out
        with tally.attempt(f"eval, at most {size} bytes"):
            out = folder / f"r{number}"
            fine(
                turnmark(*_eval(out), home=home, folder=folder, before=partial(_at_most, size)),
                0, 1, 2,
            )  # fmt: skip
            fine(turnmark(*_eval(out), home=home, folder=folder))
            if number:
                _same(out, folder / "r0")
    return tally


def _powerless() -> None:
    """Drop all capabilities in the child, so that file modes apply to the superuser too."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def _refused(folder: Path) -> Tally:
    """Check that missing permissions, and files in place of folders, give one line that names the path."""
    tally = Tally("read-only, permission denied")
    _source(folder / "notes")
    home = folder / "home"
    fine(turnmark(*_build(folder), home=home, folder=folder))
    readable = folder / "working"
    readable.mkdir(mode=0o777)
    readable.chmod(0o777)
    for root, folders, files in os.walk(home):
        for name in (*folders, *files):
            os.chmod(os.path.join(root, name), 0o555)  # noqa: PTH101, PTH118
    home.chmod(0o555)
    drop: Callable[[], None] | None = _powerless if os.getuid() == 0 else None
    cases: list[tuple[str, tuple[str | Path, ...], tuple[int, ...], str]] = [
        ("search in a read-only home", ("search", "kettle", "--index", "k"), (0,), ""),
        ("ask in a read-only home", ("ask", "Where is kettle 3?", "--index", "k"), (0,), ""),
        ("verify in a read-only home", ("index", "verify", "k"), (0,), ""),
        ("build in a read-only home", _build(folder), (1, 2), "ermission"),
        ("remove in a read-only home", ("index", "remove", "k"), (1, 2), "ermission"),
        (
            "a run in a read-only folder", ("eval", "compound-qa", "--limit", "2", "--out", home / "r"), (1, 2),
            "ermission",
        ),
    ]  # fmt: skip
    for case, words, codes, message in cases:
        with tally.attempt(case):
            ended = fine(turnmark(*words, home=home, folder=readable, before=drop), *codes)
            assert message in ended.err, ended.err[-200:]
            assert ended.err.count("\n") <= 6, "many lines for one mistake"
    for case, place in (("a file in place of the home", folder / "file"), ("no such device", Path("/proc/nowhere"))):
        (folder / "file").write_text("x", encoding="utf-8")
        with tally.attempt(case):
            ended = fine(turnmark(*_build(folder), home=place, folder=folder), 1, 2)
            assert str(place) in ended.err, ended.err[-200:]
    with tally.attempt("a source that may not be read"):
        secret = folder / "notes" / "secret.md"
        secret.write_text("# Secret\n\nNobody reads this.\n", encoding="utf-8")
        secret.chmod(0)
        (folder / "home2").mkdir(mode=0o777)
        (folder / "home2").chmod(0o777)
        ended = fine(turnmark(*_build(folder), home=folder / "home2", folder=readable, before=drop))
        assert "secret.md" in ended.err, ended.err[-200:]
        assert "1 skipped" in ended.out
    return tally
