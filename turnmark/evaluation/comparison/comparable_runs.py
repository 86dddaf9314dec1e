"""Load runs for a comparison: scores by metric and sample, facts of the samples, and differences between manifests."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import Record
from turnmark.evaluation.records import RunManifest, Score, Summary
from turnmark.evaluation.report.finished_runs import distinct_names, read_one, samples, score_lines
from turnmark.evaluation.report.tables import data_name
from turnmark.evaluation.scores.score_tally import FACTS_FILE, Facts, read_facts

_SUBSET_FIELDS = ("limit", "sample", "only", "counterfactual")
_ASPECT_FIELDS = frozenset(
    ("benchmark", "task", "data", "setting", "domains", "corpora", "repeat", "seed", *_SUBSET_FIELDS)
)
"""Fields of a manifest that do not belong to the system."""
_CHECKSUM_CHARACTERS = 12  # characters shown of a checksum


class ScoreSums(NamedTuple):
    """The scores of a sample in a metric, summed over the repeats.

    Attributes:
        total: of weight * value.
        scored: number of lines with a score.
        counted: number of lines that are scored or not applicable.
        failed: number of lines that failed.
    """

    total: float = 0.0
    weight: float = 0.0
    scored: int = 0
    counted: int = 0
    failed: int = 0

    def plus(self, score: Score) -> ScoreSums:
        """Return the sums with another score."""
        scored, failed = score.status == "scored", score.status == "failed"
        return ScoreSums(
            self.total + (score.value or 0.0) * score.weight,
            self.weight + score.weight * scored,
            self.scored + scored,
            self.counted + (not failed),
            self.failed + failed,
        )


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A finished run with all its scores.

    Attributes:
        letter: label of the run in tables: A for the first.
        sums: metric -> task id -> scores, in the order of the file.
        by: metric -> instruments that measured it, sorted.
        domains: task id -> domain, in the order of the predictions.
        skipped: ids of tasks that were never tried.
        failed: ids of tasks without an answer.
        facts: task id -> facts, or None if the run has no readable file of facts.
    """

    letter: str
    name: str
    path: Path
    manifest: RunManifest
    summary: Summary
    sums: Mapping[str, Mapping[str, ScoreSums]]
    by: Mapping[str, tuple[str, ...]]
    domains: Mapping[str, str | None]
    skipped: frozenset[str]
    failed: frozenset[str]
    facts: Mapping[str, Facts] | None

    def metrics(self, scored: bool = False) -> list[str]:
        """Return the metrics of the run's samples in the order of the file; `scored`: only those with a score."""
        return [name for name, sums in self.sums.items() if not scored or any(one.scored for one in sums.values())]

    def measures(self, metric: str) -> bool:
        """Return whether the run has this metric of its samples and a mean of it."""
        return metric in self.by and metric in self.summary.metrics

    def values(self, metric: str) -> dict[str, float]:
        """Return task id -> mean over the scored repeats."""
        return {name: one.total / one.weight for name, one in self.sums.get(metric, {}).items() if one.weight > 0}


class Reason(Record):
    """Why two runs are not comparable."""

    aspect: str
    run: str
    why: str


def load_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """Load the runs of these folders, with the letters A, B, C and so on.

    Raises:
        RequestError: a folder is no finished run, or the runs cannot be compared.
    """
    errors = ErrorCollector()
    if len(paths) < 2:
        errors.add("RUN: a single run cannot be compared; name two or more")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        errors.add("RUN: a run is named twice; name different runs")
    letters = map(chr, count(ord("A")))
    loaded = [errors.collect(_load, *each) for each in zip(paths, distinct_names(paths), letters, strict=False)]
    runs = [run for run in loaded if run is not None]
    errors.raise_all()
    _check_comparable(runs)
    return runs


