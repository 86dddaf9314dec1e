"""Rubrics of MTRAG, MTRAG-UN and MTRAG-S: MTRAG section 6.3 and appendix F, and MTRAG-UN's clarification.

Scales, labels, criteria and material come from the papers. The prompts are in our own words, so the metrics are
different instruments from the published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, model_validator

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.reply_schemas import limit_characters, limit_items
from turnmark.assistant.llm.prompts.structured_output import Failure, ask
from turnmark.evaluation.judging.embedded_judge import extractive_rubrics
from turnmark.evaluation.judging.rubrics import (
    OWN_WORDS,
    UNDERSPECIFIED_LABEL,
    add_check,
    by_verdict,
    judge_failure,
    judge_prompt,
    require_answer,
    require_material,
    tenth,
)
from turnmark.evaluation.judging.verdicts import Labels, RatingScale
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics.idk_conditioning import IDK_VALUES
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome, Rubric
from turnmark.retrieval.embedding.embedders import shared_embedder
from turnmark.retrieval.embedding.vector_cache import Embed

RATING = RatingScale(name="Rating", low=1, high=10)
IDK_LABELS = Labels(offered=("yes", "partial", "no"))
YES_NO = Labels(offered=("yes", "no"))
TOKENS_PER_CLAIM = 60
MAX_CLAIMS = 100
"""Maximum number of claims of one reply; a longer list means that the judge's reply is broken."""
IMPLIED_QUESTIONS = 3
"""Number of questions that the prompt `implied-questions` asks for."""


# --- rl_f ------------------------------------------------------------------------------------------------------------


class ClaimsReply(BaseModel):
    """The reply that the prompt `claims` asks for."""

    # One more than the limit, to distinguish a list that is too long from a complete one.
    claims: Annotated[list[str], limit_items(MAX_CLAIMS + 1)]


class ClaimVerdict(BaseModel):
    """Whether the passages support a claim, and why."""

    claim: int
    reason: Annotated[str, limit_characters()] = ""
    supported: bool


class VerdictsReply(BaseModel):
    """The reply that the prompt `claim-verdicts` asks for; claims are numbered from 1."""

    verdicts: list[ClaimVerdict]


def _problem(reply: VerdictsReply, count: int) -> str | None:
    """Return what is wrong with the verdicts on `count` claims, in words for the judge, or None if all are there."""
    if sorted(verdict.claim for verdict in reply.verdicts) == list(range(1, count + 1)):
        return None
    numbers = ", ".join(str(verdict.claim) for verdict in reply.verdicts) or "none"
    return f"one verdict was expected for each claim from 1 to {count}, not for: {numbers}"


