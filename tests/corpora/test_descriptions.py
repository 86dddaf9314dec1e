"""Descriptions of pictures in a document: where they stand, what they may contain, and which offsets move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.picture_descriptions import clean_description, insert_descriptions
from turnmark.corpora.types import Document, Picture

TEXT = "# Kettle\n\nHow to use it.\n\n## Parts\n\n- lid\n- spout\n\nEnd.\n"


def picture(name: str, start: int, page: int | None = None) -> Picture:
    return Picture(start=start, sha256=name * 64, suffix=".png", width=100, height=80, page=page)


def document(*pictures: Picture, pages: tuple[int, ...] = ()) -> Document:
    return parse_markdown(TEXT, "kettle.md").model_copy(update={"pictures": pictures, "pages": pages})


def describe(*pictures: Picture, pages: tuple[int, ...] = (), **texts: str) -> Document:
    """Insert descriptions, named after their pictures."""
    return insert_descriptions(document(*pictures, pages=pages), {name * 64: text for name, text in texts.items()}, "m")


def texts_of(document: Document) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


def test_description_stands_where_its_picture_stood_under_a_mark_with_the_model():
    described = describe(picture("a", TEXT.index("\n\n## Parts")), a="A kettle.")
    assert "use it.\n\n[Picture described by m]\nA kettle.\n\n## Parts" in described.text
    [placed] = described.descriptions
    assert described.text[placed.start : placed.end] == "[Picture described by m]\nA kettle."
    assert (placed.document, placed.model, described.pictures) == ("kettle.md", "m", ())


def test_blocks_behind_a_description_still_show_their_text():
    pictures = picture("a", TEXT.index("- lid")), picture("b", TEXT.index("- lid")), picture("c", len(TEXT))
    described = describe(*pictures, a="One.", b="| x |\n|---|\n| 1 |", c="Two.")
    assert texts_of(described) == [
        "# Kettle", "How to use it.", "## Parts", "[Picture described by m]\nOne.", "[Picture described by m]",
        "| x |\n|---|\n| 1 |", "- lid", "- spout", "End.", "[Picture described by m]\nTwo.",
    ]  # fmt: skip


def test_page_begins_behind_the_description_of_a_picture_at_the_end_of_the_page_before():
    at = TEXT.index("## Parts")
    on_first = describe(picture("a", at, page=1), pages=(0, at), a="One.")
    assert on_first.text[on_first.pages[1] :].startswith("## Parts")
    on_second = describe(picture("a", at, page=2), pages=(0, at), a="One.")
    assert on_second.text[on_second.pages[1] :].startswith("[Picture described by m]\nOne.\n\n## Parts")


def test_picture_inside_a_block_is_described_behind_it():
    described = describe(picture("a", TEXT.index("to use")), a="One.")
    assert "How to use it.\n\n[Picture described by m]" in described.text


def test_repeated_picture_is_described_once_and_a_decoration_not_at_all():
    described = describe(picture("a", 8), picture("a", len(TEXT)), picture("b", 8), a="A logo.", b="")
    assert described.text.count("[Picture described by m]") == 1
    assert len(described.descriptions) == 1


def test_document_without_a_description_is_unchanged():
    assert describe(picture("a", 8)).text == TEXT


def test_headings_of_a_description_become_bold_so_that_sections_keep_their_names():
    description = clean_description("# Title\n\nBody\n====\n\nText")
    described = describe(picture("a", TEXT.index("- lid")), a=description)
    assert "**Title**\n\n**Body**\n\nText" in described.text
    assert {passage.section for passage in chunk(described, regex_tokens, 40)} <= {"", "Parts", "Parts (continued)"}


def test_fence_around_a_description_is_removed_and_one_that_stays_open_is_closed():
    assert clean_description("```markdown\nA chart.\n\n| a |\n|---|\n```") == "A chart.\n\n| a |\n|---|"
    assert clean_description("A terminal:\n\n```\n$ ls") == "A terminal:\n\n```\n$ ls\n```"
    assert clean_description("A terminal:\n\n~~~\n$ ls\n```") == "A terminal:\n\n~~~\n$ ls\n```\n~~~"
    assert clean_description("A page:\n\n````\n```\n$ ls\n```") == "A page:\n\n````\n```\n$ ls\n```\n````"
    for quoted in ("> ```\n> foo", "A\n\n    ```\n    foo"):
        assert clean_description(quoted) == quoted, "a fence in a quotation or in indented code opens nothing"
    assert clean_description("```\n> ```\nfoo") == "```\n> ```\nfoo\n```"


def test_control_characters_of_a_description_are_removed():
    assert clean_description("\x1b[31mred\x1b[0m \u202eevil\u2066") == "red evil"


def test_mark_is_repeated_above_every_passage_of_a_long_description():
    rows = "".join(f"| week {number} | {number * 3} |\n" for number in range(60))
    table = f"A chart of weeks.\n\n| time | value |\n|---|---|\n{rows}"
    described = describe(picture("a", len(TEXT)), a=clean_description(table))
    passages = [passage for passage in chunk(described, regex_tokens, 80) if "| week" in passage.text]
    assert len(passages) > 3
    assert all("[Picture described by m]" in passage.shown_text for passage in passages)
    assert all("| time | value |" in passage.shown_text for passage in passages)
    assert all(len(regex_tokens(passage.indexed_text)) <= 80 for passage in passages)


@given(
    st.lists(st.tuples(st.integers(0, len(TEXT) + 5), st.sampled_from("abcd")), max_size=6),
    st.dictionaries(st.sampled_from("abcd"), st.text(max_size=60), max_size=4),
)
def test_any_description_at_any_place_keeps_the_words_and_blocks_of_the_document(places, texts):
    before = document(*(picture(name, start) for start, name in places))
    cleaned = {name * 64: clean_description(text) for name, text in texts.items()}
    described = insert_descriptions(before, cleaned, "m")
    spans = [(placed.start, placed.end) for placed in described.descriptions]
    outside = [
        text
        for block, text in zip(described.blocks, texts_of(described), strict=True)
        if not any(start <= block.start < end for start, end in spans)
    ]
    assert outside == texts_of(before)
    ends = [block.end for block in described.blocks]
    assert all(block.start >= end for block, end in zip(described.blocks[1:], ends, strict=False))
    passages = chunk(described, regex_tokens, 60)
    assert "".join("".join(passage.text.split()) for passage in passages) == "".join(described.text.split())


def test_no_row_of_a_described_chart_is_cut():
    """The mark and the head that are repeated above a part make some parts too long, which are cut once more."""
    for rows in range(4, 40):
        chart = "A chart of the utilization.\n\nX axis: 1 to 40.\n\n| Number of cores | solve | calc |\n|---|---|---|\n"
        chart += "".join(f"| {row} | ~{row},20 | ~{row},16 |\n" for row in range(rows))
        described = describe(picture("a", TEXT.index("- lid")), a=chart.strip())
        for passage in chunk(described, regex_tokens, 120):
            lines = [line for line in passage.text.split("\n") if "~" in line]
            assert all(line.startswith("| ") and line.count("|") == 4 for line in lines), (rows, passage.text)
