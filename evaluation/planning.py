"""`turnmark eval` and `turnmark score`: a request checked as a whole, before anything is built or written.

Either answers items of the data, or takes over answers that are written already, by another system or an earlier run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.assistant.generators.replay import ReferenceGenerator
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.home import file_sha256
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.mtrag_data import data_notes
from turnmark.evaluation.benchmarks.registry import find_task, setting_of, task_of
from turnmark.evaluation.benchmarks.task import Prepared
from turnmark.evaluation.engine import DEADLINE, Answer, Limits
from turnmark.evaluation.passages import HIDDEN, FirstPassages
from turnmark.evaluation.predictions import Answers
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.request import Checked, EvalRequest, check_flags, failures, select, selected
from turnmark.evaluation.rundir import check_folder, default_folder, package_versions, stored_manifest, version_of
from turnmark.evaluation.scoring import now

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.assistant.types import Usage
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.retrieval.types import Retriever

Answering = Callable[[Benchmark[Any]], AbstractContextManager[Answer]]


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order: what will be done, and where it will be written down.

    Attributes:
        domain_of_id: of every item of the data, in its order.
        chosen: ids of the items that take part; None: all of them.
        answers: those that are written already; None: items are answered.
        elsewhere: what other runs on the same budget have used.
        answering: who answers, where it is not the benchmark in this process.
    """

    request: EvalRequest
    prepared: Prepared
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
    answering: Answering | None = None

    @property
    def items(self) -> int:
        """How many items take part."""
        return len(self.domain_of_id if self.chosen is None else self.chosen)

    @property
    def samples(self) -> int:
        """Samples of the run: items, times repeats."""
        return self.items * self.manifest.repeat

    def parts(self) -> Parts:
        """What answers and measures, searching aside."""
        from turnmark.evaluation.benchmarks.turns import Parts
        from turnmark.evaluation.embedding import shared_embedder

        if self.answers is not None:
            return Parts(embed=shared_embedder(self.request.embedder))
        embed = shared_embedder(self.manifest.specs["embedder"])
        return Parts(embed=embed, prompts=self.request.prompts, forms=self.request.steps)

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says: samples, calls and estimated tokens a role."""
        from turnmark.evaluation.budget import usage_json

        retrieves = self.prepared.retrieves
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
            "notes": list(self.notes),
        }

    def estimate(self) -> dict[str, Usage]:
        """Calls and tokens by role, from prompts that are rendered with passages as long as those of the data."""
        generator = self.generator
        if generator is None or isinstance(generator, ReferenceGenerator):
            return {}
        from turnmark.evaluation.benchmarks.turns import Parts
        from turnmark.evaluation.budget import counting_like, estimate_usage

        retrievers: dict[str, Retriever] = {name: FirstPassages(path) for name, path in self.prepared.corpora.items()}
        benchmark = self.prepared.build(Parts(prompts=self.request.prompts), retrievers)
        items = selected(benchmark.items(), self.chosen)
        counting = counting_like(generator)
        return estimate_usage(items, self.samples, lambda item: benchmark.answer(item, counting).usage)

    def mean_sample(self) -> Usage:
        """What one sample takes by the estimate."""
        from turnmark.assistant.types import Usage

        used = sum(self.estimate().values(), Usage())
        n = max(1, self.samples)
        return Usage(prompt_tokens=used.prompt_tokens // n, completion_tokens=used.completion_tokens // n)


def plan(request: EvalRequest) -> Plan:
    """Check a request: the flags, the data and, of answers that are written already, every line of every file.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    setting = setting_of(request.benchmark, _setting_name(request, errors), errors, request.task)
    flags = check_flags(request, errors)
    answers = _answers(request, errors) if request.scoring else None
    prepared = _prepared(request, setting, request.domains, answers, errors)
    if prepared is None and request.domains:  # the rest of the request is checked against all domains
        prepared = _prepared(request, setting, (), answers, ErrorCollector())
    if request.out is not None:
        errors.collect(stored_manifest, request.out, RunManifest)
    domain_of_id, problems = _read_through(prepared) if prepared is not None else ({}, [])
    chosen_ids = list(domain_of_id)
    if prepared is not None and not request.scoring and not prepared.selected:
        if not domain_of_id:
            first = f"; the first mistake in it: {problems[0]}" if problems else ""
            errors.add(f"{_in_words(request, setting)}: there is nothing to answer in the data{first}")
        chosen_ids = select(request, chosen_ids, errors, prepared.stratum)
    if prepared is not None and answers is not None:
        _check_answers(request, setting, prepared, answers, domain_of_id, errors)
    errors.raise_all()
    assert prepared is not None, "errors.raise_all() raised otherwise"
    extra_notes: tuple[str, ...] = ()
    if answers is not None:
        prepared, chosen_ids = _narrowed(request, setting, prepared, answers, domain_of_id)
        extra_notes = (*answers.notes, *_strangers(request, setting, prepared, answers, chosen_ids))
    manifest = _manifest(request, setting, prepared, flags, answers)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    return Plan(
        request=request,
        prepared=prepared,
        manifest=manifest,
        folder=folder,
        notes=(*data_notes(prepared.data, problems), *prepared.notes, *extra_notes),
        began=began,
        domain_of_id=domain_of_id,
        chosen=frozenset(chosen_ids) if len(chosen_ids) < len(domain_of_id) else None,
        generator=None if prepared.retrieves and not prepared.asks else flags.generator,
        limits=Limits(
            request.concurrency,
            prepared.deadline or request.deadline or DEADLINE,
            failures(request, len(chosen_ids) * request.repeat, errors),
        ),
        answers=answers,
    )


