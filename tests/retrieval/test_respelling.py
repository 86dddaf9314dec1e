"""Codes, versions and misspelled words are spelled as in an index."""

from __future__ import annotations

from collections import Counter

import pytest

from turnmark.corpora.text.analysis import open_analyzer
from turnmark.corpora.text.segmentation import words
from turnmark.retrieval.ranking.respelling import spell_codes, spell_words


class Terms:
    """The terms of a text."""

    def __init__(self, text: str) -> None:
        self.analyze = open_analyzer("en")
        self._counts = Counter(self.analyze(text))
        self.words = frozenset(words(text))

    def terms(self) -> frozenset[str]:
        return frozenset(self._counts)

    def words_with(self, word: str) -> frozenset[str]:
        return self.words

    def frequency(self, term: str) -> int:
        return self._counts[term]


@pytest.mark.parametrize(
    ("documents", "typed", "spelled"),
    [
        ("error E-4867", "what is e4867?", "what is e-4867?"), ("error E4867", "what is E-4867?", "what is E4867?"),
        ("error E 4867", "e4867", "e-4867"), ("error E4867 and page 4867", "E-4867", "E-4867"),
        ("ISO 27001", "iso27001 audit", "iso-27001 audit"), ("see KB5034441", "KB 5034441", "KB5034441"),
        ("Python 3 and 4", "python3", "python-3"), ("2.4 GHz", "2.4GHz", "2.4-GHz"), ("2.4GHz", "2.4 GHz", "2.4GHz"),
        ("500 GB disk", "500gb", "500-gb"), ("500GB disk", "500 GB", "500GB"),
        ("3.0.0 released", "v3.0.0", "3.0.0"), ("v3.0.0 released", "3.0.0", "v3.0.0"), ("3.0.0 released", "3.0",
        "3.0.0"),
        ("3.0 released", "v3.0.0", "3.0"), ("3.0.0 released", "v3.0.1", "v3.0.1"), ("3.0.0", "4.0", "4.0"),
        ("error E-4867", "what is E-9999 in 2024?", "what is E-9999 in 2024?"), ("401k plan", "401k", "401k"),
        ("cost of 1,250.50", "1,250.50", "1,250.50"), ("nothing", "", ""),
    ],
)  # fmt: skip
def test_codes_are_spelled_as_in_the_index(documents, typed, spelled):
    assert spell_codes(typed, Terms(documents)) == spelled


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        ("what is a calout?", "what is a callout?"), ("grpah view", "graph view"), ("Tehme", "Theme"),
        ("change the colrs of a theme", "change the colors of a theme"), ("a theme for Marx", "a theme for Marx"),
        ("e4867", "e4867"), ("the theme paint", "the theme paint"), ("thm", "thm"),
        ("hvordan vises farverne", "hvordan vises farverne"), ("", ""),
    ],
)  # fmt: skip
def test_unknown_words_become_the_nearest_word(typed, spelled):
    terms = Terms(
        "A callout is a box. The graph view shows a theme. A theme has colors. The print has a point. Mark it."
    )
    assert spell_words(typed, terms, terms.words_with, {"paint", "change"}.__contains__) == spelled


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        ("maintanence", "maintenance"), ("when is the maintainance?", "when is the maintenance?"),
        ("recieve", "receive"), ("acomodation", "accommodation"), ("configrtion", "configuration"),
        ("seperatly", "separately"), ("Adress book", "Address book"), ("embarass", "embarrass"),
        ("calender", "calendar"), ("commitee", "committee"),
        # other words, which only look like those of the documents
        ("deduction", "deduction"), ("mountain", "mountain"), ("perceive", "perceive"),
        ("celebrate", "celebrate"), ("comment", "comment"), ("accusation", "accusation"), ("contamination",
        "contamination"),
    ],
)  # fmt: skip
def test_words_with_two_typing_errors_become_the_nearest_word(typed, spelled):
    terms = Terms(
        "The maintenance of the accommodation is received separately. The configuration is in the address book. "
        "Do not embarrass the committee. The calendar has the reimbursement. The food is expensive."
    )
    exist = {"deduction", "mountain", "perceive", "celebrate", "comment", "accusation", "contamination"}
    assert spell_words(typed, terms, terms.words_with, (exist | {"receive"}).__contains__) == spelled


def test_a_stem_that_is_no_word_replaces_nothing():
    terms = Terms("A broader view of the entitled people who started.")
    assert spell_words("kilos", Terms("It kills."), Terms("It kills.").words_with, frozenset().__contains__) == "kilos"
    for word in ("broaden", "entity", "starter"):
        assert spell_words(word, terms, terms.words_with, frozenset((word,)).__contains__) == word
    assert spell_words("broaden", terms, terms.words_with, frozenset().__contains__) != "broade"
