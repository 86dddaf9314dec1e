"""Published rows as printed, and when a figure of ours may be set against them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import pytest

from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.corpora.kiwi import FINE_TYPES, Coarse
from turnmark.corpora.mtrag import Answerability
from turnmark.evaluation.agreement import published
from turnmark.evaluation.published import RERUN, Fact, Ran, beside, facts
from turnmark.evaluation.records import MetricSummary, PublishedRow

FOUR = ("clapnq", "cloud", "fiqa", "govt")
COUNTS = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
RETRIEVAL = tuple(f"{name}@{k}" for name in ("recall", "ndcg") for k in (1, 3, 5, 10))
CONDITIONED = ("rl_f.idk", "rb_llm.idk", "rb_alg.idk")
EDITS = ("length_ratio", "edit_distance", "edit_ratio")
PANEL = ("gpt-4o-mini-2024-07-18", "Qwen2.5-72B-Instruct", "Mixtral-8x22B-Instruct", "Llama-3.1-405B-Instruct")
CHARACTERS = "ROUGE-L F1 (rapidfuzz; characters, beta 1)"


def figures(n: int, *names: str) -> dict[str, MetricSummary]:
    one = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=n, failed=0, not_applicable=0)
    return dict.fromkeys(names or RETRIEVAL, one)


def ran(**changes: Any) -> Ran:
    """A run of all four domains over the full corpora with rewrites: what Table 3 asks for."""
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "query": "rewrite", "domains": FOUR,
        "corpora": dict.fromkeys(FOUR, "full"), "variants": dict.fromkeys(RETRIEVAL, "pytrec_eval"),
        "metrics": figures(777),
        "breakdowns": {"domain": {name: figures(n) for name, n in COUNTS.items()},
                       "turn": {"first": figures(102), "later": figures(675)}},
    }  # fmt: skip
    return Ran(**(fields | changes))


def answered(n: int = 426, names: Mapping[str, str] | None = None, **changes: Any) -> Ran:
    """A run that agrees with Table 5's column for reference+rag in rb_llm.idk, as far as a run can."""
    names = names or {"rb_llm.idk": "median rating of four judges / 10, conditioned on IDK"}
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "generation", "setting": "reference+rag", "query": "rewrite", "domains": FOUR,
        "corpora": dict.fromkeys(FOUR, "full"), "variants": names, "metrics": figures(n, *names), "breakdowns": {},
        "judges": tuple(f"openai:org/{judge}@http://localhost:8000/v1" for judge in PANEL),
    }  # fmt: skip
    return Ran(**(fields | changes))


def named(rows: tuple[PublishedRow, ...], source: str, **wanted: Any) -> list[PublishedRow]:
    return [row for row in rows if source in row.source and all(getattr(row, k) == v for k, v in wanted.items())]


def printed(source: str, system: str, **wanted: Any) -> list[float]:
    """The figures of the one row that is so described, in the order of the file."""
    part = wanted.pop("part", {})
    (fact,) = (
        fact for fact in facts()
        if source in fact.source and fact.system == system and dict(fact.part) == part
        and all(getattr(fact, key) == value for key, value in wanted.items())
    )  # fmt: skip
    return list(fact.metrics.values())


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
    by = Counter(
        (fact.source, fact.system, fact.benchmark, fact.setting, fact.query, fact.domains, tuple(fact.part.items()))
        for fact in facts()
    )
    assert set(by.values()) == {1}


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
    assert [splade[at] for at in (2, 6)] == [0.323, 0.292]
    table_4 = {fact.domains: fact.n or 0 for fact in facts() if "Table 4, section 5.3" in fact.source}
    table_15 = {fact.domains: fact.n or 0 for fact in facts() if "Table 15" in fact.source}
    assert sum(n for domains, n in table_4.items() if len(domains) == 1) == 777
    assert sum(n for domains, n in table_15.items() if len(domains) == 1) == table_15[FOUR] == 780
    slips = [fact for fact in facts() if "Table 15" in fact.source and fact.domains in (("govt",), ("cloud",), FOUR)]
    assert all(fact.note for fact in slips)
    for fact in facts():
        recalls = [fact.metrics[f"recall@{k}"] for k in (1, 3, 5, 10) if f"recall@{k}" in fact.metrics]
        assert recalls == sorted(recalls)


