"""Errors for people: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence


class TurnwiseError(Exception):
    """The work failed. Shown without a traceback; the command exits with 1."""

    exit_code = 1


class RequestError(TurnwiseError):
    """The request was wrong: every mistake found in it, at once. The command exits with 2.

    Args:
        problems: one sentence a mistake, each saying what is wrong, where, and what to do.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class MissingExtra(RequestError):
    """A part was asked for whose packages are not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} needs packages that are not installed: pip install 'turnwise[{extra}]'")
