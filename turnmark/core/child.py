"""Processes of our own: one of our modules, run by this interpreter."""

from __future__ import annotations

import os
import sys


def module_process(module: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment that run a module with what this process can import.

    Modules that lie in the current folder are not imported (`-P`).
    """
    path = os.pathsep.join(filter(None, sys.path))
    return [sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path}
