"""A rubric: one question to a judge about a reply, with its prompt, how the answer is read, and when it applies.

Of several judges of one reply the median of their numbers or the majority of their labels counts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from turnmark.assistant.asking import Failure
from turnmark.assistant.budget import Fitted, fit_prompt, room_for
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.judgements import RAW, REASON, Outcome
from turnmark.evaluation.judging.verdicts import Offer, ask_verdict
from turnmark.evaluation.metric_info import PLAIN, How
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Panel, Score
from turnmark.evaluation.stats import Level, alpha_figure

BERT = ("bert_recall", "bert_k_precision", "rb_alg")
"""Metrics of `bertscore` judges, by whichever model."""
EMBEDDED = "embedded"
"""The judge without a language model, and what ends the names of its metrics in square brackets."""
OWN_WORDS = "prompt in our own words"
UNDERSPECIFIED = "UNDERSPECIFIED"

Ask = Callable[[Generator, Case, Path | None], Outcome]


@dataclass(frozen=True)
class Rubric:
    """One metric that a judge gives a value to.

    Attributes:
        name: of the metric.
        by: what the metric is, for whoever compares it with a published one.
        prompts: names of those that it asks with.
        ask: the judge, the case, the folder with own prompts -> what the judge says.
        without: case -> why there is nothing to judge; None: there is.
        level: of the values, for the judges' agreement.
        values: label -> value, where judges choose a label: several are summed up by majority, and not by the median.
        extra: what else can change an outcome, such as the embedder.
        also: names of further metrics that come out of the same call (`Outcome.also`).
        offers: what its verdict is one of; None: it is not made of a verdict.
        shown: how reports show the metric and those that it also gives.
    """

    name: str
    by: str
    prompts: tuple[str, ...]
    ask: Ask
    without: Callable[[Case], str | None] = lambda _: None
    level: Level = "interval"
    values: Mapping[str, float] | None = None
    extra: str = ""
    also: tuple[str, ...] = ()
    offers: Offer | None = None
    shown: How = PLAIN


_FORM = 1
"""Of what a key means; raised when an older judgement must not be used again."""


def judgement_key(case: Case, rubric: Rubric, prompts: Mapping[str, str], judge: str) -> str:
    """SHA-256 over all that can change a judgement.

    Args:
        prompts: name -> hash of those that the rubric asks with.
        judge: its spec in normal form.
    """
    shown = {
        "question": case.question, "answer": case.answer, "reference": case.reference,
        "history": [[turn.role, turn.content] for turn in case.history],
        "passages": case.passages if case.passages_judged else (), "answerability": case.answerability,
        **({"more": case.more} if case.more else {}),
    }  # fmt: skip
    parts = [_FORM, rubric.name, rubric.extra, sorted(prompts.items()), judge, shown]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def prompts_digest(prompts: Mapping[str, str]) -> str:
    """One hash of several prompts: 16 digits of a SHA-256; empty without prompts.

    Args:
        prompts: name -> hash of those that a rubric asks with.
    """
    pairs = json.dumps(sorted(prompts.items())).encode("ascii")
    return hashlib.sha256(pairs).hexdigest()[:16] if prompts else ""


def failed_outcome(failure: Failure, usage: Usage, notes: Sequence[str] = ()) -> Outcome:
    """The outcome of a judge that gave no verdict."""
    reason = f"{failure.kind.replace('_', ' ')}: {failure.reason or 'no usable reply came'}"
    return Outcome(
        status="failed", kind=failure.kind, reason=reason, raw=failure.raw[-RAW:], notes=tuple(notes), usage=usage
    )


TOO_LONG = Outcome(
    status="failed",
    kind="too_long",
    reason="too long: question, reply and reference do not fit into the judge's context",
)


def judge_prompt(
    name: str,
    case: Case,
    generator: Generator,
    prompts: Path | None,
    parts: Sequence[str],
    extra_texts: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    reply: int | None = None,
) -> Fitted | None:
    """The prompt `name` over a case, within the judge's context; None where it does not fit.

    Args:
        parts: what of the case it shows besides passages and history, by their names there, each between marks.
        extra_texts: further texts that it shows, each between marks.
        plain: our own values, without marks.
        reply: tokens of the reply; None: the generator's own.
    """
    prompt = JUDGES.load(name, prompts)
    shown = [part for part in ("question", "answer", "reference") if part in (*parts, *prompt.placeholders)]
    texts = {part: str(getattr(case, part)) for part in shown} | dict(extra_texts or {})
    passages = (case.passages or ()) if case.passages_judged else ()
    return fit_prompt(prompt, room_for(generator, reply), texts, passages, case.history, plain, case.question)


def by_verdict(name: str, offer: Offer, value: Callable[[str, float | None], float], *parts: str) -> Ask:
    """A rubric that is one prompt and one verdict."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt(name, case, generator, prompts, parts, dict(case.more))
        if prompt is None:
            return TOO_LONG
        verdict, usage = ask_verdict(generator, prompt.messages, offer, prompts)
        if isinstance(verdict, Failure):
            return failed_outcome(verdict, usage, prompt.notes)
        return Outcome(
            status="scored",
            value=value(verdict.label, verdict.value),
            label=verdict.label if verdict.value is None else None,
            reason=verdict.text[-RAW:],
            notes=prompt.notes,
            usage=usage,
        )

    return asked


