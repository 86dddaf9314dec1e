"""The embedded judge: what it measures and says, its IDK verdict, and that it agrees with people well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.patience import PATIENCE
from turnmark.assistant.wording.refusals import refusal_extent, refusal_wording
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.embedded_judge import (
    APPROPRIATENESS,
    COMPLETENESS,
    FAITHFULNESS,
    FEATURES,
    NoModel,
    SentenceVectors,
    extractive_rubrics,
    reply_features,
)
from turnmark.evaluation.tasks.items import Case
from turnmark.retrieval.embedding.embedders import shared_embedder

PASSAGES = (
    "The night ferry leaves Harwich at eleven in the evening and reaches the Hook of Holland at eight. Cabins have to "
    "be booked ahead; a berth costs forty euros.",
    "Bicycles travel free of charge. Dogs stay in the car or in a kennel on deck nine.",
)
QUESTION = "When does the night ferry leave?"
GOOD = "The night ferry leaves Harwich at eleven in the evening."
BAD = "The morning train departs from Lisbon at a quarter past six and serves champagne breakfasts."


@pytest.fixture(scope="module")
def embed():
    return shared_embedder("minilm")


@pytest.fixture(scope="module")
def measures(embed):
    return {rubric.name: rubric for rubric in extractive_rubrics(embed, "minilm")}


def case(answer, **more):
    return Case(**{"question": QUESTION, "answer": answer, "passages": PASSAGES, "reference": GOOD} | more)


def said(measures, name, reply):
    return measures[name].ask(NoModel(), reply, None)


def test_features_match_hand_computed_values():
    """Over vectors of two directions: what is about ferries, and what is not."""

    def embed(texts):
        return np.array([[1.0, 0.0] if "ferry" in text else [0.0, 1.0] for text in texts], dtype=np.float32)

    reply = Case(
        question="Which ferry?", answer="The ferry sails. It rains frogs today.", passages=("A ferry sails at noon.",),
        reference="The ferry sails. Tea is served on board daily.",
    )  # fmt: skip
    assert reply_features(reply, SentenceVectors(embed), tuple(FEATURES)) == {
        "strange": pytest.approx(3 / 5),  # rains, frogs, today; not: ferry, sails
        "meant": pytest.approx(3 / 7),  # three words near the passage, four not
        "evidence": 1.0,
        "covered": 1.0,  # each sentence of the reference has one of its direction
        "on_topic": 1.0,
    }


def test_supported_reply_is_more_faithful_than_an_unsupported_one(measures):
    good, bad = said(measures, FAITHFULNESS, case(GOOD)), said(measures, FAITHFULNESS, case(BAD))
    assert good.value - bad.value > 0.3
    assert good.parts == (f"supported: {GOOD}",)
    assert bad.parts == (f"not supported: {BAD}",)
    assert BAD in bad.reason


CAT = "Your cat Mirabel weighs nine pounds."
TOLD = (Message(role="user", content="My cat Mirabel weighs nine pounds."),)


@pytest.mark.parametrize(
    ("reply", "history", "verdict"),
    [(GOOD.replace("eleven in the evening", "23:45"), (), "not supported"), (CAT, (), "not supported"),
     (CAT, TOLD, "supported")],
)  # fmt: skip
def test_numbers_need_support_and_earlier_turns_give_it(measures, reply, history, verdict):
    assert said(measures, FAITHFULNESS, case(reply, history=history)).parts == (f"{verdict}: {reply}",)


def test_a_reply_that_claims_nothing_is_not_applicable(measures):
    outcome = said(measures, FAITHFULNESS, case("I don't know: the passages do not mention it."))
    assert outcome.status == "not_applicable"
    assert outcome.value is None


@pytest.mark.parametrize(("reply", "status"), [
    ("Yes. [1]", "not_applicable"), ("It is so.", "not_applicable"), ("42 [1]", "scored"), ("At noon.", "scored"),
])  # fmt: skip
def test_reply_without_a_content_word_is_not_judged_as_supported(measures, reply, status):
    assert said(measures, FAITHFULNESS, case(reply)).status == status


def test_complete_reply_scores_higher_than_a_partial_one(measures):
    reference = f"{GOOD} Bicycles travel free of charge. A berth costs forty euros."
    all_of_it, part = (
        said(measures, COMPLETENESS, case(text, question="Anything else?", reference=reference)).value
        for text in (reference, GOOD)
    )
    assert all_of_it > part


def test_missing_material_is_not_applicable(measures):
    assert measures[FAITHFULNESS].without(case(GOOD, passages=None))
    assert measures[FAITHFULNESS].without(case(GOOD, reference="")) is None
    assert measures[COMPLETENESS].without(case(GOOD, reference=" "))
    assert measures[APPROPRIATENESS].without(case(GOOD, reference=""))
    assert all(rubric.without(case(GOOD, answerability="UNDERSPECIFIED")) for rubric in measures.values())
    assert not any(rubric.without(case(GOOD)) for rubric in measures.values())


@pytest.mark.data
def test_agrees_with_people_better_than_shared_words(real_data: Path, embed):
    from tests.benchmarks.judging import RATED, REFERENCE, baselines, correlated, evaluated, held_out, measured

    rows = [row for row in evaluated(real_data / RATED) if row.system != REFERENCE]
    assert len(rows) == 158
    y = np.array([row.people["faithfulness"] for row in rows])
    measured_rows = measured(rows, embed)
    x = np.stack([measured_rows[name] for name in ("strange", "meant", "evidence")], axis=1)
    words = baselines(rows, "faithfulness")["k_precision[+history]"]
    predicted = held_out(x, y, [row.system for row in rows], [row.conversation for row in rows])
    report = correlated(predicted, y, rows, words)
    assert float(report.split()[0]) >= 0.67
    assert float(report.rsplit("[", 1)[1].split(",")[0]) > 0  # the low end of the interval of the difference


# Labelled by hand from the three definitions of MTRAG's appendix F.3, before the detector was asked.
LABELLED = [
    ("I don't know.", "yes"),
    ("I'm sorry, but I cannot answer that from the passages I was given.", "yes"),
    ("The passages do not mention opening hours. I cannot answer this question based on the available context.", "yes"),
    ("I do not have specific information about the bridge. If you tell me which bridge you mean, I can help.", "yes"),
    ("No information is provided about the tariff. The documents only discuss routes and stops.", "yes"),
    ("The text does not specify the year.", "yes"),
    ("I don’t know what it costs [1][2].", "yes"),
    ("The mill was built by two brothers in 1871. What it cost is not mentioned in the documents.", "partial"),
    ("The ferry leaves at nine on weekdays. However, the documents do not say when it leaves on Sundays.", "partial"),
    ("The documents do not give an exact figure. However, the valley had about four thousand inhabitants in 1900, most "
     "of them farmers and shepherds who moved up to the pastures in summer.", "partial"),
    ("The pass is closed from November, so you will need another way.", "no"),
    ("Please book ahead. If you come by train, a bus meets you at the station.", "no"),
    ("Hello! Ask me anything about your documents.", "no"),
    ("", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "label"), LABELLED)
def test_idk_verdicts_match_labeled_replies(reply: str, label: str):
    assert refusal_extent(reply) == label


@pytest.mark.data
def test_agrees_with_the_official_judge(real_data: Path):
    """What is promised, each system tested with the number chosen on the other."""
    from tests.benchmarks.judging import RECORDED, best_claimed, recorded

    rows = [row for row in recorded(real_data / RECORDED) if row.idk is not None]
    systems = sorted({row.system for row in rows})
    assert len(systems) == 2
    for system in systems:
        tested = [row for row in rows if row.system == system]
        most = best_claimed([row for row in rows if row.system != system])
        verdicts = [refusal_wording(row.case.answer).extent(most) for row in tested]
        assert len(verdicts) == 219
        assert sum((a == "yes") == (row.idk == "yes") for a, row in zip(verdicts, tested, strict=True)) / 219 >= 0.95
        assert sum(a == row.idk for a, row in zip(verdicts, tested, strict=True)) / 219 >= 0.92


SCRIPT = """
import threading, time
import numpy as np
from turnmark.retrieval.embedding.embedders import SharedEmbed

began = threading.Event()

def encode(texts):
    began.set()
    time.sleep(0.3)
    print(*texts, flush=True)
    return np.zeros((len(texts), 1), np.float32)

embed = SharedEmbed(encode)
for text in ("first", "second"):
    threading.Thread(target=embed, args=([text],), daemon=True).start()
    began.wait()
"""


def test_interrupt_finishes_the_current_text_only():
    """A thread that is in native code when the interpreter ends aborts the process, and its exit code is lost."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "first\n", "")
