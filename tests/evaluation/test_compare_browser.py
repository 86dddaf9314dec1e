"""The page of a comparison in a real browser: it fits its screen, shows what is chosen, and stays quiet and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.chromium import WHY, browser, found
from tests.evaluation.compared import shifted, write_run
from turnmark.evaluation.comparison.compare import compare
from turnmark.evaluation.comparison.writing import page

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.skipif(found() is None, reason=WHY)]

SHOWN = "[...document.querySelectorAll('.plots > div:first-child .panels > *')].map(one => one.offsetHeight > 0)"
WIDE = "document.documentElement.scrollWidth"


def test_a_comparison_on_screens_of_two_sizes(tmp_path: Path) -> None:
    made = [write_run(tmp_path / f"r{at}", shifted(by)) for at, by in enumerate((0, 0.3, -0.2))]
    target = tmp_path / "c.html"
    target.write_text(page(compare(made)), encoding="utf-8")
    program = found()
    assert program
    with browser(program, tmp_path / "state") as shown:
        for width in (1280, 390):
            for dark in (False, True):
                shown.open(target.as_uri(), width, 900, dark)
                assert shown.run(WIDE) == width
                assert (shown.said, shown.asked) == ([], [target.as_uri()])
                colour = shown.run("getComputedStyle(document.body).backgroundColor")
                assert (colour == "rgb(255, 255, 255)") == (not dark)
        assert shown.run(SHOWN) == [True, False]
        shown.run("document.querySelectorAll('.plots > div:first-child .tabs label')[1].click()")
        assert shown.run(SHOWN) == [False, True]
        dots = "[...document.querySelectorAll('.first circle')].map(one => getComputedStyle(one).fill)"
        assert len(set(shown.run(dots))) == 3
        assert shown.run("document.querySelectorAll('details.change').length") > 0
