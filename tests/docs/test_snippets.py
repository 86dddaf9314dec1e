"""Tests that run the Python on the pages, and read its TOML and JSON with the program that the page names."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.docs.commandline import parsed
from tests.docs.pages import Block, blocks
from tests.docs.scene import Scene, inside
from tests.served import ServerProcess, free_port
from turnmark.assistant.serving.latest_answers import RatingRequest

PYTHON = [block for block in blocks() if block.kind == "python"]
TOML = [block for block in blocks() if block.kind == "toml"]
JSON = [block for block in blocks() if block.kind == "json"]
ASK = "How is a sourdough starter kept?"


@pytest.fixture(scope="module")
def vectors(scene: Scene) -> None:
    """Add vectors to the index of the scene, which the retriever `hybrid` of the pages needs."""
    scene.fine("index", "build", scene.root / "user" / "notes", "--name", "notes", "--retriever", "hybrid")


def provider() -> Any:
    """Provide a tracer provider, as in a program that traces."""
    from opentelemetry.sdk.trace import TracerProvider

    return TracerProvider()


def run(block: Block, scene: Scene, monkeypatch: pytest.MonkeyPatch, **changed: str) -> dict[str, Any]:
    """Run a block of Python, and return its variables."""
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
    tree = ast.parse(text)
    ran: set[int] = set()

    def note_line(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != block.place:
            return None
        ran.update({frame.f_lineno} if event == "line" else ())
        return note_line

    before = sys.gettrace()
    with inside(scene.material):
        sys.settrace(note_line)
        try:
            exec(compile(tree, block.place, "exec"), names)  # the text of the page is what is tested
        finally:
            sys.settrace(before)
    bodies = [getattr(node, "body", []) for node in ast.walk(tree) if isinstance(node, ast.Module | ast.If | ast.For)]
    # A statement below a condition that never holds is not tested.
    assert {each.lineno for body in bodies for each in body} <= ran
    return names


@pytest.mark.parametrize(
    "block", [example for example in PYTHON if "8765" not in example.text], ids=lambda block: block.place
)
def test_python_blocks_run(block: Block, scene: Scene, vectors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = run(block, scene, monkeypatch)
    if "run" in variables:  # README.md's block, which builds its own index
        assert variables["reply"].citations
        assert variables["run"].metrics["rouge_l.word"].n == 4
    elif "reply" in variables:
        assert variables["reply"].text.startswith("Descale it")
    if "engine" in variables:
        assert variables["engine"].chat(ASK).metadata["question"] == ASK
    if "assistant" in variables:
        assert variables["assistant"].reply([], ASK).question == ASK


@pytest.mark.server
@pytest.mark.parametrize(
    "block", [example for example in PYTHON if "8765" in example.text], ids=lambda block: block.place
)
def test_clients_of_the_server_run(block: Block, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "turnmark", "serve", "--index", "notes", "--port", address.rpartition(":")[2]]
    server = ServerProcess(command, f"http://{address}/v1/models", tmp_path / "log", scene.environment)
    server.start()
    try:
        variables = run(block, scene, monkeypatch, **{"127.0.0.1:8765": address, "How do I descale a kettle?": ASK})
    finally:
        server.kill()
    if "reply" in variables:
        assert variables["reply"].choices[0].message.content


@pytest.mark.parametrize("block", TOML, ids=lambda block: block.place)
def test_toml_blocks_are_valid_configuration(block: Block, scene: Scene, tmp_path: Path) -> None:
    """Use the block as the user's file, which may set everything; `doctor` reads every table and reports mistakes."""
    (tmp_path / "config.toml").write_text(block.text, encoding="utf-8")
    home = {"TURNMARK_HOME": str(tmp_path)}
    ran = scene.run("doctor", "--json", folder=tmp_path, environment=home)
    checks = [check for check in json.loads(ran.out)["checks"] if check["section"] == "configuration"]
    assert checks
    assert not [check for check in checks if check["state"] == "broken"]
    assert scene.run("index", "list", folder=tmp_path, environment=home).code == 0


def _queries(path: Path) -> object:
    from turnmark.corpora.jsonl_rows import read_recorded

    loaded = read_recorded(path, path.name)
    assert not loaded.problems
    return loaded.data


def _script(path: Path) -> object:
    from turnmark.assistant.llm.generators.registry import open_generator

    return open_generator(f"replay:{path}")


def _history(path: Path) -> object:
    from turnmark.assistant.commands import read_history

    return read_history(path)


def _client_settings(path: Path) -> object:
    """Return the server that the settings of a client start, or its address."""
    (servers,) = json.loads(path.read_text("utf-8")).values()
    (server,) = servers.values()
    if server.get("type") == "http":
        return server["url"] == "http://127.0.0.1:8766/mcp" and server["headers"].keys() == {"Authorization"}
    return server["command"] == "turnmark" and parsed(server["args"])["index"] == ["notes"]


def _rating(path: Path) -> object:
    return RatingRequest.model_validate_json(path.read_bytes())


READERS: dict[str, Callable[[Path], object]] = {
    "docs/commands.md": _queries, "docs/turn.md": _script, "docs/files.md": _history,
    "docs/mcp.md": _client_settings, "docs/serve.md": _rating,
}  # fmt: skip
"""The reader of the JSON lines of a page, by page."""


@pytest.mark.parametrize("block", JSON, ids=lambda block: block.place)
def test_json_blocks_are_read_by_the_named_program(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(block.text, encoding="utf-8")
    assert READERS[block.page](path)
