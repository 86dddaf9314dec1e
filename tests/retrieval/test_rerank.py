"""Reranking: hand-computed fusion, a tiny cross-encoder made here, and its options."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.retrieval import tiny
from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.specs import Spec, parse_spec
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.rerankers import CrossReranker, RerankingRetriever
from turnmark.retrieval.search.retriever_factory import build_settings, open_retriever
from turnmark.retrieval.types import Hit, Query, Retriever


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny.cross(tmp_path_factory.mktemp("cross"))


@pytest.fixture
def notes(tmp_path) -> Path:
    return write(
        tmp_path / "notes",
        bread="# Bread\n\nMix flour and water. Bake the loaf at nine.\n",
        boat="# Boat\n\nDrain the fuel tank before winter. Wash the hull with water.\n",
        bees="# Bees\n\nFeed the bees sugar and water in autumn.\n",
    )


def spec(model: Path) -> str:
    return f"cross:{model}"


class Fixed(Retriever):
    """A retriever that returns the given hits for every query."""

    name = "fixed"

    def __init__(self, *scores: float) -> None:
        self.hits = [
            Hit(
                passage=Passage(id=str(n), document="d", title="", text=f"text {n}", start=0, end=6),
                score=score,
                found={"bm25": RankAndScore(rank=n + 1, score=score)},
            )
            for n, score in enumerate(scores)
        ]

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [self.hits[:top_k] if query.text else [] for query in queries]


class Says:
    """A reranker that returns the given scores."""

    name = "late:whatever"

    def __init__(self, *scores: float) -> None:
        self.told = scores

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        return [list(self.told) if hits_of_query else [] for hits_of_query in hits]


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def test_fused_score_is_the_sum_of_both_z_scores():
    """First 4, 2, 0: z = a, 0, -a where a = sqrt(3/2). The reranker's 10, 40, 40: z = -b, b/2, b/2 where b = sqrt 2."""
    a, b = math.sqrt(1.5), math.sqrt(2)
    [hits] = RerankingRetriever("x", Fixed(4, 2, 0), Says(10, 40, 40), depth=3).search([Query(text="q")], 3)
    assert ids(hits) == ["1", "0", "2"]
    assert [hit.score for hit in hits] == pytest.approx([b / 2, a - b, -a + b / 2])
    assert [(hit.found["late"].rank, hit.found["late"].score) for hit in hits] == [(1, 40), (3, 10), (2, 40)]
    assert [hit.found["bm25"].rank for hit in hits] == [2, 1, 3]


def test_reranks_only_the_best_hits():
    [hits] = RerankingRetriever("x", Fixed(5, 4, 3, 3, 1), Says(1, 3), depth=2).search([Query(text="q")], 5)
    assert ids(hits) == ["0", "1", "2", "3", "4"], "equal sums keep the first order"
    assert [hit.score for hit in hits] == pytest.approx([0, 0, -2, -2, -6]), "0.5 is the first two's deviation"
    assert ["late" in hit.found for hit in hits] == [True, True, False, False, False]
    [hits] = RerankingRetriever("x", Fixed(5, 4, 3), Says(1, 9, 5), depth=3).search([Query(text="q")], 1)
    assert ids(hits) == ["1"], "more are looked at than are asked for"
    for scores in ((3,), (3, 3)):
        [hits] = RerankingRetriever("x", Fixed(*scores), Says(*(7,) * len(scores))).search([Query(text="q")], 5)
        assert [hit.score for hit in hits] == [0] * len(scores)
    assert RerankingRetriever("x", Fixed(), Says()).search([Query(text="q")], 5) == [[]]


@pytest.mark.parametrize("scores", [(1.0,), (1.0, 2.0, 3.0), (1.0, math.nan), (1.0, math.inf)])
def test_reports_invalid_scores_with_the_model(scores):
    with pytest.raises(
        TurnmarkError, match="reranker 'late:whatever' did not return one finite score for every passage"
    ):
        RerankingRetriever("x", Fixed(2, 1), Says(*scores)).search([Query(text="q")], 2)


