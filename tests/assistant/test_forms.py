"""The form of each step: defaults, choices, mistakes."""

from __future__ import annotations

import pytest

from tests.assistant.notes import script
from turnmark.assistant.forms import STEPS, forms_for, open_steps, reader_of
from turnmark.assistant.generators import open_generator
from turnmark.corpora.errors import RequestError


def test_who_reads_decides_the_forms():
    assert reader_of(None) == "none"
    for reader in ("none", "small", "large"):
        defaults = forms_for(reader)
        assert list(defaults) == list(STEPS)
        assert reader != "none" or not any(STEPS[step][form].model for step, form in defaults.items())
        assert all(sum(reader in form.default for form in forms.values()) == 1 for forms in STEPS.values())


@pytest.mark.parametrize(("options", "reader"), [("", "large"), ("?size=small", "small")])
def test_the_size_of_a_model_is_who_reads(tmp_path, options, reader):
    assert reader_of(open_generator(script(tmp_path, "x") + options)) == reader


def test_all_mistakes_come_at_once():
    with pytest.raises(RequestError) as caught:
        forms_for("none", ["cook=llm", "decide=oracle", "retrieve=agent", "answer=llm", "answer"])
    assert len(caught.value.problems) == 5
    assert "there are: understand, retrieve, decide, answer, revise, verify" in str(caught.value)
    assert "add --generator" in str(caught.value)


@pytest.mark.parametrize(("step", "form"), [(step, form) for step, forms in STEPS.items() for form in forms])
def test_every_form_can_be_chosen_and_opened(step, form):
    chosen = forms_for("large", [f"{step}={form}"])
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
        open_steps(forms_for("none", [choice]))
