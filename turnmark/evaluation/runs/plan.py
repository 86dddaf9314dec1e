"""Plans of `turnmark eval` and `turnmark score`: check a request completely before anything is built or written.

`eval` answers items of the data; `score` uses the answers of another system or of an earlier run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.tracing import tracing_by_environment
from turnmark.assistant.llm.generators.replay import ReferenceGenerator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.assistant.turn.step_forms import ModelProfile, forms_for
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import file_sha256
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.runs.sample_scheduler import DEFAULT_DEADLINE, AnswerItem, Limits
from turnmark.evaluation.runs.scoring import now
from turnmark.evaluation.storage.corpus_passages import FirstPassages
from turnmark.evaluation.storage.predictions import Answers
from turnmark.evaluation.storage.run_folder import (
    check_folder,
    default_folder,
    package_versions,
    stored_manifest,
    version_of,
)
from turnmark.evaluation.tasks.data_notes import data_notes
from turnmark.evaluation.tasks.registry import find_task, setting_of, task_of
from turnmark.evaluation.tasks.request import EvalRequest, allowed_failures, describe_selection, select, select_items
from turnmark.evaluation.tasks.task import Task

if TYPE_CHECKING:
    from turnmark.assistant.llm.calls.protocols import Generator
    from turnmark.assistant.types import Usage
    from turnmark.retrieval.types import Retriever

AnswererOpener = Callable[[Task], AbstractContextManager[AnswerItem]]
RUN_FILES = ("predictions.jsonl", "run.trec")
"""Files of a run's folder that can be scored again."""
SELECTION_OPTIONS = ("limit", "sample", "only", "seed")
"""Options that select a part of the data."""
SHORT_HASH_DIGITS = 8
"""Digits of a SHA-256 that distinguish files of answers with the same name."""


@dataclass(frozen=True)
class CheckedSpecs:
    """The opened generator, the hashes of its prompts, and the specs of retriever and embedder in normal form."""

    generator: Generator | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    retriever: str = ""
    embedder: str = ""


