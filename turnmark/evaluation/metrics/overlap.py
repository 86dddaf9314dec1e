"""Measure the overlap of an answer with its reference, its passages and its conversation, without a judge.

All metrics treat empty texts alike. If the reference or the passages contain no token, the metric is None, a score that
is not applicable. Otherwise an answer without a token scores 0, because the system failed; rouge-score and
instruct-qa do the same. No value is ever NaN.

The functions `comparable_words` and `strip_citations` are those of `turnmark.corpora.text.segmentation`. Answers are
scored as passed in: the caller strips citation marks first.

Revisions are measured in words (KIWI, table 6, appendix A.3, for one turn). The paper names the columns (`# words` of
source and target, `Len ratio`, `Edit distance`, `Edit ratio`) without definitions. Its rows allow only one reading: for
"Condense", 388 words become 234 at an edit distance of 213, a length ratio of .64 and an edit ratio of .55; 213 / 388 =
.55, while 213 / 234 = .91. So both ratios divide by the words of the source, turn by turn, and the table has means over
turns. The distance is Levenshtein's over words: an insertion, a deletion and a substitution cost 1 each.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import UNSPACED_LANGUAGES
from turnmark.corpora.text.segmentation import (
    CJK,
    comparable_words,
    is_latin,
    multiset_overlap,
    squad_tokens,
    strip_citations,
)

if TYPE_CHECKING:
    from turnmark.assistant.sessions.conversation import Exchange
    from turnmark.corpora.types import Message

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
_OTHERS_TO_SPACE = bytes(byte if byte in _LETTERS else 0x20 for byte in range(256))


def lcs_f(answer: Sequence[Hashable], reference: Sequence[Hashable]) -> float | None:
    """Return the F1 of the longest common subsequence of two sequences, 0..1, or None if `reference` is empty.

    With L its length, m of the reference and n of the answer: R = L / m, P = L / n, F1 = 2 L / (n + m).

    Source: Lin 2004, "ROUGE: A package for automatic evaluation of summaries"; InsCoQA section 5.2.
    """
    from rapidfuzz.distance import LCSseq

    if not reference:
        return None
    if not answer:
        return 0.0
    return 2 * LCSseq.similarity(answer, reference) / (len(answer) + len(reference))


def _rouge_tokens(text: str) -> list[bytes]:
    # As rouge-score: lower case, then [a-z0-9]+. Uses bytes, because a regular expression would take most of the
    # metric's time.
    return text.lower().encode("ascii", "replace").translate(_OTHERS_TO_SPACE).split()


def rouge_l_word(answer: str, reference: str) -> float | None:
    """Measure `rouge_l.word`: F_lcs over the tokens `[a-z0-9]+` of the lower-cased texts, not stemmed. 0..1.

    None if the reference has no such token (rouge-score says 0). Symmetric if both texts have one.

    Source: google rouge-score's rougeL F1, which is the `RougeL` of MTRAG (section 6.3.1) and "word-level ROUGE-L" of
    InsCoQA (section 5.2). A text in another script has no such tokens: see `rouge_l_unicode`.
    """
    return lcs_f(_rouge_tokens(answer), _rouge_tokens(reference))


def rouge_l_unicode(answer: str, reference: str) -> float | None:
    """Measure `rouge_l.word[unicode]`, 0..1: as `rouge_l.word`, over `comparable_words`.

    None if the reference has no word. Not the published metric: "don't" and "1,250.5" are one token, not two.
    """
    return lcs_f(comparable_words(answer), comparable_words(reference))


def rouge_l_char(answer: str, reference: str) -> float | None:
    """Measure `rouge_l.char`: F_lcs over characters (code points) unchanged: case, punctuation and spaces count. 0..1.

    None if the reference is the empty string.

    Source: InsCoQA section 5.2 ("takes into account word forms, grammar, and punctuation"), whose beta is 1.
    """
    return lcs_f(answer, reference)


def token_recall(answer: str, reference: str) -> float | None:
    """Measure `token_recall`: tokens shared with the reference / tokens of the reference. 0..1.

    Tokens after SQuAD's normalization; a token is shared as often as both texts have it (multisets). None if the
    reference has no token left.

    Source: Adlakha et al. 2024 ("Recall"); MTRAG section 6.3.1 uses its form over BERT vectors.
    """
    expected = squad_tokens(reference)
    return multiset_overlap(squad_tokens(answer), expected) / len(expected) if expected else None


def token_recall_unicode(answer: str, reference: str) -> float | None:
    """Measure `token_recall[unicode]`, 0..1: as `token_recall`, over `comparable_words`.

    A run of Chinese is a single token of `token_recall`, which is therefore 0 for almost every Chinese answer.
    """
    expected = comparable_words(reference)
    return multiset_overlap(comparable_words(answer), expected) / len(expected) if expected else None


def k_precision_unicode(answer: str, passages: Iterable[str]) -> float | None:
    """Measure `k_precision[unicode]`, 0..1: as `k_precision`, over `comparable_words`."""
    context = [token for text in passages for token in comparable_words(text)]
    if not context:
        return None
    tokens = comparable_words(answer)
    return multiset_overlap(tokens, context) / len(tokens) if tokens else 0.0


def k_precision(answer: str, passages: Iterable[str], history: Iterable[str] = ()) -> float | None:
    """Measure `k_precision`, 0..1: tokens shared with the passages / tokens of the answer.

    With `history` it is `k_precision[+history]`. Tokens after SQuAD's normalization, as multisets. The passages are
    concatenated, so the answer may use a word as often as all passages together do. instruct-qa, the reference
    implementation, does the same. A passage given twice counts twice.

    None if no passage has a token. This holds with and without history, so that both variants cover the same samples.

    Source: Adlakha et al. 2024 ("K-Precision"); MTRAG section 6.3.1 uses its form over BERT vectors. `[+history]` is
    ours: words repeated from the conversation do not count against an answer. It is not instruct-qa's K-Precision++,
    which drops those words.

    Args:
        passages: the texts the system was given.
        history: the messages of the conversation up to and including the question, without the system's own replies.
    """
    context = [token for text in passages for token in squad_tokens(text)]
    if not context:
        return None
    tokens = squad_tokens(answer)
    context += [token for text in history for token in squad_tokens(text)]
    return multiset_overlap(tokens, context) / len(tokens) if tokens else 0.0


def answer_words(answer: str) -> float:
    """Measure `answer_words`: number of words (`comparable_words`) of the answer. It is always measured.

    Each character of a script without spaces is a word; punctuation by itself ("--", ".") is not.
    """
    return float(len(comparable_words(answer)))


def edit_words(text: str) -> list[str]:
    """Split a text into the words that an edit can change: at white space, and around each Han or kana character."""
    return re.findall(rf"[{CJK}]|[^\s{CJK}]+", text)


def length_ratio(revised: str, previous: str) -> float | None:
    """Measure `length_ratio`: words of the revised answer / words of the previous one. 0 or more; 1 is the same length.

    None if the previous answer has no word. Source: KIWI table 6, "Len ratio".
    """
    word_count = len(edit_words(previous))
    return len(edit_words(revised)) / word_count if word_count else None


def edit_distance(revised: str, previous: str) -> float:
    """Measure `edit_distance`: minimum number of words to insert, delete or replace to turn one answer into the other.

    Symmetric; between the difference of the lengths and the longer length, in words. Always measured, 0 for two empty
    answers. Source: KIWI table 6, "Edit distance".
    """
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.distance(edit_words(previous), edit_words(revised)))


def edit_ratio(revised: str, previous: str) -> float | None:
    """Measure `edit_ratio`: `edit_distance` / words of the previous answer. 0 or more; above 1 if much was added.

    None if the previous answer has no word. Source: KIWI table 6, "Edit ratio".
    """
    word_count = len(edit_words(previous))
    return edit_distance(revised, previous) / word_count if word_count else None


def is_unspaced(text: str) -> bool:
    """Return whether a text is in a script without spaces, in which SQuAD's and rouge-score's tokens are no words."""
    return language_of(text) in UNSPACED_LANGUAGES


def grade_exchange(exchange: Exchange, history: Sequence[Message]) -> list[tuple[str, float | None, str]]:
    """Measure a turn of `turnmark chat`; return name, value and a remark of each metric."""
    reply = exchange.reply
    answer = strip_citations(reply.answer).strip()
    texts = [citation.text for citation in reply.citations]
    unit = "characters" if is_unspaced(answer) else "words"
    rows: list[tuple[str, float | None, str]] = [
        ("grounded", reply.checks.grounded, "sentences that their sources support"),
    ]
    if is_unspaced(answer):
        rows.append(("k_precision[unicode]", k_precision_unicode(answer, texts), "characters that are in the sources"))
    else:
        # The assistant's own replies are no evidence: it could repeat its mistakes.
        messages = [*(message.content for message in history if message.role == "user"), exchange.question]
        rows += [
            ("k_precision", k_precision(answer, texts), "words that are in the sources"),
            ("k_precision[+history]", k_precision(answer, texts, messages), "or in the conversation"),
        ]
    rows.append(("answer_words", answer_words(answer), f"{unit} of the answer"))
    if reply.checks.parts_answered is not None:
        rows.append(("part_coverage", reply.checks.parts_answered, "parts of the question that are answered"))
    if exchange.edit is None:
        return [*rows, ("rouge_l.word", None, "needs your own version: /edit")]
    edit = strip_citations(exchange.edit)
    rouge = ("rouge_l.word", rouge_l_word) if is_latin(edit) else ("rouge_l.word[unicode]", rouge_l_unicode)
    recall = ("token_recall", token_recall)
    if is_unspaced(edit):
        recall = ("token_recall[unicode]", token_recall_unicode)
    return [
        *rows,
        (rouge[0], rouge[1](answer, edit), "against your version"),
        (recall[0], recall[1](answer, edit), f"{unit} of your version that the answer contains"),
    ]
