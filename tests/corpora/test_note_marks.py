"""Footnote marks in HTML, EPUB and Markdown do not join the words before them; exponents and formulas stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora.made import book, read_one
from turnmark.corpora.readers.markup.html import render
from turnmark.corpora.readers.markup.markdown import parse_markdown

MARKS = [
    '<sup><a href="#a">2,3</a></sup>',
    '<sup><a href="#a">2</a>, <a href="#b">3</a></sup>',
    '<sup><a href="#a">2</a></sup><sup>,</sup><sup><a href="#b">3</a></sup>',
    '<sup><a href="#a">2–4</a></sup>',
    '<sup>[<a href="#a">4</a>]</sup>',
    '<sup>(<a href="#a">4</a>)</sup>',
    '<sup class="reference"><a href="#cite_note-5">[note 1]</a></sup>',
    '<a href="#a"><sup>4</sup></a>',
    '<a href="#a"><span style="vertical-align: super">[4]</span></a>',
    '<a epub:type="noteref" href="#n4">4</a>',
    '<a epub:type="noteref" href="notes.xhtml#n4">[4]</a>',
    '<a role="doc-noteref" href="notes.xhtml">*</a>',
    '<a class="footnote-ref" href="notes.xhtml#x">4</a>',
    '<a href="#fn4">4</a>',
    '<a href="#_ftn1" id="_ftnref1"><span>[1]</span></a>',
]
STAYS = {
    "10<sup>2</sup> km": "10^2 km",
    '10<span style="vertical-align:super">6</span>': "10^6",
    '10<span class="sup">6</span>': "10^6",
    "the 5<sup>th</sup> gate": "the 5th gate",
    "CO<sub>2</sub>, H<sub>2</sub>O": "CO2, H2O",
    "1<sup>1</sup>/<sub>2</sub> cups": "1 1/2 cups",
    'km<sup><a href="/wiki/Square">2</a></sup>': "km2",
    'See note <a href="#note4">4</a>, part <a href="#c3">3</a>.': "See note 4, part 3.",
    'The <a href="#fn-keys">keys</a> and <span class="footnote">a note of several words</span>.': (
        "The keys and a note of several words."
    ),
}


@pytest.mark.parametrize("mark", MARKS)
def test_mark_does_not_join_the_number_before_it(tmp_path: Path, mark: str) -> None:
    page = f"<p>Built in 1998{mark} and 82{mark} km long.</p>"
    assert render(page) == "Built in 1998 and 82 km long."
    assert read_one(book(tmp_path / "a.epub", page)).text == "Built in 1998 and 82 km long.\n"


@pytest.mark.parametrize("words", STAYS)
def test_exponents_ordinals_and_formulas_stay(tmp_path: Path, words: str) -> None:
    assert render(f"<p>{words}</p>") == STAYS[words]
    assert read_one(book(tmp_path / "a.epub", f"<p>{words}</p>")).text.strip() == STAYS[words]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("In 1998<sup>[4](#fn4)</sup> it opened.", "In 1998 it opened."),
        ('In 1998<sup><a href="#fn4">4</a>, <a href="#fn5">5</a></sup> it opened.', "In 1998 it opened."),
        ("In 1998<sup>[[4]](#fn4)</sup> it opened.", "In 1998 it opened."),
        ("Use `<sup>[4](#fn4)</sup>` here.", "Use `<sup>[4](#fn4)</sup>` here."),
        ("It has 10<sup>6</sup> drops, the 5<sup>th</sup> gate.", "It has 10^6 drops, the 5th gate."),
    ],
)
def test_raised_links_in_markdown(text: str, read: str) -> None:
    assert parse_markdown(text, "a.md").text.strip() == read
