"""What judges are asked of KIWI's revisions: the rating that a user would give (section 2.2), by a model and by code.

Beside the published shares of good turns these are another instrument: there, users rated. In the other tasks a judge
is not the instrument but what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.judging.kiwi_rules import read_revision
from turnmark.evaluation.judging.rubrics import EMBEDDED, OWN_WORDS, Rubric, by_code, by_verdict
from turnmark.evaluation.judging.verdicts import Labels
from turnmark.evaluation.metric_info import MetricStyle

GOOD, GOOD_EMBEDDED = "good", "good[embedded]"
PREVIOUS, INSTRUCTION = "previous", "instruction"
"""Names of the texts in `Case.more`: the answer before the revision, and what was asked for."""
RATINGS: Mapping[str, float] = {"good": 1.0, "neutral": 0.0, "bad": 0.0}
"""Rating -> what it adds to the share of good turns."""
_OFFER = Labels(offered=tuple(RATINGS))


def kiwi_rubrics(_setting: str | None, _embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.benchmarks.task.Task.rubrics`."""
    return BY_MODEL, BY_CODE


def _without(case: Case) -> str | None:
    return None if dict(case.more)[PREVIOUS].strip() else "there is no answer before the revision"


def _read(case: Case) -> Outcome:
    texts = dict(case.more)
    reading = read_revision(texts[INSTRUCTION], texts[PREVIOUS], case.answer)
    return Outcome(status="scored", value=RATINGS[reading.rating], label=reading.rating, reason=reading.reason)


BY_MODEL = Rubric(
    GOOD, f"share of revisions that a judge rates good (section 2.2), {OWN_WORDS}", ("kiwi-rating",),
    by_verdict("kiwi-rating", _OFFER, lambda label, _: RATINGS[label], "question", "answer"),
    _without, "nominal", RATINGS, offers=_OFFER, shown=MetricStyle(headline=140),
)  # fmt: skip
BY_CODE = Rubric(
    GOOD_EMBEDDED,
    "embedded judge, no language model: constraints by code, unrequested change by sentence alignment",
    (), by_code(EMBEDDED, _read), _without, "nominal", RATINGS, extra="2",
    shown=MetricStyle(headline=140),
)  # fmt: skip
