"""KIWI's revisions: predict the user's rating (section 2.2) by a model or by rules, which read English instructions.

Published shares of good turns are ratings of users, so shares by a judge are a different instrument. In KIWI's other
tasks the judge is not the instrument but the system under test.

The rules give the type of an instruction, the sentences in which two answers differ, and those errors of the paper's
Table 4 that leave traces: an ignored instruction (nothing changed), numbers that had to be kept and are missing, and
unrequested changes. On the 23 turns of the demo split, which we wrote ourselves, they agree with the rating in 20,
where always saying good agrees in 15; further rules (length, words verbatim, kept topics, layout) changed nothing and
were dropped. The rules cannot see whether an addition is wrong, vague or badly integrated.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import chain, compress
from pathlib import Path
from typing import Literal

from turnmark.assistant.citations.marks import spaced_sentences
from turnmark.assistant.steps.verify.claim_support import coverage, stems
from turnmark.assistant.steps.verify.numbers import missing_numbers
from turnmark.core.record import Record
from turnmark.corpora.benchmarks.kiwi import FINE_TYPES, CoarseType, RevisionRating
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.evaluation.judging.rubrics import EMBEDDED_JUDGE, OWN_WORDS, by_code, by_verdict
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome, Rubric

# --- types of instructions -------------------------------------------------------------------------------------------

RevisionKind = Literal["edit", "remove", "condense", "reorganize", "add", "other"]


@cache
def english_patterns() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the tables of `english_patterns.toml`."""
    return tomllib.loads(Path(__file__).with_name("english_patterns.toml").read_text("utf-8"))


def _compile_patterns() -> dict[str, re.Pattern[str]]:
    texts = {name: "".join(pieces) for name, pieces in english_patterns()["instructions"].items()}
    for name in ("start", "move"):
        part = texts.pop(name)
        texts = {other: text.replace(f"{{{name}}}", part) for other, text in texts.items()}
    return {name: re.compile(text, re.IGNORECASE) for name, text in texts.items()}


_PATTERNS = _compile_patterns()
_BLANKS = re.compile(r"\s{9,}")
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
    return re.sub(r"^[\s,;.]*(?:(?:but|and)\s+)?", "", _PATTERNS["leave_alone"].sub("", text)).strip()


def _quotations(request: str) -> list[str]:
    return [" ".join("".join(quotation).split()) for quotation in _PATTERNS["quotation"].findall(request)]


def classify(instruction: str) -> RevisionKind:
    """Return the kind of revision that an English instruction asks for, by its words; `other` if no rule matches."""
    request = _request(instruction)
    quotations = _quotations(request)
    if _PATTERNS["change"].search(request) and len(quotations) >= 2:
        return "edit"
    first_quotation = quotations[0] if quotations else ""
    # A quoted sentence is text to insert; a quoted term is a topic to write about.
    if _PATTERNS["put_quoted"].search(request) and len(words(first_quotation)) > 2 and first_quotation[-1] in ".!?":
        return "edit"
    if _PATTERNS["remove"].match(request):
        return "remove"
    if _PATTERNS["condense"].search(request) and not request.endswith("?"):
        return "condense"
    if _PATTERNS["reorganize"].match(request):
        return "reorganize"
    return "add" if _PATTERNS["add"].match(request) else "other"


def type_of(instruction: str) -> InstructionLabel:
    """Return the type of an English instruction, by its words; its fine type is "Others" if no rule matches."""
    kind = classify(instruction)
    instruction = _squeeze(instruction)
    if kind == "add":
        if _PATTERNS["clarifies"].search(instruction):
            fine = "Clarification"
        else:
            fine = "Expand coverage" if _PATTERNS["covers"].search(instruction) else "More information"
        return InstructionLabel(coarse="information-seeking", fine=fine)
    is_question = kind == "other" and instruction.rstrip().endswith("?")
    coarse: CoarseType = "information-seeking" if is_question else "stylistic"
    return InstructionLabel(coarse=coarse, fine=_FINE.get(kind, "Others"))


# --- operations of a revision ----------------------------------------------------------------------------------------

_MIN_EDIT_SIMILARITY = 0.5
"""Minimum similarity of the words of two sentences for one to be an edited version of the other."""


class Operation(Record):
    """The change of one sentence; `before` is "" for an inserted sentence, `after` for a removed one.

    `replace`: some words were changed. `rewrite`: another sentence replaces it. `move`: it is in another place.
    """

    kind: Literal["remove", "insert", "replace", "move", "rewrite"]
    before: str
    after: str


