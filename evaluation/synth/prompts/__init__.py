"""The prompts of the syntheses, as text files beside this one: read, checked and filled in as all others are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from turnmark.assistant.prompts import Prompt
from turnmark.corpora.errors import RequestError
from turnmark.evaluation.prompts import own_or_built_in

HERE = Path(__file__).parent


@cache
def prompt_names() -> tuple[str, ...]:
    """The names of the built-in prompts."""
    return tuple(sorted(path.stem for path in HERE.glob("*.txt")))


def load_prompt(name: str, directory: Path | None = None) -> Prompt:
    """The prompt `name`, from `directory` where that has a file `NAME.txt`, else the built-in one.

    Raises:
        RequestError: a broken file, or placeholders that are not those of the built-in one.
    """
    return own_or_built_in(HERE, name, directory)


def prompt_hashes(names: Iterable[str], directory: Path | None = None) -> dict[str, str]:
    """Name -> SHA-256 of the prompts, those of `directory` in place of the built-in ones.

    Raises:
        RequestError: `directory` is none, or holds a `.txt` file that is no prompt of a synthesis.
    """
    if directory is not None:
        if not directory.is_dir():
            raise RequestError(f"--prompts {directory}: no such folder")
        strange = sorted(path.name for path in directory.glob("*.txt") if path.stem not in prompt_names())
        if strange:
            there = ", ".join(prompt_names())
            raise RequestError(f"--prompts {directory}: {', '.join(strange)} is not used; prompts are called: {there}")
    return {name: load_prompt(name, directory).sha256 for name in names}
