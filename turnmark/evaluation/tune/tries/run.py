"""Compare settings of the assistant by its replies to a person's own questions, and test the best on held-out ones.

The model is chosen first, and then one field after the other with the best values so far. Each setting answers a part
of the search half; one that is clearly worse there is not asked further.

    OUT/answers-HASH/   a run for each configuration and part of the questions; the same command resumes it
    OUT/settings.json   the result
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from turnmark.assistant.config import AssistantConfig, with_tuned_settings
from turnmark.assistant.llm.calls.prices import Budget, parse_budget
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.console import notify
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import reading_words, strip_citations
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion
from turnmark.evaluation.check.own_questions.questions_check import plan_questions, run_questions
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.storage.run_folder import now
from turnmark.evaluation.tune.plan import open_request
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.tries.settings import TriedSetting, changed_settings, read_tries
from turnmark.evaluation.tune.verdict import (
    FIRST_SHARE,
    MIN_QUESTIONS,
    GainComparison,
    best_of,
    compare_gains,
    in_search_half,
)
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.tuned_settings import TunedSettings, words_of, write_tuned_settings

if TYPE_CHECKING:
    from turnmark.evaluation.scores.cluster_statistics import Floats


class TriedSettings(GainComparison):
    """A configuration of the assistant, compared with the best one before it; on the test half with the present one."""

    settings: Mapping[str, Any] = Field(description="fields that differ from the present settings -> value")
    questions: int = Field(description="number of questions that it answered")
    words: float = Field(description="mean number of words of its replies, since longer ones state more facts")


class TriesResult(Record):
    """The result of `turnmark tune --try`, which `--json` prints. A gain is the share of right replies."""

    index: str
    questions: str = Field(description="the file")
    search_questions: int
    test_questions: int
    default_gain: float | None = Field(
        description="share of right replies with the present settings on the test half, or None without a finalist"
    )
    tried: tuple[TriedSettings, ...] = Field(description="on the search half, compared with the best one before")
    finalists: tuple[TriedSettings, ...] = Field(description="on the test half, compared with the present settings")
    winner: TriedSettings | None = Field(description="the finalist that is better beyond doubt")
    untried: tuple[str, ...] = Field(description="settings for which no time was left")
    out: str
    seconds: float


class TriesForecast(Record):
    """What `turnmark tune --try` would ask, which `--dry-run --json` prints."""

    index: str
    questions: int
    settings: int
    replies: int = Field(description="maximum number of replies")


class TriedReply(NamedTuple):
    """Whether a reply is right, and its length."""

    right: bool
    words: int


@dataclass
class TriesPlan:
    """A checked request.

    Attributes:
        base: the configuration that the settings are compared with, which has those of an earlier tuning.
        budget: the limit for all replies together, or None.
        spent: tokens, or money if the budget is money.
        replies: configuration and id of a question -> its reply.
    """

    request: TuneRequest
    index: StoredIndex
    base: AssistantConfig
    tries: Sequence[TriedSetting]
    own: Sequence[OwnQuestion]
    out: Path
    began: float
    budget: Budget | None
    spent: float = 0.0
    replies: dict[tuple[AssistantConfig, str], TriedReply] = field(default_factory=dict)

    @property
    def asked(self) -> list[OwnQuestion]:
        """The questions that say what is right; those that lead up to them are asked too."""
        return [one for one in self.own if one.conditions]

    def is_searched(self, one: OwnQuestion) -> bool:
        """Return whether a question is in the search half."""
        return in_search_half(unit_of(one), self.request.seed)

    @property
    def is_late(self) -> bool:
        """Whether the time of the request is over."""
        return self.request.minutes is not None and time.perf_counter() - self.began > 60 * self.request.minutes


def plan_tries(request: TuneRequest, errors: ErrorCollector) -> TriesPlan:
    """Check a request, and open an assistant with each of its settings.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    index, own = open_request(request, errors)
    if request.questions is None:
        errors.add("--try compares replies to your own questions; name their file: --questions FILE")
    tries = read_tries(request.tries, errors)
    base = AssistantConfig(index=request.index, generator=request.generator)
    if index is not None:
        base = _present_settings(base, index, {one.field for one in tries})
    tries = [one for one in tries if one.applied_to(base) != base]
    for config in (base, *(one.applied_to(base) for one in tries)) if index is not None else ():
        errors.collect(Assistant.from_config, config)
    budget = errors.collect(parse_budget, request.budget) if request.budget is not None else None
    errors.raise_all()
    assert index is not None, "errors.raise_all() raised otherwise"
    out = request.out or Path("tunes") / index.name
    plan = TriesPlan(request, index, base, tries, own, out, began, budget)
    searched = sum(map(plan.is_searched, plan.asked))
    fewest = min(searched, len(plan.asked) - searched)
    if fewest < MIN_QUESTIONS:
        raise RequestError(
            f"--questions {request.questions}: {len(plan.asked)} questions say what is right; --try needs at least "
            f"{MIN_QUESTIONS} in each half, and the smaller half has {fewest}"
        )
    return plan


