"""Prompts of the papers: told apart by a digest, named in `by`, and then comparable with the published rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.judged_runs import ANSWERS, done, lines, official, spec_of
from tests.servers import Say, ScriptedServer
from turnmark.evaluation.judging import judgements
from turnmark.evaluation.judging.bertscore import PUBLISHED, Bert, bert_rubrics
from turnmark.evaluation.judging.judge import Judge, open_judges
from turnmark.evaluation.judging.judged import Judging
from turnmark.evaluation.judging.judgements import OFFICIAL, OWN, digest, whose
from turnmark.evaluation.judging.mtrag import IDK_JUDGE, RB_LLM
from turnmark.evaluation.prompts import load_prompt
from turnmark.evaluation.published import facts

TEXTS = {
    "idk": "[Inquiry]\n{{ conversation }}\n[Response]\n{{ answer }}\n[Output]\n",
    "rb-llm": "Rate “{{ answer }}” against {{ reference }}, given {{ passages }}, {{ history }} and {{ question }}.",
}


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def as_papers(own, monkeypatch):
    """The papers' texts are not in this project, so these stand for them."""
    known_values = {name: digest(load_prompt(name, own)) for name in TEXTS}
    monkeypatch.setattr(judgements, "PAPERS", known_values)
    return own


def test_a_digest_is_of_the_words_and_not_of_the_layout(own):
    before = digest(load_prompt("rb-llm", own))
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace(" ", "\n  ").replace("“", '"').replace("”", '"'))
    assert digest(load_prompt("rb-llm", own)) == before
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace("given", "without"))
    assert digest(load_prompt("rb-llm", own)) != before
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace("{{ history }}", "{{ conversation }}"))
    assert digest(load_prompt("rb-llm", own)) != before


def test_whose_a_prompt_is(own, as_papers):
    assert whose(["idk"], None) == ""
    assert whose(["rl-mtb"], own) == "", "the folder has no such file"
    assert whose(["idk"], own) == OFFICIAL
    (own / "idk.txt").write_text("{{ answer }}")
    assert whose(["idk"], own) == OWN


def _judging(prompts):
    judges = open_judges(["openai:x@http://localhost:1"])
    bert = bert_rubrics(Bert("x", rescaled=True, hub=PUBLISHED), "bertscore")
    bert_judge = Judge("bertscore", judges[0].generator, None, bert)
    return Judging([*judges, bert_judge], [RB_LLM, IDK_JUDGE, *bert], prompts=prompts)


def test_with_the_papers_prompts_every_judged_metric_is_the_published_instrument(as_papers):
    (fact,) = (
        row
        for row in facts()
        if row.system == "GPT-4o" and row.source.startswith("MTRAG Table 5") and row.setting == "rag"
    )
    named = _judging(as_papers).variants([])
    metrics = ("answerability_accuracy", "rb_llm.idk", "rb_alg.idk")
    assert [named[name] in fact.instruments[name].same for name in metrics] == [True] * 3
    ours = _judging(None).variants([])
    assert not any(ours[name] in fact.instruments[name].same for name in metrics)


def test_scores_name_the_hash_of_the_prompt(benchmark_root, turnmark, own):
    file = official(Path("x.jsonl"), ANSWERS)

    def judge(body):
        return Say("no" if "[Output]" in body["messages"][-1]["content"] else "Total rating: 8")

    with ScriptedServer(judge) as server:
        spec = spec_of(server, options="metrics=rb_llm,idk")
        done(
            turnmark, "score", "mtrag", "--data", benchmark_root, "--predictions", file, "--judge", spec,
            "--prompts", own, "--out", Path("r"),
        )  # fmt: skip
    rows = {row["metric"]: row for row in lines(Path("r/scores.jsonl")) if row["id"] == "c1<::>1"}
    digests = {row["measure"]: row["prompts"] for row in lines(Path("r/judgements.jsonl"))}
    assert (rows["rb_llm"]["value"], rows["idk"]["value"]) == (0.8, 0.0)
    assert ", prompts " in rows["rb_llm"]["by"]
    assert len(rows["rb_llm"]["by"].rpartition(" ")[2]) == len(digests["rb_llm"]) == 16
    assert rows["rb_llm"]["by"] != rows["idk"]["by"]
