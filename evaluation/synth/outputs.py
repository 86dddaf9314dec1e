"""The benchmark's own files, written anew from the items whenever these change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from turnmark.assistant.types import Usage
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation.budget import Ledger, add_usage
from turnmark.evaluation.synth.attempt import JUDGE, WRITER, Synthesis
from turnmark.evaluation.synth.folder import ITEMS, REJECTS, SynthFolder, SynthItem, SynthManifest
from turnmark.evaluation.synth.source import Source


class Report(Record):
    """What `--json` prints of a synthesis."""

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


def own_judge(manifest: SynthManifest) -> tuple[str, ...]:
    """A note if the model that filtered is the one that wrote."""
    if manifest.specs.get("judge") != manifest.specs.get("generator"):
        return ()
    return ("the judge is the model that wrote the data; --judge names another",)


def write_outputs(
    synthesis: Synthesis,
    folder: SynthFolder,
    source: Source,
    *,
    notes: Sequence[str] = (),
    seconds: float = 0.0,
    usage: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Report:
    """Write the benchmark's files from `items.jsonl`, and count `rejects.jsonl`.

    Raises:
        RequestError: an item has not what its synthesis gives it.
    """
    path, manifest = folder.path, folder.manifest
    items = sorted(folder.items(), key=lambda item: (item.seed, item.id))
    (path / REJECTS).touch()
    try:
        exported = synthesis.export(path, items, source)
    except (KeyError, TypeError) as error:
        raise RequestError(
            f"{ITEMS} in {str(path)!r}: an item is not as synth {synthesis.name} makes it ({error})"
        ) from error
    counts = Counter((reject.stage, reject.reason) for reject in folder.rejects())
    filters: dict[str, dict[str, int]] = {}
    for (stage, reason), count in sorted(counts.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1])):
        filters.setdefault(stage, {})[reason] = count
    return Report(
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
            *_cut(items),
            *exported.notes,
        ),
    )


def usage_of(folder: SynthFolder, ledger: Ledger) -> dict[str, dict[str, float | None]]:
    """Role -> calls, tokens and cost of all calls of the command, as the attempts' lines add up."""
    total: dict[str, Usage] = {}
    for key in list(folder.samples.keys()):
        sample = folder.samples.get(key)
        total = add_usage(total, sample.usage if sample else {})
    priced = ledger.priced(total)
    return {role: priced[role].model_dump() for role in dict.fromkeys((WRITER, JUDGE, *total)) if role in total}


def _cut(items: Sequence[SynthItem]) -> tuple[str, ...]:
    count = sum(bool(item.notes) for item in items)
    note = f"{count} of {len(items)} items: a prompt was cut to what the model takes ('notes' in {ITEMS})"
    return (note,) if count else ()
