"""The drills themselves: what they count, and small runs of each (`make drill` has the large ones)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.drills.tally import Tally, table


def test_what_is_raised_is_lost_and_the_rest_goes_on() -> None:
    tally = Tally("a drill")
    for number in range(3):
        with tally.attempt(f"try {number}"):
            assert number != 1, "one is lost"
    assert (tally.tried, tally.survived, len(tally.lost)) == (3, 2, 1)
    assert tally.lost[0].startswith("try 1: AssertionError at test_drills.py:")
    assert table([tally, Tally("b", 2)]) == (
        "| drill   | tried | survived | lost |\n"
        "|---------|------:|---------:|-----:|\n"
        "| a drill |     3 |        2 |    1 |\n"
        "| b       |     2 |        2 |    0 |\n"
        f"\n- a drill: {tally.lost[0]}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kills", "disk", "damage", "hostile", "fuzz", "faults"])
def test_nothing_is_lost(name: str) -> None:
    command = [sys.executable, "-m", "tests.drills", "--quick", "--kills", "5", "--calls", "200", "--only", name]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=1500, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
