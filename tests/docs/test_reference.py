"""The reference of the Python API is what its script writes."""

from __future__ import annotations

import runpy

import turnmark
from tests.conftest import ROOT
from tests.docs.pages import anchors


def test_reference_is_current() -> None:
    render = runpy.run_path(str(ROOT / "docs" / "reference.py"))["render"]
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert render() == written, "run: python docs/reference.py"


def test_reference_has_a_section_for_every_public_name() -> None:
    assert {name.lower() for name in turnmark.__all__} <= anchors(ROOT / "docs" / "reference.md")
