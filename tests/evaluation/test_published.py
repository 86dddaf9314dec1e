"""The published facts are the tables of the papers; rows beside ours are comparable only where everything agrees."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from tests.evaluation.published_rows import (
    CHARACTERS,
    EDITS,
    FOUR,
    JUDGES,
    PANEL,
    RETRIEVAL,
    answered,
    figures,
    named,
    printed,
    ran,
    well_formed,
)
from turnmark.corpora.benchmarks.compound_qa import Capability, QuestionType
from turnmark.evaluation.benchmarks.inscoqa.rubrics import INSEVAL
from turnmark.evaluation.judging.rubrics import OWN_WORDS
from turnmark.evaluation.prompts import OFFICIAL
from turnmark.evaluation.records import MetricSummary
from turnmark.evaluation.scores.published_results import RERUN, RunFacts, find_rows, published_facts


def test_rows_are_comparable_only_if_everything_agrees():
    rows = find_rows(ran())
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
    pair = named(rows, RERUN, query="rewrite", domains=("clapnq", "fiqa"))
    assert len(pair) == 5 + 4
    assert {row.differs for row in pair} == {("domains",)}


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
def test_one_difference_is_enough_and_is_named(changes, aspect, words):
    (row,) = named(find_rows(ran(**changes)), "Table 3", system="BM25", query="rewrite")
    assert not row.comparable
    assert row.differs == (aspect,)
    assert words in str(row.why)


def test_answers_are_comparable_if_setting_and_judges_agree():
    rows = find_rows(answered())
    comparable = {(row.source, row.system) for row in rows if row.comparable}
    assert comparable == {("MTRAG Table 5, section 6.4", fact.system) for fact in published_facts()
                          if fact.setting == "rag" and fact.benchmark == "mtrag"}  # fmt: skip
    assert len(comparable) == 10
    assert [row.setting for row in rows[:11]] == ["reference+rag"] * 10 + ["reference"]
    assert {row.differs[0] for row in rows[10:]} == {"setting"}
    assert all(row.judge and f"rb_llm.idk: {', '.join(PANEL)}" in row.judge for row in rows[:10])


@pytest.mark.parametrize(("snapshots", "here"), [
    (("gpt-4o-mini-2024-07-18",), ""), (("gpt-4o-mini-2025-01-01",), "answered as gpt-4o-mini-2025-01-01"),
    ((), "openai:gpt-4o-mini"), (("gpt-4o-mini-2024-07-18", "gpt-4o-mini-2025-01-01"), "answered as"),
])  # fmt: skip
def test_an_alias_is_the_published_judge_if_its_snapshot_answered(snapshots, here):
    alias = "openai:gpt-4o-mini"
    judges = tuple(alias if "gpt-4o-mini-2024-07-18" in judge else judge for judge in answered().judges)
    assert alias in judges
    row = find_rows(answered(judges=judges).model_copy(update={"answered": {alias: snapshots}}))[0]
    assert row.comparable == (not here)
    assert here in (row.why or "")


def test_inscoqa_is_compared_metric_by_metric():
    def run(setting="documents", split="test", **names):
        metrics = figures(2793 if split == "test" else 1406, *(name.replace("__", ".") for name in names))
        variants = dict(zip(metrics, names.values(), strict=True))
        domains = ("Gourmet", "Travel")
        return RunFacts(
            benchmark="inscoqa", task="generation", setting=setting, query=None, domains=domains,
            variants=variants, metrics=metrics,
            breakdowns={"domain": dict.fromkeys(domains, metrics), "split": {split: metrics}},
        )  # fmt: skip

    for setting in ("documents", "prompt"):  # the assistant's turn, and the paper's prompt, over the same documents
        rows = find_rows(run(setting, rouge_l__char=CHARACTERS))
        assert {(row.subset, row.slice) for row in rows} == {("test split", "split=test")}
        assert [row.comparable for row in rows] == [True] * 4  # no judge takes part in the one metric that both have
    assert {row.differs for row in find_rows(run("rag", rouge_l__char=CHARACTERS))} == {("setting",)}
    rows = find_rows(run(split="validation", rouge_l__char=CHARACTERS))
    assert [row.comparable for row in rows] == [True] * 4 + [False] * 4  # Table 4 is of judged metrics alone
    row = named(find_rows(run(rouge_l__char=CHARACTERS, rouge_l__word="rouge-score")), "Table 3", subset="test split")[
        0
    ]
    assert row.why == (
        "metric: rouge_l.word: published by ROUGE-L F1 over words, how they are split is not said, here by rouge-score"
    )
    (row,) = named(find_rows(run(split="validation", rouge_l__char=CHARACTERS)), "Table 4", system="GPT-4")
    assert row.differs == ("judge", "metric")
    assert (row.judge, row.slice) == ("GPT-4", "split=validation")


@pytest.mark.parametrize(("all_questions", "of_type", "differs"), [
    (5000, 1000, ("data", "n")),
    (500, 100, ("data",)),  # as many as the paper has, drawn from more, stood beside Table 2 as comparable
])  # fmt: skip
def test_public_compound_qa_is_never_the_papers_data(all_questions, of_type, differs):
    kinds = get_args(QuestionType)
    rows = named(find_rows(RunFacts(
        benchmark="compound-qa", task="generation", setting="vanilla", query=None, domains=(),
        metrics=figures(all_questions, "win_rate"),
        variants={"win_rate": "Arena-Hard verdicts as good as or better than the reference"},
        judges=("openai:gpt-3.5-turbo",),
        breakdowns={"capability": {"Understanding": figures(all_questions, "win_rate")},
                    "type": {kind: figures(of_type, "win_rate") for kind in kinds}},
    )), "Table 2")  # fmt: skip
    # The capabilities that did not run are left out. Where one capability alone ran, the rows of a type are those of
    # its type in that capability.
    assert Counter(row.slice for row in rows) == {
        "capability=Understanding": 8, **{f"type={kind}": 8 for kind in kinds},
    }  # fmt: skip
    assert {(row.comparable, row.differs) for row in rows} == {(False, differs)}
    unknown = (
        "data: not known to be the paper's: its 1,500 questions are not published, and the public files of "
        "Understanding are other, larger ones"
    )
    counts = ("; n: published 500 samples, here 5000", "; n: published 100 samples, here 1000")
    assert {row.why for row in rows} == {unknown + count for count in (counts if "n" in differs else ("",))}


def test_unknown_data_is_not_comparable():
    """Of a domain the rows over it, alone or with others; of all data together the rows over all of them."""
    rows = find_rows(ran(doubts={"clapnq": "clapnq has the published number of queries, but different ones"}))
    doubted = {row.domains for row in rows if "data" in row.differs}
    assert doubted == {row.domains for row in rows if "clapnq" in row.domains}
    assert ("fiqa",) not in doubted
    (row,) = named(rows, "Table 4", domains=("clapnq",))
    assert (
        row.why == "data: not known to be the paper's: clapnq has the published number of queries, but different ones"
    )
    rows = find_rows(ran(doubts={"": "841 tasks here, published 842"}))
    assert {len(row.domains) for row in rows if "data" in row.differs} == {4}
    assert [row.comparable for row in named(rows, "Table 4", domains=("clapnq",))] == [True]
    demo = find_rows(ran(demo=True, doubts={"clapnq": "small"}))
    assert {(row.why or "").partition(";")[0] for row in demo} == {"data: the demo split is not the benchmark"}


def test_table_5_differs_in_turns_and_prompt():
    """186 turns, 88 of them good: recall is over these, and F1 over fewer than all; both are figures of all 186."""

    def one(n):
        return MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=n, failed=0, not_applicable=186 - n)

    counts = {"accuracy": 186, "precision": 100, "recall": 88, "f1": 120, "predicted_good": 186}
    metrics = {name: one(n) for name, n in counts.items()}
    rows = named(find_rows(RunFacts(
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
    again = find_rows(RunFacts(
        benchmark="kiwi", task="judge", setting="zero-shot", query=None, domains=(), metrics=fewer, variants={},
        breakdowns={"split": {"test": fewer}},
    ))  # fmt: skip
    assert all("n" in row.differs for row in named(again, "Table 5"))


@pytest.mark.parametrize("task", ["revise", "analyse"])
def test_kiwi_compares_ratings_of_users_as_judges(task):
    def run(judges):
        metrics = figures(370, "good", *EDITS)
        return RunFacts(
            benchmark="kiwi", task=task, query=None, domains=(), metrics=metrics, judges=judges,
            variants={"good": "share of turns that the user rated good"} | dict.fromkeys(EDITS, "words"),
            breakdowns={"model": {"GPT-4": metrics}},
        )  # fmt: skip

    def first(judges):
        (row,) = (row for row in find_rows(run(judges)) if row.metrics == {"good": 0.59})
        return row

    row = first(("human",))
    assert row.comparable
    assert (row.slice, row.metrics, row.judge) == ("model=GPT-4", {"good": 0.59}, "human")
    assert first(("openai:gpt-4o",)).differs == ("judge",)
    assert not any(row.comparable for row in find_rows(run(())))
    assert not named(find_rows(run(())), "Table 5")


def _judge_differs(fact, metric):
    """Whether the judges of a figure are others than those of the panel of its benchmark."""
    members = JUDGES.get(fact.benchmark, JUDGES["mtrag"])
    names = ("rb_llm", "idk", "rl_f", "judge_score", "win_rate", "clarification")
    judged = {name: tuple(judge.name for judge in members if judge.grades(name)) for name in names}
    run = ran(
        benchmark=fact.benchmark, task=fact.task, setting=fact.setting, metrics=figures(1, metric), variants={},
        judges=tuple(judge.name for judge in members), judged=judged, breakdowns={}, domains=fact.domains,
    )  # fmt: skip
    return any("judge" in row.differs_by_metric[metric] for row in find_rows(run, [fact]))


def test_named_panels_are_those_of_the_published_figures():
    """139 figures of MTRAG and 28 of MTRAG-UN were never comparable: one of four names was spelled otherwise."""
    differing = {"RAGAS", "human", "GPT-4"}  # what no named panel of ours asks
    counted = Counter()
    for fact in published_facts():
        for metric, instrument in fact.instruments.items():
            if instrument.judges and not any(word in judge for judge in instrument.judges for word in differing):
                counted[fact.benchmark] += 1
                assert not _judge_differs(fact, metric), (fact.source, fact.system, metric, instrument.judges)
    assert set(counted) >= {"mtrag", "mtrag-un", "inscoqa", "compound-qa"}


def test_the_figures_of_each_table_add_up():
    """Sums over the printed tables, made by another route than the facts; the column of Table 16a that stands for
    three metrics counts three times."""
    sums: Counter[str] = Counter()
    for fact in published_facts():
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


def test_retrieval_facts_match_the_tables():
    """Spot checks against the printed tables, and sums that a slip of the pen would break."""
    assert printed("MTRAG Table 3", "BGE-base 1.5", query="rewrite") == [
        0.17, 0.30, 0.37, 0.47, 0.34, 0.31, 0.34, 0.38,
    ]  # fmt: skip
    assert printed("MTRAG Table 15", "Elser", query="rewrite", domains=("clapnq",))[6] == 0.53
    assert printed("MTRAG Table 4", "Elser", part={"standalone": "non-standalone"}) == [0.42]
    splade = printed("rerun", "SPLADE", query="last-turn", domains=("fiqa",))
    assert [splade[index] for index in (2, 6)] == [0.323, 0.292]
    table_4 = {fact.domains: fact.n or 0 for fact in published_facts() if "Table 4, section 5.3" in fact.source}
    table_15 = {fact.domains: fact.n or 0 for fact in published_facts() if "Table 15" in fact.source}
    assert sum(n for domains, n in table_4.items() if len(domains) == 1) == 777
    assert sum(n for domains, n in table_15.items() if len(domains) == 1) == table_15[FOUR] == 780
    slips = [
        fact
        for fact in published_facts()
        if "Table 15" in fact.source and fact.domains in (("govt",), ("cloud",), FOUR)
    ]
    assert all(fact.note for fact in slips)
    for fact in published_facts():
        recalls = [fact.metrics[f"recall@{k}"] for k in (1, 3, 5, 10) if f"recall@{k}" in fact.metrics]
        assert recalls == sorted(recalls)


def test_figures_of_a_compound_qa_column_fit_its_n():
    """Each question is judged in both orders, so a win rate is k / (2 n), rounded to three digits."""
    column = [
        (fact.n, fact.metrics["win_rate"])
        for fact in published_facts()
        if fact.subset == "Reasoning, Hypothetical-Analysis" and fact.setting == "vanilla"
    ]
    assert len(column) == 8
    for n, rate in column:
        assert n == 98
        assert round(round(rate * 2 * n) / (2 * n), 3) == rate


def test_the_means_of_compound_qa_are_those_of_its_types():
    def rate(system, capability, kind=None):
        part = {"capability": capability} | ({"type": kind} if kind else {})
        return printed("Compound-QA Table 2", system, part=part)[0]

    systems = {fact.system for fact in published_facts() if fact.benchmark == "compound-qa"}
    assert len(systems) == 8
    for system in systems:
        for capability in get_args(Capability):
            mean = sum(rate(system, capability, kind) for kind in get_args(QuestionType)) / 5
            assert mean == pytest.approx(rate(system, capability), abs=0.0013)


def test_every_fact_has_a_source_and_an_instrument():
    for fact in published_facts():
        well_formed(fact)


def test_facts_use_our_names_of_equal_instruments():
    from turnmark.evaluation.tasks.standard_metrics import ROUGE_CHAR

    names = {name for fact in published_facts() if fact.benchmark == "inscoqa" for tool in fact.instruments.values()
            for name in tool.same}  # fmt: skip
    papers = INSEVAL.by.replace(OWN_WORDS, OFFICIAL)
    assert names == {ROUGE_CHAR, papers} == {CHARACTERS, papers}
