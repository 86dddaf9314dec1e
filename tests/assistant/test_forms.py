"""The form of each step: defaults, choices, mistakes."""

from __future__ import annotations

import pytest

from turnmark.assistant.forms import FORMS, Forms, forms_for
from turnmark.corpora.errors import RequestError


def test_without_a_model_every_form_is_embedded():
    assert forms_for(model=False) == Forms()


def test_with_a_model_it_understands_answers_and_revises():
    made = forms_for(model=True)
    assert (made.understand, made.answer, made.revise) == ("llm", "llm", "llm")
    assert (made.decide, made.verify, made.retrieve) == ("embedded", "embedded", "active")


def test_a_form_is_chosen_by_name():
    made = forms_for(True, ["decide=llm", "retrieve=look-ahead", "understand=rules"])
    assert (made.decide, made.retrieve, made.understand) == ("llm", "look-ahead", "rules")


def test_all_mistakes_come_at_once():
    with pytest.raises(RequestError) as caught:
        forms_for(False, ["cook=llm", "decide=oracle", "verify=llm", "retrieve=look-ahead", "answer"])
    assert len(caught.value.problems) == 5
    assert "there are: understand, retrieve, decide, answer, revise, verify" in str(caught.value)
    assert "add --generator" in str(caught.value)


def test_every_form_of_the_table_can_be_chosen():
    for step, forms in FORMS.items():
        for form in forms:
            assert getattr(forms_for(True, [f"{step}={form}"]), step) == form
