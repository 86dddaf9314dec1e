"""The embedded judge, which has no language model: `idk[embedded]`, `rl_f[embedded]`, `completeness[embedded]` and
`appropriateness[embedded]`.

Each of the last three is a weighted sum of a few features of a reply (words and meaning shared with passages, question
and reference). The weights are fitted to human ratings of two models' answers. The metrics have the names of published
ones but measure differently; docs/measured.md reports how well they agree with people. English only. Texts are embedded
sentence by sentence, each text separately, so that no value depends on the other judged texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.assistant.llm.calls.protocols import CONTEXT_TOKENS, Completion, GeneratorError, PromptMessage
from turnmark.assistant.steps.verify.claim_support import Sources, content_stems, language_of_sources, stems
from turnmark.assistant.wording.refusals import refusal_extent, refusal_wording
from turnmark.corpora.text.segmentation import sentences, strip_citations, strip_inline_markdown, words
from turnmark.evaluation.judging.rubrics import EMBEDDED_JUDGE, by_code, require_material, unless_unreadable
from turnmark.evaluation.metric_style import DEFAULT_STYLE, MetricStyle, MetricStyles
from turnmark.evaluation.metrics.idk_conditioning import IDK_VALUES
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome, Rubric
from turnmark.retrieval.embedding.vector_cache import Embed

Vectors = NDArray[np.float32]

WEIGHTS_FILE = Path(__file__).with_name("extractive_weights.json")
VARIANT = f"[{EMBEDDED_JUDGE}]"
IDK_METRIC = f"idk{VARIANT}"
FAITHFULNESS, COMPLETENESS, APPROPRIATENESS = f"rl_f{VARIANT}", f"completeness{VARIANT}", f"appropriateness{VARIANT}"
NAMES = (FAITHFULNESS, COMPLETENESS, APPROPRIATENESS, IDK_METRIC)
"""Names of the metrics of the embedded judge."""
PROPERTIES: Mapping[str, str] = {
    FAITHFULNESS: "faithfulness", COMPLETENESS: "completeness", APPROPRIATENESS: "appropriateness",
}  # fmt: skip
"""Metric -> the property that people rated; the weights have the same keys."""
MIN_RATING, MAX_RATING = 1.0, 4.0
"""Ends of the human rating scale; a predicted rating of 1 is a score of 0, one of 4 a score of 1."""
NO_CONTENT = "the reply has no word that could be looked up in the passages"
NO_CLAIM = "the reply says that it does not know and makes no claim that could be checked"


@lru_cache(maxsize=1)
def _weights() -> Mapping[str, Any]:
    """Return property -> the coefficients of its rating: `intercept` and `weights` (feature -> weight)."""
    fits: Mapping[str, Any] = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))["fits"]
    return fits


class NoModel:
    """The generator of a judge that has no language model, by the judge's name."""

    context_tokens, reply_tokens = CONTEXT_TOKENS, 0

    def __init__(self, name: str = EMBEDDED_JUDGE) -> None:
        self.name = name

    def complete(self, messages: Sequence[PromptMessage], **_: Any) -> Completion:  # noqa: ARG002
        """Raise `GeneratorError`: there is no model to ask."""
        raise GeneratorError("bad_request", f"the judge {self.name!r} has no language model")


