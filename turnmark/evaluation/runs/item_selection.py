"""The items of a run: open the task of a request, read its items, and select the part that is answered or scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnmark.core.errors import ErrorCollector
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.storage.predictions import Answers
from turnmark.evaluation.tasks.request import EvalRequest, describe_selection, select
from turnmark.evaluation.tasks.task import Task


@dataclass(frozen=True)
class DataItems:
    """The items of a task's data.

    Attributes:
        domains: id -> domain for the items of the requested domains, in the order of the data.
        problems: unreadable rows.
        total: number of all items.
    """

    domains: Mapping[str, str | None]
    problems: tuple[Problem, ...] = ()
    total: int = 0


def open_task(
    kind: type[Task], request: EvalRequest, setting: str | None, domains: tuple[str, ...], answers: Answers | None
) -> Task:
    """Open the task of a request for some domains; an empty tuple means all.

    Raises:
        RequestError: the data are missing or wrong, or the request does not fit the task.
    """
    options = request.options if answers is None else kind.options_for(request.options, setting, answers)
    return kind(request.model_copy(update={"domains": domains, "options": options}), setting)


def read_items(task: Task) -> DataItems:
    """Read all items of a task."""
    domains: dict[str, str | None] = {}
    problems: list[Problem] = []
    total = 0
    for item in task.items():
        if isinstance(item, Problem):
            problems.append(item)
            continue
        total += 1
        if not task.domains or item.domain in task.domains:
            domains[item.id] = item.domain
    return DataItems(domains, tuple(problems), total)


def select_ids(task: Task, items: DataItems, errors: ErrorCollector) -> list[str]:
    """Return the ids that a request selects from the data. Data without items is a mistake."""
    if not items.domains:
        first = f"; its first mistake: {items.problems[0]}" if items.problems else ""
        errors.add(f"{name_data(task)}: there is nothing to answer in the data{first}")
    if task.retrieves:  # the task selected its queries when it was opened
        return list(items.domains)
    return select(task.request, list(items.domains), errors, task.stratum, task.unit)


def describe_part(
    request: EvalRequest, task: Task, chosen_ids: Sequence[str], items: DataItems, parts: Sequence[RunManifest] = ()
) -> str:
    """Describe the part of the data that a run covers; empty if it covers all of it.

    Args:
        parts: see `StoredAnswers`.
    """
    if len(parts) == 1 and parts[0].selection:
        return parts[0].selection
    in_domains = [name for name, domain in items.domains.items() if not task.domains or domain in task.domains]
    available = task.available or len(set(map(task.unit, in_domains)))
    chosen = len(set(map(task.unit, chosen_ids)))
    if len(parts) > 1 and chosen < available:
        return f"{chosen:,} of {available:,}, selected by {len(parts)} runs"
    return describe_selection(request, chosen, available)


def name_data(task: Task, domains: Sequence[str] = ()) -> str:
    """Return the benchmark and the setting of a task, with some domains, for messages."""
    words = (task.request.benchmark, task.setting, f"({', '.join(domains)})" if domains else "")
    return " ".join(filter(None, words))
