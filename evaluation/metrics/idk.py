"""Judge by the wording whether an English reply says "I don't know", and condition other metrics on the verdict.

Every sentence is one of four kinds: it says that something is missing (`lack`), advises or offers (`aside`), says what
the passages or the conversation are about (`about`), or claims something. A reply without a `lack` is `no`. A reply
that opens with a `lack` and claims next to nothing else is `yes`. All others are `partial`. docs/measured.md has the
agreement with a language model. For replies of our own turn, where a misread answer loses its citations, a more
cautious rule is in `turnmark.assistant.steps.marks`.

MTRAG section 6.3.3: the verdict sets a metric to 0 or 1 if a reply says "I don't know" or should have said it.

                                the reply says: no, partial     yes
    ANSWERABLE, PARTIAL                   the metric                 0
    UNANSWERABLE                             0                       1

MTRAG-UN adds a row (section 3.1 of its paper, and the official script): an UNDERSPECIFIED task is 1 if the reply asks
back and 0 if not. Metrics with this row end in `.idk_underspecified`; without it such a task does not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from turnmark.assistant.steps.marks import cited_numbers
from turnmark.corpora.text import plain, sentences, strip_citations, words
from turnmark.evaluation.records import Score

Kind = Literal["lack", "aside", "about", "claim"]
Idk = Literal["yes", "partial", "no"]

IDK_VALUES: Mapping[str, float] = {"yes": 1.0, "partial": 0.5, "no": 0.0}
MOST_CLAIMED = 10
"""Maximum words of claims in a `yes`, calibrated with `python -m tests.benchmarks.judging idk`."""

_NOT = "(?:(?:do|does|did|is|are|was|were|could|can) not|(?:do|does|did|is|are|was|were|could|ca)n't|cannot)"
_MATERIAL = (
    "(?:passages?|documents?|sources?|texts?|context|material|excerpts?|information|conversation(?: history)?|"
    "discussion)"
)
_SOURCES = (
    "(?:(?:the|these|those|your|any|none) )?(?:of (?:the|these) )?"
    f"(?:(?:provided|given|available|retrieved|supplied|ongoing|previous|earlier) )*{_MATERIAL}"
    "(?: (?:provided|given|available|above|i have|i was given|in this conversation))?"
)
_HOW = "(?:(?:actually|explicitly|directly|specifically|clearly|currently|definitively|fully|further|accurately) )*"
_TELL = (
    "(?:say|state|mention|contain|include|provide|hold|give|specify|cover|address|answer|discuss|describe|explain|tell|"
    "indicate|offer|detail|differentiate|name|list|elaborate|clarify|define|identify|confirm|compare|present|report|"
    "quantify|focus|have(?! to)|seem|appear)"
)
_STATED = (
    "(?:mentioned|stated|specified|provided|given|covered|detailed|addressed|discussed|described|available|included|"
    "indicated|clear)"
)
_FACTS = "(?:information|mention|answers?|details?|data|context|documents?|knowledge)"
_MUCH = (
    "(?:(?:any|enough|sufficient|the|specific|an|access to|direct|detailed|real-time|current|up-to-date|that|exact|"
    "more|relevant) )*"
)
_LACKS = (
    # "The documents provided do not mention …", "The context lacks …", "…, but none of them addresses …"
    rf"{_SOURCES} {_NOT} (?:\w+ly )?{_TELL}\b",
    rf"{_SOURCES} lacks?\b",
    rf"none of (?:them|{_SOURCES}) (?:\w+ly )?{_TELL}",
    # "There is no information about …", "I have no specific details …", "No information is provided …"
    r"(?:there (?:is|are)|there's|with|i have|we have|has|have) (?:no|not enough|insufficient) (?:\w+ )?" + _FACTS,
    rf"^no (?:\w+ )?{_FACTS} (?:is|was|are|were|have|has)",
    # "I don't know", "I cannot confirm …", "I do not have access to data …", "I don't have the number in the documents"
    rf"(?:i|we) (?:am unable to|am not able to|was unable to|{_NOT}) {_HOW}"
    "(?:find|answer|say|tell|determine|know(?! of)|provide|confirm|identify|specify|verify|offer|"
    rf"have (?:access to|{_MUCH}(?:{_FACTS}|[^.]{{1,60}} (?:in|from) (?:the|these|those|my|your) )))",
    # "It is unclear …", "It is not possible to say …", "… is not specified"
    r"(?:it is|it's|it remains|is|are) (?:unclear|unknown|not (?:clear|known|possible to (?:\w+ )?"
    "(?:say|determine|state|answer|provide|confirm|draw)))",
    rf"(?:is|are|was|were) not {_HOW}{_STATED}\b(?! to\b)",
    rf"\bnot {_HOW}{_STATED} (?:in|by|within) {_SOURCES}",
)
_ASIDES = (
    "^(?:please|sorry|to (?:answer|provide|find|get|determine|obtain|give|fully|learn|compare)\\b|if you|"
    "for (?:more|the most|an?|the|current|up-to-date|further|precise|accurate|reliable|specific|detailed) |"
    "(?:could|can|would) you|i (?:would )?(?:recommend|suggest)|additional|without|"
    "i(?:'d| would)? (?:need|be happy|be glad|can help|can only|may be able)|"
    "you (?:may|might|would|should|could|can) (?:want|need|wish|consider|check|consult|contact)|"
    "it would be (?:helpful|beneficial|best|advisable))",
    "clarif",
    "(?:would|will) be (?:needed|required|necessary)",
)
_ABOUTS = (
    # Not "While the document discusses …": a contrast with the lack offers something, and counts as a claim.
    rf"^{_SOURCES} (?:only |primarily |mainly |mostly |do |does )*"
    "(?:discuss|mention|contain|address|describe|focus|cover|provide|define|relate|include|talk|refer|only)",
    r"\bwe(?: have|'ve) (?:only |been )?(?:discuss|talk)",
)
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("lack", re.compile("|".join(_LACKS))),
    ("aside", re.compile("|".join(_ASIDES))),
    ("about", re.compile("|".join(_ABOUTS))),
)
_HOWEVER = re.compile(r"\b(?:but|however|although|though|yet)\b|;")


def kind_of(sentence: str) -> Kind:
    """Return the kind of a sentence, the first that fits. A quotation is a claim."""
    text = " ".join(plain(strip_citations(sentence)).split()).replace("’", "'").lower()
    if text.startswith(('"', "“")):
        return "claim"
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "claim")


def _cites_a_claim(sentence: str, kind: Kind) -> bool:
    """Whether a sentence has a citation mark on a claim; in a `lack`, only after a word such as "however"."""
    if kind != "lack":
        return bool(cited_numbers(sentence))
    contrast = _HOWEVER.search(sentence.lower())
    return contrast is not None and bool(cited_numbers(sentence[contrast.end() :]))


@dataclass(frozen=True)
class Wording:
    """Counts of a reply's sentences, on which the verdict is based.

    Attributes:
        opens: whether the first sentence is a `lack`.
        lacks: number of sentences that are a `lack`.
        claimed: number of words in the sentences that are a `claim`.
        cites: whether a claim has a citation mark.
    """

    opens: bool
    lacks: int
    claimed: int
    cites: bool

    def verdict(self, claimed_limit: float = MOST_CLAIMED) -> Idk:
        """Return the label; a `yes` has claims of at most `claimed_limit` words."""
        if not self.lacks:
            return "no"
        return "yes" if self.opens and not self.cites and self.claimed <= claimed_limit else "partial"


@lru_cache(maxsize=1024)
def wording(reply: str) -> Wording:
    """Count the sentences of a reply by their kinds. Cached, since several metrics use the same reply."""
    texts = [reply[start:end] for start, end in sentences(reply)]
    texts = [text for text in texts if words(strip_citations(text))]
    kinds = [kind_of(text) for text in texts]
    claims = [text for text, kind in zip(texts, kinds, strict=True) if kind == "claim"]
    return Wording(
        opens=bool(kinds) and kinds[0] == "lack",
        lacks=kinds.count("lack"),
        claimed=sum(len(words(claim)) for claim in claims),
        cites=any(map(_cites_a_claim, texts, kinds)),
    )


def says_idk(reply: str) -> Idk:
    """Judge whether a reply says "I don't know" to the whole question (`yes`), to a part (`partial`) or not (`no`).

    The question is not read, and the verdict does not depend on whether the reply is right.
    """
    return wording(reply).verdict()


# --- conditioning of other metrics on the verdict ---------------------------------------------------------------------

CONDITIONED = ("rb_alg", "rb_llm", "rl_f")
"""The metrics that the paper conditions, in all variants (`rb_alg[…]`)."""
IDK, MARK, ACCURACY = "idk", ".idk", "answerability_accuracy"
ASKS_BACK, UNDERSPECIFIED = "clarification", f"{MARK}_underspecified"
"""The metric whose verdict decides underspecified tasks, and the suffix of scores that include these tasks."""
VERDICTS = (IDK, f"{IDK}[embedded]")
"""Metrics whose verdict others are conditioned on. Scores conditioned on the second one end in `[embedded]` too."""


def mark_of(verdict: str) -> str:
    """Return the suffix of scores conditioned on one of `VERDICTS`."""
    return MARK + verdict.removeprefix(IDK)


def accuracy_of(verdict: str) -> str:
    """Return the metric of how often one of `VERDICTS` agrees with the task's answerability."""
    return ACCURACY + verdict.removeprefix(IDK)