def _present_settings(default: AssistantConfig, index: StoredIndex, tried: Collection[str]) -> AssistantConfig:
    """Return a configuration with the settings that an earlier tuning found, but for the fields that are tried."""
    return with_tuned_settings(default, index).model_copy(update={name: getattr(default, name) for name in tried})


def unit_of(one: OwnQuestion) -> str:
    """Return the unit that a question belongs to: its conversation, or else its document, or else itself."""
    return one.conversation or one.document or one.id


def forecast_tries(plan: TriesPlan) -> TriesForecast:
    """Return the maximum number of replies: every setting answers the search half, and the default and up to two
    finalists the other."""
    searched = sum(map(plan.is_searched, plan.own))
    compared = 1 + min(2, len(plan.tries))
    replies = searched * (1 + len(plan.tries)) + (len(plan.own) - searched) * compared
    return TriesForecast(index=plan.index.name, questions=len(plan.asked), settings=len(plan.tries), replies=replies)


def run_tries(plan: TriesPlan) -> TriesResult:
    """Ask what was not asked yet, and write the settings of the winner for the index."""
    import numpy as np

    search = [one for one in plan.asked if plan.is_searched(one)]
    test = [one for one in plan.asked if not plan.is_searched(one)]
    finalists, tried, untried = _choose(plan, search)
    gains = [_gains(plan, config, test) for config in (plan.base, *finalists)] if finalists else []
    compared = compare_gains(gains[0], np.array(gains[1:]), [*map(unit_of, test)], plan.request.seed) if gains else []
    tested = [_tried(plan, config, test, one) for config, one in zip(finalists, compared, strict=True)]
    winner = best_of(tested)
    result = TriesResult(
        index=plan.index.name,
        questions=str(plan.request.questions),
        search_questions=len(search),
        test_questions=len(test),
        default_gain=float(gains[0].mean()) if gains else None,
        tried=tuple(tried),
        finalists=tuple(tested),
        winner=winner,
        untried=tuple(untried),
        out=str(plan.out),
        seconds=round(time.perf_counter() - plan.began, 1),
    )
    if winner is not None:
        _keep(plan, winner, len(search) + len(test))
    write_atomic(plan.out / "settings.json", result.model_dump_json(indent=1) + "\n")
    return result


def _keep(plan: TriesPlan, winner: TriedSettings, questions: int) -> None:
    """Write the winner's settings for the index. Its model stays the user's choice."""
    assert winner.ci95 is not None, "without an interval nothing is better"
    present = changed_settings(plan.base, AssistantConfig(index=plan.base.index, generator=plan.base.generator))
    settings = {name: value for name, value in {**present, **winner.settings}.items() if name != "generator"}
    if settings:
        tuned = TunedSettings(
            generator=str(winner.settings.get("generator", plan.base.generator)), settings=settings,
            gain=winner.difference, ci95=winner.ci95, questions=questions, created=now(),
        )  # fmt: skip
        write_tuned_settings(plan.index, tuned)