def test_the_generation_facts_of_mtrag_are_the_tables() -> None:
    """Table 5 prints answerability accuracy, RL_F, RB_llm, RB_alg; the others RL_F, RB_llm, RB_alg."""
    fifth, sixteenth = "MTRAG Table 5, section 6.4", "MTRAG Table 16"
    few = {"references": "at most two"}
    assert printed(fifth, "GPT-4o", setting="reference", part=few) == [0.89, 0.69, 0.73, 0.46]
    assert printed(fifth, "Qwen 2.5 (72B)", setting="reference+rag") == [0.87, 0.71, 0.69, 0.40]
    assert printed(fifth, "Reference", setting="rag", part=few) == [0.98, 0.67, 0.94, 0.86]
    assert printed(fifth, "Llama 3.1 8B Instruct", setting="rag", part=few) == [0.74, 0.53, 0.54, 0.34]
    assert printed(sixteenth, "Mixtral 8x22B Instruct", part={"answerability": "PARTIAL"}) == [0.41, 0.68, 0.33]
    assert printed(sixteenth, "Mixtral 8x22B Instruct", part={"answerability": "UNANSWERABLE"}) == [0.0] * 3
    assert printed(sixteenth, "GPT-4o-mini", part={"turn": "later"}) == [0.69, 0.74, 0.42]
    assert printed(sixteenth, "Llama 3.1 70B Instruct", domains=("cloud",)) == [0.71, 0.65, 0.47]
    assert printed(sixteenth, "Command-R+ (104B)", domains=("fiqa",)) == [0.76, 0.70, 0.39]
    assert printed("MTRAG Table 6", "Llama 3.1 405B Instruct", part={"human evaluation": "answerable"}) == [
        0.78, 0.78, 0.49,
    ]  # fmt: skip
    assert {fact.n for fact in facts() if fact.source.startswith("MTRAG Table 6")} == {published.RATED} == {135}
    unanswerable = {"answerability": "UNANSWERABLE"}
    assert printed("MTRAG Table 13", "GPT-4o", part=unanswerable) == [0.19, 0.20, 0.66, 0.20, 0.26, 0.20]
    assert printed("MTRAG Table 14", "Mixtral 8x22B Instruct", benchmark="mtrag-s") == [0.79, 0.41]


def test_the_facts_of_mtrag_un_are_the_tables() -> None:
    un = partial(printed, benchmark="mtrag-un")
    assert un("MTRAG-UN Table 2", "Granite English R2", query="rewrite") == [0.40, 0.51, 0.37, 0.42]
    assert un("MTRAG-UN Table 2", "BM25", query="last-turn") == [0.29, 0.38, 0.27, 0.31]
    assert un("MTRAG-UN Table 3", "Elser", query="rewrite", part={"standalone": "non-standalone"}) == [0.52]
    assert un("MTRAG-UN Table 4", "Reference", setting="reference") == [0.85, 0.96, 0.89]
    assert un("MTRAG-UN Table 4", "gpt-oss-120b", setting="rag") == [0.59, 0.65, 0.37]
    assert un("MTRAG-UN Table 4", "phi-4", setting="reference") == [0.54, 0.64, 0.40]
    mine = [fact for fact in facts() if fact.benchmark == "mtrag-un"]
    assert Counter(fact.source[:16] for fact in mine) == {
        "MTRAG-UN Table 2": 8, "MTRAG-UN Table 3": 4, "MTRAG-UN Table 4": 28,
    }  # fmt: skip
    assert {fact.n for fact in mine} == {468, 214, 254, 666}
    assert mine[-1].instruments["rb_llm.idk_underspecified"].judges[0] == "gpt-oss-120b"


def of_mtrag(source: str) -> dict[str, dict[str, list[float]]]:
    """System -> subset or domain -> the conditioned metrics, in one order."""
    found: dict[str, dict[str, list[float]]] = {}
    for fact in facts():
        if source in fact.source and fact.benchmark == "mtrag":
            where = next(iter(fact.part.values()), fact.domains[0] if len(fact.domains) == 1 else "all")
            found.setdefault(fact.system, {})[where] = [
                fact.metrics[name] for name in CONDITIONED if name in fact.metrics
            ]
    return found


