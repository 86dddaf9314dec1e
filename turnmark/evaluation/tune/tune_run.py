"""Tune an index: make the questions, measure every configuration on them, and test the best on held-out documents."""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.core.console import Progress
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.core.specs import parse_spec
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion, check_documents, read_questions
from turnmark.evaluation.storage.journal import Journal, json_line, read_records
from turnmark.evaluation.storage.run_folder import now
from turnmark.evaluation.tune.contenders import PRESENT, Contender, has_same_documents, open_contender, rebuild_command
from turnmark.evaluation.tune.gains import PassagePlaces, measure_gains
from turnmark.evaluation.tune.question_sources import locate_questions, write_questions
from turnmark.evaluation.tune.questions import TuneQuestion, draw_questions, hide_answers
from turnmark.evaluation.tune.race import (
    Measure,
    RacePlan,
    choose_contenders,
    fit_into,
    plan_race,
    run_race,
)
from turnmark.evaluation.tune.rankings import (
    SearchChoice,
    all_choices,
    default_choice,
    is_tunable,
    record_lists,
    reranker_of,
)
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.searches import queries_of
from turnmark.evaluation.tune.verdict import (
    MIN_QUESTIONS,
    TriedSearch,
    best_of,
    choose_finalists,
    compare_choices,
    compare_gains,
    halves,
    units_of,
)
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import untuned_retriever
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER
from turnmark.retrieval.search.tuned_search import TunedSearch, document_digests, models_of, write_tuned

if TYPE_CHECKING:
    from turnmark.evaluation.scores.cluster_statistics import Bools, Floats

BUILDS_FOLDER = "builds"
"""Folder in that of the tuning with the builds of contenders, which is removed once the result is written."""
QUESTIONS_AT_ONCE = 8
"""Number of questions whose results are lost at most if the work is killed."""
SHOWN_CHOICES = 8
FORECAST_QUESTIONS = 4
"""Number of questions that are measured for a forecast."""
SECONDS_PER_HIDDEN = 0.03
"""Time to embed a passage whose answer is hidden, on one core."""


class QuestionGains(Record):
    """The gain of every configuration for one question."""

    key: str = Field(description="changes with the question, the index, the configurations and the version")
    gains: tuple[float, ...]


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


class TuneForecast(Record):
    """What tuning would try and how long it takes, which `--dry-run --json` prints."""

    index: str
    questions: int
    configurations: int
    contenders: tuple[Contender, ...] = Field(default=(), description="other builds and rerankers that are compared")
    left_out: str = Field(default="", description="a sentence that says why others are not compared")
    seconds: float


@dataclass(frozen=True)
class TunePlan:
    """A checked request."""

    request: TuneRequest
    index: StoredIndex
    retriever: str
    out: Path
    own: Sequence[OwnQuestion]
    choices: Sequence[SearchChoice]
    began: float
    contender: Contender = PRESENT
    """What is measured instead of the index and its retriever."""

    def of(self, contender: Contender) -> TunePlan:
        """Return the plan of a contender, with the configurations that are tried."""
        retriever = contender.retriever(self.retriever)
        choices = self.choices
        if contender.reranker:
            choices = _choices(self.request, self.index, retriever, self.own)
        return replace(self, contender=contender, retriever=retriever, choices=choices)

    @property
    def default(self) -> int:
        """The number of the default among the configurations."""
        return list(self.choices).index(default_choice(self.retriever))


