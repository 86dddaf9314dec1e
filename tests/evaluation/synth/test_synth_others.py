"""`turnmark synth inscoqa` and `compound-qa`: made, filtered, opened by the loader; plans and prompts."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import DEMO
from tests.evaluation.synth.player import Player, one_an_attempt
from tests.servers import Say
from turnmark.corpora.benchmarks import compound_qa, inscoqa
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks.compound_qa.synthesis import TYPES, load_type_rules, missing_keywords
from turnmark.evaluation.benchmarks.mtrag.question_types import ConversationPlan, load_shares
from turnmark.evaluation.synth.synthesis_attempt import PROMPTS
from turnmark.evaluation.synth.synthesis_folder import join_passages


def test_instructions_load_as_inscoqa(synth, turnmark):
    outcome = synth("inscoqa", "--n", 8, "--documents", 3)
    assert outcome.ran.code == 0, outcome.ran.err
    assert outcome.report["kept"] == 8
    assert outcome.report["filters"]["query filter"] == {"not objective": 4}  # the third of each document's queries
    loaded = inscoqa.load_tasks(outcome.out, "test")
    assert not loaded.problems
    tasks = list(loaded.data.values())
    assert len(tasks) == 8
    for task in tasks:
        assert 2 <= len(task.documents) <= 3
        assert task.domain == "Gourmet"
        assert len(task.procedure) == 2
        assert 2 <= task.rounds <= 4
    document = tasks[0].documents[0]
    assert (DEMO / "documents" / document.id).read_text("utf-8").strip() == document.text
    ran = turnmark.json("eval", "inscoqa", "--data", outcome.out, "--dry-run", "--out", outcome.out / "run")
    assert ran["n"] == 8


def changed(name, **fields):
    """A reply of the player with other fields."""

    def wrong(prompt, parts):
        if prompt != name:
            return None
        material = "- 2 rounds, why something is so"
        usual = json.loads(getattr(Player(), "_" + name.replace("-", "_"))(parts, material))
        return Say(json.dumps({**usual, **fields}))

    return wrong


FAULTS = [
    (changed("inscoqa-queries", queries=[]), "query", "the document guides nobody through anything"),
    (changed("inscoqa-filter", verdicts=[]), "query filter", "the judge gave no verdict"),
    (changed("inscoqa-history", question=""), "history", "no last question"),
    (changed("inscoqa-history", history=[]), "history", "no history"),
    (changed("inscoqa-answer", documents=[]), "answer", "the documents do not answer it"),
    (changed("inscoqa-answer", documents=[1]), "answer", "rests on fewer than 2"),
    (changed("inscoqa-answer", documents=[1, 99]), "answer", "names a document not shown"),
    (changed("inscoqa-procedure", objective=False), "suitability", "the answer holds opinions"),
    (changed("inscoqa-procedure", procedure=["Only one."]), "procedure", "too few or too many steps"),
    (
        changed("inscoqa-procedure", procedure=["1. Mix it.", "2. Bake it."]),
        "procedure",
        "a step is numbered or a list",
    ),
    (
        changed("inscoqa-procedure", procedure=["Mix the dough.", "Mix the dough."]),
        "procedure",
        "a step repeats another one",
    ),
    (
        changed("inscoqa-procedure", procedure=["A quiet room.", "Quiet room."]),
        "leakage",
        "the history gives the steps away",
    ),
    (lambda name, _: Say("oops") if name == "inscoqa-answer" else None, "answer", "no usable reply: invalid"),
]


def counted(cases):
    """What the report should count: stage -> reason -> something."""
    reasons = {}
    for _, stage, reason in cases:
        reasons.setdefault(stage, set()).add(reason)
    return reasons


def test_rejects_invalid_instructions(synth):
    wrong = one_an_attempt("inscoqa-queries", [fault for fault, _, _ in FAULTS])
    outcome = synth("inscoqa", "--n", 4, "--documents", 3, "--concurrency", 1, wrong=wrong)
    assert outcome.ran.code == 0, outcome.ran.err
    assert (outcome.report["kept"], outcome.report["attempts"]) == (4, len(FAULTS) + 2)
    filters = outcome.report["filters"]
    assert filters["query filter"].pop("not objective") == len(FAULTS) - 2 + 2  # each third query, where there was one
    assert {stage: set(reasons) for stage, reasons in filters.items()} == counted(FAULTS)
    assert all(reject["raw"] or reject["about"] for reject in outcome.lines("rejects.jsonl"))


def test_compound_questions_load_as_compound_qa(synth, turnmark):
    outcome = synth("compound-qa", "--n", 6)
    assert outcome.ran.code == 0, outcome.ran.err
    loaded = compound_qa.load_tasks(outcome.out)
    assert not loaded.problems
    types = Counter(task.type for task in loaded.data.values())
    assert types == {**dict.fromkeys(TYPES, 1), "Factual-Statement": 2}  # the types take turns
    assert {task.capability for task in loaded.data.values()} == {"Understanding"}
    assert all(task.context for task in loaded.data.values())
    ran = turnmark.json("eval", "compound-qa", "--data", outcome.out, "--dry-run", "--out", outcome.out / "run")
    assert ran["n"] == 6
    assert not (outcome.out / "sft").exists(), "what is evaluated on is no training data"


COMPOUND_FAULTS = [
    (changed("compound-question", question="What is it?"), "question", "fewer than two questions"),
    (
        changed("compound-question", question="Is it cold? Is it wet?"),
        "keywords",
        "Cause-and-Effect: no word of list 1",
    ),
    (changed("compound-filter", fits=False), "judge", "not Cause-and-Effect"),
    (changed("compound-reference", answer=" "), "reference", "empty"),
]


def test_rejects_invalid_compound_questions(synth):
    wrong = one_an_attempt("compound-question", [fault for fault, _, _ in COMPOUND_FAULTS])
    flags = ("--n", 1, "--types", "Cause-and-Effect", "--concurrency", 1)
    outcome = synth("compound-qa", *flags, wrong=wrong)
    assert (outcome.report["kept"], outcome.report["attempts"]) == (1, len(COMPOUND_FAULTS) + 1)
    assert {stage: set(reasons) for stage, reasons in outcome.report["filters"].items()} == counted(COMPOUND_FAULTS)


def test_separate_judge_has_separate_usage(synth, tmp_path):
    (tmp_path / "home" / "config.toml").write_text(
        "[prices.writer]\nprompt = 1.0\ncompletion = 2.0\n[prices.strict]\nprompt = 100.0\ncompletion = 200.0\n"
    )
    asked = []

    def wrong(name, parts):
        asked.append((name, synth.server.bodies[-1]["model"]))
        return changed("compound-filter", fits=False)(name, parts) if len(asked) < 3 else None

    judge = f"openai:strict@{synth.server.url}"
    outcome = synth("compound-qa", "--n", 1, "--judge", judge, "--concurrency", 1, wrong=wrong)
    assert outcome.ran.code == 0, outcome.ran.err
    models = {name: {model for prompt, model in asked if prompt == name} for name, _ in asked}
    assert models == {
        "compound-question": {"writer"}, "compound-filter": {"strict"}, "compound-reference": {"writer"},
    }  # fmt: skip
    assert outcome.report["filters"] == {"judge": {"not Factual-Statement": 1}}
    usage = outcome.report["usage"]
    assert {role: used["calls"] for role, used in usage.items()} == {"generator": 3, "judge": 2}
    tokens = {role: used["prompt_tokens"] + 2 * used["completion_tokens"] for role, used in usage.items()}
    assert usage["judge"]["cost"] == pytest.approx(100 * tokens["judge"] / 1e6)
    assert usage["generator"]["cost"] == pytest.approx(tokens["generator"] / 1e6)
    assert not any("filtered too" in note for note in outcome.report["notes"])
    manifest = json.loads((outcome.out / "manifest.json").read_text("utf-8"))
    assert manifest["specs"]["judge"].startswith("openai:strict@")
    other = synth("compound-qa", "--n", 1, out=outcome.out)
    assert other.ran.code == 2, "a folder is of one judge"
    assert "judge" in other.ran.err


def test_reasoning_has_other_rules_and_files(synth):
    flags = ("--n", 1, "--types", "Hypothetical-Analysis", "--capability")
    outcome = synth("compound-qa", *flags, "Reasoning")
    assert outcome.report["kept"] == 1
    assert "the model that writes was also the filter; --judge names another" in outcome.report["notes"]
    system = " ".join(synth.server.bodies[0]["messages"][0]["content"].split())
    assert "by inference in several steps" in system
    assert list(compound_qa.load_tasks(outcome.out).data) == [outcome.lines("items.jsonl")[0]["id"]]
    assert outcome.report["files"] == ["data/Reasoning/Reasoning_Hypothetical_Analysis.jsonl"]
    bodies = len(synth.server.bodies)
    knowledge = synth("compound-qa", *flags, "Knowledge")
    assert knowledge.report["files"] == ["data/Knowledge/Knowledge_Hypothetical_Analysis.jsonl"]
    assert "inference in several steps" not in " ".join(synth.server.bodies[bodies]["messages"][0]["content"].split())


def test_all_examples_pass_the_filter_of_their_type():
    for kind, rules in load_type_rules().items():
        for example in (*rules.examples, *(rules.reasoning.examples if rules.reasoning else ())):
            assert missing_keywords(example, kind) is None, (kind, example)
    assert set(load_type_rules()) == {*TYPES}


# --- parts by themselves ---------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from(["ANSWERABLE", "PARTIAL", "UNANSWERABLE"]), min_size=8))
def test_a_conversation_is_planned_within_the_paper_s_bounds(seed, answerabilities):
    plan = ConversationPlan(random.Random(seed))
    assert 4 <= plan.turns <= 8
    before, unanswerable = (), 0
    for number in range(1, plan.turns + 1):
        step = plan.next(number, before, avoid=["Factoid"])
        assert step.kind in load_shares().kinds
        assert step.kind != "Factoid"
        assert (step.turn == "N/A") == (number == 1)
        if number == 1:
            assert step.kind != "Non-Question"
        if number == 1 or unanswerable >= 2:
            assert step.aim != "UNANSWERABLE"
        before = (step.kind,)
        plan.record(answerabilities[number - 1])
        unanswerable += answerabilities[number - 1] == "UNANSWERABLE"


def test_plans_follow_the_human_conversations():
    plan = ConversationPlan(random.Random(0))
    drawn = [plan.next(2, ("Factoid",)) for _ in range(4000)]
    share = sum(step.kind == "Factoid" for step in drawn) / len(drawn)
    smoothed = (load_shares().follows["Factoid"]["Factoid"] + 0.02) / (1 + 0.02 * len(load_shares().kinds))
    assert abs(share - smoothed) < 0.03
    clarified = sum(step.turn == "Clarification" for step in drawn) / len(drawn)
    assert abs(clarified - load_shares().clarifies) < 0.03


@settings(deadline=None)
@given(st.text(min_size=1, max_size=120), st.integers(1, 40), st.integers(0, 20))
def test_joined_passages_equal_the_document(text, size, overlap):
    def passage(start):
        end = min(len(text), start + size)
        return Passage(id=str(start), document="d", title="", text=text[start:end], start=start, end=end)

    starts = range(0, len(text), max(1, size - overlap))
    assert join_passages([passage(start) for start in starts]) == text.strip()


def test_prompts_fence_untrusted_text():
    assert len(PROMPTS.names) == 10
    for name in PROMPTS.names:
        prompt = PROMPTS.load(name)
        text_of_prompt = "\n".join(text for _, text in prompt.sections)
        assert "tag" in prompt.placeholders, name
        assert "never an" in text_of_prompt.replace("\n", " "), name
        assert "JSON object" in text_of_prompt, name
        assert "..." not in text_of_prompt, name  # a small model copies the dots of `{"question": "..."}`
