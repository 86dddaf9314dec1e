"""Judges without a language model, end to end: BERTScore and the embedded one, alone and beside others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Turnmark
from tests.evaluation.conftest import TURNS, write_benchmark
from tests.evaluation.judged_runs import ANSWERS, FEW, done, judge, lines, official, spec_of, values
from tests.servers import ScriptedServer
from turnmark.corpora import mtrag
from turnmark.evaluation.judging.bertscore import bert_recall, open_bert
from turnmark.evaluation.judging.idk import VERDICTS, is_conditioned, mark_of
from turnmark.evaluation.judging.judge import can_grade

Check = Callable[[Path], None]
RB_ALG, RECALL, PRECISION = (f"{name}[tiny-bert]" for name in ("rb_alg", "bert_recall", "bert_k_precision"))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")


def scored(turnmark: Turnmark, root: Path, tmp_path: Path, *judges: str, benchmark: str = "mtrag") -> tuple[Any, Path]:
    file = official(tmp_path / "x.jsonl", ANSWERS)
    words = [word for spec in judges for word in ("--judge", spec)]
    out = tmp_path / "r"
    return done(turnmark, "score", benchmark, "--data", root, "--predictions", file, *words, "--out", out), out


def test_bertscore_is_conditioned_by_whichever_judge_says_idk(
    benchmark_root: Path, turnmark: Turnmark, tmp_path: Path, tiny_bert: Path, check_run: Check
) -> None:
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
    (judgement,) = (row for row in judged if row["measure"] == RECALL and row["id"] == "c1<::>1")
    reference = mtrag.load_tasks(benchmark_root, "mtrag").data["c1<::>1"].reference
    assert judgement["value"] == pytest.approx(bert_recall(bert, ANSWERS["c1<::>1"], reference), abs=1e-6)


def test_what_bertscore_said_is_kept(
    benchmark_root: Path, turnmark: Turnmark, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = scored(turnmark, benchmark_root, tmp_path, f"bertscore:{tiny_bert}")
    monkeypatch.setattr("turnmark.evaluation.judging.bertscore._open_scorer", None)
    again, _ = scored(turnmark, benchmark_root, tmp_path, f"bertscore:{tiny_bert}")
    assert again.metrics[RB_ALG] == first.metrics[RB_ALG]
    assert first.metrics[RB_ALG].n == 4
    assert "judge" not in first.usage, "nothing was called"
    assert not any("nothing says which model" in note for note in first.notes), "nobody's model judges"
    assert not {f"{RB_ALG}.idk", "answerability_accuracy"} & first.metrics.keys(), "nobody says what is an I-don't-know"


def test_mtrag_s_is_judged_against_its_targets(benchmark_root: Path, turnmark: Turnmark, tmp_path: Path) -> None:
    tasks = benchmark_root / "mtrag-synthetic/generation_tasks/synthetic.jsonl"
    tasks.parent.mkdir(parents=True)
    tasks.write_bytes((benchmark_root / "mtrag-human/generation_tasks/reference.jsonl").read_bytes())
    with ScriptedServer(judge()) as server:
        judges = (spec_of(server, options=FEW), "embedded")
        summary, out = scored(turnmark, benchmark_root, tmp_path, *judges, benchmark="mtrag-s")
    assert values(out, "rb_llm") == dict.fromkeys(ANSWERS, 0.7)
    assert {"completeness[embedded]", "rb_llm.idk", "rouge_l.word"} <= summary.metrics.keys()


def test_which_judge_a_metric_is_for() -> None:
    assert can_grade("rb_llm", "openai:x")
    assert can_grade("idk[embedded]", "embedded")
    assert can_grade("rb_alg[x]", "bertscore:x")
    assert can_grade("rb_alg", "bertscore")
    wrong = [("rb_llm", "embedded"), ("rb_alg", "openai:x"), ("rb_alg[x]", "embedded"), ("idk[embedded]", "openai:x"),
             ("rb_llm", "bertscore"), ("idk[embedded]", "bertscore:embedded")]  # fmt: skip
    assert not any(can_grade(metric, spec) for metric, spec in wrong)


def test_what_is_wrong_with_bertscore_is_told_at_once(turnmark: Turnmark) -> None:
    ran = turnmark("eval", "mtrag", "--judge", "bertscore:/no/such", "--judge", "bertscore:minilm@http://x.example")
    assert ran.code == 2
    printed = re.sub(r"\s+", " ", ran.err)
    assert "--judge bertscore:/no/such: BERTScore: '/no/such' is neither a folder" in printed
    assert "write bertscore, bertscore:minilm, bertscore:FOLDER" in printed
    ran = turnmark("eval", "inscoqa", "--judge", "bertscore:minilm")
    assert "--judge bertscore:minilm: inscoqa has no metrics that it measures" in re.sub(r"\s+", " ", ran.err)


# --- conditioned on idk[embedded] ------------------------------------------------------------------------------------


def test_every_conditioned_metric_for_both_verdicts(
    benchmark_root: Path, turnmark: Turnmark, tmp_path: Path, check_run: Check
) -> None:
    with ScriptedServer(judge()) as server:
        summary, out = scored(turnmark, benchmark_root, tmp_path, spec_of(server, options=FEW), "embedded")
    check_run(out)
    conditioned = {name for name in summary.metrics if ".idk" in name}
    metrics = ("rb_llm", "rl_f", "rl_f[embedded]")
    assert conditioned == {f"{metric}{mark}" for metric in metrics for mark in (".idk", ".idk[embedded]")}
    # The same verdicts, and where they decide the same values.
    assert values(out, "rb_llm.idk") == values(out, "rb_llm.idk[embedded]")
    instruments = {row["metric"]: row["by"] for row in lines(out / "scores.jsonl")}
    assert instruments["rb_llm.idk[embedded]"].endswith("; IDK by embedded")
    assert instruments["rl_f[embedded].idk"].startswith("embedded; IDK by openai:tiny@")


def test_failed_and_underspecified_samples_have_their_lines(
    turnmark: Turnmark, tmp_path: Path, check_run: Check
) -> None:
    turns = [(*row[:5], "UNDERSPECIFIED", *row[6:]) if row[0] == "c2" else row for row in TURNS]
    root = write_benchmark(tmp_path / "mt-rag-benchmark", turns)
    file = official(tmp_path / "x.jsonl", {name: text for name, text in ANSWERS.items() if name != "c1<::>1"})
    words = ["score", "mtrag-un", "--data", root, "--predictions", file, "--judge", "embedded", "--out", tmp_path / "r"]
    summary = done(turnmark, *words)
    check_run(tmp_path / "r")
    for metric in ("rl_f[embedded].idk[embedded]", "answerability_accuracy[embedded]"):
        status = {row["id"]: row["status"] for row in lines(tmp_path / "r/scores.jsonl") if row["metric"] == metric}
        assert status == {
            "c1<::>1": "failed", "c1<::>2": "scored", "c1<::>3": "not_applicable", "c2<::>1": "not_applicable",
            "c2<::>2": "not_applicable",
        }, metric  # fmt: skip
        assert (summary.metrics[metric].n, summary.metrics[metric].failed) == (1, 1)


def test_what_is_conditioned_is_not_conditioned_again() -> None:
    assert is_conditioned("rb_alg[my.idk-model]")
    assert not any(is_conditioned(f"rl_f{mark_of(verdict)}") for verdict in VERDICTS)
    assert not any(map(is_conditioned, ("idk", "completeness[embedded]", "rl_f[embedded].idk", "rl_fx")))
