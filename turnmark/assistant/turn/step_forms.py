"""The forms of each step of a turn: their names, their classes, and which one runs by default.

A form is one implementation of a step. Third parties add one through an entry point in the group `turnmark.steps`
named `STEP.FORM` (e.g. `decide.mine`), or with `--step STEP=python:package.module:factory`. The factory is
called without arguments and returns a step, whose signature is in `turnmark.assistant.steps.step_results`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turnmark.assistant.llm.calls.protocols import Generator, ToolGenerator, traits_of
from turnmark.assistant.steps.step_results import Steps
from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.core.specs import Entry, load_python

ENTRY_POINT_GROUP = "turnmark.steps"
PYTHON_PREFIX = "python:"
_STEPS = "turnmark.assistant.steps"

ModelProfile = Literal["none", "small", "large"]
"""Reader profile: no language model, a small one (`local:`, `?size=small`), or a large one (every other endpoint)."""


@dataclass(frozen=True)
class Form(Entry):
    """One form of a step.

    Attributes:
        default: the reader profiles for which it runs unless another form is chosen.
        model: whether it needs a language model.
        tools: whether it replaces the default for a large model that calls tools.
    """

    default: tuple[ModelProfile, ...] = ()
    model: bool = False
    tools: bool = False


def _form(target: str, summary: str, *default: ModelProfile) -> Form:
    return Form(f"{_STEPS}.{target}", summary, default=default)


def _model_form(target: str, summary: str, *default: ModelProfile, tools: bool = False) -> Form:
    """Return a form that needs a language model."""
    return Form(f"{_STEPS}.{target}", summary, default=default, model=True, tools=tools)


STEPS: Mapping[str, Mapping[str, Form]] = {
    "understand": {
        "rules": _form("understand.understand_rules:UnderstandingByRules", "by rules, in English", "none"),
        "condense": _model_form(
            "understand.understand_llm:UnderstandingBySmallModel",
            "by rules; one call of a small model adds search phrases and rewrites a message that needs its context",
            "small",
        ),
        "llm": _model_form(
            "understand.understand_llm:UnderstandingByModel",
            "kind, rewrite, parts and search phrases, in one structured call",
            "large",
        ),
    },
    "retrieve": {
        "once": _form(
            "retrieve.retrieve_sections:SingleSearch",
            "one search for the message, and one for each part of it",
            "small",
        ),
        "quote": _form(
            "retrieve.retrieve_sections:QuotableSearch",
            "like once; then definitions, and rows of tables from lower ranks",
            "none",
        ),
        "read": _form(
            "retrieve.retrieve_sections:SectionSearch", "like once; then each hit grows to its full section", "large"
        ),
        "agent": _model_form(
            "agent.search_agent:ToolSearch",
            "like read; then the answering model may search and read more with tools, if its endpoint supports them",
            tools=True,
        ),
    },
    "decide": {
        "extractive": _form("decide:DecisionByRules", "answer, not sure or not found, by cosines", "none", "small"),
        "llm": _model_form("decide:DecisionByModel", "the model that answers decides after reading", "large"),
    },
    "answer": {
        "extractive": _form("answer.answer_quotes:AnswerByQuotes", "quotations: adjacent lines of one section", "none"),
        "brief": _model_form(
            "answer.answer_llm:AnswerBySmallModel",
            "a small model's answer from the quotations, which follow below it",
            "small",
        ),
        "llm": _model_form(
            "answer.answer_llm:AnswerByModel", "a model's answer to all parts in one call, from full sections", "large"
        ),
    },
    "revise": {
        "rules": _form(
            "revise.revise_answer:RevisionByRules",
            "by rules: as a list, shorter, keep or drop the first or last n, only the steps",
            "none",
        ),
        "brief": _model_form(
            "revise.revise_answer:RevisionBySmallModel",
            "by rules if they apply; otherwise a small model rewrites the answer",
            "small",
        ),
        "llm": _model_form(
            "revise.revise_answer:RevisionByModel", "a model rewrites the complete answer, in one call", "large"
        ),
    },
    "verify": {
        "extractive": _form(
            "verify.verify_answer:Verification",
            "checks citation marks, and support by words, numbers, names and embeddings",
            "none",
            "small",
            "large",
        ),
    },
}
"""Step -> name of a form -> form, in the order of a turn."""


def profile_of(generator: Generator | None) -> ModelProfile:
    """Return the reader profile of a generator; None means that there is no language model."""
    return "none" if generator is None else traits_of(generator).size


def all_forms() -> dict[str, dict[str, Form]]:
    """Return `STEPS` together with the forms of third parties, which cannot replace a built-in form."""
    forms = {step: dict(entries) for step, entries in STEPS.items()}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        step, _, form = point.name.partition(".")
        if step in forms and form:
            package = point.dist.name if point.dist else "an entry point"
            forms[step].setdefault(form, Form(point.value, f"from {package}"))
    return forms


def calls_tools(generator: Generator | None) -> bool:
    """Return whether a model can be offered tools. Only a first call shows whether its endpoint accepts them."""
    return isinstance(generator, ToolGenerator)


def forms_for(reader: ModelProfile, choices: Sequence[str] = (), tools: bool = False) -> dict[str, str]:
    """Return the name of the form of each step.

    Args:
        reader: the reader profile, which decides the default forms.
        choices: `STEP=FORM` for each default to replace.
        tools: whether the model calls tools; see `calls_tools`.

    Raises:
        RequestError: all mistakes in `choices`.
    """
    forms: dict[str, str] = {}
    for step, step_forms in STEPS.items():
        forms[step] = next(name for name, form in step_forms.items() if reader in form.default)
        if tools and reader == "large":
            forms[step] = next((name for name, form in step_forms.items() if form.tools), forms[step])
    available = all_forms()
    errors = ErrorCollector()
    for choice in choices:
        step, _, form = choice.partition("=")
        if step not in available:
            errors.add(f"--step {choice!r}: {unknown_name('step', step, available)}")
        elif form.startswith(PYTHON_PREFIX):
            errors.collect(load_python, form.removeprefix(PYTHON_PREFIX), f"form of {step}")
            forms[step] = form
        elif form not in available[step]:
            errors.add(f"--step {choice!r}: {unknown_name(f'form of {step}', form, available[step])}")
        elif reader == "none" and available[step][form].model:
            errors.add(f"--step {choice!r}: {form} needs a language model: add --generator")
        else:
            forms[step] = form
    errors.raise_all()
    return forms


def open_steps(forms: Mapping[str, str]) -> Steps:
    """Load and return the steps of a turn.

    Args:
        forms: step -> name of its form.
    """
    available = STEPS if all(form in STEPS[step] for step, form in forms.items()) else all_forms()
    steps: dict[str, Any] = {}
    for step, form in forms.items():
        target = form.removeprefix(PYTHON_PREFIX) if form.startswith(PYTHON_PREFIX) else available[step][form].target
        opened = load_python(target, f"form of {step}")()
        if not callable(opened) or not isinstance(getattr(opened, "name", None), str):
            raise RequestError(f"--step {step}={form}: expected a step (a name, called with the turn), got {opened!r}")
        steps[step] = opened
    return Steps(**steps)
