"""The verify step: citations exist, sentences rest on what they cite, parts are answered, steps are steps.

One repair at most. By rule: marks that point at nothing go, a sentence that cites the wrong passage is pointed to the
one that supports it, and of a model's answer what nothing supports goes, where something is left. With a language model
it judges claim by claim, in one call, and may rewrite what is wrong in another (`turnmark.assistant.steps.verify_llm`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from turnmark.assistant.steps.answer import extracted
from turnmark.assistant.steps.answer_parts import completed
from turnmark.assistant.steps.marks import MARK, cited, says_unknown
from turnmark.assistant.steps.operations import Piece, joined, pieces_of, without
from turnmark.assistant.steps.support import Claim, Sources, about, about_one, claims_of
from turnmark.assistant.turn import UNKNOWN_TEXT, Turn
from turnmark.assistant.types import GROUNDED, Checks, Decision, Draft, Step, SubQuestion, Understanding, Usage
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

BASELESS = "nothing of the answer is supported by the passages that it cites"
Checked = tuple[Draft, Checks, tuple[SubQuestion, ...]]


class Support(Record):
    """What was found of a draft's claims: `claims_of` gives them, in this order."""

    supported: tuple[bool, ...]
    answered: tuple[bool, ...]
    """For each sub-question whether a supported sentence is about it."""

    @property
    def faults(self) -> int:
        """Claims without support and parts without an answer."""
        return self.supported.count(False) + self.answered.count(False)


class Verifier(Protocol):
    """Judges claims in the place of rules, and may mend a draft: a language model."""

    def judged(self, draft: Draft, otherwise: Support) -> tuple[Support, Mapping[int, tuple[int, ...]]]: ...

    def rewritten(self, draft: Draft, support: Support) -> Draft | None: ...


class Verify:
    """By rules: shared words, numbers, names and embeddings."""

    name = "verify"

    def __call__(self, turn: Turn) -> None:
        _settle_decision(turn)
        if not turn.streamed:
            turn.stream(turn.draft.whole)
        checked = self._mended(turn)
        if turn.forms["answer"] != "extractive" and turn.judgement.decision in GROUNDED:
            checked = self._standing(turn, checked)
        turn.settle(checked[0], turn.judgement, checked[1], checked[2])

    def verifier(self, turn: Turn) -> Verifier | None:  # noqa: ARG002
        """What judges claims in the place of rules."""
        return None

    def _check(self, turn: Turn, draft: Draft, answers: Draft) -> Checked:
        """A draft as it was checked, with what is left of the answers to each part."""
        answers_known = answers.answers if len(answers.answers) > 1 and answers.apart else ()
        return verify(
            draft, turn.judgement.decision, turn.understanding, turn.hits, embed=turn.embed,
            verifier=self.verifier(turn), answers=[strip_citations(answer) for answer in answers_known],
            written=turn.forms["answer"] != "extractive", note=lambda note: turn.use("verify", Usage(), note),
        )  # fmt: skip

    def _mended(self, turn: Turn) -> Checked:
        """The draft as it was checked; a part that a model left out is asked for again, once."""
        original = turn.draft
        checked = self._check(turn, original, original)
        draft, checks, parts = checked
        omitted = [
            place
            for place, (reply, part) in enumerate(zip(parts, turn.parts, strict=False))
            if not reply.answered and part.judgement.decision in GROUNDED and not says_unknown(original.answers[place])
        ]
        if not original.at_once or checks.repaired or not 0 < len(omitted) < len(parts):
            return _with_answers(checked, original)
        completed_draft = completed(turn, draft, original, omitted)
        if completed_draft is None:
            return _with_answers(checked, original)
        checked_again = self._check(turn, completed_draft, completed_draft)
        if sum(reply.answered for reply in checked_again[2]) <= sum(reply.answered for reply in parts):
            return _with_answers(checked, original)
        draft, checks, parts = checked_again
        return _with_answers((draft, checks.model_copy(update={"repaired": True}), parts), completed_draft)

    def _standing(self, turn: Turn, checked: Checked) -> Checked:
        """What takes the place of a model's answer that rests on nothing, or is the last one again.

        The documents' own sentences; where these answer nothing either, `partial` says so, and where there are none it
        is not known.
        """
        draft, checks, _ = checked
        repeated = repeats(draft, turn.history, turn.message)
        if not repeated and not _fails(checks):
            return checked
        reason = "it was the last answer again" if repeated else "nothing supports it, or it answers no part"
        turn.use("verify", Usage(), f"the model's answer does not stand: {reason}")
        extract = extracted(turn.parts, turn.embed, len(turn.parts))
        if not extract.unknown and not repeats(extract, turn.history, turn.message):
            checked_again = _with_answers(self._check(turn, extract, extract), extract)
            if _fails(checked_again[1]):
                turn.judgement = turn.judgement.model_copy(update={"decision": "partial"})
            return checked_again
        if not repeated and draft.text.strip() and (checks.grounded or 0) > 0:
            turn.judgement = turn.judgement.model_copy(update={"decision": "partial"})
            return checked
        turn.judgement = turn.judgement.model_copy(update={"decision": "unknown", "reason": reason})
        return verify(Draft(text=UNKNOWN_TEXT), "unknown", turn.understanding, turn.hits)


