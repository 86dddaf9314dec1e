"""Child processes that run one of our modules with this interpreter."""

from __future__ import annotations

import os
import sys


def module_process(module: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment to run a module that can import what this process can.

    Modules in the current folder are not imported (`-P`).
    """
    path = os.pathsep.join(filter(None, sys.path))
    return [sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path}
