"""Write `report.html` and the page of a comparison: self-contained, loading nothing from the network.

Every text passes one filter on its way into the page: control characters are removed, and the rest is escaped, so that
it never becomes markup. Only the samples that the page shows are kept in memory.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.core.untrusted import make_printable, one_line
from turnmark.evaluation.report.finished_runs import RunCollection, read_run
from turnmark.evaluation.report.overview import ReportSection, describe, name_runs
from turnmark.evaluation.report.sample_browser import samples_json
from turnmark.evaluation.report.tables import ReportRow
from turnmark.evaluation.storage.journal import open_atomic

if TYPE_CHECKING:
    from jinja2 import Template

MARKER = '<meta name="generator" content="turnmark report">'
"""Among the first lines of every page; identifies a page as ours before it is overwritten."""

MAX_PAGE_BYTES = 1_950_000
"""Maximum size of a page; the texts of its samples are cut until they fit."""
_DATA_TAG = '<script type="application/json" id="data">'
_BREAKDOWN_METRICS = 4
_HERE = Path(__file__).parent


def write_page(run: Path) -> Path:
    """Write `report.html` into the folder of a run, or of `eval all`; an existing page is replaced."""
    return write_html([read_run(run)], run / "report.html")


def write_html(stored: Sequence[RunCollection], path: Path) -> Path:
    """Write one page with a section for each run of these folders. The page is replaced atomically."""
    runs = name_runs(stored)
    page = render_page(
        "report",
        describe(stored, _BREAKDOWN_METRICS, apart=True, explain=True),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        opening=_markup(_DATA_TAG),
        samples=any((run.path / "predictions.jsonl").is_file() for _, run in runs),
    )
    # No text of the data can contain the opening tag, since "<" is escaped there.
    head, tail = page.split(_DATA_TAG)
    limit = MAX_PAGE_BYTES - len(page.encode("utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomic(path) as file:
        file.writelines((head, _DATA_TAG, samples_json(runs, limit=limit), tail))
    return path


def render_page(kind: str, documents: Sequence[ReportSection], script: str = "", **values: Any) -> str:
    """Render a page of some sections; the first one gives the page's title.

    Args:
        kind: kind of page, `report` or `compare`.
        values: further variables of the template.
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
    """Return the page's Content-Security-Policy: it allows this style and this script by their hashes, nothing else."""
    allowed = f"style-src '{_csp_hash(css)}'; "
    if script:
        allowed += f"script-src '{_csp_hash(script)}'; "
    return f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'"


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


# --- the filter of all texts: control characters are removed, then everything is escaped ------------------------------


def _markup(text: str) -> Any:
    """Mark a trusted text as markup, which is written unescaped."""
    from markupsafe import Markup

    return Markup(text)


def _template() -> Template:
    """Load the template of the pages; its filter `line` puts a text on one line."""
    from jinja2 import Environment, StrictUndefined

    engine = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters |= {"line": one_line, "scale": scale_of}
    return engine.from_string((_HERE / "page.html.j2").read_text(encoding="utf-8"))


def _printable_value(value: Any) -> Any:
    """Remove control characters from a value that the template writes; called before escaping."""
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return make_printable(value)
    return value


# --- the scale of the dots of a table --------------------------------------------------------------------------------

_EDGE_PERCENT = 2.0  # percent of the width left free on each side, so that a dot at the end is complete
_SCALE_STEPS = 4  # between the numbers of a scale


@dataclass(frozen=True)
class PlotScale:
    """The horizontal scale of a table's dots, with round numbers as ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Return the position of a value, in percent of the width."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_EDGE_PERCENT + share * (100 - 2 * _EDGE_PERCENT):.2f}%"


def round_scale(values: Iterable[float]) -> PlotScale:
    """Return a scale with round ends that contains the values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    smallest = (high - low) / _SCALE_STEPS
    power = 10.0 ** math.floor(math.log10(smallest))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= smallest * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return PlotScale(first * step, last * step, tuple(round(index * step, 10) for index in range(first, last + 1)))


def scale_of(rows: Sequence[ReportRow]) -> PlotScale | None:
    """Return the scale of the rows' marks, containing 0 if they are differences, or None if there are no marks."""
    marks = [row.mark for row in rows if row.mark is not None]
    if not marks:
        return None
    values: list[float] = []
    if any(mark.kind in ("better", "worse", "unsure") for mark in marks):
        values.append(0.0)
    for mark in marks:
        values.append(mark.value)
        values += mark.interval or ()
    return round_scale(values)
