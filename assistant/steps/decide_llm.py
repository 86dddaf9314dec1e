"""Judging the evidence with a language model: one structured call for all parts of a round."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from turnmark.assistant.budget import INSTRUCTIONS, fit
from turnmark.assistant.generators.schema import at_most, bounded
from turnmark.assistant.prompts import fence_tag, load_prompt
from turnmark.assistant.steps.decide import Embedded
from turnmark.assistant.steps.llm import numbered, one_a_line, passage_texts, turns
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Part, Turn
from turnmark.assistant.types import Decision, Judgement

MOST_READINGS = 12
CONFIDENCE = {"yes": 5 / 6, "partly": 0.5, "no": 1 / 6}
"""The confidence of a verdict by a model: the middle of each third."""
DECIDED: dict[str, Decision] = {"yes": "answer", "partly": "partial", "no": "unknown"}


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


class Judging:
    """Judges by a model; as `Embedded` does where nothing usable comes, or the evidence is trusted."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        parts = turn.pending
        hits = list({hit.passage.id: hit for part in parts for hit in part.hits}.values())
        if turn.trusted or not hits:
            return Embedded()(turn)
        questions = [part.understanding.rewrite for part in parts]
        room = turn.model.context_tokens - INSTRUCTIONS - 3 * STRUCTURED_TOKENS
        fitted = fit(parts[0].history, hits, "\n".join(questions), room)
        texts = passage_texts(fitted.hits)
        tag = fence_tag(*questions, *texts, *(message.content for message in fitted.history))
        prompt = load_prompt("decide", turn.prompts).render(
            tag=tag,
            passages=numbered(texts, tag),
            history=turns(fitted.history, tag),
            parts=one_a_line(questions),
        )
        reply, usage = ask(turn.model, prompt, bounded(DecideReply, len(parts)))
        if isinstance(reply, Failure) or sorted(row.part for row in reply.parts) != list(range(1, len(parts) + 1)):
            why = f"{reply.kind}: {reply.reason}" if isinstance(reply, Failure) else "it did not judge every part once"
            turn.use("decide", usage, f"decided without the model: it gave nothing usable ({why})")
            turn.forms["decide"] = "embedded"
            return Embedded()(turn)
        turn.use("decide", usage)
        readings = tuple(dict.fromkeys(text.strip() for text in reply.readings if text.strip()))[:MOST_READINGS]
        for part, verdict in zip(parts, sorted(reply.parts, key=lambda row: row.part), strict=True):
            _judge(part, verdict, readings)
        return None


def _judge(part: Part, verdict: PartVerdict, readings: tuple[str, ...]) -> None:
    missing = " ".join(verdict.missing.split())
    decision = DECIDED[verdict.covered]
    if len(readings) > 1 and decision != "unknown":
        decision = "clarify"
    part.judgement = Judgement(
        decision=decision,
        confidence=CONFIDENCE[verdict.covered],
        reason=f"the model: {verdict.covered}{f', missing {missing}' if missing else ''}",
        missing=(missing,) if missing and decision == "partial" else (),
        readings=readings if decision == "clarify" else (),
    )
    part.narrower = " ".join(verdict.query.split()) if decision in ("partial", "unknown") else ""
