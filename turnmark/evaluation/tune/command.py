"""The command `turnmark tune`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from turnmark.core.console import kept_on_interrupt, print_json, print_result, shown_progress
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import RequestCommand, command_from
from turnmark.core.untrusted import one_line
from turnmark.evaluation.tune.request import TuneRequest


def run(request: TuneRequest, errors: ErrorCollector) -> None:
    """Find the search settings that read the answers in your documents earliest.

    Hundreds of settings are measured on questions about one half of the documents. The best are compared with the
    default on the other half, and used from then on only if one is better beyond doubt. With --try, settings of the
    assistant are compared by its replies to your own questions.
    """
    from turnmark.retrieval.search.opened_index import only_index

    if not request.index:
        request = request.model_copy(update={"index": errors.collect(only_index, "INDEX") or ""})
    if request.undo:
        _undo(request, errors)
    elif request.tries:
        _try_settings(request, errors)
    else:
        _tune(request, errors)


def _tune(request: TuneRequest, errors: ErrorCollector) -> None:
    from turnmark.evaluation.tune.forecast import forecast
    from turnmark.evaluation.tune.plan import plan_tune
    from turnmark.evaluation.tune.report import show_forecast, show_result
    from turnmark.evaluation.tune.tune_run import run_tune

    plan = plan_tune(request, errors)
    if request.dry_run:
        expected = forecast(plan)
        print_result(expected.model_dump(mode="json"), request.as_json, partial(show_forecast, expected))
        return
    with kept_on_interrupt(f"what was measured is in {plan.out}"), shown_progress() as progress:
        result = run_tune(plan, progress)
    print_result(result.model_dump(mode="json"), request.as_json, partial(show_result, result))


def _try_settings(request: TuneRequest, errors: ErrorCollector) -> None:
    """Compare settings of the assistant by its replies."""
    from turnmark.evaluation.tune.tries.report import show_tries, show_tries_forecast
    from turnmark.evaluation.tune.tries.run import forecast_tries, plan_tries, run_tries

    plan = plan_tries(request, errors)
    if request.dry_run:
        expected = forecast_tries(plan)
        print_result(expected.model_dump(mode="json"), request.as_json, partial(show_tries_forecast, expected))
        return
    with kept_on_interrupt(f"what was measured is in {plan.out}"):
        result = run_tries(plan)
    print_result(result.model_dump(mode="json"), request.as_json, partial(show_tries, result))


def _undo(request: TuneRequest, errors: ErrorCollector) -> None:
    """Remove the tuned configuration of an index, and the tuned settings of the assistant."""
    from turnmark.retrieval.search.opened_index import open_index
    from turnmark.retrieval.search.retriever_factory import untuned_retriever
    from turnmark.retrieval.search.tuned_search import tuned_file
    from turnmark.retrieval.search.tuned_settings import tuned_settings_file

    index = errors.require(open_index, request.index)
    paths: list[Path] = [tuned_file(index), tuned_settings_file(index)]
    was_tuned = any(path.exists() for path in paths)
    for path in paths:
        path.unlink(missing_ok=True)
    state = "is searched by default" if was_tuned else "was not tuned; it is searched"
    if request.as_json:
        print_json({"index": index.name, "undone": was_tuned, "retriever": untuned_retriever(index)})
    else:
        typer.echo(one_line(f"{index.name} {state} with {untuned_retriever(index)}"))


def add_tune_command(app: typer.Typer) -> None:
    """Mount `tune`."""
    app.command(
        "tune",
        cls=RequestCommand,
        epilog="Examples: turnmark tune notes   ·   turnmark tune notes --questions mine.csv   ·   "
        "turnmark tune notes --questions mine.csv --try top_k=10   ·   turnmark tune notes --undo",
    )(command_from(TuneRequest, run))
