"""Figures that are derived from other metrics of a run, and are no mean over its samples.

- `semeval_task8`: the harmonic mean of the means of `rl_f.idk`, `rb_llm.idk` and `rb_alg.idk`, by which SemEval-2026
  Task 8 ranks systems. Source: https://github.com/IBM/mt-rag-benchmark, docs/MTRAGEval/README.md; its examples are
  the harmonic means of the conditioned figures of MTRAG's Table 5.
- `win_rate[length-controlled]`: the win rate that a logistic regression predicts for answers as long as the references.
  Source: Dubois et al. 2024 (arXiv 2404.04475), without their term for the difficulty of each instruction, which takes
  the verdicts on many systems.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

import numpy as np

from turnmark.evaluation.records import MetricSummary
from turnmark.evaluation.scores.cluster_statistics import Floats

SEMEVAL, SEMEVAL_PARTS = "semeval_task8", ("rl_f.idk", "rb_llm.idk", "rb_alg.idk")
CONTROLLED_WINS, WINS, EXTRA_WORDS = "win_rate[length-controlled]", "win_rate", "answer_words[-reference]"
SLOPE_PENALTY = 1e-3
"""Weight of the squared slope, without which answers that always win if they are longer have no finite slope."""
MAX_STEPS = 100
MIN_COMPARED = 30
"""Minimum number of compared answers; of fewer, a regression mostly extrapolates."""


def derive(
    metrics: Mapping[str, MetricSummary], pairs: Callable[[str, str], tuple[Floats, Floats]]
) -> dict[str, tuple[float, int]]:
    """Return figure -> value and number of samples, for the figures whose parts were all measured.

    Args:
        pairs: function from two metrics to their values, over the samples that have both.
    """
    figures: dict[str, tuple[float, int]] = {}
    means = [metrics[name].mean for name in SEMEVAL_PARTS if name in metrics]
    measured = [mean for mean in means if mean is not None]
    if len(measured) == len(SEMEVAL_PARTS):
        figures[SEMEVAL] = statistics.harmonic_mean(measured), min(metrics[name].n for name in SEMEVAL_PARTS)
    if WINS in metrics and EXTRA_WORDS in metrics:
        wins, extra_words = pairs(WINS, EXTRA_WORDS)
        if len(wins) >= MIN_COMPARED:
            figures[CONTROLLED_WINS] = length_controlled(wins, extra_words), len(wins)
    return figures


def length_controlled(wins: Floats, extra_words: Floats) -> float:
    """Return the win rate predicted for answers as long as their references.

    The log-odds of a win are a constant plus a slope times tanh(difference in words / its root mean square), fitted by
    maximum likelihood. The prediction without a difference depends on the constant only.

    Args:
        wins: share of the verdicts on each answer that it wins, 0..1.
        extra_words: words of the answer minus words of its reference.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    rate, scale = float(wins.mean()), float(np.sqrt(np.mean(extra_words**2)))
    if rate in (0.0, 1.0) or scale == 0:
        return rate
    design = np.stack([np.ones(len(wins)), np.tanh(extra_words / scale)], axis=1)
    penalty = np.array([0.0, SLOPE_PENALTY])

    def loss_and_gradient(weights: Floats) -> tuple[float, Floats]:
        odds = design @ weights
        loss = np.logaddexp(0, odds).sum() - wins @ odds + penalty @ weights**2 / 2
        return float(loss), design.T @ (expit(odds) - wins) + penalty * weights

    start = [math.log(rate / (1 - rate)), 0.0]
    fitted = minimize(loss_and_gradient, start, jac=True, options={"gtol": 1e-9, "maxiter": MAX_STEPS})
    return float(expit(fitted.x[0]))
