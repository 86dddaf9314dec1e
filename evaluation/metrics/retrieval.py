"""recall@k and nDCG@k as MTRAG reports them (section 5.1): pytrec_eval's `recall_k` and `ndcg_cut_k`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnmark.evaluation.records import ContextRef

CUTOFFS = (1, 3, 5, 10)
NAMES = tuple(f"{name}@{k}" for name in ("recall", "ndcg") for k in CUTOFFS)
VARIANT = "pytrec_eval"


def score_lists(
    qrels: Mapping[str, Mapping[str, int]], lists: Mapping[str, Sequence[ContextRef]]
) -> dict[str, dict[str, float]]:
    """Every metric in `NAMES` for every query with a relevant passage: query id -> metric -> 0..1.

    A query of `qrels` that `lists` has nothing for scores 0; a list without relevance labels is left out.

    Args:
        qrels: query id -> passage id -> grade; a grade above 0 is relevant.
        lists: query id -> what was found. The order is by score, ties by document id descending.
    """
    import pytrec_eval

    judged = {query: dict(grades) for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        return {}
    cuts = ",".join(map(str, CUTOFFS))
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {f"recall.{cuts}", f"ndcg_cut.{cuts}"})
    run = {query: {c.document_id: float(c.score) for c in lists[query]} for query in judged if lists.get(query)}
    measured = evaluator.evaluate(run) if run else {}
    official = {name: name.replace("recall@", "recall_").replace("ndcg@", "ndcg_cut_") for name in NAMES}
    nothing = dict.fromkeys(official.values(), 0.0)
    return {
        query: {name: float(measured.get(query, nothing)[key]) for name, key in official.items()} for query in judged
    }
