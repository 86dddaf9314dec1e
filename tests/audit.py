"""Known holes in the pinned packages, by pip-audit: `python -m tests.audit`.

0: the service was asked and knows of none. 1: it knows of some. 3: it could not be asked, or pip-audit is not there;
nothing is known then, and that is said. `make audit` passes 3 on as a warning, never as a pass.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_ASKED = 3


def verdict(code: int, out: str, err: str) -> tuple[int, list[str]]:
    """Exit code and lines for what pip-audit said.

    Args:
        code, out, err: how it ended, its JSON, its messages.
    """
    try:
        report = json.loads(out)
        packages = report["dependencies"] if isinstance(report, dict) else report
        holes = [(package["name"], package.get("version", "?"), hole["id"], hole.get("fix_versions", []))
                 for package in packages for hole in package.get("vulns", ())]  # fmt: skip
        skipped = [package["name"] for package in packages if "skip_reason" in package]
    except (ValueError, KeyError, TypeError, AttributeError):
        last = (err.strip().splitlines() or ["it said nothing"])[-1]
        return NOT_ASKED, [f"COULD NOT ASK: nothing is known about the pinned packages ({last[:300]})"]
    if holes:
        return 1, [f"{name} {version}: {hole}; mended in {', '.join(fixes) or 'no version'}"
                   for name, version, hole, fixes in holes]  # fmt: skip
    if code or not packages or len(skipped) == len(packages):
        return NOT_ASKED, [f"COULD NOT ASK: pip-audit ended with {code} and looked at nothing"]
    skipped_note = f"; {len(skipped)} could not be looked up: {', '.join(skipped)}" if skipped else ""
    return 0, [f"{len(packages) - len(skipped)} pinned packages: no known hole{skipped_note}"]


def main() -> int:
    """Ask, and say what came of it."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "constraints.txt"), "--no-deps",
               "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "20"]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        code, lines = verdict(ran.returncode, ran.stdout, ran.stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        code, lines = NOT_ASKED, [f"COULD NOT ASK: {error}"]
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
