"""The steps of the turn in their forms: names, what they stand for, and which of them a turn takes.

Third parties add a form by an entry point of the group `turnmark.steps` named `STEP.FORM` (`decide.mine`), or name it
as `STEP=python:package.module:factory`. The factory is called without arguments and gives a
`turnmark.assistant.turn.Step`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence

from turnmark.assistant.turn import Step
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.specs import Entry, load_python

GROUP = "turnmark.steps"
PYTHON = "python:"
_STEPS = "turnmark.assistant.steps"

STEPS: Mapping[str, Mapping[str, Entry]] = {
    "understand": {
        "rules": Entry(f"{_STEPS}.split:Rules", "by rules, in English"),
        "llm": Entry(
            f"{_STEPS}.understand_llm:Condense",
            "rules; a message that leans on its conversation is put as a question of its own, in one call",
        ),
        "structured": Entry(
            f"{_STEPS}.understand_llm:Structured",
            "kind, parts and readings too, in one structured call; for large models",
        ),
    },
    "retrieve": {
        "once": Entry(f"{_STEPS}.retrieve:Once", "one search for the message, and one for each part of it"),
        "active": Entry(
            f"{_STEPS}.retrieve:Active",
            "judges what was found, and searches once more, narrower, for what it does not cover",
        ),
    },
    "decide": {
        "extractive": Entry(f"{_STEPS}.decide:Extractive", "calibrated on scores of the retrieval and on shared words"),
        "llm": Entry(
            f"{_STEPS}.decide:Judging",
            "one structured call a round: what is covered, what is missing, what the question may mean",
        ),
    },
    "answer": {
        "extractive": Entry(f"{_STEPS}.answer:Extractive", "sentences of the documents"),
        "llm": Entry(
            f"{_STEPS}.answer_parts:ByParts",
            "each part in a sentence or two from excerpts, beside what the documents say",
        ),
        "whole": Entry(
            f"{_STEPS}.answer_parts:Whole",
            "all parts in one call, from whole passages and the conversation; for large models",
        ),
    },
    "revise": {
        "rules": Entry(f"{_STEPS}.revise:Revise", "whole sentences and items by code"),
        "llm": Entry(f"{_STEPS}.revise:Revise", "rules where they can; else the whole answer anew"),
    },
    "verify": {
        "extractive": Entry(f"{_STEPS}.verify:Verify", "shared words, numbers, names and embeddings"),
        "llm": Entry(f"{_STEPS}.verify_llm:VerifyByModel", "claim by claim, in one structured call, and one repair"),
    },
}
"""Step -> form -> where it is and what it is."""

DEFAULTS = {
    "understand": "rules", "retrieve": "active", "decide": "extractive", "answer": "extractive", "revise": "rules",
    "verify": "extractive",
}  # fmt: skip
BY_MODEL = {"understand": "llm", "answer": "llm", "revise": "llm"}
NEEDS_MODEL = frozenset(("llm", "structured", "whole"))


def all_forms() -> dict[str, dict[str, Entry]]:
    """Step -> form, with those of third parties; these cannot replace one of ours."""
    forms = {step: dict(entries) for step, entries in STEPS.items()}
    for point in importlib.metadata.entry_points(group=GROUP):
        step, _, form = point.name.partition(".")
        if step in forms and form:
            package = point.dist.name if point.dist else "an entry point"
            forms[step].setdefault(form, Entry(point.value, f"from {package}"))
    return forms


def forms_for(model: bool, choices: Sequence[str] = ()) -> dict[str, str]:
    """The form of every step.

    Where there is a model it understands, answers and revises; deciding and verifying ask it only when that is chosen,
    since each costs a call more before or after the answer.

    Args:
        model: there is a language model.
        choices: `STEP=FORM` each.

    Raises:
        RequestError: every one that names no step or no form of it, or needs a model where there is none.
    """
    forms = {**DEFAULTS, **BY_MODEL} if model else dict(DEFAULTS)
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
        elif form in NEEDS_MODEL and form in STEPS[step] and not model:
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
