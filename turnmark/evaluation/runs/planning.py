"""Plan a run of `eval` or `score`: check a request completely before anything is built or written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.generators.registry import GENERATORS, open_generator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.assistant.turn.step_forms import ModelProfile, forms_for
from turnmark.core.engines import check_engine
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import file_sha256
from turnmark.core.specs import parse_spec
from turnmark.evaluation.calls.cost_estimates import open_ledger
from turnmark.evaluation.prompts import own_prompts
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.runs.item_selection import DataItems, describe_part, open_task, read_items, select_ids
from turnmark.evaluation.runs.judge_setup import check_judges_can_spend
from turnmark.evaluation.runs.live_answers import BatchSearch, LiveAnswers
from turnmark.evaluation.runs.plan import AnswerSource, Plan
from turnmark.evaluation.runs.sample_scheduler import DEFAULT_DEADLINE, Limits
from turnmark.evaluation.runs.stored_answers import SHORT_HASH_DIGITS, StoredAnswers, find_recorded_setting
from turnmark.evaluation.storage.run_folder import (
    check_folder,
    default_folder,
    now,
    package_versions,
    stored_manifest,
    version_of,
)
from turnmark.evaluation.tasks.data_notes import data_notes
from turnmark.evaluation.tasks.registry import find_task, setting_of, task_of
from turnmark.evaluation.tasks.request import EvalRequest, allowed_failures
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.embedding.embedders import EMBEDDERS
from turnmark.retrieval.search.rerankers import reranker_weights
from turnmark.retrieval.search.retriever_factory import build_settings
from turnmark.retrieval.search.retriever_kinds import RETRIEVERS

PACKAGES = ("pytrec_eval-terrier", "rapidfuzz", "numpy", "openvino", "tokenizers", "bm25s", "PyStemmer")
"""Packages whose versions may change a result, besides Turnmark."""


@dataclass(frozen=True)
class CheckedSpecs:
    """The opened generator, the hashes of its prompts, and the specs of retriever and embedder in normal form."""

    generator: Generator | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    retriever: str = ""
    embedder: str = ""


def plan_run(request: EvalRequest, errors: ErrorCollector | None = None, generator: Generator | None = None) -> Plan:
    """Check a request: the flags, the data and, for `score`, every line of every file of answers.

    Args:
        errors: the mistakes found so far.
        generator: the opened generator of the request, so that a model in this process is loaded only once, or None to
            open it here.

    Raises:
        RequestError: all mistakes, including those in `errors`.
    """
    errors = errors or ErrorCollector()
    # An unknown task has been reported; the rest of the request is checked with the default task.
    kind = find_task(request.benchmark, request.task) or find_task(request.benchmark, None)
    if kind is None:  # an unknown benchmark has been reported; only the specs can be checked
        check_specs(request, errors)
        errors.raise_all()
        raise RequestError(f"no benchmark {request.benchmark!r}")
    return errors.require(_plan, kind, request, generator)


def _plan(kind: type[Task], request: EvalRequest, given: Generator | None) -> Plan:
    began = time.perf_counter()
    errors = ErrorCollector()
    setting = request.setting or find_recorded_setting(request, errors)
    setting = setting_of(request.benchmark, setting, errors, request.task)
    specs = check_specs(request, errors)
    answers = errors.collect(kind.read, request.predictions, request.benchmark) if request.scoring else None
    task = errors.collect(open_task, kind, request, setting, request.domains, answers)
    if task is None and request.domains:  # the rest of the request is checked against all domains
        task = ErrorCollector().collect(open_task, kind, request, setting, (), answers)
    if request.out is not None:
        errors.collect(stored_manifest, request.out, RunManifest)
    items = read_items(task) if task is not None else DataItems({})
    stored = StoredAnswers(request, answers) if answers is not None else None
    if stored is not None:
        stored.check(task, items, errors)
    elif task is not None and not request.scoring:
        chosen = select_ids(task, items, errors)
    errors.raise_all()
    assert task is not None, "errors.raise_all() raised otherwise"
    notes: list[str] = []
    if stored is not None:
        if request.dry_run:
            notes += task.note_files(request.predictions)
        all_domains = task.domains
        task = stored.narrow(task, items)
        chosen = stored.ids_to_score(task, items)
        notes += stored.notes(task, all_domains, chosen)
        request = stored.with_selection(request)
    notes += task.note_items(chosen)
    selection = describe_part(request, task, chosen, items, stored.parts if stored else ())
    manifest = _manifest(request, task, specs, stored, selection)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    return Plan(
        request=request,
        task=task,
        manifest=manifest,
        folder=folder,
        notes=(*data_notes(task.data, items.problems), *task.notes, *notes),
        began=began,
        domain_of_id=items.domains,
        source=stored or _live_source(request, task, len(chosen)),
        chosen=frozenset(chosen) if len(chosen) < items.total else None,
        generator=None if task.batched or specs.generator is None else given or specs.generator,
    )


def _live_source(request: EvalRequest, task: Task, items: int) -> AnswerSource:
    """Return the source of answers of `eval` to a number of items."""
    if task.batched:
        return BatchSearch()
    deadline = task.deadline or request.deadline or DEFAULT_DEADLINE
    return LiveAnswers(
        Limits(request.concurrency, deadline, allowed_failures(request.max_failures, items * request.repeat))
    )


# --- the manifest ----------------------------------------------------------------------------------------------------


def _manifest(
    request: EvalRequest, task: Task, flags: CheckedSpecs, stored: StoredAnswers | None, selection: str
) -> RunManifest:
    if stored is not None:
        # The order and the folders of the files do not change a result. Answers of two systems may be in files of the
        # same name, so their content is a part of the spec.
        files = sorted((path.name, file_sha256(path)) for path in stored.answers.paths)
        specs = {"predictions": ", ".join(f"{name} ({content[:SHORT_HASH_DIGITS]})" for name, content in files)}
        if not task.retrieves:
            specs["embedder"] = request.embedder
        inputs = {f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)}
        repeat = 1 + max((sample.repeat for sample in stored.answers.samples), default=0)
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
        setting=task.setting,
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
        versions=package_versions(PACKAGES),
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


# --- specs and budgets -----------------------------------------------------------------------------------------------


def check_specs(request: EvalRequest, errors: ErrorCollector) -> CheckedSpecs:
    """Check the specs, prompts, steps and budget of a request; these checks do not depend on the benchmark."""
    errors.collect(check_engine, request.engine)
    if request.scoring:
        return CheckedSpecs()
    prompts = errors.collect(own_prompts, request.assistant.prompts) or {}
    generator = errors.collect(open_generator, request.assistant.generator)
    retriever, embedder = errors.collect(_retriever_specs, request.retriever, request.embedder) or ("", "")
    profile: ModelProfile = "large" if request.asks_model else "none"
    errors.collect(forms_for, profile, request.assistant.steps)
    if request.budget is not None:
        only_judged = bool(request.judge) and not request.asks_model
        if only_judged or errors.collect(open_ledger, request.assistant.generator, request.budget) is not None:
            check_judges_can_spend(request.budget, request.judge, errors)
    if request.assistant.generator.startswith("reference") and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, but no reference answers")
    return CheckedSpecs(generator, prompts if generator is not None else {}, retriever, embedder)


def _retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Return both specs in normal form; the embedder's is empty if the retriever needs no embedder."""
    errors = ErrorCollector()
    settings = errors.collect(build_settings, retriever, embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.raise_all()
    assert settings is not None, "errors.raise_all() raised otherwise"
    return str(RETRIEVERS.check(retriever)), settings.embedder
