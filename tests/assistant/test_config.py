"""Prices in the configuration files, and the notation of budgets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnmark.assistant.llm.calls.prices import Budget, Price, load_prices, parse_budget, price_of
from turnmark.core.errors import RequestError
from turnmark.core.home import home


def config(content: str | bytes) -> Path:
    path = home() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_project_prices_override_those_of_the_home(tmp_path, monkeypatch) -> None:
    assert load_prices() == {}
    config(
        '[prices."gpt-4o-mini"]\nprompt = 0.15\ncompletion = 0.60\n'
        '[prices."ollama:llama3:8b"]\nprompt = 0\ncompletion = 0\ncurrency = "eur"\n'
        '[prices."openai:m@http://h/v1?temperature=1&retries=2"]\nprompt = 1\ncompletion = 2\n'
    )
    prices = {
        "gpt-4o-mini": Price(prompt=0.15, completion=0.6),
        "ollama:llama3:8b": Price(prompt=0, completion=0, currency="EUR"),
        "openai:m@http://h/v1?retries=2&temperature=1": Price(prompt=1, completion=2),
    }
    assert load_prices() == prices
    assert prices["gpt-4o-mini"].cost(2_000_000, 500_000) == pytest.approx(0.6, rel=1e-12)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turnmark.toml").write_text('[prices."gpt-4o-mini"]\nprompt = 3\ncompletion = 3\n', encoding="utf-8")
    assert load_prices() == prices | {"gpt-4o-mini": Price(prompt=3, completion=3)}


def test_reports_every_mistake_with_its_field() -> None:
    path = config(
        'price = 1\n[prices]\na = 3\n[prices."b"]\npromt = 1\ncompletion = -1\n'
        '[prices."c"]\nprompt = nan\ncompletion = "2"\ncurrency = "dollars"\n'
        '[prices."d"]\nprompt = true\ncompletion = 1e10\ncurrency = 3\n[prices.gpt-4.1]\nprompt = 1\ncompletion = 1\n'
    )
    with pytest.raises(RequestError) as caught:
        load_prices()
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    messages = [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]
    assert messages[0].startswith("price: no table is called 'price' (did you mean 'prices'?); there are: defaults")
    assert {message.partition(": ")[0] for message in messages[1:]} == {
        "prices.a", "prices.b.prompt", "prices.b.completion", "prices.b.promt", "prices.c.prompt",
        "prices.c.completion", "prices.c.currency", "prices.d.prompt", "prices.d.completion", "prices.d.currency",
        "prices.gpt-4.prompt", "prices.gpt-4.completion", "prices.gpt-4.1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"prices = 3", r"prices: a table \(\[prices\]\) was expected"),
        (b'[prices."a"]\nprompt = \n', r"not TOML: Invalid value \(at line 2, column 10\)"),
        (b"\xff", "not TOML: .*utf-8"),
        (b"a = " + b"[" * 20_000 + b"]" * 20_000, r"config\.toml: "),
    ],
)
def test_reports_an_unreadable_file(content: bytes, problem: str) -> None:
    config(content)
    with pytest.raises(RequestError, match=problem):
        load_prices()


@pytest.mark.parametrize(
    ("spec", "known", "price"),
    [
        *(("openai:m@http://h/v1?temperature=0&retries=1", known, known - 1) for known in (1, 2, 3, 4)),
        ("vllm:m", 4, 0),
        ("openai:other", 4, None),
        ("extractive", 4, None),
        ("No Spec", 4, None),
    ],
)
def test_most_specific_name_gives_the_price(spec: str, known: int, price: int | None) -> None:
    names = ("m", "openai:m", "openai:m@http://h/v1", "openai:m@http://h/v1?retries=1&temperature=0")[:known]
    nearest = price_of(spec, {name: Price(prompt=n, completion=0) for n, name in enumerate(names)})
    assert (None if nearest is None else nearest.prompt) == price


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("200k", {"tokens": 200_000}), (" 1.5M ", {"tokens": 1_500_000}), ("200000", {"tokens": 200_000}),
        (".5k", {"tokens": 500}), ("$5", {"money": 5.0, "currency": "USD"}),
        ("5usd", {"money": 5.0, "currency": "USD"}),
        ("2.50 EUR", {"money": 2.5, "currency": "EUR"}), ("€0.10", {"money": 0.1, "currency": "EUR"}),
    ],
)  # fmt: skip
def test_parses_budgets(text: str, budget: dict[str, float | str]) -> None:
    assert parse_budget(text) == Budget.model_validate(budget)


@pytest.mark.parametrize(
    "text", ["", "much", "-5", "1e6", "nan", "2,50 EUR", "5 dollars", "$5 USD", "$5k", "５", "5 uſd", "0", "$0.00"]
)
def test_invalid_budget_error_names_both_forms(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_budget(text)
    assert caught.value.problems == (
        f"--budget {text!r} is not a budget above 0; write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)",
    )


@given(st.text(max_size=12) | st.from_regex(r"\A[$€£]?[0-9.,_]{0,8} ?[a-zA-Z$€]{0,4}\Z"))
def test_any_text_is_a_budget_or_a_request_error(text: str) -> None:
    try:
        budget = parse_budget(text)
    except RequestError:
        return
    assert (budget.tokens is None) != (budget.money is None)
    assert (budget.tokens or budget.money or 0) > 0


VALUES = st.sampled_from(("1", "-1", "nan", "1e400", "'x'", "true", "[]", "{a = 1}", "1979-05-27", "9" * 400))
LINES = st.builds("{} = {}".format, st.sampled_from(("prompt", "completion", "currency", "a", "a.b")), VALUES)
HEADS = st.sampled_from(("[prices.a]", "[prices.'b:c?d=1']", "[prices]", "[[prices]]", "[other]", "["))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HEADS | LINES, max_size=8) | st.lists(st.text(max_size=10), max_size=3))
def test_any_file_has_prices_or_raises_a_request_error(lines: list[str]) -> None:
    config("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        prices = load_prices()
    except RequestError:
        return
    assert all(price.cost(10**12, 10**12) < float("inf") for price in prices.values())
