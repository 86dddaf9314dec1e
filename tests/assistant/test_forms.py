"""The form of each step: defaults, choices, mistakes."""

from __future__ import annotations

import pytest

from turnmark.assistant.forms import DEFAULTS, STEPS, forms_for, open_steps
from turnmark.corpora.errors import RequestError


def test_with_a_model_it_understands_answers_and_revises():
    assert forms_for(model=False) == DEFAULTS
    chosen = forms_for(model=True)
    assert [chosen[step] for step in ("understand", "answer", "revise")] == ["llm"] * 3
    assert [chosen[step] for step in ("decide", "verify", "retrieve")] == ["extractive", "extractive", "active"]


def test_all_mistakes_come_at_once():
    with pytest.raises(RequestError) as caught:
        forms_for(False, ["cook=llm", "decide=oracle", "verify=llm", "answer=whole", "answer"])
    assert len(caught.value.problems) == 5
    assert "there are: understand, retrieve, decide, answer, revise, verify" in str(caught.value)
    assert "add --generator" in str(caught.value)


@pytest.mark.parametrize(("step", "form"), [(step, form) for step, forms in STEPS.items() for form in forms])
def test_every_form_can_be_chosen_and_opened(step, form):
    chosen = forms_for(True, [f"{step}={form}"])
    assert chosen[step] == form
    opened = open_steps(chosen)[step]
    assert opened.name == (step if step != "revise" else "answer")
    assert callable(opened)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("decide=python:json", "package.module:factory"),
        ("decide=python:json:nothing", "json has no 'nothing'"),
        ("decide=python:no_such_module:factory", "cannot be imported"),
        ("decide=python:builtins:dict", "expected a step"),
    ],
)
def test_what_is_no_step_is_a_mistake(choice, reason):
    with pytest.raises(RequestError, match=reason):
        open_steps(forms_for(False, [choice]))
