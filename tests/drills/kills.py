"""`kill -9` at random moments: finished work is not lost, and half-written files are not read."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import DEMO
from tests.drills.forking import Ended, fine, turnmark
from tests.drills.tally import Effort, Tally

SLOW = "python:tests.evaluation.kill_eval:slow"
NOTES = 60
_SECONDS = re.compile(r" · [0-9.]+ s$", re.MULTILINE)
"""End of the line below each answer, which shows its duration."""
QUESTIONS = ["Where is the kettle 3?", "And the kettle 7?", "What colour is kettle 12?", "Which shelf is kettle 20 on?"]


def drills(effort: Effort) -> Iterator[Tally]:
    """Divide the kills evenly over the four commands, with `build` once with and once without vectors."""
    dice = random.Random(effort.seed)
    commands: dict[str, Callable[[Tally, Path, random.Random, int], None]] = {
        "build": partial(_build, retriever="bm25"), "build with vectors": partial(_build, retriever="conversational"),
        "eval": _eval, "score": _score, "chat": _chat,
    }  # fmt: skip
    for number, (name, drill) in enumerate(commands.items()):
        times = effort.kills // len(commands) + (number < effort.kills % len(commands))
        tally = Tally(f"kill -9: {name}")
        folder = effort.folder(f"kill-{number}")
        _source(folder / "notes")
        try:
            drill(tally, folder, dice, times)
        except AssertionError as error:  # before the first kill, or in the final check
            tally.tried += 1
            tally.lost.append(f"undisturbed: {error}")
        yield tally


def _source(folder: Path, colour: str = "red", notes: int = NOTES) -> None:
    folder.mkdir(exist_ok=True)
    for n in range(notes):
        text = f"# Kettle {n}\n\nThe kettle number {n} is {colour}. It stands on shelf {n * 3} beside the window.\n"
        (folder / f"note{n:02}.md").write_text(text, encoding="utf-8")


def _series(
    tally: Tally, times: int, dice: random.Random, run: Callable[[float | None], Ended], check: Callable[[Ended], None]
) -> None:
    """Measure the undisturbed command, then kill it `times` times at random moments of that duration."""
    seconds = fine(run(None)).seconds
    for number in range(times):
        wait = dice.uniform(0, seconds)
        with tally.attempt(f"kill {number} after {wait:.3f} s"):
            check(run(wait))


def _build(tally: Tally, folder: Path, dice: random.Random, times: int, retriever: str) -> None:
    """Check that a kill leaves either the old index or the new one, and that it verifies."""
    home, colours = folder / "home", ["red"]

    def build(wait: float | None) -> Ended:
        # The source changes each time, so that each build has something to do.
        colours.append(dice.choice(["blue", "green", "red", "white"]))
        _source(folder / "notes", colours[-1])
        ended = turnmark(
            "index", "build", folder / "notes", "--name", "k", "--retriever", retriever, home=home, folder=folder,
            kill_after=wait,
        )  # fmt: skip
        if wait is None and ended.code == 0:
            current[0] = colours[-1]
        return ended

    current = ["red"]

    def check(ended: Ended) -> None:
        verified = fine(turnmark("index", "verify", "k", home=home, folder=folder))
        assert f"{NOTES} passages, everything is intact" in verified.out
        hits = json.loads(fine(turnmark("search", "kettle number 7", "--index", "k", "--json", home=home,
                                        folder=folder)).out)["hits"]  # fmt: skip
        colours_there = {text.split(" is ")[1].split(".")[0] for text in (hit["passage"]["text"] for hit in hits)}
        expected = {colours[-1]} if ended.code == 0 else {current[0], colours[-1]}
        assert len(colours_there) == 1, f"of two builds at once: {colours_there}"
        assert colours_there <= expected, f"{colours_there} of {expected}"
        current[0] = colours_there.pop()

    _series(tally, times, dice, build, check)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a file."""
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def _done(run: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in lines(run / "predictions.jsonl") if row["status"] == "done"}


