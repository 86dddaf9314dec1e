"""Retrieval with the query modes that ask a model: whole runs against a scripted server, faults, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import Opener, searched
from tests.evaluation.mtrag_runs import samples_of
from tests.evaluation.requests import request_of
from tests.servers import Hang, Say, ScriptedServer, Status
from turnmark.evaluation.runs.planning import plan_run


def asked_for(body):
    """The user's message in a request."""
    return str(body["messages"][-1]["content"]).rstrip().rsplit("\n", 1)[-1]


def worded(body):
    """A rewrite that is made of the message; a message with `what is` stands alone."""
    message = asked_for(body)
    kind = "standalone" if "what is" in message else "non-standalone"
    return Say(json.dumps({"class": kind, "reworded_version": f"{message} of the bell"}))


def planned(root, out, url, **changes):
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
        planned_run = planned(benchmark_root, tmp_path / "r", server.url, query="minimal", deadline=deadline)
        summary, run, gave_up = searched(planned_run, opener)
    check_run(run)
    assert (summary.n, summary.failed, gave_up) == (7, 0, False)
    assert f"3 of 7 queries were searched without the model's rewrite: {why}" in summary.notes
    later = samples_of(run)["c1<::>2"]
    assert (later.status, later.rewrite, dict(later.left_out)) == ("done", None, {"minimal": why.split()[0]})
    assert later.notes[0].startswith("minimal: searched as typed")
    typed = searched(planned(benchmark_root, tmp_path / "typed", "", query="last-1", generator="extractive"), Opener())[
        0
    ]
    assert summary.metrics == typed.metrics


def test_refused_key_stops_the_run_and_the_right_key_resumes_it(benchmark_root, check_run):
    with ScriptedServer(Status(401)) as server:
        url = server.url
        planned_run = planned(benchmark_root, Path("r"), url, concurrency=1)
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
