"""The verify step: claims, their support, and citation marks. A draft keeps every word."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assistant.notes import hit, understood_as
from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.steps.step_results import Assessment, Draft
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.verify.claim_support import (
    Sources,
    unknown_names,
)
from turnmark.assistant.steps.verify.claims import claims_of
from turnmark.assistant.steps.verify.numbers import find_numbers, missing_numbers
from turnmark.assistant.steps.verify.verify_answer import (
    Verification,
    check_claims,
    drop_dead_marks,
    is_valid_procedure,
)
from turnmark.assistant.turn.replies import reply_of
from turnmark.assistant.types import Judgment, ProcedureStep, Reply
from turnmark.core.untrusted import CITATION_MARK
from turnmark.corpora.types import exchange

HITS = [hit("Bake the loaf at 240 degrees for forty minutes."), hit("The ferry sails at nine on weekdays.")]
RIGHT, STRANGE = "Bake the loaf at 240 degrees [1].", "Elephants paint ceilings [2]."
TWO = ("How hot is the loaf baked?", "When does the ferry sail?")


def verified(text: str, *questions: str, decision: str = "answer", draft: Draft | None = None, **understood) -> Reply:
    turn, message = Turn("How hot?"), understood_as("How hot?", *questions, **understood)
    return reply_of(turn, message, Verification()(turn, message, draft or draft_of(text, decision)))


def draft_of(text: str, decision: str = "answer", **fields) -> Draft:
    return Draft(text, Assessment(Judgment(decision=decision, confidence=1.0, reason="")), tuple(HITS), **fields)


def test_unsupported_claims_are_reported_but_kept():
    text = f"{RIGHT} The ferry sails at nine [2]. {STRANGE} It is nice."
    reply = verified(text)
    assert reply.answer == text
    assert reply.checks.unsupported == ("Elephants paint ceilings.", "It is nice.")
    assert reply.checks.grounded == pytest.approx(2 / 4)
    assert not reply.checks.citations_valid
    assert not reply.checks.repaired


@pytest.mark.parametrize(
    ("text", "grounded"),
    [
        ("You first asked which elephants paint ceilings.", 1.0),
        ("You first asked which walruses sing operas.", 0.0),
        ("Elephants paint ceilings [2].", 0.0),  # a passage is cited that does not say so
    ],
)
def test_a_sentence_without_a_mark_may_repeat_what_the_user_asked_before(text, grounded):
    checks = check_claims(
        draft_of(text), "What did I ask first?", None, ["Which elephants paint ceilings?", "And when?"]
    )
    assert checks.grounded == grounded
    assert checks.citations_valid == ("[2]" in text or grounded == 1)


def test_only_what_has_nothing_to_search_for_is_answered_from_the_conversation():
    history = exchange("Which elephants paint ceilings?", "None.")
    turn, draft = Turn("And?", history), draft_of("You first asked which elephants paint ceilings.")
    for phrases, grounded in (((), 1.0), ((("ceilings",),), 0.0)):
        checked = Verification()(turn, understood_as("And?", phrases=phrases), draft)
        assert checked.checks.grounded == grounded


@pytest.mark.parametrize("frame", ["The offer letter states that", "Im Angebotsschreiben steht, dass"])
def test_where_a_claim_stands_needs_no_words_of_the_passage(frame):
    sources = Sources(["Vacation accrues monthly."], question="What about vacation?")
    assert sources.supports(f"{frame} vacation accrues monthly.", [1])
    assert not sources.supports(f"{frame} elephants paint ceilings.", [1])


@pytest.mark.parametrize(
    ("text", "unsupported"),
    [
        ("Bake it at 250 degrees for forty minutes [1].", 1),
        ("Bake it for 50 minutes [1].", 1),
        ("The ferry sails at nine [1].", 0),  # supported by another passage
    ],
)
def test_wrong_number_or_passage_does_not_support_a_claim(text, unsupported):
    checks = verified(text).checks
    assert (checks.grounded, len(checks.unsupported)) == (0.0, unsupported)


@pytest.mark.parametrize("text", [f"{RIGHT} I don't know when the ferry sails.", f"## Bread\n\n{RIGHT}\n\nWhat else?",
                                  f"Do this:\n\n- {RIGHT}", f"{RIGHT}\n\n```sh\nrm -rf /elephants\n```"])  # fmt: skip
def test_text_without_claims_needs_no_citation(text):
    reply = verified(text, decision="partial")
    assert (reply.answer, reply.checks.grounded, reply.checks.citations_valid) == (text, 1.0, True)


@pytest.mark.parametrize(("decision", "answered"), [("unknown", False), ("clarify", False), ("converse", True)])
def test_replies_without_evidence_are_not_checked(decision, answered):
    reply = verified(STRANGE, decision=decision)
    assert (reply.checks.grounded, reply.checks.unsupported) == (None, ())
    assert [part.answered for part in reply.sub_questions] == [answered]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("APT keeps each .deb file [1] [7]. It is big [7] .", "APT keeps each .deb file [1]. It is big."),
        ("So [1, 9], so [7-9] and `x[9]`\n```\n[9]\n```\n[9]", "So [1], so and `x[9]`\n```\n[9]\n```\n"),
        ("a [0].", "a."),
        ("So (see [9]), or so (see [1] [9]).", "So, or so (see [1])."),
        ("a [9]  \nb ; `c ;` [1] ;", "a  \nb ; `c ;` [1] ;"),  # everything else is unchanged
    ],
)
def test_removes_citation_marks_without_a_source(text, left):
    steps = (ProcedureStep(step="a", citations=(1, 9)),)
    draft, repaired = drop_dead_marks(draft_of(text, procedure=steps))
    assert draft.text == left
    assert draft.procedure[0].citations == (1,)
    assert repaired


TEXTS = st.lists(
    st.sampled_from([RIGHT, STRANGE, "It is nice.", "The ferry sails [9].", "\n\n- Bake it", "[1]", "I don't know."]),
    max_size=6,
).map(" ".join)


@given(TEXTS | st.text(max_size=60))
@settings(max_examples=120)
def test_verification_keeps_all_words_and_is_idempotent(text):
    once = verified(text)
    assert "".join(CITATION_MARK.sub("", once.answer).split()) == "".join(CITATION_MARK.sub("", text).split())
    assert all(1 <= n <= len(HITS) for n in cited_numbers(once.answer)) or "`" in text
    assert once.checks.repaired or once.answer == text
    again = verified(once.answer)
    assert (again.answer, again.checks.grounded) == (once.answer, once.checks.grounded)


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("Bake the loaf at 240 degrees [1]. The ferry sails at nine [2].", [True, True]),
        ("The ferry sails at nine [2]. The documents do not say how hot the loaf is baked.", [False, True]),
        ("Yes [1]. No [2].", [True, True]),  # an answer would say that a part is unknown
    ],
)
def test_reports_which_parts_are_answered(text, answered):
    reply = verified(text, *TWO)
    assert [part.answered for part in reply.sub_questions] == answered
    assert reply.checks.parts_answered == sum(answered) / 2


@pytest.mark.parametrize(
    ("steps", "valid"),
    [
        ([("Mix.", (1,)), ("Bake.", (1,))], True),
        ([("Mix.", (1,))], False),
        ([("Mix.", (1,)), ("Mix.", (1,))], False),
        ([("Mix.", (1,)), ("Bake.", ())], False),
        ([("Mix.", (1,)), ("Bake\n- slowly", (1,))], False),
    ],
)
def test_procedure_needs_distinct_cited_steps(steps, valid):
    procedure = tuple(ProcedureStep(step=text, citations=numbers) for text, numbers in steps)
    assert is_valid_procedure(procedure) is valid
    draft = draft_of(RIGHT, procedure=procedure)
    assert verified("", draft=draft, wants_procedure=True).checks.procedure_valid is valid
    assert verified("", draft=draft).checks.procedure_valid is None


# -- claims and their support


LABELS = tomllib.loads(Path(__file__).with_name("claim_labels.toml").read_text("utf-8"))["case"]
LABELLED = [
    (case, label, text) for case in LABELS for label in ("supported", "wrong", "none") for text in case.get(label, ())
]


@pytest.mark.parametrize(("case", "label", "text"), LABELLED)
def test_checks_agree_with_labels_by_hand(case, label, text):
    sources = tuple(hit(source, number) for number, source in enumerate(case.get("sources", ("Nothing.",)), 1))
    checks = check_claims(replace(draft_of(text), hits=sources), case.get("question", ""), minilm)
    assert {None: "none", 1.0: "supported"}.get(checks.grounded, "wrong") == label


def test_wording_of_a_translated_answer_is_not_checked():
    assert (
        verified("Man backt das Brot bei 240 Grad, und zwar für vierzig Minuten [1].").checks.wording_checked is False
    )
    assert verified(RIGHT).checks.wording_checked


def test_procedure_is_judged_only_if_steps_were_given():
    assert verified(RIGHT, wants_procedure=True).checks.procedure_valid is None


LOAF = "Loaf\nBake the loaf at 240 degrees for forty-five minutes. Idris Brannock sells 1,250 of them a year."


def minilm(texts):
    from turnmark.retrieval.embedding.embedders import open_embedder

    return open_embedder("minilm").encode(list(texts), "passage")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It cost £7.20, or 1,250.50 in all.", {"7.2", "1250.5"}),
        ("1. In 1868 it burned 20% more. [3]", {"1868", "20"}),
        ("From 1885-1890 and in the 1990s.", {"1885", "1890", "1990"}),
        ("Forty-five of them, thirty, and two ways.", {"45", "30"}),
        ("Three hundred people, one of them old.", {"300"}),
        ("H2O and v1 are names.", set()),
        ("Nothing here.", set()),
    ],
)
def test_finds_numbers(text, numbers):
    assert find_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("The loaf is sold by Idris Brannock.", ()),
        ("The loaf is sold by Wynn Brannock.", ()),  # the last word of a name decides
        ("The loaf is sold by Idris Rook and eaten in Kelmouth.", ("Idris Rook", "Kelmouth")),
        ("It is Italian, for all that FDA says.", ()),
        ("It was sold by World Trade and by the Food and Drug people.", ("World Trade",)),
        ("Two things:\n- Stability of the Marigold: Renting it.", ("Marigold",)),
        ("Kelmouth has it, and I say so.", ()),  # the first word of a sentence may not be a name
    ],
)
def test_finds_names_missing_from_the_sources(text, strange):
    sources = ["Idris Brannock, a baker.", "Bread from Italy, says the food and drug administration, or W.T.O."]
    assert unknown_names(text, sources) == strange


@given(st.text(max_size=120))
@settings(max_examples=100, deadline=None)
def test_text_contains_its_own_numbers_and_names(text):
    assert not missing_numbers(text, [text])
    assert not unknown_names(text, [text])


def test_splits_text_into_claims_with_their_citations():
    text = "## Bread\nBake it. [1] It sails [1, 2].\n[3]\n\nThere are two:\n- one [1]\n\nI don't know the rest."
    rows = [(claim.text, claim.numbers) for claim in claims_of(text)]
    assert rows == [("Bake it.", [1]), ("It sails.", [1, 2, 3]), ("one", [1])]


def test_cosine_supports_paraphrases_without_new_names_or_numbers():
    texts = [LOAF, "Fares\nPurchasing tickets is possible aboard the vessel."]
    claim = "You can buy a ticket on the ship."
    assert not Sources(texts).supports(claim, [2])
    like = Sources(texts, minilm)
    assert like.best_cosine(claim, [2]) > like.best_cosine(claim, [1]) + 0.3
    assert like.supports(claim, [2])
    assert not like.supports(claim, [1])
    assert not like.supports(claim.replace("the ship", "the ship Marigold"), [2])
    assert not like.supports(claim.replace("a ticket", "7 tickets"), [2])


def test_subject_of_a_mail_claims_nothing_however_long_it_is():
    subject = "Betreff: WebSocket für Uptime Kuma durch den neuen nginx-Proxy"
    mail = f"{subject}\n\nHallo,\n\nbitte setze den Header [1].\n\nDank"
    assert [claim.text for claim in claims_of(mail)] == ["bitte setze den Header."]
