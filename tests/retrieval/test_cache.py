"""The cache of embeddings: nothing is embedded twice, the least recently used goes first."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.retrieval.conftest import Angles
from turnmark.retrieval.task_passages import Cache, by_list, by_text


def test_a_cache_never_outgrows_its_capacity():
    computed: list[Sequence[int]] = []

    def compute(keys: Sequence[int]) -> list[str]:
        computed.append(list(keys))
        return ["x" * key for key in keys]

    cache: Cache[int, str] = Cache(compute, 6, len)
    assert cache.get([2, 3, 2]) == ["xx", "xxx", "xx"]
    assert (cache.weight, cache.get([7]), cache.weight) == (5, ["x" * 7], 5)
    assert (cache.get([2, 4]), cache.weight) == (["xx", "xxxx"], 6)
    assert cache.get([2, 4]) == ["xx", "xxxx"]
    assert cache.get([3]) == ["xxx"]
    assert computed == [[2, 3], [7], [4], [3]]


def test_by_text_embeds_only_new_texts():
    embed = Angles()
    cached = by_text(embed)
    assert cached(["1", "2", "1"]).shape == (3, 2)
    assert cached(["2", "3"]) == pytest.approx(np.array([Angles.one(2), Angles.one(3)]))
    assert embed.asked == [["1", "2"], ["3"]]


def test_what_was_not_asked_for_longest_is_forgotten_first():
    embed = Angles()
    cached = by_list(embed, capacity=4)
    cached(["1", "2"])
    cached(["3", "4"])
    cached(["1", "2"])
    cached(["5"])
    cached(["1", "2"])
    assert embed.asked == [["1", "2"], ["3", "4"], ["5"]]
    cached(["3", "4"])
    assert embed.asked[3:] == [["3", "4"]]


def test_a_list_longer_than_the_whole_memory_pushes_nothing_out():
    embed = Angles()
    cached = by_list(embed, capacity=2)
    cached(["1", "2"])
    assert cached(["1", "2", "3"]).shape == (3, 2)
    cached(["1", "2"])
    assert embed.asked == [["1", "2"], ["1", "2", "3"]]


def test_where_one_text_ends_and_the_next_begins_counts():
    asked: list[Sequence[str]] = []

    def lengths(texts: Sequence[str]) -> NDArray[np.float32]:
        asked.append(texts)
        return np.array([[len(text)] for text in texts], dtype=np.float32)

    cached = by_list(lengths)
    assert cached(["ab", "c"]).tolist() == [[2], [1]]
    assert cached(["a", "bc"]).tolist() == [[1], [2]]
    assert len(asked) == 2


def test_what_is_cached_cannot_be_changed_by_who_asks():
    cached = by_list(Angles())
    with pytest.raises(ValueError, match="read-only"):
        cached(["1"])[0, 0] = 5.0
    assert cached(["1"])[0, 0] == pytest.approx(math.cos(math.radians(1)))


def test_many_threads_get_the_same_vectors():
    cached = by_list(Angles(), capacity=20)
    right: list[bool] = []

    def work(seed: int) -> None:
        for turn in range(200):
            first = (seed + turn) % 13
            texts = [str(first), str(first + 1)]
            right.append(bool(np.allclose(cached(texts), [Angles.one(first), Angles.one(first + 1)], atol=1e-6)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 1600
    assert all(right)


def test_an_error_of_the_embedder_is_not_cached():
    calls = []

    def fails_once(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.append(texts)
        if len(calls) == 1:
            raise RuntimeError("no memory")
        return np.zeros((len(texts), 2), dtype=np.float32)

    cached = by_list(fails_once)
    with pytest.raises(RuntimeError):
        cached(["1"])
    assert cached(["1"]).shape == (1, 2)