def is_conditioned(metric: str) -> bool:
    """Whether a metric, in any variant, has a conditioned figure; a conditioned metric itself has none."""
    return metric.partition("[")[0] in CONDITIONED and not metric.endswith((*map(mark_of, VERDICTS), UNDERSPECIFIED))


def conditioned(
    score: Score,
    answerability: str | None,
    idk: str | None,
    judge: str,
    verdict: str = IDK,
    no_verdict: str = "",
    silent: bool = False,
) -> Score:
    """Condition a score on the verdict, under the metric's name with `.idk` or `.idk[embedded]`.

    The conditioned score fails if the verdict or the metric failed. If label and verdict alone decide the value, the
    metric may be not applicable (no claims, no passages), unless its judge gave no value in the whole run: then the
    mean would be a figure of the verdict under the metric's name.

    Args:
        idk: `yes`, `partial` or `no`; None: there is no verdict.
        judge: name of the judge that gave the verdict.
        verdict: one of `VERDICTS`.
        no_verdict: why the verdict is missing.
        silent: the metric's judge failed and gave no value to any reply of the run.
    """
    name = score.metric + mark_of(verdict)
    about: dict[str, Any] = {"id": score.id, "repeat": score.repeat, "metric": name, "by": f"{score.by}; {judge}"}
    unknown = unknown_label(answerability)
    if idk is None:
        status = "failed" if unknown is not None else "not_applicable"
        return Score(status=status, reason=f"no IDK verdict: {no_verdict or 'the judge gave none'}", **about)
    if unknown is None:
        return Score(
            status="not_applicable", reason="the task has no label that says whether it can be answered", **about
        )
    if score.status == "failed":
        return score.model_copy(update=about)
    if silent:
        return Score(status="failed", reason=silence(score.metric), **about)
    if unknown or idk == "yes":
        value = float(unknown and idk == "yes")
        claim = "says that it does not know" if idk == "yes" else "does not say that it does not know"
        return Score(status="scored", value=value, reason=f"{answerability}, and the reply {claim}", **about)
    return score.model_copy(update=about)


