"""The options of a generator's spec: how their texts become values. And the two generators that are nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options, load_python


def _whole(low: int, high: int | None = None) -> Callable[[str], int]:
    expected = f"a whole number, {low} or more" if high is None else f"a whole number from {low} to {high}"

    def convert(text: str) -> int:
        if not _DIGITS.fullmatch(text):  # int() also takes "1_0", other scripts' digits, and thousands of digits
            raise ValueError(expected)
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError(expected)
        return value

    return convert


_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")


def flag(text: str) -> bool:
    """An option that is 1 or 0."""
    if text not in ("0", "1"):
        raise ValueError("1 (yes) or 0 (no)")
    return text == "1"


def _real(low: float, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if not isfinite(value) or not low <= value <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return value

    return convert


seconds = _real(0.0, 86_400.0)

SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "max_tokens": _whole(1),
    "temperature": _real(0.0, 2.0),
    "deadline": _real(0.01, 86_400.0),
    "retries": _whole(0),
    "context": _whole(256),
    "seed": _whole(0, 2**63 - 1),
    "concurrency": _whole(1),
}

CACHE: Mapping[str, Callable[[str], Any]] = {"cache": flag}
"""The option that `open_generator` takes off a spec before the factory sees it, unless its value is wrong."""


def no_model(spec: Spec) -> None:
    """`extractive`: no language model; every step uses its extractive form."""
    problems = ["generator 'extractive' takes no argument and no url"] if spec.argument or spec.url else []
    try:
        check_options(spec, {}, "generator")
    except RequestError as error:
        problems += error.problems
    if problems:
        raise RequestError(problems)


def open_python(spec: Spec) -> Any:
    """`python:pkg.mod:factory`: whatever the factory returns; it must be a `Generator`."""
    check_options(spec, CACHE, "generator")
    return load_python(spec.argument, "generator")()
