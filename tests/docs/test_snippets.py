"""Python on the pages runs, TOML and JSON are read by what the page says reads them, and what is served answers."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO, ROOT
from tests.docs.examples import examples
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


@pytest.fixture(scope="module")
def served(scene: Scene) -> Iterator[str]:
    """The address of a server that was started as docs/serve.md types it, at a free port, over an index for BM25."""
    scene.fine("index", "build", scene.root / "user" / "notes", "--name", "notes")
    (block,) = (block for block in blocks() if block.page == "docs/serve.md" and "turnmark serve" in block.text)
    typed = next(example for example in reversed(examples(block)) if example.program == "turnmark")
    command = [sys.executable, "-c", "from turnmark.evaluation.cli import main; main()", *scene.words(typed, {})[1:]]
    process = subprocess.Popen(
        [*command, "--port", "0"], cwd=ROOT, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        env={**scene.inherited(), **scene.environment},
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        assert "endpoint http" in line, line + process.stderr.read()
        yield line.split("endpoint ")[1].split("/v1")[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


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


@pytest.mark.server
@pytest.mark.parametrize(
    "block", [example for example in PYTHON if "8765" in example.text], ids=lambda block: block.place
)
def test_what_is_served(block: Block, scene: Scene, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = {"How do I descale a kettle?": ASK}
    variables = run(block, scene, monkeypatch, **{"http://127.0.0.1:8765": served, **questions})
    if "reply" in variables:
        assert "[^1]" in variables["reply"].choices[0].message.content
    else:
        from llama_index.llms.openai_like import OpenAILike

        model = OpenAILike(model="notes", api_base=f"{served}/v1", api_key="none", is_chat_model=True)
        assert model.complete(ASK).text


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


def test_the_configuration_of_its_page_stands_in_no_commands_way(scene: Scene, tmp_path: Path) -> None:
    """Each command takes of `[defaults]` what it has a flag for."""
    (block,) = (block for block in TOML if block.page == "docs/configuration.md")
    (tmp_path / "config.toml").write_text(block.text, encoding="utf-8")
    shutil.copytree(DEMO / "mt-rag-benchmark", tmp_path / "bench")
    (tmp_path / "indexes").symlink_to(scene.root / "home" / "indexes", target_is_directory=True)
    scene.bring("run.trec", tmp_path)
    scene.bring("answers.jsonl", tmp_path)
    for typed in (
        "score mtrag --task retrieval --predictions run.trec", "eval mtrag --task retrieval --retriever bm25 --dry-run",
        "eval mtrag --limit 1 --dry-run",
        "synth mtrag --n 1 --retriever bm25 --dry-run", "search kettle --retriever bm25",
    ):  # fmt: skip
        ran = scene.run(*typed.split(), folder=tmp_path, environment={"TURNMARK_HOME": str(tmp_path)})
        assert ran.code == 0, f"{typed}: {ran.err}"


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


READERS: dict[str, Callable[[Path], object]] = {
    "docs/commands.md": _queries, "docs/turn.md": _script, "docs/files.md": _history,
}  # fmt: skip
"""Page -> what reads its lines of JSON."""


def test_every_block_of_json_has_a_reader() -> None:
    assert {block.page for block in JSON} == READERS.keys()


@pytest.mark.parametrize("block", JSON, ids=lambda block: block.place)
def test_json_is_read_by_what_the_page_says(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(block.text, encoding="utf-8")
    assert READERS[block.page](path)
