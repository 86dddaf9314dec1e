"""The published facts are the tables of the papers."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from tests.evaluation.published_rows import CHARACTERS, FOUR, of_mtrag, printed, well_formed
from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.evaluation.judging.inscoqa import INSEVAL
from turnmark.evaluation.judging.rubrics import OWN_WORDS
from turnmark.evaluation.prompts import OFFICIAL
from turnmark.evaluation.published import facts


def test_the_figures_of_each_table_add_up():
    """Sums over the printed tables, made by another route than the facts; the column of Table 16a that stands for
    three metrics counts three times."""
    sums: Counter[str] = Counter()
    for fact in facts():
        if fact.task != "retrieval":
            sums[fact.source.split(",")[0]] += round(10_000 * sum(fact.metrics.values()))
    assert sums == {
        "MTRAG Table 5": 788_400, "MTRAG Table 6": 68_100, "MTRAG Table 13": 79_100, "MTRAG Table 14": 110_800,
        "MTRAG Table 16a": 627_800, "MTRAG Table 16b": 397_200, "MTRAG Table 16c": 763_800,
        "MTRAG-UN Table 4": 452_800,
        "InsCoQA Table 3": 752_918, "InsCoQA Table 4": 294_177, "Compound-QA Table 2": 625_380,
        "Compound-QA Table 3": 83_300,
        "KIWI section 4.1": 17_100, "KIWI section 4.2": 15_550, "KIWI section 4.3": 22_968, "KIWI Table 2": 247_600,
        "KIWI Table 3": 44_000, "KIWI Table 4": 10_000, "KIWI Table 5": 183_000, "KIWI Table 6": 116_568_900,
    }  # fmt: skip


def test_the_retrieval_facts_are_the_tables():
    """Spot checks against the printed tables, and sums that a slip of the pen would break."""
    assert printed("MTRAG Table 3", "BGE-base 1.5", query="rewrite") == [
        0.17, 0.30, 0.37, 0.47, 0.34, 0.31, 0.34, 0.38,
    ]  # fmt: skip
    assert printed("MTRAG Table 15", "Elser", query="rewrite", domains=("clapnq",))[6] == 0.53
    assert printed("MTRAG Table 4", "Elser", part={"standalone": "non-standalone"}) == [0.42]
    splade = printed("rerun", "SPLADE", query="last-turn", domains=("fiqa",))
    assert [splade[index] for index in (2, 6)] == [0.323, 0.292]
    table_4 = {fact.domains: fact.n or 0 for fact in facts() if "Table 4, section 5.3" in fact.source}
    table_15 = {fact.domains: fact.n or 0 for fact in facts() if "Table 15" in fact.source}
    assert sum(n for domains, n in table_4.items() if len(domains) == 1) == 777
    assert sum(n for domains, n in table_15.items() if len(domains) == 1) == table_15[FOUR] == 780
    slips = [fact for fact in facts() if "Table 15" in fact.source and fact.domains in (("govt",), ("cloud",), FOUR)]
    assert all(fact.note for fact in slips)
    for fact in facts():
        recalls = [fact.metrics[f"recall@{k}"] for k in (1, 3, 5, 10) if f"recall@{k}" in fact.metrics]
        assert recalls == sorted(recalls)


def test_the_parts_of_mtrag_table_16_fit_each_other_and_the_tables_beside():
    answerability, turns, domains = (of_mtrag(f"MTRAG Table 16{part}") for part in "abc")
    assert len(answerability) == 10
    for system, parts in answerability.items():
        for index, overall in enumerate(parts["all"]):
            halves = [turns[system]["first"][index], turns[system]["later"][index]]
            assert min(halves) - 0.011 <= overall <= max(halves) + 0.011
            assert sum(domains[system][name][index] for name in FOUR) / 4 == pytest.approx(overall, abs=0.0125)
            text_shown = [parts[label][index] for label in ("ANSWERABLE", "PARTIAL", "UNANSWERABLE")]
            assert min(text_shown) <= overall <= max(text_shown)
    for system, parts in of_mtrag("MTRAG Table 13").items():
        assert parts["UNANSWERABLE"] == answerability[system]["UNANSWERABLE"]
    for system, parts in of_mtrag("MTRAG Table 14").items():
        assert parts["all"] == answerability[system]["all"][:1]


def test_the_means_of_compound_qa_are_those_of_its_types():
    def rate(system, capability, kind=None):
        part = {"capability": capability} | ({"type": kind} if kind else {})
        return printed("Compound-QA Table 2", system, part=part)[0]

    systems = {fact.system for fact in facts() if fact.benchmark == "compound-qa"}
    assert len(systems) == 8
    for system in systems:
        for capability in get_args(Capability):
            mean = sum(rate(system, capability, kind) for kind in get_args(QuestionType)) / 5
            assert mean == pytest.approx(rate(system, capability), abs=0.0013)


def test_the_facts_of_kiwi_fit_each_other():
    rows = [fact for fact in facts() if fact.source.startswith("KIWI Table 2,")]
    table2 = {fact.system: fact.metrics["edited"] * (fact.n or 0) for fact in rows}
    models = ("GPT-4", "GPT-3.5-turbo", "LLaMA-2-70b-chat", "the three models")
    assert [round(table2[name]) for name in models] == [55, 111, 149, 315]
    assert sum(printed("KIWI Table 3", "labels of GPT-4")[:8]) == pytest.approx(1)
    for fact in facts():
        misprinted = "as printed" in (fact.note or "")
        if "KIWI Table 5" in fact.source and not misprinted and (precision := fact.metrics["precision"]):
            recall = fact.metrics["recall"]
            assert 2 * precision * recall / (precision + recall) == pytest.approx(fact.metrics["f1"], abs=0.01)
    twins = [fact for fact in facts() if fact.part.get("instruction") in ("Remove", "Reorganize")]
    words = ("instruction_words", "source_words")
    figures = [{name: value for name, value in twin.metrics.items() if name not in words} for twin in twins]
    assert figures[0] == figures[1]
    assert all(fact.note and "misprint" in fact.note for fact in twins)


def test_every_fact_says_where_it_is_from_and_what_was_measured():
    for fact in facts():
        well_formed(fact)


def test_what_of_ours_computes_the_same_is_named_as_we_name_it():
    from turnmark.evaluation.benchmarks.measures import ROUGE_CHAR

    names = {name for fact in facts() if fact.benchmark == "inscoqa" for tool in fact.instruments.values()
            for name in tool.same}  # fmt: skip
    papers = INSEVAL.by.replace(OWN_WORDS, OFFICIAL)
    assert names == {ROUGE_CHAR, papers} == {CHARACTERS, papers}
