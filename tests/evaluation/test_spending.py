"""What one more sample may cost, what a run would cost, and how many samples run at once."""

from __future__ import annotations

import pytest

from turnmark.assistant.llm.calls.ledger import SAFETY_FACTOR, Ledger
from turnmark.assistant.llm.calls.prices import Budget, Price
from turnmark.assistant.types import Usage
from turnmark.evaluation.calls.cost_estimates import estimate_items
from turnmark.evaluation.tasks.items import Item

PRICE = Price(prompt=1_000_000, completion=2_000_000)


def used(prompt, completion=0, cost=None):
    return {"answer": Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cost=cost)}


def test_expected_cost_of_one_more_sample():
    unlimited = Ledger()
    unlimited.spend(used(10**12))
    assert unlimited.affords(10**6)
    ledger = Ledger(budget=Budget(tokens=100_000))
    for _ in range(1000):
        ledger.spend(used(10))
        ledger.spend(used(20))
    assert ledger.affords(4_600), "30,000 + 4,601 * 15 = 99,015, and a little caution"
    assert not ledger.affords(4_666), "30,000 + 4,667 * 15 = 100,005"
    guessed = Ledger(budget=Budget(tokens=1_000), guess=Usage(prompt_tokens=50))
    for _ in range(96):
        guessed.spend(used(10))
    assert guessed.affords(0), "960 + 10"
    assert not guessed.affords(1), "960 + 2 * 50: next to others the higher of mean and guess counts"
    failing = Ledger(budget=Budget(tokens=100))
    failing.spend(used(60))
    for _ in range(9):
        failing.spend({})
    assert not failing.affords(0), "failures that cost nothing do not make the next sample cheaper"


def test_estimate_counts_with_a_safety_factor_until_a_sample_ends():
    ledger = Ledger(budget=Budget(tokens=1000), guess=Usage(prompt_tokens=20, completion_tokens=5))
    started = 0
    while ledger.affords(started):
        started += 1
    assert started == 1000 // (25 * SAFETY_FACTOR)
    assert Ledger(budget=Budget(tokens=25), guess=Usage(prompt_tokens=25)).affords(0)
    assert not Ledger(budget=Budget(tokens=24), guess=Usage(prompt_tokens=25)).affords(0)


def test_sums_of_money_reach_a_budget_exactly():
    ledger = Ledger(Price(prompt=100_000, completion=0), Budget(money=1.0, currency="USD"))
    count = 0
    while ledger.affords(0):
        ledger.spend(ledger.priced(used(1)))
        count += 1
    assert count == 10


def test_usage_of_earlier_calls_counts():
    spent = Usage(calls=5, prompt_tokens=90, completion_tokens=10)
    ledger = Ledger(budget=Budget(tokens=100), spent=spent, guess=Usage(prompt_tokens=1))
    assert not ledger.affords(0)
    assert ledger.exhausted() == "stopped by --budget: 100 tokens spent, and one more would exceed it"
    unpriced = Ledger(PRICE, Budget(money=100.0, currency="USD"), spent=spent, guess=Usage(prompt_tokens=1))
    assert not unpriced.affords(0), "they were made before there was a price"
    assert unpriced.in_words() == ["100 tokens", "110.0000 USD"]


ITEMS = [Item(str(number), number) for number in range(100)]


def usage(item):
    return {"answer": Usage(calls=1, prompt_tokens=10 * (item.task + 1), completion_tokens=5)}


def test_estimate_samples_many_items():
    all_items = estimate_items(ITEMS, 100, usage)["answer"]
    ids: list[str] = []

    def seeing(item):
        ids.append(item.id)
        return usage(item)

    scaled = estimate_items(ITEMS, 100, seeing, 20)["answer"]
    assert len(ids) == 20
    assert scaled.calls == all_items.calls == 100
    assert scaled.prompt_tokens == pytest.approx(all_items.prompt_tokens, rel=0.1)
    assert estimate_items(ITEMS, 300, usage)["answer"].calls == 300  # three repeats
