"""Judges without a language model: `idk[embedded]`, `rl_f[embedded]`, `completeness[embedded]` and
`appropriateness[embedded]`, for those who have none and as a check on those who have.

Each is a few measures of a reply (`embedded_support`, `embedded_idk`) and a weight for each, fitted to what people said
of two models' answers. They share names with published metrics and are none of them: docs/embedded-judges.md says what
they are worth. English only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import CONTEXT_TOKENS, Completion, Generator, GeneratorError, PromptMessage
from turnmark.assistant.steps.claims import Sources
from turnmark.evaluation.judging.embedded_idk import WEIGHTS, says_idk, wording
from turnmark.evaluation.judging.embedded_support import Embed, Embedded, Looked, parts_of
from turnmark.evaluation.judging.measures import IDK_VALUES, Measure, needs
from turnmark.evaluation.judging.records import Case, Outcome

NAME = "embedded"
"""The spec of the judge."""
VARIANT = f"[{NAME}]"
IDK = f"idk{VARIANT}"
FAITHFULNESS, COMPLETENESS, APPROPRIATENESS = f"rl_f{VARIANT}", f"completeness{VARIANT}", f"appropriateness{VARIANT}"
NAMES = (FAITHFULNESS, COMPLETENESS, APPROPRIATENESS, IDK)
"""Metrics of the embedded judge."""
PROPERTIES: Mapping[str, str] = {
    FAITHFULNESS: "faithfulness", COMPLETENESS: "completeness", APPROPRIATENESS: "appropriateness",
}  # fmt: skip
"""Metric -> the property that people rated, which is also its key among the weights."""
LOW, HIGH = 1.0, 4.0
"""People's scale: a predicted rating is a score of 0 at its low end, and of 1 at its high one."""
NO_CLAIM = "the reply says that it does not know, and claims nothing that could be checked"


@dataclass(frozen=True)
class Fit:
    """A predicted rating: `intercept` and a weight for each measure."""

    intercept: float
    weights: Mapping[str, float]

    def score(self, measures: Mapping[str, float]) -> float:
        """0..1, of the measures that `weights` names."""
        rating = self.intercept + sum(weight * measures[name] for name, weight in self.weights.items())
        return min(1.0, max(0.0, (rating - LOW) / (HIGH - LOW)))


@lru_cache(maxsize=1)
def fits() -> Mapping[str, Fit]:
    """Property -> the product's weights."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))["fits"]
    return {name: Fit(float(one["intercept"]), one["weights"]) for name, one in stored.items()}


class NoModel:
    """Stands where a judge's model would, for those that have none.

    Args:
        name: of the judge.
    """

    context_tokens, reply_tokens = CONTEXT_TOKENS, 0

    def __init__(self, name: str = NAME) -> None:
        self.name = name

    def complete(self, messages: Sequence[PromptMessage], **_: Any) -> Completion:  # noqa: ARG002
        """Never: there is nobody to ask."""
        raise GeneratorError("bad_request", f"the judge {self.name!r} has no language model")


def embedded_measures(embed: Embed, embedder: str) -> tuple[Measure, ...]:
    """What the embedded judge says of a reply, in the order of `NAMES`; the same for the same case, always.

    They look at nobody's model: whichever generator they are handed, only the embedded judge's own (`NoModel`) gets an
    outcome, so that another judge beside it, or an estimate, costs nothing here.

    Args:
        embed: texts -> unit vectors, from any thread.
        embedder: its spec.
    """
    embedded = Embedded(embed)
    by = f"embedded judge over {embedder}, no language model: "
    return (
        Measure(
            FAITHFULNESS, f"{by}people's faithfulness from shared words and meaning", (),
            _asked(lambda case: _faithfulness(case, embedded)), needs(passages=True), extra=_extra(embedder),
        ),
        Measure(
            COMPLETENESS, f"{by}people's completeness from reference and passages", (),
            _asked(lambda case: _rated(COMPLETENESS, case, embedded)), needs(passages=True, reference=True),
            extra=_extra(embedder),
        ),
        Measure(
            APPROPRIATENESS, f"{by}people's appropriateness from the reference", (),
            _asked(lambda case: _rated(APPROPRIATENESS, case, embedded)), needs(reference=True),
            extra=_extra(embedder),
        ),
        Measure(
            IDK, "IDK verdict by wording: yes 1, partial 0.5, no 0; no language model", (), _asked(_idk), needs(),
            "nominal", IDK_VALUES, extra=_extra(""),
        ),
    )  # fmt: skip


def _asked(judge: Callable[[Case], Outcome]) -> Callable[[Generator, Case, Path | None], Outcome]:
    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != NAME:
            return Outcome(status="not_applicable", reason=f"only the judge {NAME!r} is asked for it")
        return judge(case)

    return asked


@lru_cache(maxsize=8)
def _extra(embedder: str) -> str:
    """All that can change an outcome."""
    return f"{embedder} {json.dumps(json.loads(WEIGHTS.read_text(encoding='utf-8')), sort_keys=True)}".strip()


# --- what it says ----------------------------------------------------------------------------------------------------


def _idk(case: Case) -> Outcome:
    label, found = says_idk(case.answer), wording(case.answer)
    where = ", the first one among them" if found.opens else ""
    reason = f"{found.lacks} sentences say that something is missing{where}; {found.claimed} words claim something"
    return Outcome(status="scored", value=IDK_VALUES[label], label=label, reason=reason)


def _rated(metric: str, case: Case, embedded: Embedded) -> Outcome:
    """A property as people would rate it."""
    if not parts_of(case.answer):
        return Outcome(status="scored", value=0.0, reason="the reply has no words")
    fit = fits()[PROPERTIES[metric]]
    measures = Looked(case, embedded).measures(tuple(fit.weights))
    told = ", ".join(f"{name} {value:.2f}" for name, value in measures.items())
    return Outcome(status="scored", value=fit.score(measures), reason=told)


def _faithfulness(case: Case, embedded: Embedded) -> Outcome:
    if says_idk(case.answer) == "yes":
        return Outcome(status="not_applicable", reason=NO_CLAIM)
    rated = _rated(FAITHFULNESS, case, embedded)
    parts = _supported(case, embedded)
    bad = [part for part, good in parts if not good]
    reason = rated.reason + (f"; hardly in the passages or the conversation: {' / '.join(bad)}" if bad else "")
    said = tuple(f"{'supported' if good else 'not supported'}: {part}" for part, good in parts)
    return rated.model_copy(update={"reason": reason, "parts": said})


def _supported(case: Case, embedded: Embedded) -> list[tuple[str, bool]]:
    """The sentences of a reply, and whether passages or earlier turns bear them out; numbers and names letter for
    letter. For the person who reads the score, which is not made of it."""
    texts = [*(case.passages or ()), *(turn.content for turn in case.history), case.question]
    sources = Sources(texts, embedded)
    everything = range(1, len(texts) + 1)
    return [(part, sources.support(part, everything)) for part in parts_of(case.answer)]
