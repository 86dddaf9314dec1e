"""What MTRAG prints of its human evaluation, and where its tables and texts do not say the same.

159 tasks in four domains, 5 conversations each. A file with fewer of them gives other figures.
"""

from __future__ import annotations

from collections.abc import Collection

from turnmark.evaluation.agreement.rows import ALL, FANC

SOURCE = "MTRAG Table 6, Table 7, figure 4 and section 7; 159 tasks of four domains"
RATED = 135
"""Tasks of Table 6. The text says 152 answerable and partial ones, the caption the answerable subset: over the full
file the 135 ANSWERABLE tasks give all nine printed columns, the 150 answerable and partial ones do not."""

SYSTEMS = ("reference", "gpt-4o", "llama-3.1-405b-instruct")
_COLUMNS = ("win-rate", *FANC, ALL, "rl_f", "rb_llm", "rb_agg")

MEANS = {
    "reference": dict(zip(_COLUMNS, (59.3, 3.8, 3.8, 4.0, 3.9, 3.8, 0.86, 0.97, 0.87), strict=True)),
    "gpt-4o": dict(zip(_COLUMNS, (47.8, 3.5, 3.8, 4.0, 3.7, 3.6, 0.80, 0.80, 0.46), strict=True)),
    "llama-3.1-405b-instruct": dict(zip(_COLUMNS, (47.4, 3.5, 3.9, 3.9, 3.7, 3.6, 0.78, 0.78, 0.49), strict=True)),
}
"""Table 6: system -> property or metric -> mean."""

ANNOTATORS = {
    "faithfulness": 0.896, "appropriateness": 0.921, "naturalness": 0.956, "completeness": 0.903, "win-rate": 0.874,
}  # fmt: skip
"""Section 7: property -> agreement as appendix E defines it."""

_FIGURE = ("RougeL", "Bert-KPrec", "Bert-Rec", "rb_agg", "rl_f", "rb_llm")
CORRELATIONS = {
    "win-rate": {"rb_agg": 0.24, "rb_llm": 0.33, "rl_f": 0.01},
    "faithfulness": dict(zip(_FIGURE, (0.48, 0.69, 0.33, 0.53, 0.68, 0.27), strict=True)),
    "appropriateness": dict(zip(_FIGURE, (0.45, 0.28, 0.49, 0.45, 0.32, 0.46), strict=True)),
    "naturalness": dict(zip(_FIGURE, (0.11, 0.36, 0.21, 0.42, 0.34, 0.30), strict=True)),
    "completeness": dict(zip(_FIGURE, (0.45, 0.59, 0.35, 0.49, 0.63, 0.33), strict=True)),
    ALL: dict(zip(_FIGURE, (0.46, 0.64, 0.39, 0.53, 0.63, 0.32), strict=True)),
}
"""Property -> metric -> weighted Spearman: the row of win-rate from Table 7, the others from figure 4."""

PREFERENCE_NOTE = (
    "Compound-QA section 5, beside the lines on preference: gpt-3.5-turbo against the majority of three people on 100 "
    "pairs has accuracy .81, mean TPR .8844 and mean FPR .1047; its people judge format and completeness alone"
)

NOTES = (
    "beside the printed figures: MTRAG rates 159 tasks of four domains; those of a file with fewer are other samples",
    "Table 6: its caption says the answerable subset, its text 152 answerable and partial tasks; over the full file "
    "the 135 answerable ones give all nine printed columns, and its win rates are nearer to means of all ratings (58.8 "
    "to 59.6 for the references, printed 59.3) than to means of medians (61.9 to 62.5)",
    "appendix E: over the full file neither the printed definition nor 'all equal' gives the printed agreement (.896, "
    ".921, .956, .903, .874); 'two equal' comes nearest (.905, .935, .965, .930, .885)",
    "Table 7 does not say which answers it is over, and figure 4 says answerable alone; here Table 7 is over all "
    "answers and systems, figure 4 over answerable and partial ones without the references",
    "neither says how it is weighted but to correct for imbalance; here a row weighs one over how often its human "
    "score occurs, in the ranks and in the correlation",
    "appendix E speaks of tasks; here each answer of a system counts. A point of the win rate is one of its steps (50)",
)


def is_mtrag(systems: Collection[str], properties: Collection[str]) -> bool:
    """Whether ratings look like those that the paper reports."""
    return set(SYSTEMS) <= set(systems) and set(ANNOTATORS) <= set(properties)
