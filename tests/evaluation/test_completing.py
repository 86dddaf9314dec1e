"""What the shell completes, through the same protocol that the shell uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from turnmark.corpora.home import home


@pytest.fixture
def complete(turnmark: Turnmark, monkeypatch: pytest.MonkeyPatch):
    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_TURNMARK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("turnmark", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return turnmark().out.split()

    return ask


@pytest.fixture
def _an_index() -> None:
    folder = home() / "indexes" / "demo"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    (home() / "indexes" / "half-built").mkdir()


@pytest.mark.usefixtures("_an_index")
@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (("ask", "x", "--index", "d"), ["demo"]),
        (("index", "verify", "d"), ["demo"]),
        (("search", "x", "--retriever", "bm"), ["bm25"]),
        (("ask", "--generator", "oll"), ["ollama"]),
        (("eval", "mtrag", "--judge", "oll"), ["ollama"]),
        (("eval", "mtr"), ["mtrag", "mtrag-s", "mtrag-un"]),
        (("eval", "mtrag", "--task", "ret"), ["retrieval"]),
        (("eval", "mtrag", "--query", "last-t"), ["last-turn"]),
        (("list", "rer"), ["rerankers"]),
        (("doc",), ["doctor"]),
    ],
)
def test_names_are_completed(complete, words: tuple[str, ...], completions: list[str]) -> None:
    assert complete(*words) == completions


def test_run_folders_are_completed(complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/mtrag-1", "runs/mtrag-2", "runs/kiwi-1"):
        Path(name).mkdir(parents=True)
        (Path(name) / "manifest.json").write_text(json.dumps({}), encoding="utf-8")
    assert complete("report", "r") == ["runs/"]
    assert complete("compare", "runs/mtrag-1", "runs/m") == ["runs/mtrag-1", "runs/mtrag-2"]
    assert complete("report", "nowhere/x") == []


def test_the_script_for_a_shell_is_shown(turnmark: Turnmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    printed = turnmark("--show-completion", "bash")
    assert printed.code == 0
    assert "_TURNMARK_COMPLETE=complete_bash" in printed.out
