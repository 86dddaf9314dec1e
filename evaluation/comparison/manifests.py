"""What compared runs differ in: what is being compared, what makes it hard to compare, and what makes it nonsense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import ComparedRun
from turnmark.evaluation.report.tables import data_name

_SUBSET = ("limit", "sample", "only", "counterfactual")
_ASPECTS = frozenset(("benchmark", "task", "data", "setting", "domains", "corpora", "repeat", "seed", *_SUBSET))
"""Fields of a manifest that are no part of the system."""
_SHORT = 12  # characters of a checksum that identify it


class Reason(Record):
    """Why two runs are not comparable."""

    aspect: str
    run: str
    why: str


def check_comparable(runs: Sequence[ComparedRun]) -> None:
    """Refuse what cannot be compared at all."""
    errors = ErrorCollector()
    first, *other_runs = runs
    for run in other_runs:
        for aspect, ours, theirs in zip(("benchmark", "task", "data"), _kind(first), _kind(run), strict=True):
            if ours != theirs:
                errors.add(f"RUN {str(run.path)!r}: {aspect} {theirs}, but {ours} in {str(first.path)!r}")
        if not first.domains.keys() & run.domains.keys():
            errors.add(
                f"RUN {str(run.path)!r} has no sample in common with {str(first.path)!r} "
                f"({len(run.domains)} and {len(first.domains)} samples)"
            )
        elif not {*first.metrics(scored=True)} & {*run.metrics(scored=True)}:
            errors.add(f"RUN {str(run.path)!r} has no metric in common with {str(first.path)!r}")
    if not errors.problems and not set.intersection(*(set(run.domains) for run in runs)):
        errors.add("RUN: there is no sample that all of these runs have; compare fewer at once")
    errors.raise_all()


def _kind(run: ComparedRun) -> tuple[str, str, str]:
    manifest = run.manifest
    return manifest.benchmark, manifest.task, "the demo split" if manifest.data.demo else "the benchmark's own"


def find_reasons(runs: Sequence[ComparedRun]) -> list[Reason]:
    """Why the others are not comparable with the first, as runs; `metric_reason` has those of single metrics."""
    first, *other_runs = runs
    return [
        Reason(aspect=aspect, run=run.letter, why=f"{aspect}: {why}")
        for run in other_runs
        for aspect, why in _aspects(first, run)
        if why
    ]


def _aspects(first: ComparedRun, run: ComparedRun) -> Iterator[tuple[str, str]]:
    """Aspect and difference; empty if there is none."""
    a, b = first.letter, run.letter
    mine, theirs = first.manifest, run.manifest

    def differ(name: str, ours: str, others: str) -> str:
        return f"{name}{ours or 'none'} in {a}, {others or 'none'} in {b}" if ours != others else ""

    if mine.data.fingerprint != theirs.data.fingerprint:
        checksums = f"{_shorten(mine.data.fingerprint)}, {_shorten(theirs.data.fingerprint)}"
        names = f"{data_name(first.summary)} in {a}, {data_name(run.summary)} in {b}"
        yield "data", f"other files were read ({names}; {checksums})"
    yield "setting", differ("", mine.setting or "", theirs.setting or "")
    if set(mine.domains) != set(theirs.domains):
        yield "domains", differ("", ", ".join(mine.domains), ", ".join(theirs.domains))
    subset = [
        f"{name} {_show(getattr(mine, name))} in {a}, {_show(getattr(theirs, name))} in {b}"
        for name in _SUBSET
        if getattr(mine, name) != getattr(theirs, name)
    ]
    if mine.sample and theirs.sample:
        subset.append(differ("drawn by seed ", str(mine.seed), str(theirs.seed)))
    missing = len(first.domains.keys() ^ run.domains.keys())
    if mine.domains == theirs.domains and missing and not any(subset):
        subset.append(f"{missing} samples are in one of {a} and {b} alone")
    yield "subset", "; ".join(filter(None, subset))
    documents = [
        f"{domain}: {mine.corpora[domain].passages:,} passages in {a}, {theirs.corpora[domain].passages:,} in {b}"
        for domain in sorted(mine.corpora.keys() & theirs.corpora.keys())
        if mine.corpora[domain].sha256 != theirs.corpora[domain].sha256
    ]
    if documents:
        yield "documents", f"other passages were searched ({'; '.join(documents)})"
    judges = [
        differ(f"{name} ", _shorten(str(earlier)), _shorten(str(later)))
        for name, earlier, later in _flat_differences(first, run)
        if _is_of_judge(name)
    ]
    panels, other_panels = first.summary.judging, run.summary.judging
    judges += [
        differ(f"{name} ", ", ".join(panels[name].judges), ", ".join(other_panels[name].judges))
        for name in panels
        if name in other_panels
    ]
    yield "judge", "; ".join(filter(None, judges))


def metric_reason(runs: Sequence[ComparedRun], metric: str) -> str | None:
    """Why a metric of these runs is not the same metric, if it is not: something else measured it."""
    first, *other_runs = runs
    instruments = first.by.get(metric, ())
    differences = [
        f"measured by {', '.join(instruments)} in {first.letter}, by {', '.join(theirs)} in {run.letter}"
        for run in other_runs
        if (theirs := run.by.get(metric, ())) != instruments
    ]
    return f"metric: {'; '.join(differences)}" if differences else None


def list_differences(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """In what the systems differ: `specs.generator` -> its value in each run; `-` if a run has none."""
    names = dict.fromkeys(
        name for run in runs[1:] for name, _, _ in _flat_differences(runs[0], run) if not _is_of_judge(name)
    )
    manifests = [_flatten(run) for run in runs]
    return {name: [_show(flat.get(name)) for flat in manifests] for name in names}


def note_versions(runs: Sequence[ComparedRun]) -> list[str]:
    """A note on runs that were scored by other versions, for a metric may have changed between them."""
    first, *other_runs = runs
    return [
        f"{first.letter} and {run.letter} were made by other versions of Turnmark "
        f"({first.manifest.version}, {run.manifest.version}); score both again to be sure of the metrics"
        for run in other_runs
        if run.manifest.version != first.manifest.version
    ]


def _flat_differences(first: ComparedRun, run: ComparedRun) -> Iterator[tuple[str, object, object]]:
    mine, theirs = _flatten(first), _flatten(run)
    for name in dict.fromkeys((*mine, *theirs)):
        if mine.get(name) != theirs.get(name):
            yield name, mine.get(name), theirs.get(name)


def _flatten(run: ComparedRun) -> dict[str, object]:
    """What of a manifest is the system's: `specs.query`, `prompts.answer`; checksums cut short."""
    fields: dict[str, object] = {}
    for name, value in run.manifest.identity.items():
        if name in _ASPECTS:
            continue
        if isinstance(value, dict):
            cut = name in ("prompts", "inputs")
            fields |= {f"{name}.{key}": _shorten(str(inner)) if cut else inner for key, inner in value.items()}
        else:
            fields[name] = value
    return fields


def _is_of_judge(name: str) -> bool:
    return "judge" in name.partition(".")[2].casefold()


def _show(value: object) -> str:
    if value is None or value == () or value == "":
        return "-"
    return f"{len(value)} ids" if isinstance(value, tuple | list) else str(value)


def _shorten(checksum: str) -> str:
    return checksum[:_SHORT] if len(checksum) == 64 else checksum
