"""Shortening of prompts: the order in which material is left out, and that the result fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import Room, conversation, hit
from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.assistant.llm.prompts.context_budget import MIN_PASSAGE_TOKENS, count_tokens, fit
from turnmark.assistant.steps.answer.answer_llm import answer_prompt
from turnmark.assistant.types import Understanding
from turnmark.corpora.types import Message

WORDS = "a word and another "


def render(passages, history):
    return (PromptMessage(role="user", content="\n".join([*passages, *(turn.content for turn in history)])),)


@given(st.lists(st.integers(0, 60), max_size=4), st.lists(st.integers(0, 30), max_size=4), st.integers(1, 500))
def test_shortened_prompt_fits_and_has_notes(sizes, turns, room):
    passages = [f"p{n} " + WORDS * size for n, size in enumerate(sizes)]
    history = [Message(role="user", content=f"t{n} " + WORDS * size) for n, size in enumerate(turns)]
    fitted = fit(render, passages, history, room)
    assert fitted is not None, "the prompt consists of passages and turns"
    text = fitted.messages[0].content
    assert count_tokens(text) <= room
    assert (text == render(passages, history)[0].content) == (not fitted.notes)
    shown_turns = [turn for turn in history if turn.content in text]
    assert shown_turns == history[len(history) - len(shown_turns) :], "the oldest turns are left out first"
    if len(shown_turns) < len(history):
        assert all(count_tokens(line) <= MIN_PASSAGE_TOKENS + 3 for line in text.splitlines() if line.startswith("p"))


def test_history_never_starts_with_an_answer():
    history = conversation(*[f"{n} {WORDS * 20}" for n in range(6)])
    room = count_tokens(render((), history[3:])[0].content)  # three turns would fit
    fitted = fit(render, (), history, room)
    assert fitted.messages == render((), history[4:])
    assert fitted.notes == ("4 of 6 earlier messages left out, the oldest",)


@given(
    st.lists(st.text(max_size=300), max_size=6),
    st.lists(st.text(min_size=1, max_size=600), min_size=1, max_size=6),
    st.text(max_size=100),
    st.integers(4000, 8000),
)
def test_complete_prompt_fits_into_the_room(turns, passages, question, context):
    """Measured on the complete prompt, with instructions, marks and numbers."""
    hits = [hit(text, n, title="") for n, text in enumerate(passages, 1)]
    understood = Understanding(rewrite=question, sub_questions=(question,))
    prompt, notes = answer_prompt(Room(context), understood, question, conversation(*turns), hits)
    assert sum(count_tokens(message.content) for message in prompt) <= context - 512
    assert ("left out" in " ".join(notes)) is (f"[{len(hits)}]\n" not in prompt[-1].content) or len(turns) > 1
