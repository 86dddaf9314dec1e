"""The decide step: judge whether the evidence answers the question.

Without a model there are three grades: answer, not sure, nothing found. They depend on cosines alone, since
calibrations on one kind of documents did not carry over to others (docs/measured.md). A large model decides while it
answers; it is asked whenever anything was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.citations.marks import lines_of
from turnmark.assistant.steps.answer.answer_totals import table_to_compute
from turnmark.assistant.steps.step_results import Assessment, Evidence, PartEvidence, assess
from turnmark.assistant.steps.turn_state import MIN_ANSWER_CONFIDENCE, MIN_KNOWN_SHARE, Turn
from turnmark.assistant.steps.understand.understand_rules import terms_of
from turnmark.assistant.steps.verify.claim_support import coverage
from turnmark.assistant.types import Decision, Judgment
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.types import Hit

COMPARED_HITS = 3
"""Number of hits whose lines or words are compared with the question."""
MIN_PARTIAL_CONFIDENCE, MAX_PARTIAL_RANGE = 0.28, 0.12
"""Minimum confidence for the decision `partial` (not sure), and by how much it is at most lower than the value that the
index measured (`sure_from`), which replaces `MIN_ANSWER_CONFIDENCE`. All three were chosen on the tuning halves of the
conversation suites: `python -m tests.benchmarks.decide`."""
MIN_PARTIAL_WORD_SHARE, MIN_ANSWER_WORD_SHARE = 0.2, 0.45
"""The same two minimums without cosines: the share of the question's words in a passage."""


class DecisionByRules:
    """Decide step without a model, which grades the evidence of each part."""

    name = "decide"

    def __call__(self, turn: Turn, evidence: Evidence, /) -> Assessment:
        judgments = []
        for part in evidence.parts:
            judgment = _grade_part(turn, part)
            if judgment.decision == "answer":
                reason = _reason_to_doubt(turn, part)
                judgment = judgment.model_copy(update={"decision": "partial", "reason": reason}) if reason else judgment
            judgments.append(judgment)
        return assess(judgments)


def _grade_part(turn: Turn, part: PartEvidence) -> Judgment:
    """Judge the evidence of a part; a message in no language of the documents is judged by the model's phrases, too."""
    wordings = [wordings_of(part)]
    if turn.languages and turn.language not in turn.languages:
        wordings += [[phrase] for phrase in part.phrases]
    judgments = [grade_evidence(texts, part.hits, turn.embed, turn.trusted, turn.sure_from) for texts in wordings]
    return max(judgments, key=lambda judgment: judgment.confidence)


def _reason_to_doubt(turn: Turn, part: PartEvidence) -> str:
    """Return why a sure answer is not sure: a word that no passage has, or rows over which it would have to be
    computed; "" if it is sure."""
    if turn.trusted:
        return ""
    if word := _unknown_word(turn, part):
        return f"“{word}” is in no passage"
    table = table_to_compute(turn, part)
    return f"it takes a model that computes over {table.rows:,} rows" if table else ""


def _unknown_word(turn: Turn, part: PartEvidence) -> str:
    """Return a content word of a question that no passage of the index has, or "" if there is none.

    A model understands other words than those of the documents, so that only names count for one.
    """
    terms = terms_of(part.text, turn.languages)
    if turn.generator is not None:
        terms = [term for term in terms if term.istitle() and not part.text.startswith(term)]
    shares = turn.word_shares(terms)
    return next((term for term, share in zip(terms, shares, strict=False) if share < MIN_KNOWN_SHARE), "")


class DecisionByModel:
    """Decide step for a large model: `unknown` if nothing was found; otherwise the model decides while it answers."""

    name = "decide"

    def __call__(self, turn: Turn, evidence: Evidence, /) -> Assessment:
        judgments = []
        for part in evidence.parts:
            confidence = confidence_of(wordings_of(part), part.hits, turn.embed) if part.hits else 0.0
            judgment = Judgment(decision="answer", confidence=confidence, reason="passages to read")
            missing = {"decision": "unknown", "reason": "nothing was found"}
            judgments.append(judgment if evidence.hits else judgment.model_copy(update=missing))
        return assess(judgments)


def grade_evidence(
    questions: Sequence[str],
    hits: Sequence[Hit],
    embed: Embed | None = None,
    trusted: bool = False,
    unsure: float = MIN_ANSWER_CONFIDENCE,
) -> Judgment:
    """Judge whether hits answer a question: `answer`, `partial` (not sure) or `unknown`.

    Args:
        questions: the message, and its rewrite if it has another wording.
        trusted: whether the hits are known to be about the question.
        unsure: the minimum confidence for `answer`, below which the judgment is at most `partial`.
    """
    if not hits:
        return Judgment(decision="unknown", confidence=0.0, reason="nothing was found")
    confidence = confidence_of(questions, hits, embed)
    if trusted:
        return Judgment(decision="answer", confidence=confidence, reason="given passages")
    unknown = min(unsure, max(MIN_PARTIAL_CONFIDENCE, unsure - MAX_PARTIAL_RANGE))
    if all(hit.similarity is None for hit in hits):
        unknown, unsure = MIN_PARTIAL_WORD_SHARE, MIN_ANSWER_WORD_SHARE
    decision: Decision = "unknown" if confidence < unknown else "partial" if confidence < unsure else "answer"
    compared = f"reaches {unsure:.2f}" if decision == "answer" else f"is below {unsure:.2f}"
    if decision == "unknown":
        compared = f"is below {unknown:.2f}"
    return Judgment(decision=decision, confidence=confidence, reason=f"confidence {confidence:.2f} {compared}")


def confidence_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> float:
    """Return how close the evidence is to the question, 0..1. Values of different embedders are not comparable.

    The confidence is the mean of two cosines: that of the nearest passage and that of the nearest line. Among several
    wordings of the question, the highest mean counts. Without cosines, it is the highest share of the question's words
    in a passage.
    """
    similarities = [hit.similarity for hit in hits if hit.similarity is not None]
    if not similarities:
        shares = [coverage(questions[0], [hit.passage.indexed_text]) for hit in hits[:COMPARED_HITS]]
        return max(0.0, *shares)
    if embed is None:
        return max(0.0, *similarities)
    line_texts: dict[str, None] = {}  # an ordered set
    for hit in hits[:COMPARED_HITS]:
        for line in lines_of(hit.passage):
            if line.can_answer and line.text:
                line_texts[line.in_context(hit.passage.title)] = None
    passages = [hit.passage.indexed_text for hit in hits]
    vectors = embed([*questions, *passages, *line_texts])
    cosines = vectors[len(questions) :] @ vectors[: len(questions)].T
    confidence = 0.0
    for question_cosines in cosines.T.tolist():
        nearest_passage = max(question_cosines[: len(passages)])
        nearest_line = max(question_cosines[len(passages) :], default=0.0)
        confidence = max(confidence, (nearest_passage + nearest_line) / 2)
    return min(1.0, confidence)


def wordings_of(part: PartEvidence) -> list[str]:
    """Return the wordings of a part by which its evidence is judged: as typed, and with its topic if it needs one."""
    return list(dict.fromkeys((part.text, part.question)))
