"""The command `turnmark check`."""

from __future__ import annotations

import typer

from turnmark.assistant.config import with_index, without_index
from turnmark.core.console import notify, print_json
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import RequestCommand, command_from
from turnmark.evaluation.check.request import CheckRequest


def run(request: CheckRequest, errors: ErrorCollector) -> None:
    """Check how well the assistant does on your documents.

    A model writes questions from sections of the index and the assistant answers them. Without a model,
    sentences are removed from their passages, and retrieval must find these passages.
    """
    from turnmark.evaluation.check.index_check import plan_check, run_check

    checked = plan_check(_over_index(request, errors), errors)
    try:
        result, gave_up = run_check(checked)
    except KeyboardInterrupt:
        notify(f"the results so far are in {checked.out}; the same command continues")
        raise
    if request.as_json:
        print_json(result.model_dump(mode="json"))
    else:
        from rich.console import Console

        from turnmark.evaluation.check.console_report import show_check

        show_check(result, Console())
    if gave_up:
        raise TurnmarkError(f"{result.failed} questions failed; the same command tries them again")


def _over_index(request: CheckRequest, errors: ErrorCollector) -> CheckRequest:
    """Return the request with the index that it names as an argument or as a flag, or with the only one."""
    config = request.assistant
    if request.named and request.named != config.index:
        if "index" in request.typed:
            errors.add(f"INDEX {request.named!r} and --index {config.index!r}: name one of them")
        config = config.model_copy(update={"index": request.named})
    config = with_index(config, errors)
    if "," in config.index:
        errors.add(f"--index {config.index}: one index is checked at a time")
        config = without_index(config)
    return request.model_copy(update={"assistant": config})


def add_check_command(app: typer.Typer) -> None:
    """Mount `check`."""
    app.command(
        "check",
        cls=RequestCommand,
        epilog="Examples: turnmark check notes   ·   turnmark check notes --retriever bm25   ·   "
        "turnmark check notes --generator openai:gpt-4o-mini --budget '$1'",
    )(command_from(CheckRequest, run))
