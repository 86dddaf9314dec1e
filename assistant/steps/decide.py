"""Answer, or say that the documents do not hold the answer: the embedded form of the decide step."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.steps.support import coverage
from assistant.types import Judgement, Understanding
from retrieval.types import Hit

# On the MTRAG pools, .40 refuses 1% of the answerable questions; questions that have nothing to do with the documents
# lie under .32. Near misses it does not catch: the cosine of the best passage ranks unanswerable MTRAG tasks with an
# AUROC of .67 (MTRAG-UN .75), and adding the share of covered words lowers that.
LEAST_COSINE = 0.40

# Without vectors: the share of the question's content words that one passage must have.
LEAST_COVERAGE = 0.5

LOOKED_AT = 5


def decide(understanding: Understanding, message: str, hits: Sequence[Hit], trusted: bool = False) -> Judgement:
    """`converse`, `unknown` or `answer`.

    The confidence is the best cosine of the message or its rewrite with a passage, or, where no list gave cosines, the
    best share of the message's content words in one passage.

    Args:
        trusted: passages are enough to try, whatever the confidence.
    """
    if understanding.kind == "conversational":
        return Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
    looked = hits[:LOOKED_AT]
    cosines = [hit.similarity for hit in looked if hit.similarity is not None]
    if cosines:
        value, least, view = max(0.0, *cosines), LEAST_COSINE, "best cosine"
    else:
        value = max((coverage(message, [hit.passage.indexed_text]) for hit in looked), default=0.0)
        least, view = LEAST_COVERAGE, "best coverage"
    decision, sign = ("answer", "reaches") if value >= least else ("unknown", "is below")
    if trusted and hits:
        decision = "answer"
    return Judgement.model_validate(
        {"decision": decision, "confidence": min(1.0, value), "reason": f"{view} {value:.2f} {sign} {least:.2f}"}
    )
