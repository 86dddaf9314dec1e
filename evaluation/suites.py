"""What `turnmark eval all` runs: the four benchmarks, or one of the suites, each a list of parts with a folder each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from turnmark.assistant.types import Usage
from turnmark.evaluation import generation
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.requests import EvalRequest, GenerationRequest

SMOKE = 8
"""Samples of each benchmark in the suite `smoke`."""


@dataclass(frozen=True)
class Part:
    """One run of a suite.

    Attributes:
        name: of its folder and its entry in `summary.json`.
        task: None: the benchmark's first.
        setting: None: the task's first.
    """

    name: str
    benchmark: str
    task: str | None = None
    setting: str | None = None


FOUR = tuple(Part(name, name) for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"))
SUITES: Mapping[str, tuple[Part, ...]] = {
    "smoke": FOUR,
    "full": (
        *FOUR,
        Part("mtrag-retrieval", "mtrag", "retrieval"),
        Part("mtrag-rag", "mtrag", setting="rag"),
        Part("mtrag-un", "mtrag-un"),
        Part("mtrag-un-rag", "mtrag-un", setting="rag"),
        Part("mtrag-s", "mtrag-s"),
        Part("inscoqa-rag", "inscoqa", setting="rag"),
        Part("kiwi-judge", "kiwi", "judge"),
        Part("kiwi-analyse", "kiwi", "analyse"),
    ),
}
"""Suite -> its parts, those of the four benchmarks first: `smoke` is a few samples of each of them."""


class Work(Protocol):
    """A part that was found to be in order."""

    @property
    def manifest(self) -> RunManifest:
        """Of the run that it makes."""
        ...

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        ...

    def moved(self, folder: Path) -> Work:
        """The same, written to another folder.

        Raises:
            RequestError: the folder holds another run.
        """
        ...

    def run(self, elsewhere: Usage | None = None) -> tuple[Summary, bool]:
        """The summary, and whether the work was given up because of failures.

        Args:
            elsewhere: what the other parts have used of the budget, which is one for all.

        Raises:
            RequestError: the folder holds another run, or finished samples come from another index.
            TurnmarkError: the folder is in use.
        """
        ...


def planned(part: Part, request: GenerationRequest) -> Work:
    """A part of a suite, checked.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    if part.task == "retrieval":
        return Searching.of(part, request)
    changed = {"benchmark": part.benchmark, "task": part.task, "setting": part.setting}
    return Answering(generation.plan(request.model_copy(update=changed)))


@dataclass(frozen=True)
class Answering:
    """A part whose answers are written; see `Work`."""

    plan: generation.Plan

    @property
    def manifest(self) -> RunManifest:
        """See `Work.manifest`."""
        return self.plan.manifest

    def describe(self) -> dict[str, Any]:
        """See `Work.describe`."""
        from turnmark.evaluation.judging.mounting import described

        return described(self.plan)

    def moved(self, folder: Path) -> Answering:
        """See `Work.moved`."""
        return Answering(generation.moved(self.plan, folder))

    def run(self, elsewhere: Usage | None = None) -> tuple[Summary, bool]:
        """See `Work.run`."""
        from turnmark.evaluation.judging.mounting import judged
        from turnmark.evaluation.spread import spread

        plan = replace(self.plan, began=time.perf_counter(), elsewhere=elsewhere)
        with spread(judged(plan)) as made:
            summary, _, gave_up = generation.run(made)
        return summary, gave_up


@dataclass(frozen=True)
class Searching:
    """A part that only searches; see `Work`."""

    plan: Any  # turnmark.evaluation.benchmarks.mtrag_plan.Plan, which is loaded when it is needed

    @classmethod
    def of(cls, part: Part, request: GenerationRequest) -> Searching:
        """The retrieval part for the retriever of a request; no model is asked for."""
        from turnmark.evaluation.benchmarks.mtrag_plan import plan_eval

        same = ("data", "retriever", "embedder", "limit", "sample", "seed", "out", "command")
        asked: dict[str, Any] = {name: getattr(request, name) for name in same}
        return cls(plan_eval(EvalRequest.model_validate({"benchmark": part.benchmark, **asked})))

    @property
    def manifest(self) -> RunManifest:
        """See `Work.manifest`."""
        found: RunManifest = self.plan.manifest
        return found

    def describe(self) -> dict[str, Any]:
        """See `Work.describe`."""
        told: dict[str, Any] = self.plan.describe()
        return told

    def moved(self, folder: Path) -> Searching:
        """See `Work.moved`."""
        from turnmark.evaluation.run import check_folder

        check_folder(folder, self.manifest)
        return Searching(replace(self.plan, folder=folder))

    def run(self, elsewhere: Usage | None = None) -> tuple[Summary, bool]:  # noqa: ARG002
        """See `Work.run`; a search takes nothing of a budget."""
        from turnmark.evaluation.benchmarks.mtrag_retrieval import run_eval

        return run_eval(replace(self.plan, began=time.perf_counter()))[0], False


def locators() -> Mapping[str, Callable[[Path | None], Any]]:
    """Benchmark -> what finds its data, or says that it is not there."""
    from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag

    family = dict.fromkeys(("mtrag", "mtrag-un", "mtrag-s"), mtrag.locate)
    return {**family, "inscoqa": inscoqa.locate, "compound-qa": compound_qa.locate, "kiwi": kiwi.locate}
