"""The prompts of the judges, as text files beside this one: read, checked and filled in as the assistant's own are.

A file of one's own (`--prompts`) uses as many of the available placeholders as it needs. Where `{{ tag }}` is one of
them, all material stands between marks with that tag, as in the built-in prompts; without it the material stands bare,
as in the prompts that papers print.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turnmark.assistant import prompts as assistants
from turnmark.assistant.generators.base import PromptMessage
from turnmark.assistant.prompts import Prompt, fence, read_prompt
from turnmark.corpora.errors import ErrorCollector, RequestError

HERE = Path(__file__).parent
CASE = frozenset(("question", "history", "conversation", "answer", "reference", "passages"))
"""What every prompt over one reply can show; `conversation` is the earlier turns and the question."""
OVER_CASES = ("rb-llm", "rl-mtb", "idk", "claims", "claim-verdicts", "clarification", "implied-questions", "inseval")
"""The prompts over one reply."""
TAG = "tag"


@dataclass(frozen=True)
class OwnPrompt(Prompt):
    """A prompt of the user's own, which need not use all values."""

    def render(self, **values: str | bool) -> tuple[PromptMessage, ...]:
        """See `Prompt.render`; values that it does not use are left out."""
        return super().render(**{name: value for name, value in values.items() if name in self.placeholders})


def framed(prompt: Prompt, text: str, kind: str, tag: str) -> str:
    """Material for a prompt: between marks where the prompt names their tag, else bare."""
    return fence(text, kind, tag) if TAG in prompt.placeholders else text


def load_prompt(name: str, directory: Path | None = None) -> Prompt:
    """The prompt `name`, from `directory` where that has a file `NAME.txt`, else the built-in one.

    Raises:
        RequestError: no such prompt, a broken file, or placeholders that are not available.
    """
    if name not in prompt_names():
        raise RequestError(f"no prompt of the judges is called {name!r}; there are: {', '.join(prompt_names())}")
    return own_or_built_in(HERE, name, directory)


def own_or_built_in(built_ins: Path, name: str, directory: Path | None) -> Prompt:
    """The prompt `name` of a folder with built-in ones, or the one of `directory` in its place.

    Raises:
        RequestError: a broken file, one without placeholders, or with others than those that are available.
    """
    built_in = read_prompt(name, built_ins / f"{name}.txt")
    own_file = directory / f"{name}.txt" if directory else None
    if own_file is None or not own_file.is_file():
        return built_in
    prompt = read_prompt(name, own_file)
    available = built_in.placeholders | (CASE if built_ins == HERE and name in OVER_CASES else frozenset())
    problems = []
    if unknown := sorted(prompt.placeholders - available):
        problems.append(f"unknown placeholders: {', '.join(unknown)}")
    if available - {TAG} and not prompt.placeholders - {TAG}:
        problems.append("it uses no placeholder, so it would show nothing of what it is about")
    if problems:
        raise RequestError(f"prompt {own_file}: {'; '.join(problems)}; available: {', '.join(sorted(available))}")
    return OwnPrompt(prompt.name, prompt.sections, prompt.placeholders, prompt.sha256)


def own_names(names: Iterable[str], directory: Path | None) -> tuple[str, ...]:
    """Those of the prompts that `directory` has a file for."""
    return tuple(name for name in names if directory is not None and (directory / f"{name}.txt").is_file())


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
            the judges, cannot be read, is no template, or has placeholders that are not available.
    """
    errors = ErrorCollector()
    files = [] if directory is None else sorted(path for path in directory.glob("*.txt"))
    if directory is not None and not directory.is_dir():
        errors.add(f"prompts {directory}: no such folder")
    strange = [path.name for path in files if path.stem not in (*assistants.prompt_names(), *prompt_names())]
    if strange:
        errors.add(
            f"prompts {directory}: {', '.join(strange)} is not used; the assistant's prompts are called "
            f"{', '.join(assistants.prompt_names())}; the judges' {', '.join(prompt_names())}"
        )
    for path in files:
        if path.stem in assistants.prompt_names():
            errors.collect(assistants.load_prompt, path.stem, directory)
        elif path.stem in prompt_names():
            errors.collect(load_prompt, path.stem, directory)
    errors.raise_all()
    return {name: assistants.load_prompt(name, directory).sha256 for name in assistants.prompt_names()}
