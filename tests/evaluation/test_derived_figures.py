"""Figures derived from other metrics: the ranking of SemEval-2026 Task 8, and length-controlled win rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from turnmark.evaluation.records import Score
from turnmark.evaluation.scores.derived_figures import (
    CONTROLLED_WINS,
    EXTRA_WORDS,
    SEMEVAL,
    SEMEVAL_PARTS,
    WINS,
    length_controlled,
)
from turnmark.evaluation.scores.published_results import published_facts
from turnmark.evaluation.scores.score_tally import Facts, ScoreTally

PRINTED = {
    "reference": {"Reference": .89, "GPT-4o": .60, "Llama 3.1 405B Instruct": .60, "GPT-4o-mini": .57,
                  "Qwen 2.5 (72B)": .57, "Command-R+ (104B)": .57, "Qwen 2.5 (7B)": .55, "Llama 3.1 70B Instruct": .54,
                  "Mixtral 8x22B Instruct": .51, "Llama 3.1 8B Instruct": .45},
    "rag": {"Reference": .81, "GPT-4o": .53, "Llama 3.1 405B Instruct": .53, "Qwen 2.5 (72B)": .52,
            "Llama 3.1 70B Instruct": .52, "GPT-4o-mini": .51, "Command-R+ (104B)": .51, "Qwen 2.5 (7B)": .51,
            "Mixtral 8x22B Instruct": .48, "Llama 3.1 8B Instruct": .45},
}  # fmt: skip
"""Setting -> system -> harmonic mean, as docs/MTRAGEval/README.md of the benchmark prints it."""


def tally_of(*samples: dict[str, float]) -> ScoreTally:
    tally = ScoreTally(0)
    for number, values in enumerate(samples):
        scores = [Score(id=str(number), metric=name, status="scored", value=v, by="t") for name, v in values.items()]
        tally.add(scores, Facts(cluster=str(number), labels={"half": ("ab"[number % 2],)}))
    return tally


def test_harmonic_mean_is_that_of_the_organizers_over_the_figures_of_table_5():
    checked = 0
    for fact in published_facts():
        expected = PRINTED.get(fact.setting or "", {}).get(fact.system)
        if fact.source.startswith("MTRAG Table 5") and expected is not None:
            values = {name: fact.metrics[name] for name in SEMEVAL_PARTS}
            # The inputs are rounded to two digits, so a printed value may differ by one in the last digit.
            assert tally_of(values).metrics()[SEMEVAL].mean == pytest.approx(expected, abs=0.0075), fact.system
            checked += 1
    assert checked == 20


def test_derived_figures_need_all_their_parts_and_exist_in_breakdowns():
    whole = dict(zip(SEMEVAL_PARTS, (0.5, 0.4, 0.2), strict=True))
    tally = tally_of(whole, whole)
    figure = tally.metrics()[SEMEVAL]
    assert (figure.mean, figure.n, figure.clusters) == (pytest.approx(3 / (2 + 2.5 + 5)), 2, 0)
    assert SEMEVAL in tally.breakdowns()["half"]["a"]
    assert SEMEVAL not in tally_of({"rl_f.idk": 0.5, "rb_llm.idk": 0.5}).metrics()
    assert CONTROLLED_WINS not in tally_of({WINS: 1.0}).metrics()


def test_length_controlled_win_rate_matches_the_value_by_hand():
    """Answers 10 words longer win 9 of 10, and 10 words shorter 5 of 10.

    The log-odds are constant ± slope * tanh(1): ln 9 and 0. The constant is their mean, ln 3, which is a rate of 3/4.
    """
    wins = np.array([1.0] * 9 + [0.0] + [1.0] * 5 + [0.0] * 5)
    extra_words = np.array([10.0] * 10 + [-10.0] * 10)
    assert wins.mean() == pytest.approx(0.7)
    assert length_controlled(wins, extra_words) == pytest.approx(0.75, abs=1e-3)
    samples = [{WINS: win, EXTRA_WORDS: words} for win, words in zip(wins, extra_words, strict=True)]
    figure = tally_of(*samples, *samples, {WINS: 0.0}).metrics()[CONTROLLED_WINS]
    assert (figure.mean, figure.n) == (pytest.approx(0.75, abs=1e-3), 40)
    assert CONTROLLED_WINS not in tally_of(*samples).metrics()


def test_length_controlled_win_rate_matches_scikit_learn():
    random = np.random.default_rng(1)
    extra_words = random.normal(30, 60, 200)
    wins = (random.random(200) < 1 / (1 + np.exp(0.4 - extra_words / 50))).astype(float)
    scaled = np.tanh(extra_words / math.sqrt(np.mean(extra_words**2)))[:, None]
    model = LogisticRegression(C=1e9, tol=1e-10).fit(scaled, wins)
    assert length_controlled(wins, extra_words) == pytest.approx(model.predict_proba([[0.0]])[0, 1], abs=1e-3)


@pytest.mark.parametrize(
    ("wins", "extra_words", "rate"),
    [([1, 1], [5, -5], 1.0), ([0, 0.5], [0, 0], 0.25), ([1, 1, 0, 0], [9, 9, -9, -9], 0.5)],
)
def test_length_controlled_win_rate_exists_where_the_likelihood_has_no_maximum(wins, extra_words, rate):
    assert length_controlled(np.array(wins, float), np.array(extra_words, float)) == pytest.approx(rate, abs=1e-6)
