"""What judges are asked of KIWI's revisions: the rating that a user would give (section 2.2), by a model and by code.

Beside the published shares of good turns these are another instrument: there, users rated. In the other tasks a judge
is not the instrument but what is measured.

By code: two of the paper's five kinds of error (Table 4) leave traces, a constraint that is not met (length, place,
words to stand verbatim or to go, order, layout) and a change that nobody asked for, which an alignment of the sentences
shows. A third, an ignored instruction, shows where nothing changed. Whether what was added is right, vague, or badly
woven in, code does not see: what it passes may still be bad. English instructions only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnmark.assistant.steps.marks import pieces_of
from turnmark.assistant.steps.support import coverage, missing_numbers, stems
from turnmark.corpora.kiwi import Rating
from turnmark.corpora.text import content_words, strip_citations, words
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.judging.kiwi_constraints import constraints_of, unmet
from turnmark.evaluation.judging.kiwi_instructions import (
    GUARD,
    QUOTED,
    REMOVE,
    Kind,
    classify,
    evened,
    named,
    wanted,
)
from turnmark.evaluation.judging.kiwi_operations import Operation, operations, squeezed
from turnmark.evaluation.judging.rubrics import EMBEDDED, OWN_WORDS, Rubric, by_code, by_verdict
from turnmark.evaluation.judging.verdicts import Labels

GOOD, GOOD_EMBEDDED = "good", "good[embedded]"
PREVIOUS, INSTRUCTION = "previous", "instruction"
"""Names of the texts in `Case.more`: the answer before the revision, and what was asked for."""
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> what it adds to the share of good turns."""
_OFFER = Labels(offered=tuple(RATINGS))


