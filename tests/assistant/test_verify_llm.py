"""Verifying with a language model: one call that judges, at most one that mends, and rules where neither does."""

from __future__ import annotations

import json

import pytest
from turnmark.assistant.steps.verify_llm import ModelVerifier

from tests.assistant.endpoint import opened
from tests.assistant.notes import hit
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.steps.verify import verify
from turnmark.assistant.types import Draft, Step, Understanding, Usage

HITS = [hit("Bake the loaf at 240 degrees for forty minutes."), hit("The ferry sails at nine on weekdays.")]


QUESTIONS = ("How hot is the loaf baked?", "When does the ferry sail?")
HEAT, TIME = "Bake the loaf at 240 degrees [1].", "The ferry sails at nine [2]."
STRANGE = "Elephants paint ceilings [2]."


def verdicts(*claims: tuple[int, bool, list[int]], answered=(1, 2)) -> Say:
    rows = [
        {"sentence": n, "claim": "c", "supported": supported, "passages": passages} for n, supported, passages in claims
    ]
    return Say(json.dumps({"claims": rows, "answered": list(answered)}))


def verifier(server, questions, hits, report, options="") -> ModelVerifier:
    return ModelVerifier(opened(server, f"?retries=0{options}"), questions, hits, None, report)


def verified(*replies, text=f"{HEAT} {TIME}", questions=QUESTIONS, procedure=(), options=""):
    """What `verify` gives, the requests' last messages, the notes, and the calls that were told of."""
    reports: list[tuple[Usage, str | None]] = []
    with ScriptedServer(*replies) as server:
        result = verify(
            Draft(text=text, procedure=procedure), "answer", Understanding(rewrite="?", sub_questions=questions), HITS,
            verifier=verifier(server, questions, HITS, lambda usage, note: reports.append((usage, note)), options),
            note=lambda note: reports.append((Usage(), note)),
        )  # fmt: skip
    notes = [note for _, note in reports if note]
    calls = sum(usage.calls for usage, _ in reports)
    return result, [body["messages"][-1]["content"] for body in server.bodies], notes, calls


def test_one_call_judges_every_claim_and_part():
    (draft, checks, parts), prompts, notes, calls = verified(verdicts((1, True, [1]), (2, True, [2])))
    assert (draft.text, checks.grounded, checks.parts_answered, checks.repaired) == (f"{HEAT} {TIME}", 1.0, 1.0, False)
    assert (len(prompts), calls, notes) == (1, 1, [])
    assert [part.answered for part in parts] == [True, True]
    for phrase in ("S1| Bake the loaf at 240 degrees. [1]", "S2| The ferry", "1. How hot", "[2]\n<passage-"):
        assert phrase in prompts[0]


def test_a_sentence_is_supported_where_all_its_claims_are():
    mended = Say(HEAT)
    (draft, checks, _), prompts, _, _ = verified(
        verdicts((1, True, [1]), (1, False, []), (2, True, [2])), mended, questions=QUESTIONS[:1]
    )
    assert "not supported by the passages: Bake the loaf" in prompts[1]
    assert (draft.text, checks.repaired, checks.grounded) == (HEAT, True, 1.0)


def test_a_wrong_citation_is_put_right_by_what_the_model_saw():
    (draft, checks, _), prompts, _, _ = verified(
        verdicts((1, True, [2]), (2, True, [2])), text=f"It is said that it sails daily [1]. {TIME}"
    )
    assert draft.text == f"It is said that it sails daily. [2] {TIME}"
    assert (checks.repaired, checks.grounded, len(prompts)) == (True, 1.0, 1)


def test_what_is_not_supported_and_what_is_left_out_is_mended_once():
    (draft, checks, parts), prompts, notes, calls = verified(
        verdicts((1, True, [1]), (2, False, []), answered=[1]), Say(f"{HEAT} {TIME}"), text=f"{HEAT} {STRANGE}"
    )
    assert (draft.text, checks.repaired, checks.grounded) == (f"{HEAT} {TIME}", True, 1.0)
    assert [part.answered for part in parts] == [True, True]
    assert "not supported by the passages: Elephants" in prompts[1]
    assert "not answered: When does the ferry sail?" in prompts[1]
    assert (len(prompts), calls, notes) == (2, 2, [])


@pytest.mark.parametrize("mended", ["Elephants paint floors [2].", "I don't know.", "Nothing fits, I fear. At all."])
def test_what_is_mended_for_the_worse_is_not_taken(mended):
    (draft, checks, _), prompts, _, _ = verified(
        verdicts((1, True, [1]), (2, False, [])), Say(mended), text=f"{HEAT} {STRANGE}"
    )
    assert (draft.text, checks.repaired, len(prompts)) == (HEAT, True, 2)  # what nothing supports goes all the same


def test_steps_are_judged_and_kept():
    steps = (Step(step="Mix it.", citations=(1,)), Step(step="Bake at 240 degrees.", citations=(1,)))
    judged = verdicts((1, True, [1]), (2, False, []), (3, True, [1]), answered=[1])
    good = Say("Bake it [1].\n\nSteps:\n1. Bake the loaf [1]\n2. For forty minutes [1]")
    (draft, checks, _), prompts, _, _ = verified(
        judged, good, text="Bake it [1].", procedure=steps, questions=QUESTIONS[:1]
    )
    assert "Steps:\n1. Mix it. [1]" in prompts[1]
    assert [step.step for step in draft.procedure] == ["Bake the loaf", "For forty minutes"]
    assert checks.repaired
    lost = Say("Bake the loaf [1].")
    (draft, _, _), _, _, _ = verified(judged, lost, text="Bake it [1].", procedure=steps, questions=QUESTIONS[:1])
    assert draft.procedure == steps


@pytest.mark.parametrize("replies", [(Say("hm"), Say("hm")), (Status(500),), (Say('{"claims": 3}'), Say("{}"))])
def test_without_a_verdict_rules_judge(replies):
    (draft, checks, _), _, notes, _ = verified(*replies, Say(HEAT), text=f"{HEAT} {STRANGE}", questions=QUESTIONS[:1])
    assert (draft.text, checks.grounded) == (HEAT, 1.0)
    assert "verified by rules" in notes[0]


def test_passages_that_do_not_fit_are_judged_by_rules():
    (_, checks, _), prompts, notes, _ = verified(Say("x"), options="&context=1500", text=HEAT, questions=QUESTIONS[:1])
    assert (checks.grounded, prompts) == (1.0, [])
    assert "do not fit" in notes[0]
