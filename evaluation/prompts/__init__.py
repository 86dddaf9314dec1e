"""The prompts of the judges, as text files beside this one: read, checked and filled in as the assistant's own are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from assistant import prompts as assistants
from assistant.prompts import Prompt, read_prompt
from corpora.errors import Mistakes, RequestError

HERE = Path(__file__).parent


def load_prompt(name: str, directory: Path | None = None) -> Prompt:
    """The prompt `name`, from `directory` where that has a file `NAME.txt`, else the built-in one.

    Raises:
        RequestError: no such prompt, a broken file, or placeholders that are not those of the built-in one.
    """
    if name not in prompt_names():
        raise RequestError(f"no prompt of the judges is called {name!r}; there are: {', '.join(prompt_names())}")
    return own_or_built_in(HERE, name, directory)


def own_or_built_in(built_ins: Path, name: str, directory: Path | None) -> Prompt:
    """The prompt `name` of a folder with built-in ones, or the one of `directory` in its place.

    Raises:
        RequestError: a broken file, or placeholders that are not those of the built-in one.
    """
    built_in = read_prompt(name, built_ins / f"{name}.txt")
    own = directory / f"{name}.txt" if directory else None
    if own is None or not own.is_file():
        return built_in
    prompt = read_prompt(name, own)
    if prompt.placeholders != built_in.placeholders:
        raise RequestError(f"prompt {own}: its placeholders must be {', '.join(sorted(built_in.placeholders))}")
    return prompt


@cache
def prompt_names() -> tuple[str, ...]:
    """The names of the built-in prompts."""
    return tuple(sorted(path.stem for path in HERE.glob("*.txt")))


def prompt_hashes(names: Iterable[str], directory: Path | None = None) -> dict[str, str]:
    """Name -> SHA-256 of the prompts, those of `directory` in place of the built-in ones."""
    return {name: load_prompt(name, directory).sha256 for name in names}


def own_prompts(directory: Path | None) -> dict[str, str]:
    """Name -> SHA-256 of the assistant's prompts, after a look at every file of a folder with prompts of one's own.

    Raises:
        RequestError: every mistake in the folder: it is none, a `.txt` file is neither a prompt of the assistant nor of
            the judges, cannot be read, is no template, or has other placeholders than the built-in one.
    """
    mistakes = Mistakes()
    files = [] if directory is None else sorted(path for path in directory.glob("*.txt"))
    if directory is not None and not directory.is_dir():
        mistakes.add(f"prompts {directory}: no such folder")
    strange = [path.name for path in files if path.stem not in (*assistants.prompt_names(), *prompt_names())]
    if strange:
        mistakes.add(
            f"prompts {directory}: {', '.join(strange)} is not used; the assistant's prompts are called "
            f"{', '.join(assistants.prompt_names())}; the judges' {', '.join(prompt_names())}"
        )
    for path in files:
        if path.stem in assistants.prompt_names():
            mistakes.caught(assistants.load_prompt, path.stem, directory)
        elif path.stem in prompt_names():
            mistakes.caught(load_prompt, path.stem, directory)
    mistakes.check()
    return {name: assistants.load_prompt(name, directory).sha256 for name in assistants.prompt_names()}
