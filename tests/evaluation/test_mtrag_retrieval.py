"""MTRAG retrieval end to end: every query mode, run folders, resuming, scoring TREC runs, the printed baselines."""

from __future__ import annotations

import json
import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import Opener, WordCount, searched
from tests.evaluation.mtrag_runs import samples_of
from tests.evaluation.requests import request_of
from tests.servers import Hang, Say, ScriptedServer, Status
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.evaluation.records import RunManifest, Sample, Score, Summary
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.planning import plan_run
from turnmark.retrieval.types import Query


def planned(root, out, **changes):
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "data": root, "retriever": "bm25", "query": "last-turn", "out": out,
    }  # fmt: skip
    return plan_run(request_of(**(fields | changes)))


def lines(path, kind):
    return [kind.model_validate_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_a_run_and_its_files(benchmark_root, tmp_path, opener, check_run):
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "r"), opener)
    check_run(run)
    assert Summary.model_validate_json((run / "summary.json").read_bytes()) == summary
    samples = lines(run / "predictions.jsonl", Sample)
    assert " ".join(sample.id for sample in samples) == "c1<::>1 c1<::>2 c2<::>1 c3<::>1 c3<::>2 c4<::>1 c4<::>2"
    assert samples[0].query == "who made the bell"
    assert [context.document_id for context in samples[0].contexts] == ["p6", "p1", "p2", "p4"]
    scores = {(s.id, s.metric): s for s in lines(run / "scores.jsonl", Score)}
    assert len(scores) == 7 * 15
    assert scores["c1<::>1", "recall@1"].value == 0.0
    assert scores["c1<::>1", "recall@3"].value == 1.0
    assert summary.metrics["recall@3"].n == 7
    assert summary.metrics["recall@3"].mean == pytest.approx(
        sum(s.value or 0.0 for (_, name), s in scores.items() if name == "recall@3") / 7
    )
    sizes = {d: {v: m["ndcg@5"].n for v, m in values.items()} for d, values in summary.breakdowns.items()}
    assert sizes == {
        "domain": {"clapnq": 3, "fiqa": 4}, "turn": {"first": 4, "later": 3},
        "answerability": {"ANSWERABLE": 5, "PARTIAL": 2},
        "question_type": {"Explanation": 3, "Factoid": 3, "Keyword": 1, "Opinion": 1},
        "multi_turn": {"Clarification": 1, "Follow-up": 2, "N/A": 4},
    }  # fmt: skip
    manifest = RunManifest.model_validate_json((run / "manifest.json").read_bytes())
    assert manifest.indexes == {"clapnq": "index of clapnq", "fiqa": "index of fiqa"}
    assert manifest.ended is not None
    assert "clapnq: pooled or partial corpus, 6 of 183,408 passages" in summary.notes[0]
    assert not summary.data.demo
    again = scored(benchmark_root, tmp_path, (run / "run.trec").read_text(), out=tmp_path / "again")
    assert again.metrics == summary.metrics
    assert again.breakdowns == summary.breakdowns


def test_the_same_command_resumes_and_gives_the_same_values(benchmark_root, tmp_path, opener, check_run):
    uninterrupted, _, _ = searched(planned(benchmark_root, tmp_path / "whole"), opener)

    class Dies(WordCount):
        corpus_path = ""

        def search(self, queries, top_k):
            if "fiqa" in self.corpus_path:
                raise KeyboardInterrupt
            return super().search(queries, top_k)

    def dying(corpus, retriever, embedder):
        mortal = Dies(corpus)
        mortal.corpus_path = str(corpus)
        return mortal, "x"

    with pytest.raises(KeyboardInterrupt):
        searched(planned(benchmark_root, tmp_path / "r"), dying)
    assert not (tmp_path / "r/summary.json").exists()
    resumed = Opener()
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "r"), resumed)
    check_run(run)
    assert [mortal.passages[0]["_id"] for mortal in resumed.opened] == ["f1"]
    assert (summary.metrics, summary.breakdowns) == (uninterrupted.metrics, uninterrupted.breakdowns)
    untouched = Opener()
    third, _, _ = searched(planned(benchmark_root, tmp_path / "r"), untouched)
    assert untouched.opened == []
    assert third.metrics == uninterrupted.metrics
    with pytest.raises(RequestError, match=r"specs\.query: 'last-turn' there, 'rewrite' here"):
        planned(benchmark_root, tmp_path / "r", query="rewrite")


def test_mtrag_un_has_its_last_turn_from_the_tasks(benchmark_root, tmp_path, opener):
    summary, _, _ = searched(planned(benchmark_root, tmp_path / "r", benchmark="mtrag-un"), opener)
    assert opener.asked[:2] == ["who made the bell", "when was it cast"]
    assert not any(row.comparable for row in summary.published)
    with pytest.raises(RequestError, match="has no recorded queries"):
        planned(benchmark_root, tmp_path / "x", benchmark="mtrag-un", query="rewrite")


