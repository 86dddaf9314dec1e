"""Compound-QA's judges: pairs in both orders, answers to the parts, errors; by a scripted endpoint and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.judged_runs import compound_replies, lines
from tests.evaluation.reported import golden
from tests.servers import ScriptedServer
from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.compound_qa.generation import CompoundQA
from turnmark.evaluation.benchmarks.compound_qa.rubrics import (
    ERRORS,
    MARGINS,
    SUB_QUESTIONS_RUBRIC,
    WHOLE_REPLY,
    compare_replies,
)
from turnmark.evaluation.records import MetricSummary
from turnmark.evaluation.tasks.items import Case

MIRRORED = {"A>>B": "B>>A", "A>B": "B>A", "A=B": "A=B", "B>A": "A>B", "B>>A": "A>>B"}
LABELS = st.sampled_from(list(MIRRORED))
OURS, THEIRS = "The lamp burned oil.", "It burned rape oil, from 1868 on."


@dataclass
class Speaks:
    """A judge that says what a function of the prompt gives; it keeps what it was asked."""

    says: Callable[[str], str]
    prompts: list[str] = field(default_factory=list)
    name, context_tokens, reply_tokens = "speaks", 8192, 512

    def complete(self, messages, **_):
        self.prompts.append("\n".join(message.content for message in messages))
        usage = Usage(calls=1, prompt_tokens=3, completion_tokens=2)
        text = self.says(self.prompts[-1])
        return Completion(text=text, finish_reason="stop", usage=usage, model="speaks", max_tokens=512)


def first_is(prompt, text):
    """Whether a text is reply A of a prompt that compares."""
    return text in prompt.partition("\nReply A:\n")[2].partition("\nReply B:\n")[0]


def labelled(ours_first, theirs_first, ours=OURS):
    return Speaks(lambda prompt: f"So.\nVerdict: [[{ours_first if first_is(prompt, ours) else theirs_first}]]")


def whole(judge, answer=OURS, reference=THEIRS):
    return WHOLE_REPLY.ask(judge, Case(question="What did it burn?", answer=answer, reference=reference), None)


@pytest.mark.parametrize(
    ("ours_first", "theirs_first", "value", "flipped", "first", "preference"),
    [
        ("A>>B", "B>A", 1.0, 0.0, 0.5, 1.0),  # ours, twice
        ("A>B", "A>B", 0.5, 1.0, 1.0, 0.5),  # whichever comes first
        ("B>A", "B>>A", 0.5, 1.0, 0.0, 0.5),  # whichever comes last
        ("B>A", "A>>B", 0.0, 0.0, 0.5, 0.0),  # theirs, twice
        ("A=B", "A=B", 1.0, 0.0, None, 0.5),  # a tie counts as a win
        ("A=B", "A>B", 0.5, 1.0, 1.0, 0.5),
    ],
)
def test_verdicts_of_both_orders_match_hand_computed_values(
    ours_first, theirs_first, value, flipped, first, preference
):
    judge = labelled(ours_first, theirs_first)
    case = Case(question="What did it burn?", answer=OURS, reference=THEIRS, passages=("SECRET",))
    outcome = WHOLE_REPLY.ask(judge, case, None)
    assert (outcome.status, outcome.value) == ("scored", value)
    assert outcome.also == {"win_rate.flips": flipped, "win_rate.first": first, "preference": preference}
    assert outcome.parts == (f"ours first: {ours_first}", f"reference first: {theirs_first}")
    assert outcome.usage.calls == len(judge.prompts) == 2
    assert first_is(judge.prompts[0], OURS)
    assert first_is(judge.prompts[1], THEIRS)
    assert "What did it burn?" in judge.prompts[0]
    assert "SECRET" not in judge.prompts[0], "the paper's judge sees no context"


@settings(deadline=None, max_examples=30)  # each example renders prompts
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=5))
def test_mirroring_order_and_labels_changes_nothing(verdicts):
    """A judge that sees each pair the other way round, and says the mirrored label, gives the same win rate."""
    plain = [compare_replies(labelled(label, second_label), "q", OURS, THEIRS) for label, second_label in verdicts]
    mirrored = [
        compare_replies(labelled(MIRRORED[second_label], MIRRORED[label]), "q", OURS, THEIRS)
        for label, second_label in verdicts
    ]
    rates = [[pair.wins for pair in pairs] for pairs in (plain, mirrored)]
    assert rates[0] == rates[1]
    assert [pair.winner for pair in plain] == [pair.winner for pair in mirrored]
    # The paper's mean over the 2n judgments, counted from the labels.
    wins = sum((MARGINS[label] >= 0) + (MARGINS[second_label] <= 0) for label, second_label in verdicts)
    assert sum(rates[0]) / len(verdicts) == pytest.approx(wins / (2 * len(verdicts)))
    # What the position earns is turned round.
    for pairs in zip(plain, mirrored, strict=True):
        first, second = (pair.to_first for pair in pairs)
        assert (first is None) == (second is None)
        assert first is None or second is None or first + second == 1


def parted(*parts, order="", answer="All of it."):
    """Sub-question, what was said to it (None: not asked by itself), reference."""
    more = [(f"part {n}", part) for n, (part, _, _) in enumerate(parts, 1)]
    more += [
        (f"given {n}", answer_given) for n, (_, answer_given, _) in enumerate(parts, 1) if answer_given is not None
    ]
    more += [(f"reference {n}", reference) for n, (_, _, reference) in enumerate(parts, 1)]
    more += [("order", order)] if order else []
    return Case(question="all", answer=answer, more=tuple(more))


def test_separately_asked_parts_are_compared_one_by_one():
    judge = Speaks(lambda prompt: f"Verdict: [[{'A>B' if first_is(prompt, 'good') else 'B>A'}]]")
    case = parted(("One?", "good", "r1"), ("Two?", "poor", "r2"), ("Three?", "", "r3"), ("Four?", "good", " "))
    outcome = SUB_QUESTIONS_RUBRIC.ask(judge, case, None)
    # good wins in both orders; poor loses first and wins second (B>A twice: the judge prefers what comes last);
    # the third was not answered; of the fourth nobody knows the answer.
    assert (outcome.value, outcome.weight) == (pytest.approx((1 + 0.5 + 0) / 3), 3), "pooled over the sub-questions"
    assert outcome.also["sub_win_rate.flips"] == 0.5
    assert len(judge.prompts) == 4
    assert outcome.parts[2:] == ("3: not answered, which loses in both orders", "4: no reference answer")


def test_parts_of_one_reply_are_extracted_first():
    def says(prompt):
        if "You copy out of a reply" in prompt:
            return "None." if "Two?" in prompt else "the copied words"
        return f"Verdict: [[{'A>B' if first_is(prompt, 'copied') else 'B>A'}]]"

    judge = Speaks(says)
    outcome = SUB_QUESTIONS_RUBRIC.ask(judge, parted(("One?", None, "r1"), ("Two?", None, "r2")), None)
    assert outcome.value == 0.5
    assert len(judge.prompts) == outcome.usage.calls == 4
    assert "All of it." in judge.prompts[0]
    assert "All of it." not in judge.prompts[1]


def test_positions_follow_the_order():
    judge = Speaks(lambda prompt: f"Verdict: [[{'A>B' if first_is(prompt, 'good') else 'B>A'}]]")
    case = parted(("Two?", "good", "r"), ("Three?", "", "r"), ("One?", "good", "r"), order="1 2 0")
    assert SUB_QUESTIONS_RUBRIC.ask(judge, case, None).also == {
        "sub_win_rate[per question]": 2 / 3,
        "sub_win_rate.flips": 0.0, "sub_win_rate.q2@1": 1.0, "sub_win_rate.q3@2": 0.0, "sub_win_rate.q1@3": 1.0,
    }  # fmt: skip


def test_part_without_a_verdict_fails_the_sample():
    half = Speaks(lambda prompt: "Verdict: [[A>B]]" if first_is(prompt, OURS) else "I cannot say.")
    outcome = whole(half)
    assert (outcome.status, outcome.kind, outcome.usage.calls) == ("failed", "invalid", 3), "half a pair is no verdict"
    outcome = SUB_QUESTIONS_RUBRIC.ask(Speaks(lambda _: "No."), parted(("One?", "x", "r")), None)
    assert (outcome.status, outcome.reason.startswith("sub-question 1: ")) == ("failed", True)
    assert SUB_QUESTIONS_RUBRIC.ask(Speaks(lambda _: "No."), parted(("One?", "x", "")), None).status == "not_applicable"
    assert "--references" in (SUB_QUESTIONS_RUBRIC.without(Case(question="q", answer="a")) or "")


def summed(mean, n):
    return MetricSummary(mean=mean, ci95=None, n=n, failed=0, not_applicable=0)


@pytest.mark.parametrize(("wins", "flips", "first", "words"), [
    (0.5, 1.0, (1.0, 20), ["win_rate: the orders disagree on 20 of 20: no information"]),
    (1.0, 0.0, (None, 0), ["win_rate: both orders of all 20 are ties: no information"]),
    (0.7, 0.1, (0.5, 18), []),
])  # fmt: skip
def test_judge_without_information_is_reported_in_words(wins, flips, first, words):
    metrics = {"win_rate": summed(wins, 20), "win_rate.flips": summed(flips, 20), "win_rate.first": summed(*first)}
    assert list(CompoundQA.warn_of(None, metrics)) == words


def test_empty_reply_loses_without_a_call():
    judge = labelled("A=B", "A=B")
    outcome = whole(judge, answer=" ")
    assert (outcome.status, outcome.value, outcome.also["preference"]) == ("scored", 0.0, 0.0)
    parts = SUB_QUESTIONS_RUBRIC.ask(judge, parted(("One?", None, "r1"), ("Two?", None, "r2"), answer=""), None)
    assert (parts.status, parts.value) == ("scored", 0.0)
    errors = ERRORS.ask(judge, Case(question="q", answer="", more=(("part 1", "One?"),)), None)
    assert (errors.value, errors.also) == (1.0, {"merged": 0.0, "wrong_language": 0.0})
    assert judge.prompts == []


TWO_PARTS = Case(question="q", answer="So.", more=(("part 1", "One?"), ("part 2", "Two?")))


def test_errors_name_existing_parts_by_number():
    judge = Speaks(lambda _: '{"omitted": [2], "merged": [], "wrong_language": true, "reason": "Two is left out."}')
    outcome = ERRORS.ask(judge, TWO_PARTS, None)
    assert (outcome.value, outcome.also) == (1.0, {"merged": 0.0, "wrong_language": 1.0})
    assert outcome.parts == ("omitted: 2", "merged: none")
    assert "1. One?\n2. Two?" in judge.prompts[0]
    for omitted, merged in (("3", ""), ("", "1")):
        judge = Speaks(lambda _, o=omitted, m=merged: f'{{"omitted": [{o}], "merged": [{m}], "wrong_language": false}}')
        assert ERRORS.ask(judge, TWO_PARTS, None).status == "failed"
        assert len(judge.prompts) == 2, "asked for once more"


def test_references_come_from_a_run(turnmark, tmp_path, check_run):
    with ScriptedServer(compound_replies) as server:
        spec, judge, refs = (f"openai:{name}@{server.url}?cache=0" for name in ("tiny", "judge", "refs"))
        common = ("eval", "compound-qa", "--limit", "1", "--generator")
        turnmark.ok(*common, refs, "--setting", "dialogue", "--out", "refs")
        judged = ("--references", "refs", "--judge", judge)
        summary = turnmark.json(*common, spec, "--setting", "vanilla", *judged, "--out", "run")
        before = len(server.bodies)
        turnmark.ok("score", "compound-qa", "--predictions", "refs", *judged, "--out", "scored")
        assert len(server.bodies) > before
    check_run(tmp_path / "run")
    printed = turnmark.ok("report", "run").out
    table = printed[printed.index("Means") : printed.index("Judges")]
    golden("compound_qa.txt", "\n".join(line.rstrip() for line in table.split("\n")))
    means = {name: metric["mean"] for name, metric in summary["metrics"].items()}
    assert (means["win_rate"], means["win_rate.flips"], means["win_rate.first"]) == (1.0, 0.0, 0.5)
    assert (means["preference"], means["omitted"], means["sub_win_rate"]) == (1.0, 0.0, 1.0)
    assert set(summary["breakdowns"]["type"]["Factual-Statement"]) >= {"win_rate", "sub_win_rate"}
    assert any(row["source"].startswith("Compound-QA Table 2") for row in summary["published"])
    assert not any(row["comparable"] for row in summary["published"])
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert set(manifest["inputs"]) == {"references", "prompt compound-vanilla"}
    assert {"pairwise", "compound-errors", "compound-extract"} <= set(manifest["judge_prompts"])
    rows = lines(tmp_path / "scored/scores.jsonl")
    assert [row["status"] for row in rows if row["metric"] == "sub_win_rate"][:1] == ["scored"]
