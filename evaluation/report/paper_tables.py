"""The tables of the four papers: what each of their rows and columns is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from turnmark.corpora.compound_qa import Capability
from turnmark.corpora.kiwi import ERROR_TYPES, FINE_TYPES, MODELS
from turnmark.evaluation.benchmarks.mtrag import FEW_REFERENCES, SETTINGS
from turnmark.evaluation.judging.judge import model_key
from turnmark.evaluation.judging.rubrics import EMBEDDED
from turnmark.evaluation.published import RERUN, Fact
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.paper import PaperTable, Runs, Slot, fill, judges_of, query_of
from turnmark.evaluation.report.tables import Table

_CUTOFFS = (1, 3, 5, 10)
_QUERIES = {"last-turn": "Last Turn", "rewrite": "Query Rewrite"}
_DOMAINS = {"clapnq": "CLAPNQ", "fiqa": "FiQA", "govt": "Govt", "cloud": "Cloud"}
_SIGNS = dict(zip(SETTINGS, "●◐○", strict=True))
_JUDGED = {"RL_F": "rl_f.idk", "RBllm": "rb_llm.idk", "RBalg": "rb_alg.idk"}
_TYPES = {
    "FS": "Factual-Statement", "CE": "Cause-and-Effect", "HA": "Hypothetical-Analysis",
    "CS": "Comparison-and-Selection", "ES": "Evaluation-and-Suggestion",
}  # fmt: skip
_INSCOQA_JUDGES = ("Qwen2-7B-Instruct", "GPT-4")


def paper_tables(runs: Runs) -> tuple[Table, ...]:
    """The tables of a benchmark's paper with these runs of it in them, the most informative one first.

    Args:
        runs: what to call each run, and its summary; all of one benchmark and task.
    """
    summaries = [summary for _, summary in runs]
    shapes = _SHAPES.get((summaries[0].benchmark, summaries[0].task), ())
    filled = (fill(table, runs) for shape in shapes for table in shape(summaries))
    return tuple(table for table in filled if table is not None)


def tables_together(runs: Runs) -> tuple[Table, ...]:
    """The papers' tables of every benchmark and task that there are several runs of."""
    groups: dict[tuple[str, str], list[tuple[str, Summary]]] = {}
    for name, summary in runs:
        groups.setdefault((summary.benchmark, summary.task), []).append((name, summary))
    return tuple(table for group in groups.values() if len(group) > 1 for table in paper_tables(group))


# --- MTRAG -----------------------------------------------------------------------------------------------------------


