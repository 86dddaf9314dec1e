"""Runs of the demo tasks, as tests of faults and kills read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEMO_SAMPLES, DEMO_CALLS = 67, 51
Check = Callable[[Path], None]


def strict(text: str) -> Any:
    """JSON without NaN."""

    def refuse(token: str) -> Any:
        raise AssertionError(f"{token} in a file")

    return json.loads(text, parse_constant=refuse)


def samples(run: Path) -> list[dict[str, Any]]:
    return [strict(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
