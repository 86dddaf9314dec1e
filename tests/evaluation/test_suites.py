"""`eval all --suite`, and several of its folders."""

from __future__ import annotations

import json
import re
from pathlib import Path

from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage

PARTS = [
    "mtrag", "inscoqa", "compound-qa", "kiwi", "mtrag-retrieval", "mtrag-rag", "mtrag-un", "mtrag-un-rag", "mtrag-s",
    "inscoqa-rag", "kiwi-judge", "kiwi-analyse",
]  # fmt: skip


def test_a_full_suite_has_every_task_and_setting(turnmark):
    ran = turnmark.json("eval", "all", "--suite", "full", "--limit", "1", "--dry-run")
    planned = ran["benchmarks"]
    assert list(planned) == PARTS
    assert planned["mtrag-retrieval"]["task"] == "retrieval"
    assert [planned[name]["setting"] for name in ("mtrag", "mtrag-rag", "inscoqa-rag")] == ["reference", "rag", "rag"]
    assert [planned[name]["task"] for name in ("kiwi", "kiwi-judge", "kiwi-analyse")] == ["revise", "judge", "analyse"]
    assert not Path("runs").exists()


def test_the_smoke_suite_draws_a_few_samples_of_each_of_the_four(turnmark):
    planned = turnmark.json("eval", "all", "--suite", "smoke", "--dry-run")["benchmarks"]
    assert {name: part["n"] for name, part in planned.items()} == dict.fromkeys(PARTS[:4], 8)
    described = turnmark.json("eval", "all", "--suite", "smoke", "--limit", "3", "--dry-run")
    assert {part["n"] for part in described["benchmarks"].values()} == {3}


class Silent:
    """A generator that knows nothing, in plain text and in every schema."""

    name, context_tokens, reply_tokens = "python:tests.evaluation.test_suites:silent", 8192, 1024

    def complete(self, messages, schema=None, **_):
        text = "{}" if schema is not None else "I don't know."
        return Completion(text=text, finish_reason="stop", usage=Usage(calls=1), model="silent", max_tokens=1024)


def silent():
    return Silent()


def test_runs_of_eval_all_are_reported_together_and_compared_one_by_one(turnmark, check_run):
    words = ("eval", "all", "--limit", "2", "--judge", "embedded", "--out")
    printed = turnmark.json(*words, "ours")
    assert printed.pop("run") == "ours"
    assert list(printed) == PARTS[:4]
    for name, summary in printed.items():
        assert (summary["n"], summary["failed"], summary["data"]["demo"]) == (2, 0, True)
        assert json.loads(Path("ours", name, "summary.json").read_text()) == summary
        check_run(Path("ours", name))
    assert json.loads(Path("ours/summary.json").read_text()) == printed
    judges = {name: summary["specs"].get("judge") for name, summary in printed.items()}
    assert judges == dict.fromkeys(PARTS[:4], "embedded") | {"compound-qa": None}, "it has nothing to judge there"
    screen = turnmark.ok(*words, "silent", "--generator", Silent.name).out
    assert "All runs" in screen
    assert "run: silent   report: silent/report.html" in screen
    report = turnmark("report", "ours", "silent").out
    assert re.search("ours/inscoqa: inscoqa(.|\n)*silent/inscoqa: inscoqa", report)
    assert "ours/mtrag, " in turnmark.refused("compare", "ours", "silent/mtrag")
    compared = turnmark.json("compare", "ours/mtrag", "silent/mtrag")
    assert compared["differs"]["specs.generator"] == ["extractive", Silent.name]


class Dear(Silent):
    """Knows nothing, and takes 20,000 tokens to say so."""

    name = "python:tests.evaluation.test_suites:dear"

    def complete(self, messages, schema=None, **_):
        usage = Usage(calls=1, prompt_tokens=20_000)
        return super().complete(messages, schema).model_copy(update={"usage": usage})


def dear():
    return Dear()


def test_all_runs_of_a_suite_share_one_budget(turnmark):
    words = ["eval", "all", "--limit", "1", "--generator", Dear.name, "--out", "r", "--json"]

    def spent(*more):
        ran = turnmark(*words, *more)
        parts = {name: entry for name, entry in json.loads(ran.out).items() if name != "run"}
        used = [entry for part in parts.values() for entry in part["usage"].values()]
        return parts, sum(entry["prompt_tokens"] for entry in used)

    parts, tokens = spent("--budget", "60500")
    assert tokens == 60_000, "one call for each of the first three"
    assert [part["skipped"] for part in parts.values()] == [0, 0, 0, 1], "alone, the last would have gone ahead"
    assert any("stopped by --budget: 60,000 tokens spent" in note for note in parts["kiwi"]["notes"])
    parts, more = spent("--budget", "1M")
    assert more > tokens
    assert not any(part["skipped"] for part in parts.values())
