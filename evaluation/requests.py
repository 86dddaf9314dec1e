"""What is asked for on the command line, and the collector that reports all of its mistakes at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from pydantic import Field

from corpora.errors import RequestError
from corpora.mtrag import Benchmark
from corpora.types import Record

P = ParamSpec("P")
T = TypeVar("T")


class EvalRequest(Record):
    """`turnwise eval BENCHMARK --task retrieval …`."""

    benchmark: Benchmark
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: every domain with relevance labels")
    retriever: str = "hybrid"
    embedder: str = "minilm"
    query: str | None = Field(default=None, description="query mode; None: `assistant`, unless `queries` is given")
    queries: Path | None = Field(default=None, description='a file of {"_id", "text"} lines instead of a mode')
    limit: int | None = Field(default=None, description="only the first so many queries")
    only: tuple[str, ...] = ()
    seed: int = 0
    out: Path | None = None
    command: str = ""


class ScoreRequest(Record):
    """`turnwise score BENCHMARK --task retrieval --predictions FILE …`."""

    benchmark: Benchmark
    predictions: tuple[Path, ...]
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: those in which the file answers a query")
    seed: int = 0
    out: Path | None = None
    command: str = ""


class Mistakes:
    """Collects what is wrong with a request, so that it can be said all at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def add(self, problem: str) -> None:
        """One more mistake."""
        self.problems.append(problem)

    def caught(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `function` returns, or None after taking down what it found wrong with the request."""
        try:
            return function(*args, **kwargs)
        except RequestError as error:
            self.problems.extend(problem for problem in error.problems if problem not in self.problems)
            return None

    def check(self) -> None:
        """Go on only if nothing was wrong.

        Raises:
            RequestError: every mistake taken down.
        """
        if self.problems:
            raise RequestError(self.problems)
