"""Citation precision and recall of a reply, by the checks of the assistant's verify step and without a judge.

The definitions are those of ALCE (Gao et al. 2023, arXiv 2305.14627), which asks an entailment model instead:

- Recall: the share of the reply's claims that are supported by the passages they cite, taken together. A claim without
  a citation is not supported.
- Precision: the share of citations that are needed. A citation counts if all citations of its claim together support
  the claim, and if this passage alone supports it or the others without this passage do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.steps.verify.claim_support import Sources
from turnmark.assistant.steps.verify.claims import claims_of
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import detect_language
from turnmark.retrieval.embedding.vector_cache import Embed


def citation_scores(
    answer: str, cited: Sequence[str], question: str, embed: Embed | None
) -> tuple[float | None, float | None]:
    """Return citation precision and recall, 0..1; None without citations or without claims.

    Args:
        answer: the reply with its marks.
        cited: the texts that its marks name; the first is `[1]`.
        question: the reply may repeat its numbers and names.
    """
    claims = claims_of(answer)
    sources = Sources(cited, embed, question, claim_language=language_of(answer) or detect_language(answer))
    recalled: list[bool] = []
    precise: list[bool] = []
    numbers: list[int] = []
    for claim in reversed(claims):
        numbers = list(dict.fromkeys(claim.numbers)) or numbers
        supported = sources.supports(claim.text, numbers, claim.counts)
        recalled.append(supported)
        for number in numbers if claim.numbers else ():
            others = [other for other in numbers if other != number]
            is_needed = sources.supports(claim.text, [number], claim.counts) or not sources.supports(
                claim.text, others, claim.counts
            )
            precise.append(supported and is_needed)
    precision = sum(precise) / len(precise) if precise else None
    return precision, sum(recalled) / len(recalled) if recalled else None