def _choose(
    plan: TriesPlan, search: Sequence[OwnQuestion]
) -> tuple[list[AssistantConfig], list[TriedSettings], list[str]]:
    """Return the best configurations on the search half, what was tried, and what there was no time for."""
    best, tried, untried = plan.base, list[TriedSettings](), list[str]()
    finalists: list[AssistantConfig] = []
    for name, settings in groupby(plan.tries, lambda one: one.field):
        start = best
        for setting in settings:
            config = setting.applied_to(start)
            if plan.is_late:
                untried.append(words_of({setting.field: setting.value}))
                continue
            one = _race(plan, config, start, search)
            tried.append(one)
            if one.questions == len(search) and one.gain > _gains(plan, best, search).mean():
                best = config
        if name == "generator" and best != plan.base:
            finalists.append(best)
    return list(dict.fromkeys([*finalists, *([best] if best != plan.base else [])])), tried, untried


def _race(
    plan: TriesPlan, config: AssistantConfig, other: AssistantConfig, search: Sequence[OwnQuestion]
) -> TriedSettings:
    """Compare a configuration with another one on the search half, or on its first part if it is clearly worse."""
    units = list(dict.fromkeys(map(unit_of, search)))
    first = set(units[: max(MIN_QUESTIONS, round(FIRST_SHARE * len(units)))])
    for part in ([one for one in search if unit_of(one) in first], search):
        gains, others = _gains(plan, config, part), _gains(plan, other, part)
        (compared,) = compare_gains(others, gains[None], [*map(unit_of, part)], plan.request.seed, is_test=False)
        if compared.is_worse:
            break
    return _tried(plan, config, part, compared)


def _tried(
    plan: TriesPlan, config: AssistantConfig, questions: Sequence[OwnQuestion], compared: GainComparison
) -> TriedSettings:
    """Return a comparison with the settings of the configuration and the mean length of its replies."""
    words = fmean(plan.replies[config, one.id].words for one in questions)
    return TriedSettings(
        settings=changed_settings(config, plan.base), questions=len(questions), words=round(words, 1), **dict(compared)
    )


def _gains(plan: TriesPlan, config: AssistantConfig, questions: Sequence[OwnQuestion]) -> Floats:
    """Return 1 for each question whose reply is right, else 0. Questions without a reply yet are asked."""
    import numpy as np

    missing = {unit_of(one) for one in questions if (config, one.id) not in plan.replies}
    if missing:
        _ask(plan, config, [one for one in plan.own if unit_of(one) in missing])
    return np.array([plan.replies[config, one.id].right for one in questions], dtype=float)


def _ask(plan: TriesPlan, config: AssistantConfig, questions: Sequence[OwnQuestion]) -> None:
    """Ask questions of an assistant with a configuration, or read its replies from the folder."""
    settings = words_of(changed_settings(config, plan.base)) or "the present settings"
    notify(f"{len(questions)} questions with {settings}")
    request = CheckRequest(
        assistant=config, questions=plan.request.questions, concurrency=plan.request.concurrency,
        budget=_left(plan), out=plan.out,
    )  # fmt: skip
    result, gave_up = run_questions(plan_questions(request, ErrorCollector(), [one.id for one in questions]))
    if gave_up:
        raise TurnmarkError(f"{result.failed} questions failed with {settings}; the same command tries them again")
    for one, outcome in zip(questions, result.outcomes, strict=True):
        reply = TriedReply(outcome.right is True, reading_words(strip_citations(outcome.answer)))
        plan.replies[config, one.id] = reply
    in_money = plan.budget is not None and plan.budget.money is not None
    names = ("cost",) if in_money else ("prompt_tokens", "completion_tokens")
    plan.spent += sum(usage.get(name) or 0.0 for usage in result.usage.values() for name in names)


def _left(plan: TriesPlan) -> str | None:
    """Return what is left of the budget, as `--budget` takes it."""
    whole = plan.budget
    if whole is None:
        return None
    if whole.money is not None:
        return f"{max(whole.money - plan.spent, 1e-6):.6f} {whole.currency}"
    return str(max(1, round((whole.tokens or 0) - plan.spent)))