def rubrics(_setting: str | None, _embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.benchmarks.task.Task.rubrics`."""
    return BY_MODEL, BY_CODE


def _without(case: Case) -> str | None:
    return None if dict(case.more)[PREVIOUS].strip() else "there is no answer before the revision"


def _read(case: Case) -> Outcome:
    texts = dict(case.more)
    reading = read_revision(texts[INSTRUCTION], texts[PREVIOUS], case.answer)
    return Outcome(status="scored", value=RATINGS[reading.rating], label=reading.rating, reason=reading.reason)


BY_MODEL = Rubric(
    GOOD, f"share of revisions that a judge rates good (section 2.2), {OWN_WORDS}", ("kiwi-rating",),
    by_verdict("kiwi-rating", _OFFER, lambda label, _: RATINGS[label], "question", "answer"),
    _without, "nominal", RATINGS, offers=_OFFER,
)  # fmt: skip
BY_CODE = Rubric(
    GOOD_EMBEDDED,
    "embedded judge, no language model: constraints by code, unrequested change by sentence alignment",
    (), by_code(EMBEDDED, _read), _without, "nominal", RATINGS,
)  # fmt: skip


TOLERATED = 0.2
"""Share of the previous sentences that may be changed without being asked, where nothing says to leave the rest."""
MUCH = 0.5
"""From which share on the answer is another one than was asked for, and the rating bad, not neutral."""
STILL_THERE = 0.8
"""Share of a sentence's words, or of an answer's content words, with which it counts as still there."""
NEW = 0.5
"""Share of a sentence's content words that the previous answer lacks, from which on it says something new."""
_NAMES = 0.7
_HEADING_WORDS = 6
_KEEPS_FIGURES = re.compile(
    r"\b(?:without (?:losing|dropping|changing|removing)|keep(?:ing)?) (?:any|all|the|every)[^.;]{0,20}"
    r"\b(?:figures?|numbers?)\b",
    re.IGNORECASE,
)
_ABOUT_MARKS = re.compile(r"\b(?:citations?|references?|cit(?:e|es|ed|ing))\b|\[\d", re.IGNORECASE)
_COPY = re.compile(
    r"\b(?:copy|repeat|return|keep|leave)\b[^.?!]{0,30}\bas[ -](?:it|they)?\s?(?:stands?|is|are)\b", re.IGNORECASE
)
_NO_MORE = re.compile(
    r"\b(?:do(?: not|n't|n’t)|no) change\w*\b[^.?!]{0,30}\b(?:anything|nothing|further)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Reading:
    """What code finds in a revision.

    Attributes:
        rating: `good` where nothing was found.
        unmet: demands that are not met, in words.
        unrequested: share of the previous sentences that were changed without being asked, 0..1.
        ignored: nothing was done of what was asked.
        changes: the changes that nobody asked for, in words.
    """

    rating: Rating
    unmet: tuple[str, ...]
    unrequested: float
    ignored: bool
    changes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the rating is what it is."""
        reasons = ["nothing was done of what was asked"] if self.ignored else []
        reasons += self.unmet
        if self.changes:
            reasons.append(f"{self.unrequested:.0%} of the sentences changed unasked: {'; '.join(self.changes[:3])}")
        return "; ".join(reasons) or "no broken constraint and no unrequested change was found"

    @property
    def error(self) -> str:
        """One of `ERROR_TYPES`; "Others" where code has nothing against the revision."""
        if self.ignored:
            return "Ignored"
        if self.unmet:
            return "Constraint failure"
        return "Unrequested change" if self.changes else "Others"


def read_revision(instruction: str, previous: str, revised: str) -> Reading:
    """Hold a revision against its instruction. Citation marks count only where the instruction is about them."""
    instruction = evened(instruction)
    before, after = previous, revised
    if not _ABOUT_MARKS.search(instruction):
        before, after = strip_citations(previous), strip_citations(revised)
    changes_made = operations(before, after)
    if copies(instruction):
        strict = tuple(map(_told, changes_made))
        return _reading((), _share(len(changes_made), before), False, strict, 0.0)
    kind = classify(instruction)
    demands = constraints_of(instruction)
    missed = [demand.message for demand in unmet(demands, before, after)]
    missed += _still_there(instruction, before, after) if kind == "remove" else []
    missed += _lost(before, after) if kind == "reorganize" else []
    missed += _other_text(before, after) if kind == "condense" else []
    missed += _figures_lost(before, after) if _KEEPS_FIGURES.search(instruction) else []
    ignored = not changes_made and kind != "other" and (not demands or bool(missed))
    if not ignored and kind == "add":
        ignored = not any(operation.after for operation in changes_made)
    request = _Request(instruction, kind, before)
    strange = [operation for operation in changes_made if not request.covers(operation)]
    tolerated = 0.0 if GUARD.search(instruction) else TOLERATED
    return _reading(missed, _share(len(strange), before), ignored, tuple(map(_told, strange)), tolerated)


def copies(instruction: str) -> bool:
    """Whether an instruction asks for the answer as it is, and for nothing else."""
    if not _COPY.search(instruction) and not _NO_MORE.search(instruction):
        return False
    return classify(instruction) == "other" or not content_words(wanted(_COPY.sub("", _NO_MORE.sub("", instruction))))


def _reading(missed: Sequence[str], share: float, ignored: bool, changes: tuple[str, ...], tolerated: float) -> Reading:
    too_much = share > tolerated
    rating: Rating = "good"
    if ignored or share >= MUCH:
        rating = "bad"
    elif missed or too_much:
        rating = "bad" if missed and too_much else "neutral"
    return Reading(rating, tuple(missed), share, ignored, changes if too_much else ())


def _share(changed: int, previous: str) -> float:
    """Sentences changed, as a share of the previous ones, 1 at most."""
    return min(1.0, changed / max(1, len(pieces_of(previous))))


def _told(operation: Operation) -> str:
    text = operation.after if operation.kind == "insert" else operation.before
    return f"{operation.kind} {' '.join(text.split())[:60]!r}"


# --- what was asked for ----------------------------------------------------------------------------------------------


class _Request:
    """Which changes of sentences an instruction asks for."""

    def __init__(self, instruction: str, kind: Kind, previous: str) -> None:
        self.kind, self.before = kind, previous
        request = wanted(instruction)
        self.quotes = [_plain("".join(quote)) for quote in QUOTED.findall(request)]
        self.named = _named(request, previous) if kind == "remove" else []

    def covers(self, operation: Operation) -> bool:
        """Whether a change is, or may well be, what was asked for."""
        if self.kind == "edit":
            return any(_touches(quote, operation.before) or _touches(quote, operation.after) for quote in self.quotes)
        if self.kind == "remove":
            return self._removes(operation)
        if self.kind == "add":
            return operation.kind == "insert" or (
                operation.kind in ("replace", "rewrite") and _kept(operation.before, operation.after)
            )
        if self.kind == "condense":
            return operation.kind == "remove" or not _new(operation.after, self.before)
        if self.kind == "reorganize":  # what is lost is told by `_lost`
            heading = operation.kind == "insert" and len(words(operation.after)) <= _HEADING_WORDS
            return heading or operation.kind == "remove" or not _new(operation.after, self.before)
        return True  # what no rule knows, nothing is held against

    def _removes(self, operation: Operation) -> bool:
        if operation.kind == "insert":
            return False
        if operation.kind == "move":
            return True
        if operation.kind != "remove" and _new(operation.after, self.before):
            return False
        return (
            not self.named
            or operation.before in self.named
            or (operation.kind != "remove" and _kept(operation.after, operation.before))
        )


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .,;:!?")


def _touches(quote: str, text: str) -> bool:
    sentence = _plain(text)
    return bool(sentence) and bool(quote) and (quote in sentence or sentence in quote)


def _kept(text: str, sentence: str) -> bool:
    """Whether nearly all words of a sentence are in another one, in their order."""
    from rapidfuzz.distance import LCSseq

    mine = words(text)
    return bool(mine) and LCSseq.similarity(mine, words(sentence)) / len(mine) >= STILL_THERE


def _new(text: str, previous: str) -> bool:
    return coverage(text, [previous]) < NEW


# --- what was to go, to stay, to come --------------------------------------------------------------------------------


def _named(request: str, previous: str) -> list[str]:
    """The previous sentences that an instruction to remove names."""
    pieces = pieces_of(previous)
    topics = [part for part in re.split(r",|;|\band\b|\bor\b", _topic(REMOVE.sub("", request))) if stems(part)]
    units = [squeezed(unit) for unit in named(request, previous)]
    return [
        " ".join(piece.text.split())
        for piece in pieces
        if any(squeezed(piece.text) in unit for unit in units)
        or any(coverage(part, [piece.text]) >= _NAMES for part in topics)
    ]


def _topic(target: str) -> str:
    return re.sub(
        r"\b(?:everything|anything|all|the|any|every|that|which|is|are|about|of|on|to|mentions?|sentences?|parts?"
        r"|information|discussion|references?|how|from|answer|text|please)\b",
        " ", QUOTED.sub(" ", target), flags=re.IGNORECASE,
    )  # fmt: skip


def _still_there(instruction: str, previous: str, revised: str) -> list[str]:
    """Topics that were to go, that the previous answer had and the revision still has."""
    target = REMOVE.sub("", wanted(instruction))
    if QUOTED.search(target):
        return []  # `constraints_of` has these, letter for letter
    topics = []
    for part in re.split(r",|;|\band\b|\bor\b", _topic(target)):
        if stems(part) and all(_says(part, text) for text in (previous, revised)):
            topics.append(f"it still speaks of: {' '.join(part.split())}")
    sentences = _named(wanted(instruction), previous)
    remaining = {" ".join(sentence.text.split()) for sentence in pieces_of(revised)}
    if sentences and not topics and all(sentence in remaining for sentence in sentences):
        topics.append("what was to be removed still stands")
    return topics


def _says(part: str, text: str) -> bool:
    return any(coverage(part, [piece.text]) >= _NAMES for piece in pieces_of(text))


def _figures_lost(previous: str, revised: str) -> list[str]:
    missing = sorted(missing_numbers(previous, [revised]))
    return [f"figures are gone: {', '.join(missing)}"] if missing else []


def _other_text(previous: str, revised: str) -> list[str]:
    """A shorter version says what the answer said."""
    share = coverage(revised, [previous])
    return [] if share >= NEW else [f"only {share:.0%} of what it says was in the answer"]


def _lost(previous: str, revised: str) -> list[str]:
    """Another order or layout keeps what is said."""
    share = coverage(previous, [revised])
    return [] if share >= STILL_THERE else [f"only {share:.0%} of what the answer said is left"]
