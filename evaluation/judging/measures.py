"""What judges are asked of a reply: MTRAG's metrics (section 6.3, appendix F) and MTRAG-UN's clarification.

Scales, labels, criteria and material are those of the papers; the prompts are in our own words, which makes them other
instruments than the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, model_validator

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.schema import at_most
from turnmark.assistant.structured import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.alpha import Level
from turnmark.evaluation.judging.asking import ask_verdict
from turnmark.evaluation.judging.derived import Derived
from turnmark.evaluation.judging.fitting import Fitted, Messages, fit, room_for
from turnmark.evaluation.judging.material import values_of
from turnmark.evaluation.judging.records import RAW, Case, Outcome
from turnmark.evaluation.judging.verdicts import Labels, Offer, Scale
from turnmark.evaluation.prompts import load_prompt

OWN_WORDS = "prompt in our own words"
RATING = Scale(name="Rating", low=1, high=10)
IDK = Labels(offered=("yes", "partial", "no"))
IDK_VALUES: Mapping[str, float] = {"yes": 1.0, "partial": 0.5, "no": 0.0}
YES_NO = Labels(offered=("yes", "no"))
UNDERSPECIFIED = "UNDERSPECIFIED"
TOKENS_PER_CLAIM = 60
MOST_CLAIMS = 100
"""Claims of one reply that are checked; a list without an end is a broken reply."""
GUESSES = 3
"""Questions that a reply would answer, as the prompt `implied-questions` asks for."""

Ask = Callable[[Generator, Case, Path | None], Outcome]


@dataclass(frozen=True)
class Measure:
    """One metric that a judge gives a value to.

    Attributes:
        name: of the metric.
        by: what the metric is, for whoever sets it beside a published one.
        prompts: names of those that it asks with.
        ask: the judge, the case, the folder with own prompts -> what the judge says.
        without: case -> why there is nothing to judge; None: there is.
        level: of the values, for the judges' agreement.
        values: label -> value, where judges choose a label: several are summed up by majority, and not by the median.
        extra: what else can change an outcome, such as the embedder.
        also: names of further metrics that come out of the same call (`Outcome.also`).
        offers: what its verdict is one of; None: it is not made of a verdict.
        derived: further metrics, made of this one and others of the same sample.
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
    derived: tuple[Derived, ...] = ()


def failed(failure: Failure, usage: Usage, notes: Sequence[str] = ()) -> Outcome:
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


def fenced(
    name: str,
    case: Case,
    generator: Generator,
    prompts: Path | None,
    parts: Sequence[str],
    more: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    reply: int | None = None,
) -> Fitted | None:
    """The prompt `name` over a case, within the judge's context; None where it does not fit.

    Args:
        parts: what of the case it shows beside passages and history, by the case's own names, each between marks.
        more: further texts that it shows, each between marks.
        plain: values of ours that stand there without marks.
        reply: tokens of the reply; None: the generator's own.
    """
    prompt = load_prompt(name, prompts)
    texts = {part: str(getattr(case, part)) for part in parts} | dict(more or {})

    def render(passages: Sequence[str], history: Sequence[Message]) -> Messages:
        return prompt.render(**values_of(prompt, case, texts, passages, history), **(plain or {}))

    shown = (case.passages or ()) if "passages" in prompt.placeholders else ()
    earlier = case.history if {"history", "conversation"} & prompt.placeholders else ()
    return fit(render, shown, earlier, room_for(generator, reply))


def _by_verdict(name: str, offer: Offer, value: Callable[[str, float | None], float], *parts: str) -> Ask:
    """A measure that is one prompt and one verdict."""

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        made = fenced(name, case, generator, prompts, parts)
        if made is None:
            return TOO_LONG
        told, usage = ask_verdict(generator, made.messages, offer, prompts)
        if isinstance(told, Failure):
            return failed(told, usage, made.notes)
        said = told.verdict
        return Outcome(
            status="scored",
            value=value(said.label, said.value),
            label=said.label if said.value is None else None,
            reason=told.text[-RAW:],
            notes=made.notes,
            usage=usage,
        )

    return asked


