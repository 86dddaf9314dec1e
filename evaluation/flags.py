"""What is wrong with the flags of `eval` by themselves, whatever the benchmark and its data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from turnmark.assistant.forms import forms_for
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.requests import EvalRequest, GenerationRequest
from turnmark.evaluation.selection import Selection
from turnmark.evaluation.spending import check_judges_budget, open_ledger
from turnmark.retrieval.workers import check_engine

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator

MOST_AT_ONCE = 1000
"""Samples at once, each of which has a thread."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")


def check_flags(
    request: GenerationRequest, errors: ErrorCollector
) -> tuple[Generator | None, dict[str, str], tuple[str, str]]:
    """Take down what is wrong with the flags by themselves, whatever the benchmark.

    Returns:
        The generator, the hashes of its prompts, and retriever and embedder in normal form.
    """
    generator, prompts = generator_of(request, errors)
    selection_of(request).check(errors)
    specs = _specs(request, errors)
    errors.collect(forms_for, not request.generator.startswith("extractive"), request.steps)
    errors.collect(check_engine, request.engine)
    _check_numbers(request, errors)
    failures(request, 1, errors)
    return generator, prompts, specs


def selection_of(request: GenerationRequest) -> Selection:
    """Which items are asked for."""
    return Selection(only=request.only, sample=request.sample, limit=request.limit, seed=request.seed)


def generator_of(
    request: EvalRequest | GenerationRequest, errors: ErrorCollector
) -> tuple[Generator | None, dict[str, str]]:
    """The generator, and the hashes of the prompts that it would be asked with."""
    from turnmark.assistant.generators import open_generator
    from turnmark.evaluation.prompts import own_prompts

    prompts = errors.collect(own_prompts, request.prompts) or {}
    generator = errors.collect(open_generator, request.generator)
    return generator, prompts if generator is not None else {}


def _specs(request: GenerationRequest, errors: ErrorCollector) -> tuple[str, str]:
    """Retriever and embedder in normal form."""
    from turnmark.evaluation.benchmarks.mtrag_plan import retriever_specs

    found = errors.collect(retriever_specs, request.retriever, request.embedder)
    return found or ("", "")


def _check_numbers(request: GenerationRequest, errors: ErrorCollector) -> None:
    if request.repeat < 1:
        errors.add(f"--repeat {request.repeat}: a number from 1 was expected")
    if request.seed < 0:
        errors.add(f"--seed {request.seed}: a number from 0 was expected")
    check_calls(request, errors)


def check_calls(request: EvalRequest | GenerationRequest, errors: ErrorCollector) -> None:
    """Take down what is wrong with how a model is to be asked: how much at once, how long, for how much."""
    if not 1 <= request.concurrency <= MOST_AT_ONCE:
        errors.add(f"--concurrency {request.concurrency}: a number from 1 to {MOST_AT_ONCE} was expected")
    if not 0 < request.deadline < float("inf"):
        errors.add(f"--deadline {request.deadline:g}: seconds above 0 were expected")
    if request.budget is None:
        return
    judges = request.judge if isinstance(request, GenerationRequest) else ()
    free = bool(judges) and request.generator.startswith("extractive")
    if free or errors.collect(open_ledger, request.generator, request.budget) is not None:
        check_budget(request.budget, judges, errors)


def check_budget(budget: str, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Take down what is wrong with a budget that judges spend from."""
    from turnmark.assistant.config import load_prices, parse_budget
    from turnmark.evaluation.judging.judge import open_judges

    asked, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # told where the judges are checked
        models = [judge.name for judge in open_judges(judges) if judge.has_model]
        if asked is not None and prices is not None:
            errors.collect(check_judges_budget, asked, models, prices)


def failures(request: EvalRequest | GenerationRequest, samples: int, errors: ErrorCollector) -> int | None:
    """`--max-failures` as a number of samples."""
    text = request.max_failures
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    share = _SHARE.fullmatch(text.strip())
    if share is None or float(share[1]) > 100:
        errors.add(f"--max-failures {text!r}: a number from 0, or a share such as 5%, was expected")
        return None
    return int(samples * float(share[1]) / 100)
