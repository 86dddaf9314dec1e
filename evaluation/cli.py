"""The `turnwise` command: every room's commands, mounted; one place where errors become messages and exit codes.

Nothing heavy is imported here: `turnwise --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

import assistant.commands
import evaluation.commands
import evaluation.listing
import retrieval.commands
from corpora.errors import RequestError, TurnwiseError

# Telemetry of every library is off, whatever part is loaded later; model hubs are asked only for what is named.
for _name, _value in {
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",
}.items():
    os.environ.setdefault(_name, _value)

app = typer.Typer(
    name="turnwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A multi-turn assistant over your own documents that grades itself.",
    epilog="Start: turnwise index build FOLDER --name docs   ·   turnwise chat --index docs",
)
for room in (retrieval.commands, assistant.commands, evaluation.commands, evaluation.listing):
    room.register(app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turnwise {version('turnwise')}")
        raise typer.Exit


@app.callback()
def _options(
    shown: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Exit: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted."""
    try:
        app()
    except RequestError as error:
        for problem in error.problems:
            sys.stderr.write(f"turnwise: {problem}\n")
        sys.exit(error.exit_code)
    except TurnwiseError as error:
        sys.stderr.write(f"turnwise: {error}\n")
        sys.exit(error.exit_code)
    except SystemExit as left:
        if left.code == 130:
            sys.stderr.write("turnwise: interrupted; what was finished is kept\n")
        raise
    except BrokenPipeError:
        # The reader of our output left (`turnwise … | head`); that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