def extractive_rubrics(embed: Embed, embedder: str) -> tuple[Rubric, ...]:
    """Return the rubrics of the embedded judge, in the order of `NAMES`. They are deterministic.

    Only the embedded judge's generator (`NoModel`) gets an outcome, so that other judges and estimates cost nothing.
    """
    embedded = SentenceVectors(embed)

    def rated(
        name: str, by: str, grade: Callable[[Case], Outcome], shown: MetricStyles = DEFAULT_STYLE, **looks_at: bool
    ) -> Rubric:
        description = f"embedded judge over {embedder}, no language model: people's {by}"
        return Rubric(
            name, description, (), by_code(EMBEDDED_JUDGE, grade),
            unless_unreadable(embedder, require_material(**looks_at)),
            extra=_extra(embedder), shown=shown,
        )  # fmt: skip

    return (
        rated(
            FAITHFULNESS, "faithfulness from shared words and meaning", lambda case: _faithfulness(case, embedded),
            MetricStyle(headline=80), passages=True,
        ),
        rated(
            COMPLETENESS, "completeness from reference and passages",
            lambda case: _predict_rating(COMPLETENESS, case, embedded), passages=True, reference=True,
        ),
        rated(
            APPROPRIATENESS, "appropriateness from the reference",
            lambda case: _predict_rating(APPROPRIATENESS, case, embedded), reference=True,
        ),
        Rubric(
            IDK_METRIC, "IDK verdict by wording: yes 1, partial 0.5, no 0; no language model", (),
            by_code(EMBEDDED_JUDGE, _measure_idk), require_material(), "nominal", IDK_VALUES, extra=_extra(""),
            shown=MetricStyle(direction=None),
        ),
    )  # fmt: skip


@lru_cache(maxsize=8)
def _extra(embedder: str) -> str:
    """Return `Rubric.extra`: everything else that can change an outcome, which is the embedder and the weights."""
    weights = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
    return f"{embedder} {json.dumps(weights, sort_keys=True)}".strip()


# --- grading ---------------------------------------------------------------------------------------------------------


def _measure_idk(case: Case) -> Outcome:
    label, counts = refusal_extent(case.answer), refusal_wording(case.answer)
    position = ", the first one among them" if counts.opens else ""
    reason = f"{counts.lacks} sentences say that something is missing{position}; {counts.claimed} words claim something"
    return Outcome(status="scored", value=IDK_VALUES[label], label=label, reason=reason)


def _predict_rating(metric: str, case: Case, embedded: SentenceVectors) -> Outcome:
    if not parts_of(case.answer):
        return Outcome(status="scored", value=0.0, reason="the reply has no words")
    fit = _weights()[PROPERTIES[metric]]
    features = reply_features(case, embedded, tuple(fit["weights"]))
    rating = float(fit["intercept"]) + sum(weight * features[name] for name, weight in fit["weights"].items())
    value = min(1.0, max(0.0, (rating - MIN_RATING) / (MAX_RATING - MIN_RATING)))
    reason = ", ".join(f"{name} {feature:.2f}" for name, feature in features.items())
    return Outcome(status="scored", value=value, reason=reason)


def _faithfulness(case: Case, embedded: SentenceVectors) -> Outcome:
    if refusal_extent(case.answer) == "yes":
        return Outcome(status="not_applicable", reason=NO_CLAIM)
    answer = strip_citations(case.answer)
    if words(answer) and not content_stems(answer, language_of_sources(case.passages or (), answer)):
        return Outcome(status="not_applicable", reason=NO_CONTENT)
    rated = _predict_rating(FAITHFULNESS, case, embedded)
    parts = _mark_supported_sentences(case, embedded)
    unsupported = [part for part, supported in parts if not supported]
    reason = rated.reason
    if unsupported:
        reason += f"; hardly in the passages or the conversation: {' / '.join(unsupported)}"
    lines = tuple(f"{'supported' if supported else 'not supported'}: {part}" for part, supported in parts)
    return rated.model_copy(update={"reason": reason, "parts": lines})


def _mark_supported_sentences(case: Case, embedded: SentenceVectors) -> list[tuple[str, bool]]:
    """Return each sentence of a reply with whether passages or earlier turns support it (numbers and names verbatim).

    This only explains the score; the score does not depend on it.
    """
    texts = [*(case.passages or ()), *(turn.content for turn in case.history), case.question]
    sources = Sources(texts, embedded)
    all_numbers = range(1, len(texts) + 1)
    return [(part, sources.supports(part, all_numbers)) for part in parts_of(case.answer)]