def silence(metric: str) -> str:
    """Return the reason of a conditioned score that failed though label and verdict decide it."""
    return f"{metric} failed on every reply of the run that has it"


def with_underspecified(
    scores: Sequence[Score], answerability: str | None, verdict: Score, silent: Collection[str] = ()
) -> list[Score]:
    """Return for each score of a sample conditioned on `idk` one that counts underspecified tasks, too.

    Args:
        verdict: the sample's score of `ASKS_BACK`, which decides an underspecified task.
        silent: metrics whose judge failed and gave no value to any reply of the run.
    """
    scores_underspecified = []
    for score in scores:
        if not score.metric.endswith(MARK):
            continue
        metric = score.metric.removesuffix(MARK)
        changed: dict[str, Any] = {"metric": metric + UNDERSPECIFIED, "by": f"{score.by}; {verdict.by}"}
        decided = verdict if answerability == "UNDERSPECIFIED" else score
        if decided is verdict and metric in silent:
            changed |= {"status": "failed", "value": None, "reason": silence(metric)}
        scores_underspecified.append(decided.model_copy(update=changed))
    return scores_underspecified


def unjudged(scores: Sequence[Score], judge: str, verdict: str, about: dict[str, Any]) -> list[Score]:
    """Return the accuracy and conditioned scores of a sample without a verdict.

    Args:
        about: id, repeat, status and reason of these scores.
    """
    unjudged_scores = [Score(**about, metric=accuracy_of(verdict), by=judge)]
    for score in scores:
        if is_conditioned(score.metric):
            metric = score.metric + mark_of(verdict)
            unjudged_scores.append(Score(**about, metric=metric, by=f"{score.by}; {judge}"))
    return unjudged_scores


