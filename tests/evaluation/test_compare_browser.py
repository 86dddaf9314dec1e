"""The page of a comparison in a real browser: it fits its screen, and stays quiet and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.chromium import WHY, browser, found
from tests.evaluation.compared import shifted, write_run
from turnmark.evaluation.comparison.compare import compare
from turnmark.evaluation.comparison.writing import page

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.skipif(found() is None, reason=WHY)]

WIDE = "document.documentElement.scrollWidth"


def test_a_comparison_on_screens_of_two_sizes(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"r{index}", shifted(name)) for index, name in enumerate((0, 0.3, -0.2))]
    target = tmp_path / "c.html"
    target.write_text(page(compare(runs)), encoding="utf-8")
    program = found()
    assert program
    with browser(program, tmp_path / "state") as screen:
        for width in (1280, 390):
            for dark in (False, True):
                screen.open(target.as_uri(), width, 900, dark)
                assert screen.run(WIDE) == width
                assert (screen.said, screen.asked) == ([], [target.as_uri()])
                colour = screen.run("getComputedStyle(document.body).backgroundColor")
                assert (colour == "rgb(255, 255, 255)") == (not dark)
        assert screen.run("document.querySelectorAll('details.change').length") > 0
