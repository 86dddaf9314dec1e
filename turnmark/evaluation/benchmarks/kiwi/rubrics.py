"""Types of KIWI's instructions and operations of its revisions, by rules; and the rubric of a judge (section 2.2).

Published shares of good turns are ratings of users, so shares by a judge are a different instrument. In KIWI's other
tasks the judge is not the instrument but the system under test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from turnmark.assistant.citations.marks import spaced_sentences
from turnmark.core.record import Record
from turnmark.corpora.benchmarks.kiwi import FINE_TYPES, CoarseType
from turnmark.corpora.text.segmentation import words
from turnmark.evaluation.judging.rubrics import OWN_WORDS, by_verdict
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Rubric

# --- types of instructions -------------------------------------------------------------------------------------------

RevisionKind = Literal["edit", "remove", "condense", "reorganize", "add", "other"]

_LEAVE_ALONE = re.compile(
    r"[,;.]?\s*(?:but |and )?(?:please )?(?:(?:leave|keep|copy) (?:the |every|all )?"
    r"(?:rest|other|remaining|answer|text|it|thing)"
    r"|do(?: not|n't) (?:change|touch|alter|modify|lose|repeat)|without (?:losing|changing|removing))\b"
    r"(?:(?!\b(?:and|but) (?:put|add|insert|append|remove|delete|replace|extract|mention|include|expand|explain"
    r"|describe)\b)[^.!?;])*",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r"\"([^\"]{1,2000})\"|“([^”]{1,2000})”|(?<!\w)'([^']{1,2000})'(?!\w)|‘([^’]{1,2000})’(?!\w)")
_START = r"(?:(?:please|now|also|just|then|can you|could you|you can|i want you to|i would like you to)[,\s]+)*"
_REMOVE = re.compile(
    rf"{_START}(?:remove|delete|drop|omit|leave out|take out|exclude|get rid of|cut out|skip|eliminate|strip"
    r"|do(?: not|n't) (?:mention|include|talk about|discuss))\b\s*",
    re.IGNORECASE,
)
_CONDENSE = re.compile(
    r"\b(?:shorten|shorter|condense|compress|summari[sz]e|concise(?:ly)?|brief(?:er|ly)?|trim"
    r"|cut (?:it |this )?(?:down|to)|reduce|limit"
    r"|(?:under|at most|no more than|within|fewer than|less than) [\w-]+ (?:words|sentences))\b",
    re.IGNORECASE,
)
_MOVE = r"(?:move|put|place|start(?: the \w+)?(?: with)?|begin(?: the \w+)?(?: with)?|end(?: the \w+)? with)\b"
_REORGANIZE = re.compile(
    rf"{_START}(?:(?:turn|make|write|format|organi[sz]e|reorgani[sz]e|rearrange|restructure|split|merge|present|use"
    r"|convert|combine|break)\b(?=.*(?:\b(?:bullet(?:ed|s)?|(?:numbered )?list|paragraphs?)\b|order))"
    rf"|reorder|rearrange|reorgani[sz]e|restructure|{_MOVE})",
    re.IGNORECASE,
)
_ADD = re.compile(
    rf"{_START}(?:add|include|mention|expand|elaborate|explain|describe|discuss|provide|give|cover|clarify|define"
    r"|specify|extract|tell|what|how|why|who|which|when|where|is|are|does|do|did|can|compare|list|say|talk about|more"
    r"|and (?:what|how))\b"
    rf"|(?:at|as|after|before) [^.?]{{1,80}}?\b(?:provide|give|explain|define|describe|mention)\b"
    r"|[^.]*\?\s*$|.*\?|.*\bmore (?:detail|information|about|on)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(r"\b(?:replace|change|rename|substitute|correct|rewrite|reword)\b", re.IGNORECASE)
_PUT_QUOTED = re.compile(r"\b(?:add|insert|put|append|write|include|place)\b", re.IGNORECASE)
_BLANKS = re.compile(r"\s{9,}")
_CLARIFIES = re.compile(
    rf"{_START}(?:clarify|define|specify|be (?:more )?(?:specific|precise|clear))\b"
    r"|\byou (?:also )?(?:say|said|mention|mean|meant|write|wrote|refer|describe|claim|do(?: not|n't) say)"
    r"|\b(?:what|who) (?:is|are|does|do) [^?]{1,60} (?:mean|meant|refer)|\bwhat (?:exactly|precisely)\b"
    r"|\bwhere (?:do|does|did) [^?]{1,80} come from\b|\b(?:explain|say) what .{1,60} (?:is|are|means?)\b",
    re.IGNORECASE,
)
_COVERS = re.compile(
    r"\bcover|\b(?:as well|of the kind|in the same way)\b|\b(?:any|some|the|more|what|are there|list|include|add) "
    r"(?:other|others|further)\b|\bmore (?:approaches|methods|ways|works?|papers|datasets|models|reasons|kinds|types)\b"
    r"|\bextract\b|\bfrom (?:all )?(?:the )?(?:papers?|documents?|sources|passages)\b",
    re.IGNORECASE,
)
_FINE = {"edit": "Specific edit", "remove": "Remove", "condense": "Condense", "reorganize": "Reorganize"}
INFORMATION_TYPES = frozenset(FINE_TYPES[:3])
"""The fine types that ask for information that is not in the answer."""


class InstructionLabel(Record):
    """The type of an instruction in KIWI (section 2.2 and Table 3); `fine` is one of `FINE_TYPES`."""

    coarse: CoarseType
    fine: str


def _squeeze(instruction: str) -> str:
    """Cut runs of white space to eight characters, because the patterns are slow on long runs."""
    return _BLANKS.sub(lambda run: run.group()[:8], instruction)


def _request(instruction: str) -> str:
    """Return an instruction without the clauses that say what to leave unchanged."""
    text = _squeeze(instruction)
    return re.sub(r"^[\s,;.]*(?:(?:but|and)\s+)?", "", _LEAVE_ALONE.sub("", text)).strip()


def _quotations(request: str) -> list[str]:
    return [" ".join("".join(quotation).split()) for quotation in _QUOTATION.findall(request)]


def classify(instruction: str) -> RevisionKind:
    """Return the kind of revision that an English instruction asks for, by its words; `other` if no rule matches."""
    request = _request(instruction)
    quotations = _quotations(request)
    if _CHANGE.search(request) and len(quotations) >= 2:
        return "edit"
    first_quotation = quotations[0] if quotations else ""
    # A quoted sentence is text to insert; a quoted term is a topic to write about.
    if _PUT_QUOTED.search(request) and len(words(first_quotation)) > 2 and first_quotation[-1] in ".!?":
        return "edit"
    if _REMOVE.match(request):
        return "remove"
    if _CONDENSE.search(request) and not request.endswith("?"):
        return "condense"
    if _REORGANIZE.match(request):
        return "reorganize"
    return "add" if _ADD.match(request) else "other"


def type_of(instruction: str) -> InstructionLabel:
    """Return the type of an English instruction, by its words; its fine type is "Others" if no rule matches."""
    kind = classify(instruction)
    instruction = _squeeze(instruction)
    if kind == "add":
        if _CLARIFIES.search(instruction):
            fine = "Clarification"
        else:
            fine = "Expand coverage" if _COVERS.search(instruction) else "More information"
        return InstructionLabel(coarse="information-seeking", fine=fine)
    is_question = kind == "other" and instruction.rstrip().endswith("?")
    coarse: CoarseType = "information-seeking" if is_question else "stylistic"
    return InstructionLabel(coarse=coarse, fine=_FINE.get(kind, "Others"))


# --- operations of a revision ----------------------------------------------------------------------------------------


class Operation(Record):
    """The change of one sentence; `before` is "" for an inserted sentence, `after` for a removed one."""

    kind: Literal["remove", "insert", "replace"]
    before: str
    after: str


def operations(previous: str, revised: str) -> tuple[Operation, ...]:
    """Return the operations that turn the sentences of one text into those of the other, in order.

    A moved sentence is removed and inserted. Differences in white space do not count.
    """
    old, new = ([" ".join(piece.text.split()) for piece in spaced_sentences(text)] for text in (previous, revised))
    changes: list[Operation] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for before, after in zip_longest(old[a:b], new[c:d], fillvalue="") if tag != "equal" else ():
            kind = "replace" if before and after else "remove" if before else "insert"
            changes.append(Operation.model_validate({"kind": kind, "before": before, "after": after}))
    return tuple(changes)


# --- the rubrics ------------------------------------------------------------------------------------------------------

GOOD = "good"
PREVIOUS, INSTRUCTION = "previous", "instruction"
"""Names of the texts in `Case.more`: the previous answer and the instruction."""
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> value in the share of good turns."""
_RATING_LABELS = Labels(offered=tuple(RATINGS))


def kiwi_rubrics(_setting: str | None, _embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.tasks.task.Task.rubrics`."""
    return (BY_MODEL,)


def _without(case: Case) -> str | None:
    return None if dict(case.more)[PREVIOUS].strip() else "there is no answer before the revision"


BY_MODEL = Rubric(
    GOOD, f"share of revisions that a judge rates good (section 2.2), {OWN_WORDS}", ("kiwi-rating",),
    by_verdict("kiwi-rating", _RATING_LABELS, lambda label, _: RATINGS[label], "question", "answer"),
    _without, "nominal", RATINGS, offers=_RATING_LABELS, shown=MetricStyle(headline=140),
)  # fmt: skip
