"""A small run of each drill; `make drill` runs the large ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

DRILLS = ("kills", "watch", "disk", "hostile", "uploads", "sql", "fuzz", "agent", "long", "leaving")


@pytest.mark.slow
@pytest.mark.parametrize("name", DRILLS)
def test_drill_loses_nothing(name: str) -> None:
    command = [sys.executable, "-m", "tests.drills", "--quick", "--kills", "5", "--turns", "16", "--only", name]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
