"""Tests that run every example of a command in README.md, CONTRIBUTING.md, docs/ and `--help`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.commandline import Incomplete, parsed, root
from tests.docs.pages import SHELL_LINE, Block, blocks, examples, forms, spans
from tests.docs.scene import Scene
from tests.docs.tables import NOT_RUN, PAGE_ENVIRONMENT, reason

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
"""Commands without the program name, as in tables and sentences."""


def runs(block: Block) -> bool:
    return any(example.program == "turnmark" and not reason(example) for example in examples(block))


def typed(scene: Scene, block: Block, folder: Path) -> Iterator[str]:
    """Type the lines of a block one after the other, and return what fails."""
    environment = dict(PAGE_ENVIRONMENT.get(block.page, {}))
    for example in examples(block):
        if example.program not in ("", "turnmark") or reason(example):
            continue
        ran = scene.type(example, folder, environment)
        if ran.code or "Traceback" in ran.err:
            yield f"{example.place}: {example.typed}\n  exit {ran.code}: {ran.err.strip()[-800:]}"


@pytest.mark.parametrize("block", [block for block in SHELL if runs(block)], ids=lambda block: block.place)
def test_examples_of_a_block_run(block: Block, scene: Scene, tmp_path: Path) -> None:
    wrong = "\n".join(typed(scene, block, tmp_path))
    assert not wrong, wrong


def test_examples_that_are_not_run_are_parsed(scene: Scene) -> None:
    environment = {"TURNMARK_DATA": str(ROOT / "turnmark" / "corpora" / "demo")}
    wrong = []
    for example in (*TYPED, *IN_SENTENCES, *SHORT):
        # CHANGELOG.md also names what was removed.
        if example.program == "turnmark" and not example.place.startswith("CHANGELOG.md"):
            try:
                parsed([word for word in scene.words(example, environment) if word != "turnmark"])
            except Incomplete as error:
                wrong += [f"{example.place}: {example.typed}: {error}"] if example in TYPED else []
            except (ValueError, KeyError) as error:
                wrong.append(f"{example.place}: {example.typed}: {error}")
    assert not wrong, "\n".join(wrong)


def test_every_listed_exception_is_on_a_page() -> None:
    assert not [holds for holds in NOT_RUN if not any(holds in example.typed for example in TYPED)]
    assert {reason(example) for example in TYPED if example.program == "turnmark"} == {None, *NOT_RUN.values()}
