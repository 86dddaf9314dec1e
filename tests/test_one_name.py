"""What is installed has one name, and no module is imported twice under two."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

ROOMS = ("corpora", "retrieval", "assistant", "evaluation")
CODE = """
import sys
import turnmark
from turnmark.cli import main
for name in turnmark.__all__:
    getattr(turnmark, name)
sys.argv = ["turnmark", "list"]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
sys.stderr.write("OTHERS " + " ".join(sorted({name.split(".")[0] for name in sys.modules} & set(%r))))
"""


def test_folders_named_like_our_packages_cause_no_conflict(tmp_path: Path) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise ImportError('of somebody else')\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE % (ROOMS,)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.endswith("OTHERS ")


def test_checkout_without_symbolic_links_reports_how_to_clone(tmp_path: Path) -> None:
    package = tmp_path / "turnmark"
    package.mkdir()
    shutil.copy(ROOT / "turnmark" / "__init__.py", package)
    for room in ROOMS:
        (package / room).write_text(f"../{room}")
    ran = subprocess.run(
        [sys.executable, "-c", "import turnmark"], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "git clone -c core.symlinks=true" in ran.stderr