def test_missing_query_fails_its_sample(benchmark_root, tmp_path, opener, check_run):
    path = benchmark_root / "mtrag-human/retrieval_tasks/fiqa/fiqa_rewrite.jsonl"
    queries = path.read_text().splitlines()
    path.write_text("\n".join(["{broken", *queries[1:]]) + "\n")
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "r", query="rewrite"), opener)
    check_run(run)
    assert (summary.n, summary.failed) == (7, 1)
    assert (summary.metrics["ndcg@5"].n, summary.metrics["ndcg@5"].failed) == (6, 1)
    assert any("fiqa_rewrite.jsonl:1: not JSON" in note for note in summary.notes)
    failed = [score for score in lines(run / "scores.jsonl", Score) if score.id == "c3<::>1"]
    assert {(s.status, s.value, s.reason) for s in failed} == {
        ("failed", None, "no query for it in the recorded rewrite queries")
    }


def test_own_queries_limit_and_only(benchmark_root, tmp_path, opener):
    own = tmp_path / "own.jsonl"
    own.write_text('{"_id": "c3<::>1", "text": "a bond"}\n{"_id": "nobody", "text": "x"}\n')
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "own", query=None, queries=own), opener)
    assert (summary.n, summary.failed) == (4, 3)
    assert summary.specs["query"] == "file"
    assert opener.asked == ["a bond"]
    assert {row.query for row in summary.published if "query" in row.differs} == {"last-turn", "rewrite"}
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "two", limit=2), Opener())
    assert [sample.id for sample in lines(run / "predictions.jsonl", Sample)] == ["c1<::>1", "c1<::>2"]
    only = Opener()
    summary, run, _ = searched(planned(benchmark_root, tmp_path / "one", only=("c4<::>2",)), only)
    assert summary.n == 1
    assert [retriever.passages[0]["_id"] for retriever in only.opened] == ["f1"]


@pytest.mark.parametrize("scored_ids", [
    [("p1", 1.0), ("p1", 0.5)], [("p1", float("nan"))], [("p1", float("inf"))],
])  # fmt: skip
def test_invalid_results_of_a_retriever_stop_the_run(benchmark_root, scored_ids):
    class Nonsense(WordCount):
        def search(self, queries, top_k):
            first = super().search([Query(text="the")], 1)[0][0]
            hits = [
                first.model_copy(update={"passage": first.passage.model_copy(update={"id": name}), "score": score})
                for name, score in scored_ids
            ]
            return [hits for _ in queries]

    with pytest.raises(TurnmarkError, match="returned a passage twice, or a score that is not finite"):
        searched(planned(benchmark_root, Path("r")), lambda corpus, *_: (Nonsense(corpus), "x"))


def test_scores_a_partial_clone_without_tasks(benchmark_root, tmp_path, opener):
    (benchmark_root / "mtrag-human/generation_tasks/reference.jsonl").unlink()
    summary, _, _ = searched(planned(benchmark_root, tmp_path / "r"), opener)
    assert list(summary.breakdowns) == ["domain"]
    assert "no breakdown but by domain" in summary.notes[0]
    with pytest.raises(RequestError, match="the tasks of mtrag: expected"):
        planned(benchmark_root, tmp_path / "x", query="conversation")


def scored(root, tmp_path, content, **changes):
    (tmp_path / "x.trec").write_text(content)
    fields: dict[str, Any] = {"benchmark": "mtrag", "task": "retrieval", "data": root,
                              "predictions": (tmp_path / "x.trec",)}  # fmt: skip
    return benchmark_run.run_plan(plan_run(request_of(**({"out": tmp_path / "r"} | fields | changes))))[0]


def test_scoring_takes_the_domains_that_the_file_answers(benchmark_root, tmp_path, check_run):
    content = "c1<::>1 Q0 p1 1 0.5 t\nnobody Q0 p1 1 0.5 t\n"
    summary = scored(benchmark_root, tmp_path, content)
    check_run(tmp_path / "r")
    assert (summary.n, summary.metrics["recall@1"].mean) == (3, pytest.approx(1 / 3))
    assert "2 of 3 queries have no entry in the run and count as 0" in summary.notes
    assert "1 queries of the run are not in mtrag (clapnq) and are left out" in summary.notes
    everywhere = scored(benchmark_root, tmp_path, content, domains=("clapnq", "fiqa"), out=tmp_path / "all")
    assert (everywhere.n, everywhere.metrics["recall@1"].mean) == (7, pytest.approx(1 / 7))
    assert all("documents" in row.differs and "query" in row.differs for row in summary.published)


