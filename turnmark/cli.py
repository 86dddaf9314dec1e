"""The `turnmark` command. Imports happen inside `main`, so that Ctrl-C works from the start."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted."""
    try:
        from turnmark.app import run_command_line

        code = run_command_line()
    except KeyboardInterrupt:
        sys.stderr.write("turnmark: interrupted\n")
        code = 130
    sys.exit(code)
