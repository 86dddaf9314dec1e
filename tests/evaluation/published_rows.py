"""What a run would say of itself, for tests of published rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from turnmark.corpora.benchmarks.compound_qa import Capability, QuestionType
from turnmark.corpora.benchmarks.kiwi import FINE_TYPES, CoarseType
from turnmark.corpora.benchmarks.mtrag import Answerability
from turnmark.evaluation.judging.judges import judge_presets, open_judges
from turnmark.evaluation.model_names import short_name
from turnmark.evaluation.records import MetricSummary, PublishedRow
from turnmark.evaluation.scores.published_results import PublishedFact, RunFacts, published_facts

FOUR = ("clapnq", "cloud", "fiqa", "govt")
COUNTS = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
RETRIEVAL = tuple(f"{name}@{k}" for name in ("recall", "ndcg") for k in (1, 3, 5, 10))
EDITS = ("length_ratio", "edit_distance", "edit_ratio")
JUDGES = {
    name: [judge for judge in open_judges([f"panel:{name}@http://localhost:8000/v1"]) if judge.has_model]
    for name in judge_presets()
}
PANEL = tuple(short_name(judge.name) for judge in JUDGES["mtrag"])
CHARACTERS = "ROUGE-L F1 (rapidfuzz; characters, beta 1)"


def figures(n: int, *names: str) -> dict[str, MetricSummary]:
    summary = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=n, failed=0, not_applicable=0)
    return dict.fromkeys(names or RETRIEVAL, summary)


def ran(**changes: Any) -> RunFacts:
    """A run of all four domains over the full corpora with rewrites: what Table 3 asks for."""
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "query": "rewrite", "domains": FOUR,
        "corpora": dict.fromkeys(FOUR, "full"), "variants": dict.fromkeys(RETRIEVAL, "pytrec_eval"),
        "metrics": figures(777),
        "breakdowns": {"domain": {name: figures(n) for name, n in COUNTS.items()},
                       "turn": {"first": figures(102), "later": figures(675)}},
    }  # fmt: skip
    return RunFacts(**(fields | changes))


def answered(n: int = 426, names: Mapping[str, str] | None = None, **changes: Any) -> RunFacts:
    """A run that agrees with Table 5's column for reference+rag in rb_llm.idk, as far as a run can."""
    names = names or {"rb_llm.idk": "median rating of four judges / 10, conditioned on IDK"}
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "generation", "setting": "reference+rag", "query": "rewrite", "domains": FOUR,
        "corpora": dict.fromkeys(FOUR, "full"), "variants": names, "metrics": figures(n, *names), "breakdowns": {},
        "judges": tuple(judge.name for judge in JUDGES["mtrag"]),
    }  # fmt: skip
    return RunFacts(**(fields | changes))


def named(rows: tuple[PublishedRow, ...], source: str, **fields: Any) -> list[PublishedRow]:
    return [row for row in rows if source in row.source and all(getattr(row, k) == v for k, v in fields.items())]


def printed(source: str, system: str, **fields: Any) -> list[float]:
    """The figures of the one row that is so described, in the order of the file."""
    part = fields.pop("part", {})
    (fact,) = (
        fact for fact in published_facts()
        if source in fact.source and fact.system == system and dict(fact.part) == part
        and all(getattr(fact, key) == value for key, value in fields.items())
    )  # fmt: skip
    return list(fact.metrics.values())


CONTRACT = re.compile(
    r"(recall|ndcg)@(1|3|5|10)|rouge_l\.(word|char)|bert_k_precision|answerability_accuracy|(rl_f|rb_llm|rb_alg)(\.idk(_underspecified)?)?"
    r"|judge_score|task_completion|win_rate|sub_win_rate\.q[123]@[123]|good|accuracy|precision|recall|f1|length_ratio|edit_distance|edit_ratio"
    r"|predicted_good|turns_per_session|edited|(instruction|source|target)_words|(instruction|error)_accuracy"
    r"|(instruction|information_seeking|error|retrieved)\[[A-Za-z ]+\]|information_seeking"
)
VALUES: Mapping[str, frozenset[str]] = {
    "turn": frozenset({"first", "later"}), "standalone": frozenset({"standalone", "non-standalone"}),
    "answerability": frozenset(get_args(Answerability)), "capability": frozenset(get_args(Capability)),
    "type": frozenset({*get_args(QuestionType), *get_args(CoarseType)}), "instruction": frozenset(FINE_TYPES),
    "model": frozenset({"GPT-4", "GPT-3.5-turbo", "LLaMA-2-70b-chat"}),
}  # fmt: skip
OF_THE_PAPERS = {"references", "human evaluation", "split"}
"""Subsets that no breakdown of ours holds."""


def well_formed(fact: PublishedFact) -> None:
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
