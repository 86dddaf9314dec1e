"""Write `report.html` and the page of a comparison: self-contained, loading nothing from the network.

Every text passes one filter on its way into the page: control characters are removed, and the rest is escaped, so that
it never becomes markup. Only the samples that the page shows are kept in memory.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnmark.evaluation.report.finished_runs import RunCollection, read_run
from turnmark.evaluation.report.overview import ReportSection, describe, name_runs
from turnmark.evaluation.report.plots import page_template
from turnmark.evaluation.report.sample_browser import samples_json
from turnmark.evaluation.storage.journal import open_atomic

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
    return page_template("page.html.j2").render(
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


def _markup(text: str) -> Any:
    """Mark a trusted text as markup, which is written unescaped."""
    from markupsafe import Markup

    return Markup(text)
