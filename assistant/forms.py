"""The steps of the turn in their forms: names, what they stand for, and which of them a turn takes.

Third parties add a form by an entry point of the group `turnmark.steps` named `STEP.FORM` (`decide.mine`), or name it
as `STEP=python:package.module:factory`. The factory is called without arguments and gives a
`turnmark.assistant.turn.Step`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Literal

from turnmark.assistant.generators.base import Generator, traits_of
from turnmark.assistant.turn import Step
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.specs import Entry, load_python

GROUP = "turnmark.steps"
PYTHON = "python:"
_STEPS = "turnmark.assistant.steps"

STEPS: Mapping[str, Mapping[str, Entry]] = {
    "understand": {
        "rules": Entry(f"{_STEPS}.understand:Rules", "by rules, in English"),
        "condense": Entry(
            f"{_STEPS}.understand_llm:Condense",
            "rules; and in one call of a small model search phrases, and a question of its own for what leans",
        ),
        "llm": Entry(
            f"{_STEPS}.understand_llm:Understand", "kind, rewrite, parts and search phrases, in one structured call"
        ),
    },
    "retrieve": {
        "once": Entry(f"{_STEPS}.retrieve:Search", "one search for the message, and one for each part of it"),
        "active": Entry(f"{_STEPS}.retrieve:Search", "and once more, narrower, for a part with thin evidence"),
        "read": Entry(f"{_STEPS}.retrieve:SearchAndRead", "one search, and what it finds grown to full sections"),
        "agent": Entry(
            f"{_STEPS}.agent:Agent", "as read; then the model that answers may search and read on by itself, with tools"
        ),
    },
    "decide": {
        "extractive": Entry(f"{_STEPS}.decide:Grade", "said, not sure or not found, by cosines"),
        "llm": Entry(f"{_STEPS}.decide:Reader", "the model that answers decides, after it has read"),
    },
    "answer": {
        "extractive": Entry(f"{_STEPS}.quote:Quote", "quotations: stretches of sections"),
        "brief": Entry(f"{_STEPS}.read:ReadBriefly", "a small model's answer from two stretches, and these below it"),
        "llm": Entry(f"{_STEPS}.read:Read", "a model's answer to all parts in one call, from full sections"),
    },
    "revise": {
        "rules": Entry(f"{_STEPS}.revise:Revise", "as a list, shorter, only or without the first n, only the steps"),
        "brief": Entry(f"{_STEPS}.revise:ReviseBriefly", "rules if they can; else the answer anew by a small model"),
        "llm": Entry(f"{_STEPS}.revise:ReviseByModel", "the complete answer anew, in one call"),
    },
    "verify": {
        "extractive": Entry(f"{_STEPS}.verify:Verify", "marks, and support by words, numbers, names and embeddings"),
    },
}
"""Step -> form -> where it is and what it is."""

Reader = Literal["none", "small", "large"]
DEFAULTS: Mapping[Reader, Mapping[str, str]] = {
    "none": {
        "understand": "rules", "retrieve": "active", "decide": "extractive", "answer": "extractive", "revise": "rules",
        "verify": "extractive",
    },
    "small": {
        "understand": "condense", "retrieve": "once", "decide": "extractive", "answer": "brief", "revise": "brief",
        "verify": "extractive",
    },
    "large": {
        "understand": "llm", "retrieve": "read", "decide": "llm", "answer": "llm", "revise": "llm",
        "verify": "extractive",
    },
}  # fmt: skip
"""Reader -> step -> form. Who reads: no model, a small one (`?size=small`; `local:`), a large one (every endpoint)."""
NEEDS_MODEL = frozenset(("llm", "condense", "brief", "agent"))


def reader_of(generator: Generator | None) -> Reader:
    """Who reads."""
    return "none" if generator is None else traits_of(generator).size


def all_forms() -> dict[str, dict[str, Entry]]:
    """Step -> form, with those of third parties; these cannot replace one of ours."""
    forms = {step: dict(entries) for step, entries in STEPS.items()}
    for point in importlib.metadata.entry_points(group=GROUP):
        step, _, form = point.name.partition(".")
        if step in forms and form:
            package = point.dist.name if point.dist else "an entry point"
            forms[step].setdefault(form, Entry(point.value, f"from {package}"))
    return forms


def forms_for(reader: Reader, choices: Sequence[str] = ()) -> dict[str, str]:
    """The form of every step.

    Args:
        reader: who reads.
        choices: `STEP=FORM` each, instead of the reader's own.

    Raises:
        RequestError: every one that names no step or no form of it, or needs a model where there is none.
    """
    forms = dict(DEFAULTS[reader])
    available = all_forms()
    errors = ErrorCollector()
    for choice in choices:
        step, _, form = choice.partition("=")
        if step not in available:
            errors.add(f"--step {choice!r}: no step is called {step!r}; there are: {', '.join(available)}")
        elif form.startswith(PYTHON):
            errors.collect(load_python, form.removeprefix(PYTHON), f"form of {step}")
            forms[step] = form
        elif form not in available[step]:
            errors.add(f"--step {choice!r}: {step} has no form {form!r}; there are: {', '.join(available[step])}")
        elif form in NEEDS_MODEL and form in STEPS[step] and reader == "none":
            errors.add(f"--step {choice!r}: {form} needs a language model: add --generator")
        else:
            forms[step] = form
    errors.raise_all()
    return forms


def open_steps(forms: Mapping[str, str]) -> dict[str, Step]:
    """The steps of a turn.

    Raises:
        RequestError: a form of a third party cannot be imported, or is no step.
    """
    available = all_forms() if any(form not in STEPS[step] for step, form in forms.items()) else STEPS
    steps: dict[str, Step] = {}
    for step, form in forms.items():
        target = form.removeprefix(PYTHON) if form.startswith(PYTHON) else available[step][form].target
        opened = load_python(target, f"form of {step}")()
        if not callable(opened) or not isinstance(getattr(opened, "name", None), str):
            raise RequestError(f"--step {step}={form}: expected a step (a name, called with the turn), got {opened!r}")
        steps[step] = opened
    return steps
