"""A release contains every file of our packages and nothing else; `make dist` runs the whole check."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import release
from tests.conftest import ROOT
from tests.patience import PATIENCE


@pytest.mark.slow
def test_wheel_and_sdist_contain_every_file(tmp_path: Path) -> None:
    wheel, sdist = release.built(tmp_path)
    assert release.missing(wheel, sdist) == []
    in_wheel, in_sdist = release.contents(wheel, sdist)
    for needed in ("evaluation/published.json", "corpora/demo/documents/", "assistant/llm/prompts/answer.txt"):
        assert any(path.startswith(f"turnmark/{needed}") for path in in_wheel), needed
    assert {"constraints.txt", "LICENSE", "README.md", "CHANGELOG.md"} <= in_sdist
    # A missing file is found.
    short = tmp_path / "short.whl"
    with zipfile.ZipFile(wheel) as full, zipfile.ZipFile(short, "w") as less:
        for name in full.namelist():
            if name != "turnmark/evaluation/published.json":
                less.writestr(name, full.read(name))
    assert release.missing(short, sdist) == ["the wheel lacks turnmark/evaluation/published.json"]


def test_checkout_without_links_works(tmp_path: Path) -> None:
    """Git writes a link as a text file where links are not allowed, as on Windows by default."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-c", "core.symlinks=false", str(ROOT), str(clone)], check=True)
    assert (clone / "assistant").read_text() == "turnmark/assistant"
    command = [
        sys.executable,
        "-m",
        "turnmark",
        "index",
        "build",
        "turnmark/corpora/demo/documents",
        "--name",
        "demo",
        "--retriever",
        "bm25",
    ]
    environment = {**os.environ, "PYTHONPATH": str(clone), "TURNMARK_HOME": str(tmp_path / "home")}
    ran = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert "demo" in ran.stdout + ran.stderr