def test_the_parts_of_mtrag_table_16_fit_each_other_and_the_tables_beside() -> None:
    answerability, turns, domains = (of_mtrag(f"MTRAG Table 16{part}") for part in "abc")
    assert len(answerability) == 10
    for system, parts in answerability.items():
        for at, overall in enumerate(parts["all"]):
            halves = [turns[system]["first"][at], turns[system]["later"][at]]
            assert min(halves) - 0.011 <= overall <= max(halves) + 0.011
            assert sum(domains[system][name][at] for name in FOUR) / 4 == pytest.approx(overall, abs=0.0125)
            shown = [parts[label][at] for label in ("ANSWERABLE", "PARTIAL", "UNANSWERABLE")]
            assert min(shown) <= overall <= max(shown)
    for system, parts in of_mtrag("MTRAG Table 13").items():
        assert parts["UNANSWERABLE"] == answerability[system]["UNANSWERABLE"]
    for system, parts in of_mtrag("MTRAG Table 14").items():
        assert parts["all"] == answerability[system]["all"][:1]


def test_the_facts_of_inscoqa_are_the_tables() -> None:
    validation, test = {"split": "validation"}, {"split": "test"}
    assert printed("InsCoQA Table 3", "GPT-4", part=test) == [8.55, 0.9137, 0.31, 0.52]
    assert printed("InsCoQA Table 3", "Llama-3.1-Instruct 8B", part=test) == [7.49, 0.8298, 0.26, 0.49]
    assert printed("InsCoQA Table 3", "WizardLM-2 7B", part=validation) == [7.89, 0.8564, 0.18, 0.39]
    assert printed("InsCoQA Table 3", "Mistral-Instruct-v0.3 7B", part=validation) == [7.45, 0.7883, 0.24, 0.47]
    assert printed("InsCoQA Table 4", "GPT-4", part=validation) == [7.12, 0.7964]
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
    assert rate("InternLM 7B", "Understanding") == 0.746
    assert rate("LLaMA 8B", "Reasoning", "Hypothetical-Analysis") == 0.296
    assert rate("Mistral 7B", "Understanding", "Factual-Statement") == 0.675
    assert rate("Qwen 7B", "Knowledge", "Comparison-and-Selection") == 0.675
    assert rate("DeepSeek 7B", "Reasoning") == 0.24
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
    same = [{name: value for name, value in twin.metrics.items() if name not in words} for twin in twins]
    assert same[0] == same[1]
    assert all(fact.note and "misprint" in fact.note for fact in twins)


CONTRACT = re.compile(
    r"(recall|ndcg)@(1|3|5|10)|rouge_l\.(word|char)|bert_k_precision|answerability_accuracy|(rl_f|rb_llm|rb_alg)(\.idk(_underspecified)?)?"
    r"|judge_score|task_completion|win_rate|sub_win_rate\.q[123]@[123]|good|accuracy|precision|recall|f1|length_ratio|edit_distance|edit_ratio"
    r"|predicted_good|turns_per_session|edited|(instruction|source|target)_words|(instruction|error)_accuracy"
    r"|(instruction|information_seeking|error|retrieved)\[[A-Za-z ]+\]|information_seeking"
)
VALUES: Mapping[str, frozenset[str]] = {
    "turn": frozenset({"first", "later"}),
    "standalone": frozenset({"standalone", "non-standalone"}),
    "answerability": frozenset(get_args(Answerability)),
    "capability": frozenset(get_args(Capability)),
    "type": frozenset({*get_args(QuestionType), *get_args(Coarse)}),
    "instruction": frozenset(FINE_TYPES),
    "model": frozenset({"GPT-4", "GPT-3.5-turbo", "LLaMA-2-70b-chat"}),
}
OF_THE_PAPERS = {"references", "human evaluation", "split"}
"""Subsets that no breakdown of ours holds."""


def test_every_fact_says_where_it_is_from_and_what_was_measured() -> None:
    for fact in facts():
        well_formed(fact)


