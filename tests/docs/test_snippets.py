"""Python on the pages runs, TOML and JSON are read by what the page says reads them, and what is served answers."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.commandline import parsed
from tests.docs.pages import Block, blocks
from tests.docs.scene import Scene, inside

PYTHON = [block for block in blocks() if block.kind == "python"]
TOML = [block for block in blocks() if block.kind == "toml"]
JSON = [block for block in blocks() if block.kind == "json"]
ASK = "How is a sourdough starter kept?"


@pytest.fixture(scope="module")
def vectors(scene: Scene) -> None:
    """The index of the scene with vectors, which the pages' retriever `hybrid` needs."""
    scene.fine("index", "build", scene.root / "user" / "notes", "--name", "notes", "--retriever", "hybrid")


def provider() -> Any:
    """A tracer provider, as a program that traces has one."""
    from opentelemetry.sdk.trace import TracerProvider

    return TracerProvider()


def run(block: Block, scene: Scene, monkeypatch: pytest.MonkeyPatch, **changed: str) -> dict[str, Any]:
    """The names that a block of Python leaves behind."""
    text = block.text
    for before, after in {
        '"NAME"': '"notes"',
        'name="notes")  # tm': 'name="readme")  # tm',
        "http://localhost:8080/v1": scene.server.url,
        **changed,
    }.items():
        text = text.replace(before, after)
    for name, value in scene.environment.items():
        monkeypatch.setenv(name, value)
    names: dict[str, Any] = {"provider": provider()} if "provider" in text else {}
    with inside(scene.material):
        exec(compile(ast.parse(text), block.place, "exec"), names)  # the page's own text, which is what is tested
    return names


@pytest.mark.parametrize(
    "block", [example for example in PYTHON if "8765" not in example.text], ids=lambda block: block.place
)
def test_python_runs(block: Block, scene: Scene, vectors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = run(block, scene, monkeypatch)
    if "run" in variables:  # README.md's, over an index of its own
        assert variables["reply"].citations
        assert variables["run"].metrics["rouge_l.word"].n == 4
    elif "reply" in variables:
        assert variables["reply"].text.startswith("Descale it")
    if "engine" in variables:
        assert variables["engine"].chat(ASK).metadata["question"] == ASK
    if "assistant" in variables:
        assert variables["assistant"].reply([], ASK).question == ASK


@pytest.mark.parametrize("block", TOML, ids=lambda block: block.place)
def test_toml_is_read_as_configuration(block: Block, scene: Scene, tmp_path: Path) -> None:
    """As the user's file, which may say most; `doctor` reads every table, and every mistake would be told."""
    (tmp_path / "config.toml").write_text(block.text, encoding="utf-8")
    home = {"TURNMARK_HOME": str(tmp_path)}
    ran = scene.run("doctor", "--json", folder=tmp_path, environment=home)
    checks = [check for check in json.loads(ran.out)["checks"] if check["section"] == "configuration"]
    assert checks
    assert not [check for check in checks if check["state"] == "broken"]
    assert scene.run("index", "list", folder=tmp_path, environment=home).code == 0


def _queries(path: Path) -> object:
    from turnmark.corpora.rows import read_recorded

    loaded = read_recorded(path, path.name)
    assert not loaded.problems
    return loaded.data


def _script(path: Path) -> object:
    from turnmark.assistant.generators import open_generator

    return open_generator(f"replay:{path}")


def _history(path: Path) -> object:
    from turnmark.assistant.commands import read_history

    return read_history(path)


def _client_settings(path: Path) -> object:
    """The server that a client's settings start, or where they find it."""
    (servers,) = json.loads(path.read_text("utf-8")).values()
    (server,) = servers.values()
    if server.get("type") == "http":
        return server["url"] == "http://127.0.0.1:8766/mcp" and server["headers"].keys() == {"Authorization"}
    return server["command"] == "turnmark" and parsed(server["args"])["index"] == ["notes"]


READERS: dict[str, Callable[[Path], object]] = {
    "docs/commands.md": _queries, "docs/turn.md": _script, "docs/files.md": _history,
    "docs/mcp.md": _client_settings,
}  # fmt: skip
"""Page -> what reads its lines of JSON."""


@pytest.mark.parametrize("block", JSON, ids=lambda block: block.place)
def test_json_is_read_by_what_the_page_says(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(block.text, encoding="utf-8")
    assert READERS[block.page](path)
