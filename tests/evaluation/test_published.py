"""Published rows as printed, and when a figure of ours may be set against them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evaluation.published import Ran, beside, facts
from evaluation.records import MetricSummary, PublishedRow

FOUR = ("clapnq", "cloud", "fiqa", "govt")
COUNTS = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}


def figures(n: int) -> dict[str, MetricSummary]:
    one = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=n, failed=0, not_applicable=0)
    return {f"{name}@{k}": one for name in ("recall", "ndcg") for k in (1, 3, 5, 10)}


def ran(**changes: Any) -> Ran:
    """A run of all four domains over the full corpora with rewrites: what Table 3 asks for."""
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "query": "rewrite", "domains": FOUR,
        "corpora": dict.fromkeys(FOUR, "full"), "metric": "pytrec_eval", "metrics": figures(777),
        "breakdowns": {"domain": {name: figures(n) for name, n in COUNTS.items()},
                       "turn": {"first": figures(102), "later": figures(675)}},
    }  # fmt: skip
    return Ran(**(fields | changes))


def named(rows: tuple[PublishedRow, ...], source: str, **wanted: Any) -> list[PublishedRow]:
    return [row for row in rows if source in row.source and all(getattr(row, k) == v for k, v in wanted.items())]


def test_the_facts_are_the_tables() -> None:
    """Spot checks against the printed tables, and sums that a slip of the pen would break."""
    assert Counter(fact.source for fact in facts()) == {
        "MTRAG Table 3, section 5.3": 6, "MTRAG Table 4, section 5.3": 8, "MTRAG Table 15, appendix H": 10,
        "official rerun, full corpora": 20,
    }  # fmt: skip
    by = {(fact.source.split(",")[0], fact.system, fact.query, fact.domains, fact.value): fact for fact in facts()}
    assert len(by) == len(facts())
    assert list(by["MTRAG Table 3", "BGE-base 1.5", "rewrite", FOUR, None].metrics.values()) == [
        0.17, 0.30, 0.37, 0.47, 0.34, 0.31, 0.34, 0.38,
    ]  # fmt: skip
    assert by["MTRAG Table 15", "Elser", "rewrite", ("clapnq",), None].metrics["ndcg@5"] == 0.53
    assert by["MTRAG Table 4", "Elser", "rewrite", FOUR, "non-standalone"].metrics == {"recall@5": 0.42}
    assert by["official rerun", "SPLADE", "last-turn", ("fiqa",), None].metrics == {"recall@5": 0.323, "ndcg@5": 0.292}
    table_4 = {fact.domains: fact.n for fact in facts() if "Table 4" in fact.source}
    table_15 = {fact.domains: fact.n for fact in facts() if "Table 15" in fact.source}
    assert sum(n for domains, n in table_4.items() if len(domains) == 1) == 777
    assert sum(n for domains, n in table_15.items() if len(domains) == 1) == table_15[FOUR] == 780
    slips = [fact for fact in facts() if "Table 15" in fact.source and fact.domains in (("govt",), ("cloud",), FOUR)]
    assert all(fact.note for fact in slips)
    for fact in facts():
        recalls = [fact.metrics[f"recall@{k}"] for k in (1, 3, 5, 10) if f"recall@{k}" in fact.metrics]
        assert recalls == sorted(recalls)


def test_rows_are_comparable_only_where_everything_agrees() -> None:
    rows = beside(ran())
    assert len(rows) == 44
    comparable = {(row.source.split(",")[0], row.system, row.slice) for row in rows if row.comparable}
    assert comparable == {
        *(("MTRAG Table 3", system, "all") for system in ("BM25", "BGE-base 1.5", "Elser")),
        *(("MTRAG Table 4", "Elser", f"domain={domain}") for domain in FOUR),
        ("MTRAG Table 4", "Elser", "turn=first"), ("MTRAG Table 4", "Elser", "turn=later"),
        ("MTRAG Table 15", "Elser", "domain=clapnq"), ("MTRAG Table 15", "Elser", "domain=fiqa"),
        *(("official rerun", system, f"domain={domain}") for domain in ("clapnq", "fiqa")
          for system in ("BM25", "BGE-base 1.5", "BGE-M3 dense", "SPLADE", "ELSER")),
    }  # fmt: skip
    assert all(row.query == "rewrite" for row in rows if row.comparable)
    (slip,) = named(rows, "Table 15", query="rewrite", domains=FOUR)
    assert slip.why == "n: published 780 queries, here 777"
    (unlabelled,) = named(rows, "Table 4", subset="later turns that are not standalone")
    assert unlabelled.differs == ("subset",)


@pytest.mark.parametrize(("changes", "aspect", "words"), [
    ({"corpora": dict.fromkeys(FOUR, "partial"), "passages": {"clapnq": "5 of 9"}}, "documents", "clapnq 5 of 9"),
    ({"corpora": {}}, "documents", "does not say what was searched"),
    ({"query": "last-3"}, "query", "published with rewrite, here last-3"),
    ({"query": None}, "query", "does not say"),
    ({"metrics": figures(20), "breakdowns": {}}, "n", "published 777 queries, here 20"),
    ({"metric": "ours"}, "metric", "published by pytrec_eval, here by ours"),
    ({"domains": ("clapnq", "fiqa")}, "domains", "published clapnq, cloud, fiqa, govt, here clapnq, fiqa"),
])  # fmt: skip
def test_one_difference_is_enough_and_is_named(changes: dict[str, Any], aspect: str, words: str) -> None:
    (row,) = named(beside(ran(**changes)), "Table 3", system="BM25", query="rewrite")
    assert not row.comparable
    assert row.differs == (aspect,)
    assert words in str(row.why)


def test_other_benchmarks_tasks_and_domains_are_left_out() -> None:
    assert beside(ran(benchmark="mtrag-un")) == beside(ran(task="generation")) == ()
    rows = beside(ran(domains=("fiqa",), metrics=figures(180)))
    assert {row.domains for row in rows} == {FOUR, ("fiqa",)}
    assert {row.slice for row in rows if row.domains == ("fiqa",)} == {"all"}
    demo = beside(ran(domains=("handbook",), corpora={"handbook": "other"}))
    assert demo
    assert all(row.slice is None and "documents" in row.differs for row in demo)