def well_formed(fact: Fact) -> None:
    assert fact.source
    assert fact.metrics
    assert set(fact.instruments) == set(fact.metrics)
    for name, value in fact.metrics.items():
        assert CONTRACT.fullmatch(name)
        most = {"judge_score": 10, "edit_distance": 1000, "length_ratio": 10, "turns_per_session": 10}.get(name, 1)
        most = 1000 if name.endswith("_words") else most
        assert 0 <= value <= most
        # Conditioned metrics need the verdict of an IDK judge.
        assert not name.endswith(".idk") or PANEL[0] in fact.instruments[name].judges
    for dimension, label in fact.part.items():
        assert dimension in OF_THE_PAPERS or label in VALUES[dimension]
    assert (fact.query is None) == (fact.corpus is None) == (fact.setting == "reference" or not fact.domains)


def test_what_of_ours_computes_the_same_is_named_as_we_name_it() -> None:
    from turnmark.evaluation.benchmarks.measures import ROUGE_CHAR

    same = {name for fact in facts() if fact.benchmark == "inscoqa" for tool in fact.instruments.values()
            for name in tool.same}  # fmt: skip
    assert same == {ROUGE_CHAR} == {CHARACTERS}


def test_rows_are_comparable_only_where_everything_agrees() -> None:
    rows = beside(ran())
    assert len(rows) == 62
    comparable = {(row.source.split(",")[0], row.system, row.slice) for row in rows if row.comparable}
    assert comparable == {
        *(("MTRAG Table 3", system, "all") for system in ("BM25", "BGE-base 1.5", "Elser")),
        *(("MTRAG Table 4", "Elser", f"domain={domain}") for domain in FOUR),
        ("MTRAG Table 4", "Elser", "turn=first"), ("MTRAG Table 4", "Elser", "turn=later"),
        ("MTRAG Table 15", "Elser", "domain=clapnq"), ("MTRAG Table 15", "Elser", "domain=fiqa"),
        *(("rerun", system, f"domain={domain}") for domain in ("clapnq", "fiqa")
          for system in ("BM25", "BGE-base 1.5", "BGE-M3 dense", "SPLADE", "ELSER")),
    }  # fmt: skip
    assert all(row.query == "rewrite" for row in rows if row.comparable)
    assert {(row.setting, row.judge, row.variant) for row in rows} == {(None, None, "pytrec_eval")}
    (slip,) = named(rows, "Table 15", query="rewrite", domains=FOUR)
    assert slip.why == "n: published 780 queries, here 777"
    (unlabelled,) = named(rows, "Table 4", subset="later turns that are not standalone")
    assert unlabelled.differs == ("subset",)
    both = named(rows, RERUN, query="rewrite", domains=("clapnq", "fiqa"))
    assert len(both) == 5 + 4
    assert {row.differs for row in both} == {("domains",)}


@pytest.mark.parametrize(("changes", "aspect", "words"), [
    ({"corpora": dict.fromkeys(FOUR, "partial"), "passages": {"clapnq": "5 of 9"}}, "documents", "clapnq 5 of 9"),
    ({"corpora": {}}, "documents", "does not say what was searched"),
    ({"query": "last-3"}, "query", "published with rewrite, here last-3"),
    ({"query": None}, "query", "does not say"),
    ({"metrics": figures(20), "breakdowns": {}}, "n", "published 777 queries, here 20"),
    ({"variants": dict.fromkeys(RETRIEVAL, "ours")}, "metric", "metric: published by pytrec_eval, here by ours"),
    ({"domains": ("clapnq", "fiqa")}, "domains", "published clapnq, cloud, fiqa, govt, here clapnq, fiqa"),
    ({"demo": True}, "data", "the demo split is not the benchmark"),
])  # fmt: skip
def test_one_difference_is_enough_and_is_named(changes: dict[str, Any], aspect: str, words: str) -> None:
    (row,) = named(beside(ran(**changes)), "Table 3", system="BM25", query="rewrite")
    assert not row.comparable
    assert row.differs == (aspect,)
    assert words in str(row.why)


