"""`report.html`, and the page of a comparison: self-contained, asking no network for anything.

Every text goes through one gate on its way into the page: control characters go, and what is left is text, never
markup. Of the samples no more is held than the page shows of them.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.core.console import inert, printable
from turnmark.evaluation.report.browse import samples_json
from turnmark.evaluation.report.overview import ReportSection, describe, name_runs
from turnmark.evaluation.report.stored import Stored, read_run
from turnmark.evaluation.report.tables import Row
from turnmark.evaluation.runs.journal import open_atomic

if TYPE_CHECKING:
    from jinja2 import Template

MARKER = '<meta name="generator" content="turnmark report">'
"""Stands among the first lines of every page."""

BYTES = 1_950_000
"""What a page fits into: the texts of its samples are cut until it does."""
_OPENING = '<script type="application/json" id="data">'
_BREAKDOWN_METRICS = 4
_HERE = Path(__file__).parent


def write_page(run: Path) -> Path:
    """Write `report.html` into the folder of a run, or of `eval all`; a page that was there is replaced."""
    return write_html([read_run(run)], run / "report.html")


def write_html(stored: Sequence[Stored], path: Path) -> Path:
    """Write one page about the runs of these folders, a section each. Readers see the old page or the new one."""
    runs = name_runs(stored)
    page = rendered(
        "report",
        describe(stored, _BREAKDOWN_METRICS, apart=True),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        opening=_markup(_OPENING),
        samples=any((run.path / "predictions.jsonl").is_file() for _, run in runs),
    )
    # No text of the data can look like this: there, "<" is escaped.
    head, tail = page.split(_OPENING)
    limit = BYTES - len(page.encode("utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        file.writelines((head, _OPENING, samples_json(runs, limit=limit), tail))
    return path


def rendered(kind: str, documents: Sequence[ReportSection], script: str = "", **values: Any) -> str:
    """A page about some documents, the first of which names it.

    Args:
        kind: of page, `report` or `compare`.
        values: what else the template shows.
    """
    css = (_HERE / "page.css").read_text(encoding="utf-8")
    return _template().render(
        kind=kind,
        documents=documents,
        warnings=dict.fromkeys(line for document in documents for line in document.warnings),
        css=_markup(css),
        script=_markup(script),
        policy=_policy(css, script),
        generator=_markup(MARKER),
        **values,
    )


def _policy(css: str, script: str) -> str:
    """The page's Content-Security-Policy: this style, this script if any, and nothing from anywhere."""
    sources = {"style-src": css, **({"script-src": script} if script else {})}
    hashes = [
        f"{name} 'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'; "
        for name, text in sources.items()
    ]
    return f"default-src 'none'; {''.join(hashes)}base-uri 'none'; form-action 'none'"


# --- the gate that pages are written through: everything is escaped, and control characters go first ------------------


def _markup(text: str) -> Any:
    """A text of ours that is written unchanged."""
    from markupsafe import Markup

    return Markup(text)


def _template() -> Template:
    """The template of the pages; its filter `line` puts a text on one line."""
    from jinja2 import Environment, StrictUndefined

    engine = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters |= {"line": inert, "scale": scale_of}
    return engine.from_string((_HERE / "page.html.j2").read_text(encoding="utf-8"))


def _inert(value: Any) -> Any:
    """Whatever a template writes out comes through here, before it is escaped."""
    from markupsafe import Markup

    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# --- the scale of the dots of a table --------------------------------------------------------------------------------

_EDGE = 2.0  # per cent of the width left free at either side, so that a dot at the end is complete
_STEPS = 4  # between the numbers of a scale


@dataclass(frozen=True)
class PlotScale:
    """From the lowest value that is drawn to the highest, with round numbers between."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Where a value lies, in per cent of the width."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_EDGE + share * (100 - 2 * _EDGE):.2f}%"


def round_scale(values: Iterable[float]) -> PlotScale:
    """A scale with round ends around the values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    smallest = (high - low) / _STEPS
    power = 10.0 ** math.floor(math.log10(smallest))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= smallest * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return PlotScale(first * step, last * step, tuple(round(index * step, 10) for index in range(first, last + 1)))


def scale_of(rows: Sequence[Row]) -> PlotScale | None:
    """The scale of the rows that have a mark, with 0 on it where they are differences; None: none has one."""
    marks = [row.mark for row in rows if row.mark is not None]
    if not marks:
        return None
    zero = [0.0] if any(mark.kind in ("better", "worse", "unsure") for mark in marks) else []
    return round_scale([*zero, *(end for mark in marks for end in (mark.value, *(mark.interval or ())))])
