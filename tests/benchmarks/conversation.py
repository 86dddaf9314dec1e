"""What each part of the default retriever brings, and how much its weights owe to the data they were chosen on.

    TURNMARK_DATA=… python -m tests.benchmarks.conversation [--json FILE]

Over MTRAG and MTRAG-UN with the passages at hand, by the product's own code and indexes (built first where they are not
kept yet); without data over the demo split, whose figures say nothing about quality. nDCG@5 and recall@5 are those of
pytrec_eval; intervals and paired differences are 95% bootstraps over conversations. Design and weights were found on
these very domains: the last table says what the weights owe to that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora import mtrag
from corpora.errors import RequestError
from corpora.rows import Source
from evaluation.benchmarks.mtrag_data import DEMO_NOTE, load_data
from evaluation.stats import mean_interval
from retrieval.corpus import corpus_index
from tests.benchmarks.conversation_leaning import judged, leaning
from tests.benchmarks.conversation_rank import Setup, ranked
from tests.benchmarks.conversation_rows import DEFAULT, ROWS, Row
from tests.benchmarks.conversation_sets import GROUPS, Floats, Lists, Pool, Turns, searched
from tests.benchmarks.conversation_weights import (
    ANSWERS,
    BM25,
    FOLDS,
    LATE,
    Honest,
    Values,
    Weights,
    grid_values,
    honest,
    product_weights,
)

BENCHMARKS: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
CHOSEN_ON = "mtrag"
"""Weights and the classifier are chosen on this benchmark's other domains."""
SETUPS: Mapping[str, Setup] = {"conversational": Setup(), "conversational?rerank=none": Setup(late=0.0)}
TOP, SEED, WIDTH = 5, 0, 42
Figures = dict[str, Values]
"""Metric -> the value of each query."""


def load(source: Source, domains: Sequence[str] = ()) -> list[Turns]:
    """A set for each benchmark and each domain whose passages are at hand.

    Args:
        domains: those wanted; empty for all.
    """
    data = {name: load_data(name, source, domains) for name in BENCHMARKS}
    pools: dict[str, Pool] = {}
    for domain in dict.fromkeys(domain for one in data.values() for domain in one.qrels):
        try:
            corpus = mtrag.corpus_path(source.root, domain)
        except RequestError as error:
            note(f"{domain} is left out: {error}")
            continue
        pools[domain] = Pool.of(corpus_index(corpus, "conversational"))
    return [
        Turns(f"{name} {domain}", domain, one, pools[domain])
        for name, one in data.items()
        for domain in one.qrels
        if domain in pools
    ]


def others(turns: Turns, sets: Sequence[Turns]) -> list[Turns]:
    """The sets on which something may be chosen for this one: other domains of MTRAG."""
    return [one for one in sets if one.name == f"{CHOSEN_ON} {one.domain}" and one.domain != turns.domain]


def agreement(turns: Turns) -> dict[str, dict[str, float]]:
    """The share of queries for which arrays give the product's first five passages, and in its order."""
    made = {}
    for spec, setup in SETUPS.items():
        pairs = [
            ([hit.document_id for hit in a[:TOP]], [hit.document_id for hit in b[:TOP]])
            for a, b in zip(turns.found[spec], ranked(turns, setup), strict=True)
        ]
        made[spec] = {
            "same five": float(np.mean([set(a) == set(b) for a, b in pairs])),
            "same order": float(np.mean([a == b for a, b in pairs])),
            "ndcg@5 of the product": float(turns.measured(turns.found[spec])["ndcg@5"].mean()),
        }
    return made


def ladder(turns: Turns, lean: Floats | None) -> dict[str, Figures]:
    """Every row of `ROWS` that can be had, by name."""
    rows = [row for _, some in ROWS for row in some if lean is not None or not (row.setup and row.setup.lean)]
    return {row.name: turns.measured(_lists(turns, row, lean)) for row in rows}


def _lists(turns: Turns, row: Row, lean: Floats | None) -> Lists:
    if row.setup is None:
        return searched(turns.pool.index, row.spec, [row.asked(query) for query in turns.queries])
    return ranked(turns, row.setup, lean)


@dataclass(frozen=True)
class Sample:
    """One set, or several together: the conversation and the groups of each query, and the rows' figures."""

    conversations: Sequence[str]
    groups: Mapping[str, NDArray[np.bool_]]
    rows: Mapping[str, Figures]

    @classmethod
    def of(cls, sets: Sequence[tuple[Turns, Mapping[str, Figures]]]) -> Sample:
        """Queries one after the other; only rows that all sets have."""
        common = [name for name in sets[0][1] if all(name in rows for _, rows in sets)]
        return cls(
            [name for turns, _ in sets for name in turns.conversations],
            {group: np.concatenate([turns.groups[group] for turns, _ in sets]) for group in GROUPS},
            {
                name: {metric: np.concatenate([rows[name][metric] for _, rows in sets]) for metric in sets[0][1][name]}
                for name in common
            },
        )

    def summary(self) -> dict[str, Any]:
        """Means with intervals, by group, and the paired difference to the default."""
        base = self.rows[DEFAULT.name]["ndcg@5"]
        return {
            "queries": len(base),
            "conversations": len(set(self.conversations)),
            "groups": {group: int(some.sum()) for group, some in self.groups.items()},
            "rows": {name: self._row(figures, base) for name, figures in self.rows.items()},
        }

    def _row(self, figures: Figures, base: Values) -> dict[str, Any]:
        ndcg = figures["ndcg@5"]
        return {
            **{metric: mean_interval(values.tolist(), self.conversations, SEED) for metric, values in figures.items()},
            "groups": {group: float(ndcg[some].mean()) for group, some in self.groups.items() if some.any()},
            "beside the default": mean_interval((ndcg - base).tolist(), self.conversations, SEED),
        }