def by_code(judge: str, grade: Callable[[Case], Outcome]) -> Ask:
    """What one judge without a language model says: another judge, or an estimate, costs nothing here."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != judge:
            return Outcome(status="not_applicable", reason=f"only the judge {judge!r} is asked for it")
        return grade(case)

    return asked


def tenth(_: str, number: float | None) -> float:
    assert number is not None, "a scale gives a number"
    return number / 10


def needs(passages: bool = False, reference: bool = False) -> Callable[[Case], str | None]:
    """Why a rubric does not apply to a case, or None: it is underspecified, or lacks what the rubric looks at."""

    def without(case: Case) -> str | None:
        if case.answerability == UNDERSPECIFIED:
            return "underspecified tasks count in `clarification` alone"
        if reference and not case.reference.strip():
            return "the data has no reference answer"
        if passages and case.passages is None:
            return "not all texts of the passages are known"
        return None

    return without


# --- several judges --------------------------------------------------------------------------------------------------


def panel_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> Outcome:
    """One outcome of those of several judges, or of one.

    Numbers: the median of those that there are. Labels: the one that most judges chose; of those that equally many
    chose, the one of the judge that was named first. Judges that failed are left out, with a note; if all of them have,
    so has the panel. If some find nothing to judge, those that found something count.

    Args:
        outcomes: judge -> outcome, in the order in which the judges were named.
    """
    scored = {name: outcome for name, outcome in outcomes.items() if outcome.status == "scored"}
    if not scored:
        return _without(outcomes)
    label: str | None
    notes = list(dict.fromkeys(note for outcome in scored.values() for note in outcome.notes))
    unscored = {name: outcome for name, outcome in outcomes.items() if outcome.status != "scored"}
    tail = [
        f"{name}: {outcome.status.replace('_', ' ')} ({_brief(outcome.reason, 120)})"
        for name, outcome in unscored.items()
    ]
    if notes:
        tail.append(f"cut to fit the judge's context: {'; '.join(notes)}")
    if rubric.values is not None:
        label, split = majority([outcome.label or "" for outcome in scored.values()])
        tail = [*(["split evenly; the judge named first decides"] if split else []), *tail]
        reasons = _told(scored, lambda outcome: outcome.label or "")
        value, weight = rubric.values[label], 1.0
    else:
        label = None
        reasons = _told(scored, lambda outcome: f"{outcome.value:g}")
        value = median(outcome.value for outcome in scored.values() if outcome.value is not None)
        weight = median(outcome.weight for outcome in scored.values())
    reason = " — ".join(filter(None, [reasons, "; ".join(tail)]))
    return Outcome(status="scored", value=value, label=label, reason=reason, weight=weight, also=_also(rubric, scored))


def too_few(outcomes: Mapping[str, Outcome]) -> str:
    """`1 of 4` where some of the judges failed and others did not; empty where all that were asked gave a verdict.

    The median of fewer judges is another instrument. One that finds nothing to judge has given a verdict.
    """
    failed = sum(outcome.status == "failed" for outcome in outcomes.values())
    scored = any(outcome.status == "scored" for outcome in outcomes.values())
    return f"{len(outcomes) - failed} of {len(outcomes)}" if failed and scored else ""


def _also(rubric: Rubric, scored: Mapping[str, Outcome]) -> dict[str, float | None]:
    """The medians of the further metrics, over the judges that gave them a value."""
    values_by_metric = {
        name: [value for outcome in scored.values() if (value := outcome.also.get(name)) is not None]
        for name in rubric.also
    }
    return {name: median(values) if values else None for name, values in values_by_metric.items()}


def rubric_scores(rubric: Rubric, outcome: Outcome, about: Mapping[str, Any], mark: str = "") -> list[Score]:
    """The lines of a rubric: its metric, and those that came out of the same calls.

    Args:
        mark: ends their names.
    """
    status, reason = outcome.status, outcome.reason or None
    scores = [
        Score(metric=rubric.name + mark, status=status, value=outcome.value, weight=outcome.weight, reason=reason,
              **about)
    ]  # fmt: skip
    for name in rubric.also:
        value = outcome.also.get(name)
        if status != "scored" or value is not None:
            scores.append(Score(metric=name + mark, status=status, value=value, reason=reason, **about))
        else:
            absent = "the judge's reply has none"
            scores.append(Score(metric=name + mark, status="not_applicable", reason=absent, **about))
    return scores


def slim(outcome: Outcome) -> Outcome:
    """What of an outcome the agreement of judges takes."""
    return Outcome(
        status=outcome.status, value=outcome.value, label=outcome.label, reason=outcome.reason[:1] or ".",
        weight=outcome.weight,
    )  # fmt: skip


def majority(labels: Sequence[str]) -> tuple[str, bool]:
    """The commonest label, the one that comes first where several are; and whether several are."""
    counts = Counter(labels)
    highest = max(counts.values())
    leading = [label for label in dict.fromkeys(labels) if counts[label] == highest]
    return leading[0], len(leading) > 1


def _without(outcomes: Mapping[str, Outcome]) -> Outcome:
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.status == "failed"}
    if failed:
        return Outcome(status="failed", reason=_failures(failed))
    return Outcome(status="not_applicable", reason=next(iter(outcomes.values())).reason or "there is nothing to judge")


def _failures(failed: Mapping[str, Outcome]) -> str:
    lines = []
    for name, outcome in failed.items():
        raw = " ".join(outcome.raw.split())
        tail = f"; it wrote: {raw if len(raw) <= 200 else '… ' + raw[-200:]}" if raw else ""
        lines.append(f"{name}: {outcome.reason}{tail}" if len(failed) > 1 else f"{outcome.reason}{tail}")
    return " | ".join(lines)


def _told(scored: Mapping[str, Outcome], value: Callable[[Outcome], str]) -> str:
    if len(scored) == 1:
        return _brief(next(iter(scored.values())).reason, REASON)
    share = max(80, REASON // len(scored))
    return " | ".join(f"{name}: {value(outcome)}, {_brief(outcome.reason, share)}" for name, outcome in scored.items())


def _brief(text: str, limit: int) -> str:
    """A text on one line, its end where it is too long: judges come to their verdict last."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"


