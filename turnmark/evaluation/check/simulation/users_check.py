"""Let simulated users talk to the assistant over an index, and report what they reach.

OUT/users.jsonl     the users with their goals
OUT/answers-HASH/   a run with their conversations; the same command resumes it
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.evaluation.check.index_runs import plan_over_index
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.check.result import share
from turnmark.evaluation.check.simulation.conversation import UserTurn
from turnmark.evaluation.check.simulation.users import draw_users
from turnmark.evaluation.check.simulation.users_task import ALWAYS_REACHED, BENCHMARK, FIGURES, SimulatedUsers
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.runs.benchmark_run import run_plan
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.storage.journal import read_records
from turnmark.retrieval.search.opened_index import open_index


class UserFigure(Record):
    """A mean over users, with its interval."""

    mean: float
    n: int = Field(description="number of conversations that it is measured in; `always_reached`: of users")
    ci95: tuple[float, float] | None = Field(description="bootstrap over users, or None if there are too few")


class UserConversation(Record):
    """The conversation of one user."""

    id: str
    hidden: bool
    exchanges: tuple[UserTurn, ...]
    failed: str | None = None

    @property
    def misses(self) -> int:
        """Number of messages that did not reach their goal."""
        return sum(not one.reached for one in self.exchanges)


class UsersResult(Record):
    """The result of conversations with simulated users, which `--json` prints."""

    index: str
    generator: str
    worded_by: str = Field(description="the model that words the users' messages; empty: rules")
    run: str
    figures: Mapping[str, UserFigure]
    conversations: tuple[UserConversation, ...]
    usage: Mapping[str, Mapping[str, float | None]]
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class UsersPlan:
    """A checked request, with its run."""

    request: CheckRequest
    plan: Plan
    began: float


def plan_users(request: CheckRequest, errors: ErrorCollector) -> UsersPlan:
    """Check a request, and draw the users.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    index = errors.collect(open_index, request.index) if request.index else None
    user_model = errors.collect(open_generator, request.user_model) if request.user_model else None
    wanted = request.users or 0
    users = draw_users(index, wanted, request.seed, user_model.name if user_model else "") if index else []
    if index is not None and not users:
        errors.add(f"index {request.index!r}: no document has two sections with headings, so users have no goals")
    errors.raise_all()
    assert index is not None
    out = request.out or Path("checks") / f"{index.manifest.name}-users"
    out.mkdir(parents=True, exist_ok=True)
    file = out / "users.jsonl"
    write_atomic(file, "".join(user.model_dump_json() + "\n" for user in users))
    plan = plan_over_index(
        request, index, out, {"benchmark": BENCHMARK, "data": file, "repeat": request.repeat}, errors
    )
    assert isinstance(plan.task, SimulatedUsers)
    plan.task.user_model = user_model
    return UsersPlan(request, plan, began)


def run_users(checked: UsersPlan) -> tuple[UsersResult, bool]:
    """Hold the conversations that are not in the folder yet.

    Returns:
        The result, and whether failures stopped the work.
    """
    plan, request = checked.plan, checked.request
    summary, folder, gave_up = run_plan(plan)
    samples = read_records(folder / "predictions.jsonl", Sample)
    hidden = frozenset(item.id for item in plan.selected(plan.task) if item.task.hidden)
    conversations = {(sample.id, sample.repeat): _conversation(sample, sample.id in hidden) for sample in samples}
    figures = {
        name: UserFigure(mean=found.mean, n=found.n, ci95=found.ci95)
        for name in FIGURES
        if (found := summary.metrics.get(name)) and found.mean is not None
    }
    if request.repeat > 1:
        figures[ALWAYS_REACHED] = _always_reached(folder, request.repeat)
    return UsersResult(
        index=request.index,
        generator=request.assistant.generator,
        worded_by=request.user_model or "",
        run=str(folder),
        figures=figures,
        conversations=tuple(conversations.values()),
        usage=summary.usage,
        seconds=round(time.perf_counter() - checked.began, 1),
        notes=plan.notes,
    ), gave_up


def _always_reached(folder: Path, repeats: int) -> UserFigure:
    """Return the share of users who reach their goals in each of their conversations, of those without a failed one."""
    reached: dict[str, list[float]] = {}
    for score in read_records(folder / "scores.jsonl", Score):
        if score.metric == "user_reached" and score.value is not None:
            reached.setdefault(score.id, []).append(score.value)
    whole = [min(values) == 1 for values in reached.values() if len(values) == repeats]
    found = share(sum(whole), len(whole))
    return UserFigure(mean=found.count / max(1, found.n), n=found.n, ci95=found.ci95)


def _conversation(sample: Sample, hidden: bool) -> UserConversation:
    failed = (sample.reason or sample.status) if sample.status != "done" else None
    exchanges = tuple(map(UserTurn.model_validate, sample.operations))
    return UserConversation(id=sample.id, hidden=hidden, exchanges=exchanges, failed=failed)
