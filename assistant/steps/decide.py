"""The decide step: answer, ask back, or say that the documents do not hold the answer; by scores and words, or by one
structured call of a language model for all parts of a round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from turnmark.assistant.budget import INSTRUCTIONS, fit
from turnmark.assistant.generators.schema import at_most, bounded
from turnmark.assistant.prompts import fence_tag, load_prompt
from turnmark.assistant.steps.answer_type import COUNTS_SOMETHING_ELSE, holds
from turnmark.assistant.steps.clarify import unclear
from turnmark.assistant.steps.evidence import COSINE, calibration, confidence_of, signals_of
from turnmark.assistant.steps.llm import numbered, one_a_line, passage_texts, turns
from turnmark.assistant.steps.select import asked_type
from turnmark.assistant.steps.support import missing_names, missing_numbers, stems
from turnmark.assistant.steps.units import units_of
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Part, Turn
from turnmark.assistant.types import Decision, Judgement, Understanding
from turnmark.corpora.text import content_words
from turnmark.corpora.types import Message
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

UNSURE = 0.135
"""How far below `Form.least` a confidence may lie for the nearest to be given, and said to be unsure; .6 with all
signals.
Shared words alone (no cosines) tell too little for that."""
ABOUT = 0.3
"""The confidence below which the documents are about something else, and asking back would help nobody."""
SURE = 0.85
"""The confidence from which a name that no hit has is of no account: it is spelt otherwise, or none of the question."""


class Extractive:
    """Judges the evidence of each part by its scores and words."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        if turn.trusted:
            turn.forms["decide"] = "extractive"
        for part in turn.pending:
            part.judgement = decide(
                part.understanding, part.text, part.hits, turn.trusted, history=part.history, embed=turn.embed
            )
            thin = turn.round < turn.last_round and part.judgement.decision in ("unknown", "partial")
            part.narrower = narrower(part) if thin else ""


def narrower(part: Part) -> str:
    """The words of a part that its evidence lacks, before its other words of content; "" where it lacks none, or all.

    Where it lacks all, the documents are about something else, and so would be whatever is found next.
    """
    terms = content_words(part.understanding.rewrite)
    present = {stem for hit in part.hits for stem in stems(hit.passage.indexed_text)}
    lacking_terms = [word for word in terms if stems(word) and not stems(word) <= present]
    if not lacking_terms or len(lacking_terms) == len(terms):
        return ""
    return " ".join(dict.fromkeys([*lacking_terms, *terms]))


def decide(
    understanding: Understanding,
    message: str,
    hits: Sequence[Hit],
    trusted: bool = False,
    *,
    history: Sequence[Message] = (),
    embed: Embed | None = None,
) -> Judgement:
    """`converse`, `unknown`, `clarify`, `partial` or `answer`.

    The confidence is how likely the documents answer the question, were 12% of such questions unanswerable: calibrated
    on MTRAG and MTRAG-UN (`turnmark.assistant.steps.evidence`, docs/measured.md). `partial` where that is less than
    sure: what is nearest is given as such; and where the message has a name or a number that no hit has: these are
        `missing`. A
    question for a number (how many, how long, how much) is not answered by passages without one.

    Args:
        trusted: passages are enough to try, whatever the confidence.
        history: the turns before, oldest first.
        embed: unit vectors of texts; without it sentences are not compared, and the confidence is a little worse.
    """
    if understanding.kind == "conversational":
        return Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
    if not hits:
        return Judgement(decision="unknown", confidence=0.0, reason="nothing was found")
    questions = list(dict.fromkeys((message, understanding.rewrite)))
    signals = signals_of(questions, hits, embed)
    form = calibration().form(signals)
    confidence = confidence_of(form, signals)
    figures = ", ".join(f"{name} {value:.2f}" for name, value in signals.items())
    if trusted:
        return Judgement(decision="answer", confidence=confidence, reason=f"given passages; {figures}")
    open_ = unclear(message, history, hits, embed) if confidence >= ABOUT else None
    if open_:
        reason = f"nothing says which {open_.phrase}"
        return Judgement(decision="clarify", confidence=confidence, reason=reason, readings=open_.readings)
    sure = confidence >= form.least
    missing = lacking(message, history, hits) if confidence < SURE else ()
    if not sure and (missing or COSINE not in signals or confidence < form.least - UNSURE):
        reason = f"confidence {confidence:.2f} is below {form.least:.2f} ({figures})"
        return Judgement(decision="unknown", confidence=confidence, reason=reason)
    if lacks_quantity(questions, hits):
        reason = "a number is asked for, and no sentence found has one for it"
        return Judgement(decision="unknown", confidence=min(confidence, form.least - UNSURE), reason=reason)
    return Judgement(
        decision="answer" if sure and not missing else "partial",
        confidence=confidence,
        reason=f"confidence {confidence:.2f} {'reaches' if sure else 'is below'} {form.least:.2f} ({figures})",
        missing=missing,
        sure=sure,
    )


def lacks_quantity(questions: Sequence[str], hits: Sequence[Hit]) -> bool:
    """Whether a number is asked for that no sentence of the hits has: of what is counted, or with a fitting unit."""
    expected = asked_type(questions)
    if not expected.quantity:
        return False
    return not any(holds(expected, unit.text) > COUNTS_SOMETHING_ELSE for unit in units_of(hits))


def lacking(message: str, history: Sequence[Message], hits: Sequence[Hit]) -> tuple[str, ...]:
    """The names and numbers of a message, as it spells them, that neither the hits nor the turns before have."""
    texts = [*(hit.passage.indexed_text for hit in hits), *(turn.content for turn in history)]
    names = missing_names(message, texts)
    spelt = [word for word in re.findall(r"[\w'’-]+", message) if stems(word) and stems(word) <= names]
    return tuple(dict.fromkeys([*spelt, *sorted(missing_numbers(message, texts))]))


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
    """Judges by a model; as `Extractive` does where nothing usable comes, or the evidence is trusted."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        parts = turn.pending
        hits = list({hit.passage.id: hit for part in parts for hit in part.hits}.values())
        if turn.trusted or not hits:
            return Extractive()(turn)
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
            reason = (
                f"{reply.kind}: {reply.reason}" if isinstance(reply, Failure) else "it did not judge every part once"
            )
            turn.use("decide", usage, f"decided without the model: it gave nothing usable ({reason})")
            turn.forms["decide"] = "extractive"
            return Extractive()(turn)
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
