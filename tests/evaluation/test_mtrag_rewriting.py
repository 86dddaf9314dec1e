"""Retrieval with the query modes that ask a model: whole runs against a scripted server, faults, and the way back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.assistant.notes import wording_asked_for
from tests.evaluation.conftest import Opener, searched
from tests.evaluation.mtrag_runs import samples_of
from tests.servers import Hang, Say, ScriptedServer, Status
from turnmark.assistant.prompts import prompt_hashes
from turnmark.assistant.steps.rewrites import FOUR, MODES
from turnmark.corpora import mtrag
from turnmark.evaluation.benchmarks.mtrag_data import load_data
from turnmark.evaluation.benchmarks.mtrag_queries import MADE, RECORDED, check_mode, open_queries, read_query_file
from turnmark.evaluation.planning import plan
from turnmark.evaluation.request import EvalRequest
from turnmark.retrieval.types import Query

NAMES = ["minimal", *FOUR]


def asked_for(body):
    """The user's message in a request."""
    return str(body["messages"][-1]["content"]).rstrip().rsplit("\n", 1)[-1]


def worded(body):
    """A wording that is made of its name and the message; a message with `what is` stands alone."""
    name, message = wording_asked_for(body), asked_for(body)
    if name == "minimal":
        kind = "standalone" if "what is" in message else "non-standalone"
        return Say(json.dumps({"class": kind, "reworded_version": f"{message} of the bell"}))
    return Say(json.dumps({"reasoning": "So.", "query": f"{message} bell tower {name}"}))


def planned(root, out, url, **changes):
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "data": root, "retriever": "bm25", "query": "multi", "out": out,
        "generator": f"openai:tiny@{url}?retries=0",
    }  # fmt: skip
    return plan(EvalRequest(**(fields | changes)))


def test_a_run_and_what_it_says_of_itself(benchmark_root, opener, check_run):
    with ScriptedServer(worded) as server:
        planned_run = planned(benchmark_root, Path("r"), server.url)
        summary, run, gave_up = searched(planned_run, opener)
        assert not gave_up
        check_run(run)
        calls = Counter(map(wording_asked_for, server.bodies))
        manifest = json.loads((run / "manifest.json").read_text())
        assert manifest["specs"] == {
            "retriever": "bm25", "embedder": "", "query": "multi", "generator": f"openai:tiny@{server.url}?retries=0",
            "fusion": "nested rrf, raw 0.5, minimal 1, corpus-specific 1, step-by-step 1, hypothetical-passage 0.5, "
            "keyword-anchor 0.5",
            "wordings": "within 20 s",
        }  # fmt: skip
    names = ["rewrite", *(prompt for prompt, _ in FOUR.values()), "json", "repair"]
    assert manifest["prompts"] == {name: prompt_hashes()[name] for name in names}
    # Four queries begin a conversation; of the others, none stands alone.
    assert calls == Counter(dict.fromkeys(NAMES, 3))
    rows = samples_of(run)
    later, first = rows["c1<::>2"], rows["c1<::>1"]
    assert (first.status, first.rewrite, first.variants, first.usage) == ("done", None, {}, {})
    assert (later.query, list(later.variants)) == ("when was it cast", NAMES)
    assert later.rewrite == "\n".join(later.variants.values())
    assert later.usage["rewrite"].calls == 5
    assert set(later.timings) == {"rewrite", "search", "total"}
    assert summary.usage["rewrite"]["calls"] == 15
    assert "4 of 7 queries need no rewrite: they were searched as typed" in summary.notes
    task = load_data("mtrag", mtrag.locate(benchmark_root), ()).tasks["c1<::>2"]
    [query] = [
        query_made
        for retriever in opener.opened
        for query_made in retriever.asked
        if query_made.fusion == "nested" and query_made.text == later.query
    ]
    assert query == Query(
        text=task.question, history=task.history, variants=tuple(later.variants.values()), fusion="nested",
        variant_weights=(0.5, 1.0, 1.0, 1.0, 0.5, 0.5),
    )  # fmt: skip
    assert not any(row.comparable for row in summary.published)


def test_the_corpus_prompt_shows_what_the_documents_begin_with(benchmark_root, opener):
    with ScriptedServer(worded) as server:
        searched(planned(benchmark_root, Path("r"), server.url, only=("c1<::>2",)), opener)
        [body] = [body for body in server.bodies if wording_asked_for(body) == "corpus-specific"]
    prompt = body["messages"][-1]["content"]
    assert "the bell was cast in 1858\n</passage-" in prompt
    assert prompt.index("<passage-") < prompt.index("</user-")