def _load(path: Path, name: str, letter: str) -> ComparedRun:
    stored = read_one(path)
    sums: dict[str, dict[str, ScoreSums]] = {}
    instruments: dict[str, set[str]] = {}
    try:
        manifest = RunManifest.model_validate_json((path / "manifest.json").read_bytes())
        for score in score_lines(path):
            of_metric = sums.setdefault(score.metric, {})
            of_metric[score.id] = of_metric.get(score.id, ScoreSums()).plus(score)
            instruments.setdefault(score.metric, set()).add(score.by)
    except (OSError, ValidationError) as error:
        raise RequestError(f"RUN {str(path)!r}: manifest.json cannot be read; score or evaluate again") from error
    if not sums:
        raise RequestError(f"RUN {str(path)!r} has no scores in scores.jsonl; score or evaluate again")
    domains, tried, done = dict[str, str | None](), set[str](), set[str]()
    for sample in samples(path):
        domains[sample.id] = sample.domain
        if sample.status != "skipped":
            tried.add(sample.id)
        if sample.status == "done":
            done.add(sample.id)
    return ComparedRun(
        letter=letter,
        name=name,
        path=path,
        manifest=manifest,
        summary=stored.summary,
        sums=sums,
        by={metric: tuple(sorted(by)) for metric, by in instruments.items()},
        domains=domains,
        skipped=frozenset(domains.keys() - tried),
        failed=frozenset(tried - done),
        facts=read_facts(path),
    )


def _check_comparable(runs: Sequence[ComparedRun]) -> None:
    errors = ErrorCollector()
    first, *other_runs = runs
    for run in other_runs:
        for aspect, ours, theirs in zip(("benchmark", "task", "data"), _kind(first), _kind(run), strict=True):
            if ours != theirs:
                errors.add(f"RUN {str(run.path)!r}: {aspect} {theirs}, but {ours} in {str(first.path)!r}")
        if _reads_other_data(first, run):
            ours, theirs = (data.manifest.data.tasks_fingerprint[:_CHECKSUM_CHARACTERS] for data in (first, run))
            errors.add(
                f"RUN {str(run.path)!r}: other data (files {theirs}) than {str(first.path)!r} (files {ours}); answer "
                "or score both over the same files"
            )
        if first.domains.keys().isdisjoint(run.domains):
            errors.add(f"RUN {str(run.path)!r} has no sample in common with {str(first.path)!r}")
        elif not {*first.metrics(scored=True)} & {*run.metrics(scored=True)}:
            errors.add(f"RUN {str(run.path)!r} has no metric in common with {str(first.path)!r}")
    errors.raise_all()


def _reads_other_data(first: ComparedRun, run: ComparedRun) -> bool:
    """Return whether two runs read other files of tasks, although they ask for the same ones."""
    ours, theirs = (
        (tuple(sorted(one.manifest.domains)), one.manifest.counterfactual, one.manifest.data.demo)
        for one in (first, run)
    )
    return ours == theirs and first.manifest.data.tasks_fingerprint != run.manifest.data.tasks_fingerprint


def _kind(run: ComparedRun) -> tuple[str, str, str]:
    manifest = run.manifest
    return manifest.benchmark, manifest.task, "the demo split" if manifest.data.demo else "the benchmark's own"


def merge_facts(runs: Sequence[ComparedRun], ids: Sequence[str]) -> dict[str, Facts]:
    """Return the facts of the samples with these ids, each from the first run that has them.

    Raises:
        RequestError: the facts of a sample are in none of the runs.
    """
    merged = ChainMap(*(dict(run.facts or {}) for run in runs))
    if all(name in merged for name in ids):
        return {name: merged[name] for name in ids}
    incomplete = [run for run in runs if not all(name in (run.facts or {}) for name in ids)]
    raise RequestError([
        f"RUN {str(run.path)!r} does not say which samples belong together ({FACTS_FILE}); "
        f"score it again: turnmark score {run.manifest.benchmark} --predictions {run.path}"
        for run in incomplete
    ])  # fmt: skip


# --- differences between runs ----------------------------------------------------------------------------------------


