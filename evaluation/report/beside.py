"""Which published rows are near to a run, and in words what keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmark.evaluation.records import PublishedRow, Summary
from turnmark.evaluation.report.paper import query_of

TITLE = "Beside published figures"
"""What stands above a plot of published figures."""

_LEGEND = {
    "documents": "other passages were searched, or the run does not say which",
    "domains": "it is over other domains",
    "subset": "we have no figures for that subset",
    "n": "it counts another number of {noun}, or does not say how many",
    "query": "it was searched for in another way, or the run does not say how",
    "setting": "the answers were made in another setting",
    "judge": "another judge gave the figures, or none did here",
    "metric": "something else computed it",
    "data": "it is over other data",
    "turns": "it is over other turns",
    "prompt": "the authors' prompt asked",
}


def explained(summary: Summary, aspects: Sequence[str]) -> Iterator[str]:
    """`(1) n: it counts another number of queries …` for each aspect, in this order."""
    noun = "queries" if summary.task == "retrieval" else "samples"
    for number, name in enumerate(aspects, 1):
        yield f"({number}) {name}: {_LEGEND.get(name, name).format(noun=noun)}"


def near(summary: Summary) -> list[PublishedRow]:
    """The rows of the run's own setting, and of these the ones of its query mode; all, where there are none.

    None for demo data, which is not the benchmark.
    """
    rows = [] if summary.data.demo else list(summary.published)
    for name, ours in (("setting", summary.setting), ("query", query_of(summary))):
        rows = [row for row in rows if (getattr(row, name) or None) == ours] or rows
    return rows
