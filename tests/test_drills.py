"""A small run of each drill; `make drill` runs the large ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("watch", "disk", "hostile", "fuzz", "agent", "long", "leaving")
]


@pytest.mark.parametrize("name", ["kills", *SLOW])
def test_drill_loses_nothing(name: str) -> None:
    command = [sys.executable, "-m", "tests.drills", "--quick", "--kills", "5", "--turns", "16", "--only", name]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
