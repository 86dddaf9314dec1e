"""Specs of a request and how its models are asked, checked whatever the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnmark.assistant.forms import Reader, forms_for
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.request import EvalRequest

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator


@dataclass(frozen=True)
class CheckedSpecs:
    """The generator, the hashes of its prompts, and specs in normal form."""

    generator: Generator | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    retriever: str = ""
    embedder: str = ""


def check_specs(request: EvalRequest, errors: ErrorCollector) -> CheckedSpecs:
    """Check the specs of a request and how its model is asked, whatever the benchmark."""
    from turnmark.assistant.generators import open_generator
    from turnmark.evaluation.budget import open_ledger
    from turnmark.evaluation.prompts import own_prompts
    from turnmark.retrieval.workers import check_engine

    errors.collect(check_engine, request.engine)
    if request.scoring:
        return CheckedSpecs()
    prompts = errors.collect(own_prompts, request.prompts) or {}
    generator = errors.collect(open_generator, request.generator)
    retriever, embedder = errors.collect(_retriever_specs, request.retriever, request.embedder) or ("", "")
    reader: Reader = "large" if request.asks_model else "none"
    errors.collect(forms_for, reader, request.steps)
    if request.budget is not None:
        only_judged = bool(request.judge) and not request.asks_model
        if only_judged or errors.collect(open_ledger, request.generator, request.budget) is not None:
            check_judges_can_spend(request.budget, request.judge, errors)
    if request.generator.startswith("reference") and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, and no reference answers")
    return CheckedSpecs(generator, prompts if generator is not None else {}, retriever, embedder)


def check_judges_can_spend(budget: str | None, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Check a budget that judges spend from."""
    from turnmark.assistant.settings import load_prices, parse_budget
    from turnmark.evaluation.budget import price_in
    from turnmark.evaluation.judging.judge import open_judges

    if budget is None:
        return
    limit, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # reported where the judges are checked
        for judge in open_judges(judges):
            if judge.has_model and limit is not None and prices is not None:
                errors.collect(price_in, limit, judge.name, prices)


def _retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Both specs in normal form; the embedder's is empty if none takes part."""
    from turnmark.retrieval.embed import EMBEDDERS
    from turnmark.retrieval.registry import RETRIEVERS, build_settings

    errors = ErrorCollector()
    settings = errors.collect(build_settings, retriever, embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.raise_all()
    assert settings is not None, "errors.raise_all() raised otherwise"
    return str(RETRIEVERS.check(retriever)), settings.embedder
