"""Metrics of written answers that need no judge, shared by the benchmarks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from turnmark.assistant.wording.refusals import refusal_extent
from turnmark.corpora.text.segmentation import is_latin, sentences, words
from turnmark.evaluation.metric_style import LEAD_MARGIN_SUFFIX, LEAD_SUFFIX, MetricStyle
from turnmark.evaluation.metrics import overlap
from turnmark.evaluation.metrics.citations import citation_scores
from turnmark.evaluation.metrics.idk_conditioning import clarify_label, sample_values, unknown_label
from turnmark.evaluation.scores.derived_figures import EXTRA_WORDS
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric, Value, metric
from turnmark.retrieval.embedding.vector_cache import Embed

ROUGE = "ROUGE-L F1 (rapidfuzz; rouge-score's tokens)"
ROUGE_UNICODE = "ROUGE-L F1 (rapidfuzz; Unicode words)"
ROUGE_CHAR = "ROUGE-L F1 (rapidfuzz; characters, beta 1)"
SQUAD = "SQuAD-normalised token multisets"
SQUAD_UNICODE = "Unicode word multisets; in scripts without spaces, characters"
WORDS = "words"
DECISION = "the decision; without one, the IDK detector by rules"


def says_unknown(context: Case) -> bool:
    """Return whether the reply says "I don't know".

    Its decision tells or, if none is recorded, the rules of `refusal_extent`.

    The rules read the raw reply, with its citation marks.
    """
    return refusal_extent(context.raw) == "yes" if context.decision is None else context.decision == "unknown"


def cut_lead(passages: Sequence[str], length: int) -> str:
    """Return the first sentences of the passages, cut at `length` words (`turnmark.corpora.text.segmentation.words`).

    The result is shorter if the passages have fewer words in total.
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
    """Return the longest prefix of a sentence with at most `limit` words."""
    if len(words(sentence)) <= limit:
        return sentence
    # Longer prefixes never have fewer words, so bisection finds the longest one.
    longest = bisect_right(range(len(sentence) + 1), limit, key=lambda end: len(words(sentence[:end]))) - 1
    return sentence[:longest].rstrip()


def _is_unspaced(about: Item | Case) -> bool:
    """Return whether the words of an item are not separated by spaces, so that SQuAD's tokens are no words."""
    return overlap.is_unspaced(about.reference or about.question)


def _against_reference(
    name: str,
    by: str,
    measure: Callable[[str, str], float | None],
    headline: int | None = None,
    suits: Callable[[str], bool] = lambda _: True,
    concerns: Callable[[Item], bool] = lambda _: True,
) -> Metric[Case]:
    """Make a metric of an answer and its reference.

    Args:
        suits: function from the reference to whether the metric's tokens are words of its script.
    """

    def value(case: Case) -> Mapping[str, Value]:
        return {name: measure(case.answer, case.reference)} if suits(case.reference) else {}

    def reason(case: Case) -> str:
        if case.reference.strip() and not suits(case.reference):
            return f"{NO_WORDS}: see {name}[unicode]"
        return "the data has no reference answer"

    shown = MetricStyle(headline=headline)
    return Metric(names=(name,), by=by, measure=value, without=reason, shown=shown, concerns=concerns)


def _is_spaced(text: str) -> bool:
    return not overlap.is_unspaced(text)


def _precision(context: Case) -> Mapping[str, Value]:
    if _is_unspaced(context):
        return {}
    return {
        "k_precision": overlap.k_precision(context.answer, context.passages or ()),
        "k_precision[+history]": overlap.k_precision(context.answer, context.passages or (), context.messages),
    }


def _without_precision(context: Case) -> str:
    return f"{NO_WORDS}: see k_precision[unicode]" if _is_unspaced(context) else NO_PASSAGES


def _lead(context: Case) -> Mapping[str, Value]:
    passages = context.passages or ()
    if not any(words(text) for text in passages):
        return {}
    text = cut_lead(passages, len(words(context.answer)))
    values: dict[str, Value] = {}
    for name, measure, suits in _LEAD_MEASURES:
        if not suits(context.reference):
            continue
        of_lead = measure(text, context.reference)
        of_answer = measure(context.answer, context.reference)
        if of_lead is not None and of_answer is not None:
            values[f"{name}{LEAD_SUFFIX}"] = of_lead
            values[f"{name}{LEAD_MARGIN_SUFFIX}"] = of_answer - of_lead
    return values


def _without_lead(context: Case) -> str:
    if context.reference.strip() and not is_latin(context.reference):
        return NO_WORDS
    return f"{NO_PASSAGES}, or there is no reference answer"


