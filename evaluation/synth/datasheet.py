"""The benchmark's own files and the data sheet, written anew from the items whenever these or reviews change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.assistant.types import Usage
from turnmark.corpora.checking import check
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import write_atomic
from turnmark.corpora.statistics import NOT_RECOVERABLE, Line, Sheet
from turnmark.corpora.types import Record
from turnmark.evaluation.budget import Ledger, added
from turnmark.evaluation.journal import read_records
from turnmark.evaluation.report.rendering import escaped, table_lines
from turnmark.evaluation.report.tables import Column, Row, Table
from turnmark.evaluation.synth.attempt import JUDGE, WRITER, Synthesis
from turnmark.evaluation.synth.folder import ITEMS, REJECTS, Manifest, Reject, SynthFolder, SynthItem
from turnmark.evaluation.synth.reviews import read_reviews, reviewed
from turnmark.evaluation.synth.source import Source

SHEET = "data_sheet.md"
LICENCE = (
    "The items hold passages of the corpus and texts that were written from them, so the licence of the corpus covers "
    "them; the terms of the model that wrote them may add to it. Turnmark adds nothing. State both when the data are "
    "passed on."
)


class Report(Record):
    """What `--json` prints of a synthesis, and what its data sheet is written from."""

    kind: str
    out: str
    wanted: int
    kept: int
    rejected: int = Field(description="lines of rejects.jsonl; an attempt may leave several, and an item beside them")
    attempts: int
    failed: int = Field(description="attempts that gave nothing because a call failed; the same command tries again")
    filters: dict[str, dict[str, int]] = Field(description="stage -> reason -> how many were rejected")
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    files: tuple[str, ...] = Field(description="in the layout of the benchmark, under `out`")
    notes: tuple[str, ...]


def own_judge(manifest: Manifest) -> tuple[str, ...]:
    """A note, where the model that filtered is the one that wrote."""
    if manifest.specs.get("judge") != manifest.specs.get("generator"):
        return ()
    return ("the judge is the model that wrote the data; --judge names another",)


def write_outputs(
    synthesis: Synthesis,
    folder: SynthFolder,
    source: Source | None = None,
    *,
    notes: Sequence[str] = (),
    seconds: float = 0.0,
    usage: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Report:
    """Write the benchmark's files and the data sheet from `items.jsonl`, `rejects.jsonl` and `reviews.jsonl`.

    Args:
        source: None where the corpus is not at hand.

    Raises:
        RequestError: an item has not what its synthesis gives it.
    """
    path, manifest = folder.path, folder.manifest
    items = sorted(folder.items(), key=lambda item: (item.seed, item.id))
    reviewed_items, review_notes = reviewed(items, read_reviews(path))
    (path / REJECTS).touch()
    try:
        exported = synthesis.export(path, reviewed_items, source)
    except (KeyError, TypeError) as error:
        raise RequestError(
            f"{ITEMS} in {str(path)!r}: an item is not as synth {synthesis.name} makes it ({error})"
        ) from error
    counts = Counter((reject.stage, reject.reason) for reject in read_records(path / REJECTS, Reject))
    filters: dict[str, dict[str, int]] = {}
    for (stage, reason), count in sorted(counts.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1])):
        filters.setdefault(stage, {})[reason] = count
    report = Report(
        kind=synthesis.name,
        out=str(path),
        wanted=manifest.wanted,
        kept=len(items),
        rejected=counts.total(),
        attempts=len(folder.samples),
        failed=folder.samples.unfinished,
        filters=filters,
        usage=usage or {},
        seconds=round(seconds, 3),
        files=exported.files,
        notes=(
            *own_judge(manifest),
            *notes,
            *folder.unreadable(),
            *_cut(reviewed_items),
            *review_notes,
            *exported.notes,
        ),
    )
    sheet = _sheet(synthesis, manifest, report, _statistics_of(path))
    write_atomic(path / SHEET, "\n".join(sheet) + "\n")
    return report


def usage_of(folder: SynthFolder, ledger: Ledger) -> dict[str, dict[str, float | None]]:
    """Role -> calls, tokens and cost of all calls of the command, as the attempts' lines add up."""
    total: dict[str, Usage] = {}
    for key in list(folder.samples.keys()):
        sample = folder.samples.get(key)
        total = added(total, sample.usage if sample else {})
    priced = ledger.priced(total)
    return {role: priced[role].model_dump() for role in dict.fromkeys((WRITER, JUDGE, *total)) if role in total}


