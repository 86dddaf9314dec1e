"""KIWI's revisions: the rating that a user would give (section 2.2), by a model and by code, and the rules behind the
latter, which read English instructions.

Judged shares of good turns are another instrument than the published ones: there, users rated. In the other tasks a
judge is not the instrument but what is measured.

The rules give the type of an instruction, the sentences in which two answers differ, and of the paper's kinds of error
(Table 4) those that leave traces: an ignored instruction, where nothing changed; figures that were to be kept and are
gone; a change that nobody asked for. On the 23 turns of the demo split, which we wrote ourselves, they agree with the
rating in 20, where always saying good agrees in 15; further rules (length, words verbatim, topics still there, layout)
changed nothing there and are not kept. Whether what was added is right, vague, or badly woven in, code does not see.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from turnmark.assistant.steps.marks import pieces_of
from turnmark.assistant.steps.support import coverage, missing_numbers, stems
from turnmark.core.record import Record
from turnmark.corpora.kiwi import FINE_TYPES, Coarse, Rating
from turnmark.corpora.text import strip_citations, words
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.rubrics import EMBEDDED, OWN_WORDS, Outcome, Rubric, by_code, by_verdict
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.scores.metric_info import MetricStyle

# --- what an instruction is ------------------------------------------------------------------------------------------

Kind = Literal["edit", "remove", "condense", "reorganize", "add", "other"]

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
INFORMATION = frozenset(FINE_TYPES[:3])
"""The fine types that ask for something that the answer does not hold."""


class InstructionType(Record):
    """What an instruction is, in the terms of KIWI (section 2.2 and table 3); `fine` is one of `FINE_TYPES`."""

    coarse: Coarse
    fine: str


def _squeeze(instruction: str) -> str:
    """No more than eight blanks in a row: rules try each blank of a thousand as a beginning."""
    return _BLANKS.sub(lambda run: run.group()[:8], instruction)


def _request(instruction: str) -> str:
    """What an instruction asks for, without its clauses on what to leave alone."""
    text = _squeeze(instruction)
    return re.sub(r"^[\s,;.]*(?:(?:but|and)\s+)?", "", _LEAVE_ALONE.sub("", text)).strip()


def _quotations(request: str) -> list[str]:
    return [" ".join("".join(quotation).split()) for quotation in _QUOTATION.findall(request)]


def classify(instruction: str) -> Kind:
    """What kind of revision an English instruction asks for, by its words; `other` if no rule knows it."""
    request = _request(instruction)
    quotations = _quotations(request)
    if _CHANGE.search(request) and len(quotations) >= 2:
        return "edit"
    first = quotations[0] if quotations else ""
    # A term in quotation marks is something to write about; a sentence in them is to be written.
    if _PUT_QUOTED.search(request) and len(words(first)) > 2 and first[-1] in ".!?":
        return "edit"
    if _REMOVE.match(request):
        return "remove"
    if _CONDENSE.search(request) and not request.endswith("?"):
        return "condense"
    if _REORGANIZE.match(request):
        return "reorganize"
    return "add" if _ADD.match(request) else "other"


def type_of(instruction: str) -> InstructionType:
    """The type of an English instruction, by its words; what no rule knows is one of the "Others"."""
    kind = classify(instruction)
    instruction = _squeeze(instruction)
    if kind == "add":
        if _CLARIFIES.search(instruction):
            fine = "Clarification"
        else:
            fine = "Expand coverage" if _COVERS.search(instruction) else "More information"
        return InstructionType(coarse="information-seeking", fine=fine)
    asks = kind == "other" and instruction.rstrip().endswith("?")
    return InstructionType(coarse="information-seeking" if asks else "stylistic", fine=_FINE.get(kind, "Others"))


# --- what a revision did ---------------------------------------------------------------------------------------------

_SAME_SENTENCE = 0.5
"""The share of words in common from which one of two sentences is the other with words changed."""


class Operation(Record):
    """What happened to one sentence; `before` is "" for an inserted one, `after` for a removed one.

    `replace`: some of its words were changed. `rewrite`: another sentence replaces it. `move`: it is elsewhere.
    """

    kind: Literal["remove", "insert", "replace", "move", "rewrite"]
    before: str
    after: str


def operations(previous: str, revised: str) -> tuple[Operation, ...]:
    """What was done to the sentences of one text to get the other, in their order.

    Every sentence that only one of the texts has is in exactly one operation; a sentence that both have is in none, or
    in a `move`. White space alone is no difference.
    """
    old, new = ([" ".join(piece.text.split()) for piece in pieces_of(text)] for text in (previous, revised))
    blocks = [
        (old[a:b], new[c:d])
        for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    removed_counts = Counter(text for block, _ in blocks for text in block)
    moved = removed_counts & Counter(text for _, block in blocks for text in block)
    sources, targets = Counter(moved), Counter(moved)
    changes: list[Operation] = []
    for removed, inserted in blocks:
        removed_only = [text for text in removed if not _taken(sources, text)]
        moves: list[Operation] = []
        inserted_only = []
        for text in inserted:
            if _taken(targets, text):
                moves.append(Operation(kind="move", before=text, after=text))
            else:
                inserted_only.append(text)
        changes += [*_paired(removed_only, inserted_only), *moves]
    return tuple(changes)


def _taken(counts: Counter[str], text: str) -> bool:
    if counts[text] <= 0:
        return False
    counts[text] -= 1
    return True


def _paired(removed: list[str], inserted: list[str]) -> list[Operation]:
    """The sentences of one block, before and after: like ones first, then those left over in their order."""
    from rapidfuzz.distance import Indel

    pairs: dict[int, int] = {}
    start = 0
    for i, text in enumerate(removed):
        likeness = [Indel.normalized_similarity(words(text), words(candidate)) for candidate in inserted[start:]]
        best = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if best is not None and likeness[best] >= _SAME_SENTENCE:
            pairs[i] = start + best
            start += best + 1
    changes = [Operation(kind="replace", before=removed[i], after=inserted[j]) for i, j in pairs.items()]
    removed_only = [text for i, text in enumerate(removed) if i not in pairs]
    inserted_only = [text for j, text in enumerate(inserted) if j not in pairs.values()]
    count = min(len(removed_only), len(inserted_only))
    changes += [Operation(kind="rewrite", before=a, after=b) for a, b in zip(removed_only, inserted_only, strict=False)]
    changes += [Operation(kind="remove", before=text, after="") for text in removed_only[count:]]
    return changes + [Operation(kind="insert", before="", after=text) for text in inserted_only[count:]]


# --- a revision held against its instruction -------------------------------------------------------------------------

TOLERATED = 0.2
"""Share of the previous sentences that may be changed without being asked, if nothing says to leave the rest."""
MUCH = 0.5
"""From which share on the answer is another one than was asked for, and the rating bad, not neutral."""
KEPT = 0.8
"""Share of a text's content words with which it counts as kept."""
NEW = 0.5
"""Share of a sentence's content words that the previous answer lacks, from which on it says something new."""
SAID = 0.7
"""Share of a topic's content words that a sentence has, from which on it is about the topic."""
_ABOUT_MARKS = re.compile(r"\b(?:citations?|references?|cit(?:e|es|ed|ing))\b|\[\d", re.IGNORECASE)
_KEEPS_FIGURES = re.compile(
    r"\b(?:without (?:losing|dropping|changing|removing)|keep(?:ing)?) (?:any|all|the|every)[^.;]{0,20}"
    r"\b(?:figures?|numbers?)\b",
    re.IGNORECASE,
)
_COPY = re.compile(
    r"\b(?:copy|repeat|return|keep|leave)\b[^.?!]{0,30}\bas[ -](?:it|they)?\s?(?:stands?|is|are)\b", re.I
)
_COUNTED_OUT = re.compile(
    r"\b(?:first|second|third|fourth|fifth|last|final|(?:sentence|paragraph|point|item) \d{1,2})\b", re.IGNORECASE
)
_TOPIC = re.compile(
    r"\b(?:everything|anything|all|the|any|every|that|which|is|are|about|of|on|to|mentions?|sentences?|parts?"
    r"|information|discussion|references?|how|from|answer|text|please)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """What code finds in a revision; `error` is one of `ERROR_TYPES`, "Others" if nothing was found."""

    rating: Rating
    reason: str
    error: str


def read_revision(instruction: str, previous: str, revised: str) -> Reading:
    """Hold a revision against its instruction. Citation marks count only if the instruction is about them."""
    instruction = _squeeze(instruction)
    before, after = previous, revised
    if not _ABOUT_MARKS.search(instruction):
        before, after = strip_citations(previous), strip_citations(revised)
    kind, request = classify(instruction), _request(instruction)
    changes = operations(before, after)
    if not changes and kind != "other":
        return Reading("bad", "nothing was done of what was asked", "Ignored")
    missed = missing_numbers(before, [after]) if _KEEPS_FIGURES.search(instruction) else set()
    reasons = [f"figures are gone: {', '.join(sorted(missed))}"] if missed else []
    copies = kind == "other" and bool(_COPY.search(instruction))
    unasked = [change for change in changes if copies or not _covers(kind, request, before, change)]
    share = min(1.0, len(unasked) / max(1, len(pieces_of(before))))
    too_much = share > (0.0 if copies or _LEAVE_ALONE.search(instruction) else TOLERATED)
    if too_much:
        reasons.append(f"{share:.0%} of the sentences changed unasked: {'; '.join(map(_in_words, unasked[:3]))}")
    if share >= MUCH or (missed and too_much):
        rating: Rating = "bad"
    else:
        rating = "neutral" if reasons else "good"
    error = "Constraint failure" if missed else "Unrequested change" if too_much else "Others"
    return Reading(rating, "; ".join(reasons) or "no broken constraint and no unrequested change was found", error)


def _in_words(operation: Operation) -> str:
    text = operation.after if operation.kind == "insert" else operation.before
    return f"{operation.kind} {' '.join(text.split())[:60]!r}"


def _topics(request: str) -> list[str]:
    """What an instruction to remove names; nothing if it counts sentences out."""
    if _COUNTED_OUT.search(request):
        return []
    parts = re.split(r",|;|\band\b|\bor\b", _TOPIC.sub(" ", _REMOVE.sub("", request)))
    return [" ".join(part.split()) for part in parts if stems(part)]


def _covers(kind: Kind, request: str, before: str, change: Operation) -> bool:
    """Whether a change is, or may well be, what was asked for. What no rule knows, nothing is held against."""
    if kind == "edit":
        texts = [_plain(text) for text in (change.before, change.after) if _plain(text)]
        quotations = [_plain(quotation) for quotation in _quotations(request)]
        return any(a in b or b in a for a in quotations for b in texts)
    if kind == "add":
        return change.kind == "insert" or coverage(change.before, [change.after]) >= KEPT
    if kind == "remove":
        if change.kind in ("insert", "move"):
            return change.kind == "move"
        names = _topics(request)
        meant = not names or any(coverage(name, [change.before]) >= SAID for name in names)
        if change.kind == "remove":
            return meant
        says_something_new = coverage(change.after, [before]) < NEW
        return coverage(change.after, [change.before]) >= KEPT or (meant and not says_something_new)
    return True


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .,;:!?")


# --- the rubrics ------------------------------------------------------------------------------------------------------

GOOD, GOOD_EMBEDDED = "good", "good[embedded]"
PREVIOUS, INSTRUCTION = "previous", "instruction"
"""Names of the texts in `Case.more`: the answer before the revision, and what was asked for."""
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> what it adds to the share of good turns."""
_OFFER = Labels(offered=tuple(RATINGS))


def kiwi_rubrics(_setting: str | None, _embedder: str) -> Sequence[Rubric]:
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
    _without, "nominal", RATINGS, offers=_OFFER, shown=MetricStyle(headline=140),
)  # fmt: skip
BY_CODE = Rubric(
    GOOD_EMBEDDED,
    "embedded judge, no language model: unrequested change by sentence alignment",
    (), by_code(EMBEDDED, _read), _without, "nominal", RATINGS, extra="3",
    shown=MetricStyle(headline=140),
)  # fmt: skip
