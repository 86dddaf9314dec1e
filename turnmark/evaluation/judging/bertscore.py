"""BERTScore as a judge (`--judge bertscore[:MODEL]`): `bert_recall`, `bert_k_precision` and `rb_alg`.

The package bert-score computes the scores; the extra `[bertscore]` installs it. The default model is
microsoft/deberta-xlarge-mnli, rescaled by the package's baseline, as in MTRAG. Any other model is named by its folder.
Its metric has another name, which includes the model's, `bert_recall[all-MiniLM-L6-v2]`, and is not rescaled. The model
must be on this machine: a run downloads nothing.

Source: Zhang et al. 2020, "BERTScore"; MTRAG section 6.3.1 and appendix D; for details that these leave open, the
official script: it scores one passage at a time and takes the best.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError
from turnmark.core.extras import require_extra
from turnmark.evaluation.judging.rubrics import BERT_METRICS, by_code, require_material
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics.overlap import rouge_l_word
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome, Rubric
from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, SharedEmbed

PUBLISHED_MODEL = "microsoft/deberta-xlarge-mnli"
LANGUAGE = "en"
BUNDLED, BUNDLED_NAME = "minilm", "all-MiniLM-L6-v2"
UNLIMITED_TOKENS = 10**6
"""Token limit for a model with relative positions, which needs none. The package would pass on 10^30, too large for its
tokenizer."""


class Bert:
    """A model of BERTScore, loaded at the first call. Safe to call from many threads; it serves one at a time.

    Args:
        model: the model's folder.
        name: the model's name in the metric names; empty for the published model, whose values are rescaled by the
            package's baseline, so that two random sentences score about 0.
        layers: number of the layer whose vectors are compared. If it is None, this is the package's choice for the
            published model, and the last layer of other models.
    """

    def __init__(self, model: str, name: str = "", layers: int | None = None) -> None:
        self.model, self.name, self.layers = model, name, layers
        one_thread = SharedEmbed(self._rows)  # PyTorch keeps memory and threads for every thread that calls
        self._latest = lru_cache(maxsize=256)(one_thread)

    @property
    def by(self) -> str:
        """The instrument, for reports."""
        if self.name:
            return f"bert-score with {self.name}, not rescaled"
        return f"bert-score with {PUBLISHED_MODEL}, rescaled by its baseline"

    def score(self, answers: Sequence[str], references: Sequence[str]) -> list[tuple[float, float]]:
        """Return (precision, recall) of each answer against its reference. The results of the latest calls are cached.

        The range is -1..1 without rescaling. Rescaled values are at most 1, about 0 for unrelated texts, and may be
        negative. A blank answer or reference gives 0 (before rescaling) for both, as in the package.
        """
        return [(float(precision), float(recall)) for precision, recall in self._latest((*answers, *references))]

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of the shape (pairs, 2), precision and recall, of the answers and as many references."""
        half = len(texts) // 2
        scorer = self._scorer
        low = np.zeros(2) if self.name else scorer.baseline_vals[:2].numpy()
        rows = np.tile(low / (low - 1) + 0.0, (half, 1))
        # The package fails on blank texts.
        nonblank = [i for i in range(half) if texts[i].strip() and texts[half + i].strip()]
        if nonblank:
            answers, references = [texts[i] for i in nonblank], [texts[half + i] for i in nonblank]
            precision, recall, _ = scorer.score(answers, references)
            rows[nonblank] = np.stack([precision.numpy(), recall.numpy()], axis=1)
        return rows.astype(np.float32)

    @cached_property
    def _scorer(self) -> Any:
        try:
            import bert_score
            from bert_score.utils import model2layers
            from transformers import AutoConfig
            from transformers.utils import logging

            logging.disable_progress_bar()
            layers, published = self.layers, {}
            if self.name:
                layers = layers or AutoConfig.from_pretrained(self.model).num_hidden_layers
            else:
                layers = layers or model2layers[PUBLISHED_MODEL]
                baseline = Path(bert_score.__file__).parent / "rescale_baseline" / LANGUAGE / f"{PUBLISHED_MODEL}.tsv"
                published = {"rescale_with_baseline": True, "baseline_path": str(baseline)}
            scorer = bert_score.BERTScorer(model_type=self.model, num_layers=layers, lang=LANGUAGE, **published)
        except Exception as error:
            lines = str(error).strip().splitlines()
            reason = lines[0] if lines else type(error).__name__
            raise RequestError(
                f"BERTScore: {self.model!r} cannot be loaded: {reason}; name a folder with a model of transformers"
            ) from error
        tokenizer, config = scorer._tokenizer, scorer._model.config
        if tokenizer.model_max_length > UNLIMITED_TOKENS:
            relative_positions = getattr(config, "position_biased_input", True) is False
            tokenizer.model_max_length = UNLIMITED_TOKENS if relative_positions else config.max_position_embeddings
        return scorer


def open_bert(model: str | None = None) -> Bert:
    """Find the model of BERTScore; it is loaded later.

    Args:
        model: `minilm` (the bundled model) or a folder of transformers or sentence-transformers, or None for
            the published model.

    Raises:
        RequestError: the package bert-score is not installed, or the model is not on this machine.
    """
    require_extra("bertscore", "BERTScore")
    if model is None or model == PUBLISHED_MODEL:
        return Bert(str(_cached_model()))
    if model == BUNDLED:
        return Bert(str(MINILM_FOLDER), BUNDLED_NAME)
    folder = Path(model).expanduser()
    if not (folder / "config.json").is_file():
        raise RequestError(
            f"BERTScore: {model!r} is not a folder with a model of transformers or sentence-transformers (config.json "
            f"and weights); name one, or write bertscore:{BUNDLED}"
        )
    return Bert(str(folder), folder.resolve().name)


