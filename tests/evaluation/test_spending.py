"""Prices and budgets: what one more sample may cost."""

from __future__ import annotations

import math

import pytest

from turnmark.assistant.settings import Budget, Price
from turnmark.assistant.types import Usage
from turnmark.evaluation.budget import CAUTION, Ledger

PRICE = Price(prompt=1_000_000, completion=2_000_000)


def used(prompt: int, completion: int = 0, cost: float | None = None) -> dict[str, Usage]:
    return {"answer": Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cost=cost)}


def test_without_a_budget_everything_is_afforded() -> None:
    ledger = Ledger()
    ledger.spend(ledger.priced(used(10**12)))
    assert ledger.affords(10**6)


def test_usage_is_priced_once() -> None:
    ledger = Ledger(PRICE)
    assert ledger.priced(used(3, 2))["answer"].cost == 7.0
    assert ledger.priced(used(3, 2, cost=0.5))["answer"].cost == 0.5
    assert Ledger().priced(used(3, 2))["answer"].cost is None


@pytest.mark.parametrize("cost", [math.nan, math.inf])
def test_a_generators_cost_that_is_no_number_is_not_taken_over(cost: float) -> None:
    assert Ledger().priced(used(3, 2, cost=cost))["answer"].cost is None
    assert Ledger(PRICE).priced(used(3, 2, cost=cost))["answer"].cost == 7.0


def test_samples_that_run_count_as_well() -> None:
    ledger = Ledger(budget=Budget(tokens=100_000))
    for _ in range(1000):
        ledger.spend(used(10))
        ledger.spend(used(20))
    assert ledger.affords(4_600), "30,000 + 4,601 * 15 = 99,015, and a little caution"
    assert not ledger.affords(4_666), "30,000 + 4,667 * 15 = 100,005"


def test_the_higher_of_mean_and_guess_counts_beside_others() -> None:
    ledger = Ledger(budget=Budget(tokens=1_000), guess=Usage(prompt_tokens=50))
    for _ in range(96):
        ledger.spend(used(10))
    assert ledger.affords(0), "960 + 10"
    assert not ledger.affords(1), "960 + 2 * 50"


def test_failures_that_cost_nothing_do_not_make_the_next_sample_cheaper() -> None:
    ledger = Ledger(budget=Budget(tokens=100))
    ledger.spend(used(60))
    for _ in range(9):
        ledger.spend({})
    assert not ledger.affords(0)


def test_before_a_sample_has_ended_the_guess_counts_with_caution() -> None:
    ledger = Ledger(budget=Budget(tokens=1000), guess=Usage(prompt_tokens=20, completion_tokens=5))
    started = 0
    while ledger.affords(started):
        started += 1
    assert started == 1000 // (25 * CAUTION)
    assert Ledger(budget=Budget(tokens=25), guess=Usage(prompt_tokens=25)).affords(0)
    assert not Ledger(budget=Budget(tokens=24), guess=Usage(prompt_tokens=25)).affords(0)


def test_a_budget_in_money_counts_replies_at_their_own_price() -> None:
    guess = Usage(prompt_tokens=1, completion_tokens=3)
    assert Ledger(PRICE, Budget(money=7.0, currency="USD"), guess=guess).affords(0)
    assert not Ledger(PRICE, Budget(money=6.9, currency="USD"), guess=guess).affords(0)


def test_sums_of_money_reach_a_budget_exactly() -> None:
    ledger = Ledger(Price(prompt=100_000, completion=0), Budget(money=1.0, currency="USD"))
    count = 0
    while ledger.affords(0):
        ledger.spend(ledger.priced(used(1)))
        count += 1
    assert count == 10


def test_what_earlier_calls_spent_is_spent() -> None:
    spent = Usage(calls=5, prompt_tokens=90, completion_tokens=10)
    ledger = Ledger(budget=Budget(tokens=100), spent=spent, guess=Usage(prompt_tokens=1))
    assert not ledger.affords(0)
    assert ledger.exhausted() == "stopped by --budget: 100 tokens spent, and one more would exceed it"
    unpriced = Ledger(PRICE, Budget(money=100.0, currency="USD"), spent=spent, guess=Usage(prompt_tokens=1))
    assert not unpriced.affords(0), "they were made before there was a price"
    assert unpriced.in_words() == ["100 tokens", "110.0000 USD"]