# R@5 / nDCG@5 of "Baselines on the FULL corpora" in the data's README, and the files that are those systems.
BASELINES = [
    ("bm25_clapnq_rewrite", ".270", ".245"), ("bge_fiqa_rewrite", ".308", ".294"),
    ("splade_fiqa_lastturn", ".323", ".292"), ("elser_clapnq_rewrite", ".552", ".514"),
]  # fmt: skip


def test_further_cutoffs_count_passages_after_rank_10(benchmark_root, tmp_path):
    content = "".join(f"c1<::>1 Q0 {name} 0 {20 - rank} t\n" for rank, name in enumerate([*"abcdefghijk", "p1"]))
    metrics = scored(benchmark_root, tmp_path, content, only=("c1<::>1",), at=("3", "12")).metrics
    found = {name: metric.mean for name, metric in metrics.items() if metric.mean}
    assert found.pop("ndcg@12") == pytest.approx(1 / math.log2(13), abs=0.1)  # other relevant passages may be missing
    assert set(found) == {"recall@12", "precision@12", "judged@12"}
    assert found["precision@12"] == pytest.approx(1 / 12) == found["judged@12"]
    assert "judged@3" in metrics
    assert "recall@20" not in metrics


def as_printed(value):
    """How the table may print a value: rounded to three decimals, or to four and then, half up, to three.

    36 of its 40 cells are the former; the other four can only be the latter (.513492 is printed .514, .370489 .371,
    .430470 .431, .311495 .312).
    """
    twice = Decimal(f"{value:.4f}").quantize(Decimal("0.001"), ROUND_HALF_UP)
    return {f"{value:.3f}".removeprefix("0"), str(twice).removeprefix("0")}


@pytest.mark.parametrize(("name", "recall", "ndcg"), BASELINES)
def test_recorded_runs_reproduce_the_printed_baselines(real_data, name, recall, ndcg):
    summary = benchmark_run.run_plan(plan_run(request_of(
        benchmark="mtrag", task="retrieval", data=real_data, out=Path("r"),
        predictions=(real_data / f"runs/{name}.trec",),
    )))[0]  # fmt: skip
    assert recall in as_printed(summary.metrics["recall@5"].mean)
    assert ndcg in as_printed(summary.metrics["ndcg@5"].mean)
    assert summary.n == (208 if "clapnq" in name else 180)


def relabeled(root, passage):
    """Replace the labeled passages of ClapNQ."""
    path = root / "mtrag-human/retrieval_tasks/clapnq/qrels/dev.tsv"
    head, *rows = path.read_text(encoding="utf-8").strip().split("\n")
    changed = ["\t".join([row.split("\t")[0], passage, row.split("\t")[2]]) for row in rows]
    path.write_text("\n".join([head, *dict.fromkeys(changed)]) + "\n", encoding="utf-8")


def test_labels_that_no_corpus_has_are_an_error_and_some_are_a_note(benchmark_root, turnmark):
    words = ("eval", "mtrag", "--task", "retrieval", "--data", benchmark_root, "--retriever", "bm25", "--dry-run")
    assert not any("labeled passages" in note for note in turnmark.json(*words)["notes"])
    path = benchmark_root / "mtrag-human/retrieval_tasks/clapnq/qrels/dev.tsv"
    query = path.read_text(encoding="utf-8").strip().split("\n")[1].split("\t")[0]
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{query}\tgone-0-9\t1\n")
    (note,) = (note for note in turnmark.json(*words)["notes"] if "labeled passages" in note)
    assert note.startswith("clapnq: 1 of ")
    assert note.endswith("are not in the corpus and count as not found, such as 'gone-0-9'")
    relabeled(benchmark_root, "gone-0-9")
    assert "clapnq: none of the 1 labeled passages (such as 'gone-0-9') is in" in turnmark.refused(*words)
    assert "labeled passages of clapnq are not in its corpus" in turnmark.ok("data", "check", benchmark_root).out


def asked_for(body):
    """The user's message in a request."""
    return str(body["messages"][-1]["content"]).rstrip().rsplit("\n", 1)[-1]


def worded(body):
    """A rewrite that is made of the message; a message with `what is` stands alone."""
    message = asked_for(body)
    kind = "standalone" if "what is" in message else "non-standalone"
    return Say(json.dumps({"class": kind, "reworded_version": f"{message} of the bell"}))


def rewriting(root, out, url, **changes):
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "data": root, "retriever": "bm25", "query": "minimal", "out": out,
        "generator": f"openai:tiny@{url}?retries=0",
    }  # fmt: skip
    return plan_run(request_of(**(fields | changes)))


