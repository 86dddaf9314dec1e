"""The command `turnmark tune`."""

from __future__ import annotations

from pathlib import Path

import typer

from turnmark.core.console import notify, print_json, shown_progress
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import RequestCommand, command_from
from turnmark.core.untrusted import one_line
from turnmark.evaluation.tune.request import TuneRequest


def run(request: TuneRequest, errors: ErrorCollector) -> None:
    """Find the search settings that read the answers in your documents earliest.

    Hundreds of settings are measured on questions about one half of the documents. The best are compared with the
    default on the other half, and used from then on only if one is better beyond doubt.
    """
    from turnmark.retrieval.search.opened_index import only_index

    if not request.index:
        request = request.model_copy(update={"index": errors.collect(only_index, "INDEX") or ""})
    if request.undo:
        _undo(request, errors)
    else:
        _tune(request, errors)


def _tune(request: TuneRequest, errors: ErrorCollector) -> None:
    from rich.console import Console

    from turnmark.evaluation.tune.report import show_forecast, show_result
    from turnmark.evaluation.tune.tune_run import forecast, plan_tune, run_tune

    plan = plan_tune(request, errors)
    if request.dry_run:
        expected = forecast(plan)
        if request.as_json:
            print_json(expected.model_dump(mode="json"))
        else:
            show_forecast(expected, Console())
        return
    try:
        with shown_progress() as progress:
            result = run_tune(plan, progress)
    except KeyboardInterrupt:
        notify(f"what was measured is in {plan.out}; the same command continues")
        raise
    if request.as_json:
        print_json(result.model_dump(mode="json"))
    else:
        show_result(result, Console())


def _undo(request: TuneRequest, errors: ErrorCollector) -> None:
    """Remove the tuned configuration of an index."""
    from turnmark.retrieval.search.opened_index import open_index
    from turnmark.retrieval.search.retriever_factory import untuned_retriever
    from turnmark.retrieval.search.tuned_search import tuned_file

    index = errors.require(open_index, request.index)
    path: Path = tuned_file(index)
    was_tuned = path.exists()
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
        "turnmark tune notes --dry-run   ·   turnmark tune notes --undo",
    )(command_from(TuneRequest, run))
