"""Checking what was written: citations exist, sentences rest on what they cite, parts are answered, steps are steps.

One repair at most. By rule: marks that point at nothing go, a sentence that cites the wrong passage is pointed to the
one that supports it, and of a model's answer what nothing supports goes, where something is left. With a language model
it judges claim by claim, in one call, and may rewrite what is wrong in another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps import parts as fitting
from turnmark.assistant.steps.claims import Claim, Sources, claims_of
from turnmark.assistant.steps.marks import MARK
from turnmark.assistant.steps.marks import cited as cited
from turnmark.assistant.steps.marks import unmarked as unmarked
from turnmark.assistant.steps.numbered import without
from turnmark.assistant.steps.operations import Piece, joined, pieces_of
from turnmark.assistant.types import GROUNDED, Checks, Decision, Draft, Step, SubQuestion, Understanding, Usage
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record
from turnmark.retrieval.types import Hit

if TYPE_CHECKING:
    from turnmark.assistant.steps.answer import Embed

Told = Callable[[Usage, str | None], None]
"""Takes down what a call cost, and a note for the person."""

BY_RULES = "verified by rules"
"""Begins a note that says why a model did not verify."""
BASELESS = "nothing of the answer is supported by the passages that it cites"


class Judged(Record):
    """What was found of a draft's claims: `claims_of` gives them, in this order."""

    supported: tuple[bool, ...]
    answered: tuple[bool, ...]
    """For each sub-question whether a supported sentence is about it."""

    @property
    def faults(self) -> int:
        """Claims without support and parts without an answer."""
        return self.supported.count(False) + self.answered.count(False)


def verify(
    draft: Draft,
    decision: Decision,
    understanding: Understanding,
    hits: Sequence[Hit],
    *,
    embed: Embed | None = None,
    generator: Generator | None = None,
    prompts: Path | None = None,
    answers: Sequence[str] = (),
    written: bool | None = None,
    told: Told = lambda usage, note: None,  # noqa: ARG005
) -> tuple[Draft, Checks, tuple[SubQuestion, ...]]:
    """Check a draft, repair it once where that can be done, and measure what is left.

    An answer of which nothing is supported is left as it is: it has `grounded` 0, and a note says so.

    Args:
        embed: embeds sentences (unit vectors); without it shared words decide.
        generator: judges claim by claim, and may rewrite; where that fails the embedded form does it, with a note.
        answers: what the draft says to each sub-question, where that is known; empty: it is found out.
        written: the draft was written by a language model, so that what nothing supports is taken out; None: as there
            is a generator. Sentences taken from the passages stay.
        told: takes down what calls cost, and notes.

    Returns:
        The draft to show, the checks, and for each sub-question whether the reply answers it.
    """
    asked = understanding.sub_questions
    if decision not in GROUNDED:
        return draft, Checks(), tuple(SubQuestion(text=part, answered=decision == "converse") for part in asked)
    by_rule = _Rules(asked, hits, embed, tuple(answers))
    draft, repaired = repair(draft, len(hits))
    draft, pointed = by_rule.pointed(draft)
    repaired |= pointed
    found = by_rule.judged(draft)
    if generator is not None:
        from turnmark.assistant.steps.verify_llm import ModelVerifier  # it uses what is defined here

        model = ModelVerifier(generator, asked, hits, prompts, told)
        found, places = model.judged(draft, found)
        draft, repaired = pointed_to(draft, places), repaired or bool(places)
        if found.faults and (better := model.rewritten(draft, found)):
            better, _ = by_rule.pointed(repair(better, len(hits))[0])
            if (after := by_rule.judged(better)).faults < found.faults and any(after.supported):
                draft, found, repaired = better, after, True
    if written if written is not None else generator is not None:
        draft, found, dropped = _dropped(draft, found)
        repaired |= dropped
    claims = claims_of(draft)
    if claims and not any(found.supported):
        told(Usage(), BASELESS)
    checks = Checks(
        grounded=sum(found.supported) / len(claims) if claims else None,
        citations_valid=all(claim.numbers for claim in claims),
        parts_answered=sum(found.answered) / len(asked),
        procedure_valid=procedure_valid(draft.procedure) if understanding.wants_procedure else None,
        repaired=repaired,
    )
    told_parts = zip(asked, found.answered, strict=True)
    return draft, checks, tuple(SubQuestion(text=part, answered=answered) for part, answered in told_parts)


def repair(draft: Draft, sources: int) -> tuple[Draft, bool]:
    """The draft without citations that point at nothing, marks in plain `[n]` form; and whether anything was wrong."""
    wrong = [n for n in cited(draft.text) if not 1 <= n <= sources]
    wrong += [n for step in draft.procedure for n in step.citations if not 1 <= n <= sources]

    def good(match: re.Match[str]) -> str:
        return "".join(f"[{n}]" for n in dict.fromkeys(cited(match.group())) if 1 <= n <= sources)

    text = re.sub(r" +(?=[.,;:!?]|$)", "", MARK.sub(good, draft.text), flags=re.MULTILINE)
    steps: dict[str, Step] = {}
    for step in draft.procedure:
        kept = tuple(n for n in step.citations if 1 <= n <= sources)
        steps.setdefault(" ".join(step.step.lower().split()), Step(step=step.step, citations=kept))
    doubled = len(steps) < len(draft.procedure)
    return Draft(text=text, procedure=tuple(steps.values())), bool(wrong) or doubled


