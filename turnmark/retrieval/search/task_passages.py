"""Turns the passages of a benchmark task into hits, in the order given or ranked. There is no index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean

from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers import shorten_title
from turnmark.corpora.readers.markup.markdown import blocks
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.types import Hit

DENSE_LIST = "dense"

MAX_PASSAGE_TOKENS = 180
"""Maximum words and punctuation marks of a passage with its title. Each is about 1.3 WordPiece tokens, and MiniLM reads
256 of them."""


def cut_passages(identity: str, title: str, text: str) -> list[Passage]:
    """Cut a text of a task into passages, in order. The text is parsed as Markdown, which includes plain text.

    The passages have no path, since `identity` is an id from the data.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    title = shorten_title(" ".join(title.split()))
    return chunk(
        Document(id=identity, title=title, text=text, blocks=tuple(blocks(text))), regex_tokens, MAX_PASSAGE_TOKENS
    )


def hits_of(passages: Sequence[Passage]) -> list[Hit]:
    """Return passages as hits in the order given, with score 1 / rank and no list in `found`."""
    return [Hit(passage=passage, score=1 / rank) for rank, passage in enumerate(passages, 1)]


def ranked_by(passages: Sequence[Passage], texts: Sequence[str], embed: Embed | None) -> list[Hit]:
    """Return passages as hits, best first; ties keep the order given.

    The score is the mean cosine of the texts with a passage's `indexed_text`, from -1 to 1. The texts are wordings of
    one question (the message and its rewrite). The maximum would not work instead of the mean: a rewrite that names the
    topic would lift every passage of that topic, whatever the message asks about it. In each hit, `found` lists the
    ranks for each text, under the names that a retriever uses for a message and its variants. The hit's `similarity`
    is therefore the best cosine.

    Args:
        texts: wordings of the question, at least one; the message first.
        embed: called once for the texts and once for each run of passages of the same document. Vectors then do not
            depend on the other passages, and `cache_by_list` recognizes a document. The default is that of `hits_of`.
    """
    if embed is None or not passages:
        return hits_of(passages)
    text_vectors = embed(list(texts))
    cosines: list[list[float]] = []  # one row for each passage, one column for each text
    for _, run in groupby(passages, key=lambda passage: passage.document):
        products = embed([passage.indexed_text for passage in run]) @ text_vectors.T
        cosines.extend([float(cosine) for cosine in row] for row in products)
    found: list[dict[str, RankAndScore]] = [{} for _ in passages]
    for number in range(len(texts)):
        name = f"{DENSE_LIST}+{number}" if number else DENSE_LIST
        for rank, position in enumerate(_best_first([row[number] for row in cosines]), 1):
            found[position][name] = RankAndScore(rank=rank, score=cosines[position][number])
    means = [fmean(row) for row in cosines]
    return [Hit(passage=passages[at], score=means[at], found=found[at]) for at in _best_first(means)]


def _best_first(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda position: (-scores[position], position))
