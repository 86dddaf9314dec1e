"""Judges without a language model, end to end: BERTScore and the embedded one, alone and beside others."""

from __future__ import annotations

import json
import re

import pytest

from tests.evaluation.judged_runs import ANSWERS, done, judge, lines, official, spec_of, values
from tests.servers import ScriptedServer
from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.judging.bertscore import bert_recall, open_bert

RB_ALG, RECALL, PRECISION = (f"{name}[tiny-bert]" for name in ("rb_alg", "bert_recall", "bert_k_precision"))


def scored(turnmark, root, tmp_path, *judges, benchmark="mtrag"):
    file = official(tmp_path / "x.jsonl", ANSWERS)
    words = [word for spec in judges for word in ("--judge", spec)]
    out = tmp_path / "r"
    return done(turnmark, "score", benchmark, "--data", root, "--predictions", file, *words, "--out", out), out


def test_bertscore_is_conditioned_on_any_judge_of_idk(benchmark_root, turnmark, tmp_path, tiny_bert, check_run):
    with ScriptedServer(judge()) as server:
        specs = (f"bertscore:{tiny_bert}", spec_of(server, options="metrics=idk"), "embedded")
        summary, out = scored(turnmark, benchmark_root, tmp_path, *specs)
    check_run(out)
    plain, after, own = (values(out, RB_ALG + mark) for mark in ("", ".idk", ".idk[embedded]"))
    # answerable; answerable and "I don't know"; partial; unanswerable and "I don't know"; conversational
    assert after == own == {
        "c1<::>1": plain["c1<::>1"], "c1<::>2": 0.0, "c2<::>1": plain["c2<::>1"], "c2<::>2": 1.0, "c1<::>3": None,
    }  # fmt: skip
    assert all(0 <= value < 1 for value in plain.values())
    row = next(row for row in lines(out / "scores.jsonl") if row["metric"] == RB_ALG)
    assert row["by"] == f"bertscore:{tiny_bert}"
    assert re.fullmatch(r"recall -?0\.\d+, K-precision -?0\.\d+, ROUGE-L 0\.\d+", row["reason"])
    assert summary.usage["judge"]["calls"] == 5, "only the language model was called"
    reasons = [row.why or "" for row in summary.published if "judge" in row.differs]
    assert reasons, "others judged there"
    assert not any("embedded" in why or "bertscore:" in why for why in reasons), "judges are language models"
    assert summary.metrics["answerability_accuracy"] == summary.metrics["answerability_accuracy[embedded]"]
    judged = [json.loads(line) for line in (out / "judgements.jsonl").read_text().splitlines()]
    assert {row["measure"] for row in judged if row["judge"] == f"bertscore:{tiny_bert}"} == {RB_ALG, RECALL, PRECISION}
    bert = open_bert(str(tiny_bert))
    (judgment,) = (row for row in judged if row["measure"] == RECALL and row["id"] == "c1<::>1")
    reference = mtrag.load_tasks(benchmark_root, "mtrag").data["c1<::>1"].reference
    assert judgment["value"] == pytest.approx(bert_recall(bert, ANSWERS["c1<::>1"], reference), abs=1e-6)


def test_bertscore_judgments_are_reused(benchmark_root, turnmark, tmp_path, tiny_bert, monkeypatch):
    first, _ = scored(turnmark, benchmark_root, tmp_path, f"bertscore:{tiny_bert}")
    monkeypatch.setattr("turnmark.evaluation.judging.bertscore.Bert._scorer", None)
    again, _ = scored(turnmark, benchmark_root, tmp_path, f"bertscore:{tiny_bert}")
    assert again.metrics[RB_ALG] == first.metrics[RB_ALG]
    assert first.metrics[RB_ALG].n == 4
    assert "judge" not in first.usage, "nothing was called"
    assert not any("the model that wrote the answers is unknown" in note for note in first.notes), (
        "nobody's model judges"
    )
    assert not {f"{RB_ALG}.idk", "answerability_accuracy"} & first.metrics.keys(), "nobody says what is an I-don't-know"


def test_reports_every_bertscore_mistake_at_once(turnmark):
    message = turnmark.refused(
        "eval", "mtrag", "--judge", "bertscore:/no/such", "--judge", "bertscore:minilm@http://x.example"
    )
    printed = message
    assert "--judge bertscore:/no/such: BERTScore: '/no/such' is not a folder" in printed
    assert "write bertscore, bertscore:minilm or bertscore:FOLDER" in printed
    ran = turnmark("eval", "inscoqa", "--judge", "bertscore:minilm")
    assert "--judge bertscore:minilm: inscoqa has no metrics that it measures" in re.sub(r"\s+", " ", ran.err)
