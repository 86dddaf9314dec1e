"""Answer, ask back, or say that the documents do not hold the answer: the embedded form of the decide step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assistant.steps.clarify import unclear
from assistant.steps.evidence import calibration, confidence_of, signals_of
from assistant.steps.figures import missing_names, missing_numbers
from assistant.steps.support import stems
from assistant.types import Judgement, Understanding
from corpora.types import Message
from retrieval.types import Hit

if TYPE_CHECKING:
    from retrieval.given import Embed

ABOUT = 0.3
"""The confidence below which the documents are about something else, and asking back would help nobody."""
SURE = 0.85
"""The confidence from which a name that no hit has is of no account: it is spelt otherwise, or none of the question."""


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
    on MTRAG and MTRAG-UN (`assistant.steps.evidence`, docs/deciding.md). `partial` where that is less than sure and
    the message has a name or a number that no hit has: these are `missing`.

    Args:
        trusted: passages are enough to try, whatever the confidence.
        history: the turns before, oldest first.
        embed: unit vectors of texts; without it sentences are not compared, and the confidence is a little worse.
    """
    if understanding.kind == "conversational":
        return Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
    if not hits:
        return Judgement(decision="unknown", confidence=0.0, reason="nothing was found")
    asked = list(dict.fromkeys((message, understanding.rewrite)))
    signals = signals_of(asked, hits, embed)
    form = calibration().form(signals)
    confidence = confidence_of(form, signals)
    told = ", ".join(f"{name} {value:.2f}" for name, value in signals.items())
    if trusted:
        return Judgement(decision="answer", confidence=confidence, reason=f"given passages; {told}")
    open_ = unclear(message, history, hits, embed) if confidence >= ABOUT else None
    if open_:
        reason = f"nothing says which {open_.phrase}"
        return Judgement(decision="clarify", confidence=confidence, reason=reason, readings=open_.readings)
    if confidence < form.least:
        reason = f"confidence {confidence:.2f} is below {form.least:.2f} ({told})"
        return Judgement(decision="unknown", confidence=confidence, reason=reason)
    missing = lacking(message, history, hits) if confidence < SURE else ()
    return Judgement(
        decision="partial" if missing else "answer",
        confidence=confidence,
        reason=f"confidence {confidence:.2f} reaches {form.least:.2f} ({told})",
        missing=missing,
    )


def lacking(message: str, history: Sequence[Message], hits: Sequence[Hit]) -> tuple[str, ...]:
    """The names and numbers of a message, as it spells them, that neither the hits nor the turns before have."""
    there = [*(hit.passage.indexed_text for hit in hits), *(turn.content for turn in history)]
    names = missing_names(message, there)
    spelt = [word for word in re.findall(r"[\w'’-]+", message) if stems(word) and stems(word) <= names]
    return tuple(dict.fromkeys([*spelt, *sorted(missing_numbers(message, there))]))