def cite(draft: Draft, hits: Sequence[Hit], embed: Embed | None) -> Draft:
    """A draft whose claims each cite the passage that supports them best, where one does."""
    return _Rules((), hits, embed, ()).pointed(draft)[0]


class _Rules:
    """The embedded form: what it judges, and what it repairs by pointing a claim to the passage that supports it."""

    def __init__(self, asked: Sequence[str], hits: Sequence[Hit], embed: Embed | None, answers: Sequence[str]) -> None:
        self.asked, self.embed = tuple(asked), embed
        self.titles = [hit.passage.title for hit in hits]
        self.sources = Sources([hit.passage.indexed_text for hit in hits], embed, " ".join(asked))
        self.answers = answers if len(answers) == len(asked) > 1 and len(set(answers)) > 1 else ()

    def judged(self, draft: Draft) -> Judged:
        """What of the draft is supported, and which parts that answers."""
        claims = claims_of(draft)
        supported = tuple(self.sources.support(claim.text, claim.numbers) for claim in claims)
        good = [claim for claim, held in zip(claims, supported, strict=True) if held]
        return Judged(supported=supported, answered=self._answered(good))

    def _answered(self, good: Sequence[Claim]) -> tuple[bool, ...]:
        """For each part whether one of these supported claims is about it."""
        lines = [claim.text for claim in good]
        titles = [self.titles[claim.numbers[0] - 1] for claim in good]
        if not self.answers or not good:
            return tuple(map(bool, fitting.about(self.asked, lines, self.embed, titles)))
        said = [" ".join(strip_citations(answer).split()) for answer in self.answers]
        own = [[at for at, line in enumerate(lines) if " ".join(line.split()) in text] for text in said]
        return tuple(
            bool(fitting.apart(part, [lines[at] for at in places], self.embed, [titles[at] for at in places]))
            for part, places in zip(self.asked, own, strict=True)
        )

    def pointed(self, draft: Draft) -> tuple[Draft, bool]:
        """The draft with the citations of unsupported claims put right, where one passage supports the claim."""
        places: dict[int, tuple[int, ...]] = {}
        for at, claim in enumerate(claims_of(draft)):
            if not self.sources.support(claim.text, claim.numbers):
                n = self.sources.supporter(claim.text, claim.numbers)
                places |= {at: (n,)} if n is not None else {}
        return pointed_to(draft, places), bool(places)


def pointed_to(draft: Draft, places: Mapping[int, Sequence[int]]) -> Draft:
    """The draft with other citations for some of its claims, each behind its sentence.

    Args:
        places: place of the claim -> the passages that it shall cite.
    """
    if not places:
        return draft
    claims, pieces, steps = claims_of(draft), pieces_of(draft.text), list(draft.procedure)
    for at, numbers in places.items():
        piece, step = claims[at].piece, claims[at].step
        if step is not None:
            steps[step] = steps[step].model_copy(update={"citations": tuple(numbers)})
        elif piece is not None:
            marks = "".join(f"[{n}]" for n in numbers)
            pieces[piece] = Piece(pieces[piece].gap, f"{strip_citations(pieces[piece].text).rstrip()} {marks}")
            for behind in range(piece + 1, len(pieces)):
                if any(map(str.isalnum, strip_citations(pieces[behind].text))):
                    break
                pieces[behind] = Piece("", "")  # its old marks, on a line of their own
    return Draft(text=joined(pieces), procedure=tuple(steps))


def _dropped(draft: Draft, found: Judged) -> tuple[Draft, Judged, bool]:
    """The draft without the sentences that nothing supports, where others are left.

    Steps stay: a procedure that lacks one is worse than one with a doubtful step.
    """
    claims = claims_of(draft)
    gone = [at for at, held in enumerate(found.supported) if not held and claims[at].piece is not None]
    if not gone or not any(found.supported):
        return draft, found, False
    text = joined(without(pieces_of(draft.text), [piece for at in gone if (piece := claims[at].piece) is not None]))
    left = tuple(held for at, held in enumerate(found.supported) if at not in gone)
    return Draft(text=text, procedure=draft.procedure), found.model_copy(update={"supported": left}), True


def procedure_valid(steps: Sequence[Step]) -> bool:
    """A procedure has at least two different steps, each cited, none empty, none a list of its own."""
    texts = [" ".join(step.step.lower().split()).rstrip(" .!") for step in steps]
    flat = all(text and "\n" not in step.step.strip() for text, step in zip(texts, steps, strict=True))
    return len(texts) >= 2 and len(set(texts)) == len(texts) and flat and all(step.citations for step in steps)