def parts_of(text: str) -> list[str]:
    """Return the sentences of a text that have words, as plain text without citation marks."""
    bare = strip_citations(text)
    plain_sentences = [strip_inline_markdown(bare[start:end]) for start, end in sentences(bare)]
    return [sentence for sentence in plain_sentences if words(sentence)]


class SentenceVectors:
    """Sentence vectors of texts, cached because several features use the same reply and passages.

    Safe to call from many threads.
    """

    def __init__(self, embed: Embed) -> None:
        self._latest = lru_cache(maxsize=512)(embed)

    def __call__(self, parts: Sequence[str]) -> Vectors:
        """Return unit vectors of the shape (parts, dimension)."""
        return self._latest(tuple(parts))

    def nearest(self, parts: Sequence[str], texts: Sequence[str]) -> list[float]:
        """Return for each part the best cosine with any sentence of the texts, in 0..1; 0 if there are no sentences."""
        cosines = [0.0] * len(parts)
        if not parts:
            return cosines
        vectors = self(parts)
        for text in texts:
            sentences_of_text = parts_of(text)
            if sentences_of_text:
                best = (vectors @ self(sentences_of_text).T).max(axis=1)
                cosines = [min(1.0, max(highest, float(cosine))) for highest, cosine in zip(cosines, best, strict=True)]
        return cosines


def reply_features(case: Case, embedded: SentenceVectors, names: Sequence[str]) -> dict[str, float]:
    """Compute the named features of a reply; see `FEATURES`."""
    return {name: FEATURES[name](case, embedded) for name in names}


def _unsupported_share(case: Case, _: SentenceVectors) -> float:
    """Return the share of the reply's content words that occur neither in a passage nor in the question."""
    answer = strip_citations(case.answer)
    language = language_of_sources(case.passages or (), answer)
    answer_stems = content_stems(answer, language)
    if not answer_stems:
        return 0.0
    passage_stems = [stems(passage, language) for passage in case.passages or ()]
    expected_stems = content_stems(case.question, language).union(*passage_stems)
    return len(answer_stems - expected_stems) / len(answer_stems)


def _meant(case: Case, embedded: SentenceVectors) -> float:
    """Find the best cosine of each sentence of the reply with a passage sentence; return their mean, weighted by
    words."""
    parts = parts_of(case.answer)
    return weighted_mean(parts, embedded.nearest(parts, case.passages or ()))


def _evidence(case: Case, embedded: SentenceVectors) -> float:
    """Return the best cosine of the question with a passage sentence: low if no passage is about the question."""
    question = strip_inline_markdown(case.question)
    return embedded.nearest([question], case.passages or ())[0] if words(question) else 0.0


def _reference_coverage(case: Case, embedded: SentenceVectors) -> float:
    """Return the mean over the reference's sentences of the best cosine with one of the reply, weighted by words."""
    parts = parts_of(case.reference)
    return weighted_mean(parts, embedded.nearest(parts, [case.answer]))


def _on_topic(case: Case, embedded: SentenceVectors) -> float:
    """Return the mean over the reply's sentences of the best cosine with a sentence of the reference."""
    cosines = embedded.nearest(parts_of(case.answer), [case.reference])
    return sum(cosines) / len(cosines) if cosines else 0.0


FEATURES: Mapping[str, Callable[[Case, SentenceVectors], float]] = {
    "strange": _unsupported_share, "meant": _meant, "evidence": _evidence, "covered": _reference_coverage,
    "on_topic": _on_topic,
}  # fmt: skip


def weighted_mean(parts: Sequence[str], values: Sequence[float]) -> float:
    """Return the mean of the parts' values, weighted by their numbers of words, or 0 without parts."""
    sizes = [len(words(part)) for part in parts]
    total = sum(sizes)
    return sum(size * value for size, value in zip(sizes, values, strict=True)) / total if total else 0.0