def operations(previous: str, revised: str) -> tuple[Operation, ...]:
    """Return the operations that turn the sentences of one text into those of the other, in order.

    Every sentence that only one text has is in exactly one operation; a sentence that both have is in none, or in a
    `move`. Differences in white space do not count.
    """
    old, new = _sentences(previous), _sentences(revised)
    edits = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    blocks = [(old[a:b], new[c:d]) for tag, a, b, c, d in edits if tag != "equal"]
    moved = Counter(chain.from_iterable(removed for removed, _ in blocks))
    moved &= Counter(chain.from_iterable(inserted for _, inserted in blocks))
    sources, targets = Counter(moved), Counter(moved)
    changes: list[Operation] = []
    for removed, inserted in blocks:
        removed_only = [text for text in removed if not _take_one(sources, text)]
        is_moved = [_take_one(targets, text) for text in inserted]
        inserted_only = [text for text, moved_here in zip(inserted, is_moved, strict=True) if not moved_here]
        moves = [Operation(kind="move", before=text, after=text) for text in compress(inserted, is_moved)]
        changes += [*_pair_sentences(removed_only, inserted_only), *moves]
    return tuple(changes)


def _sentences(text: str) -> list[str]:
    return [" ".join(piece.text.split()) for piece in spaced_sentences(text)]


def _take_one(counts: Counter[str], text: str) -> bool:
    """Decrease the count of a text; False if it is 0."""
    taken = counts[text] > 0
    counts[text] -= taken
    return taken


def _pair_sentences(removed: list[str], inserted: list[str]) -> list[Operation]:
    """Pair the removed and inserted sentences of one block: similar ones first, then the others in order."""
    from rapidfuzz.distance import Indel

    pairs: dict[int, int] = {}
    start = 0
    for i, text in enumerate(removed):
        likeness = [Indel.normalized_similarity(words(text), words(candidate)) for candidate in inserted[start:]]
        best = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if best is not None and likeness[best] >= _MIN_EDIT_SIMILARITY:
            pairs[i] = start + best
            start += best + 1
    changes = [Operation(kind="replace", before=removed[i], after=inserted[j]) for i, j in pairs.items()]
    removed_only = [text for i, text in enumerate(removed) if i not in pairs]
    inserted_only = [text for j, text in enumerate(inserted) if j not in pairs.values()]
    count = min(len(removed_only), len(inserted_only))
    changes += [Operation(kind="rewrite", before=a, after=b) for a, b in zip(removed_only, inserted_only, strict=False)]
    changes += [Operation(kind="remove", before=text, after="") for text in removed_only[count:]]
    return changes + [Operation(kind="insert", before="", after=text) for text in inserted_only[count:]]


# --- checking a revision against its instruction ---------------------------------------------------------------------

MAX_UNREQUESTED_SHARE = 0.2
"""Maximum share of previous sentences with tolerated changes, unless the instruction forbids other changes."""
BAD_UNREQUESTED_SHARE = 0.5
"""Share of unrequested changes at which the rating becomes bad instead of neutral."""
MIN_KEPT_SHARE = 0.8
"""A text counts as kept if at least this share of its content words is kept."""
MAX_KNOWN_SHARE = 0.5
"""A sentence says something new if the previous answer has less than this share of its content words."""
MIN_TOPIC_SHARE = 0.7
"""A sentence is about a topic if it has at least this share of the topic's content words."""


@dataclass(frozen=True)
class RevisionAnalysis:
    """The result of the rules for a revision; `error` is one of `ERROR_TYPES`, "Others" if nothing was found."""

    rating: RevisionRating
    reason: str
    error: str


