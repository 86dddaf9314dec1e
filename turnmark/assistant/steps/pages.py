"""Find the page of a source that supports what an answer cites it for."""

from __future__ import annotations

import re
from itertools import pairwise

from turnmark.assistant.steps.marks import cited_numbers
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Passage

_BLANK_LINES = re.compile(r"\n[ \t>]*\n")


def cited_page(passage: Passage, number: int, answer: str) -> int | None:
    """Return the page of a passage that shares the most word pairs with the text that cites it.

    If several pages share as many, return the first; None if the passage has no pages.

    Args:
        number: citation number of the passage in the answer.
    """
    if not passage.page_starts:
        return passage.page
    answer_pairs = set(pairwise(words(cited_text(answer, number))))
    shared_pairs: dict[int, int] = {}
    for page, text in passage.page_texts():
        shared_pairs[page] = len(answer_pairs & set(pairwise(words(text))))
    return max(shared_pairs, key=lambda page: shared_pairs[page])


def cited_text(answer: str, number: int) -> str:
    """Return the paragraphs of an answer that cite a source; a mark also covers the unmarked paragraphs before it."""
    cited: list[str] = []
    unmarked: list[str] = []
    for paragraph in _BLANK_LINES.split(answer):
        unmarked.append(strip_citations(paragraph))
        numbers = cited_numbers(paragraph)
        if number in numbers:
            cited += unmarked
        if numbers:
            unmarked = []
    return "\n".join(cited)
