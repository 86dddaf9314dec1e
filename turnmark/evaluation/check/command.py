"""The command `turnmark check`."""

from __future__ import annotations

from functools import partial

import typer

from turnmark.assistant.config import with_index, with_tuned_settings, without_index
from turnmark.core.console import kept_on_interrupt, notify, print_result
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import RequestCommand, command_from
from turnmark.evaluation.check.request import CheckRequest


def run(request: CheckRequest, errors: ErrorCollector) -> None:
    """Check how well the assistant does on your documents.

    Asks your own questions (--questions), or questions that a model writes from sections of the index. Without both,
    sentences are removed from their passages, and retrieval must find these passages.
    """
    request = _over_index(request, errors)
    if "repeat" in request.typed and request.users is None:
        errors.add("--repeat needs --users N")
    if request.draft_questions is not None:
        _draft_questions(request, errors)
    elif request.questions is not None:
        _check_questions(request, errors)
    elif request.users is not None:
        _check_users(request, errors)
    else:
        _check_index(request, errors)


def _check_index(request: CheckRequest, errors: ErrorCollector) -> None:
    """Ask questions that are made for the index."""
    from turnmark.evaluation.check.console_report import show_check
    from turnmark.evaluation.check.index_check import plan_check, run_check

    for name in ("answers", "fail_under", "junit"):
        if name in request.typed:
            errors.add(f"--{name.replace('_', '-')} needs --questions FILE")
    checked = plan_check(request, errors)
    with kept_on_interrupt(f"the results so far are in {checked.out}"):
        result, gave_up = run_check(checked)
    print_result(result.model_dump(mode="json"), request.as_json, partial(show_check, result))
    if gave_up:
        raise TurnmarkError(f"{result.failed} questions failed; the same command tries them again")


def _check_questions(request: CheckRequest, errors: ErrorCollector) -> None:
    """Ask your own questions; exit with 1 if a figure is below its threshold."""
    from turnmark.evaluation.check.own_questions.junit import write_junit
    from turnmark.evaluation.check.own_questions.questions_check import missed_thresholds, plan_questions, run_questions
    from turnmark.evaluation.check.own_questions.questions_report import show_questions

    checked = plan_questions(request, errors)
    with kept_on_interrupt(f"the replies so far are in {checked.plan.folder}"):
        result, gave_up = run_questions(checked)
    if request.junit is not None:
        write_junit(result, request.junit)
    print_result(result.model_dump(mode="json"), request.as_json, partial(show_questions, result))
    missed = list(missed_thresholds(result, checked.thresholds))
    if gave_up:
        missed.append(f"{result.failed} questions have no reply; the same command asks them again")
    if missed:
        raise TurnmarkError("\n".join(missed))


def _check_users(request: CheckRequest, errors: ErrorCollector) -> None:
    """Let simulated users talk to the assistant."""
    from turnmark.evaluation.check.simulation.users_check import plan_users, run_users
    from turnmark.evaluation.check.simulation.users_report import show_users

    plan = plan_users(request, errors)
    with kept_on_interrupt(f"the conversations so far are in {plan.folder}"):
        result, gave_up = run_users(request, plan)
    print_result(result.model_dump(mode="json"), request.as_json, partial(show_users, result))
    if gave_up:
        raise TurnmarkError("conversations failed; the same command tries them again")


def _draft_questions(request: CheckRequest, errors: ErrorCollector) -> None:
    """Write a first file of questions."""
    from turnmark.evaluation.check.own_questions.draft_questions import draft_questions, plan_draft

    draft = plan_draft(request, errors)
    count = draft_questions(draft)
    command = f"turnmark check {request.index} --questions {draft.path}"
    notify(f"{count} questions are in {draft.path}; correct them, then: {command}")


def _over_index(request: CheckRequest, errors: ErrorCollector) -> CheckRequest:
    """Return the request with the index that it names as an argument or as a flag, or with the only one, and with the
    settings that the index was tuned to."""
    from turnmark.retrieval.search.opened_index import open_index

    config = request.assistant
    if request.named and request.named != config.index:
        if "index" in request.typed:
            errors.add(f"INDEX {request.named!r} and --index {config.index!r}: name one of them")
        config = config.model_copy(update={"index": request.named})
    config = with_index(config, errors)
    if "," in config.index:
        errors.add(f"--index {config.index}: one index is checked at a time")
        config = without_index(config)
    index = ErrorCollector().collect(open_index, config.index) if config.index else None
    if index is not None:  # an index that cannot be opened is reported by the check
        config = with_tuned_settings(config, index)
    return request.model_copy(update={"assistant": config})


def add_check_command(app: typer.Typer) -> None:
    """Mount `check`."""
    app.command(
        "check",
        cls=RequestCommand,
        epilog="Examples: turnmark check notes   ·   turnmark check notes --questions mine.csv   ·   "
        "turnmark check notes --generator openai:gpt-4o-mini --budget '$1'",
    )(command_from(CheckRequest, run))