def _settle_decision(turn: Turn) -> None:
    """What was decided in the light of what came of it: an answer that knows nothing is no answer."""
    judged, draft = turn.judgement, turn.draft
    if draft.unknown:
        if len(draft.answers) > 1:  # many ways of not knowing are one
            turn.draft = draft.model_copy(update={"text": UNKNOWN_TEXT, "procedure": ()})
        if judged.decision in GROUNDED:
            update = {"decision": "unknown", "reason": "the passages hold no answer"}
            turn.judgement = judged.model_copy(update=update)
    elif judged.decision == "answer" and not all(draft.answers):
        turn.judgement = judged.model_copy(update={"decision": "partial", "reason": "a part of it found no answer"})


def _with_answers(checked: Checked, original: Draft) -> Checked:
    """The parts with what was said to each, where there are several; a part with no answer is not answered."""
    draft, checks, parts = checked
    if len(parts) < 2 or len(parts) != len(original.answers):
        return checked
    parts = tuple(
        part.model_copy(
            update={
                "answer": left_of(answer, draft) if original.apart else "",
                "answered": part.answered and bool(answer),
            }
        )
        for part, answer in zip(parts, original.answers, strict=True)
    )
    if checks.parts_answered is not None:
        share = sum(part.answered for part in parts) / len(parts)
        checks = checks.model_copy(update={"parts_answered": share})
    return draft, checks, parts


def left_of(answer: str, draft: Draft) -> str:
    """What of an answer still stands in a draft that was checked, without marks."""
    present = " ".join(strip_citations(" ".join([draft.text, *(step.step for step in draft.procedure)])).split())
    bare = " ".join(strip_citations(answer).split())
    pieces = (bare[start:end] for start, end in sentences(bare))
    return " ".join(piece for piece in pieces if piece.strip().rstrip(".!?") in present)


def _fails(checks: Checks) -> bool:
    """Whether a check says that an answer is none."""
    return checks.parts_answered == 0 or checks.grounded == 0


def repeats(draft: Draft, history: Sequence[Message], message: str) -> bool:
    """Whether a draft is the last reply again, to another question."""
    questions = [turn.content for turn in history if turn.role == "user"]
    last = next((turn.content for turn in reversed(history) if turn.role == "assistant"), "")
    if not last or says_unknown(last) or (questions and _same(questions[-1], message)):
        return False
    return _same(draft.whole, last)


def _same(text: str, second: str) -> bool:
    """Whether two texts are the same but for marks and layout."""
    return words(strip_citations(text)) == words(strip_citations(second))


