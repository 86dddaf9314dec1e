"""Existing answers that `score --predictions` names: which items they cover, and how a run takes them over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.runs.item_selection import DataItems, name_data, open_task
from turnmark.evaluation.runs.plan import CollectedAnswers, Plan
from turnmark.evaluation.storage.predictions import Answers
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.items import missing_sample
from turnmark.evaluation.tasks.request import EvalRequest, select
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.embedding.embedders import shared_embedder

RUN_FILES = ("predictions.jsonl", "run.trec")
"""Files of a run's folder that can be scored again."""
SELECTION_OPTIONS = ("limit", "sample", "only", "seed")
"""Options that select a part of the data."""
SHORT_HASH_DIGITS = 8
"""Digits of a SHA-256 that distinguish files of answers with the same name."""


def read_run_manifests(paths: Sequence[Path]) -> list[RunManifest | None]:
    """Return the manifest of each run whose folder or file is named, or None for a file of another system."""
    manifests: list[RunManifest | None] = []
    for path in paths:
        manifest = None
        if path.is_dir() or path.name in RUN_FILES:
            with suppress(OSError, ValidationError):
                file = (path if path.is_dir() else path.parent) / "manifest.json"
                manifest = RunManifest.model_validate_json(file.read_bytes())
        manifests.append(manifest)
    return manifests


def find_recorded_setting(request: EvalRequest, errors: ErrorCollector) -> str | None:
    """Return the setting of the runs whose samples are scored; runs of several settings are an error."""
    settings: dict[str | None, Path] = {}
    for path, manifest in zip(request.predictions, read_run_manifests(request.predictions), strict=True):
        if manifest is not None and manifest.benchmark == request.benchmark:
            settings.setdefault(manifest.setting, path)
    if len(settings) > 1:
        listed = ", ".join(f"{setting} ({path})" for setting, path in settings.items())
        errors.add(f"--predictions: runs of several settings: {listed}; score them one at a time, or name --setting")
    return next(iter(settings), None)


