"""What judges are asked of MTRAG, MTRAG-UN and MTRAG-S: MTRAG section 6.3, appendix F; MTRAG-UN's clarification.

Scales, labels, criteria and material are those of the papers; the prompts are in our own words, which makes them other
instruments than the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, model_validator

from turnmark.assistant.asking import Failure, ask
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.client import at_most, short_text
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.extractive import extractive_rubrics
from turnmark.evaluation.judging.rubrics import (
    OWN_WORDS,
    TOO_LONG,
    UNDERSPECIFIED,
    Outcome,
    Rubric,
    by_verdict,
    checked,
    failed_outcome,
    judge_prompt,
    needs,
    tenth,
)
from turnmark.evaluation.judging.verdicts import Labels, RatingScale
from turnmark.evaluation.metrics.idk import IDK_VALUES
from turnmark.evaluation.scores.metric_info import MetricStyle
from turnmark.retrieval.embed import shared_embedder

RATING = RatingScale(name="Rating", low=1, high=10)
IDK = Labels(offered=("yes", "partial", "no"))
YES_NO = Labels(offered=("yes", "no"))
TOKENS_PER_CLAIM = 60
MOST_CLAIMS = 100
"""Claims of one reply that are checked; a list without an end is a broken reply."""
GUESSES = 3
"""Questions that a reply would answer, as the prompt `implied-questions` asks for."""


# --- rl_f ------------------------------------------------------------------------------------------------------------


class ClaimsReply(BaseModel):
    """What the prompt `claims` asks for."""

    # One more than are judged, so that a list that was cut is not taken for a complete one.
    claims: Annotated[list[str], at_most(MOST_CLAIMS + 1)]


class ClaimVerdict(BaseModel):
    """Whether the passages say a claim, and what decides it."""

    claim: int
    reason: Annotated[str, short_text()] = ""
    supported: bool


class VerdictsReply(BaseModel):
    """Verdicts by the numbers of the claims."""

    verdicts: list[ClaimVerdict]


def _problem(reply: VerdictsReply, count: int) -> str | None:
    """What is wrong with verdicts over so many claims: one for each is expected."""
    if sorted(verdict.claim for verdict in reply.verdicts) == list(range(1, count + 1)):
        return None
    numbers = ", ".join(str(verdict.claim) for verdict in reply.verdicts) or "none"
    return f"one verdict was expected for each claim from 1 to {count}, not for: {numbers}"


def _faithfulness(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    prompt = judge_prompt("claims", case, generator, prompts, ("answer",))
    if prompt is None:
        return TOO_LONG
    reply, usage = ask(generator, prompt.messages, ClaimsReply, max_tokens=generator.reply_tokens)
    if isinstance(reply, Failure):
        return failed_outcome(reply, usage)
    claims = [" ".join(claim.split()) for claim in reply.claims if claim.strip()]
    if not claims:
        return Outcome(status="not_applicable", reason="the reply makes no claims", usage=usage)
    if len(claims) > MOST_CLAIMS:
        failure = Failure(kind="invalid", reason=f"{len(claims)} claims were found in one reply", raw="\n".join(claims))
        return failed_outcome(failure, usage)
    return _checked(generator, case, prompts, claims, usage)


def _checked(generator: Generator, case: Case, prompts: Path | None, claims: list[str], spent: Usage) -> Outcome:
    """The share of the claims that the passages support. A list that does not have one verdict for each has failed."""
    lines = "\n".join(f"{number}. {claim}" for number, claim in enumerate(claims, 1))
    limit = max(generator.reply_tokens, TOKENS_PER_CLAIM * len(claims))
    prompt = judge_prompt(
        "claim-verdicts", case, generator, prompts, (), {"claims": lines}, {"count": str(len(claims))}, limit
    )
    if prompt is None:
        return TOO_LONG.model_copy(update={"usage": spent})
    form = checked(VerdictsReply, len(claims), lambda reply: _problem(reply, len(claims)))
    reply, usage = ask(generator, prompt.messages, form, max_tokens=limit)
    usage += spent
    if isinstance(reply, Failure):
        return failed_outcome(reply, usage, prompt.notes)
    supported = {verdict.claim: verdict.supported for verdict in reply.verdicts}
    reasons = {verdict.claim: " ".join(verdict.reason.split()) for verdict in reply.verdicts}
    parts = tuple(
        f"{'supported' if supported[n] else 'not supported'}: {claim}" + (f" ({reasons[n]})" if reasons[n] else "")
        for n, claim in enumerate(claims, 1)
    )
    count = sum(supported.values())
    unsupported = "; ".join(claim for n, claim in enumerate(claims, 1) if not supported[n])
    reason = f"{count} of {len(claims)} claims are supported" + (f"; not: {unsupported}" if unsupported else "")
    return Outcome(
        status="scored", value=count / len(claims), reason=reason, parts=parts, notes=prompt.notes, usage=usage
    )


# --- rl_r ------------------------------------------------------------------------------------------------------------


class ImpliedReply(BaseModel):
    """What the prompt `implied-questions` asks for."""

    questions: Annotated[list[str], at_most(GUESSES)]
    evasive: bool

    @model_validator(mode="after")
    def _guesses_unless_evasive(self) -> Self:
        if not self.evasive and not any(text.strip() for text in self.questions):
            raise ValueError("three questions were expected of a reply that is not evasive, not none")
        return self


def relevance(embed: Callable[[Sequence[str]], Sequence[Sequence[float]]], embedder: str) -> Rubric:
    """`rl_r`: the mean cosine of the question with those that the judge guesses from the reply; 0 for an evasive one.

    Args:
        embed: texts -> unit vectors, from any thread.
        embedder: its spec; published figures do not say which one theirs was.
    """

    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt("implied-questions", case, generator, prompts, ("answer",))
        if prompt is None:
            return TOO_LONG
        reply, usage = ask(generator, prompt.messages, ImpliedReply)
        if isinstance(reply, Failure):
            return failed_outcome(reply, usage)
        questions = [" ".join(text.split()) for text in reply.questions if text.strip()]
        value = 0.0
        if not reply.evasive:
            target, *guessed = embed([case.question, *questions])
            cosines = [sum(float(a) * float(b) for a, b in zip(target, vector, strict=True)) for vector in guessed]
            value = min(1.0, max(0.0, sum(cosines) / len(cosines)))
        reason = "evasive" if reply.evasive else f"it would answer: {' / '.join(questions)}"
        return Outcome(status="scored", value=value, reason=reason, parts=tuple(questions), usage=usage)

    description = f"RAGAS answer relevance over {embedder}, {OWN_WORDS}"
    return Rubric("rl_r", description, ("implied-questions",), asked, needs(), extra=embedder)


# --- the rubrics ---


def _only_underspecified(case: Case) -> str | None:
    return None if case.answerability == UNDERSPECIFIED else "it is for underspecified tasks alone"


RB_LLM = Rubric(
    "rb_llm", f"rating / 10 with reference and passages (appendix F.1), {OWN_WORDS}", ("rb-llm",),
    by_verdict("rb-llm", RATING, tenth, "question", "reference", "answer"), needs(passages=True, reference=True),
    offers=RATING, shown=MetricStyle(headline=70),
)  # fmt: skip
RL_MTB = Rubric(
    "rl_mtb", f"rating / 10 with passages (appendix F.2), {OWN_WORDS}", ("rl-mtb",),
    by_verdict("rl-mtb", RATING, tenth, "question", "answer"), needs(passages=True), offers=RATING,
)  # fmt: skip
RL_F = Rubric(
    "rl_f", f"RAGAS faithfulness: supported claims / claims, {OWN_WORDS}", ("claims", "claim-verdicts"),
    _faithfulness, needs(passages=True), shown=MetricStyle(headline=80),
)  # fmt: skip
IDK_JUDGE = Rubric(
    "idk", f"IDK verdict (appendix F.3): yes 1, partial 0.5, no 0, {OWN_WORDS}", ("idk",),
    by_verdict("idk", IDK, lambda label, _: IDK_VALUES[label], "answer"), needs(), "nominal", IDK_VALUES,
    offers=IDK, shown=MetricStyle(direction=None),
)  # fmt: skip
CLARIFICATION = Rubric(
    "clarification", f"share of underspecified tasks whose reply asks what is meant, {OWN_WORDS}", ("clarification",),
    by_verdict("clarification", YES_NO, lambda label, _: float(label == "yes"), "question", "answer"),
    _only_underspecified, "nominal", {"yes": 1.0, "no": 0.0}, offers=YES_NO,
)  # fmt: skip


EMBEDDER = "minilm"


def mtrag_rubrics(_setting: str | None, embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.benchmarks.task.Task.rubrics`.

    MTRAG section 9 says that MTRAG-S has no reference answers; the published tasks have a target each, and the official
    scores of its answers compare with them (`mtrag-synthetic`).
    """
    extractive = extractive_rubrics(shared_embedder(EMBEDDER), EMBEDDER)  # its weights were fitted over this one
    return RB_LLM, RL_F, RL_MTB, _relevance(embedder), IDK_JUDGE, *extractive


def un_rubrics(setting: str | None, embedder: str) -> Sequence[Rubric]:
    """Those of MTRAG-UN."""
    return *mtrag_rubrics(setting, embedder), CLARIFICATION


def _relevance(embedder: str) -> Rubric:
    shared = shared_embedder(embedder)
    return relevance(lambda texts: shared(texts).tolist(), embedder)
