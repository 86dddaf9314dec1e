"""Which versions made a result."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def version_of(package: str) -> str:
    """The installed version of a distribution; `unknown` where it runs from a bare checkout."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Python, the packages named, and the commit of Turnmark where it runs from a checkout."""
    found = {"python": platform.python_version()} | {name: version_of(name) for name in packages}
    # Without this check, an environment inside some other repository would lend us that repository's commit.
    if (_ROOT / ".git").exists():
        try:
            done = subprocess.run(
                ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"],
                capture_output=True, text=True, timeout=10, check=True,
            )  # fmt: skip
            found["git"] = done.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            found["git"] = "unknown"
    return found
