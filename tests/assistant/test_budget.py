"""What fits into the context, in what order things are left out, and that the rest really fits."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import conversation
from tests.assistant.notes import hit as hit_of
from turnmark.assistant.budget import INSTRUCTIONS, PASSAGE_MARKS, TURN_MARKS, count_tokens, fit
from turnmark.assistant.steps.read import answer_prompt
from turnmark.assistant.types import Understanding

hit = partial(hit_of, title="", start=100)
SENTENCE = "The kettle is filled with vinegar and water. "


def words(text):
    """A count that is easy to follow: a token a word."""
    return len(text.split())


def test_the_estimate_counts_characters_and_each_han_or_kana():
    assert count_tokens("") == 0
    assert count_tokens("a" * 36) == 10
    assert count_tokens("a" * 37) == 11
    assert count_tokens("如何做饭") == 4
    assert count_tokens("abc 如何") == 4


def test_the_oldest_turns_go_first_and_no_answer_is_left_without_its_question():
    history = conversation(*["word " * 100] * 6)
    passages = [hit("word " * 50)]
    room = INSTRUCTIONS + 1 + (50 + PASSAGE_MARKS) + 3 * (100 + TURN_MARKS)  # three turns would fit
    fitted = fit(history, passages, "why?", room, words)
    assert list(fitted.history) == history[4:]
    assert list(fitted.hits) == passages
    assert fitted.notes == ("4 of 6 earlier messages were left out, the oldest: the model's context is full",)


def test_then_the_lowest_passages_go():
    history, hits = conversation("word " * 100), [hit("word " * 50, n) for n in (1, 2, 3)]
    fitted = fit(history, hits, "why?", INSTRUCTIONS + 1 + 2 * (50 + PASSAGE_MARKS), words)
    assert fitted.history == ()
    assert list(fitted.hits) == hits[:2]
    assert [note.split(" were ")[0].split(" was ")[0] for note in fitted.notes] == [
        "1 of 1 earlier message",
        "1 of 3 passages",
    ]


def test_then_the_last_passage_is_cut_at_the_end_of_a_sentence():
    hits = [hit(SENTENCE * 20), hit(SENTENCE, 2)]  # 8 words a sentence
    fitted = fit((), hits, "why?", INSTRUCTIONS + 1 + PASSAGE_MARKS + 43, words)
    passage = fitted.hits[0].passage
    assert passage.text == (SENTENCE * 5).rstrip()
    assert passage.id == hits[0].passage.id
    assert (passage.start, passage.end) == (100, 100 + len(passage.text))
    assert fitted.notes[-1] == "only the first 25% of passage [1] was sent: the model's context is full"


def test_a_question_that_fills_the_context_goes_alone():
    fitted = fit(conversation("one"), [hit(SENTENCE)], "word " * 5000, 2000, words)
    assert (fitted.history, fitted.hits) == ((), ())
    assert "question alone" in fitted.notes[0]


class Room:
    """All that building a prompt asks of a generator."""

    context_tokens, reply_tokens = 0, 400

    def __init__(self, context: int) -> None:
        self.context_tokens = context


@given(
    st.lists(st.text(max_size=300), max_size=6),
    st.lists(st.text(min_size=1, max_size=600), min_size=1, max_size=6),
    st.text(max_size=100),
    st.integers(4000, 8000),
)
def test_the_full_prompt_of_an_answer_fits_into_the_room(turns, passages, question, context):
    """Held against the prompt as it is sent: instructions, marks, numbers and all."""
    hits = [hit(text, n) for n, text in enumerate(passages, 1)]
    asked = Understanding(rewrite=question, sub_questions=(question,))
    prompt, notes = answer_prompt(Room(context), asked, question, conversation(*turns), hits)
    assert sum(count_tokens(message.content) for message in prompt) <= context - 400
    assert ("left out" in " ".join(notes)) is (f"[{len(hits)}]\n" not in prompt[-1].content) or len(turns) > 1
