"""What the shell completes beside the names of commands and flags: indexes, specs, benchmarks, sessions, run folders.

Only where the shell asks are the parameters told what completes them: no command loads any of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

VARIABLE = "_TURNMARK_COMPLETE"
"""The shell's function sets it."""


def asked() -> bool:
    """Whether the shell asks for completions, or a command is to be run."""
    return VARIABLE in os.environ


def attach(command: Any, group: str = "") -> None:
    """Give the parameters of a command, and of those inside a group, what completes them.

    Args:
        command: as typer made it.
        group: the name of the group that it is in.
    """
    for inner in getattr(command, "commands", {}).values():
        attach(inner, command.name or "")
    by_parameter = completers() | _NAMED.get(group, {})
    for parameter in command.params:
        if parameter.name in by_parameter and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _as_asked(by_parameter[parameter.name])


def _as_asked(complete: Callable[[str], list[str]]) -> Callable[[Any, Any, str], list[str]]:
    return lambda context, parameter, incomplete: complete(incomplete)  # noqa: ARG005


def completers() -> dict[str, Callable[[str], list[str]]]:
    """Name of a parameter -> what completes it."""
    return {
        "index": indexes,
        "index_name": indexes,
        "generator": generators,
        "judge": generators,
        "retriever": specs("retrievers"),
        "embedder": specs("embedders"),
        "step": specs("steps"),
        "query": queries,
        "benchmark": benchmarks,
        "task": tasks,
        "role": roles,
        "resume": sessions,
        "runs": runs,
        "run": runs,
        "passages": runs,
        "references": runs,
    }


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def indexes(incomplete: str) -> list[str]:
    """Names of indexes: the folders that have a manifest, which is not read."""
    from turnmark.corpora.home import home

    return _starting(incomplete, (path.parent.name for path in (home() / "indexes").glob("*/manifest.json")))


def sessions(incomplete: str) -> list[str]:
    """Names of kept sessions, as far as their files tell."""
    from turnmark.corpora.home import home

    return _starting(incomplete, (path.stem for path in (home() / "sessions").glob("*.jsonl")))


def specs(role: str) -> Callable[[str], list[str]]:
    """Names of a role, as `turnmark list` shows them."""

    def complete(incomplete: str) -> list[str]:
        from turnmark.evaluation.listing import names

        return _starting(incomplete, names()[role])

    return complete


def roles(incomplete: str) -> list[str]:
    """Roles that `turnmark list` knows."""
    from turnmark.evaluation.listing import names

    return _starting(incomplete, names())


def queries(incomplete: str) -> list[str]:
    """Query modes."""
    return specs("queries")(incomplete)


def benchmarks(incomplete: str) -> list[str]:
    """Benchmarks, and `all`."""
    from turnmark.evaluation.benchmarks.registry import names

    return _starting(incomplete, names())


def tasks(incomplete: str) -> list[str]:
    """Tasks of all benchmarks."""
    from turnmark.evaluation.benchmarks.registry import TASKS

    return _starting(incomplete, TASKS)


def models(incomplete: str) -> list[str]:
    """Models of `turnmark model`."""
    from turnmark.corpora.models import MODELS

    return _starting(incomplete, MODELS)


def generators(incomplete: str) -> list[str]:
    """Names of generators; behind `local:` the models by name."""
    if incomplete.startswith("local:"):
        return [f"local:{name}" for name in models(incomplete.removeprefix("local:"))]
    return specs("generators")(incomplete)


def runs(incomplete: str) -> list[str]:
    """Folders below what is typed, of which a run is one that has a manifest or holds such folders."""
    parent, _, last = incomplete.rpartition("/")
    folder = Path(parent or ("/" if incomplete.startswith("/") else ".")).expanduser()
    prefix = f"{parent}/" if "/" in incomplete else ""
    try:
        inside = [child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")]
    except OSError:
        return []
    matching = [name for name in inside if name.startswith(last)]
    return sorted(prefix + name + ("" if (folder / name / "manifest.json").is_file() else "/") for name in matching)


_NAMED: dict[str, dict[str, Callable[[str], list[str]]]] = {
    "index": {"name": indexes},
    "model": {"name": models},
    "sessions": {"name": sessions},
}