@dataclass(frozen=True)
class Plan:
    """A checked request: what will be done, and the folder for the results.

    Attributes:
        task: the opened task, without an assistant.
        domain_of_id: item id -> domain, for all items of the requested domains in the order of the data.
        chosen: ids of the selected items; None: all of them.
        answers: the answers to score; None: items are answered.
        elsewhere: usage of other runs on the same budget.
        answering: opens another way to answer than the task in this process, such as Ray workers.
        open_corpus: name of a corpus -> its retriever and the fingerprint of its index; None: the index of its passage
            file, which is built if it is missing.
    """

    request: EvalRequest
    task: Task
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    began: float
    domain_of_id: Mapping[str, str | None]
    chosen: frozenset[str] | None = None
    generator: Generator | None = None
    limits: Limits = field(default_factory=Limits)
    answers: Answers | None = None
    elsewhere: Usage | None = None
    answering: AnswererOpener | None = None
    open_corpus: Callable[[str], tuple[Retriever, str]] | None = None

    @property
    def items(self) -> int:
        """Number of selected items."""
        return len(self.domain_of_id if self.chosen is None else self.chosen)

    @property
    def samples(self) -> int:
        """Number of samples of the run: items times repeats."""
        return self.items * self.manifest.repeat

    def assistant(self) -> Assistant:
        """Return the assistant under test, without a retriever; for `score`, one that only embeds."""
        from turnmark.retrieval.embedding.embedders import shared_embedder

        if self.answers is not None:
            return Assistant.from_parts(AssistantConfig(), AssistantParts(embed=shared_embedder(self.request.embedder)))
        embed = shared_embedder(self.manifest.specs["embedder"])
        parts = AssistantParts(generator=self.generator, embed=embed, tracing=tracing_by_environment())
        return Assistant.from_parts(self.request.config(), parts)

    def describe(self) -> dict[str, Any]:
        """Return the output of `--dry-run`: samples, and estimated calls and tokens by role."""
        from turnmark.evaluation.calls.cost_estimates import usage_json

        retrieves = self.task.retrieves
        return {
            "dry_run": True,
            "benchmark": self.manifest.benchmark,
            "task": self.manifest.task,
            "setting": self.manifest.setting,
            "data": self.manifest.data.model_dump(),
            "specs": self.manifest.specs,
            "domains": dict(Counter(self.domain_of_id.values())) if retrieves else list(self.manifest.domains),
            "n": self.samples,
            "estimated": usage_json(self.estimate()),
            "run": str(self.folder),
            "notes": [*self.notes, *self._about_tools()],
        }

    def _about_tools(self) -> tuple[str, ...]:
        """A note that the estimate leaves out further searches with tools, whose number is not known in advance."""
        from turnmark.assistant.steps.agent.search_agent import MAX_ROUNDS, RESULTS_FACTOR

        config = self.request.config()
        with_tools = Assistant.from_parts(config, AssistantParts(generator=self.generator)).forms["retrieve"] == "agent"
        searches = self.manifest.specs.get("query") == "assistant" and not self.task.retrieves
        if not (with_tools and searches and self.task.protocol == "turn"):
            return ()
        return (
            "the estimate is for samples that are answered at once; one that searches further with tools "
            f"(retrieve=agent) makes up to {MAX_ROUNDS} more calls, each with all earlier messages, and reads up to "
            f"{RESULTS_FACTOR * config.tokens:,} tokens of results",
        )

    def estimate(self) -> dict[str, Usage]:
        """Estimate calls and tokens by role, from prompts with passages of the corpus."""
        generator = self.generator
        if generator is None or isinstance(generator, ReferenceGenerator):
            return {}
        from turnmark.evaluation.calls.cost_estimates import counting_like, estimate_items

        retrievers: dict[str, Retriever] = {name: FirstPassages(path) for name, path in self.task.corpora.items()}
        assistant = Assistant.from_parts(self.request.config(), AssistantParts(generator=generator))
        task = self.task.using(assistant, retrievers)
        items = select_items(task.items(), self.chosen)
        counting = counting_like(generator)
        return estimate_items(items, self.samples, lambda item: task.answer(item, counting).usage)

    def mean_sample(self) -> Usage:
        """Return the estimated usage of one sample."""
        from turnmark.assistant.types import Usage

        total = sum(self.estimate().values(), Usage())
        n = max(1, self.samples)
        return Usage(prompt_tokens=total.prompt_tokens // n, completion_tokens=total.completion_tokens // n)


def plan_run(request: EvalRequest) -> Plan:
    """Check a request: the flags, the data and, for `score`, every line of every file of answers.

    Raises:
        RequestError: all mistakes.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    setting = setting_of(request.benchmark, request.setting or _recorded_setting(request, errors), errors, request.task)
    flags = check_specs(request, errors)
    # An unknown task has been reported; the rest of the request is checked with the default task.
    kind = find_task(request.benchmark, request.task) or find_task(request.benchmark, None)
    answers = errors.collect(kind.read, request.predictions, request.benchmark) if kind and request.scoring else None
    task = _open_task(kind, request, setting, request.domains, answers, errors)
    if task is None and request.domains:  # the rest of the request is checked against all domains
        task = _open_task(kind, request, setting, (), answers, ErrorCollector())
    if request.out is not None:
        errors.collect(stored_manifest, request.out, RunManifest)
    domain_of_id, problems, item_count = _read_items(task) if task is not None else ({}, [], 0)
    chosen_ids = list(domain_of_id)
    if task is not None and not request.scoring:
        chosen_ids = _ids_to_answer(request, setting, task, domain_of_id, problems, errors)
    answered = dict.fromkeys(sample.id for sample in answers.samples) if answers is not None else {}
    if answers is not None:
        _check_answers(request, setting, task, answers, answered, domain_of_id, errors)
    errors.raise_all()
    assert task is not None, "errors.raise_all() raised otherwise"
    extra_notes: tuple[str, ...] = ()
    parts: list[RunManifest] = []
    if answers is not None:
        all_domains = task.domains
        task = _of_answered_domains(request, setting, task, answers, answered, domain_of_id)
        extra_notes += tuple(_note_other_data(request, task, all_domains))
        parts = _partial_runs(request)
        chosen_ids = _ids_to_score(request, task, parts, answered, domain_of_id)
        if parts:
            extra_notes += (_note_parts(parts, len(chosen_ids)),)
        extra_notes += tuple(_note_mismatches(request, setting, task, set(answered), chosen_ids))
        if len(parts) == 1:
            request = request.model_copy(update={name: getattr(parts[0], name) for name in SELECTION_OPTIONS})
    extra_notes += tuple(task.note_items(chosen_ids))
    selection = _describe_part(request, task, chosen_ids, domain_of_id, parts)
    manifest = _manifest(request, task.setting, task, flags, answers, selection)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    return Plan(
        request=request,
        task=task,
        manifest=manifest,
        folder=folder,
        notes=(*data_notes(task.data, problems), *task.notes, *extra_notes),
        began=began,
        domain_of_id=domain_of_id,
        chosen=frozenset(chosen_ids) if len(chosen_ids) < item_count else None,
        generator=None if task.batched else flags.generator,
        limits=Limits(
            request.concurrency,
            task.deadline or request.deadline or DEFAULT_DEADLINE,
            allowed_failures(request.max_failures, len(chosen_ids) * request.repeat),
        ),
        answers=answers,
    )


def _ids_to_answer(
    request: EvalRequest,
    setting: str | None,
    task: Task,
    domain_of_id: Mapping[str, str | None],
    problems: Sequence[Problem],
    errors: ErrorCollector,
) -> list[str]:
    """Return the ids that a request selects from the data. Data without items is a mistake."""
    if not domain_of_id:
        first = f"; its first mistake: {problems[0]}" if problems else ""
        errors.add(f"{_in_words(request, setting)}: there is nothing to answer in the data{first}")
    if task.retrieves:  # the task selected its queries when it was opened
        return list(domain_of_id)
    return select(request, list(domain_of_id), errors, task.stratum, task.unit)


def _check_answers(
    request: EvalRequest,
    setting: str | None,
    task: Task | None,
    answers: Answers,
    answered: Mapping[str, None],
    domain_of_id: Mapping[str, str | None],
    errors: ErrorCollector,
) -> None:
    """Check that no repeat is missing, and that at least one id is in the data.

    Args:
        answered: the ids of the answers, in their order.
    """
    repeats = {sample.repeat for sample in answers.samples}
    if repeats and max(repeats) >= len(repeats):
        errors.add(f"--predictions: repeat {max(repeats)} is in the files, but not all of 0 to {max(repeats) - 1}")
    if task is not None and not answered.keys() & domain_of_id.keys():
        errors.add(
            f"--predictions: none of the {len(answered)} ids (the first is {next(iter(answered), '')!r}) is in "
            f"{_in_words(request, setting)} in {task.data.name!r}; are they answers to this data?"
        )


def _of_answered_domains(
    request: EvalRequest,
    setting: str | None,
    task: Task,
    answers: Answers,
    answered: Mapping[str, None],
    domain_of_id: Mapping[str, str | None],
) -> Task:
    """Return the task opened for the requested domains or, without `--domains`, for those with answers.

    Raises:
        RequestError: it cannot be opened for these domains.
    """
    answered_domains = {domain_of_id[name] for name in answered.keys() & domain_of_id.keys()}
    domains = request.domains or tuple(name for name in task.domains if name in answered_domains)
    if domains == task.domains:
        return task
    errors = ErrorCollector()
    reopened = _open_task(type(task), request, setting, domains, answers, errors)
    errors.raise_all()
    return reopened or task


def _ids_to_score(
    request: EvalRequest,
    task: Task,
    parts: Sequence[RunManifest],
    answered: Mapping[str, None],
    domain_of_id: Mapping[str, str | None],
) -> list[str]:
    """Return the ids to score: those of the task's domains that the request and `parts` (see `_parts`) select."""
    ids = [key for key, name in domain_of_id.items() if not task.domains or name in task.domains]
    if request.answered_only:
        ids = [key for key in ids if key in answered]
    if parts:
        of_runs = set.union(*(_ids_of_partial_run(run, task, domain_of_id, answered) for run in parts))
        ids = [key for key in ids if key in of_runs]
    return ids


def _in_words(request: EvalRequest, setting: str | None, domains: Sequence[str] = ()) -> str:
    """Return benchmark, setting and domains, for messages."""
    return " ".join(filter(None, (request.benchmark, setting, f"({', '.join(domains)})" if domains else "")))


def _recorded_setting(request: EvalRequest, errors: ErrorCollector) -> str | None:
    """Return the setting of the runs whose samples are scored; runs of several settings are an error."""
    settings: dict[str | None, Path] = {}
    for path, manifest in zip(request.predictions, _recorded_manifests(request), strict=True):
        if manifest is not None:
            settings.setdefault(manifest.setting, path)
    if len(settings) > 1:
        listed = ", ".join(f"{setting} ({path})" for setting, path in settings.items())
        errors.add(f"--predictions: runs of several settings: {listed}; score them one at a time, or name --setting")
    return next(iter(settings), None)


def _recorded_manifests(request: EvalRequest) -> list[RunManifest | None]:
    """Return the manifest of each run whose samples are scored; None of another system's file."""
    manifests: list[RunManifest | None] = []
    for path in request.predictions:
        folder = path if path.is_dir() else path.parent
        manifest = None
        if path.is_dir() or path.name in RUN_FILES:
            with suppress(OSError, ValidationError):
                manifest = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
        manifests.append(manifest if manifest and manifest.benchmark == request.benchmark else None)
    return manifests


def _partial_runs(request: EvalRequest) -> list[RunManifest]:
    """Return the runs whose samples are scored if each of them selected a part of the data; otherwise none."""
    runs = _recorded_manifests(request)
    taken = [run for run in runs if run is not None and (run.limit or run.sample or run.only)]
    return taken if len(taken) == len(runs) else []


def _ids_of_partial_run(
    run: RunManifest, task: Task, domain_of_id: Mapping[str, str | None], answered: Collection[str]
) -> set[str]:
    """Return the ids that a run selected. Selected ids without an answer are missing; other ids are not.

    If the run answered ids that it would not select from the current data, return the answered ids.
    """
    part = task.request.model_copy(update={name: getattr(run, name) for name in SELECTION_OPTIONS})
    ids = [name for name, domain in domain_of_id.items() if not run.domains or domain in run.domains]
    selection = set(select(part, ids, ErrorCollector(), None if task.retrieves else task.stratum, task.unit))
    return selection if selection.issuperset(answered) else set(answered)


def _describe_part(
    request: EvalRequest,
    task: Task,
    chosen_ids: Sequence[str],
    domain_of_id: Mapping[str, str | None],
    parts: Sequence[RunManifest],
) -> str:
    """Describe the part of the data that a run covers; see `_parts` for `parts`."""
    if len(parts) == 1 and parts[0].selection:
        return parts[0].selection
    in_domains = [name for name, domain in domain_of_id.items() if not task.domains or domain in task.domains]
    available = task.available or len(set(map(task.unit, in_domains)))
    chosen = len(set(map(task.unit, chosen_ids)))
    if len(parts) > 1 and chosen < available:
        return f"{chosen:,} of {available:,}, selected by {len(parts)} runs"
    return describe_selection(request, chosen, available)


def _note_part(run: RunManifest) -> str:
    """Return the flags with which a run selected its part of the data."""
    flags = [f"--{name} {value}" for name in ("limit", "sample") if (value := getattr(run, name))]
    return " ".join([*flags, *(f"--only {name}" for name in run.only[:3]), *["…"] * (len(run.only) > 3)])


def _note_parts(parts: Sequence[RunManifest], count: int) -> str:
    """Return the note that only a part of the data, with this number of tasks, is scored."""
    flags = ", ".join(dict.fromkeys(map(_note_part, parts)))
    return f"made with {flags}: only the {count} tasks of that part are scored"


def _open_task(
    kind: type[Task] | None,
    request: EvalRequest,
    setting: str | None,
    domains: tuple[str, ...],
    answers: Answers | None,
    errors: ErrorCollector,
) -> Task | None:
    """Open the task of a request; None: there were mistakes, which are recorded in `errors`."""
    if kind is None:
        return None
    options = request.options
    if answers is not None:
        options = kind.options_for(options, setting, answers)
    changed = {"domains": domains, "options": options}
    return errors.collect(kind, request.model_copy(update=changed), setting)


def _read_items(task: Task) -> tuple[dict[str, str | None], list[Problem], int]:
    """Read all items.

    Returns:
        Id -> domain for the items of the requested domains, in the order of the data; unreadable rows; the number of
        all items.
    """
    domain_of_id: dict[str, str | None] = {}
    problems: list[Problem] = []
    count = 0
    for item in task.items():
        if isinstance(item, Problem):
            problems.append(item)
            continue
        count += 1
        if not task.domains or item.domain in task.domains:
            domain_of_id[item.id] = item.domain
    return domain_of_id, problems, count


def _note_mismatches(
    request: EvalRequest, setting: str | None, task: Task, answered: set[str], chosen: Sequence[str]
) -> Iterator[str]:
    """Yield notes on queries without a list, and on answers whose ids are not in the data."""
    absent = len(set(chosen) - answered)
    if task.retrieves and absent:
        yield f"{absent} of {len(chosen)} queries have no entry in the run and count as 0"
    unknown = len(answered.difference(chosen))
    if unknown:
        noun = "queries of the run" if task.retrieves else "ids of the predictions"
        yield f"{unknown} {noun} are not in {_in_words(request, setting, task.domains)} and are left out"


def _note_other_data(request: EvalRequest, task: Task, all_domains: Sequence[str]) -> Iterator[str]:
    """Yield notes if a run was made over other data, and if the answers are of some domains only."""
    for path, manifest in zip(request.predictions, _recorded_manifests(request), strict=True):
        same_domains = manifest is not None and set(manifest.domains) == set(task.domains)
        if manifest is not None and same_domains and manifest.data.tasks_fingerprint != task.data.tasks_fingerprint:
            made, here = (
                f"{data.name!r}, {data.tasks_fingerprint[:SHORT_HASH_DIGITS]}" for data in (manifest.data, task.data)
            )
            yield f"{path} was made over other data ({made}) than it is scored with ({here}); its questions may differ"
    others = [name for name in all_domains if name not in task.domains]
    if others and not request.domains:
        yield f"the answers are of {', '.join(task.domains)} only; of {', '.join(others)} nothing is scored"


# --- the manifest ----------------------------------------------------------------------------------------------------


def _manifest(
    request: EvalRequest,
    setting: str | None,
    task: Task,
    flags: CheckedSpecs,
    answers: Answers | None,
    selection: str,
) -> RunManifest:
    from turnmark.retrieval.search.rerankers import reranker_weights

    if answers is not None:
        # The order and the folders of the files do not change a result. Answers of two systems may be in files of the
        # same name, so their content is a part of the spec.
        files = sorted((path.name, file_sha256(path)) for path in answers.paths)
        specs = {"predictions": ", ".join(f"{name} ({content[:SHORT_HASH_DIGITS]})" for name, content in files)}
        if not task.retrieves:
            specs["embedder"] = request.embedder
        inputs = {f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)}
        repeat = 1 + max((sample.repeat for sample in answers.samples), default=0)
        assistant = None
    else:
        specs, repeat = _specs(request, task, flags), request.repeat
        inputs = dict(task.inputs)
        digest = reranker_weights(flags.retriever) if task.searched else None
        if digest:
            inputs["reranker"] = digest
        assistant = None if task.batched else _measured_config(request, task, flags, specs)
    return RunManifest(
        benchmark=request.benchmark,
        task=task_of(request.benchmark, request.task),
        setting=setting,
        specs=specs,
        assistant=assistant,
        prompts=dict(flags.prompts if task.prompts is None else task.prompts),
        inputs=inputs,
        data=task.data,
        domains=task.domains,
        corpora=dict(task.corpora_used),
        limit=request.limit,
        sample=request.sample,
        repeat=repeat,
        counterfactual=task.counterfactual,
        only=tuple(sorted(set(request.only))),
        selection=selection,
        seed=request.seed,
        version=version_of("turnmark"),
        versions=package_versions(_packages(request, task, flags)),
        command=request.command,
        started=now(),
    )