def _faithfulness(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    prompt = judge_prompt("claims", case, generator, prompts, ("answer",))
    reply = require_answer(ask(generator, prompt.messages, ClaimsReply, max_tokens=generator.reply_tokens))
    claims = [" ".join(claim.split()) for claim in reply.claims if claim.strip()]
    if not claims:
        return Outcome(status="not_applicable", reason="the reply makes no claims")
    if len(claims) > MAX_CLAIMS:
        failure = Failure(kind="invalid", reason=f"{len(claims)} claims were found in one reply", raw="\n".join(claims))
        raise judge_failure(failure)
    return _check_claims(generator, case, prompts, claims)


def _check_claims(generator: Generator, case: Case, prompts: Path | None, claims: list[str]) -> Outcome:
    """Return the share of the claims that the passages support; failed unless each claim has exactly one verdict."""
    lines = "\n".join(f"{number}. {claim}" for number, claim in enumerate(claims, 1))
    limit = max(generator.reply_tokens, TOKENS_PER_CLAIM * len(claims))
    prompt = judge_prompt(
        "claim-verdicts", case, generator, prompts, (), {"claims": lines}, {"count": str(len(claims))}, limit
    )
    form = add_check(VerdictsReply, len(claims), lambda reply: _problem(reply, len(claims)))
    reply = require_answer(ask(generator, prompt.messages, form, max_tokens=limit), prompt.notes)
    verdict_of = {verdict.claim: verdict for verdict in reply.verdicts}
    parts: list[str] = []
    unsupported: list[str] = []
    for number, claim in enumerate(claims, 1):
        verdict = verdict_of[number]
        part = f"supported: {claim}" if verdict.supported else f"not supported: {claim}"
        verdict_reason = " ".join(verdict.reason.split())
        if verdict_reason:
            part += f" ({verdict_reason})"
        parts.append(part)
        if not verdict.supported:
            unsupported.append(claim)
    count = len(claims) - len(unsupported)
    reason = f"{count} of {len(claims)} claims are supported"
    if unsupported:
        reason += f"; not: {'; '.join(unsupported)}"
    value = count / len(claims)
    return Outcome(status="scored", value=value, reason=reason, parts=tuple(parts), notes=prompt.notes)


# --- rl_r ------------------------------------------------------------------------------------------------------------


class ImpliedReply(BaseModel):
    """The reply that the prompt `implied-questions` asks for."""

    questions: Annotated[list[str], limit_items(IMPLIED_QUESTIONS)]
    evasive: bool

    @model_validator(mode="after")
    def _guesses_unless_evasive(self) -> Self:
        if not self.evasive and not any(text.strip() for text in self.questions):
            raise ValueError("three questions were expected of a reply that is not evasive, not none")
        return self


def relevance(embed: Embed, embedder: str) -> Rubric:
    """Return the rubric of `rl_r`: the mean cosine of the question and those that a judge infers from the reply.

    The value is 0 if the reply is evasive.

    Args:
        embed: function from texts to unit vectors; may be called from any thread.
        embedder: the embedder's spec; the papers do not name theirs.
    """

    def judge_relevance(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt("implied-questions", case, generator, prompts, ("answer",))
        reply = require_answer(ask(generator, prompt.messages, ImpliedReply))
        questions = [" ".join(text.split()) for text in reply.questions if text.strip()]
        value = 0.0
        if not reply.evasive:
            question_vector, *guesses = embed([case.question, *questions])
            cosines = [
                sum(float(a) * float(b) for a, b in zip(question_vector, guess, strict=True)) for guess in guesses
            ]
            value = min(1.0, max(0.0, sum(cosines) / len(cosines)))
        reason = "evasive" if reply.evasive else f"it would answer: {' / '.join(questions)}"
        return Outcome(status="scored", value=value, reason=reason, parts=tuple(questions))

    description = f"RAGAS answer relevance over {embedder}, {OWN_WORDS}"
    return Rubric("rl_r", description, ("implied-questions",), judge_relevance, require_material(), extra=embedder)


# --- the rubrics ------------------------------------------------------------------------------------------------------


def _only_underspecified(case: Case) -> str | None:
    return None if case.answerability == UNDERSPECIFIED_LABEL else "it is for underspecified tasks only"


RB_LLM = Rubric(
    "rb_llm", f"rating / 10 with reference and passages (appendix F.1), {OWN_WORDS}", ("rb-llm",),
    by_verdict("rb-llm", RATING, tenth, "question", "reference", "answer"),
    require_material(passages=True, reference=True), offers=RATING, shown=MetricStyle(headline=70),
)  # fmt: skip
RL_MTB = Rubric(
    "rl_mtb", f"rating / 10 with passages (appendix F.2), {OWN_WORDS}", ("rl-mtb",),
    by_verdict("rl-mtb", RATING, tenth, "question", "answer"), require_material(passages=True), offers=RATING,
)  # fmt: skip
RL_F = Rubric(
    "rl_f", f"RAGAS faithfulness: supported claims / claims, {OWN_WORDS}", ("claims", "claim-verdicts"),
    _faithfulness, require_material(passages=True), shown=MetricStyle(headline=80),
)  # fmt: skip
IDK_JUDGE = Rubric(
    "idk", f"IDK verdict (appendix F.3): yes 1, partial 0.5, no 0, {OWN_WORDS}", ("idk",),
    by_verdict("idk", IDK_LABELS, lambda label, _: IDK_VALUES[label], "answer"), require_material(), "nominal",
    IDK_VALUES, offers=IDK_LABELS, shown=MetricStyle(direction=None),
)  # fmt: skip
CLARIFICATION = Rubric(
    "clarification", f"share of underspecified tasks whose reply asks what is meant, {OWN_WORDS}", ("clarification",),
    by_verdict("clarification", YES_NO, lambda label, _: float(label == "yes"), "question", "answer"),
    _only_underspecified, "nominal", {"yes": 1.0, "no": 0.0}, offers=YES_NO,
)  # fmt: skip


EMBEDDER = "minilm"


def mtrag_rubrics(_setting: str | None, embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.tasks.task.Task.rubrics`.

    They are the same for MTRAG-S. MTRAG section 9 says that MTRAG-S has no reference answers, but each published task
    has a target, and the official scores compare with it (`mtrag-synthetic`).
    """
    # The weights were fitted with this embedder, so it does not depend on the request.
    extractive = extractive_rubrics(shared_embedder(EMBEDDER), EMBEDDER)
    return RB_LLM, RL_F, RL_MTB, relevance(shared_embedder(embedder), embedder), IDK_JUDGE, *extractive


def un_rubrics(setting: str | None, embedder: str) -> Sequence[Rubric]:
    """Return the rubrics of MTRAG-UN; see `turnmark.evaluation.tasks.task.Task.rubrics`."""
    return *mtrag_rubrics(setting, embedder), CLARIFICATION
