"""Counts over all passages, compared with a brute-force count."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.retrieval.conftest import stored_passages
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.filters import parse_where


def collection(path: Path, documents: dict[str, list[tuple[str, str]]], title: str = "") -> Collection:
    """A store of documents, given as lists of (section, text)."""
    path.unlink(missing_ok=True)
    passages: dict[str, list[Passage]] = {}
    for name, sections in documents.items():
        start = 0
        for section, text in sections:
            end = start + len(text)
            passages.setdefault(name, []).append(
                Passage(
                    id=f"{name}-{start}-{end}",
                    document=name,
                    title=title,
                    section=section,
                    text=text,
                    start=start,
                    end=end,
                )
            )
            start = end + 1
    return Collection(stored_passages(path, passages))


WORD = st.sampled_from(
    ["red", "Red", "REDS", "kettle", "straße", "STRASSE", "o'er", "a-b", "2.5", "é", "ﬁn", "x_y", ""]
)
TEXT = st.lists(st.tuples(WORD, st.sampled_from([" ", "\n", "\t ", ", ", "-", "."]))).map(
    lambda rows: "".join(map("".join, rows))
)


def spaced(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text.casefold())


def brute_force(words: list[str], text: str) -> int:
    """Count how often the words follow each other in a text with only white space between them."""
    tokens = spaced(text)
    count = at = 0
    while at < len(tokens):
        position = at
        for number, word in enumerate(words):
            if number:
                if position >= len(tokens) or not tokens[position].isspace():
                    break
                position += 1
            pieces = spaced(word)
            if tokens[position : position + len(pieces)] != pieces:
                break
            position += len(pieces)
        else:
            count, at = count + 1, position
            continue
        at += 1
    return count


@given(
    st.lists(TEXT, min_size=1, max_size=4),
    st.lists(WORD.filter(bool), min_size=1, max_size=2),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_words_like_brute_force(tmp_path, texts, words):
    documents = {f"d{n}": [("S", text)] for n, text in enumerate(texts)}
    found = collection(tmp_path / "p.db", documents).grep(" ".join(words))
    expected = {name: brute_force(words, sections[0][1]) for name, sections in documents.items()}
    assert found.times == dict(Counter({name: count for name, count in expected.items() if count}).most_common())
    assert found.documents == len(texts)
    assert found.sections == len(found.times)


def test_counts_titles_but_not_parts_of_words(tmp_path):
    cut = [("Tea", "Tea and teapots."), ("Tea (continued)", "more tea\nand\nTEA"), ("Milk", "milk")]
    every = collection(tmp_path / "p.db", {"a.md": cut, "b/c.md": [("", "no such drink")]}, "On tea")
    found = every.grep("tea")
    assert found.times == {"a.md": 4, "b/c.md": 1}, "a title counts where the text lacks it"
    assert found.sections == 2
    assert [line.text for line in found.lines] == ["On tea", "On tea", "Tea and teapots.", "more tea", "TEA"]
    assert [line.text[line.at :].casefold()[:3] for line in found.lines] == ["tea"] * 5
    assert every.grep("/tea(pots)?/").times == {"a.md": 5, "b/c.md": 1}
    assert every.grep(r"/\btea\b/").times == found.times
    assert every.grep("tea", parse_where("document=b/*")).documents == 1
    assert [row.document for row, _ in every.containing("milk tea")] == ["a.md"]
    assert every.grep("茶").times == {}


def test_white_space_of_an_expression_stays_in_a_paragraph(tmp_path):
    wrapped = "Of the new rules for parents, one is that the parental\nleave is twelve weeks.\n\nTotal\n\n5 weeks"
    texts = collection(tmp_path / "p.db", {"a.md": [("", wrapped)]})
    assert texts.grep(r"/parental\sleave/").times == {"a.md": 1}
    assert texts.grep(r"/Total\s+\d/").times == {}
    assert texts.grep(r"/5[\s,]weeks/").times == {"a.md": 1}


@pytest.mark.parametrize(("text", "words"), [("红烧肉需要五花肉、酱油", "五花肉"), ("ฉันรักแมวมาก", "แมว")])
def test_counts_words_in_languages_without_spaces(tmp_path, text, words):
    assert collection(tmp_path / "p.db", {"a": [("", text)]}).grep(words).times == {"a": 1}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_finds_composed_and_decomposed_accents(tmp_path, form):
    every = collection(tmp_path / "p.db", {"a": [("", unicodedata.normalize(form, "Das Café ist zu"))]})
    for words in ("café", unicodedata.normalize("NFD", "CAFÉ"), "/caf. ist/"):
        assert every.grep(words).times == {"a": 1}
    assert every.grep("cafe").times == {}


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("\nの ﾌﾟﾘﾝﾀｰ です", "プリンター", "の ﾌﾟﾘﾝﾀｰ です"),
        ("ＵＳＢ cable", "usb", "ＵＳＢ cable"),
        ("The oﬃce", "office", "The oﬃce"),
        ("İZİN günü", "izin", "İZİN günü"),
        ("IŞIK", "ışık", "IŞIK"),
        ("שָׁלוֹם", "שלום", "שָׁלוֹם"),
    ],
)
def test_finds_words_in_another_spelling_and_shows_them_as_written(tmp_path, text, words, found):
    (line,) = collection(tmp_path / "p.db", {"a": [("", text)]}).grep(words).lines
    assert line.text == unicodedata.normalize("NFC", found)


def test_vowel_sign_belongs_to_its_word(tmp_path):
    every = collection(tmp_path / "p.db", {"a": [("", "हमें कमी है")], "b": [("", "कम है")]})
    assert every.grep("कम").times == {"b": 1}


def test_returns_the_matching_line_if_case_folding_lengthens_text(tmp_path):
    every = collection(tmp_path / "p.db", {"a": [("", "ßßßßßßßßßß\n  Große kettle\nlast")]})
    (line,) = every.grep("kettle").lines
    assert (line.text, line.text[line.at :]) == ("Große kettle", "kettle")


@pytest.mark.parametrize(
    ("title", "text", "times"),
    [
        ("Using conda", "# Using `conda`\n\nText.", 1), ("Using conda", "# Using **conda**", 1),
        ("conda", "Secondary condas.", 1), ("Why conda?", "Text.", 1),
    ],
)  # fmt: skip
def test_counts_a_title_once(tmp_path, title, text, times):
    assert collection(tmp_path / "p.db", {"a": [("", text)]}, title).grep("conda").times == {"a": times}


def test_section_filter_excludes_titles(tmp_path):
    every = collection(tmp_path / "p.db", {"a": [("", "Boil water."), ("Pots", "A pot.")]}, "On tea")
    assert every.grep("tea").times == {"a": 1}
    assert every.grep("tea", parse_where("section=Pots")).times == {}
    assert every.grep("tea", parse_where("document=a")).times == {"a": 1}


def test_containing_searches_words_not_expressions(tmp_path):
    every = collection(tmp_path / "p.db", {"a": [("", "fetch ssh")], "b": [("", "in /etc/ ssh")]})
    assert [row.document for row, _ in every.containing("/etc/ ssh")] == ["b"]


def test_does_not_count_hidden_passages(tmp_path):
    every = collection(tmp_path / "p.db", {"a": [("", "red")], "b": [("", "red"), ("", "blue")]})
    hidden = every.without(["a-0-3", "b-0-3"])
    assert (hidden.count(), hidden.grep("red").times, hidden.grep("red").documents) == (1, {}, 1)
    assert [(row.document, row.passages) for row in hidden.documents()] == [("b", 1)]


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(?:a{1,1000}){1,1000}b", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_stops_a_slow_expression(tmp_path, monkeypatch, pattern):
    monkeypatch.setattr("turnmark.retrieval.collection.MAX_PATTERN_SECONDS", 0.3)
    every = collection(tmp_path / "p.db", {f"d{n}": [("", "a" * 5000 + "!")] for n in range(50)})
    with pytest.raises(RequestError, match="took longer than"):
        every.grep(f"/{pattern}/")


@pytest.mark.parametrize("wanted", ["", "/(/", "/a{99999999999}/", r"/(?R)/", r"/(a(?1)?)+/", "/" + "a" * 300 + "/"])
def test_refuses_invalid_patterns(tmp_path, wanted):
    with pytest.raises(RequestError):
        collection(tmp_path / "p.db", {"a": [("", "a")]}).grep(wanted)
