"""The decide step: whether to answer, by what was found.

Without a model three grades: said, not sure, nothing found. They rest on cosines alone: calibrations on one kind of
documents did not carry over to others (docs/measured.md). A model that reads decides by itself, and is asked whenever
anything was found.
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
from turnmark.retrieval.types import Hit, sure_from

LOOKED_AT = 3
UNKNOWN, UNSURE, BELOW_UNSURE = 0.28, 0.40, 0.12
"""Confidence below which nothing about the question was found, and below which it is not sure that it is the answer.
The second is the index's own if it says one (`sure_from`); the first is at most so far below that. Chosen on the tuning
halves of the conversation suites: `python -m tests.benchmarks.decide`."""
UNKNOWN_WORDS, UNSURE_WORDS = 0.2, 0.45
"""The same if there are no cosines: shares of the question's words in a passage."""


class GradeEvidence:
    """Grades the evidence of each part."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        for part in turn.parts:
            level = sure_from(turn.retriever)
            part.judgement = grade_evidence(asked_of(part), part.hits, turn.embed, turn.trusted, level)
            settled = turn.rounds_left == 0 or turn.evidence is not None or part.judgement.decision == "answer"
            part.narrower = "" if settled else narrower(part)
        turn.decide()


class LeaveToReader:
    """The model that answers decides; nothing is refused before it has read, unless nothing was found."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        if turn.written:  # the model answered while it searched
            return
        for part in turn.parts:
            confidence = confidence_of(asked_of(part), part.hits, turn.embed) if part.hits else 0.0
            decision, reason = ("answer", "passages to read") if turn.hits else ("unknown", "nothing was found")
            part.judgement = Judgement(decision=decision, confidence=confidence, reason=reason)
        turn.decide()


def grade_evidence(
    questions: Sequence[str],
    hits: Sequence[Hit],
    embed: Embed | None = None,
    trusted: bool = False,
    level: float | None = None,
) -> Judgement:
    """`answer`, `partial` (not sure) or `unknown`.

    Args:
        questions: the message, and its rewrite if that is another text.
        trusted: the hits are known to be about the question.
        level: the confidence from which they are sure, as the index was measured; None: `UNSURE`.
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
    sure = confidence >= unsure
    reason = f"confidence {confidence:.2f} {'reaches' if sure else 'is below'} {unsure:.2f}"
    return Judgement(decision="answer" if sure else "partial", confidence=confidence, reason=reason)


def confidence_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> float:
    """How near the evidence is to the question, 0..1; comparable for one embedder only.

    For the nearest of the questions the mean of two cosines: of the nearest passage, and of the nearest line.
    Without cosines the best share of the question's words in a passage.
    """
    if embed is None or all(hit.similarity is None for hit in hits):
        similarities = [hit.similarity for hit in hits if hit.similarity is not None]
        return max(0.0, *similarities, *(() if similarities else _shares(questions[0], hits)))
    lines = [line for hit in hits[:LOOKED_AT] for line in lines_of(hit.passage) if line.kind != "heading" and line.text]
    passages = [hit.passage.indexed_text for hit in hits]
    vectors = embed([*questions, *passages, *dict.fromkeys(line.text for line in lines)])
    cosines = vectors[len(questions) :] @ vectors[: len(questions)].T
    near = [
        (max(column[: len(passages)]) + max(column[len(passages) :], default=0.0)) / 2 for column in cosines.T.tolist()
    ]
    return float(min(1.0, max(0.0, *near)))


def _shares(question: str, hits: Sequence[Hit]) -> list[float]:
    return [coverage(question, [hit.passage.indexed_text]) for hit in hits[:LOOKED_AT]]


def asked_of(part: Part) -> list[str]:
    """The wordings of a part by which its evidence is judged.

    What was carried over to a question that names two things itself is nothing that the evidence has to match.
    """
    return [part.text] if may_stand(part.text) else list(dict.fromkeys((part.text, part.question)))


def narrower(part: Part) -> str:
    """The words of a part that its evidence lacks, before its other words of content; "" if it lacks none, or all.

    If it lacks all, the documents are about something else, and so would be whatever is found next.
    """
    terms = content_words(part.question)
    present = {stem for hit in part.hits for stem in stems(hit.passage.indexed_text)}
    lacking = [word for word in terms if stems(word) and not stems(word) <= present]
    return "" if not lacking or len(lacking) == len(terms) else " ".join(dict.fromkeys([*lacking, *terms]))
