"""Tune an index: make the questions, measure every configuration on them, and test the best on held-out documents."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.evaluation.storage.journal import json_line, read_records
from turnmark.evaluation.storage.run_folder import now
from turnmark.evaluation.tune.contenders import PRESENT, Contender, has_same_documents, open_contender, rebuild_command
from turnmark.evaluation.tune.forecast import contenders_of, fit_race, forecast_questions
from turnmark.evaluation.tune.measuring import BUILDS_FOLDER, gains_of
from turnmark.evaluation.tune.plan import TunePlan, keys_of
from turnmark.evaluation.tune.question_sources import locate_questions, write_questions
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.evaluation.tune.race import (
    RacePlan,
    choose_contenders,
    run_race,
)
from turnmark.evaluation.tune.rankings import (
    SearchChoice,
)
from turnmark.evaluation.tune.verdict import (
    MIN_QUESTIONS,
    TriedSearch,
    best_of,
    choose_finalists,
    compare_choices,
    compare_searches,
    halves,
    units_of,
)
from turnmark.retrieval.search.tuned_search import TunedSearch, document_digests, models_of, write_tuned

if TYPE_CHECKING:
    from turnmark.evaluation.scores.cluster_statistics import Bools, Floats

SHOWN_CHOICES = 8


class TuneResult(Record):
    """The result of tuning, which `--json` prints."""

    index: str
    retriever: str = Field(description="the default")
    questions: Mapping[str, int] = Field(description="kind of question -> number")
    search_questions: int
    test_questions: int
    default_gain: float = Field(description="mean gain of the default on the test half")
    configurations: int = Field(description="number of configurations that were tried")
    tried: tuple[TriedSearch, ...] = Field(description="the best configurations on the search half")
    finalists: tuple[TriedSearch, ...] = Field(description="those compared on the test half")
    winner: TriedSearch | None = Field(description="the finalist that is better beyond doubt")
    proposed: str = Field(description="spec of its retriever, which is used from now on; empty if there is none")
    raced: tuple[TriedSearch, ...] = Field(
        default=(), description="other builds and rerankers with their best configuration on the search half"
    )
    left_out: str = Field(default="", description="a sentence that says why others were not compared")
    rebuild: TriedSearch | None = Field(
        default=None, description="the build that is better than the default beyond doubt, and than the winner"
    )
    command: str = Field(default="", description="the command that rebuilds the index in this way")
    out: str
    seconds: float


def run_tune(plan: TunePlan, progress: Progress) -> TuneResult:
    """Do the work whose results are not in the folder yet, and write the tuned configuration if one is better."""
    import numpy as np

    questions = _questions(plan)
    units = np.array(units_of(questions))
    searched = halves(units.tolist(), plan.request.seed)
    if min(searched.sum(), (~searched).sum()) < MIN_QUESTIONS:
        raise TurnmarkError(
            f"{len(questions)} questions have an answer in the documents; at least {MIN_QUESTIONS} are needed about "
            "each half of the documents"
        )
    seed, default, choices = plan.request.seed, plan.default, plan.choices

    def measure(contender: Contender, asked: Bools) -> tuple[Sequence[SearchChoice], Floats]:
        measured = plan.of(contender)
        return measured.choices, gains_of(measured, questions, asked, progress)

    gains = measure(plan.contender, np.ones(len(questions), dtype=np.bool_))[1]
    search, test, tested = gains[:, searched], gains[:, ~searched], units[~searched].tolist()
    best = np.argsort(-search.mean(axis=1), kind="stable")[:SHOWN_CHOICES].tolist()
    tried = compare_choices(choices, search, default, best, units[searched].tolist(), seed, is_test=False)
    chosen = choose_finalists(choices, search, default)
    race = _race_of(plan, len(questions), progress)
    raced = run_race(race.contenders, gains[default], searched, units, seed, measure)
    rivals = choose_contenders(raced, float(search[[default, *chosen]].mean(axis=1).max()))
    compared = [(PRESENT, choices[number], test[number]) for number in chosen]
    for rival in rivals:
        rival_choices, rival_gains = measure(rival.contender, ~searched)
        compared.append((rival.contender, rival.choice, rival_gains[list(rival_choices).index(rival.choice)]))
    finalists = compare_searches(compared, test[default], tested, seed)
    result = TuneResult(
        index=plan.index.name,
        retriever=plan.retriever,
        questions=dict(Counter(question.kind for question in questions)),
        search_questions=int(searched.sum()),
        test_questions=int((~searched).sum()),
        default_gain=float(test[default].mean()),
        configurations=len(choices),
        tried=tuple(tried),
        finalists=tuple(finalists),
        raced=tuple(raced),
        left_out=race.left_out,
        **_verdict(plan, finalists),
        out=str(plan.out),
        seconds=round(time.perf_counter() - plan.began, 1),
    )
    if result.winner is not None:
        write_tuned(plan.index, _tuned(plan, result, result.winner))
    write_atomic(plan.out / "result.json", result.model_dump_json(indent=1) + "\n")
    shutil.rmtree(plan.out / BUILDS_FOLDER, ignore_errors=True)
    return result


def _verdict(plan: TunePlan, finalists: Sequence[TriedSearch]) -> dict[str, Any]:
    """Return what is used from now on, and the build that is better than that, with its command."""

    def spec(one: TriedSearch) -> str:
        return one.choice.spec(plan.of(one.contender).retriever)

    winner = best_of(one for one in finalists if not one.contender.needs_build)
    level = winner.difference if winner else 0.0
    rebuild = best_of(one for one in finalists if one.contender.needs_build and one.difference > level)
    return {
        "winner": winner,
        "proposed": spec(winner) if winner else "",
        "rebuild": rebuild,
        "command": rebuild_command(plan.index, rebuild.contender, spec(rebuild)) if rebuild else "",
    }


def _race_of(plan: TunePlan, count: int, progress: Progress) -> RacePlan:
    """Return the contenders in the folder, or else choose them.

    Builds of documents that have changed since the index was built cannot be compared with it.
    """
    race = contenders_of(plan)
    (key,) = keys_of(plan, [f"{race.model_dump_json()} {count} {plan.request.minutes}"])
    path = plan.out / f"race-{key}.json"
    if path.exists():
        return RacePlan.model_validate_json(path.read_bytes())
    if race.contenders and plan.request.minutes is not None:
        race = fit_race(plan, race, forecast_questions(plan)[0], count)
    first = next((one for one in race.contenders if one.needs_build), None)
    if first is not None:
        built = open_contender(plan.index, first, plan.out / BUILDS_FOLDER, progress)
        if not has_same_documents(plan.index, built):
            left_out = f"The documents of {plan.index.name} have changed, so other builds were not compared."
            kept = tuple(one for one in race.contenders if not one.needs_build)
            race = RacePlan(contenders=kept, left_out=left_out)
    write_atomic(path, race.model_dump_json() + "\n")
    return race


def _tuned(plan: TunePlan, result: TuneResult, winner: TriedSearch) -> TunedSearch:
    assert winner.ci95 is not None, "without an interval nothing is better"
    return TunedSearch(
        retriever=result.proposed,
        models=models_of(plan.index.manifest),
        gain=winner.difference,
        ci95=winner.ci95,
        questions=result.questions,
        created=now(),
        documents=tuple(document_digests(plan.index)),
    )


def _questions(plan: TunePlan) -> list[TuneQuestion]:
    """Return the questions in the folder, or else make them."""
    request = plan.request
    asked = request.model_dump_json(include={"questions", "generator", "n", "seed"})
    (key,) = keys_of(plan, [asked + "".join(one.model_dump_json() for one in plan.own)])
    path = plan.out / f"questions-{key}.jsonl"
    stored = list(read_records(path, TuneQuestion))
    if stored:
        return stored
    if plan.own:
        questions = list(locate_questions(plan.index, plan.own))
    elif request.asks_model:
        questions = write_questions(request, plan.index, plan.out / "written")
    else:
        questions = list(plan.drawn)
        if request.minutes is not None:
            fitting = int(len(questions) * 60 * request.minutes / max(1.0, forecast_questions(plan)[0]))
            questions = questions[: max(fitting, 2 * MIN_QUESTIONS)]
    write_atomic(path, "".join(map(json_line, questions)))
    return questions
