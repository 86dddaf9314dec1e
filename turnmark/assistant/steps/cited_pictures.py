"""Find the pictures that a source describes, starting with the one that an answer is about."""

from __future__ import annotations

from collections.abc import Iterator

from turnmark.assistant.steps.pages import cited_text
from turnmark.assistant.types import CitedPicture
from turnmark.corpora.text.function_words import content_words
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
