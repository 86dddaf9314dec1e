"""Find the page of a source that supports what an answer cites it for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.types import CitedPicture
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import DescribedPicture, Passage
from turnmark.retrieval.storage.picture_store import PictureStore


def cited_pictures(
    passage: Passage, pictures: PictureStore, number: int, question: str, answer: str
) -> Iterator[CitedPicture]:
    """Yield the pictures that are described in a passage.

    The first one is the one whose description shares the most words with the question. If several share as many, it is
    the one of which the text that cites the passage has the largest part.

    Args:
        number: citation number of the passage in the answer.
    """
    described = pictures.of_passage(passage)
    if len(described) > 1:
        asked, said = set(content_words(question)), set(content_words(cited_text(answer, number)))

        def shared(picture: DescribedPicture) -> float:
            text = passage.text[max(0, picture.start - passage.start) : max(0, picture.end - passage.start)]
            words = set(content_words(text))
            return len(asked & words) + len(said & words) / max(1, len(words))

        described.sort(key=shared, reverse=True)
    for picture in described:
        yield CitedPicture(sha256=picture.sha256, model=picture.model, page=picture.page, caption=picture.alt)


_BLANK_LINES = re.compile(r"\n[ \t>]*\n")


def cited_page(passage: Passage, number: int, answer: str) -> int | None:
    """Return the page of a passage that shares the most word pairs with the text that cites it.

    If several pages share as many, return the first, or None if the passage has no pages.

    Args:
        number: citation number of the passage in the answer.
    """
    if not passage.page_starts:
        return passage.page
    answer_pairs = set(pairwise(words(cited_text(answer, number))))
    shared_pairs = {page: len(answer_pairs & set(pairwise(words(text)))) for page, text in passage.page_texts()}
    return max(shared_pairs, key=shared_pairs.__getitem__)


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
