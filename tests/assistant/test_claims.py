"""Claims, what supports them, the numbers and names that must be there, and which part a sentence is about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.assistant.steps.support import (
    Sources,
    claims_of,
    find_numbers,
    missing_names,
    missing_numbers,
    unknown_names,
)

LOAF = "Loaf\nBake the loaf at 240 degrees for forty-five minutes. Idris Brannock sells 1,250 of them a year."


def minilm(texts):
    from turnmark.retrieval.embed import open_embedder

    return open_embedder("minilm").encode(list(texts), "passage")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It cost £7.20, or 1,250.50 in all.", {"7.2", "1250.5"}),
        ("1. In 1868 it burned 20% more. [3]", {"1868", "20"}),
        ("From 1885-1890 and in the 1990s.", {"1885", "1890", "1990"}),
        ("Forty-five of them, thirty, and two ways.", {"45", "30"}),
        ("Three hundred people, one of them old.", {"300"}),
        ("H2O and v1 are names.", set()),
        ("Nothing here.", set()),
    ],
)
def test_numbers(text, numbers):
    assert find_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("The loaf is sold by Idris Brannock.", ()),
        ("The loaf is sold by Wynn Brannock.", ()),  # the last word of a name decides
        ("The loaf is sold by Idris Rook and eaten in Kelmouth.", ("Idris Rook", "Kelmouth")),
        ("It is Italian, for all that FDA says.", ()),
        ("It was sold by World Trade and by the Food and Drug people.", ("World Trade",)),
        ("Two things:\n- Stability of the Marigold: Renting it.", ("Marigold",)),
        ("Kelmouth has it, and I say so.", ()),  # what begins a sentence is no name for sure
    ],
)
def test_names_that_no_source_has(text, strange):
    sources = ["Idris Brannock, a baker.", "Bread from Italy, says the food and drug administration, or W.T.O."]
    assert unknown_names(text, sources) == strange


@given(st.text(max_size=120))
@settings(max_examples=100, deadline=None)
def test_a_text_has_all_its_own_numbers_and_names(text):
    assert not missing_numbers(text, [text])
    assert not missing_names(text, [text])
    assert not unknown_names(text, [text])


def test_sentences_and_items_with_what_they_cite():
    text = "## Bread\nBake it. [1] It sails [1, 2].\n[3]\n\nThere are two:\n- one [1]\n\nI don't know the rest."
    rows = [(claim.text, claim.numbers) for claim in claims_of(text)]
    assert rows == [("Bake it.", [1]), ("It sails.", [1, 2, 3]), ("one", [1])]


def test_another_wording_is_supported_by_likeness_and_a_strange_name_or_number_is_not():
    texts = [LOAF, "Fares\nPurchasing tickets is possible aboard the vessel."]
    claim = "You can buy a ticket on the ship."
    assert not Sources(texts).support(claim, [2])
    like = Sources(texts, minilm)
    assert like.likeness(claim, [2]) > like.likeness(claim, [1]) + 0.3
    assert like.support(claim, [2])
    assert not like.support(claim, [1])
    assert not like.support(claim.replace("the ship", "the ship Marigold"), [2])
    assert not like.support(claim.replace("a ticket", "7 tickets"), [2])
