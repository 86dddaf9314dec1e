"""Judging evidence part by part, after every search: the two forms of it, and what follows for the whole message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from turnmark.assistant.budget import INSTRUCTIONS, fit
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.generators.schema import at_most, bounded
from turnmark.assistant.prompts import fence_tag, load_prompt
from turnmark.assistant.steps.answer import Embed
from turnmark.assistant.steps.decide import decide
from turnmark.assistant.steps.llm import numbered, one_a_line, passage_texts, turns
from turnmark.assistant.steps.retrieve import Asked, Judge, Verdict
from turnmark.assistant.steps.support import stems
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.types import Decision, Judgement, Understanding, Usage
from turnmark.corpora.text import content_words
from turnmark.retrieval.types import Hit

MOST_READINGS = 12
# The confidence of a verdict by a model: the middle of each third.
CONFIDENCE = {"yes": 5 / 6, "partly": 0.5, "no": 1 / 6}
DECIDED: dict[str, Decision] = {"yes": "answer", "partly": "partial", "no": "unknown"}

Told = Callable[[Usage, str | None], None]
"""Takes down what a call cost, and a note for the person."""


def embedded_judge(embed: Embed | None, trusted: bool, narrows: bool) -> Judge:
    """Judges by `turnmark.assistant.steps.decide`.

    Args:
        trusted: the evidence is known to be about the question.
        narrows: asks for a narrower query where evidence is thin.
    """

    def judge(parts: Sequence[Asked], evidence: Sequence[Sequence[Hit]]) -> list[Verdict]:
        made = []
        for part, hits in zip(parts, evidence, strict=True):
            judged = decide(part.understanding, part.text, hits, trusted, history=part.history, embed=embed)
            thin = narrows and judged.decision in ("unknown", "partial")
            made.append(Verdict(judged, narrower(part, hits) if thin else ""))
        return made

    return judge


def narrower(part: Asked, hits: Sequence[Hit]) -> str:
    """The words of a part that its evidence lacks, after its other words of content; "" where it lacks none, or all.

    Where it lacks all, the documents are about something else, and so would be whatever is found next.
    """
    wanted = content_words(part.understanding.rewrite)
    there = {stem for hit in hits for stem in stems(hit.passage.indexed_text)}
    lacking = [word for word in wanted if stems(word) and not stems(word) <= there]
    if not lacking or len(lacking) == len(wanted):
        return ""
    return " ".join(dict.fromkeys([*lacking, *wanted]))


class PartVerdict(BaseModel):
    """How far the passages cover a part."""

    part: int
    covered: Literal["yes", "partly", "no"]
    missing: str = ""
    query: str = ""


class DecideReply(BaseModel):
    """What the prompt `decide` asks for."""

    parts: list[PartVerdict]
    readings: Annotated[list[str], at_most(MOST_READINGS)] = Field(default_factory=list)


def model_judge(generator: Generator, otherwise: Judge, told: Told, prompts: Path | None = None) -> Judge:
    """Judges by one structured call for all parts of a round; where nothing usable comes, as `otherwise` does."""

    def judge(parts: Sequence[Asked], evidence: Sequence[Sequence[Hit]]) -> list[Verdict]:
        hits = list({hit.passage.id: hit for some in evidence for hit in some}.values())
        if not hits or not parts:
            return otherwise(parts, evidence)
        questions = [part.understanding.rewrite for part in parts]
        room = generator.context_tokens - INSTRUCTIONS - 3 * STRUCTURED_TOKENS
        fitted = fit(parts[0].history, hits, "\n".join(questions), room)
        texts = passage_texts(fitted.hits)
        tag = fence_tag(*questions, *texts, *(turn.content for turn in fitted.history))
        prompt = load_prompt("decide", prompts).render(
            tag=tag,
            passages=numbered(texts, tag),
            history=turns(fitted.history, tag),
            parts=one_a_line(questions),
        )
        found, usage = ask(generator, prompt, bounded(DecideReply, len(parts)))
        if isinstance(found, Failure) or sorted(one.part for one in found.parts) != list(range(1, len(parts) + 1)):
            why = f"{found.kind}: {found.reason}" if isinstance(found, Failure) else "it did not judge every part once"
            told(usage, f"decided without the model: it gave nothing usable ({why})")
            return otherwise(parts, evidence)
        told(usage, None)
        readings = tuple(dict.fromkeys(text.strip() for text in found.readings if text.strip()))[:MOST_READINGS]
        return [_verdict(one, readings) for one in sorted(found.parts, key=lambda one: one.part)]

    return judge


def _verdict(found: PartVerdict, readings: tuple[str, ...]) -> Verdict:
    missing = " ".join(found.missing.split())
    decision = DECIDED[found.covered]
    if len(readings) > 1 and decision != "unknown":
        decision = "clarify"
    judged = Judgement(
        decision=decision,
        confidence=CONFIDENCE[found.covered],
        reason=f"the model: {found.covered}{f', missing {missing}' if missing else ''}",
        missing=(missing,) if missing and decision == "partial" else (),
        readings=readings if decision == "clarify" else (),
    )
    return Verdict(judged, " ".join(found.query.split()) if decision in ("partial", "unknown") else "")


def together(parts: Sequence[Asked], judged: Sequence[Judgement], understood: Understanding) -> Judgement:
    """What is decided for the whole message: `partial` where some parts can be answered and others not.

    A message that can be read in several ways is asked back, whatever was found for one of them; one that is about
    nothing in the documents is not.
    """
    if len(judged) == 1 and len(understood.sub_questions) == 1:
        whole = judged[0]
    else:
        open_ = [part.understanding.rewrite for part, one in zip(parts, judged, strict=True) if _unanswered(one)]
        missing = (*open_, *(text for one in judged if not _unanswered(one) for text in one.missing))
        decision: Decision = "unknown" if len(open_) == len(parts) else "partial" if missing else "answer"
        whole = Judgement(
            decision=decision,
            confidence=fmean(one.confidence for one in judged),
            reason=f"{len(parts) - len(open_)} of {len(parts)} parts are covered",
            missing=missing if decision == "partial" else (),
        )
    if understood.readings and whole.decision in ("answer", "partial"):
        reason = f"it can be read in {len(understood.readings)} ways"
        return whole.model_copy(
            update={"decision": "clarify", "reason": reason, "readings": understood.readings, "missing": ()}
        )
    return whole


def _unanswered(judged: Judgement) -> bool:
    return judged.decision not in ("answer", "partial")
