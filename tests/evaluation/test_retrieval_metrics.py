"""recall@k and nDCG@k: by hand, against ir_measures, and by their properties; TREC runs read and written."""

from __future__ import annotations

import math
from typing import Any

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.core.errors import RequestError
from turnmark.evaluation.benchmarks.mtrag.retrieval import METRIC_NAMES, judged_share, score_lists
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.storage.predictions import format_trec, note_ties, parse_run, read_runs, sort_passages

DOCS = st.sampled_from([f"d{i}" for i in range(15)])
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(DOCS, st.integers(0, 3), min_size=1).filter(lambda grades: max(grades.values()) > 0),
    min_size=1,
)
# Quarters: many ties, and exact in single precision.
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "unjudged"]), st.dictionaries(DOCS, st.integers(-8, 8).map(lambda n: n / 4))
)


def lists_of(run):
    return {
        q: [ContextRef(document_id=d, score=s) for d, s in sort_passages.items()] for q, sort_passages in run.items()
    }


def test_recall_and_ndcg_match_hand_computed_values():
    """Three relevant passages, found at ranks 1 and 4: DCG = 1 + 1/log2(5), ideal = 1 + 1/log2(3) + 1/2."""
    lists = lists_of({"q": {"a": 5.0, "x": 4.0, "y": 3.0, "b": 2.0}})
    scores = score_lists({"q": {"a": 1, "b": 1, "c": 1}}, lists)["q"]
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert scores["recall@1"] == pytest.approx(1 / 3)
    assert scores["recall@3"] == pytest.approx(1 / 3)
    assert scores["recall@5"] == pytest.approx(2 / 3)
    assert [scores[f"precision@{k}"] for k in (1, 3, 5, 10)] == pytest.approx([1, 1 / 3, 2 / 5, 2 / 10])
    assert scores["map@10"] == pytest.approx((1 / 1 + 2 / 4) / 3)
    assert scores["mrr@10"] == 1.0
    assert scores["ndcg@1"] == pytest.approx(1.0)
    assert scores["ndcg@3"] == pytest.approx(1 / ideal)
    assert scores["ndcg@5"] == pytest.approx((1 + 1 / math.log2(5)) / ideal)


def test_queries_without_results_count_as_0_and_without_labels_are_ignored():
    scores = score_lists({"q": {"a": 1}, "empty": {"a": 1}, "none": {"a": 0}}, lists_of({"empty": {}, "x": {"a": 1.0}}))
    assert scores == {"q": dict.fromkeys(METRIC_NAMES, 0.0), "empty": dict.fromkeys(METRIC_NAMES, 0.0)}
    assert score_lists({}, {}) == {}


def test_judged_share_counts_labels_of_any_grade():
    """A, b of the first three have a label; a shorter list counts with its own length, and an empty one not at all."""
    run, labels = {"q": {"a": 5.0, "x": 4.0, "b": 3.0, "y": 2.0}}, {"a": 1, "b": 0}
    passages = lists_of(run)["q"]
    for cutoff, share in ((3, 2 / 3), (20, 2 / 4)):
        theirs = ir_measures.calc_aggregate([ir_measures.Judged @ cutoff], {"q": labels}, run)
        assert judged_share(labels, passages, cutoff) == theirs[ir_measures.Judged @ cutoff] == share
    assert judged_share({"a": 1}, [], 3) is None


def test_the_first_relevant_passage_after_rank_10_counts_only_in_longer_cutoffs():
    passages = lists_of({"q": {**{f"x{n:02}": 20.0 - n for n in range(11)}, "a": 1.0}})
    scores = score_lists({"q": {"a": 1}}, passages, (12, 20))["q"]
    assert (scores["mrr@10"], scores["map@10"], scores["recall@10"]) == (0, 0, 0)
    assert (scores["recall@12"], scores["precision@12"], scores["precision@20"]) == (1, 1 / 12, 1 / 20)
    assert scores["ndcg@20"] == pytest.approx(1 / math.log2(13))