def find_reasons(runs: Sequence[ComparedRun]) -> Iterator[Reason]:
    """Yield why runs are not comparable with the first one; for single metrics see `metric_reason`."""
    first, *other_runs = runs
    for run in other_runs:
        ours, theirs = _aspects(first, run), _aspects(run, first)
        differing = {
            aspect: f"{ours[aspect] or 'none'} in {first.letter}, {theirs[aspect] or 'none'} in {run.letter}"
            for aspect in ours
            if ours[aspect] != theirs[aspect]
        }
        only_in_one = len(first.domains.keys() ^ run.domains.keys())
        if only_in_one and not {"domains", "subset"} & differing.keys():
            differing["subset"] = f"{only_in_one} samples are in only one of {first.letter} and {run.letter}"
        for aspect, difference in differing.items():
            yield Reason(aspect=aspect, run=run.letter, why=f"{aspect}: {difference}")


def _aspects(run: ComparedRun, other: ComparedRun) -> dict[str, str]:
    """Return aspect -> description, of all aspects that must be the same in a run and another one."""
    manifest = run.manifest
    data = ""
    files = manifest.data.tasks_fingerprint  # another query mode reads other files of queries
    if files != other.manifest.data.tasks_fingerprint:
        data = f"{data_name(run.summary)} (files {files[:_CHECKSUM_CHARACTERS]})"
    subset = [f"{name} {_show(value)}" for name in _SUBSET_FIELDS if (value := getattr(manifest, name))]
    if manifest.sample:
        subset.append(f"seed {manifest.seed}")
    shared = {name: corpus for name, corpus in sorted(manifest.corpora.items()) if name in other.manifest.corpora}
    documents = [
        f"{name} {corpus.passages:,} passages ({corpus.sha256[:_CHECKSUM_CHARACTERS]})"
        for name, corpus in shared.items()
    ]
    judges = {name: _show(value) for name, value in _flatten(run).items() if _is_of_judge(name)}
    panels = run.summary.judging.items()
    judges |= {metric: ", ".join(panel.judges) for metric, panel in panels if metric in other.summary.judging}
    return {
        "data": data,
        "setting": manifest.setting or "",
        "domains": ", ".join(sorted(manifest.domains)),
        "subset": ", ".join(subset),
        "documents": "; ".join(documents),
        "judge": "; ".join(f"{name} {text}" for name, text in judges.items()),
    }


def metric_reason(runs: Sequence[ComparedRun], metric: str) -> str | None:
    """Return why a metric is not the same in these runs, because the instruments differ, or None if it is the same."""
    first, *other_runs = runs
    instruments = first.by.get(metric, ())
    differences = [
        f"measured by {', '.join(instruments)} in {first.letter}, by {', '.join(others)} in {run.letter}"
        for run in other_runs
        if (others := run.by.get(metric, ())) != instruments
    ]
    return f"metric: {'; '.join(differences)}" if differences else None


def list_differences(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """Return the fields in which the systems differ: `specs.generator` -> its value in each run, `-` for none."""
    manifests = [_flatten(run) for run in runs]
    names = dict.fromkeys(name for fields in manifests for name in fields)
    values_of = {name: [_show(fields.get(name)) for fields in manifests] for name in names if not _is_of_judge(name)}
    return {name: values for name, values in values_of.items() if len(set(values)) > 1}


def _flatten(run: ComparedRun) -> dict[str, object]:
    """Return the fields of a manifest that belong to the system, nested ones as `specs.query`, `prompts.answer`."""
    fields: dict[str, object] = {}
    for name, value in run.manifest.identity.items():
        if name in _ASPECT_FIELDS:
            continue
        if isinstance(value, dict):
            fields |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            fields[name] = value
    # The specs and the hashes of the prompts contain these.
    for name in ("index", "generator", "retriever", "embedder", "steps", "prompts"):
        fields.pop(f"assistant.{name}", None)
    return fields


def _is_of_judge(name: str) -> bool:
    return "judge" in name.partition(".")[2].casefold()


def _show(value: object) -> str:
    """Format a value of a manifest; a checksum is shortened."""
    if isinstance(value, tuple | list):
        return f"{len(value)} ids" if value else "-"
    text = "-" if value is None or value == "" else str(value)
    return text[:_CHECKSUM_CHARACTERS] if len(text) == 64 else text
