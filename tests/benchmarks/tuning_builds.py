"""Whether questions made without a model predict which build of an index answers people's questions earliest.

    TURNMARK_DATA=… TURNMARK_CONVERSATIONS=… python -m tests.benchmarks.tuning_builds measure COLLECTION…
    python -m tests.benchmarks.tuning_builds tables

A build is a size of passages and an embedder. `measure` builds each over collections of tests/conversations, computes
the gain of every configuration of `turnmark tune` for made questions and for labeled ones, and keeps it under
`$TURNMARK_HOME/cache/tuning-builds`. `tables` prints Kendall's tau of the two rankings of the builds, and the share of
null runs that propose a change.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from tests.benchmarks.tuning import MADE, NULL_RUNS, SEED, labeled_questions
from tests.conversations.collections import collections_named
from turnmark.core.console import NoProgress
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import home, write_json
from turnmark.evaluation.tune.contenders import Contender
from turnmark.evaluation.tune.measuring import measure_questions
from turnmark.evaluation.tune.plan import plan_tune
from turnmark.evaluation.tune.questions import TuneQuestion, draw_questions, hide_answers
from turnmark.evaluation.tune.race import choose_contenders, run_race
from turnmark.evaluation.tune.rankings import SearchChoice
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.verdict import choose_finalists, compare_gains, halves, units_of
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index

BUILDS = ((256, "minilm"), (192, "minilm"), (128, "minilm"), (96, "minilm"), (256, "multilingual-e5-small"))
"""Tokens of a passage and embedder; the first build is the default."""


def _built(collection: str, tokens: int, embedder: str) -> StoredIndex:
    source = collections_named([collection])[collection]
    name = f"builds-{collection}-{tokens}-{embedder}"
    build_index(
        source.documents(), name, retriever="conversational", embedder=embedder, passage_tokens=tokens,
        include=source.include, exclude=source.exclude, progress=NoProgress(),
    )  # fmt: skip
    return open_index(name)


def measure(collection: str) -> None:
    """Measure every configuration of each build on made and labeled questions, and keep the gains."""
    default = _built(collection, *BUILDS[0])
    made, labeled = draw_questions(default, MADE, SEED), list(labeled_questions(default, collection))
    result: dict[str, Any] = {
        "kinds": [one.kind for one in labeled],
        "units": [one.id.rpartition("-")[0] for one in labeled],
        "made_questions": [one.model_dump() for one in made],
        "builds": [],
    }
    for tokens, embedder in BUILDS:
        index = _built(collection, tokens, embedder)
        plan = plan_tune(TuneRequest(index=index.name, seed=SEED), ErrorCollector())
        result["choices"], result["default"] = [choice.model_dump() for choice in plan.choices], plan.default
        with tempfile.TemporaryDirectory() as scratch:
            copy = copy_with_passages(index, hide_answers(index, made), Path(scratch))
            gains = measure_questions(plan, copy, made)
        on_labels = measure_questions(plan, index, labeled)
        result["builds"].append({
            "tokens": tokens, "embedder": embedder, "passages": index.manifest.passages,
            "made": gains.round(5).tolist(), "labeled": on_labels.round(5).tolist(),
        })  # fmt: skip
        means = gains[plan.default].mean(), on_labels[plan.default].mean(), on_labels.mean(axis=1).max()
        print(collection, tokens, embedder, index.manifest.passages, *(f"{mean:.3f}" for mean in means), flush=True)
    write_json(home() / "cache" / "tuning-builds" / f"{collection}.json", result)


class MeasuredBuilds:
    """The gains of the builds of a collection; see `measure`.

    Attributes:
        default: number of the default configuration.
        made, labeled: (builds, configurations, questions).
    """

    def __init__(self, path: Path) -> None:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.name, self.default = path.stem, int(stored["default"])
        self.choices = [SearchChoice.model_validate(choice) for choice in stored["choices"]]
        self.made, self.labeled = (
            np.array([build[kind] for build in stored["builds"]], dtype=np.float64) for kind in ("made", "labeled")
        )
        questions = [TuneQuestion.model_validate(one) for one in stored["made_questions"]]
        self.made_units, self.labeled_units = np.array(units_of(questions)), np.array(stored["units"])

    def proposes(self, gains: NDArray[np.float64], units: NDArray[np.str_], seed: int) -> bool:
        """Return whether `turnmark tune` would propose a build or other weights.

        Args:
            gains: the gain of each configuration of each build for each question.
        """
        contenders = [Contender(passage_tokens=tokens, embedder=embedder) for tokens, embedder in BUILDS]
        searched = halves(units.tolist(), seed)

        def gains_of(contender: Contender, asked: NDArray[np.bool_]) -> tuple[list[SearchChoice], NDArray[np.float64]]:
            return self.choices, gains[contenders.index(contender)][:, asked]

        search, test = gains[0][:, searched], gains[0][:, ~searched]
        chosen = choose_finalists(self.choices, search, self.default)
        raced = run_race(contenders[1:], gains[0][self.default], searched, units, seed, gains_of)
        rivals = choose_contenders(raced, float(search[[self.default, *chosen]].mean(axis=1).max()))
        others = [
            *test[chosen],
            *(gains_of(one.contender, ~searched)[1][self.choices.index(one.choice)] for one in rivals),
        ]
        compared = compare_gains(
            test[self.default], np.array(others).reshape(-1, test.shape[1]), units[~searched].tolist(), seed
        )
        return any(one.is_better for one in compared)


def print_transfer(found: Sequence[MeasuredBuilds]) -> None:
    """Print the mean gains of the builds with the default configuration, and Kendall's tau of the two rankings."""
    taus = []
    for one in found:
        made, labeled = (gains[:, one.default].mean(axis=1) for gains in (one.made, one.labeled))
        taus.append(kendalltau(made, labeled).statistic)
        for (tokens, embedder), on_made, on_labels in zip(BUILDS, made, labeled, strict=True):
            print(f"| {one.name} | {tokens} | {embedder} | {on_made:.3f} | {on_labels:.3f} |")
        print(f"{one.name}: {one.made.shape[2]} made, {one.labeled.shape[2]} labeled questions, tau {taus[-1]:.2f}")
    print(f"median tau {np.median(taus):.2f} over {len(taus)} collections")


def print_null_runs(found: Sequence[MeasuredBuilds]) -> None:
    """Print how often a change is proposed although nothing differs from the default.

    The differences of all configurations of all builds from the default get a random sign for each unit.
    """
    for kind in ("made", "labeled"):
        proposed = 0
        for run in range(NULL_RUNS):
            one, rng = found[run % len(found)], np.random.default_rng(run)
            gains, units = getattr(one, kind), getattr(one, f"{kind}_units")
            names, number = np.unique(units, return_inverse=True)
            default = gains[0, one.default]
            null = default + (gains - default) * rng.choice([-1.0, 1.0], size=len(names))[number]
            proposed += one.proposes(null, units, run)
        print(f"null runs over {kind} questions: a change was proposed in {proposed} of {NULL_RUNS}")


def main() -> None:
    """Measure, or print the tables."""
    if sys.argv[1] == "measure":
        for name in sys.argv[2:]:
            measure(name)
        return
    found = [MeasuredBuilds(path) for path in sorted((home() / "cache" / "tuning-builds").glob("*.json"))]
    print_transfer(found)
    print_null_runs(found)


if __name__ == "__main__":
    main()
