"""What is measured of a reply to a compound question without a judge: its parts, and the paper's errors by code.

The three errors of appendix H (Table 23) by code: a part without a sentence that answers it, two parts that only the
same sentences answer, a reply in another language. What answers which part is told by
`turnmark.evaluation.metrics.matching`, or known where each part was asked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnmark.corpora.text import words
from turnmark.evaluation.benchmarks.base import Metric, Value
from turnmark.evaluation.benchmarks.compound_modes import by_place, places
from turnmark.evaluation.benchmarks.measures import WORDS, Answered, unknown
from turnmark.evaluation.metrics.language import another_language
from turnmark.evaluation.metrics.language import by as told_by
from turnmark.evaluation.metrics.matching import assign
from turnmark.retrieval.task_passages import Embed

COVERAGE = "part_coverage"
OMITTED, MERGED, LANGUAGE = "omitted", "merged", "wrong_language"
"""The paper's errors; as code sees them, their names end in `CODE`."""
CODE = "[code]"


@dataclass(frozen=True)
class CompoundAnswered(Answered):
    """What the metrics of a reply to a compound question look at.

    Attributes:
        parts: the sub-questions in the order in which they were asked.
        given: what was said to each of them, where each was asked by itself; else empty.
        references: reference answers to each of them (`--references`); empty where there are none.
        order: for each place the sub-question of the original that is asked there; empty where they are as they were.
    """

    parts: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


def compound_metrics(embed: Embed | None, placed: bool) -> tuple[Metric[CompoundAnswered], ...]:
    """Metrics of the parts, those with an embedder first.

    Args:
        placed: questions are asked in several orders, so that what is covered is told by place, too.
    """

    def answers(context: CompoundAnswered) -> tuple[str, ...]:
        """For each part the sentences that answer it."""
        assert embed is not None, "checked before"
        if unknown(context):
            return ("",) * len(context.parts)
        if context.given:
            each = zip(context.parts, context.given, strict=True)
            return tuple(assign([part], said, embed)[0] for part, said in each)
        return assign(context.parts, context.answer, embed)

    def covered(context: CompoundAnswered) -> Mapping[str, Value]:
        if embed is None or not context.parts:
            return {}
        found = answers(context)
        errors = {} if unknown(context) else _errors(found)
        return {COVERAGE: sum(map(bool, found)) / len(found), **errors, **_placed(context, found)}

    def _placed(context: CompoundAnswered, found: Sequence[str]) -> Mapping[str, Value]:
        return by_place(COVERAGE, context.order, [float(bool(one)) for one in found]) if placed else {}

    name = getattr(embed, "name", "the embedder")
    cells = places(COVERAGE) if placed else ()
    return (
        Metric(
            (COVERAGE, OMITTED + CODE, MERGED + CODE, *cells),
            f"parts by rules, matched by {name}",
            covered,
            "it needs an embedder; errors need two parts and a reply that knows, a place the order that has it",
            heavy=embed is not None,
        ),
        Metric((LANGUAGE + CODE,), told_by(), _language, "the reply or the question is too short to tell its language"),
        Metric(("words_per_part",), WORDS, _words),
    )


def _errors(found: Sequence[str]) -> dict[str, Value]:
    """Whether a part has no answer, and whether two have one and the same, neither with a sentence of its own."""
    if len(found) < 2:
        return {}
    said = [one for one in found if one]
    return {OMITTED + CODE: float(len(said) < len(found)), MERGED + CODE: float(len(set(said)) < len(said))}


def _language(context: CompoundAnswered) -> Mapping[str, Value]:
    other = another_language(context.answer, context.history[-1])
    return {} if other is None else {LANGUAGE + CODE: float(other)}


def _words(context: CompoundAnswered) -> Mapping[str, Value]:
    if not context.parts:
        return {}
    return {"words_per_part": len(words(context.answer)) / len(context.parts)}
