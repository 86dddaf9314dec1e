"""From the evidence of the parts to one reply: each part answered from its own, in the order asked, none left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from turnmark.assistant.steps.answer import UNKNOWN_TEXT, Embed, ended, extract
from turnmark.assistant.steps.retrieve import Evidence
from turnmark.assistant.types import GROUNDED, Draft, Judgement, Step
from turnmark.corpora.text import sentences, strip_citations
from turnmark.corpora.types import Record

_CITED = re.compile(r"(?<=\])\s+(?!\[)")
_MARK = re.compile(r"\[(\d{1,3})\]")
UNSURE = "I am not sure; the nearest I found:"
"""Stands before an answer that may not be one."""
LONGEST_QUOTE = 120
"""Characters of a question that is quoted because it has no answer."""


class Composed(Record):
    """An answer to some parts: the draft, and what it says to each, steps included ("" where it does not know)."""

    draft: Draft
    answers: tuple[str, ...]
    apart: bool = Field(default=True, description="False: what is said to which part is not known; each has the whole")

    @property
    def unknown(self) -> bool:
        """Whether it answers none of them."""
        return not any(self.answers)


def extracted(evidence: Sequence[Evidence], embed: Embed | None, parts: int = 1) -> Composed:
    """The extractive answer to each part that can be answered, as paragraphs; what cannot be is named in its place.

    A sentence that answers two parts is said once.

    Args:
        parts: of the whole message, of which these may be some.
    """
    drafts = [_draft(one, embed, max(parts, len(evidence))) for one in evidence]
    answers = tuple(_whole(draft) if draft else "" for draft in drafts)
    if not any(answers):
        return Composed(draft=nothing(evidence), answers=answers)
    steps = tuple(step for draft in drafts if draft for step in draft.procedure)
    if len(evidence) == 1 and drafts[0]:
        text = _with_missing(drafts[0].text, evidence)
        return Composed(draft=Draft(text=text, procedure=steps), answers=answers)
    said: set[str] = set()
    paragraphs: list[str] = []
    for one, draft in zip(evidence, drafts, strict=True):
        own = list(dict.fromkeys(_CITED.split(draft.text))) if draft else [not_found(one.asked.text)]
        if draft and (missing := _missing(one)):
            own.append(missing)
        new = [sentence for sentence in own if sentence not in said]
        said.update(new)
        paragraphs.append(" ".join(new))
    text = "\n\n".join(filter(None, paragraphs))
    return Composed(draft=Draft(text=text, procedure=steps), answers=answers)


def nothing(evidence: Sequence[Evidence]) -> Draft:
    """What is said where no part can be answered."""
    if len(evidence) == 1:
        return Draft(text=UNKNOWN_TEXT)
    return Draft(text="\n\n".join(not_found(one.asked.text) for one in evidence))


def _whole(draft: Draft) -> str:
    """A draft as one text."""
    steps = (ended(step.step) + "".join(f" [{n}]" for n in step.citations) for step in draft.procedure)
    return " ".join(filter(None, (draft.text, *steps)))


def with_lead(draft: Draft) -> Draft:
    """A draft of nothing but steps with a sentence before them: an answer is never without text."""
    if draft.text.strip() or not draft.procedure:
        return draft
    marks = "".join(f" [{n}]" for n in draft.procedure[0].citations[:1])
    return draft.model_copy(update={"text": f"These are the steps.{marks}"})


def not_found(part: str) -> str:
    """What is said in the place of a part that the documents do not answer.

    It quotes the part's last sentence, the question, as one phrase: what stands in it is no claim.
    """
    said = strip_citations(part)
    asked = [" ".join(said[start:end].split()) for start, end in sentences(said)] or [""]
    phrase = asked[-1].rstrip(" .!?…。！？")
    short = phrase if len(phrase) <= LONGEST_QUOTE else phrase[:LONGEST_QUOTE].rstrip() + " …"
    return f"I don't know the answer to “{short}”: the documents do not say."


def _with_missing(text: str, evidence: Sequence[Evidence]) -> str:
    """The answer to a single question, and what of it the documents do not say."""
    missing = _missing(evidence[0])
    return f"{text}\n\n{missing}" if missing else text


def _missing(found: Evidence) -> str:
    """A sentence on what of a part the documents do not say; "" where they say all of it."""
    judged = found.judgement
    if judged.decision != "partial" or not judged.missing:
        return ""
    return f"The documents do not say: {', '.join(strip_citations(term) for term in judged.missing)}."


def left_of(answer: str, draft: Draft) -> str:
    """What of an answer still stands in a draft that was checked, without marks."""
    kept = " ".join(strip_citations(" ".join([draft.text, *(step.step for step in draft.procedure)])).split())
    said = " ".join(strip_citations(answer).split())
    pieces = (said[start:end] for start, end in sentences(said))
    return " ".join(piece for piece in pieces if piece.strip().rstrip(".!?") in kept)


def _draft(found: Evidence, embed: Embed | None, parts: int) -> Draft | None:
    """The extractive answer to one part, its marks being the numbers of the reply's sources."""
    if found.judgement.decision not in GROUNDED:
        return None
    draft = extract(found.asked.understanding, found.asked.text, found.hits, embed, parts)
    if draft and not found.judgement.sure:
        draft = draft.model_copy(update={"text": f"{UNSURE} {draft.text}"})
    if draft is None or found.numbers == tuple(range(1, len(found.numbers) + 1)):
        return draft
    renumbered = tuple(
        Step(step=step.step, citations=tuple(found.numbers[n - 1] for n in step.citations)) for step in draft.procedure
    )
    text = _MARK.sub(lambda mark: f"[{found.numbers[int(mark[1]) - 1]}]", draft.text)
    return Draft(text=text, procedure=renumbered)


def paragraphs_of(text: str, parts: int) -> tuple[str, ...]:
    """A text's paragraphs, where it has as many as there are parts to answer; else none."""
    found = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    return tuple(found) if len(found) == parts else ()


def after(first: Composed | None, second: Composed) -> Composed:
    """Two answers as one, in their order."""
    if first is None:
        return second
    texts = [part.draft.text for part in (first, second) if part.draft.text]
    procedure = (*first.draft.procedure, *second.draft.procedure)
    return Composed(
        draft=Draft(text="\n\n".join(texts), procedure=procedure),
        answers=first.answers + second.answers,
        apart=first.apart and second.apart,
    )


def settled(judged: Judgement, composed: Composed) -> tuple[Judgement, Draft]:
    """What was decided in the light of what came of it, and the draft: an answer that knows nothing is no answer."""
    if composed.unknown:
        # Many ways of not knowing are one.
        draft = composed.draft if len(composed.answers) == 1 else Draft(text=UNKNOWN_TEXT)
        if judged.decision not in GROUNDED:
            return judged, draft
        return judged.model_copy(update={"decision": "unknown", "reason": "the passages hold no answer"}), draft
    if judged.decision == "answer" and not all(composed.answers):
        judged = judged.model_copy(update={"decision": "partial", "reason": "a part of it found no answer"})
    return judged, composed.draft