def panel_agreement(
    rubric: Rubric, judges: Sequence[str], cases: Iterable[Mapping[str, Outcome]], clusters: Sequence[str] = ()
) -> Panel:
    """How the judges agree over many cases.

    Args:
        cases: for each what each judge made of it.
        clusters: of each case; empty: no interval is wanted.
    """
    import numpy as np

    from turnmark.evaluation.stats import intervals

    units: list[list[float | str | None]] = []
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in judges}
    failed = dict.fromkeys(judges, 0)
    for case in cases:
        unit: list[float | str | None] = []
        for name in judges:
            outcome = case.get(name)
            if outcome is not None and outcome.status == "scored" and outcome.value is not None:
                values[name].append((outcome.value, outcome.weight))
                unit.append(outcome.label if rubric.values is not None else outcome.value)
            else:
                failed[name] += outcome is not None and outcome.status == "failed"
                unit.append(None)
        units.append(unit)
    alpha = alpha_figure(units, rubric.level, np.unique(clusters, return_inverse=True)[1] if clusters else None)
    return Panel(
        judges=tuple(judges),
        rule="one judge" if len(judges) == 1 else "majority" if rubric.values is not None else "median",
        alpha=alpha.value if alpha else None,
        alpha_ci95=intervals([alpha], 0)[0] if clusters and alpha else None,
        level=rubric.level,
        n=sum(sum(value is not None for value in unit) > 1 for unit in units),
        means={name: _weighted_mean(pairs) for name, pairs in values.items()},
        failed=failed,
    )


def _weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None