def test_answers_are_comparable_where_setting_judges_and_all_else_agree() -> None:
    rows = beside(answered())
    comparable = {(row.source, row.system) for row in rows if row.comparable}
    assert comparable == {("MTRAG Table 5, section 6.4", fact.system) for fact in facts()
                          if fact.setting == "rag" and fact.benchmark == "mtrag"}  # fmt: skip
    assert len(comparable) == 10
    assert [row.setting for row in rows[:11]] == ["reference+rag"] * 10 + ["reference"]
    assert {row.differs[0] for row in rows[10:]} == {"setting"}
    assert all(row.judge and f"rb_llm.idk: {', '.join(PANEL)}" in row.judge for row in rows[:10])


@pytest.mark.parametrize(("changes", "aspect", "words"), [
    ({"corpora": dict.fromkeys(FOUR, "partial")}, "documents", "here clapnq in part, cloud in part"),
    ({"query": "last-turn"}, "query", "published with rewrite, here last-turn"),
    ({"domains": FOUR[:2]}, "domains", "here clapnq, cloud"),
    ({"n": 400}, "n", "published 426 samples, here 400"),
    ({"judges": ()}, "judge", "here none"),
    ({"judges": ("openai:gpt-4o",)}, "judge", f"published with {', '.join(PANEL)}, here openai:gpt-4o"),
    ({"names": {"rb_llm.idk": "one rating"}}, "metric", "conditioned on IDK, here by one rating"),
    ({"demo": True}, "data", "the demo split"),
])  # fmt: skip
def test_one_difference_between_answers_is_enough(changes: dict[str, Any], aspect: str, words: str) -> None:
    row = beside(answered(**changes))[0]
    assert row.differs == (aspect,)
    assert row.why
    assert words in row.why


def test_each_figure_of_a_row_is_comparable_by_itself() -> None:
    """A judge's own words in one metric take nothing from the others; each has the judges that are asked for it."""
    (fact,) = (one for one in facts() if one.system == "GPT-4o" and one.setting == "reference+rag")
    variants = {name: (tool.same or (tool.by,))[0] for name, tool in fact.instruments.items()}
    variants["rl_f.idk"] = "RAGAS faithfulness, prompt in our own words"
    judges = tuple(f"openai:{judge}@http://localhost:8000/v1" for judge in PANEL)
    run = answered(
        426, variants, judges=judges,
        judged={"rb_llm": judges, "rl_f": judges[:1], "idk": judges[:1]},
    )  # fmt: skip
    (row,) = named(beside(run), "Table 5", system="GPT-4o", setting="reference+rag")
    assert not row.comparable
    apart = {name: row.differs_in(name) for name in row.metrics}
    assert apart == {
        "answerability_accuracy": (), "rl_f.idk": ("judge", "metric"), "rb_llm.idk": (), "rb_alg.idk": (),
    }  # fmt: skip
    other = run.model_copy(update={"judged": {**run.judged, "idk": ("openai:another",)}})
    (row,) = named(beside(other), "Table 5", system="GPT-4o", setting="reference+rag")
    assert {name for name in row.metrics if "judge" in row.differs_in(name)} == set(row.metrics)


def test_a_setting_that_searches_nothing_is_not_asked_what_was_searched() -> None:
    (row,) = named(
        beside(answered(832, setting="reference", query=None, corpora={})), "16a", system="GPT-4o", slice="all"
    )
    assert row.comparable
    (row,) = named(beside(answered(setting="rag", query=None, corpora={})), "16a", system="GPT-4o", subset=row.subset)
    assert row.differs == ("setting", "n")
    assert row.why == "setting: published reference, here rag; n: published 832 samples, here 426"


def test_what_nobody_measured_here_is_still_listed() -> None:
    names = {"rouge_l.word": "ROUGE-L F1 (rapidfuzz; rouge-score's tokens)"}
    run = answered(426, names, setting="reference", query=None, domains=("clapnq", "fiqa"), judges=())
    rows = beside(run)
    assert len(rows) == 30 + 3 + 3 + 5 + 40 + 20 + 20
    assert all("metric" in row.differs and "judge" in row.differs for row in rows if "Table 16" in row.source)
    row = named(rows, "Table 5", system="GPT-4o", setting="reference")[0]
    said = "metric: published answerability_accuracy, rl_f.idk, rb_llm.idk, rb_alg.idk; not measured here"
    assert row.why
    assert said in row.why
    assert row.n == 426


