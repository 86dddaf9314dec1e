"""What a query mode needs that asks a language model: who is asked, with which prompts, how much at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps import rewrites
from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.engine import Limits
from turnmark.evaluation.flags import check_calls, failures, generator_of
from turnmark.evaluation.requests import EvalRequest

SEARCHING = 300.0
"""Seconds beyond those for wordings in which a query must be searched: others may have to be searched before it."""
ALWAYS = ("json", "repair")
"""Prompts that every question for an object may use."""


@dataclass(frozen=True)
class Asking:
    """A mode that asks a model, and with what it does; checked.

    Attributes:
        hashes: prompt -> hash, of those that the mode uses.
        seconds: for all wordings of one query.
        limits: of the engine, the time for searching included.
    """

    mode: rewrites.Mode
    generator: Generator
    spec: str
    prompts: Path | None
    hashes: Mapping[str, str]
    seconds: float
    limits: Limits
    budget: str | None

    def specs(self) -> dict[str, str]:
        """What of it goes into the manifest: who is asked, how the lists are fused, how long is waited."""
        return {
            "generator": self.spec,
            "fusion": self.mode.describe(),
            "wordings": f"within {self.seconds:g} s",
        }


def asking_of(request: EvalRequest, errors: ErrorCollector) -> Asking | None:
    """What a request asks a model for; None where its mode asks none, or something is wrong with it."""
    mode = rewrites.MODES.get(request.query or "")
    if mode is None:
        return None
    before = len(errors.problems)
    generator, hashes = generator_of(request, errors)
    check_calls(request, errors)
    failures(request, 1, errors)
    if generator is None and len(errors.problems) == before:
        errors.add(f"--query {request.query} asks a language model; name it with --generator, see `turnmark list`")
    if generator is None or len(errors.problems) > before:
        return None
    from turnmark.assistant.generators import GENERATORS

    return Asking(
        mode=mode,
        generator=generator,
        spec=str(GENERATORS.check(request.generator)),
        prompts=request.prompts,
        hashes={name: hashes[name] for name in (*mode.prompts, *ALWAYS)},
        seconds=request.deadline,
        limits=Limits(request.concurrency, request.deadline + SEARCHING),
        budget=request.budget,
    )
