"""What a chat measures of its own turns: the metrics without a judge, handed to `turnmark chat` where it is mounted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnmark.assistant.session import Exchange
    from turnmark.corpora.types import Message


class Grades:
    """See `turnmark.assistant.repl.chat.Scores`. Nothing is imported before something is measured."""

    def similarity(self, answer: str, reference: str) -> tuple[str, float] | None:
        """ROUGE-L F1: over the tokens of rouge-score, or over Unicode words where the reference has none of those."""
        from turnmark.evaluation.metrics import overlap

        for name, measure in (
            ("rouge_l.word", overlap.rouge_l_word),
            ("rouge_l.word[unicode]", overlap.rouge_l_unicode),
        ):
            value = measure(answer, reference)
            if value is not None:
                return name, value
        return None

    def grade(self, exchange: Exchange, history: Sequence[Message]) -> list[tuple[str, float | None, str]]:
        """The checks of the turn, overlap with its passages and with the person's version."""
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
        if exchange.edit is not None:
            edit = strip_citations(exchange.edit)
            similar = self.similarity(answer, edit)
            rows.append(
                (similar[0] if similar else "rouge_l.word", similar[1] if similar else None, "against your version")
            )
            rows.append(("token_recall", overlap.token_recall(answer, edit), "words of your version that it has"))
        else:
            rows.append(("rouge_l.word", None, "needs a version of yours: /edit"))
        return rows
