"""A release contains every file of our packages and nothing else; `make dist` runs the whole check."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests import release


@pytest.mark.slow
def test_wheel_and_sdist_contain_every_file(tmp_path: Path) -> None:
    wheel, sdist = release.built(tmp_path)
    assert release.missing(wheel, sdist) == []
    in_wheel, in_sdist = release.contents(wheel, sdist)
    for needed in ("evaluation/published.json", "corpora/demo/documents/", "assistant/prompts/answer.txt"):
        assert any(path.startswith(f"turnmark/{needed}") for path in in_wheel), needed
    assert {"constraints.txt", "LICENSE", "README.md", "CHANGELOG.md"} <= in_sdist
    # A missing file is found.
    short = tmp_path / "short.whl"
    with zipfile.ZipFile(wheel) as full, zipfile.ZipFile(short, "w") as less:
        for name in full.namelist():
            if name != "turnmark/evaluation/published.json":
                less.writestr(name, full.read(name))
    assert release.missing(short, sdist) == ["the wheel lacks turnmark/evaluation/published.json"]
