"""What a model is unsure of becomes a query."""

from __future__ import annotations

from math import log

from hypothesis import given
from hypothesis import strategies as st

from turnmark.assistant.generators.base import TokenLogprob
from turnmark.assistant.steps.answer_whole import MOST_SEARCHES, unsure


def tokens(*pairs: tuple[str, float]) -> list[TokenLogprob]:
    return [TokenLogprob(token=token, logprob=log(likely)) for token, likely in pairs]


def test_a_sure_draft_is_searched_for_nothing():
    reply = tokens(("The kettle", 0.9), (" is red", 0.8), (".", 0.1), (" [1]", 0.05))
    assert unsure("The kettle is red. [1]", reply) == []


def test_an_unsure_sentence_is_searched_for_without_what_is_unlikely():
    reply = tokens(("It is red.", 0.9), (" It boils in", 0.8), (" seven", 0.2), (" minutes", 0.9), (" [1].", 0.9))
    assert unsure("It is red. It boils in seven minutes [1].", reply) == ["It boils in minutes."]


def test_a_sentence_of_nothing_but_guesses_is_searched_for_as_it_stands():
    assert unsure("Paris.", tokens(("Paris", 0.1), (".", 0.9))) == ["Paris."]


def test_only_the_first_unsure_sentences_are_searched_for():
    reply = tokens(*[(f"Fact {n} holds. ", 0.1) for n in range(6)])
    text = "".join(token.token for token in reply).strip()
    assert len(unsure(text, reply)) == MOST_SEARCHES


def test_a_draft_without_the_thinking_before_it_is_found_in_its_tokens():
    reply = tokens(("<think>hm</think>", 0.1), ("It is", 0.9), (" blue", 0.2), (".", 0.9))
    assert unsure("It is blue.", reply) == ["It is."]


def test_tokens_that_spell_something_else_say_nothing():
    assert unsure("It is blue.", tokens(("Something else.", 0.1))) == []


@given(st.lists(st.tuples(st.text(max_size=12), st.floats(min_value=-20, max_value=0)), max_size=30))
def test_any_tokens_give_queries_of_words(pairs):
    logprobs = [TokenLogprob(token=token, logprob=value) for token, value in pairs]
    text = "".join(token for token, _ in pairs).strip()
    queries = unsure(text, logprobs)
    assert len(queries) <= MOST_SEARCHES
    assert all(any(map(str.isalnum, query)) for query in queries)


def test_the_first_word_of_a_later_sentence_is_looked_at_too():
    reply = tokens(("It is red.", 0.9), (" Herring", 0.1), (" is a fish.", 0.9))
    assert unsure("It is red. Herring is a fish.", reply) == ["is a fish."]
