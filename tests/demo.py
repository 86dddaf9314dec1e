"""The last table of `make demo`: one headline figure per part, and the path of the report.

    python -m tests.demo RUNS

RUNS contains `mtrag-retrieval/`, written by `eval mtrag --task retrieval`, and `all/`, written by `eval all`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEADLINES = (
    ("MTRAG, retrieval", "mtrag-retrieval", "ndcg@5"),
    ("MTRAG, answers", "all/mtrag", "rouge_l.word"),
    ("InsCoQA", "all/inscoqa", "rouge_l.word"),
    ("Compound-QA", "all/compound-qa", "part_coverage"),
    ("KIWI, revisions", "all/kiwi", "edit_ratio"),
)
"""The title of each row, the folder of its run, and its metric."""


def table(runs: Path) -> list[str]:
    """Return the lines of the table.

    Raises:
        FileNotFoundError: a run is not finished.
        KeyError: a run lacks its metric.
    """
    lines = [f"{'':18}{'n':>5}  {'metric':14}{'mean':>6}  95% interval"]
    for title, folder, name in HEADLINES:
        summary = json.loads((runs / folder / "summary.json").read_text(encoding="utf-8"))
        metric = summary["metrics"][name]
        low, high = metric["ci95"]
        lines.append(f"{title:18}{metric['n']:>5}  {name:14}{metric['mean']:>6.3f}  {low:.3f}-{high:.3f}")
    return [*lines, "", "Demo data: these figures show that everything works and say nothing about quality."]


def main() -> None:
    """Print the table for the folder on the command line."""
    runs = Path(sys.argv[1])
    print(*table(runs), f"The report: {runs / 'all' / 'report.html'}", sep="\n")


if __name__ == "__main__":
    main()