def test_a_number_of_samples_that_nobody_printed_agrees_with_none() -> None:
    run = answered(setting="reference", query=None, breakdowns={"turn": {"first": figures(110, "rb_llm.idk")}})
    rows = named(beside(run), "Table 16b")
    assert len(rows) == 10  # later turns did not run
    assert {(row.slice, row.n, row.differs) for row in rows} == {("turn=first", None, ("n",))}
    assert rows[0].why == "n: the source does not say how many samples, here 110"


def test_inscoqa_is_compared_metric_by_metric() -> None:
    def run(setting: str = "documents", split: str = "test", **names: str) -> Ran:
        metrics = figures(2793 if split == "test" else 1406, *(name.replace("__", ".") for name in names))
        variants = dict(zip(metrics, names.values(), strict=True))
        domains = ("Gourmet", "Travel")
        return Ran(
            benchmark="inscoqa", task="generation", setting=setting, query=None, domains=domains,
            variants=variants, metrics=metrics,
            breakdowns={"domain": dict.fromkeys(domains, metrics), "split": {split: metrics}},
        )  # fmt: skip

    for setting in ("documents", "prompt"):  # the assistant's turn, and the paper's prompt, over the same documents
        rows = beside(run(setting, rouge_l__char=CHARACTERS))
        assert {(row.subset, row.slice) for row in rows} == {("test split", "split=test")}
        assert [row.comparable for row in rows] == [True] * 4  # no judge takes part in the one metric that both have
    assert {row.differs for row in beside(run("rag", rouge_l__char=CHARACTERS))} == {("setting",)}
    rows = beside(run(split="validation", rouge_l__char=CHARACTERS))
    assert [row.comparable for row in rows] == [True] * 4 + [False] * 4  # Table 4 is of judged metrics alone
    row = named(beside(run(rouge_l__char=CHARACTERS, rouge_l__word="rouge-score")), "Table 3", subset="test split")[0]
    assert row.why == (
        "metric: rouge_l.word: published by ROUGE-L F1 over words, how they are split is not said, here by rouge-score"
    )
    (row,) = named(beside(run(split="validation", rouge_l__char=CHARACTERS)), "Table 4", system="GPT-4")
    assert row.differs == ("judge", "metric")
    assert (row.judge, row.slice) == ("GPT-4", "split=validation")


def test_compound_qa_at_hand_is_never_the_papers() -> None:
    kinds = get_args(QuestionType)
    rows = named(beside(Ran(
        benchmark="compound-qa", task="generation", setting="vanilla", query=None, domains=(),
        metrics=figures(5000, "win_rate"),
        variants={"win_rate": "Arena-Hard verdicts as good as or better than the reference"},
        judges=("openai:gpt-3.5-turbo",),
        breakdowns={"capability": {"Understanding": figures(5000, "win_rate")},
                    "type": {kind: figures(1000, "win_rate") for kind in kinds}},
    )), "Table 2")  # fmt: skip
    assert len(rows) == 8 * 6  # the capabilities that did not run are left out
    assert {row.differs for row in rows} == {("n",)}
    # Where one capability alone ran, the rows of a type are those of its type in that capability.
    assert Counter(row.slice for row in rows) == {
        "capability=Understanding": 8, **{f"type={kind}": 8 for kind in kinds},
    }  # fmt: skip
    assert {row.why for row in rows} == {
        "n: published 500 samples, here 5000", "n: published 100 samples, here 1000",
    }  # fmt: skip


def test_compound_qa_over_all_capabilities_has_no_figures_for_a_cell() -> None:
    names = get_args(Capability)
    rows = named(beside(Ran(
        benchmark="compound-qa", task="generation", setting="vanilla", query=None, domains=(),
        metrics=figures(1500, "win_rate"),
        variants={"win_rate": "Arena-Hard verdicts as good as or better than the reference"},
        judges=("vllm:gpt-3.5-turbo",),
        breakdowns={"capability": {name: figures(500, "win_rate") for name in names},
                    "type": {kind: figures(300, "win_rate") for kind in get_args(QuestionType)}},
    )), "Table 2")  # fmt: skip
    assert {row.slice for row in rows if row.comparable} == {f"capability={name}" for name in names}
    assert {row.differs for row in rows if not row.comparable} == {("subset",)}
    assert len(rows) == 144


