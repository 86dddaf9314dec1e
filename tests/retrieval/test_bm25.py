"""BM25 compared with a plain implementation of the Lucene variant, and its analyzer."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.ranking.bm25 import BM25, BM25Settings, analyzer_of
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import build_settings

TEXTS = [
    "The harbour seal hauls out on the skerry at low tide.",
    "Seals and otters: how to tell a seal from an otter at dusk.",
    "Tide tables for the harbour, with the times of low tide.",
    "A kettle is descaled with vinegar. Rinse the kettle twice.",
    "",
    "the of and",
]


def reference(query: str, texts: list[str], settings: BM25Settings) -> list[float]:
    """Compute Lucene's BM25 as its similarity class defines it: idf = ln(1 + (N - n + .5) / (n + .5)), no (k1 + 1)."""
    analyze = analyzer_of(settings)
    documents = [Counter(analyze(text)) for text in texts]
    average = sum(sum(d.values()) for d in documents) / len(documents)
    scores = [0.0] * len(texts)
    for term in analyze(query):
        n = sum(term in d for d in documents)
        idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        for i, document in enumerate(documents):
            length = settings.k1 * (1 - settings.b + settings.b * sum(document.values()) / average)
            scores[i] += idf * document[term] / (document[term] + length)
    return scores


@pytest.mark.parametrize("settings", [BM25Settings(), BM25Settings(k1=1.5, b=0.75), BM25Settings(language="none")])
@pytest.mark.parametrize("query", ["low tide in the harbour", "seal", "descaling kettles", "seal seal otter"])
def test_scores_equal_the_lucene_formula(settings, query):
    bm25 = BM25.of_texts(TEXTS, settings)
    assert bm25.scores(query).tolist() == pytest.approx(reference(query, TEXTS, settings), abs=1e-5)


def test_top_is_ordered_and_limited_without_zero_scores():
    bm25 = BM25.of_texts([*TEXTS, "kelp rope", "kelp rope"], BM25Settings())
    assert [row for row, _ in bm25.top("kettle", 5)] == [3]
    assert len(bm25.top("seal tide harbour", 2)) == 2
    assert [len(bm25.top(query, 5)) for query in ("zzz unknown", "the of and", "")] == [0, 0, 0]
    assert [row for row, _ in bm25.top("kelp", 2)] == [6, 7], "equal scores come in row order"
    mask = np.array([True, False, False, True, True, True, True, True])
    assert [row for row, _ in bm25.top("seal tide", 5, rows=mask)] == [0]


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("english", "The boats were Running", ["boat", "run"]),
        ("german", "Die Häuser und die Bäume", ["haus", "baum"]),
        ("none", "The boats", ["the", "boats"]),
    ],
)
def test_analyzer_returns_stems_without_stop_words(language, text, terms):
    assert analyzer_of(BM25Settings(language=language))(text) == terms


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ("bm25?k1=x&language=klingon&splade=m", ["k1='x'", "klingon", "no option 'splade'"]),
        ("splade", ["needs a model: splade:MODEL"]),
        ("splade:a/b?weight=1&precision=fp32", ["no option 'weight'", "no option 'precision'"]),
        ("hybrid?splade=m?precision=fp32", ["without an address or options"]),
        ("conversational?splade=m@http://there/", ["without an address"]),
    ],
)
def test_reports_all_wrong_options_at_once(spec, problems):
    with pytest.raises(RequestError) as caught:
        build_settings(spec)
    assert len(caught.value.problems) == len(problems)
    assert all(part in str(caught.value) for part in problems)


def test_finds_documents_of_two_languages(tmp_path):
    """A document is analyzed in its own language, and a query in both languages."""
    write(
        tmp_path / "docs",
        en="# Machines\n\nSwitch the machine off before you descale it, and let it cool down completely.",
        de="# Maschinen\n\nVor dem Entkalken werden die Maschinen abgeschaltet und müssen ganz abkühlen.",
        th="# เครื่อง\n\nก่อนทำความสะอาดให้ปิดเครื่องและรอให้เย็นลง",
    )
    build_index(tmp_path / "docs", "mixed", retriever="bm25")
    index = open_index("mixed")
    assert sorted(index.manifest.languages) == ["de", "en", "th"]
    found = {query: index.bm25.top(query, 1) for query in ("descaled machine", "abgeschaltete Maschine", "ทำความสะอาด")}
    documents = {query: index.store.by_rows(top.rows.tolist())[0].document for query, top in found.items()}
    assert documents == {"descaled machine": "en.md", "abgeschaltete Maschine": "de.md", "ทำความสะอาด": "th.md"}