@pytest.mark.parametrize("retriever", ["bm25", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_recorded_queries_can_be_searched_without_a_model(turnmark, tmp_path, check_run, retriever):
    """The whole command on the demo data, and its queries fed back: the same lists and figures."""
    words = ["eval", "mtrag", "--task", "retrieval", "--retriever", retriever, "--json"]

    def named(body):
        return Say(json.dumps({"class": "non-standalone", "reworded_version": f"{asked_for(body)} \u2028Käthe"}))

    run, again = tmp_path / "minimal", tmp_path / "again"
    with ScriptedServer(named) as server:
        ran = turnmark(*words, "--query", "minimal", "--generator", f"openai:tiny@{server.url}", "--out", run)
    assert ran.code == 0, ran.err
    check_run(run)
    first = json.loads(ran.out)
    assert (first["n"], first["failed"]) == (51, 0)
    rows = [json.loads(line) for line in (run / "queries.jsonl").read_text().splitlines()]
    before = samples_of(run)
    assert [row["_id"] for row in rows] == list(before)
    assert {tuple(row["variants"]) for row in rows} == {(), ("minimal",)}
    ran = turnmark.ok(*words, "--queries", run / "queries.jsonl", "--out", again)
    second = json.loads(ran.out)
    assert (second["metrics"], second["breakdowns"]) == (first["metrics"], first["breakdowns"])
    assert second["usage"] == {}
    for name, sample in samples_of(again).items():
        lists = [[ref.document_id for ref in sample_of_run.contexts] for sample_of_run in (sample, before[name])]
        assert lists[0] == lists[1]


@pytest.mark.parametrize(("reply", "why"), [
    (Say("Hmm."), "invalid 3"), (Status(500), "unavailable 3"), (Say(None, refusal="No."), "refused 3"),
    (Hang(30), "timeout 3"),
])  # fmt: skip
def test_searches_the_message_and_notes_a_missing_rewrite(benchmark_root, tmp_path, opener, check_run, reply, why):
    with ScriptedServer(reply) as server:
        deadline = 1.0 if why == "timeout 3" else 60.0
        planned_run = rewriting(benchmark_root, tmp_path / "r", server.url, query="minimal", deadline=deadline)
        summary, run, gave_up = searched(planned_run, opener)
    check_run(run)
    assert (summary.n, summary.failed, gave_up) == (7, 0, False)
    assert f"3 of 7 queries were searched without the model's rewrite: {why}" in summary.notes
    later = samples_of(run)["c1<::>2"]
    assert (later.status, later.rewrite, dict(later.left_out)) == ("done", None, {"minimal": why.split()[0]})
    assert later.notes[0].startswith("minimal: searched as typed")
    typed = searched(
        rewriting(benchmark_root, tmp_path / "typed", "", query="last-1", generator="extractive"), Opener()
    )[0]
    assert summary.metrics == typed.metrics


def test_refused_key_stops_the_run_and_the_right_key_resumes_it(benchmark_root, check_run):
    with ScriptedServer(Status(401)) as server:
        url = server.url
        planned_run = rewriting(benchmark_root, Path("r"), url, concurrency=1)
        summary, run, gave_up = searched(planned_run, Opener())
        assert gave_up
        check_run(run)
        assert {sample.kind for sample in samples_of(run).values() if sample.status == "failed"} == {"auth"}
        server.replies = [worded]
        summary, _, gave_up = searched(planned_run, Opener())
    assert (summary.failed, summary.skipped, gave_up) == (0, 0, False)
    assert len((run / "queries.jsonl").read_text().splitlines()) == 7


MODEL_FLAGS = "is for the calls of a model: generation, --query assistant or minimal; leave it out"


@pytest.mark.parametrize(("words", "messages"), [
    (["--query", "minimal"], [
        "--query minimal asks a language model; name it with --generator, see `turnmark list`",
    ]),
    (["--query", "last-turn", "--generator", "openai:x@http://127.0.0.1:9/v1", "--budget", "5", "--deadline", "3"], [
        f"--generator {MODEL_FLAGS}", f"--deadline {MODEL_FLAGS}", f"--budget {MODEL_FLAGS}",
    ]),
    (["--query", "minimum", "--generator", "openai:x@http://127.0.0.1:9/v1"], [
        "--query: no query mode is called 'minimum' (did you mean 'minimal'?); there are: last-turn, rewrite, "
        "questions, conversation, last-K, assistant, minimal (`turnmark list queries` describes them)",
    ]),
    (["--query", "minimal", "--generator", "magic", "--concurrency", "0", "--deadline", "0", "--setting", "rag"], [
        "--concurrency 0: expected at least 1",
        "--deadline 0: expected more than 0",
        "--setting belongs to generation; leave it out",
        "no generator is called 'magic'",
    ]),
])  # fmt: skip
def test_reports_all_mistakes_of_a_query_mode(turnmark, words, messages):
    ran = turnmark("eval", "mtrag", "--task", "retrieval", *words)
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert len(lines) == len(messages)
    for line, start in zip(lines, messages, strict=True):
        assert line.startswith(f"turnmark: {start}")
    assert not Path("runs").exists()
