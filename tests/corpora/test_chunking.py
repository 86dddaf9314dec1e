"""Passages: nothing is lost, repeated or too long, and every heading applies to all of its text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.reading import beir_corpora, real_data
from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.readers import read_source
from turnmark.corpora.readers.common import prose
from turnmark.corpora.readers.markup import markdown
from turnmark.corpora.text.segmentation import heading_text
from turnmark.corpora.types import CONTINUED_MARK, Document, Passage, without_continued

PARTS = st.sampled_from(
    [
        "# Head\n\n", "## Sub\n\n", "### Deep\n\n", "word " * 7, "A sentence here. ", "- an item of a list\n",
        "1. step one of it\n", "\n\n", "For the dough:\n\n", "**Bold**\n\n", "你好。我很好！", "x" * 150, "...",
        "\u200b", "| a | b |\n|---|---|\n| 1 | 2 |\n", "🍞 ",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=300), st.lists(PARTS, max_size=80).map("".join))


def documents_of(source: Path) -> list[Document]:
    return [item for item in read_source(source) if isinstance(item, Document)]


def checked(document: Document, tokenize: Tokenizer, size: int) -> list[Passage]:
    """Return the passages of a document after checking what must hold for every document."""
    passages = chunk(document, tokenize, size)
    text, covered = document.text, 0
    for passage in passages:
        assert passage.text == text[passage.start : passage.end] == passage.text.strip()
        assert passage.id == f"{document.id}-{passage.start}-{passage.end}"
        assert covered <= passage.start < passage.end
        assert not text[covered : passage.start].strip(), "text between two passages is in neither"
        assert len(tokenize(passage.indexed_text)) <= size
        covered = passage.end
    assert not text[covered:].strip()
    return passages


def paths(document: Document) -> dict[int, list[str]]:
    """Return the headings above each block that is not a heading, by the start of the block."""
    above: list[tuple[int, str]] = []
    found: dict[int, list[str]] = {}
    titled = False
    for block in document.blocks:
        if block.kind == "heading":
            above = [heading for heading in above if heading[0] < block.level]
            name = heading_text(document.text[block.start : block.end])
            title, titled = not titled and name == document.title, titled or name == document.title
            above.append((block.level, "" if title else name))
        else:
            found[block.start] = [name for _, name in above if name]
    return found


def check_sections(document: Document, passages: list[Passage]) -> None:
    """Check that a section applies to all text of its passage, and that a continued part follows its section."""
    below = paths(document)
    previous = ""
    for passage in passages:
        section = without_continued(passage.section)
        names = section.split(" › ") if section else []
        for start, path in below.items():
            if passage.start <= start < passage.end:
                assert path[: len(names)] == names
        assert section == previous or not passage.section.endswith(CONTINUED_MARK)
        previous = section


@settings(deadline=None)  # the first example imports the parsers
@given(TEXTS, st.integers(16, 80))
def test_passages_fit_and_cover_the_document(text: str, size: int) -> None:
    document = markdown.parse_markdown(text.replace("\r", "\n").replace("\0", ""), "a/b.md")
    assert bool(checked(document, regex_tokens, size)) == bool(document.text.strip())
    if text.strip():
        check_sections(document, chunk(document, regex_tokens, 500))


def cut(text: str, size: int) -> list[tuple[str, str]]:
    """Return section and second and last word of each passage of a Markdown text."""
    passages = chunk(markdown.parse_markdown(text, "t.md"), regex_tokens, size)
    return [(p.section, f"{p.text.split()[1]} … {p.text.split()[-1]}") for p in passages]


FILLER = "Some words are here to fill it. " * 8  # 64 tokens


def test_headings_end_passages_and_small_siblings_are_joined() -> None:
    small = "A short one.\n\n"
    text = (
        f"# T\n\n## A\n\n### B\n\n{FILLER}\n\n### C\n\n{small}### D\n\n{small}### E\n\n{FILLER}\n\n## F\n\n{FILLER}\n"
    )
    assert cut(text, 80) == [
        ("A › B", "T … it."),
        ("A", "C … one."),  # and D
        ("A › E", "E … it."),
        ("F", "F … it."),
    ]
    assert cut(text, 800) == [("", "T … it.")]


STEPS = "".join(f"{n}. Stir the bowl and wait for the {n} minutes.\n" for n in range(1, 9))  # 11 tokens each


def test_cuts_long_sections_between_items_into_even_parts() -> None:
    document = markdown.parse_markdown(f"# Bread\n\n## Directions\n\nNow bake it:\n\n{STEPS}", "b.md")
    passages = chunk(document, regex_tokens, 70)
    assert [passage.section for passage in passages] == ["Directions", "Directions (continued)"]
    assert passages[1].text.startswith("5. Stir")
    assert passages[1].indexed_text.startswith("Bread › Directions\n5. Stir")


@pytest.mark.parametrize(
    ("line", "introduces"),
    [("**Before you start**", True), ("Now this:", True), ("--ignore-rev REV", True), ("--since v2.0", True)]
    + [
        (line, False) for line in ("That is all.", "(See above.)", "It works **now.**", "It ends. [1]", "यह एक वाक्य है।")
    ],
)
def test_introduction_stays_with_what_it_introduces(line: str, introduces: bool) -> None:
    text = f"# T\n\n## A\n\n{FILLER}\n\n{line}\n\n{FILLER} And this is a longer end."
    passages = chunk(markdown.parse_markdown(text, "t.md"), regex_tokens, 100)
    assert [line in passage.text for passage in passages] == [not introduces, introduces]


def test_cuts_long_blocks_at_rows_or_sentences() -> None:
    table = "| name | value |\n|---|---|\n" + "".join(f"| setting {n} | the value of it |\n" for n in range(20))
    passages = chunk(markdown.parse_markdown(f"# T\n\n{table}", "t.md"), regex_tokens, 60)
    assert len(passages) > 3
    assert all(passage.text.endswith(" |") for passage in passages)
    sentences = chunk(Document(id="d", title="", text=FILLER), regex_tokens, 30)
    assert [passage.section for passage in sentences] == ["", CONTINUED_MARK, CONTINUED_MARK]
    assert all(passage.text.startswith("Some") and passage.text.endswith("it.") for passage in sentences)


PORTS = "| service | port |\n|---|---|\n"


def ports(count: int) -> str:
    return PORTS + "".join(f"| service number {n} | {n} |\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (ports(40), PORTS.rstrip()),
        (f"**Table 2. Ports**\n\n{ports(40)}", f"**Table 2. Ports**\n\n{PORTS.rstrip()}"),
        (f"{ports(40)}\nTable 2: Ports\n", f"Table 2: Ports\n\n{PORTS.rstrip()}"),
        (f"{ports(2)}\nTable 1: Hosts\n\n{ports(40)}\nTable 2: Ports\n", f"Table 2: Ports\n\n{PORTS.rstrip()}"),
        (f"Table 1: Hosts\n\n{ports(2)}\nTable 2: Ports\n\n{ports(40)}", f"Table 2: Ports\n\n{PORTS.rstrip()}"),
        (f"Table 2 lists the ports.\n\n{ports(40)}", PORTS.rstrip()),
    ],
)
def test_table_head_is_repeated_above_each_later_part(text: str, header: str) -> None:
    passages = checked(markdown.parse_markdown(f"# T\n\n{text}", "t.md"), regex_tokens, 90)
    parts = [passage for passage in passages if passage.header]
    assert len(parts) > 3
    assert all(passage.header == header and passage.text.startswith("| service number") for passage in parts)
    assert all(passage.shown_text == f"{header}\n{passage.text}" for passage in parts)
    assert all(passage.shown_text in passage.indexed_text for passage in parts)
    for passage in passages:  # a part begins with the head or below it, never with the rule or the first row
        assert passage.header or not passage.text.startswith(("|---", "| service number 0 "))


@pytest.mark.parametrize("length", [30, 120])
def test_long_row_is_cut_between_cells_and_keeps_their_columns(length: int) -> None:
    """Each part has the names of its own cells. In the middle of a cell too, the names begin with that of the cell."""
    names = ("name", "use", "risk", "price")
    cells = [" ".join(f"{name}{number}" for number in range(length)) for name in names]
    text = f"| {' | '.join(names)} |\n|---|---|---|---|\n| {' | '.join(cells)} |\n| a | b | c | d |\n"
    passages = checked(markdown.parse_markdown(text, "t.md"), regex_tokens, 100)
    assert len(passages) >= 3
    for passage in passages[1:]:
        first_names = [cell.strip() for cell in passage.header.split("\n")[0].strip("|").split("|")]
        first_word = passage.text.strip("| ").split()[0].rstrip("0123456789")
        assert first_names == list(names[names.index(first_word) if first_word in names else 0 :])
        assert length > 30 or passage.text.startswith("| ")
        assert passage.text.count("\n") == 0


def test_shortens_column_names_until_rows_fit() -> None:
    names = [f"a long name of the column {n}" for n in range(8)]
    row = f"| {' | '.join('value' for _ in names)} |\n"
    text = f"| {' | '.join(names)} |\n|{'---|' * 8}\n{row * 40}"
    headers = {passage.header for passage in checked(markdown.parse_markdown(text, "t.md"), regex_tokens, 160)}
    assert headers == {"", f"| {' | '.join(['a long…'] * 8)} |\n|{'-|' * 8}"}
    wider = f"| {' | '.join(names * 9)} |\n|{'---|' * 72}\n{row.strip() * 9}\n" + f"{row.strip() * 9}\n" * 9
    assert {passage.header for passage in chunk(markdown.parse_markdown(wider, "t.md"), regex_tokens, 160)} == {""}


def test_sheet_with_many_rows_takes_linear_time() -> None:
    document = markdown.parse_markdown(f"# Sheet\n\n{ports(10_000)}", "t.md")
    begun = time.process_time()
    passages = chunk(document, regex_tokens, 254)
    assert time.process_time() - begun < 10
    assert sum(passage.text.count("\n") + 1 for passage in passages) >= 10_000
    assert sum(not passage.header for passage in passages) == 1


def test_paragraphs_are_passages_without_headings() -> None:
    text = f"{FILLER}\n\n{FILLER}\n\n{FILLER}\n"
    document = prose.parse_text(text, "t.txt").model_copy(update={"pages": (0, len(FILLER))})
    passages = chunk(document, regex_tokens, 80)
    assert [(p.text, p.page) for p in passages] == [(FILLER.strip(), 1), (FILLER.strip(), 2), (FILLER.strip(), 2)]


def test_long_title_leaves_room_for_text() -> None:
    document = Document(id="d", title="very long title " * 40, text="plain words go here " * 60)
    titles = {passage.title for passage in checked(document, regex_tokens, 32)}
    assert [title.endswith("…") for title in titles] == [True]


def test_long_line_takes_linear_time() -> None:
    document = Document(id="d", title="t", text="The quick brown fox jumps over the lazy dog and sleeps. " * 12_000)
    begun = time.process_time()
    passages = chunk(document, regex_tokens)
    assert time.process_time() - begun < 20
    assert len(passages) > 130


def test_real_documents_are_covered_by_passages() -> None:
    folders = ("based-cooking", "clef-handbook", "uptime-kuma-wiki")
    documents = [document for folder in folders for document in documents_of(real_data(f"docs/{folder}"))]
    assert len(documents) > 400
    for document in documents:
        check_sections(document, checked(document, regex_tokens, 254))


@pytest.mark.parametrize("corpus", beir_corpora(), ids=lambda path: path.stem)
def test_real_corpus_has_one_passage_per_row(corpus: Path) -> None:
    for document in documents_of(corpus):
        assert [(p.id, p.text, p.section) for p in chunk(document, regex_tokens)] == [(document.id, document.text, "")]


def test_heading_without_words_names_no_section() -> None:
    text = "# Songs\n\nAll of them.\n\n## ♩♪ 𝄞\n\n" + "A tune that goes on. " * 20 + "\n\n## ∑ ∫\n\n" + "A sum. " * 20
    passages = chunk(markdown.parse_markdown(text, "x.md"), regex_tokens, 40)
    assert {passage.section.removesuffix("(continued)").strip() for passage in passages} == {""}
    assert markdown.parse_markdown("# ♪♪\n\n# Songs\n\nx", "songs.md").title == "Songs"
