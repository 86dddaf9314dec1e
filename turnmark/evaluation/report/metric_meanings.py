"""What each metric means, in one sentence, from `metric_meanings.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

_ENDING = re.compile(r"\[[^\]]*\]$|\.idk(?:_underspecified)?$|\.flips$|\.first$|\.q\d+@\d+$")


@cache
def _texts() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("turnmark.evaluation.report").joinpath("metric_meanings.toml").read_text("utf-8"))


def metric_meaning(name: str) -> str:
    """Return what a metric means; "" for one that this package does not know, such as a third party's.

    A variant such as `rl_f[embedded].idk` has the meaning of its metric, and those of its endings.
    """
    metrics, known_endings = _texts()["metrics"], _texts()["endings"]
    endings: list[str] = []
    while name not in metrics and (ending := _ENDING.search(name)):
        name = name[: ending.start()]
        endings.append(known_endings.get(ending.group(), ""))
    cutoff = re.search(r"@(\d+)$", name)
    meaning = metrics.get(name) or (metrics.get(f"{name[: cutoff.start()]}@k", "") if cutoff else "")
    return "; ".join(filter(None, [meaning, *reversed(endings)])) if meaning else ""
