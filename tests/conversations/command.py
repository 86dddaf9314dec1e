"""Runs a command of this folder: where its indexes are, and what its exit code means."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tests.conversations.collections import work_folder
from turnmark.core.errors import RequestError, TurnmarkError


def exit_code_of(run: Callable[[], None]) -> int:
    """Run a command and return its exit code: 0, 2 for an invalid request, 1 for a failure, 130 after Ctrl-C."""
    os.environ.setdefault("TURNMARK_HOME", str(work_folder() / "home"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        run()
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the same command continues\n")
        return 130
    except TurnmarkError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, RequestError) else 1
    return 0
