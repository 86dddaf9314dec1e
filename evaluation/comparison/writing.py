"""A comparison as Markdown, as one page, and on the terminal. Every text of the data stays text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from turnmark.evaluation.comparison import showing
from turnmark.evaluation.comparison.compare import Comparison, Pipelines
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.page import rendered

if TYPE_CHECKING:
    from rich.console import Console

_METRICS = 3


def show(comparison: Comparison | Pipelines, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from turnmark.evaluation.report.rendering import WIDE, show_document

    show_document(showing.document(comparison, 2 if console.width >= WIDE else 1), console)


def markdown(comparison: Comparison | Pipelines) -> str:
    """A whole file; ends with a line end."""
    from turnmark.evaluation.report import rendering

    return rendering.markdown([showing.document(comparison, _METRICS)])


def page(comparison: Comparison | Pipelines) -> str:
    """One self-contained page that runs no script; of the samples that changed most it has the answers."""
    document = showing.document(comparison, _METRICS, apart=True)
    if isinstance(comparison, Pipelines):
        return rendered("compare", [document])
    changed = []
    for sample in comparison.changed:
        before, after = (tables.figure(sample.metric, value) for value in sample.values)
        changed.append((sample, f"{showing.signed(sample.metric, sample.difference)} ({before} to {after})"))
    # The last table has the samples that changed, without their answers.
    document = replace(document, tables=document.tables[:-1])
    return rendered("compare", [document], changed=changed, letter=comparison.runs[0].letter)
