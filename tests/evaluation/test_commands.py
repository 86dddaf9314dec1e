"""`turnmark eval` and `turnmark score` as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.evaluation import writer
from tests.evaluation.conftest import write_benchmark
from tests.evaluation.reported import golden
from turnmark.retrieval.search.retriever_kinds import RETRIEVERS


def score(turnmark, real_data, *more):
    run = real_data / "runs/elser_clapnq_rewrite.trec"
    data = real_data / "mt-rag-benchmark"
    return turnmark("score", "mtrag", "--task", "retrieval", "--data", data, "--predictions", run, *more)


def test_score_prints_one_json_object_and_writes_the_run(turnmark, real_data, check_run):
    ran = score(turnmark, real_data, "--json")
    assert (ran.code, ran.err) == (0, "")
    summary = json.loads(ran.out)
    assert round(summary["metrics"]["ndcg@5"]["mean"], 4) == 0.5135
    assert round(summary["metrics"]["recall@5"]["mean"], 4) == 0.5516
    run = Path(summary.pop("run"))
    assert run.parent == Path("runs")
    assert run.name.startswith("mtrag-")
    check_run(run)
    assert json.loads((run / "summary.json").read_text()) == summary
    again = json.loads(score(turnmark, real_data, "--json").out)
    assert again["run"] == str(run)
    assert again["metrics"] == summary["metrics"]


NO_FOLDER = "'nowhere' is no folder; git clone https://github.com/IBM/mt-rag-benchmark and point --data at the clone"
NO_BENCHMARK = "no benchmark is called 'trec'; there are: mtrag, mtrag-un, mtrag-s, inscoqa, compound-qa, kiwi, all"


@pytest.mark.parametrize(("words", "messages"), [
    (["eval", "kiwi", "--task", "judge", "--setting", "few-shot", "--chain"], [
        "--chain is for the task revise; judge looks at recorded answers",
        "--setting few-shot: examples are shown to a language model; name one with --judge (the embedded judge learns "
        "nothing from them)",
    ]),
    (["eval", "trec", "--domains", ","], [NO_BENCHMARK, "--domains: is empty; write names, separated by commas"]),
    (["eval", "all", "--task", "revise", "--limit", "0", "--suite", "tiny", "--protocol", "odd", "--seed", "x"], [
        "--task: `all` runs the default task of each benchmark; leave it out",
        "--limit 0: expected at least 1", "--suite tiny: expected 'smoke' or 'full'",
        "--protocol odd: expected 'turn' or 'paper'",
        "--seed x: expected a whole number",
    ]),
    (["eval", "mtrag", "--task", "retrieval", "--setting", "rag", "--repeat", "3", "--budget", "5"], [
        "--setting belongs to generation; leave it out", "--repeat belongs to generation; leave it out",
        "--budget is for the calls of a model: generation, --query assistant or minimal; leave it out",
    ]),
    (["eval", "all", "--only", "0/1", "--setting", "rag", "--counterfactual", "--limit", "0"], [
        "--only depends on the benchmark, and `all` runs several; name one benchmark",
        "--setting depends on the benchmark, and `all` runs several; name one benchmark",
        "--counterfactual is for mtrag, mtrag-un, mtrag-s; `all` runs them with the default",
        "--limit 0: expected at least 1",
    ]),
    (["eval", "mtrag", "--setting", "odd", "--data", "nowhere", "--limit", "0", "--retriever", "magic"], [
        "--setting: no setting of mtrag is called 'odd'; there are: reference, reference+rag, rag, live",
        "--limit 0: expected at least 1",
        f"no retriever is called 'magic'; there are: {', '.join(sorted(RETRIEVERS.entries()))}",
        f"--data: {NO_FOLDER}",
    ]),
    (["eval", "compound-qa", "--setting", "rag", "--passages", "x", "--domains", "nope", "--budget", "much"], [
        "--setting: no setting of compound-qa is called 'rag'; there are: decompose, vanilla, cot, few-shot, "
        "dialogue, positions",
        "--budget 'much' is not a budget above 0; write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)",
        "--passages: compound-qa does not use it; it is for mtrag, mtrag-un, mtrag-s",
        "--domains: no domain 'nope' in the data; there are: Understanding, Reasoning, Knowledge",
    ]),
    (["eval", "kiwi", "--suite", "smoke"], ["--suite is for `all`; leave it out for kiwi"]),
    (["eval", "mtrag", "--only", "nobody"], ["--only 'nobody': no item of the data has this id"]),
    (["score", "all", "--predictions", "x"], ["score: name one benchmark; `all` is for eval"]),
    (["score", "mtrag", "--task", "retrieval", "--setting", "rag", "--predictions", "x.trec"], [
        "--setting belongs to generation; leave it out",
        "--predictions 'x.trec' cannot be read: No such file or directory",
    ]),
    (["score", "kiwi", "--predictions", "none.jsonl", "--seed", "-1", "--task", "odd"], [
        "--task: no task of kiwi is called 'odd'; there are: revise, judge, analyse",
        "--seed -1: expected at least 0",
        "--predictions 'none.jsonl' cannot be read: No such file or directory",
    ]),
])  # fmt: skip
def test_wrong_request_exits_with_2_and_reports_every_mistake(turnmark, words, messages):
    ran = turnmark(*words)
    assert (ran.code, ran.out) == (2, "")
    assert sorted(ran.err.splitlines()) == sorted(f"turnmark: {line}" for line in messages)
    assert not Path("runs").exists()


EVIL = "[bold]x[red]\x1b[31m\x1b]0;title\x07\u202e\rforged"
INERT = "[bold]x[red]forged"


def test_hostile_names_are_escaped(turnmark, tmp_path):
    data = write_benchmark(tmp_path / EVIL / f"m{EVIL}", [
        ("c1", 1, "clapnq", "who made it", "who made it", "ANSWERABLE", [EVIL], EVIL, ["p1"]),
    ])  # fmt: skip
    predictions, run = tmp_path / f"{EVIL}.trec", tmp_path / f"run{EVIL}"
    predictions.write_text("c1<::>1 Q0 p1 1 0.5 t\n")
    words: list[str | Path] = ["mtrag", "--task", "retrieval", "--data", data]
    scored = turnmark.ok("score", *words, "--predictions", predictions, "--out", run)
    reported = turnmark("report", run)
    for expected in (f"on m{INERT}", f"predictions {INERT}.trec", f"  {INERT}"):
        assert expected in reported.out
    dry = turnmark.ok(
        "eval", *words, "--domains", "clapnq", "--retriever", "bm25", "--out", tmp_path / EVIL / "y", "--dry-run"
    )
    assert f"{INERT}/y" in dry.out
    wrong = turnmark("eval", *words, "--domains", EVIL, "--only", EVIL, "--retriever", f"bm25?{EVIL}=1")
    mixed = turnmark("score", *words, "--predictions", predictions, "--out", run, "--seed", "7")
    assert (wrong.code, mixed.code) == (2, 2)
    for ran in (scored, reported, dry, wrong, mixed):
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(ran.out + ran.err)
    printed = turnmark("score", *words, "--predictions", predictions, "--out", run, "--json")
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(printed.out)
    assert json.loads(printed.out)["data"]["name"] == f"m{EVIL}"


@pytest.mark.parametrize("query", ["questions", "conversation"])
def test_the_demo_is_searched_with_its_queries(turnmark, searching, query, check_run):
    words = f"eval mtrag --task retrieval --retriever bm25 --query {query}".split()
    summary = turnmark.json(*words)
    assert (summary["data"]["demo"], summary["failed"]) == (True, 0)
    assert summary["metrics"]["recall@10"]["mean"] > 0.3
    assert len(searching.asked) == summary["n"]
    assert {row["comparable"] for row in summary["published"]} == {False}
    check_run(Path(summary["run"]))


def test_eval_prints_one_json_object_and_fails_after_too_many_failures(turnmark, benchmark_root, check_run):
    words: list[str | Path] = ["eval", "mtrag", "--data", benchmark_root, "--generator", writer.SPEC]
    summary = turnmark.json(*words)
    run = Path(summary.pop("run"))
    assert (summary["n"], summary["failed"]) == (9, 1)
    assert summary["usage"]["answer"]["calls"] == 7
    assert json.loads((run / "summary.json").read_text()) == summary
    check_run(run)
    ran = turnmark(*words, "--max-failures", "0", "--out", "other")
    assert ran.code == 1
    assert "1 samples failed; the same command retries them" in ran.err
    check_run(Path("other"))
    message = turnmark.refused(*words, "--out", "other", "--seed", "3")
    assert "seed: 0 there, 3 here" in message


def test_dry_run_writes_nothing_and_calls_no_model(turnmark, benchmark_root):
    words: list[str | Path] = ["eval", "mtrag", "--data", benchmark_root, "--generator", writer.SPEC, "--dry-run"]
    described = turnmark.json(*words, "--repeat", "2")
    assert (described["n"], described["setting"], described["domains"]) == (18, "reference", ["clapnq", "fiqa"])
    # The courtesy goes to no model.
    assert {role: used["calls"] for role, used in described["estimated"].items()} == {"answer": 16}
    searched = turnmark.json(*words, "--setting", "rag")
    assert {role: used["calls"] for role, used in searched["estimated"].items()} == {"understand": 8, "answer": 8}
    screen = turnmark(*words).out
    assert "would answer 9 samples of mtrag reference (clapnq, fiqa)" in screen
    assert re.search(r"answer: 8 calls, about [\d,]+ tokens in, 1,600 out", screen)
    assert writer.WRITERS[0].prompts == []
    assert not Path("runs").exists()


@pytest.mark.data
@pytest.mark.parametrize(("retriever", "clapnq", "fiqa"), [("bm25", 0.224, 0.100), ("dense", 0.349, 0.242)])
def test_built_in_retrievers_search_the_pooled_corpora(
    turnmark, real_data, kept_home, tmp_path, monkeypatch, retriever, clapnq, fiqa
):
    monkeypatch.setenv("TURNMARK_HOME", str(kept_home))
    words = f"eval mtrag --task retrieval --query last-turn --retriever {retriever}".split()
    ran = turnmark.json(*words, "--data", real_data, "--out", tmp_path / "run")
    domains = ran["breakdowns"]["domain"]
    assert domains["clapnq"]["ndcg@5"]["mean"] == pytest.approx(clapnq, abs=0.02)
    assert domains["fiqa"]["ndcg@5"]["mean"] == pytest.approx(fiqa, abs=0.02)


def test_finished_demo_run_is_shown_without_running_again(turnmark, monkeypatch, check_run):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["eval", "mtrag", "--setting", "rag", "--domains", "almanac", "--retriever", "bm25", "--limit", "12"]
    printed = turnmark.ok(*words).out
    text = re.sub(r"(?<=[a-z_] )\d+\.\d+(?=,|$)", "_._", printed, flags=re.MULTILINE)
    text = re.sub("mtrag-[0-9a-f]{12}", "mtrag-____________", text)
    golden("demo_rag.txt", "\n".join(line.rstrip() for line in text.split("\n")))
    [folder] = Path("runs").iterdir()
    check_run(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["n"], summary["failed"]) == (12, 0)
    before = (folder / "predictions.jsonl").read_bytes()
    again = turnmark.ok(*words, "--json")
    assert Path(json.loads(again.out)["run"]) == folder
    assert json.loads(again.out)["metrics"] == summary["metrics"]
    assert (folder / "predictions.jsonl").read_bytes() == before
    assert "answering" not in again.err