def _in_words(request: EvalRequest, setting: str | None, domains: Sequence[str] = ()) -> str:
    return " ".join(filter(None, (request.benchmark, setting, f"({', '.join(domains)})" if domains else "")))


def _prepared(
    request: EvalRequest,
    setting: str | None,
    domains: tuple[str, ...],
    answers: Answers | None,
    errors: ErrorCollector,
) -> Prepared | None:
    """The data of a request; None where something was wrong, which is then taken down."""
    # A task that there is not has been said; whatever else is wrong is looked for with the first.
    task = find_task(request.benchmark, request.task) or find_task(request.benchmark, None)
    if task is None:
        return None
    hidden = answers is not None and setting == "rag" and any(sample.id.endswith(HIDDEN) for sample in answers.samples)
    changed = {"domains": domains, "counterfactual": request.counterfactual or hidden}
    return task.prepare(request.model_copy(update=changed), setting, errors)


def _read_through(prepared: Prepared) -> tuple[dict[str, str | None], list[Problem]]:
    """Every item's id with its domain, in the order of the data, and what of the data could not be read."""
    from turnmark.evaluation.benchmarks.turns import Parts

    domain_of_id: dict[str, str | None] = {}
    problems: list[Problem] = []
    for item in prepared.build(Parts(), {}).items():
        if isinstance(item, Problem):
            problems.append(item)
        else:
            domain_of_id[item.id] = item.domain
    return domain_of_id, problems


# --- answers that are written already --------------------------------------------------------------------------------


def _setting_name(request: EvalRequest, errors: ErrorCollector) -> str | None:
    """The setting that is named or, of samples that are scored, that of their runs; None where these are of none."""
    settings: dict[str, str] = {}
    for path in request.predictions if request.setting is None else ():
        folder = path if path.is_dir() else path.parent
        if not path.is_dir() and path.name != "predictions.jsonl":
            continue
        with suppress(OSError, ValidationError):
            manifest = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
            if manifest.setting and manifest.benchmark == request.benchmark:
                settings.setdefault(manifest.setting, str(path))
    if len(settings) > 1:
        settings_in_words = ", ".join(f"{name} ({path})" for name, path in settings.items())
        errors.add(
            f"--predictions: runs of several settings: {settings_in_words}; score them one at a time, or name --setting"
        )
    return next(iter(settings), request.setting)


def _answers(request: EvalRequest, errors: ErrorCollector) -> Answers | None:
    task = find_task(request.benchmark, request.task) or find_task(request.benchmark, None)
    answers = errors.collect(task.read, request.predictions, request.benchmark) if task is not None else None
    repeats = {sample.repeat for sample in answers.samples} if answers is not None else set()
    if repeats and max(repeats) >= len(repeats):
        errors.add(f"--predictions: repeat {max(repeats)} stands there, but not all of 0 to {max(repeats) - 1}")
    return answers


def _check_answers(
    request: EvalRequest,
    setting: str | None,
    prepared: Prepared,
    answers: Answers,
    known_ids: Collection[str],
    errors: ErrorCollector,
) -> None:
    ids = {sample.id for sample in answers.samples}
    if ids.isdisjoint(known_ids):
        noun = "queries" if prepared.retrieves else "ids"
        first = answers.samples[0].id if answers.samples else ""
        data = _in_words(request, setting, prepared.domains if prepared.retrieves else ())
        errors.add(
            f"--predictions: none of the {len(ids)} {noun} (the first is {first!r}) is one of {data} in "
            f"{prepared.data.name!r}; are they answers to this data?"
        )