def plan_tune(request: TuneRequest, errors: ErrorCollector) -> TunePlan:
    """Check a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    index = errors.collect(open_index, request.index) if request.index else None
    own = (errors.collect(read_questions, request.questions) if request.questions else None) or []
    if index is not None:
        manifest = index.manifest
        if manifest.embedder is None or manifest.server is not None or manifest.pending:
            command = index.build_command("conversational")
            errors.add(f"index {index.name!r}: tuning needs the vectors of all passages in files: {command}")
        elif not is_tunable(untuned_retriever(index)):
            errors.add(f"index {index.name!r} was built for {untuned_retriever(index)!r}; conversational can be tuned")
        if own:
            errors.collect(check_documents, own, [entry.document for entry in index.store.documents()])
    if request.budget is not None and not request.asks_model:
        errors.add("--budget is for questions that a model writes; name it with --generator SPEC, or leave it out")
    errors.raise_all()
    assert index is not None, "errors.raise_all() raised otherwise"
    retriever = untuned_retriever(index)
    choices = _choices(request, index, retriever, own)
    out = request.out or Path("tunes") / index.name
    return TunePlan(request, index, retriever, out, own, choices, began)


def _choices(
    request: TuneRequest, index: StoredIndex, retriever: str, own: Sequence[OwnQuestion]
) -> list[SearchChoice]:
    """Return the configurations of a retriever over an index that are tried."""
    is_slow = reranker_of(retriever) != LATE_RERANKER
    return all_choices(
        default_choice(retriever),
        late=index.manifest.tokens or is_slow,
        follow_ups=any(one.conversation for one in own),
        sparse="splade" in parse_spec(retriever).options and not request.makes_questions,
        few=is_slow,
    )


def forecast(plan: TunePlan) -> TuneForecast:
    """Measure a few questions, and return what all of them would take. A model writes no questions for it."""
    seconds, count = _forecast_questions(plan)
    race = _fit_race(plan, _plan_race(plan), seconds, count)
    return TuneForecast(
        index=plan.index.name,
        questions=count,
        configurations=len(plan.choices),
        contenders=race.contenders,
        left_out=race.left_out,
        seconds=round(seconds + race.seconds, 1),
    )


def _forecast_questions(plan: TunePlan) -> tuple[float, int]:
    """Return the seconds that measuring the present index takes, and the number of questions."""
    loading, each = _seconds_per_question(plan)
    made = len(_without_model(plan)) if plan.request.makes_questions else 0
    count = made or len(plan.own) or plan.request.n
    return loading + each * count + SECONDS_PER_HIDDEN * made, count


def _plan_race(plan: TunePlan) -> RacePlan:
    """Return all contenders. Questions that are made without a model predict people only for weights."""
    if plan.request.makes_questions:
        return RacePlan(contenders=())
    return plan_race(plan.index, plan.retriever, plan.request.minutes is not None)


def _fit_race(plan: TunePlan, race: RacePlan, seconds: float, count: int) -> RacePlan:
    """Return a race with its forecast, and without the contenders that do not fit into the time limit.

    Args:
        seconds: forecast of measuring the present index.
        count: number of questions.
    """
    measuring = [
        seconds if one.needs_build else count * _seconds_per_question(plan.of(one))[1] for one in race.contenders
    ]
    limit = math.inf if plan.request.minutes is None else 60 * plan.request.minutes - seconds
    return fit_into(race, plan.index, measuring, limit)


def _seconds_per_question(plan: TunePlan) -> tuple[float, float]:
    """Return the time that loading the models and each question take, as measured on a few questions."""
    located = list(islice(locate_questions(plan.index, plan.own), FORECAST_QUESTIONS))
    sample = located or _without_model(plan)[:FORECAST_QUESTIONS]
    began = time.perf_counter()
    measure_questions(plan, plan.index, sample[:1])
    loaded = time.perf_counter()
    measure_questions(plan, plan.index, sample)
    return loaded - began, (time.perf_counter() - loaded) / len(sample)


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
        return measured.choices, _gains_of(measured, questions, asked, progress)

    gains = measure(plan.contender, np.ones(len(questions), dtype=np.bool_))[1]
    search, test, tested = gains[:, searched], gains[:, ~searched], units[~searched].tolist()
    best = np.argsort(-search.mean(axis=1), kind="stable")[:SHOWN_CHOICES].tolist()
    tried = compare_choices(choices, search, default, best, units[searched].tolist(), seed)
    chosen = choose_finalists(choices, search, default)
    race = _race_of(plan, len(questions), progress)
    raced = run_race(race.contenders, gains[default], searched, units, seed, measure)
    rivals = choose_contenders(raced, float(search[[default, *chosen]].mean(axis=1).max()))
    gains_tested = np.array([*test[chosen], *_on_test_half(rivals, measure, ~searched)]).reshape(-1, len(tested))
    compared = compare_gains(test[default], gains_tested, tested, seed)
    present = [(PRESENT, choices[number]) for number in chosen]
    finalists = [
        TriedSearch(contender=contender, choice=choice, questions=len(tested), **dict(one))
        for (contender, choice), one in zip(
            [*present, *((one.contender, one.choice) for one in rivals)], compared, strict=True
        )
    ]
    result = TuneResult(
        index=plan.index.name,
        retriever=plan.retriever,
        questions=dict(Counter(question.kind for question in questions)),
        search_questions=int(searched.sum()),
        test_questions=int((~searched).sum()),
        default_gain=float(test[default].mean()),
        configurations=len(choices),
        tried=tuple(one.model_copy(update={"p_holm": None}) for one in tried),
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


def _on_test_half(rivals: Sequence[TriedSearch], measure: Measure, asked: Bools) -> Iterator[Floats]:
    """Yield the gains of the best configuration of each contender on the test half."""
    for rival in rivals:
        choices, gains = measure(rival.contender, asked)
        yield gains[list(choices).index(rival.choice)]


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
    race = _plan_race(plan)
    (key,) = _keys(plan, [f"{race.model_dump_json()} {count} {plan.request.minutes}"])
    path = plan.out / f"race-{key}.json"
    if path.exists():
        return RacePlan.model_validate_json(path.read_bytes())
    if race.contenders and plan.request.minutes is not None:
        race = _fit_race(plan, race, _forecast_questions(plan)[0], count)
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


# --- the questions ---------------------------------------------------------------------------------------------------


def _questions(plan: TunePlan) -> list[TuneQuestion]:
    """Return the questions in the folder, or else make them."""
    request = plan.request
    asked = request.model_dump_json(include={"questions", "generator", "n", "seed"})
    (key,) = _keys(plan, [asked + "".join(one.model_dump_json() for one in plan.own)])
    path = plan.out / f"questions-{key}.jsonl"
    stored = list(read_records(path, TuneQuestion))
    if stored:
        return stored
    if plan.own:
        questions = list(locate_questions(plan.index, plan.own))
    elif request.asks_model:
        questions = write_questions(request, plan.index, plan.out / "written")
    else:
        questions = _without_model(plan)
        if request.minutes is not None:
            fitting = int(len(questions) * 60 * request.minutes / max(1.0, _forecast_questions(plan)[0]))
            questions = questions[: max(fitting, 2 * MIN_QUESTIONS)]
    write_atomic(path, "".join(map(json_line, questions)))
    return questions


def _without_model(plan: TunePlan) -> list[TuneQuestion]:
    questions = draw_questions(plan.index, plan.request.n, plan.request.seed)
    if not questions:
        raise TurnmarkError("no passage has a sentence that can be removed to search for; give questions: --questions")
    return questions


def _keys(plan: TunePlan, texts: Iterable[str]) -> list[str]:
    """Return for each text a name for a result that depends on it, the index, the configurations and the version."""
    choices = "\n".join(choice.model_dump_json() for choice in plan.choices)
    contender = plan.contender.model_dump_json()
    start = "\0".join([plan.index.manifest.fingerprint(), plan.retriever, contender, choices, version("turnmark")])
    names = (hashlib.sha256(f"{start}\0{text}".encode("utf-8", "surrogatepass")) for text in texts)
    return [name.hexdigest()[:16] for name in names]


# --- the gains -------------------------------------------------------------------------------------------------------


def _gains_of(plan: TunePlan, questions: Sequence[TuneQuestion], asked: Bools, progress: Progress) -> Floats:
    """Return the gain of each configuration for each question that is asked, (configurations, questions)."""
    import numpy as np

    chosen = [question for question, is_asked in zip(questions, asked.tolist(), strict=True) if is_asked]
    keys = _keys(plan, (question.model_dump_json() for question in chosen))
    journal = Journal(plan.out / "gains.jsonl", QuestionGains, lambda one: one.key)
    if not all(key in journal for key in keys):
        index = open_contender(plan.index, plan.contender, plan.out / BUILDS_FOLDER, progress)
        progress.start(f"questions: {plan.contender}" if str(plan.contender) else "questions", len(chosen))
        progress.advance(sum(key in journal for key in keys))
        missing = [(one, key) for one, key in zip(chosen, keys, strict=True) if key not in journal]
        with tempfile.TemporaryDirectory(prefix="turnmark-tune-") as scratch:
            for hides in (False, True):
                some = [pair for pair in missing if pair[0].hides == hides]
                if some and hides:  # every question decides what is hidden, so that a resumed run has the same copy
                    index = copy_with_passages(index, hide_answers(index, questions), Path(scratch))
                _measure_missing(plan, index, some, journal, progress)
    return np.array([found.gains for key in keys if (found := journal.get(key))]).T


def _measure_missing(
    plan: TunePlan,
    index: StoredIndex,
    missing: Sequence[tuple[TuneQuestion, str]],
    journal: Journal[str, QuestionGains],
    progress: Progress,
) -> None:
    """Measure questions over an index or its copy, and write their gains by their keys."""
    for start in range(0, len(missing), QUESTIONS_AT_ONCE):
        batch = missing[start : start + QUESTIONS_AT_ONCE]
        columns = measure_questions(plan, index, [question for question, _ in batch]).T
        for (_, key), column in zip(batch, columns, strict=True):
            journal.append(QuestionGains(key=key, gains=tuple(round(gain, 6) for gain in column.tolist())))
        progress.advance(len(batch))


def measure_questions(plan: TunePlan, index: StoredIndex, questions: Sequence[TuneQuestion]) -> Floats:
    """Return the gain of each configuration for some questions over an index or its copy."""
    places = _places_of(index)
    recorded = record_lists(index, plan.retriever, queries_of(index, plan.retriever, questions), plan.choices)
    answering = [places.answering(question.gold) for question in questions]
    share = index.manifest.share_of("dense") if reranker_of(plan.retriever) == LATE_RERANKER else 1.0
    return measure_gains(recorded, answering, places.lengths, plan.choices, share)


@lru_cache(maxsize=2)
def _places_of(index: StoredIndex) -> PassagePlaces:
    return PassagePlaces(index)