def test_table_5_differs_in_its_turns_and_its_prompt_and_not_in_their_number() -> None:
    """186 turns, 88 of them good: recall is over these, and F1 over fewer than all; both are figures of all 186."""

    def one(n: int) -> MetricSummary:
        return MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=n, failed=0, not_applicable=186 - n)

    counts = {"accuracy": 186, "precision": 100, "recall": 88, "f1": 120, "predicted_good": 186}
    metrics = {name: one(n) for name, n in counts.items()}
    rows = named(beside(Ran(
        benchmark="kiwi", task="judge", setting="zero-shot", query=None, domains=(), metrics=metrics,
        variants=dict.fromkeys(counts, "against the users' ratings, good being positive"),
        breakdowns={"split": {"test": metrics}},
    )), "Table 5")  # fmt: skip
    differs = {row.system: row.differs for row in rows}
    assert differs["GPT-4, zero-shot"] == ("turns", "prompt")
    assert differs["Majority"] == ("turns",)
    assert differs["GPT-4, ten retrieved examples"] == ("turns", "prompt", "setting")
    assert not any(row.comparable for row in rows)
    assert {row.model for row in rows if "GPT-4" in row.system} == {"gpt-4-1106-preview"}
    fewer = metrics | {"accuracy": one(186).model_copy(update={"n": 185, "not_applicable": 0, "failed": 1})}
    again = beside(Ran(
        benchmark="kiwi", task="judge", setting="zero-shot", query=None, domains=(), metrics=fewer, variants={},
        breakdowns={"split": {"test": fewer}},
    ))  # fmt: skip
    assert all("n" in row.differs for row in named(again, "Table 5"))


@pytest.mark.parametrize("task", ["revise", "analyse"])
def test_kiwi_counts_the_users_as_judges(task: str) -> None:
    def run(judges: tuple[str, ...]) -> Ran:
        metrics = figures(370, "good", *EDITS)
        return Ran(
            benchmark="kiwi", task=task, query=None, domains=(), metrics=metrics, judges=judges,
            variants={"good": "share of turns that the user rated good"} | dict.fromkeys(EDITS, "words"),
            breakdowns={"model": {"GPT-4": metrics}},
        )  # fmt: skip

    def first(judges: tuple[str, ...]) -> PublishedRow:
        (row,) = (row for row in beside(run(judges)) if row.metrics == {"good": 0.59})
        return row

    row = first(("human",))
    assert row.comparable
    assert (row.slice, row.metrics, row.judge) == ("model=GPT-4", {"good": 0.59}, "human")
    assert first(("openai:gpt-4o",)).differs == ("judge",)
    assert not any(row.comparable for row in beside(run(())))
    assert not named(beside(run(())), "Table 5")


def test_nothing_is_comparable_with_the_demo_data() -> None:
    runs = [answered(demo=True), ran(demo=True), answered(832, setting="reference", demo=True)]
    for run in runs:
        rows = beside(run)
        assert rows
        assert all(row.differs[0] == "data" and not row.comparable for row in rows)


def test_other_benchmarks_tasks_and_domains_are_left_out() -> None:
    assert beside(ran(benchmark="mtrag-s")) == beside(ran(task="judge")) == ()
    assert {row.source[:16] for row in beside(ran(benchmark="mtrag-un"))} == {"MTRAG-UN Table 2", "MTRAG-UN Table 3"}
    assert not {row.source for row in beside(ran())} & {row.source for row in beside(ran(task="generation"))}
    rows = beside(ran(domains=("fiqa",), metrics=figures(180)))
    assert {row.domains for row in rows} == {FOUR, ("clapnq", "fiqa"), ("fiqa",)}
    assert {row.slice for row in rows if row.domains == ("fiqa",)} == {"all"}
    demo = beside(ran(domains=("handbook",), corpora={"handbook": "other"}))
    assert demo
    assert all(row.slice is None and "documents" in row.differs for row in demo)