def _narrowed(
    request: EvalRequest,
    setting: str | None,
    prepared: Prepared,
    answers: Answers,
    domain_of_id: Mapping[str, str | None],
) -> tuple[Prepared, list[str]]:
    """The data of the domains that are asked for or, where none is, that are answered; and the ids that take part."""
    ids = {sample.id for sample in answers.samples}
    answered = {domain_of_id[name] for name in ids & domain_of_id.keys()}
    domains = request.domains or tuple(name for name in prepared.domains if name in answered)
    if domains != prepared.domains:
        errors = ErrorCollector()
        narrowed = _prepared(request, setting, domains, answers, errors)
        errors.raise_all()
        assert narrowed is not None, "errors.raise_all() raised otherwise"
        prepared = narrowed
    chosen = [key for key, name in domain_of_id.items() if not prepared.domains or name in prepared.domains]
    return prepared, [key for key in chosen if key in ids] if request.answered_only else chosen


def _strangers(
    request: EvalRequest, setting: str | None, prepared: Prepared, answers: Answers, chosen: Sequence[str]
) -> list[str]:
    """What is not answered though it should be, of lists of passages, and what is answered and does not take part."""
    ids = {sample.id for sample in answers.samples}
    notes = []
    if prepared.retrieves and (absent := len(set(chosen) - ids)):
        notes.append(f"{absent} of {len(chosen)} queries have no entry in the run and count as 0")
    if strange := len(ids.difference(chosen)):
        noun = "queries of the run" if prepared.retrieves else "ids of the predictions"
        notes.append(f"{strange} {noun} are none of {_in_words(request, setting, prepared.domains)}, and are left out")
    return notes


# --- the manifest ----------------------------------------------------------------------------------------------------


def _manifest(
    request: EvalRequest, setting: str | None, prepared: Prepared, flags: Checked, answers: Answers | None
) -> RunManifest:
    if answers is not None:
        # Neither the order of the files nor where they lie changes a result; two may have the same name.
        files = sorted((path.name, file_sha256(path)) for path in answers.paths)
        specs = {"predictions": ", ".join(name for name, _ in files)}
        specs |= {} if prepared.retrieves else {"embedder": request.embedder}
        inputs = {f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)}
        repeat = 1 + max((sample.repeat for sample in answers.samples), default=0)
    else:
        specs, repeat = _specs(request, prepared, flags), request.repeat
        inputs = {**prepared.inputs, **(_reranked_by(flags.retriever) if prepared.searched else {})}
    return RunManifest(
        benchmark=request.benchmark,
        task=task_of(request.benchmark, request.task),
        setting=setting,
        specs=specs,
        prompts=dict(flags.prompts if prepared.prompts is None else prepared.prompts),
        inputs=inputs,
        data=prepared.data,
        domains=prepared.domains,
        corpora=dict(prepared.corpora_used),
        limit=request.limit,
        sample=request.sample,
        repeat=repeat,
        counterfactual=prepared.counterfactual,
        only=tuple(sorted(set(request.only))),
        seed=request.seed,
        version=version_of("turnmark"),
        versions=package_versions(_packages(request, prepared, flags)),
        command=request.command,
        started=now(),
    )


def _specs(request: EvalRequest, prepared: Prepared, flags: Checked) -> dict[str, str]:
    from turnmark.assistant.generators import GENERATORS
    from turnmark.corpora.specs import parse_spec

    if prepared.retrieves:
        query = {"query": prepared.query or "assistant"}
        searching = {"retriever": flags.retriever, "embedder": flags.embedder, **query, **_weighed(flags.retriever)}
        return searching | dict(prepared.asks)
    specs = {"generator": str(GENERATORS.check(request.generator))}
    if prepared.searched:
        specs |= {"retriever": flags.retriever, **_weighed(flags.retriever)}
    chosen = {
        "query": prepared.query,
        "passages": prepared.found_by,
        "embedder": flags.embedder or str(parse_spec(request.embedder)),
        "protocol": request.protocol if request.protocol != "turn" else None,
        "types": ", ".join(sorted(set(request.types))),
        "chain": "our own answers" if request.chain else None,
        "steps": ", ".join(sorted(set(request.steps))),
    }
    return specs | {name: value for name, value in chosen.items() if value}


def _packages(request: EvalRequest, prepared: Prepared, flags: Checked) -> list[str]:
    """What a result depends on beside Turnmark."""
    embeds = not request.scoring and bool(flags.embedder or not prepared.retrieves)
    return [
        "pytrec_eval-terrier" if prepared.retrieves else "rapidfuzz",
        "numpy",
        *(("sentence-transformers", "torch") if embeds else ()),
        *(("bm25s", "PyStemmer") if prepared.searched else ()),
        *(("chromadb",) if prepared.searched and embeds else ()),
    ]


def _weighed(retriever: str) -> dict[str, str]:
    """The weights of a retriever's lists, where it has several."""
    from turnmark.retrieval.registry import weights_of

    weights = weights_of(retriever)
    return {"weights": weights} if weights else {}


def _reranked_by(retriever: str) -> dict[str, str]:
    """The digest of a reranker's model, where that lies in a folder."""
    from turnmark.retrieval.rerank import reranker_weights

    digest = reranker_weights(retriever)
    return {"reranker": digest} if digest else {}
