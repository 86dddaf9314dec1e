"""The published facts are the tables of the papers."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import get_args

import pytest

from tests.evaluation.published_rows import CHARACTERS, FOUR, of_mtrag, printed, well_formed
from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.evaluation.agreement.tables import PRINTED_TASKS
from turnmark.evaluation.published import facts


def test_every_table_is_there_whole() -> None:
    assert Counter(fact.source.split(",")[0] for fact in facts()) == {
        "MTRAG Table 3": 6, "MTRAG Table 4": 8, "MTRAG Table 15": 10, "rerun": 38,
        "MTRAG Table 5": 30, "MTRAG Table 6": 3, "MTRAG Table 13": 3, "MTRAG Table 14": 10,
        "MTRAG Table 16a": 40, "MTRAG Table 16b": 20, "MTRAG Table 16c": 40,
        "MTRAG-UN Table 2": 8, "MTRAG-UN Table 3": 4, "MTRAG-UN Table 4": 28,
        "InsCoQA Table 3": 8, "InsCoQA Table 4": 4, "Compound-QA Table 2": 144, "Compound-QA Table 3": 2,
        "KIWI section 4.1": 4, "KIWI section 4.2": 2, "KIWI section 4.3": 3, "KIWI Table 2": 4, "KIWI Table 3": 1,
        "KIWI Table 4": 1, "KIWI Table 5": 7, "KIWI Table 6": 14,
    }  # fmt: skip
    name = Counter(
        (fact.source, fact.system, fact.benchmark, fact.setting, fact.query, fact.domains, tuple(fact.part.items()))
        for fact in facts()
    )
    assert set(name.values()) == {1}


def test_the_figures_of_each_table_add_up() -> None:
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


def test_the_retrieval_facts_are_the_tables() -> None:
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


def test_printed_figures_of_answers_stand_where_the_papers_have_them() -> None:
    """Table 5 prints answerability accuracy, RL_F, RB_llm, RB_alg; the others RL_F, RB_llm, RB_alg."""
    few, unanswerable = {"references": "at most two"}, {"answerability": "UNANSWERABLE"}
    fifth, sixteenth = "MTRAG Table 5, section 6.4", "MTRAG Table 16"
    assert printed(fifth, "GPT-4o", setting="reference", part=few) == [0.89, 0.69, 0.73, 0.46]
    assert printed(fifth, "Qwen 2.5 (72B)", setting="reference+rag") == [0.87, 0.71, 0.69, 0.40]
    assert printed(fifth, "Llama 3.1 8B Instruct", setting="rag", part=few) == [0.74, 0.53, 0.54, 0.34]
    assert printed(sixteenth, "Mixtral 8x22B Instruct", part={"answerability": "PARTIAL"}) == [0.41, 0.68, 0.33]
    assert printed(sixteenth, "GPT-4o-mini", part={"turn": "later"}) == [0.69, 0.74, 0.42]
    assert printed(sixteenth, "Command-R+ (104B)", domains=("fiqa",)) == [0.76, 0.70, 0.39]
    human = {"human evaluation": "answerable"}
    assert printed("MTRAG Table 6", "Llama 3.1 405B Instruct", part=human) == [0.78, 0.78, 0.49]
    assert {fact.n for fact in facts() if fact.source.startswith("MTRAG Table 6")} == {PRINTED_TASKS} == {135}
    assert printed("MTRAG Table 13", "GPT-4o", part=unanswerable) == [0.19, 0.20, 0.66, 0.20, 0.26, 0.20]
    assert printed("MTRAG Table 14", "Mixtral 8x22B Instruct", benchmark="mtrag-s") == [0.79, 0.41]
    un = partial(printed, benchmark="mtrag-un")
    assert un("MTRAG-UN Table 2", "Granite English R2", query="rewrite") == [0.40, 0.51, 0.37, 0.42]
    assert un("MTRAG-UN Table 3", "Elser", query="rewrite", part={"standalone": "non-standalone"}) == [0.52]
    assert un("MTRAG-UN Table 4", "gpt-oss-120b", setting="rag") == [0.59, 0.65, 0.37]
    mine = [fact for fact in facts() if fact.benchmark == "mtrag-un"]
    assert {fact.n for fact in mine} == {468, 214, 254, 666}
    assert mine[-1].instruments["rb_llm.idk_underspecified"].judges[0] == "gpt-oss-120b"


def test_the_parts_of_mtrag_table_16_fit_each_other_and_the_tables_beside() -> None:
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


def test_the_facts_of_inscoqa_are_the_tables() -> None:
    validation, test = {"split": "validation"}, {"split": "test"}
    assert printed("InsCoQA Table 3", "GPT-4", part=test) == [8.55, 0.9137, 0.31, 0.52]
    assert printed("InsCoQA Table 3", "WizardLM-2 7B", part=validation) == [7.89, 0.8564, 0.18, 0.39]
    assert printed("InsCoQA Table 4", "Mistral-Instruct-v0.3 7B", part=validation) == [6.24, 0.6883]
    judges = {
        (fact.source[:15], fact.instruments["judge_score"].judges) for fact in facts() if fact.benchmark == "inscoqa"
    }
    assert judges == {("InsCoQA Table 3", ("Qwen2-7B-Instruct",)), ("InsCoQA Table 4", ("GPT-4",))}
    assert {fact.n for fact in facts() if fact.benchmark == "inscoqa"} == {1406, 2793}


def test_the_facts_of_compound_qa_are_the_table() -> None:
    def rate(system: str, capability: str, kind: str | None = None) -> float:
        part = {"capability": capability} | ({"type": kind} if kind else {})
        return printed("Compound-QA Table 2", system, part=part)[0]

    assert rate("Baichuan 7B", "Knowledge", "Evaluation-and-Suggestion") == 0.035
    assert rate("GLM-4 9B", "Understanding", "Cause-and-Effect") == 0.74
    assert rate("LLaMA 8B", "Reasoning", "Hypothetical-Analysis") == 0.296
    systems = {fact.system for fact in facts() if fact.benchmark == "compound-qa"}
    assert len(systems) == 8
    for system in systems:
        for capability in get_args(Capability):
            mean = sum(rate(system, capability, kind) for kind in get_args(QuestionType)) / 5
            assert mean == pytest.approx(rate(system, capability), abs=0.0013)


def test_the_facts_of_kiwi_are_the_tables() -> None:
    assert printed("KIWI section 4.1", "GPT-4", part={"model": "GPT-4"}) == [0.59]
    assert printed("KIWI section 4.1", "LLaMA-2-70b-chat", part={"model": "LLaMA-2-70b-chat"}) == [0.27]
    assert printed("KIWI Table 5", "GPT-4, zero-shot", part={"split": "test"}) == [0.63, 0.57, 0.91, 0.70, 0.75]
    assert printed("KIWI Table 5", "Human") == [0.80, 0.63, 0.90, 0.75, 0.46]
    table6 = partial(printed, "KIWI Table 6")
    assert table6("the three models", part={"instruction": "Condense"}) == [0.64, 213, 0.55, 15, 388, 234]
    assert table6("the three models", part={"type": "information-seeking"}) == [1.60, 176, 0.87, 22, 259, 355]
    assert table6("GPT-3.5-turbo", part={"model": "GPT-3.5-turbo"}) == [1.34, 145, 0.68, 23, 289, 332]
    assert table6("the three models") == [1.27, 158, 0.64, 26, 310, 336]
    assert printed("KIWI Table 2", "GPT-4", part={"model": "GPT-4"}) == [4.7, 0.1486, 0.59]
    assert sum(printed("KIWI Table 3", "labels of GPT-4")[:8]) == pytest.approx(1)
    assert printed("KIWI Table 4", "labels of GPT-4") == [0.31, 0.21, 0.11, 0.09, 0.28]
    assert printed("KIWI section 4.3", "Contriever, judged by hand") == [0.5, 0.2, 0.3]
    rows = [fact for fact in facts() if fact.source.startswith("KIWI Table 2,")]
    table2 = {fact.system: fact.metrics["edited"] * (fact.n or 0) for fact in rows}
    models = ("GPT-4", "GPT-3.5-turbo", "LLaMA-2-70b-chat", "the three models")
    assert [round(table2[name]) for name in models] == [55, 111, 149, 315]
    for fact in facts():
        misprinted = "as printed" in (fact.note or "")
        if "KIWI Table 5" not in fact.source or misprinted or not fact.metrics["precision"]:
            continue
        precision, recall = fact.metrics["precision"], fact.metrics["recall"]
        assert 2 * precision * recall / (precision + recall) == pytest.approx(fact.metrics["f1"], abs=0.01)
    twins = [fact for fact in facts() if fact.part.get("instruction") in ("Remove", "Reorganize")]
    words = ("instruction_words", "source_words")
    figures = [{name: value for name, value in twin.metrics.items() if name not in words} for twin in twins]
    assert figures[0] == figures[1]
    assert all(fact.note and "misprint" in fact.note for fact in twins)


def test_every_fact_says_where_it_is_from_and_what_was_measured() -> None:
    for fact in facts():
        well_formed(fact)


def test_what_of_ours_computes_the_same_is_named_as_we_name_it() -> None:
    from turnmark.evaluation.benchmarks.measures import ROUGE_CHAR

    names = {name for fact in facts() if fact.benchmark == "inscoqa" for tool in fact.instruments.values()
            for name in tool.same}  # fmt: skip
    assert names == {ROUGE_CHAR} == {CHARACTERS}