def _statistics_of(path: Path) -> list[Sheet]:
    """The paper's tables over what was written; none where nothing was."""
    try:
        checks = check(path)
    except RequestError:
        return []
    return [sheet for part in checks for sheet in part.sheets if not sheet.title.startswith("Corpora")]


def _cut(items: Sequence[SynthItem]) -> tuple[str, ...]:
    count = sum(bool(item.notes) for item in items)
    note = f"{count} of {len(items)} items: a prompt was cut to what the model takes ('notes' in {ITEMS})"
    return (note,) if count else ()


def _sheet(synthesis: Synthesis, manifest: Manifest, report: Report, sheets: Sequence[Sheet]) -> Iterator[str]:
    corpus = manifest.corpus
    yield from (f"# Data sheet: {escaped(synthesis.name)}, made from {escaped(corpus.name)}", "", synthesis.about, "")
    yield from ("## What", "")
    counts = f"{report.kept} kept of {report.attempts} attempts; {report.rejected} rejected, {report.failed} failed"
    yield f"- Items: {counts}"
    built_from = f" built from {escaped(corpus.source)}" if corpus.source else ""
    passages = f", {corpus.passages:,} passages" if corpus.passages else ""
    yield f"- Corpus: {escaped(corpus.name)}{built_from}: {corpus.documents:,} documents{passages}"
    yield f"- Fingerprint of the corpus: `{escaped(corpus.fingerprint)}`"
    yield from (f"- {role.capitalize()}: {escaped(spec)}" for role, spec in manifest.specs.items())
    yield f"- Seed: {manifest.seed}; Turnmark {escaped(manifest.version)}; begun {escaped(manifest.started)}"
    yield from (f"- Setting {escaped(name)}: {escaped(value)}" for name, value in manifest.options.items())
    yield from ("- Files: " + (", ".join(f"`{name}`" for name in report.files) or "none yet"), "")
    yield from table_lines(_prompts(manifest))
    yield from table_lines(_filters(report))
    for statistics in sheets:
        yield from table_lines(_statistics(statistics))
    yield from ("## Licence", "", LICENCE, "", "## Known limits", "")
    limits = (
        *synthesis.limits,
        "Nobody has read the items unless the notes say so: `turnmark synth review` is for that.",
    )
    yield from (f"- {line}" for line in limits)
    if report.notes:
        yield from ("", "## Notes", "", *(f"- {escaped(note)}" for note in report.notes))


def _prompts(manifest: Manifest) -> Table:
    rows = tuple(Row((name, digest[:16])) for name, digest in sorted(manifest.prompts.items()))
    return Table("Prompts", (Column("prompt"), Column("SHA-256, its beginning")), rows)


def _filters(report: Report) -> Table:
    rows = [
        Row((stage, reason, str(count)))
        for stage, reasons in report.filters.items()
        for reason, count in reasons.items()
    ]
    return Table("Filters", (Column("filter"), Column("reason"), Column("rejected", True)), tuple(rows))


def _statistics(sheet: Sheet) -> Table:
    rows = tuple(Row((line.what, _figure(line.here), _paper(line), line.note)) for line in sheet.lines)
    below = tuple(filter(None, [f"Published: {sheet.source}" if sheet.source else "", sheet.note]))
    columns = (Column("figure"), Column("here", True), Column("paper", True), Column("note"))
    return Table(sheet.title, columns, rows, below)


def _paper(line: Line) -> str:
    return NOT_RECOVERABLE if line.note == NOT_RECOVERABLE else _figure(line.paper)


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
