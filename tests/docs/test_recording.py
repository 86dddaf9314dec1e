"""The recorded terminal of README.md can be made again."""

from __future__ import annotations

import re
import runpy
from html import unescape
from pathlib import Path

from tests.conftest import ROOT
from tests.docs.pages import links


def test_recording_shows_a_real_conversation(demo_home: Path) -> None:
    recording = runpy.run_path(str(ROOT / "docs" / "recording.py"))
    text = unescape(re.sub("<[^>]+>", "", recording["record"](demo_home))).replace("\xa0", " ")
    for question in recording["QUESTIONS"]:
        assert f"› {question}" in text
    assert "Keep the book for four weeks." in text
    assert "I don't know" in text


def test_readme_shows_the_recording_and_the_viewer_fetches_nothing() -> None:
    assert "docs/chat.svg" in {target for _, target in links(ROOT / "README.md")}
    svg = (ROOT / "docs" / "chat.svg").read_text(encoding="utf-8")
    assert not re.search(r"url\(['\"]?https?:|href=", svg)
