"""Build the requests of `eval` and `score`: which options a benchmark has, and whether the options fit the task."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import create_model
from typer.models import ParameterInfo

from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.core.flags import Flag, build_request, flag_of, flags_of
from turnmark.evaluation.tasks.declarations import benchmarks, load
from turnmark.evaluation.tasks.registry import (
    all_task_names,
    benchmark_names,
    find_task,
    import_tasks,
    measures_judges,
    task_names,
)
from turnmark.evaluation.tasks.request import EvalRequest, TaskOptions

if TYPE_CHECKING:
    from turnmark.evaluation.tasks.task import Task

SCORE_OPTIONS = frozenset({
    "benchmark", "predictions", "data", "task", "setting", "domains", "embedder", "judge", "prompts", "budget", "seed",
    "out", "dry_run", "as_json",
})  # fmt: skip
"""The options of `score`, with those that the benchmarks declare for it."""
NOT_IN_PYTHON = frozenset({"benchmark", "predictions", "generator", "suite", "dry_run", "full", "as_json"})
"""Options of the commands that the Python functions take in another form, or do not need."""


def declared_options() -> dict[str, type[TaskOptions]]:
    """Return the options that each benchmark of this package declares."""
    return {name: load(benchmark.options) for name, benchmark in benchmarks().items()}


def _own_options(benchmark: str | None) -> list[type[TaskOptions]]:
    """Return the options of a benchmark. In a benchmark of another package, each task has its own options."""
    if benchmark is None:
        return []
    declared = declared_options()
    if benchmark in declared:
        return [declared[benchmark]]
    try:
        return [task.options_type for task in import_tasks(benchmark)]
    except RequestError:  # reported when the request is checked
        return []


@lru_cache(maxsize=16)
def request_type(benchmark: str | None = None) -> type[EvalRequest]:
    """Return the request with the options of every benchmark. The help shows the options of one benchmark and hides the
    others. The others are accepted so that a message can say where they belong.
    """
    own = _own_options(benchmark)
    fields: dict[str, Any] = {}
    for record in (*own, *declared_options().values()):
        for name, field in record.model_fields.items():
            extras = field.metadata if record in own else list(map(_hide, field.metadata))
            fields.setdefault(name, (Annotated[(field.annotation, *extras)], field.default))
    options = create_model("OptionsOfAll", __base__=TaskOptions, **fields)
    return create_model("RequestWithOptions", __base__=EvalRequest, options=(options, options()))


def options_elsewhere(benchmark: str | None) -> set[str]:
    """Return the names of the options that only other benchmarks have."""
    every = {name for options in declared_options().values() for name in options.model_fields}
    return every.difference(*(options.model_fields for options in _own_options(benchmark)))


def _hide(extra: Any) -> Any:
    if not isinstance(extra, ParameterInfo):
        return extra
    hidden = copy(extra)
    hidden.hidden = True
    return hidden


def option_names(command: Literal["eval", "score"], kind: type[EvalRequest]) -> frozenset[str]:
    """Return the names of the options of a command."""
    if command == "eval":
        return frozenset(flags_of(kind)) - {"predictions"}
    return SCORE_OPTIONS.union(*(options.scored for options in declared_options().values()))


def keywords(command: Literal["eval", "score"], benchmark: str | None = None) -> dict[str, Flag]:
    """Return the keywords of `evaluate` or `score` in the Python API, which are the flags of the command."""
    kind = request_type(benchmark)
    names = option_names(command, kind) - NOT_IN_PYTHON
    return {name: flag for name, flag in flags_of(kind).items() if name in names}


def request_from_keywords(
    command: Literal["eval", "score"],
    benchmark: str,
    options: Mapping[str, Any],
    fields: Mapping[str, Any],
    errors: ErrorCollector,
) -> EvalRequest:
    """Build the request of a call of the Python API, and fit it to its task.

    Args:
        options: the keywords of the call. A value that is not the default counts as set by the user.
        fields: further fields of the request, which a keyword of the same name replaces.

    Raises:
        TypeError: the function has no such keyword.
        RequestError: `all` is no single benchmark.
    """
    flags = keywords(command, benchmark)
    for name in options.keys() - flags.keys():
        function = "evaluate" if command == "eval" else "score"
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    if benchmark == "all":
        raise RequestError("`all` is for the command `turnmark eval all`; name one benchmark")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    for name, value in values.items():
        if Path in get_args(flags[name].field.annotation) and isinstance(value, str | Path):
            values[name] = Path(value).expanduser()
    values = {
        **fields, **values, "benchmark": benchmark, "command": f"turnmark.{command}({benchmark!r}, …)",
        "typed": frozenset(name for name, value in values.items() if value != flags[name].default),
    }  # fmt: skip
    return fit_request(make_request(values, errors), command, errors)


def make_request(values: Mapping[str, Any], errors: ErrorCollector) -> EvalRequest:
    """Build a request from the values of its options; the options of the assistant and the benchmark stand next to the
    others. A wrong value is added to `errors`.
    """
    return build_request(request_type(values.get("benchmark")), values, errors)


def fit_request(request: EvalRequest, command: Literal["eval", "score"], errors: ErrorCollector) -> EvalRequest:
    """Reset the options that the task does not use. A given option without effect is added to `errors`."""
    _check_task(request.benchmark, request.task, command, errors)
    if request.suite is not None and request.benchmark != "all":
        errors.add(f"--suite is for `all`; leave it out for {request.benchmark}")
    task = find_task(request.benchmark, request.task)
    if task is not None:
        request = task.fit(request, errors)
    request = _keep_own_options(request, task, errors)
    if task is not None and task.retrieves:
        return request
    if request.judge and not request.scoring and measures_judges(request.benchmark, request.task):
        judge = request.judge[0]  # the judge is the system under test, so it takes the place of the generator
        if len(request.judge) > 1 or ("generator" in request.typed and request.assistant.generator != judge):
            errors.add("--judge: this task measures one judge; name it once, with --judge or with --generator")
        request = request.model_copy(update={"judge": ()})
        return request.with_generator("extractive" if judge == "embedded" else judge)
    if request.judge:
        from turnmark.evaluation.runs.judge_setup import judge_problems

        tasks = [request.task] if request.task else task_names(request.benchmark)[:1]
        errors.problems += judge_problems(request.benchmark, tasks, request.judge)
    if request.scoring:
        _check_judging(request, errors)
    return request


def _keep_own_options(request: EvalRequest, task: type[Task] | None, errors: ErrorCollector) -> EvalRequest:
    """Keep the options that the task declares. Any other option that is given is an error, which says where the option
    belongs."""
    options_type = task.options_type if task is not None else TaskOptions
    known = benchmarks().keys() | {"all"}
    if task is not None or request.benchmark in known:
        for name, field in type(request.options).model_fields.items():
            is_given = getattr(request.options, name) != field.default
            if is_given and name not in options_type.model_fields:
                errors.add(_refuse(request, name))
    own = {name: value for name, value in dict(request.options).items() if name in options_type.model_fields}
    fields = {name: getattr(request, name) for name in EvalRequest.model_fields}
    return EvalRequest.model_construct(**{**fields, "options": options_type.model_validate(own)})


def _refuse(request: EvalRequest, option: str) -> str:
    flag = flag_of(request_type(), option)
    owners = [name for name, options in declared_options().items() if option in options.model_fields]
    if request.benchmark == "all":
        return f"{flag} is for {', '.join(owners)}; `all` runs them with the default"
    if request.benchmark in owners:
        return f"{flag} is for another task of {request.benchmark}; leave it out"
    return f"{flag}: {request.benchmark} does not use it; it is for {', '.join(owners)}"


def _check_task(benchmark: str, task: str | None, command: str, errors: ErrorCollector) -> None:
    known = errors.collect(import_tasks, benchmark)
    known_tasks = task_names(benchmark)
    if known == () and benchmark != "all":
        errors.add(unknown_name("benchmark", benchmark, benchmark_names()))
    if benchmark == "all" and command == "score":
        errors.add("score: name one benchmark; `all` is for eval")
    elif benchmark == "all" and task is not None:
        errors.add("--task: `all` runs the default task of each benchmark; leave it out")
    elif task is not None and task not in (choosable := known_tasks or all_task_names()):
        kind = f"task of {benchmark}" if known_tasks else "task"
        errors.add(f"--task: {unknown_name(kind, task, choosable)}")


def _check_judging(request: EvalRequest, errors: ErrorCollector) -> None:
    """Check the prompts and the budget of the judges of `score`."""
    from turnmark.evaluation.prompts import own_prompts
    from turnmark.evaluation.runs.judge_setup import check_judges_can_spend

    errors.collect(own_prompts, request.assistant.prompts)
    check_judges_can_spend(request.budget, request.judge, errors)
    for name in ("prompts", "budget"):
        if name in request.typed and not request.judge:
            errors.add(f"--{name} is for judges, but there is no --judge; name one, or leave it out")
