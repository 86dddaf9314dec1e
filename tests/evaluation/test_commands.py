"""`turnwise eval` and `turnwise score` as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Turnwise
from tests.evaluation.conftest import Opener, write_benchmark


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


def score(turnwise: Turnwise, real_data: Path, *more: str) -> Any:
    run = real_data / "runs/elser_clapnq_rewrite.trec"
    data = real_data / "mt-rag-benchmark"
    return turnwise("score", "mtrag", "--task", "retrieval", "--data", data, "--predictions", run, *more)


def test_score_prints_one_json_object_and_writes_the_run(
    turnwise: Turnwise, real_data: Path, check_run: Callable[[Path], None]
) -> None:
    ran = score(turnwise, real_data, "--json")
    assert (ran.code, ran.err) == (0, "")
    summary = json.loads(ran.out)
    assert round(summary["metrics"]["ndcg@5"]["mean"], 4) == 0.5135
    assert round(summary["metrics"]["recall@5"]["mean"], 4) == 0.5516
    run = Path(summary.pop("run"))
    assert run.parent == Path("runs")
    assert run.name.startswith("mtrag-")
    check_run(run)
    assert json.loads((run / "summary.json").read_text()) == summary
    again = json.loads(score(turnwise, real_data, "--json").out)
    assert again["run"] == str(run)
    assert again["metrics"] == summary["metrics"]


def test_score_draws_the_table(turnwise: Turnwise, real_data: Path) -> None:
    ran = score(turnwise, real_data)
    assert ran.code == 0
    first = "mtrag retrieval on mt-rag-benchmark: 208 queries"
    for words in (first, "0.5135", "Beside published figures", "run: runs/mtrag-"):
        assert words in ran.out


def test_several_runs_are_scored_together(turnwise: Turnwise, real_data: Path) -> None:
    ran = score(turnwise, real_data, "--json", "--predictions", str(real_data / "runs/elser_fiqa_rewrite.trec"))
    summary = json.loads(ran.out)
    assert {name: part["ndcg@5"]["n"] for name, part in summary["breakdowns"]["domain"].items()} == {
        "clapnq": 208, "fiqa": 180,
    }  # fmt: skip


@pytest.mark.parametrize(("words", "said"), [
    (["eval", "mtrag"], "--task generation (the default of mtrag) is not there yet; only --task retrieval is"),
    (["eval", "mtrag", "--task", "generation"], "--task generation is not there yet"),
    (["eval", "mtrag", "--task", "cooking"], "mtrag has no task 'cooking'; it has: generation, retrieval"),
    (["eval", "kiwi"], "kiwi cannot be evaluated yet; what works now: mtrag and mtrag-un with --task retrieval"),
    (["eval", "all"], "all cannot be evaluated yet"),
    (["eval", "trec"], "no benchmark is called 'trec'; there are: mtrag, mtrag-un"),
    (["eval", "mtrag", "--task", "retrieval", "--setting", "rag"], "--setting rag belongs to generation"),
    (["eval", "mtrag", "--task", "retrieval", "--setting", "odd"], "no setting is called 'odd'"),
    (["eval", "mtrag", "--task", "retrieval", "--domains", ","], "--domains is empty"),
    (["eval", "mtrag", "--task", "retrieval", "--data", "nowhere"], "--data: 'nowhere' is no folder"),
    (["score", "mtrag", "--predictions", "x.trec"], "is not there yet; only --task retrieval is"),
    (["score", "mtrag", "--task", "retrieval", "--predictions", "x.trec"], "--predictions 'x.trec' cannot be read"),
])  # fmt: skip
def test_a_wrong_request_exits_with_2_and_says_what_to_do(turnwise: Turnwise, words: list[str], said: str) -> None:
    ran = turnwise(*words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    assert not Path("runs").exists()


def test_mistakes_of_flags_and_of_data_come_together(turnwise: Turnwise) -> None:
    ran = turnwise("eval", "mtrag", "--data", "nowhere", "--limit", "0", "--setting", "odd", "--retriever", "magic")
    assert ran.code == 2
    for words in ("--task generation", "'odd'", "--limit 0", "'magic'", "'nowhere'"):
        assert words in ran.err


@pytest.mark.parametrize("words", [["eval", "kiwi"], ["eval", "nothing"], ["eval", "mtrag", "--task", "retrieval"]])
def test_flags_are_checked_whatever_the_benchmark(turnwise: Turnwise, words: list[str]) -> None:
    flags = ["--retriever", "nope", "--embedder", "nope2", "--limit", "0", "--seed", "-1", "--setting", "odd"]
    ran = turnwise(*words, *flags)
    assert ran.code == 2
    for said in ("retriever is called 'nope'", "embedder is called 'nope2'", "--limit 0", "--seed -1", "'odd'"):
        assert ran.err.count(said) == 1


def test_flags_of_score_are_checked_whatever_the_benchmark(turnwise: Turnwise) -> None:
    ran = turnwise("score", "kiwi", "--predictions", "none.jsonl", "--seed", "-1", "--task", "odd")
    for said in ("kiwi cannot", "'none.jsonl' cannot be read", "--seed -1", "kiwi has no task 'odd'"):
        assert ran.err.count(said) == 1


EVIL = "[bold]x[red]\x1b[31m\x1b]0;title\x07\u202e\rforged"
INERT = "[bold]x[red]forged"


def test_hostile_names_are_printed_inert(turnwise: Turnwise, tmp_path: Path) -> None:
    data = write_benchmark(tmp_path / EVIL / f"m{EVIL}", [
        ("c1", 1, "clapnq", "who made it", "who made it", "ANSWERABLE", [EVIL], EVIL, ["p1"]),
    ])  # fmt: skip
    predictions, run = tmp_path / f"{EVIL}.trec", tmp_path / f"run{EVIL}"
    predictions.write_text("c1<::>1 Q0 p1 1 0.5 t\n")
    words: list[str | Path] = ["mtrag", "--task", "retrieval", "--data", data]
    scored = turnwise("score", *words, "--predictions", predictions, "--out", run)
    assert scored.code == 0, scored.err
    for expected in (f"on m{INERT}", f"predictions {INERT}.trec", f"  {INERT}"):
        assert expected in scored.out
    dry = turnwise("eval", *words, "--domains", "clapnq", "--retriever", "bm25", "--out", tmp_path / EVIL / "y",
                   "--dry-run")  # fmt: skip
    assert dry.code == 0, dry.err
    assert f"{INERT}/y" in dry.out
    wrong = turnwise("eval", *words, "--domains", EVIL, "--only", EVIL, "--retriever", f"bm25?{EVIL}=1")
    mixed = turnwise("score", *words, "--predictions", predictions, "--out", run, "--seed", "7")
    assert (wrong.code, mixed.code) == (2, 2)
    for ran in (scored, dry, wrong, mixed):
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(ran.out + ran.err)
    printed = turnwise("score", *words, "--predictions", predictions, "--out", run, "--json")
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(printed.out)
    assert json.loads(printed.out)["data"]["name"] == f"m{EVIL}"


@pytest.mark.parametrize("query", ["last-turn", "rewrite", "questions", "conversation", "last-2", "assistant"])
def test_the_demo_is_searched_in_every_mode(
    turnwise: Turnwise, monkeypatch: pytest.MonkeyPatch, query: str, check_run: Callable[[Path], None]
) -> None:
    from evaluation.benchmarks import mtrag_retrieval

    opener = Opener()
    monkeypatch.setattr(mtrag_retrieval, "open_corpus", opener)
    ran = turnwise("eval", "mtrag", "--task", "retrieval", "--retriever", "bm25", "--query", query, "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert summary["data"]["demo"]
    assert summary["notes"][0].startswith("demo data")
    assert summary["failed"] == 0
    assert summary["metrics"]["recall@10"]["mean"] > 0.3
    assert summary["published"]
    assert not any(row["comparable"] for row in summary["published"])
    assert len(opener.asked) == summary["n"]
    check_run(Path(summary["run"]))


def test_a_dry_run_says_what_would_be_done(turnwise: Turnwise) -> None:
    words = ["eval", "mtrag", "--task", "retrieval", "--retriever", "bm25", "--limit", "3", "--dry-run"]
    ran = turnwise(*words)
    assert ran.code == 0
    assert "would search for 3 queries of mtrag" in ran.out
    described = json.loads(turnwise(*words, "--json").out)
    assert (described["n"], described["dry_run"]) == (3, True)
    assert not Path("runs").exists()


@pytest.mark.data
@pytest.mark.parametrize(("retriever", "clapnq", "fiqa"), [("bm25", 0.224, 0.100), ("dense", 0.349, 0.242)])
def test_our_retrievers_on_the_pooled_corpora(
    turnwise: Turnwise,
    real_data: Path,
    kept_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    retriever: str,
    clapnq: float,
    fiqa: float,
) -> None:
    monkeypatch.setenv("TURNWISE_HOME", str(kept_home))
    ran = turnwise("eval", "mtrag", "--task", "retrieval", "--data", real_data, "--retriever", retriever,
                   "--query", "last-turn", "--out", tmp_path / "run", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    domains = json.loads(ran.out)["breakdowns"]["domain"]
    assert domains["clapnq"]["ndcg@5"]["mean"] == pytest.approx(clapnq, abs=0.02)
    assert domains["fiqa"]["ndcg@5"]["mean"] == pytest.approx(fiqa, abs=0.02)
