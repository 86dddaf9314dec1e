"""docs/files.md against the records that are written, and against the files that commands leave behind."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.conftest import ROOT
from tests.docs.pages import spans
from tests.docs.scene import Scene

PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
RECORDS = {
    "### `manifest.json`": ("turnmark.evaluation.records:RunManifest", "turnmark.evaluation.records:CorpusUsed"),
    "### `predictions.jsonl`": ("turnmark.evaluation.records:Sample", "turnmark.evaluation.records:SubAnswer"),
    "### `scores.jsonl`": ("turnmark.evaluation.records:Score",),
    "### `summary.json`": (
        "turnmark.evaluation.records:Summary", "turnmark.evaluation.records:MetricSummary",
        "turnmark.evaluation.records:PublishedRow", "turnmark.evaluation.records:Panel",
    ),
    "### `judgements.jsonl`": ("turnmark.evaluation.judging.judgements:Judgement",),
    "## An index": ("turnmark.retrieval.manifest:Manifest",),
    "## A synthesis": ("turnmark.evaluation.synth.folder:SynthItem", "turnmark.evaluation.synth.folder:Reject"),
    "## What else lies in `$TURNMARK_HOME`": (
        "turnmark.corpora.fetching:FetchManifest", "turnmark.corpora.fetching:FetchedFile",
    ),
    "## What `ask --json` prints": ("turnmark.assistant.types:Citation",),
}  # fmt: skip
"""Section -> the records whose fields it names, every one."""
OTHER_FOLDERS = ("chroma", "bm25", "tokens", "exact", "openvino", "vllm", "data", "models", "local")
"""Folders whose files are a library's, an array each, or somebody's data: they are told as folders."""


def section(heading: str) -> str:
    level = heading.split(" ")[0]
    return re.split(rf"\n#{{2,{len(level)}}} ", PAGE.split(f"{heading}\n")[1])[0]


def record(target: str) -> type[BaseModel]:
    module, _, name = target.partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(module), name)
    return model


@pytest.mark.parametrize("heading", RECORDS)
def test_every_field_of_a_file_is_told(heading: str) -> None:
    names = set(re.findall(r"`(\w+)`", section(heading)))
    for target in RECORDS[heading]:
        assert set(record(target).model_fields) - names == set(), target


def test_every_event_of_a_session_is_told_with_its_fields() -> None:
    from turnmark.assistant import session

    _, *lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("## A session"), re.MULTILINE)
    rows = dict(lines)
    kinds: dict[str, Any] = {
        event.model_fields["event"].default: event for event in get_args(get_args(session.SessionEvent)[0])
    }
    assert rows.keys() == kinds.keys()
    for event, kind in kinds.items():
        assert set(kind.model_fields) - {"event"} <= set(re.findall(r"`(\w+)`", rows[event])), event


def test_the_manifests_second_row_is_what_moves_no_folder() -> None:
    from turnmark.evaluation.records import RunManifest

    row = next(line for line in section("### `manifest.json`").splitlines() if line.startswith("| cannot"))
    assert set(re.findall(r"`(\w+)`", row)) == RunManifest.not_identity | {"makers"}


def test_what_ask_prints_is_told(scene: Scene) -> None:
    import json

    ran = scene.run("ask", "How is a sourdough starter kept?", "--index", "notes", "--json", folder=ROOT)
    assert ran.code == 0, ran.err
    names = set(re.findall(r"`(\w+)`", section("## What `ask --json` prints")))
    reply = json.loads(ran.out)
    assert set(reply) | set(reply["checks"]) <= names


@pytest.fixture(scope="module")
def files_of_commands(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files that one of each kind of command leaves behind."""
    folder = tmp_path_factory.mktemp("left")
    scene.bring("runs/judged", folder)
    scene.bring("runs/a", folder)
    scene.bring("synth/mtrag", folder)
    words = ("eval", "mtrag", "--task", "retrieval", "--query", "minimal", "--generator", "openai:tiny", "--limit", "2")
    scene.fine(*words, "--out", folder / "asked")
    scene.fine("index", "build", scene.root / "user" / "notes", "--name", "rich", "--retriever", "conversational")
    # Not all of the home: other tests of the same process leave their own there.
    home = scene.root / "home"
    return [*_files(folder), *_files(home / "indexes" / "rich"), *_files(home / "cache")]


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not set(OTHER_FOLDERS) & set(path.relative_to(root).parts[:-1]) and path.name[0] != ".":
            yield path.relative_to(root)


def test_every_file_that_is_left_is_told(files_of_commands: list[Path]) -> None:
    page_text = " ".join(text for _, _, text in spans())
    benchmark = re.compile(r"corpora/|mtrag-\w+/|sessions/")
    names = {path: re.sub(r"-[0-9a-f]{16}\.", "-HASH.", path.name) for path in files_of_commands}
    unnamed = [path for path in files_of_commands if names[path] not in page_text]
    missing = [str(path) for path in unnamed if not benchmark.search(path.as_posix())]
    assert len(files_of_commands) > 30
    assert not missing
