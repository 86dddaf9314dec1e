"""Rubrics (questions to a judge about a reply: prompt, parser, when they apply), and their outcomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, create_model, model_validator

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.context_budget import FittedPrompt, fit_prompt, prompt_room
from turnmark.assistant.llm.prompts.structured_output import Failure
from turnmark.assistant.types import Usage
from turnmark.corpora.text.segmentation import is_latin
from turnmark.evaluation.judging.verdicts import Offer, ask_verdict
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import GradeCase, JudgeFailure, Outcome, Rubric
from turnmark.retrieval.embedding.embedders import languages_of

T = TypeVar("T", bound=BaseModel)
A = TypeVar("A")
BERT_METRICS = ("bert_recall", "bert_k_precision", "rb_alg")
"""Metrics of `bertscore` judges, without the model's name."""
EMBEDDED_JUDGE = "embedded"
"""The name of the judge without a language model; its metrics end in this name in square brackets."""
OWN_WORDS = "prompt in our own words"
UNDERSPECIFIED_LABEL = "UNDERSPECIFIED"
MAX_RAW_CHARACTERS = 20_000
"""Maximum characters of a judge's text that are kept; a longer text keeps its end."""
MAX_REASON_CHARACTERS = 600
"""Maximum characters of a judge's reasons in `scores.jsonl`; `judgements.jsonl` has the full text."""


_FORM = 1
"""Version of the key; raise it when older judgments must not be reused."""


def judgment_key(case: Case, rubric: Rubric, prompts: Mapping[str, str], judge: str) -> str:
    """Return a SHA-256 over everything that can change a judgment.

    Args:
        prompts: name -> hash of the rubric's prompts.
        judge: the judge's spec in normal form.
    """
    shown = {
        "question": case.question, "answer": case.answer, "reference": case.reference,
        "history": [[turn.role, turn.content] for turn in case.history],
        "passages": case.passages if case.passages_judged else (), "answerability": case.answerability,
        **({"more": case.more} if case.more else {}),
    }  # fmt: skip
    parts = [_FORM, rubric.name, rubric.extra, sorted(prompts.items()), judge, shown]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def prompts_digest(prompts: Mapping[str, str]) -> str:
    """Combine the hashes of prompts into one: 16 digits of a SHA-256; empty if there are no prompts.

    Args:
        prompts: name -> hash of a prompt.
    """
    if not prompts:
        return ""
    pairs = json.dumps(sorted(prompts.items())).encode("ascii")
    return hashlib.sha256(pairs).hexdigest()[:16]


def judge_failure(failure: Failure, notes: Sequence[str] = ()) -> JudgeFailure:
    """Return the error of a judge that gave no usable reply."""
    reason = f"{failure.kind.replace('_', ' ')}: {failure.reason or 'no usable reply came'}"
    raw = failure.raw[-MAX_RAW_CHARACTERS:]
    return JudgeFailure(Outcome(status="failed", kind=failure.kind, reason=reason, raw=raw, notes=tuple(notes)))


def require_answer(asked: tuple[A | Failure, Usage], notes: Sequence[str] = ()) -> A:
    """Return a judge's answer; raise `JudgeFailure` if it gave none.

    Args:
        notes: what was cut from the prompt.
    """
    answer, _ = asked
    if isinstance(answer, Failure):
        raise judge_failure(answer, notes)
    return answer


TOO_LONG = Outcome(
    status="failed",
    kind="too_long",
    reason="too long: question, reply and reference do not fit into the judge's context",
)


