"""What makes two requests the same run, and what is said or refused when a run is resumed under other conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.evaluation.conftest import Opener, searched
from tests.evaluation.requests import request_of
from tests.retrieval.tiny import break_weights, cross, splade
from turnmark.core.errors import RequestError
from turnmark.corpora.downloads.small_models import MODELS, ModelFile, model_path
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.storage.corpus_passages import open_corpus


def planned(root, out, **changes):
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "data": root, "retriever": "bm25", "query": "last-turn", "out": out,
    }  # fmt: skip
    return plan_run(request_of(**(fields | changes)))


def test_order_and_repetition_of_options_do_not_change_the_run(benchmark_root):
    only = ("c4<::>2", "c1<::>1")
    first = planned(benchmark_root, None, only=only, domains=("clapnq", "fiqa"))
    two = planned(benchmark_root, None, only=(*reversed(only), only[0]), domains=("fiqa", "clapnq"))
    assert first.folder == two.folder
    assert (list(first.domain_of_id), first.manifest.domains) == (list(two.domain_of_id), two.manifest.domains)
    assert planned(benchmark_root, None, only=only).folder == first.folder
    assert (
        planned(benchmark_root, None, domains=("fiqa", "clapnq"), limit=4).domain_of_id
        == planned(benchmark_root, None, domains=("clapnq", "fiqa"), limit=4).domain_of_id
    )


def test_resuming_with_other_versions_is_reported(benchmark_root, tmp_path, opener, capsys):
    request_plan = planned(benchmark_root, tmp_path / "r")
    first, *_ = searched(request_plan, opener)
    assert capsys.readouterr().err.count("resumed:") == 0
    assert {"turnmark", "bm25s", "pytrec_eval-terrier"} <= set(request_plan.manifest.maker.keys())
    made_of = request_plan.manifest.versions
    later = request_plan.manifest.model_copy(update={"versions": {**made_of, "bm25s": "99", "git": "new"}})
    summary, *_ = searched(replace(request_plan, manifest=later), opener)
    message = "resumed: 7 samples were made with bm25s "
    assert f"turnmark: {message}" in capsys.readouterr().err
    assert [note.startswith(message) and "(now 99), git" in note for note in summary.notes].count(True) == 1
    assert summary.metrics == first.metrics
    again, *_ = searched(replace(request_plan, manifest=later), opener)
    assert any(note.startswith(message) for note in again.notes), "the second time as well"


def test_index_fingerprint_covers_only_searched_components(benchmark_root, tmp_path):
    corpus = benchmark_root / "corpora/passage_level/fiqa.jsonl"
    _, lexical = open_corpus(corpus, "bm25", "minilm")
    _, dense = open_corpus(corpus, "dense", "minilm")
    assert dense != lexical
    # From now on BM25 is searched in the index with vectors; that is no other index to it, nor are SPLADE's terms.
    assert open_corpus(corpus, "bm25", "minilm")[1] == lexical
    first, second = (f"splade:{splade(tmp_path / name)}" for name in ("one", "other"))
    assert open_corpus(corpus, first, "minilm")[1] != open_corpus(corpus, second, "minilm")[1]
    assert open_corpus(corpus, "bm25", "minilm")[1] == lexical


def test_reranker_weights_are_part_of_the_run_identity(benchmark_root, tmp_path):
    model = cross(tmp_path)
    retriever = f"bm25?rerank=cross:{model}"
    first = planned(benchmark_root, None, retriever=retriever)
    assert planned(benchmark_root, None, retriever=retriever).folder == first.folder
    assert "reranker" not in planned(benchmark_root, None, retriever="bm25?rerank=cross:a-hub/name").manifest.inputs
    break_weights(model)
    second = planned(benchmark_root, None, retriever=retriever)
    assert second.manifest.inputs["reranker"] != first.manifest.inputs["reranker"]
    assert second.folder != first.folder


def test_fetching_a_model_for_the_default_retriever_makes_another_run(benchmark_root, tmp_path, monkeypatch):
    before = plan_run(request_of(benchmark="mtrag", task="retrieval", data=benchmark_root, out=tmp_path / "r"))
    assert before.manifest.specs["retriever"] == "conversational"
    searched(before, Opener())
    fetched = model_path(MODELS["splade-tiny"])
    fetched.mkdir(parents=True)
    (fetched / "config.json").write_text("{}")
    monkeypatch.setitem(
        MODELS, "splade-tiny",
        MODELS["splade-tiny"].model_copy(update={"files": (ModelFile(name="config.json", size=2, sha256=""),)}),
    )  # fmt: skip
    after = plan_run(request_of(benchmark="mtrag", task="retrieval", data=benchmark_root)).manifest.specs
    assert after["retriever"] == "conversational?splade=splade-tiny"
    fields: dict[str, Any] = {"benchmark": "mtrag", "task": "retrieval", "data": benchmark_root, "out": tmp_path / "r"}
    with pytest.raises(RequestError, match=r"specs\.retriever: 'conversational' there, 'conversational\?splade="):
        plan_run(request_of(**fields))
    as_before = plan_run(request_of(**fields, retriever="conversational"))
    assert searched(as_before, Opener())[0].failed == 0