def _measured_config(
    request: EvalRequest, task: Task, flags: CheckedSpecs, specs: Mapping[str, str]
) -> AssistantConfig:
    """Return the configuration under test, with specs in normal form and the number of passages.

    It leaves out the folder of prompts; the manifest has their hashes.
    """
    changed = {
        "generator": specs.get("generator", "extractive"),
        "retriever": specs.get("retriever"),
        "embedder": specs.get("embedder"),
        "steps": tuple(sorted(set(request.assistant.steps))),
        "prompts": None,
    }
    config = request.config().model_copy(update=changed)
    top_k = task.passages or Assistant.from_parts(config, AssistantParts(generator=flags.generator)).top_k
    return config.model_copy(update={"top_k": top_k})


def _specs(request: EvalRequest, task: Task, flags: CheckedSpecs) -> dict[str, str]:
    """Return the specs of the manifest: role -> spec in normal form."""
    from turnmark.assistant.llm.generators.registry import GENERATORS
    from turnmark.core.specs import parse_spec

    if task.retrieves:
        return {"retriever": flags.retriever, "embedder": flags.embedder, **task.specs}
    specs = {"generator": str(GENERATORS.check(request.assistant.generator))}
    if task.searched:
        specs |= {"retriever": flags.retriever}
    specs |= task.specs
    specs["embedder"] = flags.embedder or str(parse_spec(request.embedder))
    if task.protocol != "turn":
        specs["protocol"] = task.protocol
    if request.assistant.steps:
        specs["steps"] = ", ".join(sorted(set(request.assistant.steps)))
    return specs


