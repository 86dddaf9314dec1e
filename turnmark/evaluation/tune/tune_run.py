"""Tune an index: make the questions, measure every configuration on them, and test the best on held-out documents."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.core.console import Progress
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion, check_documents, read_questions
from turnmark.evaluation.storage.journal import Journal, json_line, read_records
from turnmark.evaluation.storage.run_folder import now
from turnmark.evaluation.tune.gains import PassagePlaces, measure_gains
from turnmark.evaluation.tune.question_sources import locate_questions, write_questions
from turnmark.evaluation.tune.questions import TuneQuestion, draw_questions, hide_answers
from turnmark.evaluation.tune.rankings import SearchChoice, all_choices, default_choice, is_tunable, record_lists
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.searches import queries_of
from turnmark.evaluation.tune.verdict import TriedChoice, choose_finalists, compare_choices, halves, units_of
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import untuned_retriever
from turnmark.retrieval.search.tuned_search import TunedSearch, document_digests, models_of, write_tuned

if TYPE_CHECKING:
    from turnmark.evaluation.scores.cluster_statistics import Floats

MIN_QUESTIONS = 20
"""Minimum number of questions in each half."""
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
    tried: tuple[TriedChoice, ...] = Field(description="the best configurations on the search half")
    finalists: tuple[TriedChoice, ...] = Field(description="the configurations that were compared on the test half")
    winner: TriedChoice | None = Field(description="the finalist that is better beyond doubt")
    proposed: str = Field(description="spec of its retriever, which is used from now on; empty if there is none")
    out: str
    seconds: float


class TuneForecast(Record):
    """What tuning would try and how long it takes, which `--dry-run --json` prints."""

    index: str
    questions: int
    configurations: int
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
    follow_ups = any(one.conversation for one in own)
    choices = all_choices(default_choice(retriever), index.manifest.tokens, follow_ups)
    out = request.out or Path("tunes") / index.name
    return TunePlan(request, index, retriever, out, own, choices, began)


def forecast(plan: TunePlan) -> TuneForecast:
    """Measure a few questions, and return what all of them would take. A model writes no questions for it."""
    questions = _without_model(plan)
    began = time.perf_counter()
    measure_questions(plan, plan.index, questions[:1])
    loaded = time.perf_counter()
    sample = questions[:FORECAST_QUESTIONS]
    measure_questions(plan, plan.index, sample)
    each = (time.perf_counter() - loaded) / max(1, len(sample))
    count = len(plan.own) or (plan.request.n if plan.request.asks_model else len(questions))
    hidden = 0 if plan.own or plan.request.asks_model else count
    seconds = loaded - began + each * count + SECONDS_PER_HIDDEN * hidden
    return TuneForecast(
        index=plan.index.name,
        questions=count,
        configurations=len(plan.choices),
        seconds=round(seconds, 1),
    )


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
    gains = _all_gains(plan, questions, progress)
    seed, default, choices = plan.request.seed, plan.default, plan.choices
    search, test = gains[:, searched], gains[:, ~searched]
    best = np.argsort(-search.mean(axis=1), kind="stable")[:SHOWN_CHOICES].tolist()
    tried = compare_choices(choices, search, default, best, units[searched].tolist(), seed)
    chosen = choose_finalists(choices, search, default)
    finalists = compare_choices(choices, test, default, chosen, units[~searched].tolist(), seed)
    winner = max(filter(lambda one: one.is_better, finalists), key=lambda one: one.difference, default=None)
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
        winner=winner,
        proposed=winner.choice.spec(plan.retriever) if winner else "",
        out=str(plan.out),
        seconds=round(time.perf_counter() - plan.began, 1),
    )
    if winner is not None:
        write_tuned(plan.index, _tuned(plan, result, winner))
    write_atomic(plan.out / "result.json", result.model_dump_json(indent=1) + "\n")
    return result


def _tuned(plan: TunePlan, result: TuneResult, winner: TriedChoice) -> TunedSearch:
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
    (key,) = _keys(plan, [request.model_dump_json(include={"questions", "generator", "n", "seed"})])
    path = plan.out / f"questions-{key}.jsonl"
    stored = list(read_records(path, TuneQuestion))
    if stored:
        return stored
    if plan.own:
        questions = list(locate_questions(plan.index, plan.own))
    elif request.asks_model:
        questions = write_questions(request, plan.out / "written")
    else:
        questions = _without_model(plan)
        if request.minutes is not None:
            fitting = int(len(questions) * 60 * request.minutes / max(1.0, forecast(plan).seconds))
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
    start = "\0".join([plan.index.manifest.fingerprint(), plan.retriever, choices, version("turnmark")])
    names = (hashlib.sha256(f"{start}\0{text}".encode("utf-8", "surrogatepass")) for text in texts)
    return [name.hexdigest()[:16] for name in names]


# --- the gains -------------------------------------------------------------------------------------------------------


def _all_gains(plan: TunePlan, questions: Sequence[TuneQuestion], progress: Progress) -> Floats:
    """Return the gain of each configuration for each question, (configurations, questions)."""
    import numpy as np

    keys = _keys(plan, (question.model_dump_json() for question in questions))
    journal = Journal(plan.out / "gains.jsonl", QuestionGains, lambda one: one.key)
    progress.start("questions", len(questions))
    progress.advance(sum(key in journal for key in keys))
    with tempfile.TemporaryDirectory(prefix="turnmark-tune-") as scratch:
        for hides in (False, True):
            missing = [
                (one, key)
                for one, key in zip(questions, keys, strict=True)
                if one.hides == hides and key not in journal
            ]
            if not missing:
                continue
            index = plan.index
            if hides:  # every question of the copy decides what is hidden in it, so that a resumed run has the same
                index = copy_with_passages(index, hide_answers(index, questions), Path(scratch))
            for start in range(0, len(missing), QUESTIONS_AT_ONCE):
                batch = missing[start : start + QUESTIONS_AT_ONCE]
                columns = measure_questions(plan, index, [question for question, _ in batch]).T
                for (_, key), column in zip(batch, columns, strict=True):
                    gains = tuple(round(gain, 6) for gain in column.tolist())
                    journal.append(QuestionGains(key=key, gains=gains))
                progress.advance(len(batch))
    return np.array([found.gains for key in keys if (found := journal.get(key))]).T


def measure_questions(plan: TunePlan, index: StoredIndex, questions: Sequence[TuneQuestion]) -> Floats:
    """Return the gain of each configuration for some questions over an index or its copy."""
    places = _places_of(index)
    recorded = record_lists(index, plan.retriever, queries_of(index, plan.retriever, questions), plan.choices)
    answering = [places.answering(question.gold) for question in questions]
    return measure_gains(recorded, answering, places.lengths, plan.choices, index.manifest.share_of("dense"))


@lru_cache(maxsize=2)
def _places_of(index: StoredIndex) -> PassagePlaces:
    return PassagePlaces(index)
