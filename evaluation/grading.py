"""What a chat measures of its own turns: the metrics without a judge, for `turnmark chat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnmark.assistant.session import Exchange
    from turnmark.corpora.types import Message


def grade_exchange(exchange: Exchange, history: Sequence[Message]) -> list[tuple[str, float | None, str]]:
    """Name, value and a remark: the checks of the turn, overlap with its passages and with the person's version."""
    from turnmark.corpora.text import strip_citations
    from turnmark.evaluation.metrics import overlap

    reply = exchange.reply
    answer = strip_citations(reply.answer).strip()
    texts = [citation.text for citation in reply.citations]
    messages = [*(message.content for message in history), exchange.question]
    rows: list[tuple[str, float | None, str]] = [
        ("grounded", reply.checks.grounded, "sentences that their sources support"),
        ("k_precision", overlap.k_precision(answer, texts), "words that are in the sources"),
        ("k_precision[+history]", overlap.k_precision(answer, texts, messages), "or in the conversation"),
        ("answer_words", overlap.answer_words(answer), "words of the answer"),
    ]
    if reply.checks.parts_answered is not None:
        rows.append(("part_coverage", reply.checks.parts_answered, "parts of the question that are answered"))
    if exchange.edit is None:
        return [*rows, ("rouge_l.word", None, "needs a version of yours: /edit")]
    edit = strip_citations(exchange.edit)
    name, similarity = "rouge_l.word", overlap.rouge_l_word(answer, edit)
    if similarity is None:  # a script of which rouge-score has no tokens
        name, similarity = "rouge_l.word[unicode]", overlap.rouge_l_unicode(answer, edit)
    token_recall = ("token_recall", overlap.token_recall(answer, edit), "words of your version that it has")
    return [*rows, (name, similarity, "against your version"), token_recall]
