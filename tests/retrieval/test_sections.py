"""The passages of a section that was cut are joined again."""

from __future__ import annotations

from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.markup import markdown
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import section_of

LONG = "".join(f"{n}. Stir the bowl and wait for the {n} minutes.\n" for n in range(1, 16))
TEXT = f"# Bread\n\nA loaf.\n\n## Dough\n\n{LONG}\n## Oven\n\n{LONG}\n## Serving\n\nWarm.\n"
DOCUMENT = markdown.parse_markdown(TEXT, "b.md")
PASSAGES = chunk(DOCUMENT, regex_tokens, 70)


def sections(passages: list[Passage]) -> list[str]:
    return [passage.section for passage in passages]


def test_each_part_returns_the_whole_section() -> None:
    dough = [passage for passage in PASSAGES if passage.section.startswith("Dough")]
    assert len(dough) == 3
    for passage in dough:
        assert section_of(passage, PASSAGES[::-1]) == dough
    assert "".join(passage.text for passage in dough).replace("\n", "").endswith(LONG.replace("\n", ""))


def test_uncut_section_is_one_passage() -> None:
    assert sections(section_of(PASSAGES[-1], PASSAGES)) == ["Serving"]
    assert section_of(PASSAGES[1], []) == [PASSAGES[1]]


def test_section_excludes_other_documents() -> None:
    plain = chunk(DOCUMENT.model_copy(update={"id": "other", "blocks": ()}), regex_tokens, 70)
    assert section_of(plain[2], [*PASSAGES, *plain]) == plain