_LEAD_MEASURES = (
    ("rouge_l.word", overlap.rouge_l_word, is_latin),
    ("token_recall", overlap.token_recall, _is_spaced),
)
NO_WORDS = "the published tokens are no words of this script"
NO_PASSAGES = "there are no passages, or not all of their texts are known"
REFERENCE_METRICS: tuple[Metric[Case], ...] = (
    _against_reference("rouge_l.word", ROUGE, overlap.rouge_l_word, 100, is_latin),
    _against_reference("rouge_l.word[unicode]", ROUGE_UNICODE, overlap.rouge_l_unicode, 101),
    _against_reference("token_recall", SQUAD, overlap.token_recall, 120, _is_spaced),
    _against_reference(
        "token_recall[unicode]", SQUAD_UNICODE, overlap.token_recall_unicode, 121, concerns=_is_unspaced
    ),
)
CHARACTER_METRICS = (_against_reference("rouge_l.char", ROUGE_CHAR, overlap.rouge_l_char, 130),)
PASSAGE_METRICS: tuple[Metric[Case], ...] = (
    Metric(
        names=("k_precision", "k_precision[+history]"),
        by=SQUAD,
        measure=_precision,
        without=_without_precision,
        shown={"k_precision": MetricStyle(headline=110)},
    ),
    Metric(
        names=("k_precision[unicode]",),
        by=SQUAD_UNICODE,
        measure=lambda case: {"k_precision[unicode]": overlap.k_precision_unicode(case.answer, case.passages or ())},
        without=NO_PASSAGES,
        shown=MetricStyle(headline=111),
        concerns=_is_unspaced,
    ),
)
LEAD_METRICS: tuple[Metric[Case], ...] = (
    Metric(
        names=tuple(
            f"{name}{mark}" for name in ("rouge_l.word", "token_recall") for mark in (LEAD_SUFFIX, LEAD_MARGIN_SUFFIX)
        ),
        by="the first sentences of the passages, as long as the answer",
        measure=_lead,
        without=_without_lead,
    ),
)


@metric(by=WORDS, style=MetricStyle(digits=(1, 1), direction=None, fraction=False, headline=230))
def answer_words(case: Case) -> float:
    """Count the words of the answer."""
    return overlap.answer_words(case.answer)


@metric(
    by=WORDS,
    name=EXTRA_WORDS,
    without="the data has no reference answer",
    style=MetricStyle(digits=(1, 1), direction=None, fraction=False),
)
def extra_words(case: Case) -> float | None:
    """Count the words of the answer beyond those of the reference; negative if it is shorter."""
    if not case.reference.strip():
        return None
    return overlap.answer_words(case.answer) - overlap.answer_words(case.reference)


@metric(by=DECISION, style=MetricStyle(direction=None, headline=220))
def idk_rate(case: Case) -> float:
    """Measure whether the reply says "I don't know"."""
    return float(says_unknown(case))


CITATION_PRECISION, CITATION_RECALL = "citation_precision[embedded]", "citation_recall[embedded]"


def citation_metrics(embed: Embed) -> Metric[Case]:
    """Return the metrics of citations; a reply that cites nothing, or whose sources are not known, gets no line."""

    def measure(case: Case) -> Mapping[str, Value]:
        if not case.cited:
            return {}
        precision, recall = citation_scores(case.raw, case.cited, case.question, embed)
        return {CITATION_PRECISION: precision, CITATION_RECALL: recall}

    return Metric(
        names=(CITATION_PRECISION, CITATION_RECALL),
        by="citations that support their claims, by words, numbers, names and embeddings; no language model",
        measure=measure,
        without="the reply makes no claim, or the text of a source is not known",
        suits=lambda sample: bool(sample.cited),
    )


STYLE_METRICS: tuple[Metric[Case], ...] = (answer_words, idk_rate)


# --- the decision of a reply against the label of its task -----------------------------------------------------------

ALWAYS_SUFFIX, HEDGED_SUFFIX = "[always-unknown]", "[hedged]"
NOT_COUNTED = "the sample does not count in this figure"


def _detection(
    name: str,
    positive: Callable[[str | None], bool | None],
    predicted: Callable[[Case], bool | None],
    by: str = DECISION,
    mark: str = "",
    without: str = NOT_COUNTED,
    headline: int | None = None,
) -> Metric[Case]:
    """Make metrics of samples whose weighted means over all samples are precision, recall and F1.

    Args:
        positive: function from the answerability label to whether the task is positive, or None if it does not count.
        predicted: function from the case to whether the reply is positive, or None if it does not count.
        mark: suffix of the metric names.
    """

    def measure(context: Case) -> Mapping[str, Value]:
        label, prediction = positive(context.answerability), predicted(context)
        if label is None or prediction is None:
            return {}
        return {f"{name}.{part}{mark}": value for part, value in sample_values(label, prediction).items()}

    names = tuple(f"{name}.{key}{mark}" for key in ("precision", "recall", "f1"))
    return Metric(
        names=names, by=by, measure=measure, without=without, shown={f"{name}.f1{mark}": MetricStyle(headline=headline)}
    )


def _clarifies(context: Case) -> bool | None:
    return None if context.decision is None else context.decision == "clarify"


def _unknown_or_hedged(context: Case) -> bool | None:
    return None if context.decision is None else bool(says_unknown(context)) or context.hedged


UNKNOWN_METRICS: tuple[Metric[Case], ...] = (
    _detection("unknown", unknown_label, says_unknown, headline=200),
    _detection(
        "unknown", unknown_label, _unknown_or_hedged, "the decision; a hedged reply counts as unknown", HEDGED_SUFFIX
    ),
    _detection("unknown", unknown_label, lambda _: True, "a system that always says unknown", ALWAYS_SUFFIX),
)
CLARIFY_METRICS: tuple[Metric[Case], ...] = (
    _detection(
        "clarify", clarify_label, _clarifies, without=f"no decision is recorded, or {NOT_COUNTED}", headline=210
    ),
)
