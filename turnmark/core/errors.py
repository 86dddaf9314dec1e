"""Errors for users: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TurnmarkError(Exception):
    """The work failed. The command shows the message without a traceback and exits with 1."""

    exit_code = 1


class RequestError(TurnmarkError):
    """The request was wrong. `problems` contains a sentence for each mistake. The command exits with 2."""

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, whatever its case, or "" if none is close."""
    by_lower = {other.lower().strip("-"): other for other in known}
    near = get_close_matches(name.lower().strip("-"), by_lower, n=1)
    return by_lower[near[0]] if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Describe a name that nothing of a kind has: with the name that was probably meant, and all names."""
    names = list(known)
    near = nearest_name(name, names)
    hint = f" (did you mean {near!r}?)" if near else ""
    there_are = f"there are: {', '.join(names)}" if names else "there is none yet"
    return f"no {kind} is called {name!r}{hint}; {there_are}"


class ErrorCollector:
    """Collects the mistakes of a request, so that the user sees all of them at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def add(self, problem: str) -> None:
        """Add a problem."""
        self.problems.append(problem)

    def collect(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call `function` and return its result; on a RequestError collect its problems and return None."""
        try:
            return function(*args, **kwargs)
        except RequestError as error:
            self.problems.extend(problem for problem in error.problems if problem not in self.problems)
            return None

    def require(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function`, which does not return None, and return its result.

        Raises:
            RequestError: its mistakes and those that were collected before.
        """
        result = self.collect(function, *args, **kwargs)
        self.raise_all()
        assert result is not None, "raise_all raised otherwise"
        return result

    def raise_all(self) -> None:
        """Raise a RequestError with all collected problems, if there are any."""
        if self.problems:
            raise RequestError(self.problems)
