"""Checking what was written: citations exist, sentences rest on what they cite, steps are steps. One repair at most."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assistant.steps.support import supported
from assistant.types import GROUNDED, Checks, Decision, Draft, Step, SubQuestion, Understanding
from corpora.text import sentences, strip_citations
from retrieval.types import Hit

# A sentence counts as grounded when this share of its content words stands in the passages it cites.
LEAST_SUPPORT = 0.5

_MARK = re.compile(r"\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]")


def cited(text: str) -> list[int]:
    """The numbers of all citation marks of a text, in order: `[1]`, `[1, 2]` and `[2-4]`."""
    numbers: list[int] = []
    for match in _MARK.finditer(text):
        for part in match.group(1).split(","):
            first, _, last = part.replace("–", "-").partition("-")
            begin, end = int(first), int(last or first)
            numbers += range(begin, end + 1) if begin <= end <= begin + 50 else [begin, end]
    return numbers


def unmarked(text: str) -> str:
    """A passage's text with its own `[2]` written `(2)`, so that a model cannot take it for one of our citations."""
    return _MARK.sub(r"(\1)", text)


def repair(draft: Draft, sources: int) -> tuple[Draft, bool]:
    """The draft without citations that point at nothing, marks in plain `[n]` form; and whether anything was wrong."""
    wrong = [n for n in cited(draft.text) if not 1 <= n <= sources]
    wrong += [n for step in draft.procedure for n in step.citations if not 1 <= n <= sources]

    def good(match: re.Match[str]) -> str:
        return "".join(f"[{n}]" for n in dict.fromkeys(cited(match.group())) if 1 <= n <= sources)

    text = re.sub(r" +(?=[.,;:!?]|$)", "", _MARK.sub(good, draft.text), flags=re.MULTILINE)
    steps: dict[str, Step] = {}
    for step in draft.procedure:
        kept = tuple(n for n in step.citations if 1 <= n <= sources)
        steps.setdefault(" ".join(step.step.lower().split()), Step(step=step.step, citations=kept))
    doubled = len(steps) < len(draft.procedure)
    return Draft(text=text, procedure=tuple(steps.values())), bool(wrong) or doubled


def verify(
    draft: Draft, decision: Decision, understanding: Understanding, hits: Sequence[Hit]
) -> tuple[Draft, Checks, tuple[SubQuestion, ...]]:
    """Repair what can be repaired by rule, then measure what is left.

    Returns:
        The draft to show, the checks, and for each sub-question whether the reply answers it.
    """
    parts = understanding.sub_questions
    if decision not in GROUNDED:
        return draft, Checks(), tuple(SubQuestion(text=part, answered=decision == "converse") for part in parts)
    draft, repaired = repair(draft, len(hits))
    claims = _claims(draft)
    sources = [hit.passage.indexed_text for hit in hits]
    good = sum(
        bool(numbers) and supported(text, [sources[n - 1] for n in numbers], LEAST_SUPPORT) for text, numbers in claims
    )
    answered = tuple(SubQuestion(text=part, answered=good > 0) for part in parts)
    checks = Checks(
        grounded=good / len(claims) if claims else None,
        citations_valid=all(numbers for _, numbers in claims),
        parts_answered=sum(part.answered for part in answered) / len(answered),
        procedure_valid=procedure_valid(draft.procedure) if understanding.wants_procedure else None,
        repaired=repaired,
    )
    return draft, checks, answered


def procedure_valid(steps: Sequence[Step]) -> bool:
    """A procedure has at least two different steps, each cited, none empty, none a list of its own."""
    texts = [step.step.strip() for step in steps]
    flat = all(text and "\n" not in text for text in texts)
    return len(texts) >= 2 and len(set(texts)) == len(texts) and flat and all(step.citations for step in steps)


def _claims(draft: Draft) -> list[tuple[str, list[int]]]:
    """Every sentence and step with the citations that stand in it or directly after it."""
    claims: list[tuple[str, list[int]]] = []
    for start, end in sentences(draft.text):
        raw = draft.text[start:end]
        bare, numbers = strip_citations(raw).strip(), cited(raw)
        if any(char.isalnum() for char in bare):
            # "Sentence. [1] Next sentence." puts a mark at the head of what follows: it belongs to the one before.
            lead = re.match(r"^(?:\s*\[[\d,\s–-]+\])+", raw)
            if lead and claims and not claims[-1][1]:
                claims[-1][1].extend(cited(lead.group()))
                numbers = cited(raw[lead.end() :])
            claims.append((bare, numbers))
        elif claims:
            claims[-1][1].extend(numbers)
    return claims + [(step.step, list(step.citations)) for step in draft.procedure]
