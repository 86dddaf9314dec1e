"""`report.html`: one file that holds everything it shows, asks no network and runs no script.

It is written as it is made, a sample at a time, so that memory does not grow with the run. Every text of the data goes
through one gate on its way into the page: control characters go, and what is left is text, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from corpora.console import shown
from corpora.text import printable
from evaluation.records import Sample, Score
from evaluation.report import beside, tables
from evaluation.report.mtrag_tables import retrieval_tables
from evaluation.report.overview import side_by_side, warnings
from evaluation.report.stored import Stored, StoredRun, read_run, samples, scores, tally
from evaluation.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template

MARKER = '<meta name="generator" content="turnwise report">'
"""Stands among the first lines of every page."""

SAMPLES = 1_000
"""Samples of a run that a page shows."""

_SHOWN, _FOLDED = 600, 4_000  # characters of a text: at once, and when it is unfolded
_CONTEXTS = 5
_SCORES = 4
_BREAKDOWN_METRICS = 6


@dataclass(frozen=True)
class Cut:
    """A text of a sample: what is shown at once, what is folded away, how many characters are left out."""

    head: str
    rest: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class SampleRow:
    """A sample as a row of the page."""

    name: str
    domain: str
    status: str
    reason: Cut
    question: Cut
    searched: Cut
    answer: Cut
    contexts: tuple[str, ...]
    decision: str
    scores: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A run as the page shows it; `rows` is read once, while the page is written."""

    headline: str
    specs: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    tables: tuple[Table, ...]
    run: str
    metrics: tuple[str, ...]
    rows: Iterator[SampleRow]
    n_rows: int
    more: int


def write_page(run: Path) -> Path:
    """Write `report.html` into the folder of a run, or of `eval all`; a page that was there is replaced.

    Raises:
        RequestError: the folder holds no finished run.
    """
    return write_html([read_run(run)], run / "report.html")


def write_html(stored: Sequence[Stored], path: Path) -> Path:
    """Write one page about the runs of these folders, a section each. Readers see the old page or the new one."""
    css = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii")
    runs = [run for folder in stored for run in folder.runs]
    stream = _template().generate(
        css=_markup(css),
        digest=digest,
        generator=_markup(MARKER),
        title=tables.headline(runs[0].summary) if len(runs) == 1 else f"{len(runs)} runs",
        warnings=warnings(stored),
        overview=side_by_side(stored),
        sections=map(_section, runs),
        most=SAMPLES,
    )
    with _whole(path) as file:
        file.writelines(stream)
    return path


@contextmanager
def _whole(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when all of it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _inert(value: Any) -> Any:
    """The gate: whatever the template writes out comes through here, before it is escaped."""
    from markupsafe import Markup

    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _markup(own: str) -> Any:
    """A text of ours that is written as it stands."""
    from markupsafe import Markup

    return Markup(own)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    engine = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters["line"] = shown
    return engine.from_string(Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8"))


# --- what the page shows ---------------------------------------------------------------------------------------------


def _section(run: StoredRun) -> Section:
    summary, found = run.summary, tally(run.path, SAMPLES)
    names = [name for name in summary.metrics if name.split(".")[0] not in ("unknown", "clarify", "hidden")]
    metrics = tables.chosen({name: summary.metrics[name] for name in names}, _SCORES)
    keys = found.first if found else ()
    return Section(
        headline=tables.headline(summary),
        specs=tables.specs(summary),
        reasons=tuple(tables.reasons(found)),
        notes=tables.notes(summary),
        tables=(
            tables.means(summary),
            tables.breakdowns(summary, tables.chosen(summary.metrics, _BREAKDOWN_METRICS)),
            *retrieval_tables(summary),
            beside.full(summary),
            tables.usage(summary),
        ),
        run=str(run.path),
        metrics=tuple(metrics),
        rows=_rows(run.path, keys, metrics),
        n_rows=len(keys),
        more=found.n - len(keys) if found else 0,
    )


def _rows(run: Path, keys: Sequence[tuple[str, int]], metrics: Sequence[str]) -> Iterator[SampleRow]:
    if not keys:
        return
    measured = scores(run, keys, metrics)
    for _, sample in zip(keys, samples(run), strict=False):
        mine = measured.get(sample.key, {})
        yield _row(sample, tuple(_score(mine.get(name), name) for name in metrics))


def _row(sample: Sample, values: tuple[str, ...]) -> SampleRow:
    contexts = () if sample.prediction is not None else tuple(ref.document_id for ref in sample.contexts[:_CONTEXTS])
    return SampleRow(
        name=sample.id + (f" (repeat {sample.repeat})" if sample.repeat else ""),
        domain=sample.domain or "-",
        status=sample.status,
        reason=cut(": ".join(filter(None, (sample.kind, sample.reason)))),
        question=cut(sample.query or "-"),
        searched=cut(sample.rewrite or ""),
        answer=cut(sample.prediction or ""),
        contexts=contexts,
        decision=sample.decision or "-",
        scores=values,
    )


def _score(score: Score | None, name: str) -> str:
    if score is None or score.status == "not_applicable":
        return "n/a"
    return "failed" if score.value is None else tables.figure(name, score.value)


def cut(text: str) -> Cut:
    """A text in two pieces of bearable length."""
    if len(text) <= _SHOWN:
        return Cut(text)
    return Cut(text[:_SHOWN] + "…", text[_SHOWN:_FOLDED], max(0, len(text) - _FOLDED))
