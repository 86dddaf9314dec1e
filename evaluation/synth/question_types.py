"""Which types a question is of, by MTRAG's taxonomy (Table 9), from its wording and meaning; no language model.

MTRAG labels the questions of its synthetic companion with a classifier that was trained on the labels of the human
conversations (appendix G.1). This is one: a logistic regression a type over the MiniLM vector of the question and some
marks of its wording. Its weights, and how often people let one type follow another, are in `question_types.json`;
`python -m tests.benchmarks.question_types` makes that file and says what the classifier is worth (docs/synth.md).
English only. A question may be of several types.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from turnmark.corpora.text import words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QuestionType = Literal[
    "Comparative", "Composite", "Explanation", "Factoid", "How-To", "Keyword", "Non-Question", "Opinion",
    "Summarization", "Troubleshooting",
]  # fmt: skip
TYPES: tuple[QuestionType, ...] = get_args(QuestionType)
WEIGHTS = Path(__file__).with_name("question_types.json")

_AUXILIARY = "is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|am|isn't|aren't|don't|doesn't"
MARKS: Mapping[str, str] = {
    "what": r"^(?:and |so |but |ok(?:ay)?,? )?what\b",
    "who": r"^(?:and |so |but )?who(?:se|m)?\b",
    "when or where": r"^(?:and |so |but )?(?:when|where)\b",
    "which": r"\bwhich\b",
    "how": r"^(?:and |so |but )?how (?!many|much|long|old|often|far|big|tall|high)",
    "how many": r"\bhow (?:many|much|long|old|often|far|big|tall|high)\b",
    "how to": r"\bhow (?:to|do (?:i|you|we|they)|can (?:i|you|we)|should (?:i|we)|would (?:i|you))\b",
    "why": r"\bwhy\b|\breasons?\b|\bhow come\b",
    "yes or no": rf"^(?:and |so |but )?(?:{_AUXILIARY})\b",
    "compares": r"\b(?:differen(?:ce|t|ces)|compare[ds]?|comparison|versus|vs|pros and cons|similar|than|better|worse)"
    r"\b",
    "opinion": r"\b(?:think|opinion|best|better|should|recommend|favou?rite|worth|advice|good|prefer|believe|agree)\b",
    "tells": r"\b(?:tell|describe|explain|summar\w+|overview|about|information|history|give me|details?)\b",
    "trouble": r"\b(?:errors?|fails?|failed|problems?|issues?|wrong|fix|not working|doesn't work|stuck|trouble)\b",
    "first person": r"\b(?:i|i'm|i've|my|me|we|our)\b",
    "joins": r"\band\b",
    "asks": r"\?",
    "asks twice": r"\?.*\?",
    "polite": r"\b(?:thanks?|thank you|hi|hello|ok(?:ay)?|great|cool|interesting|sounds|wow)\b",
}
"""What the classifier sees of a question's wording: name -> pattern, looked for in lower case."""
_MARKS = tuple(re.compile(pattern, re.DOTALL) for pattern in MARKS.values())
Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]


def surface(question: str) -> list[float]:
    """The marks of a question's wording as 0 or 1; last the logarithm of its length, and whether it is very short."""
    low = " ".join(question.lower().split())
    count = len(words(low))
    short = float(count <= 4 and "?" not in low)
    return [*(float(bool(mark.search(low))) for mark in _MARKS), math.log1p(count), short]


@dataclass(frozen=True)
class Model:
    """The classifier, and what follows what.

    Attributes:
        intercepts: type -> of its logistic regression.
        weights: type -> of each dimension of the vector, then of each entry of `surface`.
        starts: type -> share of first questions.
        follows: type -> type -> share of the questions that come after one of the first type.
        clarifies: share of later questions that are labelled as clarifications.
        answerability: label -> share of the questions.
    """

    intercepts: Mapping[str, float]
    weights: Mapping[str, tuple[float, ...]]
    starts: Mapping[str, float]
    follows: Mapping[str, Mapping[str, float]]
    clarifies: float
    answerability: Mapping[str, float]


@lru_cache(maxsize=1)
def model() -> Model:
    """What the package ships."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Model(
        intercepts=stored["intercepts"],
        weights={name: tuple(values) for name, values in stored["weights"].items()},
        starts=stored["starts"],
        follows=stored["follows"],
        clarifies=stored["clarifies"],
        answerability=stored["answerability"],
    )


def chances(questions: Sequence[str], embed: Embed) -> list[dict[str, float]]:
    """For each question the probability of every type that the classifier knows.

    Args:
        embed: texts -> unit vectors of the bundled MiniLM; the weights are for no other model.
    """
    import numpy as np

    if not questions:
        return []
    known = model()
    seen = np.hstack([np.asarray(embed(questions), np.float64), np.asarray([surface(text) for text in questions])])
    logits = {name: seen @ np.asarray(weights) + known.intercepts[name] for name, weights in known.weights.items()}
    return [
        {name: float(1 / (1 + np.exp(-np.clip(values[row], -60, 60)))) for name, values in logits.items()}
        for row in range(len(questions))
    ]


def labels(found: Mapping[str, float]) -> tuple[str, ...]:
    """The types of a question from their probabilities: those above a half, the likeliest first; one at least."""
    order = sorted(found, key=lambda name: (-found[name], name))
    return tuple(name for name in order if found[name] > 0.5) or tuple(order[:1])
