"""Let simulated users talk to the assistant over an index, and report what they reach.

OUT/users.jsonl     the users with their goals
OUT/answers-HASH/   a run with their conversations; the same command resumes it
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.evaluation.check.index_runs import plan_over_index
from turnmark.evaluation.check.judged_figures import means_of
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.check.result import share
from turnmark.evaluation.check.simulation.conversation import UserTurn
from turnmark.evaluation.check.simulation.users import draw_users
from turnmark.evaluation.check.simulation.users_task import ALWAYS_REACHED, BENCHMARK, FIGURES, SimulatedUsers
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.benchmark_run import run_plan
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.storage.journal import read_records
from turnmark.retrieval.search.opened_index import open_index


class UserFigure(Record):
    """A mean over users, with its interval."""

    mean: float
    n: int = Field(description="number of conversations, or of users for `always_reached`")
    ci95: tuple[float, float] | None = Field(description="interval over users, or None if there are too few")


class UserConversation(Record):
    """The conversation of one user."""

    id: str
    repeat: int = Field(description="0-based number of the repeat")
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


def plan_users(request: CheckRequest, errors: ErrorCollector) -> Plan:
    """Check a request, and draw the users.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
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
    values = {"benchmark": BENCHMARK, "data": file, "repeat": request.repeat}
    plan = plan_over_index(request, index, out, values, errors)
    assert isinstance(plan.task, SimulatedUsers)
    plan.task.user_model = user_model
    return plan


def run_users(request: CheckRequest, plan: Plan) -> tuple[UsersResult, bool]:
    """Hold the conversations that are not in the folder yet.

    Returns:
        The result, and whether failures stopped the work.
    """
    summary, folder, gave_up = run_plan(plan)
    samples = read_records(folder / "predictions.jsonl", Sample)
    hidden = frozenset(item.id for item in plan.selected(plan.task) if item.task.hidden)
    conversations = {sample.key: _conversation(sample, sample.id in hidden) for sample in samples}
    failed = {one.id for one in conversations.values() if one.failed}
    figures = {
        name: UserFigure(mean=found.mean, n=found.n, ci95=found.ci95)
        for name in FIGURES
        if (found := summary.metrics.get(name)) and found.mean is not None
    }
    means = [mean for user, mean in means_of(folder, re.compile("user_reached")).items() if user not in failed]
    if request.repeat > 1 and means:
        every = share(means.count(1.0), len(means))
        figures[ALWAYS_REACHED] = UserFigure(mean=every.count / every.n, n=every.n, ci95=every.ci95)
    return UsersResult(
        index=request.index,
        generator=request.assistant.generator,
        worded_by=request.user_model or "",
        run=str(folder),
        figures=figures,
        conversations=tuple(conversations.values()),
        usage=summary.usage,
        seconds=round(time.perf_counter() - plan.began, 1),
        notes=plan.notes,
    ), gave_up


def _conversation(sample: Sample, hidden: bool) -> UserConversation:
    failed = (sample.reason or sample.status) if sample.status != "done" else None
    exchanges = tuple(map(UserTurn.model_validate, sample.operations))
    return UserConversation(id=sample.id, repeat=sample.repeat, hidden=hidden, exchanges=exchanges, failed=failed)
