"""A build that is killed again and again ends as one that was not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.retrieval.conftest import content, many
from turnmark.retrieval.build import build_index
from turnmark.retrieval.components import verify_index
from turnmark.retrieval.index import open_index


def killed_builds(source: Path, times: int, seed: int) -> int:
    """How many of `times` builds were killed before they ended."""
    arguments = [str(source), "k", str(times), str(seed)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.retrieval.kill_build", *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout.splitlines()[-1])


@pytest.mark.slow
def test_killed_twenty_times_a_build_ends_as_if_undisturbed(tmp_path: Path) -> None:
    source = many(tmp_path)
    build_index(source, "undisturbed")
    assert killed_builds(source, times=20, seed=2) >= 1
    report = build_index(source, "k")
    assert report.passages == 1400
    undisturbed, resumed = content("undisturbed"), content("k")
    assert list(undisturbed) == list(resumed)
    assert all(np.array_equal(undisturbed[i], resumed[i]) for i in undisturbed)
    assert verify_index(open_index("k")) == []
