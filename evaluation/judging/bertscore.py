"""BERTScore in a judge's place: `--judge bertscore[:MODEL]`, three metrics that no language model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import Generator
from turnmark.evaluation.judging.embedded import NoModel
from turnmark.evaluation.judging.measures import Measure, needs
from turnmark.evaluation.judging.records import Case, Outcome
from turnmark.evaluation.judging.seats import BERT
from turnmark.evaluation.metrics.bert import Bert, bert_k_precision, bert_recall, open_bert, rb_alg
from turnmark.evaluation.metrics.overlap import rouge_l_word

NAMES = BERT
"""The metrics of the published model; those of another one end in its name, `bert_recall[all-MiniLM-L6-v2]`."""
SCRIPT = "script"
"""Marks what the official script of today gives where there are no passages, `rb_alg[script]`: no K-precision, and so
an rb_alg of 0. The paper's released scores have a K-precision of 0 there, which stands for .5 in the harmonic mean:
only so do the answers to unanswerable tasks come to the .75 and .26 of Table 13."""
_FORM = "without passages: 0"
"""Keeps judgements of the earlier definition, by which it was not applicable, from being used again."""
NO_PASSAGES = "there are no passages"
NO_WORDS = "the reference has no Latin letters or digits, which are all that ROUGE-L counts"
Value = Callable[[Bert, Case], tuple[float, float | None, str]]
"""Model, case -> the value, the one of the official script, and what they are made of."""


def opened(spec: str, model: str) -> tuple[NoModel, tuple[Measure, ...]]:
    """What stands in for the judge's model, and its metrics; nothing is loaded yet.

    Args:
        spec: in normal form, the judge's name.
        model: of it, see `turnmark.evaluation.metrics.bert.open_bert`; empty: the published one.

    Raises:
        RequestError: bert-score is not installed, or the model is not on this machine.
    """
    return NoModel(spec), bert_measures(open_bert(model or None), spec)


def bert_measures(bert: Bert, judge: str) -> tuple[Measure, ...]:
    """The metrics of `NAMES`, over one model. The same case always has the same values.

    Args:
        judge: its name: whichever other generator they are handed, they have no outcome.
    """
    recall, precision, whole = (_named(name, bert.name) for name in NAMES)
    of_script = tuple(_named(name, bert.name, SCRIPT) for name in NAMES[1:])
    without = f"without passages K-precision is 0 ([{SCRIPT}]: "
    return (
        Measure(
            recall, f"recall of the reference, {bert.by}", (), _asked(judge, bert, _recall), needs(reference=True),
        ),
        Measure(
            precision, f"precision against the nearest passage, {bert.by}; {without}not applicable)", (),
            _asked(judge, bert, _precision, of_script[0]), needs(passages=True), extra=_FORM, also=of_script[:1],
        ),
        Measure(
            whole, f"harmonic mean of recall, K-precision and ROUGE-L, {bert.by}; {without}the mean is)", (),
            _asked(judge, bert, _whole, of_script[1]), _needs_all, extra=_FORM, also=of_script[1:],
        ),
    )  # fmt: skip


def _named(metric: str, *marks: str) -> str:
    given = ",".join(filter(None, marks))
    return f"{metric}[{given}]" if given else metric


def _asked(
    judge: str, bert: Bert, value: Value, of_script: str | None = None
) -> Callable[[Generator, Case, Path | None], Outcome]:
    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != judge:
            return Outcome(status="not_applicable", reason=f"only the judge {judge!r} is asked for it")
        papers, scripts, parts = value(bert, case)
        return Outcome(status="scored", value=papers, reason=parts, also={of_script: scripts} if of_script else {})

    return asked


def _needs_all(case: Case) -> str | None:
    missing = needs(passages=True, reference=True)(case)
    return missing or (NO_WORDS if rouge_l_word("", case.reference) is None else None)


def _recall(bert: Bert, case: Case) -> tuple[float, float | None, str]:
    return _there(bert_recall(bert, case.answer, case.reference)), None, ""


def _precision(bert: Bert, case: Case) -> tuple[float, float | None, str]:
    value = bert_k_precision(bert, case.answer, case.passages or ())
    return (0.0, None, NO_PASSAGES) if value is None else (value, value, "")


def _whole(bert: Bert, case: Case) -> tuple[float, float | None, str]:
    recall = _there(bert_recall(bert, case.answer, case.reference))
    precision = bert_k_precision(bert, case.answer, case.passages or ())
    rouge = _there(rouge_l_word(case.answer, case.reference))
    near = NO_PASSAGES if precision is None else f"K-precision {precision:.3f}"
    papers = rb_alg(recall, rouge, 0.0 if precision is None else precision)
    return papers, rb_alg(recall, rouge, precision), f"recall {recall:.3f}, {near}, ROUGE-L {rouge:.3f}"


def _there(value: Any) -> float:
    assert value is not None, "`without` has told those that there is nothing of"
    return float(value)
