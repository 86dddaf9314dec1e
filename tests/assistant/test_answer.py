"""The extractive answer: what is chosen, how long it is, that every sentence cites and reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnmark.assistant.parts import Part
from turnmark.assistant.steps.answer import extract, extracted, wants_fact
from turnmark.assistant.steps.units import Unit, units_of

from tests.assistant.notes import asked, hits
from turnmark.assistant.steps import select
from turnmark.assistant.steps.marks import cited, unmarked
from turnmark.assistant.types import Decision, Judgement
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.types import Hit


def said(message: str, hits: list[Hit], steps: bool = False) -> str:
    draft = extract(asked(message, steps), message, hits, None)
    return draft.text


HARBOUR = (
    "The harbour of Anvick was built in 1868 by the curers. It has two piers and a slip. The northern pier carries the "
    "lamp. In winter the harbour freezes at its head. A warden opens the gates of the harbour at six. "
    "The harbour takes forty boats, none longer than twelve metres. Seals are seen at the mouth of the harbour."
)


def test_every_sentence_cites_a_passage_that_was_given():
    harbour = hits(HARBOUR, "The harbour of Anvick is dredged every fourth year. The council pays for the harbour.")
    text = said("Tell me about the harbour.", harbour)
    parts = [text[start:end] for start, end in sentences(text)]
    assert len(parts) > 3
    assert set(cited(text)) == {1, 2}
    assert len(cited(text)) == len([part for part in parts if words(strip_citations(part))])


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("When was the harbour of Anvick built?", True),
        ("who opens the gates", True),
        ("Who built it? And why?", False),
        ("How does a harbour work?", False),
    ],
)
def test_a_question_for_one_fact_gets_three_sentences_at_most(message, fact):
    assert wants_fact((message,)) is fact
    if fact:
        text = strip_citations(said(message, hits(HARBOUR)))
        assert 1 <= len(sentences(text)) <= 3


def test_an_answer_is_about_as_long_as_it_may_be():
    text = " ".join(
        f"The ferry number {number} crosses the sound with {number} sheep on board." for number in range(60)
    )
    answer = strip_citations(said("Tell me about the ferry and its sheep.", hits(text)))
    assert 70 <= len(words(answer)) <= 115


def test_a_sentence_that_leans_brings_the_one_before_it():
    harbour = hits(
        "Old pages burn well. The lamp at Stack Nell was lit in 1868. It burns paraffin and needs two keepers."
    )
    text = said("What paraffin does the light burn, and with how many keepers?", harbour)
    assert "was lit in 1868. [1] It burns paraffin" in text


@pytest.mark.parametrize("title", ["Stack Nell", "Elsewhere"])
def test_a_title_stands_before_a_sentence_that_leans_on_nothing_if_its_words_are_the_passages(title):
    text = "It burns paraffin and needs two keepers. Sheep graze around Stack Nell."
    answer = said("What paraffin does it burn with its keepers?", hits(text, title=title))
    assert answer.startswith("Stack Nell: It burns" if title == "Stack Nell" else "It burns")


def test_what_two_passages_say_in_the_same_words_is_said_once():
    text = said("How is the harbour of Anvick dredged?", hits(HARBOUR, HARBOUR))
    parts = [strip_citations(text[start:end]) for start, end in sentences(text)]
    assert len(parts) == len(set(parts))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1], b [1, 2] and c [2-4].", [1, 1, 2, 2, 3, 4]), ("[2–4, 7]", [2, 3, 4, 7]), ("[4-2]", [4, 2]),
        ("[2-4-1]", []), ("[1,]", []), ("[1234]", []), ("[1-999]", [1, 999]),
    ],
)  # fmt: skip
def test_marks_by_hand(text: str, numbers: list[int]) -> None:
    assert cited(text) == numbers


@given(st.text(alphabet="[]123,-– ٣", max_size=30))
def test_no_text_breaks_the_reading_of_marks(text: str) -> None:
    assert all(isinstance(number, int) for number in cited(text))
    assert cited(unmarked(text)) == []


def test_marks_of_a_document_are_never_cited():
    text = said("When did the volcano erupt?", hits("The volcano erupted in 1902 [7] and again in 1950 [8, 9]."))
    assert cited(text) == [1]


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("The tern took flight.\n\n```\n1\n2\n3\nfly the tern in flight now\n```\n", "now"),
        ("The tern took flight. See the tern at https://a.b, https://c.d and https://e.f.", "https"),
        ("The tern took flight. Click here for more of the tern.", "Click"),
        ("of the tern's first flight over the sound. The tern took flight.", "sound"),
        ("The tern took flight. The tern's second flight ended when it", "second"),
        ("The tern took flight. Of the tern's flight this is known:", "known"),
    ],
)
def test_fragments_long_code_links_and_boilerplate_stay_out(text, gone):
    answer = said("Tell me about the flight of the tern", hits(text))
    assert "The tern took flight. [1]" in answer
    assert gone not in answer


def test_what_is_needed_is_told_only_where_it_is_asked_for():
    text = "# Bread\n\n## What you need\n\n- bread flour, 500 g\n- bread salt, 10 g\n\n## About\n\nThe bread is dark.\n"
    assert "flour" not in said("What is the bread like?", hits(text))
    assert "bread flour, 500 g. [1]" in said("What do I need for the bread?", hits(text))


def test_a_short_list_is_said_as_one_sentence_with_what_leads_up_to_it():
    text = "The archive has three areas:\n\n- main\n- contrib, and\n- non-free.\n\nIt is old.\n"
    answer = said("Which areas has the archive?", hits(text))
    assert "The archive has three areas: main; contrib; non-free. [1]" in answer


def test_a_sentence_with_the_kind_of_answer_that_is_asked_for_is_said_however_long_the_nearest_is():
    question = "How long is beef wellington in the hot oven?"
    near = "Beef wellington is a dish of beef in a hot oven, " + "which is beef of the hot oven, " * 9 + "and so on."
    text = f"{near} The hot oven makes beef wellington soft. The pastry is baked for 35 minutes."
    encode = open_embedder("minilm").encode
    draft = extract(asked(question), question, hits(text), lambda texts: encode(list(texts), "passage"))
    assert draft
    assert "35 minutes" in draft.text


def test_other_languages_are_answered():
    text = "Der Hafen wurde 1868 gebaut. Die Schafe weiden im Norden der Insel. Der Hafen hat zwei Molen."
    assert "1868" in said("Wann wurde der Hafen gebaut?", hits(text))
    assert "五花肉" in said("红烧肉需要什么？", hits("红烧肉需要五花肉、冰糖和酱油。先把肉切块焯水。"))


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6), st.text(max_size=40), st.booleans())
def test_any_text_is_survived_and_its_scores_are_finite(texts, message, steps):
    evidence = hits(*texts)
    draft = extract(asked(message, steps), message, evidence, None)
    assert draft is None or all(1 <= number <= len(evidence) for number in cited(draft.text))
    units: list[Unit] = units_of(evidence)
    if units:
        assert np.isfinite(select.rated((message,), units, None).scores()).all()


@pytest.mark.parametrize(("part", "known"), [("how many for a hard one?", True), ("how many for a blue one?", False)])
def test_what_is_said_to_one_part_is_not_missing_in_another(part, known):
    evidence = hits("Boil eggs for 5 minutes where they shall be soft, 8 for medium ones, and 10 for hard ones.")

    def asked_for(question: str, decision: Decision, place: int) -> Part:
        judgement = Judgement(decision=decision, confidence=0.5, reason="")
        return Part(question, asked(question), (), True, place, evidence, (1,), judgement)

    draft = extracted([asked_for("how many minutes for a soft egg?", "answer", 0), asked_for(part, "unknown", 1)], None)
    assert bool(draft.answers[1]) is known
    assert ("I don't know the answer to" in draft.text) is not known
    assert draft.text.count("10 for hard ones") == 1