def judge_prompt(
    name: str,
    case: Case,
    generator: Generator,
    prompts: Path | None,
    parts: Sequence[str],
    extra_texts: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    reply: int | None = None,
) -> FittedPrompt:
    """Render the prompt `name` for a case within the judge's context; raise `JudgeFailure` if it does not fit.

    Args:
        parts: names of the case's fields that it shows besides passages and history, each between marks.
        extra_texts: placeholder -> further text, shown between marks.
        plain: placeholder -> text of ours, shown without marks.
        reply: tokens to reserve for the reply, or None for the generator's own limit.
    """
    prompt = JUDGES.load(name, prompts)
    shown = [part for part in ("question", "answer", "reference") if part in (*parts, *prompt.placeholders)]
    texts = {part: str(getattr(case, part)) for part in shown} | dict(extra_texts or {})
    passages = (case.passages or ()) if case.passages_judged else ()
    room = prompt_room(generator, reply)
    fitted = fit_prompt(prompt, room, texts, passages, case.history, plain, case.question)
    if fitted is None:
        raise JudgeFailure(TOO_LONG)
    return fitted


def add_check(schema: type[T], most: int, check: Callable[[T], str | None]) -> type[T]:
    """Add a check to a schema for one case; a reply that fails the check is requested once more.

    Args:
        most: maximum items in the schema's lists.
        check: function from a reply to what is wrong with it, in words for the judge, or None if nothing is.
    """

    def raise_problem(value: T) -> T:
        problem = check(value)
        if problem:
            raise ValueError(problem)
        return value

    validator: Any = model_validator(mode="after")(raise_problem)
    return create_model(
        schema.__name__, __base__=schema, __validators__={"checked": validator}, most_items=(ClassVar[int], most)
    )


def by_verdict(name: str, offer: Offer, value: Callable[[str, float | None], float], *parts: str) -> GradeCase:
    """Return the function `Rubric.grade` for a rubric with one prompt and one verdict.

    Args:
        value: function from the verdict's label and number to the metric's value.
        parts: see `judge_prompt`.
    """

    def ask_for_verdict(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        prompt = judge_prompt(name, case, generator, prompts, parts, dict(case.more))
        verdict = require_answer(ask_verdict(generator, prompt.messages, offer, prompts), prompt.notes)
        return Outcome(
            status="scored",
            value=value(verdict.label, verdict.value),
            label=verdict.label if verdict.value is None else None,
            reason=verdict.text[-MAX_RAW_CHARACTERS:],
            notes=prompt.notes,
        )

    return ask_for_verdict


def by_code(judge: str, grade: Callable[[Case], Outcome]) -> GradeCase:
    """Return the function `Rubric.grade` for a rubric without a language model.

    With any other judge the outcome is "not applicable", so that cost estimates do not count the rubric.
    """

    def grade_for_judge(generator: Generator, case: Case, prompts: Path | None) -> Outcome:  # noqa: ARG001
        if generator.name != judge:
            return Outcome(status="not_applicable", reason=f"only the judge {judge!r} is asked for it")
        return grade(case)

    return grade_for_judge


def tenth(_: str, number: float | None) -> float:
    """Return a rating from 1 to 10, divided by 10."""
    assert number is not None, "a scale gives a number"
    return number / 10


def require_material(passages: bool = False, reference: bool = False) -> Callable[[Case], str | None]:
    """Return the function `Rubric.without` for a rubric that needs passages or a reference.

    The rubric never applies to underspecified tasks.
    """

    def without(case: Case) -> str | None:
        if case.answerability == UNDERSPECIFIED_LABEL:
            return "underspecified tasks count in `clarification` alone"
        if reference and not case.reference.strip():
            return "the data has no reference answer"
        if passages and case.passages is None:
            return "not all texts of the passages are known"
        return None

    return without


def unless_unreadable(embedder: str, without: Callable[[Case], str | None]) -> Callable[[Case], str | None]:
    """Extend the function `Rubric.without` of a rubric by an embedder to texts in a script that it cannot read.

    The cosines of an English embedder are as high for any two Chinese sentences as for two that say the same.
    """
    known = languages_of(embedder)

    def without_readable(case: Case) -> str | None:
        if known is not None and not is_latin(case.reference or case.question):
            return f"the embedder {embedder} cannot read this script; name another one with --embedder"
        return without(case)

    return without_readable
