"""TREC runs: order, every mistake at once, writing and reading back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.trec import format_trec, parse_run, ranked, read_runs

IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=8)
SCORES = st.floats(-1e30, 1e30, allow_nan=False)


def test_order_is_by_score_then_by_document_descending_and_the_rank_is_not_read() -> None:
    run = parse_run(b"q<::>1 Q0 a 1 0.5 t\nq<::>1 Q0 b 2 0.5 t\r\n\nq<::>1\tQ0\tc\t99\t7e-1\tt\n", "x.trec")
    assert [(c.document_id, c.score) for c in run["q<::>1"]] == [("c", 0.7), ("b", 0.5), ("a", 0.5)]


def test_scores_that_are_equal_in_single_precision_are_a_tie_as_in_trec_eval() -> None:
    order = ranked([ContextRef(document_id="a", score=1.00000001), ContextRef(document_id="b", score=1.0)])
    assert [c.document_id for c in order] == ["b", "a"]


def test_every_wrong_line_is_named_at_once() -> None:
    content = b"q Q0 a 1 0.5 t\nq Q0 a\nq Q0 b 1 nan t\nq Q0 c 1 1_0 t\nq Q0 a 2 0.4 t\n\xff\nq Q0 d 1 1e999 t\nx\ny\n"
    with pytest.raises(RequestError) as caught:
        parse_run(content, "x.trec")
    assert caught.value.problems == (
        "x.trec, lines 2, 8-9: not the six fields `query Q0 document rank score tag`",
        "x.trec, lines 3-4, 7: the fifth field, the score, is no finite number",
        "x.trec, line 5: a pair of query and document that stood before",
        "x.trec, line 6: not valid UTF-8",
    )


def test_an_empty_file_is_no_run() -> None:
    with pytest.raises(RequestError, match=r"x\.trec: no line in it"):
        parse_run(b"\n \n", "x.trec")


def test_several_files_report_together_and_may_not_answer_the_same_query(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q Q0 a 1 1 t\n")
    (tmp_path / "b.trec").write_text("q Q0 b 1 1 t\nr Q0 b 1 1 t\n")
    (tmp_path / "c.trec").write_text("broken\n")
    with pytest.raises(RequestError) as caught:
        read_runs([tmp_path / name for name in ("a.trec", "b.trec", "c.trec", "none.trec")])
    assert [problem.split(":")[0].split("/")[0] for problem in caught.value.problems] == [
        "b.trec", "c.trec, line 1", "--predictions '",
    ]  # fmt: skip


@given(st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=5), min_size=1, max_size=5))
def test_what_is_written_reads_back(lists: dict[str, dict[str, float]]) -> None:
    written = {
        query: ranked(ContextRef(document_id=d, score=s) for d, s in order.items()) for query, order in lists.items()
    }
    assert parse_run(format_trec(written, "tag").encode(), "x") == written


@pytest.mark.parametrize("bad", ["", "two words", "a\nb", "a\u2028b"])
def test_an_id_that_the_format_cannot_carry_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a TREC run"):
        format_trec({"q": [ContextRef(document_id=bad, score=1.0)]}, "t")
