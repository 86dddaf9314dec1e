"""The passages of a benchmark task: their order, similarity and cutting, and the cache of their vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.conftest import Angles
from turnmark.corpora.types import Passage
from turnmark.retrieval.embedding.vector_cache import Cache, cache_by_list
from turnmark.retrieval.search.task_passages import cut_passages, hits_of, ranked_by


def passage(text: str, document: str = "d", title: str = "") -> Passage:
    return Passage(id=f"{document}:{text}", document=document, title=title, text=text, start=0, end=len(text))


def test_ranks_by_mean_cosine():
    hits = ranked_by([passage("90"), passage("30"), passage("0")], ["0", "60"], Angles())
    # At 30 degrees cos 30 twice, at 0 (1 + .5) / 2, at 90 (0 + cos 30) / 2. The best cosine alone would have 0 first.
    assert [hit.passage.text for hit in hits] == ["30", "0", "90"]
    assert [hit.score for hit in hits] == pytest.approx([math.sqrt(3) / 2, 0.75, math.sqrt(3) / 4])
    assert [hit.found["dense"].rank for hit in hits] == [2, 1, 3]
    assert (hits[1].found["dense+1"].rank, hits[1].found["dense+1"].score) == (3, pytest.approx(0.5))
    assert [hit.similarity for hit in hits] == pytest.approx([math.sqrt(3) / 2, 1, math.sqrt(3) / 2])


def test_ties_keep_the_given_order():
    equal = [passage("45", "b"), passage("45", "a"), passage("45", "c")]
    assert [hit.passage.document for hit in ranked_by(equal, ["0"], Angles())] == ["b", "a", "c"]
    assert ranked_by(equal, ["0"], None) == hits_of(equal)
    assert ranked_by([], ["0"], Angles()) == []


def test_embeds_each_document_separately_and_once():
    embed = Angles()
    remembered = cache_by_list(embed)
    first, second = [passage("1", "a"), passage("2", "a")], [passage("3", "b")]
    alone = ranked_by(first, ["10"], remembered)
    ranked = ranked_by([*second, *first], ["20"], remembered)
    assert embed.asked == [["10"], ["1", "2"], ["20"], ["3"]]
    assert {hit.passage.text for hit in ranked} == {"1", "2", "3"}
    assert ranked_by(first, ["10"], remembered) == alone
    assert len(embed.asked) == 4


@given(st.text(max_size=2000), st.text(max_size=300))
@settings(max_examples=60)
def test_cutting_keeps_every_word_once(text: str, title: str):
    passages = cut_passages("d", title, text)
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    assert "".join("".join(piece.text.split()) for piece in passages) == "".join(normal.split())
    assert all(normal[piece.start : piece.end] == piece.text for piece in passages)


def test_cache_stays_within_its_capacity():
    computed: list[Sequence[int]] = []

    def compute(keys: Sequence[int]) -> list[str]:
        computed.append(list(keys))
        return ["x" * key for key in keys]

    cache: Cache[int, str] = Cache(compute, 6, len)
    assert cache.get([2, 3, 2]) == ["xx", "xxx", "xx"]
    assert (cache._weight, cache.get([7]), cache._weight) == (5, ["x" * 7], 5)
    assert (cache.get([2, 4]), cache._weight) == (["xx", "xxxx"], 6)
    assert cache.get([2, 4]) == ["xx", "xxxx"]
    assert cache.get([3]) == ["xxx"]
    assert computed == [[2, 3], [7], [4], [3]]
