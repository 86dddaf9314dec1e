"""The IDK verdict by wording."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.evaluation.judging.idk import kind_of, says_idk, wording

# Labelled by hand from the three definitions of MTRAG's appendix F.3, before the detector was asked.
LABELLED = [
    ("I don't know.", "yes"),
    ("I'm sorry, but I cannot answer that from the passages I was given.", "yes"),
    ("The documents provided do not contain information about ferry prices.", "yes"),
    ("The passages do not mention opening hours. I cannot answer this question based on the available context.", "yes"),
    ("There is no information about winter closures in the provided documents. Please ask the office.", "yes"),
    ("I do not have specific information about the bridge. If you tell me which bridge you mean, I can help.", "yes"),
    ("No information is provided about the tariff. The documents only discuss routes and stops.", "yes"),
    ("Unfortunately, the given context doesn't say who built the mill.", "yes"),
    ("I do not have access to current prices. To find them, you would need to consult the operator.", "yes"),
    ("The text does not specify the year.", "yes"),
    ("The mill was built by two brothers in 1871. What it cost is not mentioned in the documents.", "partial"),
    ("The ferry leaves at nine on weekdays. However, the documents do not say when it leaves on Sundays.", "partial"),
    ("The documents do not give an exact figure. However, the valley had about four thousand inhabitants in 1900, most "
     "of them farmers and shepherds who moved up to the pastures in summer.", "partial"),
    ("It is unclear whether the path is open. Snow usually closes the pass from November until late in May, and the "
     "huts along it are locked then.", "partial"),
    ("The pass is closed from November, so you will need another way.", "no"),
    ("No, the path is not open in winter.", "no"),
    ("You don't have to pay for children under six.", "no"),
    ("Nobody knows the valley better than its shepherds, who have lived there for centuries.", "no"),
    ("Please book ahead. If you come by train, a bus meets you at the station.", "no"),
    ("Hello! Ask me anything about your documents.", "no"),
    ("", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "label"), LABELLED)
def test_labelled_replies(reply: str, label: str):
    assert says_idk(reply) == label


def test_what_is_set_against_the_lack_makes_it_partial():
    lack = "The documents do not mention the price."
    assert says_idk(lack) == "yes"
    assert says_idk(
        f"{lack} While the document describes the cabins and their beds in detail, it names no tariff."
    ) == ("partial")


def test_marks_and_typographic_apostrophes_change_nothing():
    assert says_idk("I don’t know what it costs [1][2].") == says_idk("I don't know what it costs.") == "yes"


def test_kinds_of_sentences():
    assert kind_of("The provided documents do not detail the route.") == "lack"
    assert kind_of("Please consult the timetable.") == "aside"
    assert kind_of("The documents discuss ferries only.") == "about"
    assert kind_of("Ferries leave at nine.") == "claim"


@pytest.mark.data
def test_agreement_with_the_official_judge(real_data: Path):
    """What is promised, each system tested with the number chosen on the other."""
    from tests.benchmarks.judging import RECORDED, best_claimed, recorded

    rows = [row for row in recorded(real_data / RECORDED) if row.idk is not None]
    systems = sorted({row.system for row in rows})
    assert len(systems) == 2
    for system in systems:
        tested = [row for row in rows if row.system == system]
        most = best_claimed([row for row in rows if row.system != system])
        verdicts = [wording(row.case.answer).verdict(most) for row in tested]
        assert len(verdicts) == 219
        assert sum((a == "yes") == (row.idk == "yes") for a, row in zip(verdicts, tested, strict=True)) / 219 >= 0.95
        assert sum(a == row.idk for a, row in zip(verdicts, tested, strict=True)) / 219 >= 0.92