class StoredAnswers:
    """The answers of another system or of earlier runs. See `AnswerSource`.

    Attributes:
        answers: the answers to score.
        ids: ids of the answered items, in the order of the files.
        runs: the runs that made the answers, or None if the answers are from another system or another benchmark.
        parts: the same runs if each of them selected a part of the data, or else an empty list.
    """

    def __init__(self, request: EvalRequest, answers: Answers) -> None:
        self.request, self.answers = request, answers
        self.ids = dict.fromkeys(sample.id for sample in answers.samples)
        runs = read_run_manifests(request.predictions)
        self.runs = [run if run is not None and run.benchmark == request.benchmark else None for run in runs]
        partial = [run for run in self.runs if run is not None and (run.limit or run.sample or run.only)]
        self.parts = partial if len(partial) == len(runs) else []

    def check(self, task: Task | None, items: DataItems, errors: ErrorCollector) -> None:
        """Check that no repeat is missing, and that at least one id is in the data."""
        repeats = {sample.repeat for sample in self.answers.samples}
        if repeats and max(repeats) >= len(repeats):
            errors.add(f"--predictions: repeat {max(repeats)} is in the files, but not all of 0 to {max(repeats) - 1}")
        if task is not None and not self.ids.keys() & items.domains.keys():
            errors.add(
                f"--predictions: none of the {len(self.ids)} ids (the first is {next(iter(self.ids), '')!r}) is in "
                f"{name_data(task)} in {task.data.name!r}; are they answers to this data?"
            )

    def narrow(self, task: Task, items: DataItems) -> Task:
        """Return the task opened for the requested domains or, without `--domains`, for those with answers.

        Raises:
            RequestError: it cannot be opened for these domains.
        """
        answered_domains = {items.domains[name] for name in self.ids.keys() & items.domains.keys()}
        domains = self.request.domains or tuple(name for name in task.domains if name in answered_domains)
        if domains == task.domains:
            return task
        return open_task(type(task), self.request, task.setting, domains, self.answers)

    def ids_to_score(self, task: Task, items: DataItems) -> list[str]:
        """Return the ids to score: those of the task's domains that the request and `parts` select."""
        ids = [name for name, domain in items.domains.items() if not task.domains or domain in task.domains]
        if self.request.answered_only:
            ids = [name for name in ids if name in self.ids]
        if self.parts:
            in_parts = set.union(*(self._ids_of_part(run, task, items) for run in self.parts))
            ids = [name for name in ids if name in in_parts]
        return ids

    def _ids_of_part(self, run: RunManifest, task: Task, items: DataItems) -> set[str]:
        """Return the ids that a run selected. Selected ids without an answer are missing; other ids are not.

        If the run answered ids that it would not select from the current data, return the answered ids.
        """
        part = _with_selection(task.request, run)
        ids = [name for name, domain in items.domains.items() if not run.domains or domain in run.domains]
        selected = set(select(part, ids, ErrorCollector(), None if task.retrieves else task.stratum, task.unit))
        return selected if selected.issuperset(self.ids) else set(self.ids)

    def with_selection(self, request: EvalRequest) -> EvalRequest:
        """Return the request with the selection of the run whose samples are scored, if there is one."""
        return _with_selection(request, self.parts[0]) if len(self.parts) == 1 else request

    def notes(self, task: Task, all_domains: Sequence[str], chosen: Sequence[str]) -> Iterator[str]:
        """Yield notes on answers to other data, on the part that is scored, and on missing and unknown ids.

        Args:
            all_domains: the domains of the data.
            chosen: the ids to score.
        """
        yield from self.answers.notes
        for path, run in zip(self.request.predictions, self.runs, strict=True):
            if run is None or set(run.domains) != set(task.domains):
                continue
            if run.data.tasks_fingerprint != task.data.tasks_fingerprint:
                made, here = (
                    f"({data.name!r}, {data.tasks_fingerprint[:SHORT_HASH_DIGITS]})" for data in (run.data, task.data)
                )
                yield f"{path} was made over other data {made} than it is scored with {here}; its questions may differ"
        others = [name for name in all_domains if name not in task.domains]
        if others and not self.request.domains:
            yield f"the answers are of {', '.join(task.domains)} only; of {', '.join(others)} nothing is scored"
        if self.parts:
            flags = ", ".join(dict.fromkeys(map(_selection_flags, self.parts)))
            yield f"made with {flags}: only the {len(chosen)} tasks of that part are scored"
        absent = len(set(chosen) - self.ids.keys())
        if task.retrieves and absent:
            yield f"{absent} of {len(chosen)} queries have no entry in the run and count as 0"
        unknown = len(self.ids.keys() - set(chosen))
        if unknown:
            noun = "queries of the run" if task.retrieves else "ids of the predictions"
            yield f"{unknown} {noun} are not in {name_data(task, task.domains)} and are left out"

    def collect(self, plan: Plan, folder: RunFolder, pending: int) -> CollectedAnswers:  # noqa: ARG002
        """See `AnswerSource.collect`. An item without an answer gets a failed sample or an empty ranked list."""
        task = plan.task.with_embedder(shared_embedder(plan.request.embedder))
        selected_ids = plan.domain_of_id if plan.chosen is None else plan.chosen
        for sample in self.answers.samples:
            if sample.id in selected_ids and not folder.samples.finished(sample.key):
                folder.append(sample.model_copy(update={"domain": plan.domain_of_id[sample.id]}))
        for item in plan.selected(task):
            for repeat in range(plan.manifest.repeat):
                if (item.id, repeat) in folder.samples:
                    continue
                if task.retrieves:
                    folder.append(Sample(id=item.id, status="done", domain=item.domain))
                else:
                    folder.append(missing_sample(item, "the predictions do not contain an answer to it", repeat))
        return CollectedAnswers(task)


def _with_selection(request: EvalRequest, run: RunManifest) -> EvalRequest:
    """Return a request that selects the part of the data that a run selected."""
    return request.model_copy(update={name: getattr(run, name) for name in SELECTION_OPTIONS})


def _selection_flags(run: RunManifest) -> str:
    """Return the flags with which a run selected its part of the data."""
    flags = [f"--{name} {value}" for name in ("limit", "sample") if (value := getattr(run, name))]
    return " ".join([*flags, *(f"--only {name}" for name in run.only[:3]), *["…"] * (len(run.only) > 3)])
