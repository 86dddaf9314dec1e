"""What is known of a benchmark's generation task before anything heavy is loaded, for each of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnmark.corpora import compound_qa, inscoqa, kiwi
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.home import home
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.records import CorpusUsed, DataUsed
from turnmark.evaluation.request import EvalRequest, all_alike
from turnmark.evaluation.rundir import fingerprint
from turnmark.retrieval.types import Retriever

Build = Callable[[Parts, Mapping[str, Retriever]], Benchmark[Any]]

SEARCHING = ("reference+rag", "rag")


@dataclass(frozen=True)
class Prepared:
    """A benchmark's task in one setting, ready to be built once there are parts.

    Attributes:
        corpora: name -> passage file to be searched, or looked passages up in.
        searched: whether these files are searched; False: passages are recorded, or answers are there already.
        query: the query mode, where something is searched.
        found_by: what found the recorded passages, where that is known.
        inputs: role -> SHA-256 of files that were handed in.
        counterfactual: items are there once more, with their passages hidden.
        build: parts, retrievers by corpus -> the benchmark.
        stratum: of an item's id; what `--sample` draws of in equal shares.
    """

    data: DataUsed
    domains: tuple[str, ...]
    build: Build
    corpora: Mapping[str, Path] = field(default_factory=dict)
    corpora_used: Mapping[str, CorpusUsed] = field(default_factory=dict)
    searched: bool = False
    query: str | None = None
    found_by: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    counterfactual: bool = False
    notes: tuple[str, ...] = ()
    stratum: Callable[[str], str] = all_alike


def picked(known_domains: Sequence[str], domains: Sequence[str], errors: ErrorCollector) -> tuple[str, ...]:
    """The domains that are asked for, in the order of the data; all of them where none is named."""
    for domain in domains:
        if domain not in known_domains:
            errors.add(f"--domains: no domain {domain!r} in the data; there are: {', '.join(known_domains)}")
    return tuple(domain for domain in known_domains if not domains or domain in domains)


def used(source: Source, files: Mapping[str, Path]) -> DataUsed:
    """Which data it is, by the content of the files that are read."""
    return DataUsed(name=source.name, demo=source.demo, fingerprint=fingerprint(files))


# --- the other three -------------------------------------------------------------------------------------------------

POOL = "pool"


def _check_flags(request: EvalRequest, errors: ErrorCollector) -> None:
    """Take down flags that are for the MTRAG family alone."""
    flags = ("query", "queries", "passages", "counterfactual")
    for flag in flags if request.benchmark != "inscoqa" else flags[1:]:
        if getattr(request, flag):
            errors.add(f"--{flag}: {request.benchmark} has no use for it; it is for the MTRAG family, setting rag")


def prepare_inscoqa(
    request: EvalRequest, setting: str | None, errors: ErrorCollector, scoring: bool
) -> Prepared | None:
    """See `turnmark.evaluation.benchmarks.registry.prepare`."""
    _check_flags(request, errors)
    return errors.collect(_inscoqa, request, setting or "documents", scoring)


def _inscoqa(request: EvalRequest, setting: str, scoring: bool) -> Prepared:
    from turnmark.evaluation.benchmarks.inscoqa import NEEDS_MODEL, InsCoQA, split_of, write_pool
    from turnmark.evaluation.benchmarks.inscoqa_prompt import PROMPT
    from turnmark.evaluation.prompts import prompt_hashes

    errors = ErrorCollector()
    asks = setting == "prompt" and not scoring
    if asks and request.generator.startswith("extractive"):
        errors.add(NEEDS_MODEL)
    if asks and request.steps:
        errors.add("--step is for the steps of the turn, which --setting prompt does without; give one of them")
    prompts = errors.collect(prompt_hashes, (PROMPT,) if asks else (), request.prompts) or {}
    source = errors.collect(inscoqa.locate, request.data)
    errors.raise_all()
    assert source is not None, "errors.raise_all() raised otherwise"
    split = inscoqa.split_named(request.data) or split_of(source)
    files = InsCoQA(source, setting, Parts(), split=split).files()
    tasks = (task for task in inscoqa.stream_tasks(source.root, split) if not isinstance(task, Problem))
    domains = _checked(sorted({task.domain for task in tasks}), request.domains)
    corpora: dict[str, Path] = {}
    if setting == "rag":
        path = home() / "cache" / f"inscoqa-{fingerprint(files)[:16]}.jsonl"
        if not path.is_file():
            write_pool(inscoqa.stream_tasks(source.root, split), path)
        corpora[POOL] = path

    def build(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        return InsCoQA(source, setting, parts.over(retrievers.get(POOL)), request.domains, split)

    return Prepared(
        data=used(source, files), domains=domains, build=build, corpora=corpora,
        inputs={f"prompt {name}": content for name, content in prompts.items()},
        corpora_used={name: bench.corpus_used(name, path) for name, path in corpora.items()},
        searched=setting == "rag", query="assistant" if setting == "rag" else None,
    )  # fmt: skip


def prepare_compound(
    request: EvalRequest, setting: str | None, errors: ErrorCollector, scoring: bool
) -> Prepared | None:
    """See `turnmark.evaluation.benchmarks.registry.prepare`."""
    _check_flags(request, errors)
    return errors.collect(_compound, request, setting, scoring)


def _compound(request: EvalRequest, setting: str | None, scoring: bool) -> Prepared:
    from turnmark.evaluation.benchmarks import compound_modes as modes
    from turnmark.evaluation.benchmarks.compound_qa import CompoundQA, read_references
    from turnmark.evaluation.prompts import prompt_hashes

    errors = ErrorCollector()
    source = compound_qa.locate(request.data)
    files = {file.shown: file.path for file in compound_qa.files(source.root)}
    capabilities = tuple(dict.fromkeys(file.capability for file in compound_qa.files(source.root)))
    domains = picked(capabilities, request.domains, errors)
    _check_types(request.types, domains, source, errors)
    model = not request.generator.startswith("extractive")
    if setting in modes.PROMPTS and not model and not scoring:
        errors.add(
            f"--setting {setting}: a language model is asked by a prompt of the paper; add --generator (without one "
            "there are decompose, dialogue and positions)"
        )
    inputs: dict[str, str] = {}
    references = None
    if request.references is not None and (read := errors.collect(read_references, request.references)) is not None:
        references, inputs["references"] = read
    prompts = errors.collect(prompt_hashes, modes.prompts_of(setting) if model else (), request.prompts)
    errors.raise_all()
    tuning = modes.tuning_of(request.generator)

    def build(parts: Parts, _: Mapping[str, Retriever]) -> Benchmark[Any]:
        return CompoundQA(source, parts, request.domains, setting, tuning, references, request.types)

    inputs |= {f"prompt {name}": content for name, content in (prompts or {}).items()}
    return Prepared(data=used(source, files), domains=domains, build=build, inputs=inputs, stratum=compound_qa.file_of)


def _check_types(types: Sequence[str], domains: Sequence[str], source: Source, errors: ErrorCollector) -> None:
    known_types = dict.fromkeys(file.type for file in compound_qa.files(source.root) if file.capability in domains)
    for name in types:
        if name not in known_types:
            errors.add(f"--types: no type {name!r} in the data; there are: {', '.join(known_types)}")


def prepare_kiwi(request: EvalRequest, setting: str | None, errors: ErrorCollector, scoring: bool) -> Prepared | None:
    """See `turnmark.evaluation.benchmarks.registry.prepare`."""
    _check_flags(request, errors)
    return errors.collect(_kiwi, request, setting, scoring)


def _kiwi(request: EvalRequest, setting: str | None, scoring: bool) -> Prepared:
    from turnmark.evaluation.benchmarks import kiwi_prepared

    data, build, inputs, notes = kiwi_prepared.prepare_kiwi(request, setting, scoring)
    return Prepared(data=used(data, kiwi.files(data.root)), domains=(), build=build, inputs=inputs, notes=notes)


def _checked(known_domains: Sequence[str], domains: Sequence[str]) -> tuple[str, ...]:
    errors = ErrorCollector()
    taken_domains = picked(known_domains, domains, errors)
    errors.raise_all()
    return taken_domains


def read_through(benchmark: Benchmark[Any]) -> tuple[dict[str, str | None], list[Problem]]:
    """Every item's id with its domain, in the order of the data, and what of the data could not be read."""
    domain_of_id: dict[str, str | None] = {}
    problems: list[Problem] = []
    for item in benchmark.items():
        if isinstance(item, Problem):
            problems.append(item)
        else:
            domain_of_id[item.id] = item.domain
    return domain_of_id, problems
