"""Tables of metrics in the documentation name metrics that the code declares."""

from __future__ import annotations

import re
from pathlib import Path

from turnmark.evaluation.benchmarks.compound_qa.answer_modes import compound_metrics
from turnmark.evaluation.benchmarks.compound_qa.rubrics import compound_rubrics
from turnmark.evaluation.benchmarks.mtrag.rubrics import un_rubrics
from turnmark.evaluation.metrics.idk_conditioning import ACCURACY
from turnmark.evaluation.scores.derived_figures import CONTROLLED_WINS, SEMEVAL

DOCS = Path(__file__).parents[2] / "docs"
_ROW = re.compile(r"^\| (`[^|]+) \|")


def documented(page: str) -> set[str]:
    """Return the names in the first column of the tables whose head begins with `metric`."""
    names: set[str] = set()
    in_table = False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        in_table = line.startswith("| metric |") or (in_table and line.startswith("|"))
        if in_table and (row := _ROW.match(line)):
            names |= {name for name in re.findall(r"`([^`]+)`", row[1]) if not name.startswith(".")}
    return names


def test_tables_name_declared_metrics_and_every_rubric_of_mtrag_has_a_row():
    rubrics = [name for rubric in un_rubrics(None, "minilm") for name in rubric.names]
    compound = [rubric for setting in (None, "positions") for rubric in compound_rubrics(setting, "minilm")]
    declared = {*rubrics, ACCURACY, SEMEVAL, CONTROLLED_WINS}
    declared |= {name for rubric in compound for name in rubric.names}
    declared |= {
        name for by_order in (False, True) for metric in compound_metrics(None, by_order) for name in metric.names
    }
    assert "rb_llm" in documented("judging.md")
    assert documented("judging.md") <= declared
    assert {name for name in rubrics if "[" not in name} <= documented("judging.md")
    assert CONTROLLED_WINS in documented("benchmarks.md")
    assert documented("benchmarks.md") <= declared