@settings(deadline=None)
@given(QRELS, RUNS)
def test_metrics_match_ir_measures(qrels, run):
    ours = score_lists(qrels, lists_of(run), (2, 20))
    measures: dict[str, Any] = {f"{name}@{k}": measure @ k for name, measure in
        (("recall", ir_measures.R), ("ndcg", ir_measures.nDCG), ("precision", ir_measures.P))
        for k in (1, 2, 3, 5, 10, 20)} | {"map@10": ir_measures.AP @ 10, "mrr@10": ir_measures.RR}  # fmt: skip
    names = {str(measure): name for name, measure in measures.items()}
    theirs = {
        (value.query_id, names[str(value.measure)]): value.value
        for value in ir_measures.iter_calc(list(measures.values()), qrels, run)
    }
    for query, scores in ours.items():
        for name, value in scores.items():
            expected = theirs.get((query, name), 0.0)
            if name == "mrr@10" and expected < 1 / 10:  # RR @ 10 of ir_measures orders ties unlike trec_eval
                expected = 0.0
            assert value == pytest.approx(expected, abs=1e-9), (query, name)


IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=8)
SCORES = st.floats(-1e30, 1e30, allow_nan=False)


def test_sorts_by_score_then_document_descending_and_ignores_the_rank_column():
    run = parse_run(b"q<::>1 Q0 a 1 0.5 t\nq<::>1 Q0 b 2 0.5 t\r\n\nq<::>1\tQ0\tc\t99\t7e-1\tt\n", "x.trec")
    assert [(c.document_id, c.score) for c in run["q<::>1"]] == [("c", 0.7), ("b", 0.5), ("a", 0.5)]
    (note,) = note_ties({**run, "r": run["q<::>1"][:2]})
    assert note.startswith("1 of 2 ranked lists have tied scores; ties are ordered by document id, descending")
    assert note_ties({"r": run["q<::>1"][:2]}) == ()


def test_reports_every_wrong_line_at_once():
    content = b"q Q0 a 1 0.5 t\nq Q0 a\nq Q0 b 1 nan t\nq Q0 c 1 1_0 t\nq Q0 a 2 0.4 t\n\xff\nq Q0 d 1 1e999 t\nx\ny\n"
    with pytest.raises(RequestError) as caught:
        parse_run(content, "x.trec")
    assert caught.value.problems == (
        "x.trec:2: expected the six fields `query Q0 document rank score tag`",
        *(f"x.trec:{n}: the fifth field, the score, is not a finite number" for n in (3, 4)),
        "x.trec:5: duplicate document of this query",
        "x.trec:6: not valid UTF-8",
        "x.trec:7: the fifth field, the score, is not a finite number",
        *(f"x.trec:{n}: expected the six fields `query Q0 document rank score tag`" for n in (8, 9)),
    )


def test_reports_mistakes_of_all_files_and_refuses_repeated_queries(tmp_path):
    (tmp_path / "a.trec").write_text("q Q0 a 1 1 t\n")
    (tmp_path / "b.trec").write_text("q Q0 b 1 1 t\nr Q0 b 1 1 t\n")
    (tmp_path / "c.trec").write_text("broken\n")
    with pytest.raises(RequestError) as caught:
        read_runs([tmp_path / name for name in ("a.trec", "b.trec", "c.trec", "none.trec")])
    assert [problem.split(":")[0].split("/")[0] for problem in caught.value.problems] == [
        "b.trec", "c.trec", "--predictions '",
    ]  # fmt: skip


@given(st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=5), min_size=1, max_size=5))
def test_written_run_reads_back_unchanged(lists):
    written = {
        query: sort_passages(ContextRef(document_id=d, score=s) for d, s in order.items())
        for query, order in lists.items()
    }
    assert parse_run(format_trec(written, "tag").encode(), "x") == written


@pytest.mark.parametrize("bad", ["", "two words", "a\nb", "a\u2028b"])
def test_refuses_ids_with_white_space(bad):
    with pytest.raises(ValueError, match="a TREC run cannot contain the id"):
        format_trec({"q": [ContextRef(document_id=bad, score=1.0)]}, "t")