def test_cross_encoder_reranks_an_index(notes, model, turnmark):
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    build_index(notes, "n", retriever="bm25")
    index = open_index("n")
    text = f"bm25?rerank={spec(model)}&rerank_depth=2"
    retriever = open_retriever(text, index)
    assert retriever.name == str(parse_spec(text))
    queries = [Query(text="water"), Query(text="hull water"), Query(text="nothing of it")]
    first, second, none = retriever.search(queries, 3)
    assert none == []
    library = CrossEncoder(str(model), device="cpu")
    plain = open_retriever("bm25", index).search(queries, 3)
    for query, hits, before in zip(queries, (first, second), plain, strict=False):
        assert sorted(ids(hits)) == sorted(ids(before))
        reranked = [hit for hit in hits if "cross" in hit.found]
        assert set(ids(reranked)) == set(ids(before[:2]))
        pairs = [(query.text, hit.passage.indexed_text) for hit in reranked]
        expected = library.predict(pairs, activation_fn=Identity(), show_progress_bar=False)
        assert [hit.found["cross"].score for hit in reranked] == pytest.approx(expected.tolist(), abs=1e-4)
    explained = turnmark("search", "hull water", "--index", "n", "--retriever", text, "--explain")
    assert explained.code == 0
    assert "cross: rank 1" in explained.out
    assert "bm25: rank 1" in explained.out
    reply = json.loads(turnmark("search", "hull water", "--index", "n", "--retriever", text, "--json").out)
    assert reply["retriever"] == retriever.name


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("hybrid?rerank=corss:x&foo=1", ["did you mean 'cross'", "no option 'foo'"]),
        ("bm25?rerank=cross", ["needs a model: cross:MODEL"]),
        ("bm25?rerank=cross:m?depth=1", ["reranker 'cross' has no option 'depth'"]),
        ("bm25?rerank_depth=5", ["rerank_depth without a reranker"]),
        ("bm25?rerank=cross:m&rerank_depth=0", ["from 1 to 10000"]),
        ("hybrid?rerank=late:foo", ["reranker 'late' takes no model (got 'foo'); write rerank=late"]),
        ("bm25?rerank=cross:a@http://u:hush@h", ["rerank= takes no address"]),
        ("python:a:b?rerank=cross%3Aa%40https%3A%2F%2Fu%3Ahush%40h", ["rerank= takes no address"]),
        ("llama-index:a:b?rerank=late", ["rerank=late needs a built-in retriever"]),
        ("python:a:b?foo=1", ["retriever 'python' has no option 'foo'; it has: rerank, rerank_depth"]),
        ("python:a:b@http://x", ["'python' takes options and an argument only"]),
        ("hybrid:x", ["'hybrid' takes options only"]),
        ("dense?weight=1", ["retriever 'dense' has no option 'weight'; it has: rerank, rerank_depth"]),
    ],
)
def test_reports_all_wrong_requests_at_once(notes, text, problems):
    build_index(notes, "n", retriever="bm25")
    for attempt in (lambda: build_settings(text), lambda: open_retriever(text, open_index("n"))):
        with pytest.raises(RequestError) as caught:
            attempt()
        assert len(caught.value.problems) == len(problems)
        assert all(part in str(caught.value) for part in problems)
        assert "hush" not in str(caught.value)


def test_refuses_models_other_than_cross_encoders(tmp_path, model):
    with pytest.raises(RequestError, match=r"reranker 'cross:.*' cannot be loaded: .*; name a folder with a cross-enc"):
        CrossReranker(Spec("cross", str(tmp_path / "nothing")))
    with pytest.raises(RequestError, match=r"is not a cross-encoder: .* \(its configuration says BertModel\)"):
        CrossReranker(Spec("cross", str(tiny.dense(tmp_path / "dense"))))
    with pytest.raises(RequestError, match="returns 3 scores per pair; use a model that returns one"):
        CrossReranker(Spec("cross", str(tiny.cross(tmp_path / "three", labels=3))))
    shutil.copytree(model, tmp_path / "broken")
    tiny.break_weights(tmp_path / "broken")
    broken = CrossReranker(Spec("cross", str(tmp_path / "broken")))
    with pytest.raises(
        TurnmarkError, match=r"reranker 'cross:.*broken' did not return one finite score for every passage"
    ):
        RerankingRetriever("x", Fixed(2, 1), broken).search([Query(text="q")], 2)
