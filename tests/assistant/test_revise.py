"""Revisions do what was asked and nothing else, and say what they did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnmark.assistant.steps.operations import Operation, operations, pieces_of
from turnmark.assistant.steps.revise_llm import revised as revise_answer

from tests.assistant.notes import ANSWER, FIRST, FOURTH, SECOND, THIRD, hit
from turnmark.assistant.steps.revise import taken_out
from turnmark.assistant.types import RevisedAnswer
from turnmark.corpora.types import Message

QUESTION = "How is the Marigold run?"
HITS = [
    hit("During her January refit the small launch Little Auk sails in her place. Terns nest on the sand."),
    hit("A single ticket for an adult costs £7.20. The bakery opens at six.", 2),
]


def revised(instruction, answer=ANSWER, hits=(), embed=None):
    return revise_answer(None, QUESTION, answer, instruction, lambda _: hits, embed)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        ("Remove the sentence about otters.", f"{FIRST} {SECOND}\n\n{THIRD}"),
        ("Please take out the engines. Leave the rest exactly as it is.", f"{FIRST} {SECOND}\n\n{FOURTH}"),
        ('Drop the sentence with "eleven knots".', f"{FIRST}\n\n{THIRD} {FOURTH}"),
        ("Remove what is in brackets.", ANSWER.replace(" (with a ramp)", "")),
        ('Replace "eleven knots" with "11 knots".', ANSWER.replace("eleven", "11")),
        ("Change “Otters” to “Seals”, but leave the rest.", ANSWER.replace("Otters", "Seals")),
        ('Add this at the very end: "She was built at Kelmouth."', f"{ANSWER} She was built at Kelmouth."),
        ('Insert "It was new." after the first sentence.', f"{FIRST} It was new. {SECOND}\n\n{THIRD} {FOURTH}"),
        ("Put the sentence about otters first.", f"{FOURTH} {FIRST} {SECOND}\n\n{THIRD}"),
        ("Move the engines to the end.", f"{FIRST} {SECOND}\n\n{FOURTH} {THIRD}"),
        ("Turn it into a bulleted list.", "\n".join(f"- {part}" for part in (FIRST, SECOND, THIRD, FOURTH))),
        ("Merge it into one paragraph.", f"{FIRST} {SECOND} {THIRD} {FOURTH}"),
    ],
)
def test_an_edit_does_what_was_asked_and_leaves_the_rest_verbatim(instruction, text):
    revision = revised(instruction)
    assert revision.text == text
    assert revision.notes == ()
    assert revision.operations == operations(ANSWER, text)


@pytest.mark.parametrize(
    ("instruction", "count"), [("In two sentences, please: shorten it.", 2), ("Limit the number of sentences to 3.", 3)]
)
def test_condensing_to_a_number_of_sentences(instruction, count):
    revision = revised(instruction)
    assert [operation.kind for operation in revision.operations] == ["remove"] * (4 - count)
    assert len(pieces_of(revision.text)) == count


@pytest.mark.parametrize(
    ("instruction", "most"),
    [("Shorten it to under 20 words.", 20), ("Make it shorter by half.", 16), ("Condense.", 19)],
)
def test_condensing_to_a_length(instruction, most):
    from turnmark.corpora.text import strip_citations, words

    revision = revised(instruction)
    assert 0 < len(words(strip_citations(revision.text))) <= most
    assert all(piece.text in ANSWER for piece in pieces_of(revision.text))


def test_new_sentences_come_from_the_passages_with_their_citation():
    revision = revised("What does a ticket for an adult cost? Add one sentence.", hits=HITS)
    assert revision.text == f"{ANSWER} A single ticket for an adult costs £7.20. [2]"
    assert revision.operations == (
        Operation(kind="insert", before="", after="A single ticket for an adult costs £7.20. [2]"),
    )


def test_what_was_taken_out_is_not_added_again():
    instruction = "What does a ticket for an adult cost? Add one sentence."
    cost, bakery = "A single ticket for an adult costs £7.20.", "The bakery opens at six."

    def added(*gone):
        return revise_answer(None, QUESTION, ANSWER, instruction, lambda _: HITS[1:], None, removed=gone)

    assert added().text == f"{ANSWER} {cost} [1]"
    assert added(cost).text == f"{ANSWER} {bakery} [1]"
    revision = added(cost, bakery)
    assert (revision.text, revision.operations) == (ANSWER, ())
    assert "already, or did before it was revised" in revision.notes[0]


def test_what_was_taken_out_is_told_by_the_messages():
    def said(role, text, *before):
        return RevisedAnswer(role=role, content=text, before=before) if before else Message(role=role, content=text)

    question = said("user", "What is the Marigold?")
    # As a session has them: one message, that knows what it said before.
    session = [
        said("user", "Hm?"),
        said("assistant", "Old."),
        question,
        said("assistant", "It sails.", "It sails. It is new."),
    ]
    assert taken_out(session, 2, "It sails.") == ("It is new.",)
    # As a client of the endpoint has them: every version is a message.
    all_of_them = [*session[:3],
                   said("assistant", "It sails. It is new. [1]"), said("user", "Remove the second sentence."),
                   said("assistant", "It sails.")]  # fmt: skip
    assert taken_out(all_of_them, 2, "It sails.") == ("It is new.",)
    assert taken_out(all_of_them, None, "It sails.") == ("Old.", "It is new.")
    assert taken_out(session[:2], 0, "Old.") == ()


def test_a_clarification_stands_behind_what_it_clarifies():
    passage = hit("The engines are driven by diesel since the refit of 2019.")
    revision = revised("Explain the engines.", hits=[passage])
    assert revision.text == ANSWER.replace(THIRD, f"{THIRD} {passage.passage.text} [1]")


def test_what_the_answer_says_already_is_not_added():
    revision = revised("Tell me more about the engines.", hits=[hit(THIRD)])
    assert (revision.text, revision.operations) == (ANSWER, ())
    assert "already" in revision.notes[0]


@pytest.mark.parametrize(
    "instruction",
    [
        "Copy the answer as it stands.",
        "",
        "缩短",
        "Remove the paragraph on volcanoes.",
        "Remove the Marigold, the crossing, the engines and the otters.",
        "Shorten it to 2 words.",
        "Reduce the discussion about otters and the engines to one sentence.",
    ],
)
def test_what_cannot_be_followed_changes_nothing_and_says_so(instruction):
    revision = revised(instruction)
    assert revision.text == ANSWER
    assert revision.operations == ()
    assert len(revision.notes) == 1
    assert revision.notes[0].startswith("the answer was left as it is: ")


def test_the_real_embedder_finds_what_is_meant_in_other_words():
    from turnmark.retrieval.embed import open_embedder

    encode = open_embedder("minilm").encode
    revision = revise_answer(
        None, QUESTION, ANSWER, "Remove the part on animals seen aboard.", lambda _: (), lambda t: encode(t, "passage")
    )
    assert revision.text == f"{FIRST} {SECOND}\n\n{THIRD}"
    shorter = revise_answer(
        None, QUESTION, ANSWER, "In three sentences, shorter.", lambda _: (), lambda t: encode(t, "passage")
    )
    assert shorter.text == f"{FIRST} {SECOND}\n\n{THIRD}"  # otters say least of what the others say


TEXTS = st.lists(
    st.sampled_from([FIRST, SECOND, THIRD, FOURTH, "It rained.", "It snowed. [2]", "- An item here", "Why? [3][4]"]),
    max_size=7,
).map(" ".join)

WORDS = st.lists(
    st.sampled_from(
        "remove shorten replace with change to add put first last the otters engines sentence list two words in by "
        'half "eleven knots" "She was new, they say." paragraph what about don\'t ( ) [1] . ?'.split(" ")
    ),
    max_size=12,
).map(" ".join)


@given(st.one_of(WORDS, st.text(max_size=60)), st.one_of(TEXTS, st.text(max_size=80)))
@settings(max_examples=300, deadline=None)
def test_no_instruction_is_too_strange(instruction, answer):
    revision = revise_answer(None, QUESTION, answer, instruction, lambda _: HITS, None)
    assert revision.operations == operations(answer, revision.text)
    if answer.strip():
        assert revision.text.strip()
    if revision.text != answer and not revision.operations:
        assert revision.text.split() == answer.split()
