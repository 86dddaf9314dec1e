"""Kills: no finished sample is lost, whenever a run is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO, ROOT
from tests.evaluation.demo_runs import DEMO_SAMPLES, Check, samples, strict

# --- kills -----------------------------------------------------------------------------------------------------------

SLOW = "python:tests.evaluation.kill_eval:slow"


def start(run: Path, **more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.evaluation.kill_eval", "eval", "mtrag", "--generator", SLOW]
    command += ["--data", str(DEMO / "mt-rag-benchmark"), "--concurrency", "3", "--out", str(run)]
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | more, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def finished_lines(run: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The samples that are done, by their whole lines."""
    path = run / "predictions.jsonl"
    content = path.read_bytes() if path.exists() else b""
    rows = [strict(line.decode()) for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    return {(row["id"], row["repeat"]): row for row in rows if row["status"] == "done"}


def without_cost(run: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key not in ("usage", "attempts", "timings")}
        for row in samples(run)
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "r"
    assert start(run).wait() == 0
    return run


def keeps_everything(run: Path, undisturbed: Path, finished: dict[tuple[str, int], dict[str, Any]]) -> None:
    """What a run holds that was killed before and has now ended."""
    assert finished_lines(run) | finished == finished_lines(run)
    assert without_cost(run) == without_cost(undisturbed)
    ours, theirs = (json.loads((path / "summary.json").read_text()) for path in (run, undisturbed))
    for field in ("n", "failed", "metrics", "breakdowns"):
        assert ours[field] == theirs[field]
    assert (run / "scores.jsonl").read_bytes() == (undisturbed / "scores.jsonl").read_bytes()
    assert not [path.name for path in run.iterdir() if path.name.endswith(".part")]


def killed(run: Path, undisturbed: Path, dice: random.Random, times: int) -> None:
    """Kill by chance: while loading, at some sample, while scoring; always the same command."""
    finished: dict[tuple[str, int], dict[str, Any]] = {}
    for number in range(times):
        process = start(run)
        waits: Callable[[], bool]
        if number % 5 == 1:
            ends = time.monotonic() + dice.uniform(0, 1.5)
            waits = lambda ends=ends: time.monotonic() < ends  # noqa: E731
        elif number % 5 == 4:
            waits = lambda: not (run / ".scores.jsonl.part").exists()  # noqa: E731
        else:
            more = len(finished) + dice.randint(1, max(2, 2 * DEMO_SAMPLES // times))
            waits = lambda more=more: len(finished_lines(run)) < more  # noqa: E731
        while waits() and process.poll() is None:
            time.sleep(0.0005)
        time.sleep(dice.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        rows = finished_lines(run)
        assert rows | finished == rows, "a finished sample was lost"
        finished = rows
    assert start(run).wait() == 0
    keeps_everything(run, undisturbed, finished)


@pytest.mark.slow
def test_kills_lose_no_finished_sample(tmp_path: Path, undisturbed: Path, check_run: Check) -> None:
    killed(tmp_path / "r", undisturbed, random.Random(5), 5)
    check_run(tmp_path / "r")


@pytest.mark.slow
def test_twenty_kills_lose_no_finished_sample(tmp_path: Path, undisturbed: Path, check_run: Check) -> None:
    killed(tmp_path / "r", undisturbed, random.Random(20), 20)
    check_run(tmp_path / "r")


@pytest.mark.slow
def test_a_kill_just_before_any_file_is_put_in_its_place(tmp_path: Path, undisturbed: Path, check_run: Check) -> None:
    for number in range(1, 30):
        run = tmp_path / str(number)
        code = start(run, DIE_AT=str(number)).wait()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        finished = finished_lines(run)
        assert start(run).wait() == 0
        keeps_everything(run, undisturbed, finished)
        check_run(run)
    assert number > 4, "manifest, scores, samples, manifest, summary"
