"""On which page a source says what an answer cites it for."""

from __future__ import annotations

import re
from itertools import pairwise

from turnmark.assistant.steps.marks import cited_numbers
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Passage

_BLANK_LINES = re.compile(r"\n[ \t>]*\n")


def cited_page(passage: Passage, number: int, answer: str) -> int | None:
    """The page of a passage that shares most neighbouring words with what the answer cites it for.

    Args:
        number: of the passage's marks in the answer.

    Returns:
        The first page if none stands out; None without pages.
    """
    if not passage.page_starts:
        return passage.page
    said = set(pairwise(words(cited_text(answer, number))))
    shared = {page: len(said & set(pairwise(words(text)))) for page, text in passage.page_texts()}
    return max(shared, key=lambda page: shared[page])


def cited_text(answer: str, number: int) -> str:
    """The paragraphs of an answer that cite a source; a mark counts for the paragraphs before it that have none."""
    cited: list[str] = []
    unmarked: list[str] = []
    for paragraph in _BLANK_LINES.split(answer):
        unmarked.append(strip_citations(paragraph))
        if numbers := cited_numbers(paragraph):
            cited += unmarked if number in numbers else []
            unmarked = []
    return "\n".join(cited)
