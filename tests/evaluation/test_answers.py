"""`turnmark score` of written answers: files of other systems, and runs of ours once more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.judged_runs import official, values
from tests.evaluation.mtrag_runs import ran, samples_of
from tests.evaluation.requests import request_of
from turnmark.core.errors import RequestError
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.planning import plan_run


def planned(root, out, *files, **fields):
    request: dict[str, Any] = {"benchmark": "mtrag", "predictions": files, "data": root, "out": out}
    return plan_run(request_of(**(request | fields)))


def scored(root, out, *files, **fields):
    return benchmark_run.run_plan(planned(root, out, *files, **fields))[0]


def test_official_file_scores_match_hand_computed_values(benchmark_root, tmp_path, check_run):
    file = official(tmp_path / "x.jsonl", {
        "c1<::>1": "The bell was made in London [1].", "c1<::>2": "I'm sorry, I don't know.", "c2<::>2": "Nobody.",
        "nobody<::>1": "Hm.",
    })  # fmt: skip
    summary = scored(benchmark_root, tmp_path / "r", file)
    check_run(tmp_path / "r")
    assert (summary.setting, summary.n, summary.failed) == ("reference", 5, 2), "the other domain is left out"
    rows = samples_of(tmp_path / "r")
    assert {name: sample.status for name, sample in rows.items()} == {
        "c1<::>1": "done", "c1<::>2": "done", "c1<::>3": "failed", "c2<::>1": "failed", "c2<::>2": "done",
    }  # fmt: skip
    assert (rows["c2<::>1"].kind, rows["c2<::>1"].reason) == (
        "missing", "missing: the predictions do not contain an answer to it",
    )  # fmt: skip
    assert {sample.domain for sample in rows.values()} == {"clapnq"}
    assert "1 ids of the predictions are not in mtrag reference (clapnq) and are left out" in summary.notes
    # "the bell was made in london" against "a founder in london made the bell": marks do not count, as in a run. The
    # passages are the references.
    assert values(tmp_path / "r", "rouge_l.word")["c1<::>1"] == pytest.approx(2 * 2 / (6 + 7))
    assert values(tmp_path / "r", "k_precision")["c1<::>1"] == 1.0
    assert values(tmp_path / "r", "k_precision")["c2<::>2"] is None
    assert summary.metrics["idk_rate"].mean == pytest.approx(1 / 3), "by the detector, as no decision is recorded"
    everywhere = scored(benchmark_root, tmp_path / "all", file, domains=("fiqa", "clapnq"))
    assert (everywhere.n, everywhere.failed) == (9, 6)
    with pytest.raises(RequestError, match="none of the 4 ids"):
        planned(benchmark_root, tmp_path / "x", file, domains=("fiqa",))


def test_same_replies_score_alike_as_a_run_and_as_a_file(benchmark_root, tmp_path):
    made = ran(benchmark_root, tmp_path / "run")
    texts = {name: sample.prediction for name, sample in samples_of(made.folder).items() if sample.prediction}
    assert any("[1]" in text for text in texts.values())
    scored(benchmark_root, tmp_path / "file", official(tmp_path / "x.jsonl", texts))
    for metric in ("rouge_l.word", "token_recall", "k_precision", "answer_words"):
        of_run = values(made.folder, metric)
        of_file = values(tmp_path / "file", metric)
        assert {name: of_file[name] for name in texts} == {name: of_run[name] for name in texts}


def test_judges_see_the_passages_named_in_the_file(benchmark_root, tmp_path):
    file = official(tmp_path / "x.jsonl", {
        "c1<::>1": ("made of bronze", {"own": "It is of bronze."}),
        "c1<::>2": ("the tower", {"p4": None}),  # looked up in the corpus
        "c2<::>1": ("96 metres", {"p4": None, "gone": None}),  # not all is known
        "c2<::>2": ("no one", None),
    })  # fmt: skip
    scored(benchmark_root, tmp_path / "r", file, setting="rag")
    precision = values(tmp_path / "r", "k_precision")
    assert precision["c1<::>1"] == pytest.approx(2 / 3)
    assert precision["c1<::>2"] == 1.0
    assert (precision["c2<::>1"], precision["c2<::>2"]) == (None, None)


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("fields", [
    {}, {"setting": "reference+rag"}, {"setting": "rag"}, {"setting": "rag", "counterfactual": True},
    {"setting": "rag", "domains": ("fiqa",), "repeat": 2}, {"benchmark": "mtrag-un"}, {"limit": 3}, {"sample": 5},
    {"only": ("c1<::>2", "c4<::>1")}, {"setting": "rag", "counterfactual": True, "limit": 4},
])  # fmt: skip
def test_rescoring_a_run_gives_the_same_figures(benchmark_root, tmp_path, check_run, fields):
    first = ran(benchmark_root, tmp_path / "first", **fields).summary
    benchmark = fields.get("benchmark", "mtrag")
    again = scored(benchmark_root, tmp_path / "again", tmp_path / "first", benchmark=benchmark)
    check_run(tmp_path / "again")
    assert again.setting == first.setting, "the run says which it was"
    assert (again.metrics, again.breakdowns) == (first.metrics, first.breakdowns)
    assert (again.n, again.failed, again.usage) == (first.n, first.failed, first.usage)
    manifest = RunManifest.model_validate_json((tmp_path / "again/manifest.json").read_bytes())
    assert manifest.counterfactual == bool(fields.get("counterfactual"))


def test_run_over_a_part_of_the_data_is_scored_over_that_part(benchmark_root, tmp_path):
    """184 of 224 tasks failed as missing after `--limit 40`. What the run did not come to is missing still."""
    first = ran(benchmark_root, tmp_path / "first", limit=3)
    again = scored(benchmark_root, tmp_path / "again", tmp_path / "first")
    assert (again.n, again.failed) == (3, 0)
    assert "made with --limit 3: only the 3 tasks of that part are scored" in again.notes
    manifest = RunManifest.model_validate_json((tmp_path / "again/manifest.json").read_bytes())
    assert manifest.limit == 3
    assert again.selection == first.summary.selection == "the first 3 of 9"
    lines = (tmp_path / "first/predictions.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "first/predictions.jsonl").write_text("".join(lines[:2]))
    killed = scored(benchmark_root, tmp_path / "killed", tmp_path / "first")
    assert (killed.n, killed.failed) == (3, 1)
    (tmp_path / "theirs.jsonl").write_text("".join(lines))
    theirs = scored(benchmark_root, tmp_path / "theirs", tmp_path / "theirs.jsonl")
    assert (theirs.n, theirs.failed) == (5, 2), "nothing says that it took a part"


def test_search_over_a_part_of_the_queries_is_scored_over_that_part(benchmark_root, turnmark, tmp_path):
    words = ["--task", "retrieval", "--data", benchmark_root]
    turnmark.ok("eval", "mtrag", *words, "--retriever", "bm25", "--limit", "2", "--out", tmp_path / "first")
    again = turnmark.json(
        "score", "mtrag", *words, "--predictions", tmp_path / "first/run.trec", "--out", tmp_path / "r"
    )
    first = json.loads((tmp_path / "first/summary.json").read_text())
    assert (again["n"], again["metrics"]) == (2, first["metrics"])
    assert again["selection"] == first["selection"] != ""
    assert not any("count as 0" in note for note in again["notes"])


def test_refuses_missing_repeats(benchmark_root, tmp_path):
    path = tmp_path / "ours.jsonl"
    path.write_text(json.dumps({"id": "c1::1", "prediction": "A bell.", "repeat": 20_000}) + "\n")
    with pytest.raises(RequestError, match="repeat 20000 is in the files, but not all of 0 to 19999"):
        planned(benchmark_root, tmp_path / "r", path)


def test_reports_that_a_run_was_made_over_other_data_or_some_domains(benchmark_root, tmp_path):
    ran(benchmark_root, tmp_path / "first", domains=("clapnq",))
    notes = planned(benchmark_root, tmp_path / "same", tmp_path / "first").notes
    assert "the answers are of clapnq only; of fiqa nothing is scored" in notes
    assert not any("other data" in note for note in notes)
    for path in (benchmark_root / "mtrag-human").rglob("reference.jsonl"):
        path.write_text(path.read_text(encoding="utf-8").replace("bell", "gong"), encoding="utf-8")
    notes = planned(benchmark_root, tmp_path / "other", tmp_path / "first").notes
    assert any("was made over other data ('mt-rag-benchmark'" in note for note in notes)


@pytest.mark.usefixtures("searching")
def test_refuses_runs_of_several_settings(benchmark_root, tmp_path):
    runs = tmp_path / "a", tmp_path / "b"
    ran(benchmark_root, runs[0], domains=("clapnq",))
    ran(benchmark_root, runs[1], domains=("fiqa",), setting="rag")
    with pytest.raises(RequestError, match="runs of several settings: reference "):
        planned(benchmark_root, tmp_path / "x", *runs)
    assert planned(benchmark_root, tmp_path / "x", *runs, setting="rag").manifest.domains == ("clapnq", "fiqa")


CLONE = "mt-rag-benchmark"


@pytest.mark.parametrize(("model", "rouge", "recall"), [
    ("gpt-4o", 0.290, 0.428), ("llama-3.1-405b-instruct", 0.301, 0.445),
])  # fmt: skip
def test_scores_the_answers_of_the_human_evaluation(turnmark, real_data, tmp_path, model, rouge, recall):
    evaluation = real_data / CLONE / "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
    rows = [row for row in json.loads(evaluation.read_text("utf-8"))["evaluations"] if row["model_id"] == model]
    file = official(tmp_path / "x.jsonl", {row["task_id"]: row["model_response"] for row in rows})
    summary = turnmark.json("score", "mtrag", "--data", real_data, "--predictions", file, "--out", "r")
    assert (summary["n"], summary["n"] - summary["failed"]) == (423, 79), "the others are missing, and in no mean"
    answerable = summary["breakdowns"]["answerability"]["ANSWERABLE"]
    for name, expected in (("rouge_l.word", rouge), ("token_recall", recall)):
        assert (answerable[name]["n"], round(answerable[name]["mean"], 3)) == (64, expected)
    stored = {row["task_id"]: row["annotations"]["RougeL"]["system"]["value"] for row in rows}
    ours = {name: value for name, value in values(Path("r"), "rouge_l.word").items() if value is not None}
    assert ours == pytest.approx(stored, abs=1e-9)


def test_scores_a_recorded_system_of_mtrag_un(turnmark, real_data, check_run):
    file = real_data / "mtragun-predictions/llama-3.3-70b.jsonl"
    words = ("score", "mtrag-un", "--data", real_data / CLONE, "--predictions", file, "--out", "r")
    summary = turnmark.json(*words)
    assert (summary["n"], summary["failed"]) == (219, 0)
    assert summary["metrics"]["rouge_l.word"]["n"] == 219
    assert summary["metrics"]["clarify.f1"]["n"] == 0, "nobody recorded a decision"
    assert not summary["breakdowns"].keys() & {"counterfactual"}
    check_run(Path("r"))
