"""Compound-QA's judge against three people (section 5), by `turnmark agreement`: majority, accuracy, TPR, FPR."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.evaluation.compared import write_run
from turnmark.evaluation.agreement.measuring import agreement

NUMBERS = {"A > B": 1.0, "A = B": 0.5, "B > A": 0.0}
A, TIE, B = NUMBERS
# What three people say, and the judge: two of three count, one who differs does not, three who differ are left out.
PAIRS = [
    ((A, A, A), A), ((A, TIE, A), A), ((B, A, A), A), ((A, A, TIE), TIE), ((TIE, TIE, TIE), TIE),
    ((TIE, A, TIE), TIE), ((TIE, TIE, B), B), ((B, B, B), B), ((B, TIE, B), B), ((A, B, B), B), ((A, TIE, B), A),
]  # fmt: skip
IDS = [f"Understanding/Factual-Statement/x_{n}" for n in range(len(PAIRS))]


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    """Ratings in the format of InspectorRAGet, A being the model's answer and B the reference; and a judged run."""
    values = [{"value": label, "numeric_value": number} for label, number in NUMBERS.items()]
    content = {
        "name": "pairs", "models": [{"model_id": "tiny", "name": "Tiny"}],
        "metrics": [{"name": "preference", "author": "human", "type": "categorical", "values": values}],
        "tasks": [{"task_id": name, "input": [{"text": "q"}], "targets": [{"text": "r"}]} for name in IDS],
        "evaluations": [
            {"task_id": name, "model_id": "tiny", "model_response": f"answer of {name}",
             "annotations": {"preference": {f"p{n}": {"value": label} for n, label in enumerate(people)}}}
            for name, (people, _) in zip(IDS, PAIRS, strict=True)
        ],
    }  # fmt: skip
    file = tmp_path / "people.json"
    file.write_text(json.dumps(content))
    judgements = {name: NUMBERS[judge] for name, (_, judge) in zip(IDS, PAIRS, strict=True)}
    return file, write_run(tmp_path / "run", {"preference": judgements}, benchmark="compound-qa", setting=None)


def test_a_judge_of_pairs_is_a_classifier_of_three_labels(sources: tuple[Path, Path]) -> None:
    (measured,) = agreement(list(sources)).verdicts
    assert (measured.judge, measured.against) == ("preference", "preference (two of three people)")
    assert measured.n == 10, "where all three differ there is no label"
    assert measured.accuracy == 8 / 10
    assert {name: (label.support, label.recall, label.fpr) for name, label in measured.labels.items()} == {
        A: (4, 3 / 4, 0.0), TIE: (3, 2 / 3, 1 / 7), B: (3, 1.0, 1 / 7),
    }  # fmt: skip
    assert measured.mean_tpr == pytest.approx((3 / 4 + 2 / 3 + 1) / 3)
    assert measured.mean_fpr == pytest.approx(2 / 21)


def test_the_command_shows_it_with_the_papers_figures(sources: tuple[Path, Path], turnmark: Turnmark) -> None:
    ran = turnmark.ok("agreement", *sources)
    printed_text = " ".join(ran.out.split())
    assert "A = B" in printed_text
    assert "0.806" in printed_text  # the mean of the TPR
    assert "accuracy .81, mean TPR .8844 and mean FPR .1047" in printed_text
    printed = turnmark.json("agreement", *sources)
    assert printed["annotators"]["preference"]["n"] == len(PAIRS)
    assert [verdict["judge"] for verdict in printed["verdicts"]] == ["preference"]
