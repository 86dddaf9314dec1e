"""`ragas:JUDGE`: the package's own prompts and counts, asked of a judge of ours, without a word to its makers."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from tests.evaluation.judged_runs import done, kind_of, lines, score_words, spec_of, values
from tests.evaluation.published_rows import figures, ran
from tests.servers import Say, ScriptedServer
from turnmark.core.errors import RequestError
from turnmark.evaluation.benchmarks.mtrag.rubrics import IDK_JUDGE
from turnmark.evaluation.judging.judges import open_judges
from turnmark.evaluation.judging.panel import Judging
from turnmark.evaluation.model_names import same_model
from turnmark.evaluation.scores.published_results import find_rows, published_facts


@pytest.fixture
def package(monkeypatch):
    if importlib.util.find_spec("ragas") is None:
        pytest.skip("ragas is not installed")
    import requests

    def refuse(*_, **__):
        raise AssertionError("nothing is reported")

    monkeypatch.setattr(requests, "post", refuse)


def reply(supported):
    """A model behind the package: two statements, so many of them supported; and a judge of the rest."""

    def answer(body):
        text = body["messages"][-1]["content"]
        if "Breakdown each sentence" in text or "break down each sentence" in text.lower():
            return Say(json.dumps({"statements": ["one", "two"]}))
        if "judge the faithfulness" in text:
            verdicts = [
                {"statement": s, "reason": "r", "verdict": int(n < supported)} for n, s in enumerate(("one", "two"))
            ]
            return Say(json.dumps({"statements": verdicts}))
        return Say("Rating: [[8]]" if kind_of(body) == "rb_llm" else "Verdict: [[no]]")

    return answer


@pytest.mark.slow
def test_faithfulness_is_the_mean_of_three_package_runs(package, benchmark_root, turnmark, tmp_path, check_run):
    words = score_words(benchmark_root, tmp_path)
    with ScriptedServer(reply(1)) as server:
        judges = ("--judge", f"ragas:openai:tiny@{server.url}", "--judge", spec_of(server, "other"))
        summary = done(turnmark, *words, *judges)
        asked = [body for body in server.bodies if "judge the faithfulness" in body["messages"][-1]["content"]]
    check_run(tmp_path / "r")
    scored = {name: value for name, value in values(tmp_path / "r", "rl_f").items() if value is not None}
    assert scored
    assert set(scored.values()) == {0.5}
    assert len(asked) == 3 * len(scored), "three times each, and by nobody else"
    assert summary.metrics["rl_f.spread"].mean == 0.0
    (judge,) = {row["judge"] for row in lines(tmp_path / "r/judgements.jsonl") if row["measure"] == "rl_f"}
    assert judge.startswith("ragas:openai:tiny@")
    assert summary.metrics["rl_f.idk"].n > 0
    assert summary.metrics["rb_llm"].n > 0


@pytest.mark.slow
def test_published_faithfulness_is_the_same_metric(package):
    judges = open_judges(["ragas:openai:openai/gpt-oss-120b@http://localhost:1"])
    judging = Judging(judges, [IDK_JUDGE, *judges[0].rubrics])
    rows = [fact for fact in published_facts() if "rl_f" in fact.metrics]
    run = ran(benchmark="mtrag", task="generation", metrics=figures(1, "rl_f"), variants=judging.variants([]),
              judged=judging.models(), breakdowns={})  # fmt: skip
    assert rows
    assert not any("metric" in row.differs_by_metric["rl_f"] for row in find_rows(run, rows))


def test_reports_which_judge_is_asked(monkeypatch):
    if "ragas" not in sys.modules:
        monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    with pytest.raises(RequestError, match="write ragas:JUDGE"):
        open_judges(["ragas"])
    with pytest.raises(RequestError, match="asks a language model"):
        open_judges(["ragas:embedded"])
    assert same_model("ragas:openai:gpt-4o@http://a", "openai:gpt-4o@http://b")
