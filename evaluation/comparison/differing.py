"""What two runs differ in: what is being compared, what makes them hard to compare, and what makes them nonsense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import Run
from turnmark.evaluation.report.tables import data_name
from turnmark.evaluation.rundir import identity

_SUBSET = ("limit", "sample", "only", "counterfactual")
_ASPECTS = frozenset(("benchmark", "task", "data", "setting", "domains", "corpora", "repeat", "seed", *_SUBSET))
"""Fields of a manifest that are no part of the system."""
_SHORT = 12  # characters of a checksum that tell it from another


class Reason(Record):
    """Why two runs are not comparable as they stand."""

    aspect: str
    run: str
    why: str


def check(runs: Sequence[Run]) -> None:
    """Refuse what cannot be compared at all.

    Raises:
        RequestError: every reason: another benchmark or task, the demo beside real data, no samples in common.
    """
    errors = ErrorCollector()
    first, *other_runs = runs
    for run in other_runs:
        for aspect, mine, theirs in (
            ("benchmark", first.manifest.benchmark, run.manifest.benchmark),
            ("task", first.manifest.task, run.manifest.task),
            ("data", _demo(first), _demo(run)),
        ):
            if mine != theirs:
                errors.add(f"RUN {str(run.path)!r}: {aspect} {theirs}, but {mine} in {str(first.path)!r}")
        if not first.domains.keys() & run.domains.keys():
            errors.add(
                f"RUN {str(run.path)!r} has no sample in common with {str(first.path)!r} "
                f"({len(run.domains)} and {len(first.domains)} samples)"
            )
        elif not _measured(first) & _measured(run):
            errors.add(f"RUN {str(run.path)!r} has no metric in common with {str(first.path)!r}")
    if not errors.problems and not set.intersection(*(set(run.domains) for run in runs)):
        errors.add("RUN: there is no sample that all of these runs have; compare fewer at once")
    errors.raise_all()


def _demo(run: Run) -> str:
    return "the demo split" if run.manifest.data.demo else "the benchmark's own"


def _measured(run: Run) -> set[str]:
    return {name for name, cells in run.cells.items() if any(cell.scored for cell in cells.values())}


def reasons(runs: Sequence[Run]) -> list[Reason]:
    """Why the others are not comparable with the first, over the whole of a run; metrics have reasons of their own."""
    first, *other_runs = runs
    return [
        Reason(aspect=aspect, run=run.letter, why=f"{aspect}: {why}")
        for run in other_runs
        for aspect, why in _aspects(first, run)
    ]


def _aspects(first: Run, run: Run) -> Iterator[tuple[str, str]]:
    mine, theirs = first.manifest, run.manifest
    a, b = first.letter, run.letter
    if mine.data.fingerprint != theirs.data.fingerprint:
        names = f"{data_name(first.summary)} in {a}, {data_name(run.summary)} in {b}"
        yield (
            "data",
            f"other files were read ({names}; {_short(mine.data.fingerprint)}, {_short(theirs.data.fingerprint)})",
        )
    if mine.setting != theirs.setting:
        yield "setting", f"{mine.setting or 'none'} in {a}, {theirs.setting or 'none'} in {b}"
    if set(mine.domains) != set(theirs.domains):
        yield "domains", f"{', '.join(mine.domains) or 'none'} in {a}, {', '.join(theirs.domains) or 'none'} in {b}"
    subset = [
        f"{name} {_said(getattr(mine, name))} in {a}, {_said(getattr(theirs, name))} in {b}"
        for name in _SUBSET
        if getattr(mine, name) != getattr(theirs, name)
    ]
    if mine.sample and theirs.sample and mine.seed != theirs.seed:
        subset.append(f"drawn by seed {mine.seed} in {a}, {theirs.seed} in {b}")
    if mine.domains == theirs.domains and (missing := len(first.domains.keys() ^ run.domains.keys())) and not subset:
        subset.append(f"{missing} samples are in one of {a} and {b} alone")
    if subset:
        yield "subset", "; ".join(subset)
    documents = [
        f"{domain}: {mine.corpora[domain].passages:,} passages in {a}, {theirs.corpora[domain].passages:,} in {b}"
        for domain in sorted(mine.corpora.keys() & theirs.corpora.keys())
        if mine.corpora[domain].sha256 != theirs.corpora[domain].sha256
    ]
    if documents:
        yield "documents", f"other passages were searched ({'; '.join(documents)})"
    judges = [
        f"{name} {_short(str(earlier))} in {a}, {_short(str(later))} in {b}"
        for name, earlier, later in _flat_differences(first, run)
        if _of_a_judge(name)
    ]
    judges += [
        f"{name} {_judges(first, name)} in {a}, {_judges(run, name)} in {b}"
        for name in first.summary.judging
        if name in run.summary.judging and _judges(first, name) != _judges(run, name)
    ]
    if judges:
        yield "judge", "; ".join(judges)


def _judges(run: Run, metric: str) -> str:
    """The judges of a metric."""
    return ", ".join(run.summary.judging[metric].judges)


def metric_reason(runs: Sequence[Run], metric: str) -> str | None:
    """Why a metric of these runs is not the same metric, if it is not: something else measured it."""
    first, *other_runs = runs
    instruments = first.by.get(metric, ())
    differences = [
        f"measured by {', '.join(instruments)} in {first.letter}, by {', '.join(theirs)} in {run.letter}"
        for run in other_runs
        if (theirs := run.by.get(metric, ())) != instruments
    ]
    return f"metric: {'; '.join(differences)}" if differences else None


def compared(runs: Sequence[Run]) -> dict[str, list[str]]:
    """What of the systems differs: `specs.generator` -> its value in each run; `-` where a run has none."""
    names = dict.fromkeys(
        name for run in runs[1:] for name, _, _ in _flat_differences(runs[0], run) if not _of_a_judge(name)
    )
    flats = [_flat(run) for run in runs]
    return {name: [_said(flat.get(name)) for flat in flats] for name in names}


def versions(runs: Sequence[Run]) -> list[str]:
    """A note where runs were scored by other versions, for a metric may have changed between them."""
    first, *other_runs = runs
    return [
        f"{first.letter} and {run.letter} were made by other versions of Turnmark "
        f"({first.manifest.version}, {run.manifest.version}); score both again to be sure of the metrics"
        for run in other_runs
        if run.manifest.version != first.manifest.version
    ]


def _flat_differences(first: Run, run: Run) -> Iterator[tuple[str, object, object]]:
    mine, theirs = _flat(first), _flat(run)
    for name in dict.fromkeys((*mine, *theirs)):
        if mine.get(name) != theirs.get(name):
            yield name, mine.get(name), theirs.get(name)


def _flat(run: Run) -> dict[str, object]:
    """What of a manifest is the system's: `specs.query`, `prompts.answer`; checksums cut short."""
    fields: dict[str, object] = {}
    for name, value in identity(run.manifest).items():
        if name in _ASPECTS:
            continue
        if isinstance(value, dict):
            cut = name in ("prompts", "inputs")
            fields |= {f"{name}.{key}": _short(str(inner)) if cut else inner for key, inner in value.items()}
        else:
            fields[name] = value
    return fields


def _of_a_judge(name: str) -> bool:
    return "judge" in name.partition(".")[2].casefold()


def _said(value: object) -> str:
    if value is None or value == () or value == "":
        return "-"
    if isinstance(value, tuple | list):
        return f"{len(value)} ids"
    return str(value)


def _short(checksum: str) -> str:
    return checksum[:_SHORT] if len(checksum) == 64 else checksum
