"""Kills: no finished sample is lost, whenever a run is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import DEMO, ROOT
from tests.evaluation.demo_runs import samples, strict

SLOW = "python:tests.evaluation.kill_eval:slow"


def start(run, **more):
    command = [sys.executable, "-m", "tests.evaluation.kill_eval", "eval", "mtrag", "--generator", SLOW]
    command += ["--data", str(DEMO / "mt-rag-benchmark"), "--concurrency", "3", "--out", str(run)]
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | more, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def finished_lines(run):
    """The samples that are done, by their whole lines."""
    path = run / "predictions.jsonl"
    content = path.read_bytes() if path.exists() else b""
    rows = [strict(line.decode()) for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    return {(row["id"], row["repeat"]): row for row in rows if row["status"] == "done"}


def without_cost(run):
    return [
        {key: value for key, value in row.items() if key not in ("usage", "attempts", "timings")}
        for row in samples(run)
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "r"
    assert start(run).wait() == 0
    return run


def keeps_everything(run, undisturbed, finished):
    """What a run holds that was killed before and has now ended."""
    assert finished_lines(run) | finished == finished_lines(run)
    assert without_cost(run) == without_cost(undisturbed)
    ours, theirs = (json.loads((path / "summary.json").read_text()) for path in (run, undisturbed))
    for field in ("n", "failed", "metrics", "breakdowns"):
        assert ours[field] == theirs[field]
    assert (run / "scores.jsonl").read_bytes() == (undisturbed / "scores.jsonl").read_bytes()
    assert not [path.name for path in run.iterdir() if path.name.endswith(".part")]


@pytest.mark.slow
def test_a_kill_just_before_any_file_is_put_in_its_place(tmp_path, undisturbed, check_run):
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
