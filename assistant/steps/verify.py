"""The verify step: marks that point at nothing go; what no passage supports is marked, never cut and never replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.marks import CODE, MARK, cited_numbers, pieces_of, says_unknown
from turnmark.assistant.steps.support import Sources, about, claims_of
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import GROUNDED, Checks, Draft, ProcedureStep, SubQuestion
from turnmark.corpora.text import strip_citations
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

_SPACED_MARK = re.compile(rf"(?P<before>[ \t]*){MARK.pattern}(?P<after>(?:[ \t]+(?=[.,;:!?]+(?:\s|$)))?)")


class Verify:
    """Checks by shared words, numbers, names and embeddings."""

    name = "verify"

    def __call__(self, turn: Turn) -> None:
        draft, repaired = drop_dead_marks(turn.draft, len(turn.hits))
        questions = turn.understanding.sub_questions
        if turn.judgement.decision not in GROUNDED:
            answered = turn.judgement.decision == "converse"
            turn.settle(draft, Checks(), [SubQuestion(text=text, answered=answered) for text in questions])
            return
        checks = check_claims(draft, turn.hits, " ".join((turn.message, *questions)), turn.embed)
        answers = draft.answers if len(draft.answers) == len(questions) else ()
        if turn.understanding.kind == "revision":
            parts = [SubQuestion(text=text, answered=True) for text in questions]
        else:
            parts = judge_parts(questions, answers, draft.text, turn.embed)
        update = {
            "parts_answered": sum(part.answered for part in parts) / len(parts),
            "procedure_valid": procedure_valid(draft.procedure) if turn.understanding.wants_procedure else None,
            "repaired": repaired,
        }
        turn.settle(draft, checks.model_copy(update=update), parts)


def drop_dead_marks(draft: Draft, sources: int) -> tuple[Draft, bool]:
    """The draft without marks that point at nothing; and whether there were any."""
    repaired = False

    def good(match: re.Match[str]) -> str:
        nonlocal repaired
        numbers = cited_numbers(match.group())
        if all(1 <= n <= sources for n in numbers):
            return match.group()
        repaired = True
        valid = "".join(f"[{n}]" for n in dict.fromkeys(numbers) if 1 <= n <= sources)
        return f"{match['before']}{valid}{match['after']}" if valid else ""

    pieces = enumerate(CODE.split(draft.text))
    text = "".join(piece if at % 2 else _SPACED_MARK.sub(good, piece) for at, piece in pieces)
    steps = tuple(
        step.model_copy(update={"citations": tuple(n for n in step.citations if 1 <= n <= sources)})
        for step in draft.procedure
    )
    return draft.model_copy(update={"text": text, "procedure": steps}), repaired


def check_claims(draft: Draft, hits: Sequence[Hit], question: str, embed: Embed | None) -> Checks:
    """What of an answer is supported by the passages that it cites; and what no passage supports.

    A claim without a mark may rest on any of them.

    Args:
        question: an answer names what the question names, whether or not its passage does.
    """
    if draft.claims == "":
        return Checks(grounded=1.0)
    claims = claims_of(draft.text if draft.claims is None else draft.claims)
    sources = Sources([hit.passage.indexed_text for hit in hits], embed, question)
    everything = range(1, len(hits) + 1)
    rests = [sources.support(claim.text, claim.numbers or everything) for claim in claims]
    baseless = [claim for claim, holds in zip(claims, rests, strict=True) if not holds]
    return Checks(
        grounded=sum(rests) / len(claims) if claims else None,
        unsupported=tuple(claim.text for claim in baseless if not sources.support(claim.text, everything)),
        citations_valid=draft.claims is not None or all(claim.numbers for claim in claims),
    )


def judge_parts(questions: Sequence[str], answers: Sequence[str], text: str, embed: Embed | None) -> list[SubQuestion]:
    """For each part whether the reply answers it.

    Args:
        answers: what is said to each part, if that is known; else the sentences about it are looked for in `text`.
    """
    if answers:
        return [
            SubQuestion(text=part, answered=bool(answer), answer=strip_citations(answer))
            for part, answer in zip(questions, answers, strict=True)
        ]
    claims = claims_of(text)
    if len(questions) == 1:
        return [SubQuestion(text=questions[0], answered=bool(claims) or not says_unknown(text))]
    lines = [claim.text for claim in claims]
    complete = not any(says_unknown(piece.text) for piece in pieces_of(text))  # it says if a part is not known
    return [
        SubQuestion(text=part, answered=complete or bool(found), answer=" ".join(lines[at] for at in found))
        for part, found in zip(questions, about(questions, lines, embed), strict=True)
    ]


def procedure_valid(steps: Sequence[ProcedureStep]) -> bool:
    """A procedure has at least two different steps, each cited, none empty, none itself a list."""
    texts = [" ".join(step.step.lower().split()).rstrip(" .!") for step in steps]
    flat = all(text and "\n" not in step.step.strip() for text, step in zip(texts, steps, strict=True))
    return len(texts) >= 2 and len(set(texts)) == len(texts) and flat and all(step.citations for step in steps)
