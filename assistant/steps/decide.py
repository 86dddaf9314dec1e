"""The decide step: whether the evidence answers the question.

Without a model there are three grades: answer, not sure, nothing found. They rest on cosines alone, since calibrations
on one kind of documents did not carry over to others (docs/measured.md). A large model decides when it answers, and is
asked whenever anything was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.steps.marks import lines_of
from turnmark.assistant.steps.support import coverage, stems
from turnmark.assistant.steps.understand import may_stand
from turnmark.assistant.turn import Part, Turn
from turnmark.assistant.types import Judgement
from turnmark.corpora.text import content_words
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

LOOKED_AT = 3
"""Number of hits whose lines, or words, are compared with the question."""
UNKNOWN, UNSURE, BELOW_UNSURE = 0.28, 0.40, 0.12
"""Confidence below which the decision is `unknown`, and below which it is `partial` (not sure). The value that the
index measured (`sure_from`) replaces the second; the first is at most `BELOW_UNSURE` lower. Chosen on the tuning halves
of the conversation suites: `python -m tests.benchmarks.decide`."""
UNKNOWN_WORDS, UNSURE_WORDS = 0.2, 0.45
"""The same bounds where there are no cosines: shares of the question's words in a passage."""


class GradeEvidence:
    """Decide step without a model: grades the evidence of each part."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        level = turn.retriever.sure_from() if turn.retriever else None
        may_search_again = turn.rounds_left > 0 and turn.evidence is None
        for part in turn.parts:
            part.judgement = grade_evidence(asked_of(part), part.hits, turn.embed, turn.trusted, level)
            part.narrower = ""
            if may_search_again and part.judgement.decision != "answer":
                part.narrower = narrower(part)
        turn.decide()


class LeaveToReader:
    """Decide step for a large model: `unknown` if nothing was found; else the model decides when it answers."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        for part in turn.parts:
            confidence = confidence_of(asked_of(part), part.hits, turn.embed) if part.hits else 0.0
            if turn.hits:
                part.judgement = Judgement(decision="answer", confidence=confidence, reason="passages to read")
            else:
                part.judgement = Judgement(decision="unknown", confidence=confidence, reason="nothing was found")
        turn.decide()


def grade_evidence(
    questions: Sequence[str],
    hits: Sequence[Hit],
    embed: Embed | None = None,
    trusted: bool = False,
    level: float | None = None,
) -> Judgement:
    """Judge whether hits answer a question: `answer`, `partial` (not sure) or `unknown`.

    Args:
        questions: the message, and its rewrite if it has another wording.
        trusted: the hits are known to be about the question.
        level: confidence from which the decision is `answer`, as measured for the index; None: `UNSURE`.
    """
    if not hits:
        return Judgement(decision="unknown", confidence=0.0, reason="nothing was found")
    cosines = any(hit.similarity is not None for hit in hits)
    unsure = UNSURE if level is None else level
    unknown = max(UNKNOWN, unsure - BELOW_UNSURE)
    if not cosines:
        unknown, unsure = UNKNOWN_WORDS, UNSURE_WORDS
    confidence = confidence_of(questions, hits, embed)
    if trusted:
        return Judgement(decision="answer", confidence=confidence, reason="given passages")
    if confidence < unknown:
        reason = f"confidence {confidence:.2f} is below {unknown:.2f}"
        return Judgement(decision="unknown", confidence=confidence, reason=reason)
    if confidence < unsure:
        reason = f"confidence {confidence:.2f} is below {unsure:.2f}"
        return Judgement(decision="partial", confidence=confidence, reason=reason)
    reason = f"confidence {confidence:.2f} reaches {unsure:.2f}"
    return Judgement(decision="answer", confidence=confidence, reason=reason)


def confidence_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> float:
    """Return how near the evidence is to the question, 0..1; comparable for one embedder only.

    It is the mean of two cosines, those of the nearest passage and of the nearest line, for the question that gives the
    highest mean. Without cosines it is the best share of the question's words in a passage.
    """
    similarities = [hit.similarity for hit in hits if hit.similarity is not None]
    if not similarities:
        shares = [coverage(questions[0], [hit.passage.indexed_text]) for hit in hits[:LOOKED_AT]]
        return max(0.0, *shares)
    if embed is None:
        return max(0.0, *similarities)
    line_texts: dict[str, None] = {}  # an ordered set
    for hit in hits[:LOOKED_AT]:
        for line in lines_of(hit.passage):
            if line.says and line.text:
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


def asked_of(part: Part) -> list[str]:
    """Return the wordings of a part by which its evidence is judged.

    A part that may be complete in itself is judged without the topic carried over to it, which its evidence need not
    mention.
    """
    if may_stand(part.text):
        return [part.text]
    return list(dict.fromkeys((part.text, part.question)))


def narrower(part: Part) -> str:
    """Return a query with a part's content words, those that its evidence lacks first; "" if it lacks none or all.

    If it lacks all of them, the documents are about something else, and a second search would not help.
    """
    terms = content_words(part.question)
    present = {stem for hit in part.hits for stem in stems(hit.passage.indexed_text)}
    lacking = [word for word in terms if stems(word) and not stems(word) <= present]
    if not lacking or len(lacking) == len(terms):
        return ""
    return " ".join(dict.fromkeys([*lacking, *terms]))
