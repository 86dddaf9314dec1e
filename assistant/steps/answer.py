"""The answer step without a language model, and what all its forms share: each part answered from its own evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.clarify import clarification
from turnmark.assistant.steps.courtesy import is_greeting
from turnmark.assistant.steps.extract import ended, extract
from turnmark.assistant.turn import UNKNOWN_TEXT, Part, Turn
from turnmark.assistant.types import GROUNDED, Checks, Draft, Judgement, Step, SubQuestion
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.retrieval.given import Embed

_AFTER_CITATION = re.compile(r"(?<=\])\s+(?!\[)")
_MARK = re.compile(r"\[(\d{1,3})\]")
UNSURE = "I am not sure; the nearest I found:"
"""Stands before an answer that may not be one."""
LONGEST_QUOTE = 120
"""Characters of a question that is quoted because it has no answer."""


class Courtesy:
    """The reply to a courtesy: nothing is searched for."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        judgement = Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
        turn.hits.extend(turn.evidence or ())
        turn.tell_hits()
        turn.tell("decide", f"converse: {judgement.reason}", confidence=1.0)
        greets = is_greeting(turn.message) or not words(turn.message)
        hello, welcome = "Hello! Ask me anything about your documents.", "You're welcome. Ask on whenever you like."
        draft = Draft(text=hello if greets else welcome)
        turn.stream(draft.text)
        parts = [SubQuestion(text=text, answered=True) for text in turn.understanding.sub_questions]
        turn.settle(draft, judgement, Checks(), parts)


class Extractive:
    """The documents' own sentences."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        turn.write(without_answer(turn) or extracted(turn.group, turn.embed, len(turn.parts)))


def without_answer(turn: Turn) -> Draft | None:
    """The draft where it was decided not to answer: it is not known, or asked back; None where it was."""
    decision = turn.judgement.decision
    if decision == "unknown":
        return nothing(turn.group)
    if decision == "clarify":
        draft = clarification(turn.judgement, turn.understanding, turn.hits)
        return draft.model_copy(update={"answers": (draft.text,) * len(turn.group)})
    return None


def extracted(parts: Sequence[Part], embed: Embed | None, count: int = 1) -> Draft:
    """The extractive answer to each part that can be answered, as paragraphs; what cannot be is named in its place.

    A sentence that answers two parts is said once.

    Args:
        count: of the parts of the whole message, of which these may be some.
    """
    drafts = [_extract(part, embed, max(count, len(parts))) for part in parts]
    answers = tuple(_with_steps(draft) if draft else "" for draft in drafts)
    if not any(answers):
        return nothing(parts)
    steps = tuple(step for draft in drafts if draft for step in draft.procedure)
    if len(parts) == 1 and drafts[0]:
        text = "\n\n".join(filter(None, (drafts[0].text, _missing(parts[0]))))
        return Draft(text=text, procedure=steps, answers=answers)
    stated: set[str] = set()
    paragraphs: list[str] = []
    for part, draft in zip(parts, drafts, strict=True):
        pieces = list(dict.fromkeys(_AFTER_CITATION.split(draft.text))) if draft else [not_found(part.text)]
        if draft and (missing := _missing(part)):
            pieces.append(missing)
        fresh = [piece for piece in pieces if piece not in stated]
        stated.update(fresh)
        paragraphs.append(" ".join(fresh))
    return Draft(text="\n\n".join(filter(None, paragraphs)), procedure=steps, answers=answers)


def nothing(parts: Sequence[Part]) -> Draft:
    """What is said where no part can be answered."""
    text = UNKNOWN_TEXT if len(parts) == 1 else "\n\n".join(not_found(part.text) for part in parts)
    return Draft(text=text, answers=("",) * len(parts))


def _with_steps(draft: Draft) -> str:
    """A draft as one text."""
    steps = (ended(step.step) + "".join(f" [{n}]" for n in step.citations) for step in draft.procedure)
    return " ".join(filter(None, (draft.text, *steps)))


def not_found(part: str) -> str:
    """What is said in the place of a part that the documents do not answer.

    It quotes the part's last sentence, the question, as one phrase: what stands in it is no claim.
    """
    bare = strip_citations(part)
    last = [" ".join(bare[start:end].split()) for start, end in sentences(bare)][-1:] or [""]
    phrase = last[0].rstrip(" .!?…。！？")
    short = phrase if len(phrase) <= LONGEST_QUOTE else phrase[:LONGEST_QUOTE].rstrip() + " …"
    return f"I don't know the answer to “{short}”: the documents do not say."


def _missing(part: Part) -> str:
    """A sentence on what of a part the documents do not say; "" where they say all of it."""
    judged = part.judgement
    if judged.decision != "partial" or not judged.missing:
        return ""
    return f"The documents do not say: {', '.join(strip_citations(term) for term in judged.missing)}."


def _extract(part: Part, embed: Embed | None, count: int) -> Draft | None:
    """The extractive answer to one part, its marks being the numbers of the reply's sources."""
    if part.judgement.decision not in GROUNDED:
        return None
    draft = extract(part.understanding, part.text, part.hits, embed, count)
    if draft and not part.judgement.sure:
        draft = draft.model_copy(update={"text": f"{UNSURE} {draft.text}"})
    if draft is None or part.numbers == tuple(range(1, len(part.numbers) + 1)):
        return draft
    renumbered = tuple(
        Step(step=step.step, citations=tuple(part.numbers[n - 1] for n in step.citations)) for step in draft.procedure
    )
    text = _MARK.sub(lambda mark: f"[{part.numbers[int(mark[1]) - 1]}]", draft.text)
    return Draft(text=text, procedure=renumbered)


def paragraphs_of(text: str, count: int) -> tuple[str, ...]:
    """A text's paragraphs, where it has as many as there are parts to answer; else none."""
    paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    return tuple(paragraphs) if len(paragraphs) == count else ()