def _tenth(_: str, number: float | None) -> float:
    assert number is not None, "a scale gives a number"
    return number / 10


# --- rl_f ------------------------------------------------------------------------------------------------------------


class ClaimsReply(BaseModel):
    """What the prompt `claims` asks for."""

    # One more than are judged, so that a list that was cut is not taken for a whole one.
    claims: Annotated[list[str], at_most(MOST_CLAIMS + 1)]


class ClaimVerdict(BaseModel):
    """Whether the passages say a claim, and what decides it."""

    claim: int
    reason: str = ""
    supported: bool


class VerdictsReply(BaseModel):
    """Verdicts by the numbers of the claims."""

    verdicts: list[ClaimVerdict]


@lru_cache(maxsize=MOST_CLAIMS)
def _reply_for(count: int) -> type[VerdictsReply]:
    """What the prompt `claim-verdicts` asks for, over so many claims: one that misses any is asked for once more."""

    class ForEach(VerdictsReply):
        most_items: ClassVar[int] = count

        @model_validator(mode="after")
        def _one_for_each(self) -> Self:
            if sorted(one.claim for one in self.verdicts) != list(range(1, count + 1)):
                said = ", ".join(str(one.claim) for one in self.verdicts) or "none"
                raise ValueError(f"one verdict was expected for each claim from 1 to {count}, not for: {said}")
            return self

    ForEach.__name__ = VerdictsReply.__name__
    return ForEach


