"""What of a run the tables choose and leave out, and how a run's folder is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.reported import SAMPLES, SUMMARY, metric, write_run
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import write_json
from turnmark.evaluation.records import Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import read_run, samples, scores, tally


def test_metrics_are_chosen_by_what_they_tell_and_only_with_values_first() -> None:
    assert tables.chosen(SUMMARY.metrics, 2) == ["rouge_l.word", "k_precision"]
    metrics = {"rouge_l.word": metric(None), "answer_words": metric(3.0), "odd": metric(1.0)}
    assert tables.chosen(metrics, 3) == ["answer_words", "rouge_l.word"]
    assert tables.chosen({"judge_score[embedded]": metric(1.0), "x": metric(1.0)}, 3) == ["judge_score[embedded]"]
    assert tables.chosen({"odd": metric(1.0), "odd[lead]": metric(1.0)}, 3) == ["odd"]
    assert tables.chosen({}, 3) == []


@pytest.mark.parametrize(("name", "value", "printed"), [
    ("rouge_l.word", 0.28713, "0.2871"), ("rouge_l.word[lead]", 1.0, "1.0000"), ("answer_words", 63.254, "63.3"),
    ("edit_distance", 213.0, "213.0"), ("length_ratio", 0.645, "0.65"), ("judge_score[embedded]", 7.5, "7.50"),
    ("unknown.f1", None, "-"),
])  # fmt: skip
def test_every_metric_has_its_digits(name: str, value: float | None, printed: str) -> None:
    assert tables.figure(name, value) == printed


def test_the_tally_counts_what_became_of_the_samples(stored_run: Path) -> None:
    with open(stored_run / "predictions.jsonl", "a", encoding="utf-8") as file:
        file.write('{"id": "x"}\nno json\n{"id": "torn", "status"')
    counts = tally(stored_run, 2)
    assert counts is not None
    assert (counts.n, counts.unreadable, counts.first) == (6, 3, (("c1<::>1", 0), ("c1<::>2", 0)))
    assert counts.failures == {"timeout": 1}
    assert counts.skipped == {"the budget of 10 tokens is spent": 1}
    assert [sample.id for sample in samples(stored_run)] == [sample.id for sample in SAMPLES]
    assert tally(stored_run / "nowhere") is None


def test_reasons_without_end_do_not_fill_the_memory(tmp_path: Path) -> None:
    failed = tuple(Sample(id=str(i), status="failed", reason=f"reason {i}") for i in range(500))
    counts = tally(write_run(tmp_path / "r", lines=failed))
    assert counts is not None
    assert len(counts.failures) == 101
    assert sum(counts.failures.values()) == 500
    assert next(iter(tables.reasons(counts))).startswith("failed: other reasons (400), ")


def test_scores_are_found_in_any_order(stored_run: Path) -> None:
    path = stored_run / "scores.jsonl"
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    keys = [SAMPLES[4].key, SAMPLES[0].key]
    scores_of = scores(stored_run, keys, ["answer_words", "k_precision"])
    assert {key: {name: score.value for name, score in mine.items()} for key, mine in scores_of.items()} == {
        ("c2<::>3", 1): {"answer_words": 1400.0, "k_precision": 0.5},
        ("c1<::>1", 0): {"answer_words": 4.0, "k_precision": 0.5},
    }
    assert scores(stored_run / "nowhere", keys, ["k_precision"]) == {keys[0]: {}, keys[1]: {}}


@pytest.mark.parametrize("name", ["../run", "/etc", "a/b", "..", ""])
def test_a_name_in_a_summary_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "run")
    write_json(tmp_path / "all/summary.json", {name: SUMMARY.model_dump(mode="json"), "b": {"n": 1}})
    with pytest.raises(RequestError) as caught:
        read_run(tmp_path / "all")
    assert f"benchmark {name!r}: use up to 100 letters" in caught.value.problems[0]
    assert "benchmark 'b', field " in caught.value.problems[1]


@pytest.mark.parametrize(("content", "text"), [
    ("", "is not JSON"), ("[" * 100_000, "is not JSON"), ("[]", "field all:"),
    ('{"mtrag": 3}', "field benchmark: Field required"),
    ('{"benchmark": "mtrag"}', "field task: Field required"),
])  # fmt: skip
def test_what_is_no_summary_is_said(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(RequestError) as caught:
        read_run(tmp_path)
    assert text in str(caught.value)
    assert str(tmp_path) in str(caught.value)