def verify(
    draft: Draft,
    decision: Decision,
    understanding: Understanding,
    hits: Sequence[Hit],
    *,
    embed: Embed | None = None,
    verifier: Verifier | None = None,
    answers: Sequence[str] = (),
    written: bool | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Checked:
    """Check a draft, repair it once where that can be done, and measure what is left.

    An answer of which nothing is supported is left as it is: it has `grounded` 0, and a note says so.

    Args:
        embed: embeds sentences (unit vectors); without it shared words decide.
        verifier: judges claim by claim in the place of rules, and may rewrite.
        answers: what the draft says to each sub-question, where that is known; empty: it is found out.
        written: the draft was written by a language model, so that what nothing supports is taken out; None: as there
            is a verifier. Sentences taken from the passages stay.
        note: takes down notes for the person.

    Returns:
        The draft to show, the checks, and for each sub-question whether the reply answers it.
    """
    questions = understanding.sub_questions
    if decision not in GROUNDED:
        return draft, Checks(), tuple(SubQuestion(text=part, answered=decision == "converse") for part in questions)
    by_rule = _Rules(questions, hits, embed, tuple(answers))
    draft, repaired = repair(draft, len(hits))
    draft, pointed = by_rule.pointed(draft)
    repaired |= pointed
    support = by_rule.judged(draft)
    if verifier is not None:
        support, places = verifier.judged(draft, support)
        draft, repaired = pointed_to(draft, places), repaired or bool(places)
        if support.faults and (better := verifier.rewritten(draft, support)):
            better, _ = by_rule.pointed(repair(better, len(hits))[0])
            if (mended := by_rule.judged(better)).faults < support.faults and any(mended.supported):
                draft, support, repaired = better, mended, True
    if written if written is not None else verifier is not None:
        draft, support, dropped = _dropped(draft, support)
        repaired |= dropped
    claims = claims_of(draft)
    if claims and not any(support.supported):
        note(BASELESS)
    checks = Checks(
        grounded=sum(support.supported) / len(claims) if claims else None,
        citations_valid=all(claim.numbers for claim in claims),
        parts_answered=sum(support.answered) / len(questions),
        procedure_valid=procedure_valid(draft.procedure) if understanding.wants_procedure else None,
        repaired=repaired,
    )
    pairs = zip(questions, support.answered, strict=True)
    return draft, checks, tuple(SubQuestion(text=part, answered=answered) for part, answered in pairs)


def repair(draft: Draft, sources: int) -> tuple[Draft, bool]:
    """The draft without citations that point at nothing, marks in plain `[n]` form; and whether anything was wrong."""
    invalid = [n for n in cited(draft.text) if not 1 <= n <= sources]
    invalid += [n for step in draft.procedure for n in step.citations if not 1 <= n <= sources]

    def good(match: re.Match[str]) -> str:
        return "".join(f"[{n}]" for n in dict.fromkeys(cited(match.group())) if 1 <= n <= sources)

    text = re.sub(r" +(?=[.,;:!?]+(?:\s|$)|$)", "", MARK.sub(good, draft.text), flags=re.MULTILINE)
    steps: dict[str, Step] = {}
    for step in draft.procedure:
        valid = tuple(n for n in step.citations if 1 <= n <= sources)
        steps.setdefault(" ".join(step.step.lower().split()), Step(step=step.step, citations=valid))
    doubled = len(steps) < len(draft.procedure)
    return Draft(text=text, procedure=tuple(steps.values())), bool(invalid) or doubled


def cite(draft: Draft, hits: Sequence[Hit], embed: Embed | None) -> Draft:
    """A draft whose claims each cite the passage that supports them best, where one does."""
    return _Rules((), hits, embed, ()).pointed(draft)[0]


class _Rules:
    """The extractive form: what it judges, and what it repairs by pointing a claim to the passage that supports it."""

    def __init__(
        self, questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None, answers: Sequence[str]
    ) -> None:
        self.questions, self.embed = tuple(questions), embed
        self.titles = [hit.passage.title for hit in hits]
        self.sources = Sources([hit.passage.indexed_text for hit in hits], embed, " ".join(questions))
        self.answers = answers if len(answers) == len(questions) > 1 and len(set(answers)) > 1 else ()

    def judged(self, draft: Draft) -> Support:
        """What of the draft is supported, and which parts that answers."""
        claims = claims_of(draft)
        supported = tuple(self.sources.support(claim.text, claim.numbers) for claim in claims)
        supported_claims = [claim for claim, holds in zip(claims, supported, strict=True) if holds]
        return Support(supported=supported, answered=self._answered(supported_claims))

    def _answered(self, supported_claims: Sequence[Claim]) -> tuple[bool, ...]:
        """For each part whether one of these supported claims is about it."""
        lines = [claim.text for claim in supported_claims]
        titles = [self.titles[claim.numbers[0] - 1] for claim in supported_claims]
        if not self.answers or not supported_claims:
            return tuple(map(bool, about(self.questions, lines, self.embed, titles)))
        answers = [" ".join(strip_citations(answer).split()) for answer in self.answers]
        places_by_part = [[at for at, line in enumerate(lines) if " ".join(line.split()) in text] for text in answers]
        return tuple(
            bool(about_one(part, [lines[at] for at in places], self.embed, [titles[at] for at in places]))
            for part, places in zip(self.questions, places_by_part, strict=True)
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
            for following in range(piece + 1, len(pieces)):
                if any(map(str.isalnum, strip_citations(pieces[following].text))):
                    break
                pieces[following] = Piece("", "")  # its old marks, on a line of their own
    return Draft(text=joined(pieces), procedure=tuple(steps))


def _dropped(draft: Draft, support: Support) -> tuple[Draft, Support, bool]:
    """The draft without the sentences that nothing supports, where others are left.

    Steps stay: a procedure that lacks one is worse than one with a doubtful step.
    """
    claims = claims_of(draft)
    dropped = [at for at, holds in enumerate(support.supported) if not holds and claims[at].piece is not None]
    if not dropped or not any(support.supported):
        return draft, support, False
    text = joined(without(pieces_of(draft.text), [piece for at in dropped if (piece := claims[at].piece) is not None]))
    remaining = tuple(holds for at, holds in enumerate(support.supported) if at not in dropped)
    return Draft(text=text, procedure=draft.procedure), support.model_copy(update={"supported": remaining}), True


def procedure_valid(steps: Sequence[Step]) -> bool:
    """A procedure has at least two different steps, each cited, none empty, none a list of its own."""
    texts = [" ".join(step.step.lower().split()).rstrip(" .!") for step in steps]
    flat = all(text and "\n" not in step.step.strip() for text, step in zip(texts, steps, strict=True))
    return len(texts) >= 2 and len(set(texts)) == len(texts) and flat and all(step.citations for step in steps)