def _faithfulness(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    made = fenced("claims", case, generator, prompts, ("answer",))
    if made is None:
        return TOO_LONG
    found, usage = ask(generator, made.messages, ClaimsReply, max_tokens=generator.reply_tokens)
    if isinstance(found, Failure):
        return failed(found, usage)
    claims = [" ".join(claim.split()) for claim in found.claims if claim.strip()]
    if not claims:
        return Outcome(status="not_applicable", reason="the reply makes no claims", usage=usage)
    if len(claims) > MOST_CLAIMS:
        many = Failure(kind="invalid", reason=f"{len(claims)} claims were found in one reply", raw="\n".join(claims))
        return failed(many, usage)
    return _checked(generator, case, prompts, claims, usage)


def _checked(generator: Generator, case: Case, prompts: Path | None, claims: list[str], before: Usage) -> Outcome:
    """The share of the claims that the passages support. A list that does not have one verdict for each has failed."""
    lines = "\n".join(f"{number}. {claim}" for number, claim in enumerate(claims, 1))
    limit = max(generator.reply_tokens, TOKENS_PER_CLAIM * len(claims))
    prompt = fenced(
        "claim-verdicts", case, generator, prompts, (), {"claims": lines}, {"count": str(len(claims))}, limit
    )
    if prompt is None:
        return TOO_LONG.model_copy(update={"usage": before})
    found, usage = ask(generator, prompt.messages, _reply_for(len(claims)), max_tokens=limit)
    usage += before
    if isinstance(found, Failure):
        return failed(found, usage, prompt.notes)
    supported = {one.claim: one.supported for one in found.verdicts}
    why = {one.claim: " ".join(one.reason.split()) for one in found.verdicts}
    parts = tuple(
        f"{'supported' if supported[n] else 'not supported'}: {claim}" + (f" ({why[n]})" if why[n] else "")
        for n, claim in enumerate(claims, 1)
    )
    good = sum(supported.values())
    unsupported = "; ".join(claim for n, claim in enumerate(claims, 1) if not supported[n])
    reason = f"{good} of {len(claims)} claims are supported" + (f"; not: {unsupported}" if unsupported else "")
    return Outcome(
        status="scored", value=good / len(claims), reason=reason, parts=parts, notes=prompt.notes, usage=usage
    )


# --- rl_r ------------------------------------------------------------------------------------------------------------


class QuestionsReply(BaseModel):
    """What the prompt `implied-questions` asks for."""

    questions: Annotated[list[str], at_most(GUESSES)]
    evasive: bool

    @model_validator(mode="after")
    def _guesses_unless_evasive(self) -> Self:
        if not self.evasive and not any(text.strip() for text in self.questions):
            raise ValueError("three questions were expected of a reply that is not evasive, not none")
        return self


def relevance(embed: Callable[[Sequence[str]], Sequence[Sequence[float]]], embedder: str) -> Measure:
    """`rl_r`: the mean cosine of the question with those that the judge guesses from the reply; 0 for an evasive one.

    Args:
        embed: texts -> unit vectors, from any thread.
        embedder: its spec; published figures do not say which one theirs was.
    """

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        made = fenced("implied-questions", case, generator, prompts, ("answer",))
        if made is None:
            return TOO_LONG
        found, usage = ask(generator, made.messages, QuestionsReply)
        if isinstance(found, Failure):
            return failed(found, usage)
        questions = [" ".join(text.split()) for text in found.questions if text.strip()]
        value = 0.0
        if not found.evasive:
            own, *others = embed([case.question, *questions])
            cosines = [sum(float(a) * float(b) for a, b in zip(own, other, strict=True)) for other in others]
            value = min(1.0, max(0.0, sum(cosines) / len(cosines)))
        reason = "evasive" if found.evasive else f"it would answer: {' / '.join(questions)}"
        return Outcome(status="scored", value=value, reason=reason, parts=tuple(questions), usage=usage)

    by = f"RAGAS answer relevance over {embedder}, {OWN_WORDS}"
    return Measure("rl_r", by, ("implied-questions",), asked, needs(), extra=embedder)


# --- the measures ----------------------------------------------------------------------------------------------------


def needs(passages: bool = False, reference: bool = False) -> Callable[[Case], str | None]:
    """Why a measure does not apply to a case, or None: it is underspecified, or lacks what the measure looks at."""

    def without(case: Case) -> str | None:
        if case.answerability == UNDERSPECIFIED:
            return "underspecified tasks count in `clarification` alone"
        if reference and not case.reference.strip():
            return "the data has no reference answer"
        if passages and case.passages is None:
            return "not all texts of the passages are known"
        return None

    return without


def _only_underspecified(case: Case) -> str | None:
    return None if case.answerability == UNDERSPECIFIED else "it is for underspecified tasks alone"


RB_LLM = Measure(
    "rb_llm", f"rating / 10 with reference and passages (appendix F.1), {OWN_WORDS}", ("rb-llm",),
    _by_verdict("rb-llm", RATING, _tenth, "question", "reference", "answer"), needs(passages=True, reference=True),
    offers=RATING,
)  # fmt: skip
RL_MTB = Measure(
    "rl_mtb", f"rating / 10 with passages (appendix F.2), {OWN_WORDS}", ("rl-mtb",),
    _by_verdict("rl-mtb", RATING, _tenth, "question", "answer"), needs(passages=True), offers=RATING,
)  # fmt: skip
RL_F = Measure(
    "rl_f", f"RAGAS faithfulness: supported claims / claims, {OWN_WORDS}", ("claims", "claim-verdicts"),
    _faithfulness, needs(passages=True),
)  # fmt: skip
IDK_JUDGE = Measure(
    "idk", f"IDK verdict (appendix F.3): yes 1, partial 0.5, no 0, {OWN_WORDS}", ("idk",),
    _by_verdict("idk", IDK, lambda label, _: IDK_VALUES[label], "answer"), needs(), "nominal", IDK_VALUES,
    offers=IDK,
)  # fmt: skip
CLARIFICATION = Measure(
    "clarification", f"share of underspecified tasks whose reply asks what is meant, {OWN_WORDS}", ("clarification",),
    _by_verdict("clarification", YES_NO, lambda label, _: float(label == "yes"), "question", "answer"),
    _only_underspecified, "nominal", {"yes": 1.0, "no": 0.0}, offers=YES_NO,
)  # fmt: skip