def _retrieval(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    """Tables 3, 4 and 15, with recorded runs of known systems besides, over the domains that ran."""
    columns, queries = _cutoffs(_CUTOFFS), _queries(runs)
    yield PaperTable(("MTRAG Table 3", RERUN), "retrieval", columns, queries, ("system", "query"))
    subsets = [
        Slot(label, over, part={dimension: value})
        for over, dimension, values in (
            ("By turn", "turn", {"first": "Turn 1", "later": "> Turn 1"}),
            ("By standalone (> turn 1)", "standalone",
             {"standalone": "Standalone", "non-standalone": "Non-standalone"}),
            ("By domain", "domain", _domains(runs)),
        )
        for value, label in values.items()
    ]  # fmt: skip
    by_subset = (Slot("R@5", metrics=("recall@5",)), Slot("nDCG@5", metrics=("ndcg@5",)))
    yield PaperTable(
        ("MTRAG Table 4", RERUN), "Elser with query rewrite, by subset", by_subset, tuple(subsets),
        ("system", "subset"), by_row=True, facts=_elser("rewrite"),
    )  # fmt: skip
    by_domain = [
        replace(query, over=label, part={"domain": name} if name else {})
        for name, label in (*_domains(runs).items(), ("", "All"))
        for query in queries
    ]
    yield PaperTable(
        ("MTRAG Table 15", RERUN), "Elser by domain", columns, tuple(by_domain), ("system", "query"), by_row=True,
        facts=_elser(),
    )  # fmt: skip


def _retrieval_un(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    """MTRAG-UN's Tables 2 and 3."""
    queries = _queries(runs)
    yield PaperTable(("MTRAG-UN Table 2",), "retrieval", _cutoffs((5, 10)), queries, ("system", "query"))
    subsets = [
        replace(query, over=label, part={"standalone": label.lower()})
        for label in ("Non-standalone", "Standalone")
        for query in queries
    ]
    yield PaperTable(
        ("MTRAG-UN Table 3",), "Elser by subset", (Slot("R@5", metrics=("recall@5",)),), tuple(subsets),
        ("system", "query"), by_row=True,
    )  # fmt: skip


def _cutoffs(cutoffs: Sequence[int]) -> tuple[Slot, ...]:
    heads = (("Recall", "recall"), ("nDCG", "ndcg"))
    return tuple(Slot(f"@{k}", over, (f"{metric}@{k}",)) for over, metric in heads for k in cutoffs)


def _queries(runs: Sequence[Summary]) -> tuple[Slot, ...]:
    """The papers' two query modes, and those of our runs behind them."""
    modes = {**_QUERIES, **{mode: mode for mode in map(query_of, runs) if mode not in _QUERIES}}
    return tuple(Slot(label, query=mode) for mode, label in modes.items())


def _elser(query: str | None = None) -> Callable[[Fact], bool]:
    return lambda fact: fact.system.casefold() == "elser" and query in (None, fact.query)


def _domains(runs: Sequence[Summary]) -> Mapping[str, str]:
    """The domains that ran, as the paper orders and spells them."""
    domains = [name for summary in runs for name in summary.breakdowns.get("domain", {})]
    return {name: _DOMAINS.get(name, name) for name in (*(n for n in _DOMAINS if n in domains), *domains)}


def _answers(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    """Tables 5, 16a to 16c, 13 and 14. All but the first are of the setting `reference`."""
    few_references = {dimension: value for dimension, (value,) in FEW_REFERENCES.items()}
    settings = [
        Slot(sign, over, (metric,), part={} if setting == "reference+rag" else few_references, setting=setting)
        for over, metric in {"Acc.": "answerability_accuracy", **_JUDGED}.items()
        for setting, sign in _SIGNS.items()
    ]
    title = "reference ●, reference+rag ◐, rag ○; tasks with at most two reference passages"
    yield PaperTable(("MTRAG Table 5",), title, tuple(settings), joined=True, counted=False)
    overall = [Slot(label, "Overall", (metric,)) for label, metric in _JUDGED.items()]
    parts = [
        Slot(label, over, (metric,), part={"answerability": value})
        for over, value in (("Answ.", "ANSWERABLE"), ("Partial", "PARTIAL"))
        for label, metric in _JUDGED.items()
    ]
    unanswerable = {"answerability": "UNANSWERABLE"}
    last = Slot("Unans.", metrics=tuple(_JUDGED.values()), part=unanswerable)
    yield _reference("MTRAG Table 16a", "by answerability", (*overall, *parts, last))
    for source, title, values in (
        ("MTRAG Table 16b", "by turn", {"1": {"turn": "first"}, "> 1": {"turn": "later"}}),
        ("MTRAG Table 16c", "by domain", {label: {"domain": name} for name, label in _domains(runs).items()}),
    ):
        columns = [
            Slot(label, over, (metric,), part=part)
            for over, metric in _JUDGED.items()
            for label, part in values.items()
        ]
        yield _reference(source, title, columns)
    conditioned = [
        Slot(label, over, (name,), part=unanswerable)
        for over, metric in _JUDGED.items()
        for label, name in (("before", metric.removesuffix(".idk")), ("after", metric))
    ]
    yield _reference("MTRAG Table 13", "unanswerable tasks before and after conditioning on IDK", conditioned)
    faithful = (Slot("RL_F", metrics=("rl_f.idk",)), Slot("BERT-K-Prec", metrics=("bert_k_precision",)))
    yield _reference("MTRAG Table 14", "faithfulness", faithful)


def _answers_un(_: Sequence[Summary]) -> Iterator[PaperTable]:
    """MTRAG-UN's Table 4."""
    columns = [
        Slot(_SIGNS[setting], over, (f"{metric}_underspecified",), setting=setting)
        for over, metric in _JUDGED.items()
        for setting in ("reference", "rag")
    ]
    yield PaperTable(("MTRAG-UN Table 4",), "reference ●, rag ○", tuple(columns), joined=True)


def _reference(source: str, title: str, columns: Sequence[Slot]) -> PaperTable:
    only = tuple(replace(column, setting="reference") for column in columns)
    return PaperTable((source,), title, only, counted=source.endswith("14"))


# --- InsCoQA ---------------------------------------------------------------------------------------------------------


def _inscoqa(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    """Tables 3 and 4. In the second every judge has its own columns, those of our runs behind the paper's two."""
    score, rate = Slot("JS", metrics=("judge_score",)), Slot("TCR %", metrics=("task_completion",), form=".2%")
    overlap = (Slot("W-RL", metrics=("rouge_l.word",)), Slot("C-RL", metrics=("rouge_l.char",)))
    splits = tuple(
        Slot(over=f"{name} set", part={"split": value})
        for name, value in (("Validation", "validation"), ("Test", "test"))
    )
    title = "judge score, task completion rate, ROUGE-L over words and characters"
    yield PaperTable(("InsCoQA Table 3",), title, (score, rate, *overlap), splits, by_row=True, judged="judge_score")
    judges = {model_key(judge): judge for judge in _INSCOQA_JUDGES}
    for summary in runs:
        for metric in ("judge_score", "judge_score[embedded]"):
            if judge := judges_of(summary, metric):
                judges.setdefault(model_key(judge), judge)
    judged = [
        replace(column, over=judge, judge=judge, variant=EMBEDDED * (judge == EMBEDDED))
        for judge in judges.values()
        for column in (score, rate)
    ]
    yield PaperTable(
        ("InsCoQA Table 4", "InsCoQA Table 3"), "by judge, on the validation set", tuple(judged), splits[:1]
    )  # fmt: skip


# --- Compound-QA -----------------------------------------------------------------------------------------------------


def _compound_qa(_: Sequence[Summary]) -> Iterator[PaperTable]:
    """Tables 2 and 3, and figure 3, whose published bars are an image."""
    capabilities = tuple(Slot(name, part={"capability": name}) for name in get_args(Capability))
    heads = ("model", "capability")
    for source, metric, note in (
        ("Compound-QA Table 2", "win_rate", ""),
        ("Compound-QA Figure 3", "sub_win_rate", "the published bars are an image"),
    ):
        columns = [Slot("Overall", metrics=(metric,), form=".1%")]
        columns += [Slot(head, metrics=(metric,), part={"type": name}, form=".1%") for head, name in _TYPES.items()]
        title = (
            "win rate of whole answers, %" if metric == "win_rate" else "win rate of the answers to sub-questions, %"
        )
        yield PaperTable((source,), title, tuple(columns), capabilities, heads, note=note)
    part = {"capability": "Understanding", "type": "Factual-Statement"}
    positions = [
        Slot(head, metrics=(f"sub_win_rate.q{{}}@{index}",), part=part, form=".1%")
        for index, head in enumerate(("1XX", "X1X", "XX1"), 1)
    ]
    questions = tuple(Slot(f"Sub-question{number}", key=str(number)) for number in (1, 2, 3))
    yield PaperTable(
        ("Compound-QA Table 3",), "win rate of a sub-question by its place, %", tuple(positions), questions,
        ("model", "sub-question"),
    )  # fmt: skip


# --- KIWI ------------------------------------------------------------------------------------------------------------


def _judged_turns(_: Sequence[Summary]) -> Iterator[PaperTable]:
    columns = (
        Slot("Acc", metrics=("accuracy",)), Slot("P", metrics=("precision",)), Slot("R", metrics=("recall",)),
        Slot("F1", metrics=("f1",)), Slot("% good", metrics=("predicted_good",), form=".0%"),
    )  # fmt: skip
    test, second_rating = (
        Slot(part={"split": "test"}),
        Slot(ours=False),
    )  # 65 turns of any split were rated a second time
    title = "predicting the user's rating"
    yield PaperTable(("KIWI Table 5",), title, columns, (test, second_rating), baselines=("majority", "random"))


def _sessions(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    models = _models(runs)
    shares = (
        Slot("% edited", metrics=("edited",), form=".0%"), Slot("t/s", metrics=("turns_per_session",), form=".1f"),
        Slot("% info", metrics=("information_seeking",), form=".0%"), Slot("% good", metrics=("good",), form=".0%"),
    )  # fmt: skip
    yield PaperTable(
        ("KIWI Table 2", "KIWI section 4.1", "KIWI section 4.3"), "the sessions, and the share of turns rated good",
        shares, (*models, Slot("Total")), ("system", "model"), by_row=True, published="published",
    )  # fmt: skip
    columns = [
        Slot("%", metrics=("instruction[{}]",), form=".0%"),
        Slot("% info", metrics=("information_seeking[{}]",), form=".0%"),
        Slot("all", "% good", ("good[{}]",), form=".0%"),
        *(replace(slot, over="% good", metrics=("good[{}]",), form=".0%") for slot in models),
    ]
    yield _by_label("KIWI Table 3", "what is asked for", columns, FINE_TYPES)
    share = [Slot("%", metrics=("error[{}]",), form=".0%")]
    yield _by_label("KIWI Table 4", "what went wrong in turns rated neutral or bad", share, ERROR_TYPES)
    share = [Slot("%", metrics=("retrieved[{}]",), form=".0%")]
    yield _by_label("KIWI section 4.3", "was what is needed retrieved?", share, ("all", "some", "none"))


def _by_label(source: str, title: str, columns: Sequence[Slot], labels: Sequence[str]) -> PaperTable:
    rows = tuple(Slot(label, key=label) for label in labels)
    mixed = source == "KIWI Table 3"  # each of its columns counts other turns
    return PaperTable(
        (source,), title, tuple(columns), rows, ("system", "type"), by_row=True, published="published",
        counted=not mixed, note="the published shares of good turns are images" if mixed else "",
    )  # fmt: skip


def _changes(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    columns = (
        *(Slot(head, "# words", (f"{name}_words",), form=".0f")
          for head, name in (("inst", "instruction"), ("src", "source"), ("target", "target"))),
        Slot("ratio", "Len", ("length_ratio",)), Slot("distance", "Edit", ("edit_distance",), form=".0f"),
        Slot("ratio", "Edit", ("edit_ratio",)),
    )  # fmt: skip
    types = {"Stylistic": "stylistic", "Info seeking": "information-seeking"}
    rows = (
        *(Slot(name, part={"instruction": name}) for name in FINE_TYPES),
        *(Slot(label, part={"type": name}) for label, name in types.items()),
        *_models(runs),
        Slot("Total"),
        *(Slot(name, "Instruction by its words", part={"instruction_by_rules": name}) for name in FINE_TYPES),
    )
    title = "how much a revision changes, in words"
    yield PaperTable(
        ("KIWI Table 6",), title, columns, rows, ("system", "type"), by_row=True, published="published"
    )  # fmt: skip


def _rated(runs: Sequence[Summary]) -> Iterator[PaperTable]:
    """What the text says of Figure 2, which is an image."""
    rated = Slot("% good", metrics=("good",), form=".0%")
    yield PaperTable(
        ("KIWI section 4.1", "KIWI section 4.3"), "revisions rated good", (rated,), (*_models(runs), Slot("Total")),
        ("system", "model"), by_row=True, published="published",
    )  # fmt: skip


def _models(runs: Sequence[Summary]) -> tuple[Slot, ...]:
    models = [name for summary in runs for name in summary.breakdowns.get("model", {})]
    names = dict.fromkeys((*(name for name in MODELS if name in models), *models))
    return tuple(Slot(name, part={"model": name}) for name in names)


_SHAPES: Mapping[tuple[str, str], Sequence[Callable[[Sequence[Summary]], Iterator[PaperTable]]]] = {
    ("mtrag", "retrieval"): (_retrieval,),
    ("mtrag", "generation"): (_answers,),
    ("mtrag-s", "generation"): (_answers,),
    ("mtrag-un", "retrieval"): (_retrieval_un,),
    ("mtrag-un", "generation"): (_answers_un,),
    ("inscoqa", "generation"): (_inscoqa,),
    ("compound-qa", "generation"): (_compound_qa,),
    ("kiwi", "judge"): (_judged_turns,),
    ("kiwi", "analyse"): (_sessions, _changes),
    ("kiwi", "revise"): (_changes, _rated),
}