def _packages(request: EvalRequest, task: Task, flags: CheckedSpecs) -> list[str]:
    """Return the packages whose versions may change a result, besides Turnmark."""
    embeds = not request.scoring and bool(flags.embedder or not task.retrieves)
    packages = ["pytrec_eval-terrier" if task.retrieves else "rapidfuzz", "numpy"]
    if embeds:
        packages += ["sentence-transformers", "torch"]
    if task.searched:
        packages += ["bm25s", "PyStemmer"]
    if task.searched and embeds:
        packages.append("chromadb")
    return packages


# --- specs and budgets -----------------------------------------------------------------------------------------------


def check_specs(request: EvalRequest, errors: ErrorCollector) -> CheckedSpecs:
    """Check the specs, prompts, steps and budget of a request; these checks do not depend on the benchmark."""
    from turnmark.assistant.llm.generators.registry import open_generator
    from turnmark.core.engines import check_engine
    from turnmark.evaluation.calls.cost_estimates import open_ledger
    from turnmark.evaluation.prompts import own_prompts

    errors.collect(check_engine, request.engine)
    if request.scoring:
        return CheckedSpecs()
    prompts = errors.collect(own_prompts, request.assistant.prompts) or {}
    generator = errors.collect(open_generator, request.assistant.generator)
    retriever, embedder = errors.collect(_retriever_specs, request.retriever, request.embedder) or ("", "")
    reader: ModelProfile = "large" if request.asks_model else "none"
    errors.collect(forms_for, reader, request.assistant.steps)
    if request.budget is not None:
        only_judged = bool(request.judge) and not request.asks_model
        if only_judged or errors.collect(open_ledger, request.assistant.generator, request.budget) is not None:
            check_judges_can_spend(request.budget, request.judge, errors)
    if request.assistant.generator.startswith("reference") and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, but no reference answers")
    return CheckedSpecs(generator, prompts if generator is not None else {}, retriever, embedder)


def check_judges_can_spend(budget: str | None, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Check that the judges have prices in the currency of the budget."""
    from turnmark.assistant.config_files import load_prices, parse_budget
    from turnmark.assistant.llm.calls.ledger import price_in
    from turnmark.evaluation.judging.judges import open_judges

    if budget is None:
        return
    limit, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # reported where the judges are checked
        for judge in open_judges(judges):
            if judge.has_model and limit is not None and prices is not None:
                errors.collect(price_in, limit, judge.name, prices)


def _retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Return both specs in normal form; the embedder's is empty if the retriever needs no embedder."""
    from turnmark.retrieval.embedding.embedders import EMBEDDERS
    from turnmark.retrieval.search.retriever_factory import build_settings
    from turnmark.retrieval.search.retriever_kinds import RETRIEVERS

    errors = ErrorCollector()
    settings = errors.collect(build_settings, retriever, embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.raise_all()
    assert settings is not None, "errors.raise_all() raised otherwise"
    return str(RETRIEVERS.check(retriever)), settings.embedder