def accuracy(
    answerability: str | None, idk: str | None, failed: str, judge: str, verdict: str, about: dict[str, Any]
) -> Score:
    """Score by a verdict whether a reply says "I don't know" if and only if it should.

    Args:
        idk: `yes`, `partial` or `no`; None: there is no verdict.
        failed: why the verdict is missing; empty if it is not applicable.
        about: id and repeat of the sample.
    """
    about = about | {"metric": accuracy_of(verdict), "by": judge}
    unknown = unknown_label(answerability)
    if idk and unknown is not None:
        value = float((idk == "yes") == unknown)
        return Score(status="scored", value=value, reason=f"{answerability}, IDK {idk}", **about)
    if failed:
        return Score(status="failed", reason=f"no IDK verdict: {failed}", **about)
    return Score(status="not_applicable", reason="no label says whether the task can be answered", **about)


# --- tasks that call for "I don't know", or for a question back: `unknown.*`, `clarify.*` -------------------------

_UNKNOWN_LABELS = {"ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True}
_CLARIFY_LABELS = {**dict.fromkeys(_UNKNOWN_LABELS, False), "UNDERSPECIFIED": True}


def unknown_label(answerability: str | None) -> bool | None:
    """Whether a task calls for "I don't know": True for UNANSWERABLE, False for ANSWERABLE and PARTIAL.

    None if the task does not count in `unknown.*`: UNDERSPECIFIED, CONVERSATIONAL, no label. The labels are from MTRAG
    section 3.1; which of them count is our choice.
    """
    return _UNKNOWN_LABELS.get(answerability or "")


def clarify_label(answerability: str | None) -> bool | None:
    """Whether a task calls for a question back: True for UNDERSPECIFIED, False for the others.

    None if the task does not count in `clarify.*`: CONVERSATIONAL, no label.
    """
    return _CLARIFY_LABELS.get(answerability or "")


def sample_values(positive: bool, predicted: bool) -> dict[str, tuple[float, ...]]:
    """Return a sample's values of "precision", "recall" and "f1", whose means over all samples are these figures.

    Precision is a mean over predicted samples, recall over positive ones, and F1 over both lists (a true positive is in
    both and counts twice). To a figure without a value the sample is not applicable. So all three get intervals from
    the same bootstrap of clusters as any other mean.
    """
    hit = float(positive and predicted)
    precision = (hit,) if predicted else ()
    recall = (hit,) if positive else ()
    return {"precision": precision, "recall": recall, "f1": (*precision, *recall)}