def test_minimal_is_searched_as_the_turn_does_it(benchmark_root, tmp_path, opener):
    with ScriptedServer(worded) as server:
        summary, run, _ = searched(planned(benchmark_root, tmp_path / "r", server.url, query="minimal"), opener)
    assert summary.specs["fusion"] == "flat"
    assert [sample.rewrite for sample in samples_of(run).values()] == [
        None, "when was it cast of the bell", None, None, "is it safe of the bell", None, "and a dividend of the bell",
    ]  # fmt: skip
    queries = [query for retriever in opener.opened for query in retriever.asked]
    assert {query.fusion for query in queries} == {"flat"}
    assert [len(query.history) > 0 for query in queries] == [bool(query.variants) for query in queries]
    assert list(json.loads((run / "manifest.json").read_text())["prompts"]) == ["rewrite", "json", "repair"]


@pytest.mark.parametrize("retriever", ["bm25", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_what_was_searched_can_be_searched_again_without_a_model(turnmark, tmp_path, check_run, retriever):
    """The whole command on the demo data, and its queries fed back: the same lists and figures."""
    words = ["eval", "mtrag", "--task", "retrieval", "--retriever", retriever, "--json"]

    def named(body):
        text = "\u2028Käthe" if wording_asked_for(body) == "minimal" else wording_asked_for(body)
        reply = {"class": "non-standalone", "reworded_version": f"{asked_for(body)} {text}"}
        return Say(json.dumps({**reply, "reasoning": "", "query": f"{asked_for(body)} {text}"}))

    for mode in MODES:
        run, again = tmp_path / mode, tmp_path / f"{mode} again"
        with ScriptedServer(named) as server:
            ran = turnmark(*words, "--query", mode, "--generator", f"openai:tiny@{server.url}", "--out", run)
        assert ran.code == 0, ran.err
        check_run(run)
        first = json.loads(ran.out)
        assert (first["n"], first["failed"]) == (51, 0)
        rows = [json.loads(line) for line in (run / "queries.jsonl").read_text().splitlines()]
        before = samples_of(run)
        assert [row["_id"] for row in rows] == list(before)
        assert {tuple(row["variants"]) for row in rows} == {(), ("minimal",) if mode == "minimal" else tuple(NAMES)}
        ran = turnmark.ok(*words, "--queries", run / "queries.jsonl", "--out", again)
        second = json.loads(ran.out)
        assert (second["metrics"], second["breakdowns"]) == (first["metrics"], first["breakdowns"])
        assert second["usage"] == {}
        for name, sample in samples_of(again).items():
            lists = [[ref.document_id for ref in sample_of_run.contexts] for sample_of_run in (sample, before[name])]
            assert lists[0] == lists[1]


def test_a_file_with_variants_is_searched_in_its_conversation(benchmark_root, tmp_path):
    data = load_data("mtrag", mtrag.locate(benchmark_root), ())
    rows = [
        {"_id": "c1<::>2", "text": "when was it cast", "variants": ["x", "y"]},
        {"_id": "c3<::>2", "text": "is it safe", "variants": {"a": "x"}, "weights": {"raw": 2}},
        {"_id": "c4<::>2", "text": "and a dividend"},
        {"_id": "c4<::>1", "text": "what is a share", "variants": {}},
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = read_query_file(path, data)
    history = data.tasks["c1<::>2"].history
    assert source.query("c1<::>2") == Query(text="when was it cast", history=history, variants=("x", "y"))
    weighed = source.query("c3<::>2")
    assert (weighed.fusion, weighed.variant_weights) == ("nested", (2.0, 1.0))
    assert source.query("c4<::>2") == Query(text="and a dividend")
    assert source.query("c4<::>1") == Query(text="what is a share")


@pytest.mark.parametrize(("reply", "why"), [
    (Say("Hmm."), "invalid 3"), (Status(500), "unavailable 3"), (Say(None, refusal="No."), "refused 3"),
    (Hang(30), "timeout 3"),
])  # fmt: skip
def test_without_any_wording_the_message_is_searched_and_this_is_said(
    benchmark_root, tmp_path, opener, check_run, reply, why
):
    with ScriptedServer(reply) as server:
        deadline = 1.0 if why == "timeout 3" else 60.0
        planned_run = planned(benchmark_root, tmp_path / "r", server.url, query="minimal", deadline=deadline)
        summary, run, gave_up = searched(planned_run, opener)
    check_run(run)
    assert (summary.n, summary.failed, gave_up) == (7, 0, False)
    assert f"3 of 7 queries were searched without a rewrite: {why}" in summary.notes
    later = samples_of(run)["c1<::>2"]
    assert (later.status, later.rewrite, dict(later.left_out)) == ("done", None, {"minimal": why.split()[0]})
    assert later.notes[0].startswith("minimal: searched as typed")
    typed = searched(planned(benchmark_root, tmp_path / "typed", "", query="last-1", generator="extractive"), Opener())[
        0
    ]
    assert summary.metrics == typed.metrics


def test_one_wording_that_does_not_come_is_counted(benchmark_root, tmp_path, opener):
    def reply(body):
        return Say("{") if wording_asked_for(body) == "keyword-anchor" and "is it safe" in str(body) else worded(body)

    with ScriptedServer(reply) as server:
        summary, run, _ = searched(planned(benchmark_root, tmp_path / "r", server.url), opener)
    assert "keyword-anchor was left out of 1 of 7 queries: invalid 1" in summary.notes
    rows = {row["_id"]: row for row in map(json.loads, (run / "queries.jsonl").read_text().splitlines())}
    assert list(rows["c3<::>2"]["weights"]) == ["raw", *NAMES[:-1]]
    assert list(rows["c1<::>2"]["weights"]) == ["raw", *NAMES]


def test_a_refused_key_gives_up_and_the_right_one_goes_on(benchmark_root, check_run):
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


def test_a_dry_run_asks_nobody(benchmark_root, tmp_path):
    with ScriptedServer(worded) as server:
        planned_run = planned(benchmark_root, tmp_path / "r", server.url)
        described = planned_run.describe()
        assert server.seen == []
    assert described["estimated"]["rewrite"]["calls"] == 15
    assert described["estimated"]["rewrite"]["prompt_tokens"] > 1000
    assert not (tmp_path / "r").exists()


MODEL_FLAGS = "is for the calls of a model: generation, or --query minimal or multi; leave it out"


@pytest.mark.parametrize(("words", "messages"), [
    (["--query", "multi"], [
        "--query multi asks a language model; name it with --generator, see `turnmark list`",
    ]),
    (["--query", "last-turn", "--generator", "openai:x@http://127.0.0.1:9/v1", "--budget", "5", "--deadline", "3"], [
        f"--generator {MODEL_FLAGS}", f"--deadline {MODEL_FLAGS}", f"--budget {MODEL_FLAGS}",
    ]),
    (["--query", "mutli", "--generator", "openai:x@http://127.0.0.1:9/v1"], [
        "--query: no mode is called 'mutli'; there are: last-turn (the recorded last message), rewrite (the recorded "
        "rewrite), questions (the recorded questions up to this one), conversation (all turns and answers), last-K "
        "(the last K turns of the user, such as last-3), assistant (what our own turn searches for), minimal (a "
        "language model's rewrite), multi (five wordings by a language model)",
    ]),
    (["--query", "minimal", "--generator", "magic", "--concurrency", "0", "--deadline", "0", "--setting", "rag"], [
        "--setting belongs to generation; leave it out",
        "no generator is called 'magic'",
        "--concurrency 0: a number from 1 to 1000 was expected",
        "--deadline 0: seconds above 0 were expected",
    ]),
])  # fmt: skip
def test_a_wrong_request_says_all_that_is_wrong(turnmark, words, messages):
    ran = turnmark("eval", "mtrag", "--task", "retrieval", *words)
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert len(lines) == len(messages)
    for line, start in zip(lines, messages, strict=True):
        assert line.startswith(f"turnmark: {start}")
    assert not Path("runs").exists()


def test_an_endpoint_in_the_environment_is_asked_only_by_modes_that_ask(turnmark, monkeypatch):
    monkeypatch.setenv("TURNMARK_GENERATOR", "openai:x@http://127.0.0.1:9/v1")
    words = ["eval", "mtrag", "--task", "retrieval", "--retriever", "bm25", "--dry-run", "--json"]
    plain = json.loads(turnmark(*words).out)
    assert "generator" not in plain["specs"]
    assert plain["estimated"] == {}
    asking = json.loads(turnmark(*words, "--query", "minimal").out)
    assert asking["specs"]["generator"] == "openai:x@http://127.0.0.1:9/v1"


def test_a_mode_that_asks_is_for_retrieval(turnmark, benchmark_root):
    message = turnmark.refused("eval", "mtrag", "--setting", "rag", "--query", "multi")
    assert "--query multi: it is for --task retrieval" in message
    assert check_mode("multi", "mtrag", asking=True) == "multi"
    data = load_data("mtrag", mtrag.locate(benchmark_root), ())
    task = data.tasks["c1<::>2"]
    assert open_queries("multi", data, asking=True).query(task.id) == Query(text=task.question, history=task.history)


def test_every_mode_is_listed(turnmark):
    listed = turnmark.json("list", "queries")["queries"]
    assert set(listed) == {*RECORDED, *MADE, "last-K"}
    assert all(listed.values())
    assert "cross" in turnmark.json("list", "rerankers")["rerankers"]
