"""Commands over a small index load no library that they do not need: a start takes a second instead of fifteen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.patience import PATIENCE

UNNEEDED = {
    "torch", "transformers", "sentence_transformers", "sklearn", "scipy", "chromadb", "llama_index", "bm25s",
    "pandas", "pydantic_settings", "openvino.tools", "openvino_telemetry", "openai", "fastapi", "mcp",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "used"),
    [
        (["index", "build", "documents", "--name", "tiny"], {"bm25s", "scipy"}),
        (["ask", "How do I descale the kettle?", "--index", "tiny"], set()),
        (["search", "kettle", "--index", "tiny"], set()),
        (["search", "kettle", "--index", "tiny", "--retriever", "bm25"], set()),
    ],
    ids=["build", "ask", "search", "bm25"],
)
def test_a_command_loads_only_what_it_needs(words: list[str], used: set[str], small_home: Path) -> None:
    ran = run(words, small_home)
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stderr.splitlines()[-1].split())
    assert "turnmark.retrieval.search.opened_index" in loaded
    assert loaded & UNNEEDED <= used


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process, which prints its modules at the end."""
    code = (
        "import sys; from turnmark.cli import main\n"
        "try:\n    main()\nfinally:\n    sys.stderr.write('\\n' + ' '.join(sys.modules))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TURNMARK_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a home that has an index of one document."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "documents").mkdir()
    (folder / "documents" / "kettle.md").write_text("# Kettle\n\nTo descale the kettle, boil vinegar in it.\n")
    built = run(["index", "build", "documents", "--name", "tiny"], folder)
    assert built.returncode == 0, built.stderr
    (folder / "documents" / "pot.md").write_text("# Pot\n\nWarm the pot first.\n")
    return folder
