"""The steps of the turn in their forms: names, classes, and which of them a turn takes.

Third parties add a form by an entry point of the group `turnmark.steps` named `STEP.FORM` (`decide.mine`), or name it
as `STEP=python:package.module:factory`. The factory is called without arguments and gives a
`turnmark.assistant.turn.Step`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from turnmark.assistant.generators.base import Generator, traits_of
from turnmark.assistant.turn import Step
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.specs import Entry, load_python

GROUP = "turnmark.steps"
PYTHON = "python:"
_STEPS = "turnmark.assistant.steps"

Reader = Literal["none", "small", "large"]
"""Who reads: no model, a small one (`?size=small`; `local:`), a large one (every endpoint)."""


@dataclass(frozen=True)
class Form(Entry):
    """One form of a step: where its class is and what it does.

    Attributes:
        default: the readers for whom it runs unless another form is chosen.
        model: it needs a language model.
    """

    default: tuple[Reader, ...] = ()
    model: bool = False


STEPS: Mapping[str, Mapping[str, Form]] = {
    "understand": {
        "rules": Form(f"{_STEPS}.understand:UnderstandByRules", "by rules, in English", default=("none",)),
        "condense": Form(
            f"{_STEPS}.understand_llm:Condense",
            "rules; and in one call of a small model search phrases, and a complete question for what leans",
            default=("small",),
            model=True,
        ),
        "llm": Form(
            f"{_STEPS}.understand_llm:Understand",
            "kind, rewrite, parts and search phrases, in one structured call",
            default=("large",),
            model=True,
        ),
    },
    "retrieve": {
        "once": Form(
            f"{_STEPS}.retrieve:SearchOnce",
            "one search for the message, and one for each part of it",
            default=("small",),
        ),
        "active": Form(
            f"{_STEPS}.retrieve:SearchTwice",
            "and once more, narrower, for a part with thin evidence",
            default=("none",),
        ),
        "read": Form(
            f"{_STEPS}.retrieve:SearchAndRead",
            "one search, and what it finds grown to full sections",
            default=("large",),
        ),
        "agent": Form(
            f"{_STEPS}.agent:SearchWithTools",
            "as read; then the model that answers may search and read on by itself, with tools",
            model=True,
        ),
    },
    "decide": {
        "extractive": Form(
            f"{_STEPS}.decide:GradeEvidence", "said, not sure or not found, by cosines", default=("none", "small")
        ),
        "llm": Form(
            f"{_STEPS}.decide:LeaveToReader",
            "the model that answers decides, after it has read",
            default=("large",),
            model=True,
        ),
    },
    "answer": {
        "extractive": Form(f"{_STEPS}.quote:Quote", "quotations: stretches of sections", default=("none",)),
        "brief": Form(
            f"{_STEPS}.read:ReadBriefly",
            "a small model's answer from two stretches, and these below it",
            default=("small",),
            model=True,
        ),
        "llm": Form(
            f"{_STEPS}.read:Read",
            "a model's answer to all parts in one call, from full sections",
            default=("large",),
            model=True,
        ),
    },
    "revise": {
        "rules": Form(
            f"{_STEPS}.revise:Revise",
            "as a list, shorter, only or without the first n, only the steps",
            default=("none",),
        ),
        "brief": Form(
            f"{_STEPS}.revise:ReviseBriefly",
            "rules if they can; else the answer anew by a small model",
            default=("small",),
            model=True,
        ),
        "llm": Form(
            f"{_STEPS}.revise:ReviseByModel", "the complete answer anew, in one call", default=("large",), model=True
        ),
    },
    "verify": {
        "extractive": Form(
            f"{_STEPS}.verify:Verify",
            "marks, and support by words, numbers, names and embeddings",
            default=("none", "small", "large"),
        ),
    },
}
"""Step -> form, in the order of a turn."""


def reader_of(generator: Generator | None) -> Reader:
    """Who reads."""
    return "none" if generator is None else traits_of(generator).size


def all_forms() -> dict[str, dict[str, Form]]:
    """Step -> form, with those of third parties; these cannot replace one of ours."""
    forms = {step: dict(entries) for step, entries in STEPS.items()}
    for point in importlib.metadata.entry_points(group=GROUP):
        step, _, form = point.name.partition(".")
        if step in forms and form:
            package = point.dist.name if point.dist else "an entry point"
            forms[step].setdefault(form, Form(point.value, f"from {package}"))
    return forms


def forms_for(reader: Reader, choices: Sequence[str] = ()) -> dict[str, str]:
    """The form of every step.

    Args:
        reader: who reads.
        choices: `STEP=FORM` each, instead of the reader's own.
    """
    forms = {step: next(name for name, form in STEPS[step].items() if reader in form.default) for step in STEPS}
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
        elif reader == "none" and available[step][form].model:
            errors.add(f"--step {choice!r}: {form} needs a language model: add --generator")
        else:
            forms[step] = form
    errors.raise_all()
    return forms


def open_steps(forms: Mapping[str, str]) -> dict[str, Step]:
    """The steps of a turn."""
    available = all_forms() if any(form not in STEPS[step] for step, form in forms.items()) else STEPS
    steps: dict[str, Step] = {}
    for step, form in forms.items():
        target = form.removeprefix(PYTHON) if form.startswith(PYTHON) else available[step][form].target
        opened = load_python(target, f"form of {step}")()
        if not callable(opened) or not isinstance(getattr(opened, "name", None), str):
            raise RequestError(f"--step {step}={form}: expected a step (a name, called with the turn), got {opened!r}")
        steps[step] = opened
    return steps
