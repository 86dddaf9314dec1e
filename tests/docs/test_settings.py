"""A setting of the assistant is declared once: its flags, keys, keywords and documentation come from the record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DEMO, ROOT
from turnmark.assistant.config import AssistantConfig
from turnmark.core.flags import flags_of

COMMANDS = ("ask", "chat", "serve", "mcp", "check", "eval")
NEW_SETTING = """
import json, sys
from typing import Annotated
import typer
from pydantic import Field
import turnmark.assistant.config as config

class AssistantConfig(config.AssistantConfig):
    patience: Annotated[int, typer.Option(metavar="SECONDS", help="Seconds to wait", hidden=True)] = Field(7, ge=1)

config.AssistantConfig = AssistantConfig
config.ConfigOverIndex = Annotated[AssistantConfig, *config.ConfigOverIndex.__metadata__]
config.ConfigOfAll = Annotated[AssistantConfig, *config.ConfigOfAll.__metadata__]

import turnmark as tm
from tests.docs.commandline import commands, root
from turnmark.assistant import config_files

seen = {}
for name in sys.argv[1:]:
    options = [one for one in commands()[name].params if "--patience" in one.opts]
    seen[name] = [[one.help, one.metavar, one.default, one.hidden] for one in options]
values = config_files.defaults_of(root(), "ask", config_files.sources())
seen["file"] = values.get("patience")
index = tm.Index.build("documents", "notes", retriever="bm25")
seen["keyword"] = tm.Assistant(index, patience=5).config.patience
try:
    tm.Assistant(index, patience=0, patients=3)
except tm.TurnmarkError as error:
    seen["mistakes"] = str(error).splitlines()
print(json.dumps(seen))
"""
"""Adds a setting to the record before anything else is imported, and looks where it came to be."""


def table() -> Iterator[str]:
    """Yield the rows of the table in docs/configuration.md, as the record declares them."""
    yield "| setting | flag | default | meaning |"
    yield "|---|---|---|---|"
    for name, flag in flags_of(AssistantConfig).items():
        info = flag.info
        flags = f"`{flag.spelling} {info.metavar}`" + (f", `{info.envvar}`" if info.envvar else "")
        shown = info.show_default if isinstance(info.show_default, str) else f"`{flag.default}`" if flag.default else ""
        yield f"| `{name}` | {flags} | {shown} | {info.help} |"


def test_the_documented_settings_are_those_of_the_record() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page


def test_a_new_setting_of_the_record_is_in_every_command_in_files_and_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turnmark.toml").write_text("[defaults]\npatience = 3\n", encoding="utf-8")
    (tmp_path / "documents").symlink_to(DEMO / "documents")
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ran = subprocess.run(
        [sys.executable, "-c", NEW_SETTING, *COMMANDS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    declared = [["Seconds to wait", "SECONDS", "7", True]]
    assert {name: seen[name] for name in COMMANDS} == dict.fromkeys(COMMANDS, declared)
    assert (seen["file"], seen["keyword"]) == ("3", 5)
    assert seen["mistakes"] == [
        "patience=0: expected at least 1",
        "no setting is called 'patients' (did you mean 'patience'?); there are: embedder, generator, index, patience, "
        "prompts, quote_words, retriever, steps, sure_from, tokens, top_k, where",
    ]
