"""What judges are asked of compound_qa."""

from __future__ import annotations

from evaluation.judging.juries import Jury


def names(benchmark: str, task: str) -> tuple[str, ...]:  # noqa: ARG001
    """See `evaluation.judging.juries.names_of`."""
    return ()


def jury(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:  # noqa: ARG001
    """See `evaluation.judging.juries.jury_of`."""
    return None
