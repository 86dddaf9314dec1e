"""Every example of a command runs: in README.md, in CONTRIBUTING.md, in docs/, and in `--help`."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs.commandline import Incomplete, parsed, root
from tests.docs.examples import Example, examples, forms
from tests.docs.pages import SHELL_LINE, Block, blocks, spans
from tests.docs.scene import Scene
from tests.docs.tables import NOT_RUN, PAGE_ENVIRONMENT, SLOW, reason
from turnmark.assistant.generators import vllm

SHELL = [block for block in blocks() if block.kind == "shell"]
TYPED = [example for block in SHELL for example in examples(block)]
IN_SENTENCES = [
    example
    for page, line, text in spans()
    if SHELL_LINE.match(text)
    for example in forms(f"{page}:{line}", text.partition(" | ")[0])
    if len(example.words) > 1
]
SHORT = [
    example
    for page, line, text in spans()
    if len(text.split()) > 1 and text.split()[0] in root().commands
    for example in forms(f"{page}:{line}", "turnmark " + text.partition(" | ")[0])
    if len(example.words) > 1
]
"""Commands without the program's name, as tables and sentences have them."""
STAND_IN = ROOT / "tests" / "vllm_stand_in.py"


def runs(block: Block) -> bool:
    return any(example.program == "turnmark" and not reason(example) for example in examples(block))


def typed(scene: Scene, block: Block, folder: Path) -> Iterator[str]:
    """What goes wrong when the lines of a block are typed one after the other."""
    environment = dict(PAGE_ENVIRONMENT.get(block.page, {}))
    for example in examples(block):
        if example.program not in ("", "turnmark") or reason(example) or (scene.quick and is_slow(example)):
            continue
        ran = scene.type(example, folder, environment)
        if ran.code or "Traceback" in ran.err:
            yield f"{example.place}: {example.typed}\n  exit {ran.code}: {ran.err.strip()[-800:]}"


def is_slow(example: Example) -> bool:
    return any(holds in example.typed for holds in SLOW)


@pytest.fixture(autouse=True)
def _a_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A vLLM that is started is the stand-in, and it ends."""
    monkeypatch.setenv("TURNMARK_VLLM_COMMAND", f"{sys.executable} '{STAND_IN}'")
    yield
    vllm._stop_all()


@pytest.mark.parametrize("block", [block for block in SHELL if runs(block)], ids=lambda block: block.place)
def test_the_examples_of_a_block_run(block: Block, scene: Scene, tmp_path: Path) -> None:
    wrong = "\n".join(typed(scene, block, tmp_path))
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [block for block in SHELL if runs(block) and "turnmark eval" in block.text], ids=lambda block: block.place
)
def test_they_run_with_all_samples_and_the_usual_embedder(block: Block, whole_scene: Scene, tmp_path: Path) -> None:
    wrong = "\n".join(typed(whole_scene, block, tmp_path))
    assert not wrong, wrong


def test_what_is_not_run_is_parsed_at_least(scene: Scene) -> None:
    environment = {"TURNMARK_DATA": str(ROOT / "corpora" / "demo")}
    wrong = []
    for example in (*TYPED, *IN_SENTENCES, *SHORT):
        # CHANGELOG.md names what is gone, too.
        if example.program == "turnmark" and not example.place.startswith("CHANGELOG.md"):
            try:
                parsed([word for word in scene.words(example, environment) if word != "turnmark"])
            except Incomplete as error:
                wrong += [f"{example.place}: {example.typed}: {error}"] if example in TYPED else []
            except (ValueError, KeyError) as error:
                wrong.append(f"{example.place}: {example.typed}: {error}")
    assert not wrong, "\n".join(wrong)


def test_the_table_of_what_is_not_run_has_nothing_that_is_on_no_page() -> None:
    assert not [holds for holds in (*NOT_RUN, *SLOW) if not any(holds in example.typed for example in TYPED)]
    assert {reason(example) for example in TYPED if example.program == "turnmark"} == {None, *NOT_RUN.values()}


class Parsed(Exception):
    """The arguments of a program were good."""


@pytest.mark.parametrize(
    "example", [example for example in (*TYPED, *IN_SENTENCES) if example.program == "python"], ids=str
)
def test_programs_are_there_and_take_what_they_are_given(
    example: Example, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = scene.words(example, {})
    if words[1] != "-m":
        assert (ROOT / words[1]).is_file(), example.place
        return
    name, arguments = words[2], words[3:]
    assert importlib.util.find_spec(name), f"{example.place}: no module {name}"
    if name == "pytest":
        assert all((ROOT / word).exists() for word in arguments if "/" in word), example.place
    if name == "pytest" or not arguments:
        return
    spec = importlib.util.find_spec(f"{name}.__main__" if name in ("tests.drills", "tests.conversations") else name)
    assert spec
    assert spec.origin
    source = Path(spec.origin).read_text("utf-8")
    if "argparse" not in source:
        is_known = all(word.isdigit() or f'"{word}"' in source for word in arguments)
        assert "sys.argv" in source, f"{example.place}: {name} takes no arguments"
        assert is_known, f"{example.place}: {name} does not know {arguments}"
        return

    def parse(self: ArgumentParser, *arguments: Any, **more: Any) -> Any:
        before(self, *arguments, **more)
        raise Parsed

    before = ArgumentParser.parse_args
    monkeypatch.setattr(ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(Parsed):
        runpy.run_module(name, run_name="__main__")


def test_make_has_the_targets() -> None:
    targets = {example.words[1] for example in (*TYPED, *IN_SENTENCES) if example.program == "make"}
    assert targets >= {"demo", "test", "lint", "drill"}
    for target in sorted(targets):
        ran = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr


def test_extras_that_are_installed_by_name_are_there() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    lines = [example for example in (*TYPED, *IN_SENTENCES) if example.program == "pip"]
    named = {
        word.partition("[")[2].rstrip("]")
        for example in lines
        for word in example.words
        if word.startswith("turnmark[")
    }
    assert named
    assert named <= extras.keys()
