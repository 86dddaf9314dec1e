"""Mounts the commands of all packages, and turns errors into messages and exit codes.

Nothing heavy is imported here: `turnmark --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from turnmark.assistant import config_files
from turnmark.assistant.commands import add_assistant_commands
from turnmark.assistant.mcp.mcp_command import add_mcp_command
from turnmark.assistant.serving.serve_command import add_serve_command
from turnmark.core.command_line import CommandGroup
from turnmark.core.console import OutputClosed, guarded_streams
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.core.untrusted import one_line, valid_text
from turnmark.corpora.commands import add_data_commands
from turnmark.doctor import add_doctor_commands
from turnmark.evaluation.check.command import add_check_command
from turnmark.evaluation.commands import add_eval_commands
from turnmark.evaluation.metrics.overlap import grade_exchange
from turnmark.evaluation.report_commands import add_report_commands
from turnmark.evaluation.synth.command import add_synth_command
from turnmark.evaluation.tune.command import add_tune_command
from turnmark.local_state import add_local_state_commands
from turnmark.retrieval.commands import add_index_commands

app = CommandGroup(
    name="turnmark",
    pretty_exceptions_enable=False,
    help="A multi-turn assistant over your own documents that grades itself.",
    epilog="Start: turnmark index build FOLDER --name docs   ·   turnmark chat --index docs",
)
for add_commands in (
    add_index_commands,
    partial(add_assistant_commands, grade=grade_exchange),
    add_serve_command,
    add_mcp_command,
    add_check_command,
    add_tune_command,
    add_eval_commands,
    add_report_commands,
    add_synth_command,
    add_data_commands,
    add_doctor_commands,
    add_local_state_commands,
):
    add_commands(app)


INTERRUPTED_EXIT_CODE = 130
"""Exit code after Ctrl-C."""


def _show_version(show_version: bool) -> None:
    if show_version:
        typer.echo(f"turnmark {version('turnmark')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    show_version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version")
    ] = False,
) -> None:
    config_files.apply(context)


def run_command_line() -> int:
    """Run the command line of `sys.argv` and return the exit code."""
    # A path may contain any bytes. In every other argument, bytes that are not UTF-8 are replaced.
    sys.argv[1:] = [word if os.path.lexists(word) else valid_text(word) for word in sys.argv[1:]]
    with guarded_streams():
        try:
            code = _run()
            sys.stdout.flush()
        except OutputClosed:
            return 0
        except RequestError as error:
            return _report_problems(error.problems, error.exit_code)
        except TurnmarkError as error:
            return _report_problems([str(error)], error.exit_code)
        except OSError as error:
            return _report_problems([_place_and_reason(error)], 1)
        return code


def _run() -> int:
    try:
        code = app(prog_name="turnmark", standalone_mode=False)
    except OutputClosed:
        raise
    except typer.TyperException as error:
        raise RequestError(error.format_message()) from error
    except typer.Abort:
        return _report_problems(["canceled"], 1)
    except SystemExit as exiting:
        if isinstance(exiting.code, str):
            return _report_problems([exiting.code], 1)
        return exiting.code or 0
    if code == INTERRUPTED_EXIT_CODE:
        return _report_problems(["interrupted; finished work is kept"], code)
    return code if isinstance(code, int) else 0


def _report_problems(problems: Iterable[str], code: int) -> int:
    """Write each problem to standard error and return the exit code. Control characters are escaped, except for line
    ends inside a problem.
    """
    for problem in problems:
        lines = "\n".join(one_line(line) for line in problem.split("\n"))
        sys.stderr.write(f"turnmark: {lines}\n")
    return code


def _place_and_reason(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if not isinstance(error.filename, str | bytes):
        return reason
    path = Path(os.fsdecode(error.filename))
    if (path == home() or home() in path.parents) and not os.access(home(), os.W_OK):
        reason += f"; Turnmark keeps its state in {home()}: make it writable, or set TURNMARK_HOME to another folder"
    return f"{one_line(path)}: {reason}"