def weights(sets: Sequence[Turns]) -> dict[str, Honest]:
    """By the name of the set."""
    values = {turns.name: grid_values(turns) for turns in sets}
    return {
        turns.name: honest(turns, values[turns.name], [values[other.name] for other in others(turns, sets)])
        for turns in sets
    }


def interval(found: Sequence[float], sign: str = "") -> str:
    """A mean and its interval."""
    return f"{found[0]:{sign}.3f} [{found[1]:{sign}.3f}, {found[2]:{sign}.3f}]"


def ladder_table(name: str, summary: Mapping[str, Any]) -> Iterator[str]:
    """The rows of one sample."""
    groups = [group for group in GROUPS if summary["groups"][group]]
    counts = "; ".join(f"{group} {summary['groups'][group]}" for group in groups)
    yield f"\n== {name}: {summary['queries']} queries, {summary['conversations']} conversations ({counts})"
    heads = "".join(f"{group:>{max(len(group), 5) + 2}}" for group in groups)
    yield f"{'nDCG@5 unless it says R@5':{WIDTH}} {'':20} {'R@5':>5}{heads}   {'beside the default':>22}"
    for heading, rows in ROWS:
        there = [row for row in rows if row.name in summary["rows"]]
        yield from [f"-- {heading}"] if there else []
        for row in there:
            found = summary["rows"][row.name]
            cells = "".join(f"{found['groups'][group]:{max(len(group), 5) + 2}.3f}" for group in groups)
            recall, beside = found["recall@5"][0], interval(found["beside the default"], "+")
            yield f"{row.name:{WIDTH}} {interval(found['ndcg@5'])} {recall:5.3f}{cells}   {beside}"


def weights_table(found: Mapping[str, Honest]) -> Iterator[str]:
    """The weights' table."""
    yield f"\n== nDCG@5 by weights (answers, BM25, late): answers {ANSWERS}, BM25 {BM25}, late {LATE}"
    yield f"the product's are {_said(product_weights())}; folds are {FOLDS}, over conversations; ± is over folds"
    for name, one in found.items():
        elsewhere = (
            "no other domain" if one.elsewhere is None else f"{one.elsewhere:.3f} {_said(one.elsewhere_weights)}"
        )
        yield f"{name}: the product's weights {one.default:.3f}; chosen on other domains {elsewhere}"
        if one.folded and one.folded_default:
            chosen = ", ".join(f"{_said(some)} x{times}" for some, times in one.folded_weights.items())
            yield (
                f"    chosen on the other folds {one.folded[0]:.3f} ± {one.folded[1]:.3f} "
                f"(the product's there {one.folded_default[0]:.3f} ± {one.folded_default[1]:.3f}): {chosen}"
            )
        low, middle, high = one.spread
        yield f"    the whole grid {low:.3f} to {high:.3f} {_said(one.best_weights)}, median {middle:.3f}"


def _said(some: Weights | None) -> str:
    return "(" + " ".join(f"{value:g}" for value in some or ()) + ")"


def main(file: Path | None) -> None:
    """Print the tables, and write them as JSON where a file is named."""
    began, source = time.monotonic(), mtrag.locate(None)
    say(f"{source.name}; {DEMO_NOTE}" if source.demo else source.name)
    sets = load(source)
    out: dict[str, Any] = {"demo": source.demo, "sets": {}, "together": {}, "weights": {}}
    rows: dict[str, dict[str, Figures]] = {}
    for turns in sets:
        note(f"{turns.name}: {len(turns.queries)} queries, {time.monotonic() - began:.0f} s")
        lean = leaning(turns, others(turns, sets))
        rows[turns.name] = ladder(turns, lean)
        checked = agreement(turns)
        for spec, shares in checked.items():
            say(f"{turns.name}, {spec}: " + ", ".join(f"{what} {share:.3f}" for what, share in shares.items()))
        accuracy = None if lean is None else judged(turns, lean)
        if accuracy:
            say(f"{turns.name}, classifier of leaning messages: accuracy {accuracy[0]:.3f}, AUROC {accuracy[1]:.3f}")
        summary = Sample.of([(turns, rows[turns.name])]).summary()
        out["sets"][turns.name] = {**summary, "agreement": checked, "classifier": accuracy}
    for name in BENCHMARKS:
        some = [(turns, rows[turns.name]) for turns in sets if turns.name == f"{name} {turns.domain}"]
        if len(some) > 1:
            out["together"][f"{name}, all domains"] = Sample.of(some).summary()
    for name, summary in (out["together"] | out["sets"]).items():
        say(*ladder_table(name, summary))
    note(f"weights, {time.monotonic() - began:.0f} s")
    found = weights(sets)
    say(*weights_table(found))
    out["weights"] = {name: _plain(one) for name, one in found.items()}
    out["seconds"] = round(time.monotonic() - began, 1)
    say(f"\n{out['seconds']} s")
    if file:
        file.write_text(json.dumps(out, indent=1), encoding="utf-8")


def _plain(one: Honest) -> dict[str, Any]:
    chosen = [{"weights": some, "folds": times} for some, times in one.folded_weights.items()]
    return {**vars(one), "folded_weights": chosen}


def say(*lines: str) -> None:
    """To standard output, at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def note(line: str) -> None:
    """How far it is, to standard error."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    main(parser.parse_args().json)
