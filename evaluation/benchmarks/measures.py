"""The metrics of written answers that need no judge, as the benchmarks share them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from turnmark.assistant.steps.marks import says_unknown
from turnmark.corpora.text import sentences, words
from turnmark.evaluation.benchmarks.base import Metric, Value
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.metrics.decisions import clarify_label, said_unknown, sample_values, unknown_label

ROUGE = "ROUGE-L F1 (rapidfuzz; rouge-score's tokens)"
ROUGE_UNICODE = "ROUGE-L F1 (rapidfuzz; Unicode words)"
ROUGE_CHAR = "ROUGE-L F1 (rapidfuzz; characters, beta 1)"
SQUAD = "SQuAD-normalised token multisets"
WORDS = "words"
DECISION = "the decision; without one, the IDK detector by rules"
LEAD, BESIDE_LEAD = "[lead]", "[-lead]"
"""Marks the baseline that gives the first sentences of the passages, as many words as the answer has."""


@dataclass(frozen=True)
class Answered:
    """What the metrics of an answer look at.

    Attributes:
        raw: the answer as it was written, with its citation marks.
        answer: the same without them.
        reference: empty where the data has none.
        passages: the texts that the system was given; none where one of them is not known.
        history: the messages up to and including the question.
        decision: of the system; None where it records none.
    """

    raw: str
    answer: str
    reference: str = ""
    passages: Sequence[str] = ()
    history: Sequence[str] = ()
    decision: str | None = None


def unknown(context: Answered) -> bool:
    """Whether the reply says "I don't know": its decision or, where none is recorded, the detector."""
    return bool(said_unknown(context.decision, says_unknown(context.raw)))


def lead(passages: Sequence[str], length: int) -> str:
    """The first sentences of the passages, one passage after the other, cut at `length` words
    (`turnmark.corpora.text.words`).

    Shorter only where the passages have fewer words together.
    """
    sentences_taken: list[str] = []
    words_left = length
    for text in passages:
        for start, end in sentences(text):
            if words_left <= 0:
                return " ".join(sentences_taken)
            sentence = _cut(text[start:end], words_left)
            sentences_taken.append(sentence)
            words_left -= len(words(sentence))
    return " ".join(sentences_taken)


def _cut(sentence: str, limit: int) -> str:
    """The longest beginning with at most so many words; the number of words grows with the beginning."""
    if len(words(sentence)) <= limit:
        return sentence
    longest = bisect_right(range(len(sentence) + 1), limit, key=lambda end: len(words(sentence[:end]))) - 1
    return sentence[:longest].rstrip()


def _rouge(context: Answered) -> Mapping[str, Value]:
    return {"rouge_l.word": overlap.rouge_l_word(context.answer, context.reference)}


def _rouge_unicode(context: Answered) -> Mapping[str, Value]:
    return {"rouge_l.word[unicode]": overlap.rouge_l_unicode(context.answer, context.reference)}


def _rouge_char(context: Answered) -> Mapping[str, Value]:
    return {"rouge_l.char": overlap.rouge_l_char(context.answer, context.reference)}


def _recall(context: Answered) -> Mapping[str, Value]:
    return {"token_recall": overlap.token_recall(context.answer, context.reference)}


def _precision(context: Answered) -> Mapping[str, Value]:
    return {
        "k_precision": overlap.k_precision(context.answer, context.passages),
        "k_precision[+history]": overlap.k_precision(context.answer, context.passages, context.history),
    }


def _words(context: Answered) -> Mapping[str, Value]:
    return {"answer_words": overlap.answer_words(context.answer)}


def _idk(context: Answered) -> Mapping[str, Value]:
    return {"idk_rate": float(unknown(context))}


def _lead(context: Answered) -> Mapping[str, Value]:
    if not any(words(text) for text in context.passages):
        return {}
    text = lead(context.passages, len(words(context.answer)))
    values: dict[str, Value] = {}
    for name, measure in (("rouge_l.word", overlap.rouge_l_word), ("token_recall", overlap.token_recall)):
        theirs, ours = measure(text, context.reference), measure(context.answer, context.reference)
        if theirs is not None and ours is not None:
            values |= {f"{name}{LEAD}": theirs, f"{name}{BESIDE_LEAD}": ours - theirs}
    return values


NO_REFERENCE = "the data has no reference answer"
NO_PASSAGES = "there are no passages, or not all of their texts are known"

REFERENCE_METRICS: tuple[Metric[Answered], ...] = (
    Metric(("rouge_l.word",), ROUGE, _rouge, NO_REFERENCE),
    Metric(("rouge_l.word[unicode]",), ROUGE_UNICODE, _rouge_unicode, NO_REFERENCE),
    Metric(("token_recall",), SQUAD, _recall, NO_REFERENCE),
)
CHARACTER_METRICS: tuple[Metric[Answered], ...] = (Metric(("rouge_l.char",), ROUGE_CHAR, _rouge_char, NO_REFERENCE),)
PASSAGE_METRICS: tuple[Metric[Answered], ...] = (
    Metric(("k_precision", "k_precision[+history]"), SQUAD, _precision, NO_PASSAGES),
)
LEAD_METRICS: tuple[Metric[Answered], ...] = (
    Metric(
        tuple(f"{name}{mark}" for name in ("rouge_l.word", "token_recall") for mark in (LEAD, BESIDE_LEAD)),
        "the first sentences of the passages, as long as the answer",
        _lead,
        f"{NO_PASSAGES}, or there is no reference answer",
    ),
)
STYLE_METRICS: tuple[Metric[Answered], ...] = (
    Metric(("answer_words",), WORDS, _words),
    Metric(("idk_rate",), DECISION, _idk),
)


# --- what a reply decides, beside how its task is labelled -----------------------------------------------------------

ALWAYS = "[always-unknown]"
NOTHING = "it adds nothing to this figure"


@dataclass(frozen=True)
class Labelled(Answered):
    """An answer and how its task is labelled."""

    answerability: str | None = None


def _detection(
    name: str,
    positive: Callable[[str | None], bool | None],
    predicted: Callable[[Labelled], bool | None],
    by: str = DECISION,
    mark: str = "",
    without: str = NOTHING,
) -> Metric[Labelled]:
    """Precision, recall and F1, for each sample values whose weighted means over all samples are these figures."""

    def measure(context: Labelled) -> Mapping[str, Value]:
        label, prediction = positive(context.answerability), predicted(context)
        if label is None or prediction is None:
            return {}
        values = sample_values(label, prediction)
        return {f"{name}.{key}{mark}": (value[0], float(len(value))) for key, value in values.items() if value}

    return Metric(tuple(f"{name}.{key}{mark}" for key in ("precision", "recall", "f1")), by, measure, without)


def _clarifies(context: Labelled) -> bool | None:
    return None if context.decision is None else context.decision == "clarify"


UNKNOWN_METRICS: tuple[Metric[Labelled], ...] = (
    _detection("unknown", unknown_label, unknown),
    _detection("unknown", unknown_label, lambda _: True, "a system that always says unknown", ALWAYS),
)
CLARIFY_METRICS: tuple[Metric[Labelled], ...] = (
    _detection("clarify", clarify_label, _clarifies, without=f"no decision is recorded, or {NOTHING}"),
)