def analyze_revision(instruction: str, previous: str, revised: str) -> RevisionAnalysis:
    """Check a revision against its instruction. Citation marks count only if the instruction is about them."""
    instruction = _squeeze(instruction)
    before, after = previous, revised
    if not _PATTERNS["about_marks"].search(instruction):
        before, after = strip_citations(previous), strip_citations(revised)
    kind, request = classify(instruction), _request(instruction)
    changes = operations(before, after)
    if not changes and kind != "other":
        return RevisionAnalysis("bad", "nothing that was asked for was done", "Ignored")
    reasons: list[str] = []
    lost_numbers = missing_numbers(before, [after]) if _PATTERNS["keeps_numbers"].search(instruction) else set()
    if lost_numbers:
        reasons.append(f"figures are gone: {', '.join(sorted(lost_numbers))}")
    asks_for_copy = kind == "other" and bool(_PATTERNS["copy"].search(instruction))
    unasked = [change for change in changes if asks_for_copy or not _is_requested(kind, request, before, change)]
    share = min(1.0, len(unasked) / max(1, len(spaced_sentences(before))))
    forbids_other_changes = asks_for_copy or bool(_PATTERNS["leave_alone"].search(instruction))
    too_much = share > (0.0 if forbids_other_changes else MAX_UNREQUESTED_SHARE)
    if too_much:
        reasons.append(f"{share:.0%} of the sentences changed unasked: {'; '.join(map(_in_words, unasked[:3]))}")
    if share >= BAD_UNREQUESTED_SHARE or (lost_numbers and too_much):
        rating: RevisionRating = "bad"
    else:
        rating = "neutral" if reasons else "good"
    error = "Others"
    if lost_numbers:
        error = "Constraint failure"
    elif too_much:
        error = "Unrequested change"
    return RevisionAnalysis(
        rating, "; ".join(reasons) or "no broken constraint and no unrequested change was found", error
    )


def _in_words(operation: Operation) -> str:
    text = operation.after if operation.kind == "insert" else operation.before
    return f"{operation.kind} {' '.join(text.split())[:60]!r}"


def _topics(request: str) -> list[str]:
    """Return the topics that an instruction says to remove; empty if it gives positions, such as the last sentence."""
    if _PATTERNS["counted_out"].search(request):
        return []
    parts = re.split(r",|;|\band\b|\bor\b", _PATTERNS["topic"].sub(" ", _PATTERNS["remove"].sub("", request)))
    return [" ".join(part.split()) for part in parts if stems(part)]


def _is_requested(kind: RevisionKind, request: str, before: str, change: Operation) -> bool:
    """Return whether a change may be what the instruction asks for; always, if no rule knows the instruction."""
    if kind == "edit":
        texts = list(filter(None, map(_strip_markup, (change.before, change.after))))
        quotations = [_strip_markup(quotation) for quotation in _quotations(request)]
        return any(quotation in text or text in quotation for quotation in quotations for text in texts)
    if kind == "add":
        return change.kind == "insert" or coverage(change.before, [change.after]) >= MIN_KEPT_SHARE
    if kind == "remove":
        if change.kind in ("insert", "move"):
            return change.kind == "move"
        topics = _topics(request)
        on_topic = not topics or any(coverage(topic, [change.before]) >= MIN_TOPIC_SHARE for topic in topics)
        if change.kind == "remove":
            return on_topic
        says_something_new = coverage(change.after, [before]) < MAX_KNOWN_SHARE
        return coverage(change.after, [change.before]) >= MIN_KEPT_SHARE or (on_topic and not says_something_new)
    return True


def _strip_markup(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .,;:!?")


# --- the rubrics ------------------------------------------------------------------------------------------------------

GOOD, GOOD_EMBEDDED = "good", "good[embedded]"
PREVIOUS, INSTRUCTION = "previous", "instruction"
"""Names of the texts in `Case.more`: the previous answer and the instruction."""
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> value in the share of good turns."""
_RATING_LABELS = Labels(offered=tuple(RATINGS))


def kiwi_rubrics(_setting: str | None, _embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.tasks.task.Task.rubrics`."""
    return BY_MODEL, BY_CODE


def _without(case: Case) -> str | None:
    return None if dict(case.more)[PREVIOUS].strip() else "there is no answer before the revision"


def _judge_by_rules(case: Case) -> Outcome:
    texts = dict(case.more)
    reading = analyze_revision(texts[INSTRUCTION], texts[PREVIOUS], case.answer)
    return Outcome(status="scored", value=RATINGS[reading.rating], label=reading.rating, reason=reading.reason)


BY_MODEL = Rubric(
    GOOD, f"share of revisions that a judge rates good (section 2.2), {OWN_WORDS}", ("kiwi-rating",),
    by_verdict("kiwi-rating", _RATING_LABELS, lambda label, _: RATINGS[label], "question", "answer"),
    _without, "nominal", RATINGS, offers=_RATING_LABELS, shown=MetricStyle(headline=140),
)  # fmt: skip
BY_CODE = Rubric(
    GOOD_EMBEDDED,
    "embedded judge, no language model: unrequested change by sentence alignment",
    (), by_code(EMBEDDED_JUDGE, _judge_by_rules), _without, "nominal", RATINGS, extra="3",
    shown=MetricStyle(headline=140),
)  # fmt: skip