def _cached_model() -> Path:
    """Return the folder of the published model in the cache of the Hugging Face hub."""
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", "pytorch_model.bin", "model.safetensors")
    config, *weights = (try_to_load_from_cache(PUBLISHED_MODEL, name) for name in files)
    if isinstance(config, str) and any(isinstance(path, str) for path in weights):
        return Path(config).parent
    raise RequestError(
        f"BERTScore: {PUBLISHED_MODEL!r} is not among the models of the hub on this machine, and a run downloads "
        f"nothing; fetch it once with 'hf download {PUBLISHED_MODEL}' (about 3 GB), or name another: bertscore:FOLDER, "
        f"bertscore:{BUNDLED}"
    )


# --- the metrics -----------------------------------------------------------------------------------------------------


def bert_recall(bert: Bert, answer: str, reference: str) -> float | None:
    """Measure `bert_recall`: BERTScore recall of the reference's tokens in the answer. None without a reference."""
    if not reference.strip():
        return None
    _, recall = bert.score([answer], [reference])[0]
    return recall


def bert_k_precision(bert: Bert, answer: str, passages: Sequence[str]) -> float | None:
    """Measure `bert_k_precision`: BERTScore precision of the answer's tokens in a passage; the best passage counts.

    None if no passage has text. The published values also compare with single passages, not with their union.
    """
    texts = [text for text in passages if text.strip()]
    return max(precision for precision, _ in bert.score([answer] * len(texts), texts)) if texts else None


def rb_alg(recall: float, rouge_l: float, k_precision: float) -> float:
    """Measure `rb_alg`: the harmonic mean of (recall + 1) / 2, ROUGE-L and (k_precision + 1) / 2; in 0..1.

    It is 0 if one of the three is 0 or below. In the paper's released scores, a task without passages has a K-precision
    of 0, which is .5 in the mean; without this, the .75 and .26 of unanswerable tasks in Table 13 cannot be reproduced.
    """
    parts = ((recall + 1) / 2, rouge_l, (k_precision + 1) / 2)
    return 0.0 if min(parts) <= 0 else statistics.harmonic_mean(parts)


# --- the judge -------------------------------------------------------------------------------------------------------

_FORM = "without passages: 0"  # part of a judgment's key, for rubrics that depend on this rule
NO_PASSAGES = "there are no passages"
NO_WORDS = "the reference has no Latin letters or digits, which are all that ROUGE-L counts"


def bert_rubrics(bert: Bert, judge: str) -> tuple[Rubric, ...]:
    """Return the rubrics of the metrics in `BERT_METRICS` for one model. They are deterministic.

    The metrics of the published model have the plain names; those of another model end in its name,
    `bert_recall[all-MiniLM-L6-v2]`.

    Args:
        judge: name of the BERTScore judge; for any other generator the rubrics are not applicable.
    """
    recall_name, precision_name, mean_name = (f"{name}[{bert.name}]" if bert.name else name for name in BERT_METRICS)

    def recall(case: Case) -> Outcome:
        return Outcome(status="scored", value=bert_recall(bert, case.answer, case.reference))

    def precision(case: Case) -> Outcome:
        value = bert_k_precision(bert, case.answer, case.passages or ())
        return Outcome(status="scored", value=value or 0.0, reason=NO_PASSAGES if value is None else "")

    def mean(case: Case) -> Outcome:
        recall_value = bert_recall(bert, case.answer, case.reference)
        rouge_l = rouge_l_word(case.answer, case.reference)
        assert recall_value is not None, "`needs` asks for a reference"
        assert rouge_l is not None, "`_needs_all` asks for words that ROUGE-L counts"
        k_precision = bert_k_precision(bert, case.answer, case.passages or ())
        k_precision_note = NO_PASSAGES if k_precision is None else f"K-precision {k_precision:.3f}"
        reason = f"recall {recall_value:.3f}, {k_precision_note}, ROUGE-L {rouge_l:.3f}"
        return Outcome(status="scored", value=rb_alg(recall_value, rouge_l, k_precision or 0.0), reason=reason)

    without = "without passages K-precision is 0"
    return (
        Rubric(recall_name, f"recall of the reference, {bert.by}", (),
            by_code(judge, recall), require_material(reference=True),
        ),
        Rubric(
            precision_name, f"precision against the nearest passage, {bert.by}; {without}", (),
            by_code(judge, precision), require_material(passages=True), extra=_FORM,
        ),
        Rubric(
            mean_name, f"harmonic mean of recall, K-precision and ROUGE-L, {bert.by}; {without}", (),
            by_code(judge, mean), _needs_all, extra=_FORM, shown={mean_name: MetricStyle(headline=90)},
        ),
    )  # fmt: skip


def _needs_all(case: Case) -> str | None:
    """Return why `rb_alg` does not apply to a case, or None if it does."""
    missing = require_material(passages=True, reference=True)(case)
    if missing:
        return missing
    return NO_WORDS if rouge_l_word("", case.reference) is None else None
