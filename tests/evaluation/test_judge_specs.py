"""Who judges: specs, presets and panels, a judge behind an endpoint, the package ragas, and judges without a model."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import pytest

from tests.evaluation.judged_runs import ANSWERS, done, judge, kind_of, lines, official, score_words, spec_of, values
from tests.evaluation.published_rows import PANEL, figures, ran
from tests.evaluation.scripted_judges import CASE
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.generators.response_cache import for_repeat
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.benchmarks.mtrag.rubrics import IDK_JUDGE, RB_LLM
from turnmark.evaluation.judging import judges
from turnmark.evaluation.judging.bertscore import bert_recall, open_bert
from turnmark.evaluation.judging.judges import open_judges
from turnmark.evaluation.judging.panel import Judging
from turnmark.evaluation.model_names import same_model
from turnmark.evaluation.scores.published_results import find_rows, published_facts


def test_opens_judges_by_spec_and_reports_every_mistake(tmp_path):
    script = tmp_path / "x.jsonl"
    script.write_text('{"text": "Rating: [[7]]"}\n')
    (judge,) = open_judges([f"replay:{script}?metrics=rb_llm,idk"])
    assert judge.name == f"replay:{script}"
    assert judge.grades("idk")
    assert not judge.grades("rl_f")
    with pytest.raises(RequestError) as caught:
        open_judges(
            [f"replay:{script}", f"replay:{script}", "nobody:x", "extractive", "panel:", f"panel:{script}x", "A B",
             "embedded?x=1", "bertscore?x=1"]
        )  # fmt: skip
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 8
    for piece in (
        "is given twice", "'nobody'", "is not a language model",
        "the panels are panel:mtrag[@URL], panel:mtrag-un[@URL], panel:inscoqa[@URL], panel:compound-qa[@URL]",
        "--judge A B: spec 'A B'", "embedded?x=1: write embedded; its only option is metrics=NAME,…",
        "bertscore?x=1: write bertscore, bertscore:minilm or bertscore:FOLDER",
    ):  # fmt: skip
        assert piece in problems, problems


def test_panel_preset_names_the_judges_of_the_paper():
    chair, *members = open_judges(["panel:mtrag@http://127.0.0.1:9/v1?temperature=0"])
    assert chair.name.startswith("openai:gpt-4o-mini-2024-07-18@")
    assert chair.metrics is None
    assert [member.name.partition("@")[0].rpartition("/")[2] for member in members] == list(PANEL[1:])
    assert all(member.metrics == {"rb_llm"} for member in members)


def test_panel_measures_everything_in_tables_5_and_16(monkeypatch, tiny_bert):
    spec = "panel:mtrag@http://127.0.0.1:9/v1"
    monkeypatch.setattr(judges, "missing_bertscore", lambda: "it is not fetched")
    assert judges.panel_notes([spec]) == [f"{spec}: rb_alg is not measured: it is not fetched"]
    chair, *members = open_judges([spec])
    assert [chair.grades(name) for name in ("rb_llm", "rl_f", "idk", "rl_mtb", "rl_r")] == [True] * 3 + [False] * 2
    assert not any(judge.grades("rb_alg") for judge in (chair, *members))
    monkeypatch.setattr(judges, "missing_bertscore", lambda: None)
    monkeypatch.setattr("turnmark.evaluation.judging.bertscore._cached_model", lambda: tiny_bert)
    assert [judge.name for judge in open_judges([spec]) if judge.grades("rb_alg")] == ["bertscore"]
    assert [judge.name for judge in open_judges(["bertscore", spec]) if judge.grades("rb_alg")] == ["bertscore"]
    assert judges.panel_notes([spec]) == judges.panel_notes(["embedded"]) == []


@pytest.mark.parametrize(
    ("judge", "tested", "same_model_named"),
    [("openai:gpt-4o-mini", "openai:gpt-4o-mini@http://x/v1", True),
     ("openai:Qwen/Qwen2.5-7B", "vllm:qwen2.5-7b", True), ("openai:gpt-4o", "openai:gpt-4o-mini", False),
     ("replay:a.jsonl", "replay:b/a.jsonl", False),
     ("replay:a.jsonl", "replay:a.jsonl", True), ("openai:gpt-4o", "extractive", False)],
)  # fmt: skip
def test_recognizes_the_model_under_test(judge, tested, same_model_named):
    assert same_model(judge, tested) is same_model_named


def test_judge_endpoint_has_a_cache_only_on_request_and_a_default_temperature():
    with ScriptedServer(Say("Hm."), Say("Good.\nRating: [[8]]")) as server:
        (judge,) = open_judges([f"openai:tiny@{server.url}"])
        outcome = RB_LLM.ask(judge.generator, CASE, None)
        assert (outcome.value, outcome.usage.calls, len(server.bodies)) == (0.8, 2, 2)
        assert server.bodies[0]["temperature"] == 0
        assert RB_LLM.ask(judge.generator, CASE, None).usage.calls == 1, "two runs are independent"
        (cached,) = open_judges([f"openai:tiny@{server.url}?cache=1"])
        assert [RB_LLM.ask(cached.generator, CASE, None).usage.calls for _ in range(2)] == [1, 0]
        again = for_repeat(cached.generator, 1)
        assert RB_LLM.ask(again, CASE, None).usage.calls == 1, "a retry after a failure asks again"
    with ScriptedServer(Status(401)) as server:
        (judge,) = open_judges([f"openai:tiny@{server.url}?retries=0"])
        outcome = RB_LLM.ask(judge.generator, CASE, None)
        assert (outcome.status, outcome.kind, outcome.value) == ("failed", "auth", None)
        assert "sk-nobody" not in json.dumps(outcome.model_dump())


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
