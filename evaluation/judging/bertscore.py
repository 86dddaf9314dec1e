"""BERTScore in a judge's place: `--judge bertscore[:MODEL]`, three metrics that no language model is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from assistant.generators.base import Generator
from evaluation.judging.embedded import NoModel
from evaluation.judging.measures import Measure, needs
from evaluation.judging.records import Case, Outcome
from evaluation.judging.seats import BERT
from evaluation.metrics.bert import Bert, bert_k_precision, bert_recall, open_bert, rb_alg
from evaluation.metrics.overlap import rouge_l_word

NAMES = BERT
"""The metrics of the published model; those of another one end in its name, `bert_recall[all-MiniLM-L6-v2]`."""
NO_PASSAGES = "there are no passages"
NO_WORDS = "the reference has no Latin letters or digits, which are all that ROUGE-L counts"
Value = Callable[[Bert, Case], tuple[float, str]]


def opened(spec: str, model: str) -> tuple[NoModel, tuple[Measure, ...]]:
    """What stands in for the judge's model, and its metrics; nothing is loaded yet.

    Args:
        spec: in normal form, the judge's name.
        model: of it, see `evaluation.metrics.bert.open_bert`; empty: the published one.

    Raises:
        RequestError: bert-score is not installed, or the model is not on this machine.
    """
    return NoModel(spec), bert_measures(open_bert(model or None), spec)


def bert_measures(bert: Bert, judge: str) -> tuple[Measure, ...]:
    """The metrics of `NAMES`, over one model. The same case always has the same values.

    Args:
        judge: its name: whichever other generator they are handed, they have no outcome.
    """
    recall, precision, whole = (name + (f"[{bert.name}]" if bert.name else "") for name in NAMES)
    return (
        Measure(
            recall, f"recall of the reference, {bert.by}", (), _asked(judge, bert, _recall), needs(reference=True),
        ),
        Measure(
            precision, f"precision against the nearest passage, {bert.by}", (), _asked(judge, bert, _precision),
            _needs_passage,
        ),
        Measure(
            whole, f"harmonic mean of recall, K-precision and ROUGE-L, {bert.by}", (), _asked(judge, bert, _whole),
            _needs_all,
        ),
    )  # fmt: skip


def _asked(judge: str, bert: Bert, value: Value) -> Callable[[Generator, Case, Path | None], Outcome]:
    def asked(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != judge:
            return Outcome(status="not_applicable", reason=f"only the judge {judge!r} is asked for it")
        found, told = value(bert, case)
        return Outcome(status="scored", value=found, reason=told)

    return asked


def _needs_passage(case: Case) -> str | None:
    found = needs(passages=True)(case)
    return found or (None if any(text.strip() for text in case.passages or ()) else NO_PASSAGES)


def _needs_all(case: Case) -> str | None:
    found = needs(passages=True, reference=True)(case)
    return found or (NO_WORDS if rouge_l_word("", case.reference) is None else None)


def _recall(bert: Bert, case: Case) -> tuple[float, str]:
    return _there(bert_recall(bert, case.answer, case.reference)), ""


def _precision(bert: Bert, case: Case) -> tuple[float, str]:
    return _there(bert_k_precision(bert, case.answer, case.passages or ())), ""


def _whole(bert: Bert, case: Case) -> tuple[float, str]:
    recall = _there(bert_recall(bert, case.answer, case.reference))
    precision = bert_k_precision(bert, case.answer, case.passages or ())
    rouge = _there(rouge_l_word(case.answer, case.reference))
    near = NO_PASSAGES if precision is None else f"K-precision {precision:.3f}"
    return rb_alg(recall, rouge, precision), f"recall {recall:.3f}, {near}, ROUGE-L {rouge:.3f}"


def _there(value: Any) -> float:
    assert value is not None, "`without` has told those that there is nothing of"
    return float(value)
