"""Tests of docs/files.md against the records that are written."""

from __future__ import annotations

import importlib
import re
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.conftest import ROOT
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
    "### `judgements.jsonl`": ("turnmark.evaluation.calls.judgment_store:StoredJudgment",),
    "## An index": ("turnmark.retrieval.storage.manifest:Manifest",),
    "## A synthesis": (
        "turnmark.evaluation.synth.synthesis_folder:SynthItem", "turnmark.evaluation.synth.synthesis_folder:Reject",
    ),
    "## Other files in `$TURNMARK_HOME`": (
        "turnmark.corpora.downloads.data_sets:FetchManifest", "turnmark.corpora.downloads.data_sets:FetchedFile",
    ),
    "## What `ask --json` prints": ("turnmark.assistant.types:Citation",),
}  # fmt: skip
"""The records whose fields a section names, by section."""


def section(heading: str) -> str:
    level = heading.split(" ")[0]
    return re.split(rf"\n#{{2,{len(level)}}} ", PAGE.split(f"{heading}\n")[1])[0]


def record(target: str) -> type[BaseModel]:
    module, _, name = target.partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(module), name)
    return model


@pytest.mark.parametrize("heading", RECORDS)
def test_documents_every_field_of_a_file(heading: str) -> None:
    names = set(re.findall(r"`(\w+)`", section(heading)))
    for target in RECORDS[heading]:
        assert set(record(target).model_fields) - names == set(), target


def test_documents_every_session_event_with_its_fields() -> None:
    from turnmark.assistant.sessions import conversation

    _, *lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("## A session"), re.MULTILINE)
    rows = dict(lines)
    kinds: dict[str, Any] = {
        event.model_fields["event"].default: event for event in get_args(get_args(conversation.SessionEvent)[0])
    }
    assert rows.keys() == kinds.keys()
    for event, kind in kinds.items():
        assert set(kind.model_fields) - {"event"} <= set(re.findall(r"`(\w+)`", rows[event])), event


def test_documents_the_output_of_ask(scene: Scene) -> None:
    import json

    ran = scene.run("ask", "How is a sourdough starter kept?", "--index", "notes", "--json", folder=ROOT)
    assert ran.code == 0, ran.err
    names = set(re.findall(r"`(\w+)`", section("## What `ask --json` prints")))
    reply = json.loads(ran.out)
    assert set(reply) | set(reply["checks"]) <= names