def _same(run: Path, second: Path) -> None:
    ours, theirs = (json.loads((path / "summary.json").read_text(encoding="utf-8")) for path in (run, second))
    for key in ("n", "failed", "metrics", "breakdowns"):
        assert ours[key] == theirs[key], key
    assert (run / "scores.jsonl").read_bytes() == (second / "scores.jsonl").read_bytes()


def _eval(tally: Tally, folder: Path, dice: random.Random, times: int) -> None:
    """Check that finished samples are kept and that the final run equals an undisturbed one."""
    words = ("eval", "mtrag", "--generator", SLOW, "--data", DEMO / "mt-rag-benchmark", "--limit", "24",
             "--concurrency", "2")  # fmt: skip
    runs = [folder / "r0"]
    finished: dict[str, dict[str, Any]] = {}

    def run(wait: float | None) -> Ended:
        out = folder / "undisturbed" if wait is None else runs[-1]
        return turnmark(*words, "--out", out, home=folder / "home", folder=folder, kill_after=wait)

    def check(ended: Ended) -> None:
        nonlocal finished
        rows_there = _done(runs[-1])
        kept_rows = {key: rows_there.get(key) for key in finished}
        assert kept_rows == finished, "a finished sample was lost or changed"
        finished = rows_there
        if ended.code == 0:
            _same(runs[-1], folder / "undisturbed")
            runs.append(folder / f"r{len(runs)}")
            finished = {}

    _series(tally, times, dice, run, check)
    fine(run(10**6))
    _same(runs[-1], folder / "undisturbed")


def _score(tally: Tally, folder: Path, dice: random.Random, times: int) -> None:
    """Check that a killed `score` leaves no readable run, and that the same command completes it."""
    answers = folder / "made"
    fine(turnmark("eval", "compound-qa", "--out", answers, home=folder / "home", folder=folder))

    def run(wait: float | None) -> Ended:
        out = folder / ("undisturbed" if wait is None else "r")
        return turnmark("score", "compound-qa", "--predictions", answers, "--out", out, home=folder / "home",
                        folder=folder, kill_after=wait)  # fmt: skip

    def check(ended: Ended) -> None:
        if ended.code == 0 or (folder / "r" / "summary.json").exists():
            _same(folder / "r", folder / "undisturbed")
        if ended.code == 0 or dice.random() < 0.2:
            fine(run(10**6))
            _same(folder / "r", folder / "undisturbed")
            shutil.rmtree(folder / "r")

    _series(tally, times, dice, run, check)


def _chat(tally: Tally, folder: Path, dice: random.Random, times: int) -> None:
    """Check that every exchange with a shown answer is kept, and that the session can be read and continued."""
    home = folder / "home"
    fine(turnmark("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25", home=home, folder=folder))
    typed = "".join(f"{question}\n" for question in QUESTIONS)

    def run(wait: float | None) -> Ended:
        return turnmark("chat", "--index", "k", home=home, folder=folder, stdin=typed, kill_after=wait)

    def check(ended: Ended) -> None:
        names = [row["name"] for row in json.loads(
            fine(turnmark("sessions", "list", "--json", home=home, folder=folder)).out)["sessions"]]  # fmt: skip
        # The line after an answer is shown once it is saved, so all answers but the last one drawn are on file.
        answered = len(_SECONDS.findall(ended.out))
        for name in names:
            lines = (home / "sessions" / f"{name}.jsonl").read_text("utf-8").splitlines(keepends=True)
            events = [json.loads(line) for line in lines if line.endswith("\n")]  # the last line may be incomplete
            questions = [event["question"] for event in events if event["event"] == "turn"]
            assert questions == QUESTIONS[: len(questions)], questions
            assert len(questions) >= answered - 1, f"{answered} answers were shown, {len(questions)} are kept"
            fine(turnmark("remove", f"sessions/{name}", home=home, folder=folder))

    _series(tally, times, dice, run, check)
