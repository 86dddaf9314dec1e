"""Rubrics of Compound-QA (sections 4 and 5, appendices D.2, E and H).

The judge compares a reply with the reference in both orders, by the five labels of Table 17; a tie counts as a win, as
in the paper. With `--references`, the answer to each sub-question is compared with that run's answer; unless the
sub-questions were asked one by one, the judge first copies the answer out of the reply (Table 19). The criteria are the
paper's, in our own words. As in the paper, the judge sees the question and the two replies, but not the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError
from turnmark.assistant.llm.calls.reply_schemas import limit_characters
from turnmark.assistant.llm.prompts.context_budget import fit_prompt, prompt_room
from turnmark.assistant.llm.prompts.structured_output import Failure, ask, number_lines, write_text
from turnmark.evaluation.benchmarks.compound_qa.answer_modes import (
    DIALOGUE,
    POSITIONS,
    by_position,
    cell_names,
)
from turnmark.evaluation.judging.rubrics import (
    MAX_RAW_CHARACTERS,
    OWN_WORDS,
    TOO_LONG,
    add_check,
    judge_failure,
    judge_prompt,
    require_answer,
    require_material,
)
from turnmark.evaluation.judging.verdicts import Labels, ask_verdict
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import JudgeFailure, Outcome, Rubric

WIN_RATE, SUB_WIN_RATE = "win_rate", "sub_win_rate"
FLIPS, FIRST, PREFERENCE = ".flips", ".first", "preference"
OMITTED, MERGED, LANGUAGE = "omitted", "merged", "wrong_language"
"""The errors of Table 23."""
SIDES = {"ours": 1.0, "tie": 0.5, "theirs": 0.0}
"""Winner of both orders -> value of `preference`; human ratings in `turnmark agreement` use the same values."""
FIVE_LABELS = Labels(offered=("A>>B", "A>B", "A=B", "B>A", "B>>A"))
"""The five labels of Table 17, from Arena-Hard."""
MARGINS: Mapping[str, int] = {"A>>B": 2, "A>B": 1, "A=B": 0, "B>A": -1, "B>>A": -2}
CRITERIA = (
    "Find what is wrong in either reply, and count it against it. Then consider whether each is helpful: it answers "
    "what is asked, correctly, and all of it, or asks back where the question can be read in several ways; relevant: "
    "every part of it bears on the question; and concise: clear, and not wordy. Where the question calls for ideas, "
    "consider how fresh they are. Last, consider what is missing that whoever asked would have wanted."
)
PER_QUESTION = f"{SUB_WIN_RATE}[per question]"
"""Mean over questions of the mean over their sub-questions; `sub_win_rate` pools all sub-questions, as in the paper."""
EMPTY_LOSES = "the reply is empty, which loses in both orders"
NO_REFERENCES = "there are no answers to its sub-questions to compare with: name a run that has them with --references"


def compound_rubrics(setting: str | None, _embedder: str) -> Sequence[Rubric]:
    """See `turnmark.evaluation.tasks.task.Task.rubrics`: settings that study the parts grade only these."""
    if setting == POSITIONS:
        return [replace(SUB_QUESTIONS_RUBRIC, also=(*SUB_QUESTIONS_RUBRIC.also, *cell_names(SUB_WIN_RATE)))]
    if setting == DIALOGUE:
        return [SUB_QUESTIONS_RUBRIC]
    return [WHOLE_REPLY, ERRORS, SUB_QUESTIONS_RUBRIC]


def judged_texts(
    parts: Sequence[str], replies: Sequence[str], references: Sequence[str], order: Sequence[int]
) -> tuple[tuple[str, str], ...]:
    """Return the texts of `Case.more`: the parts and, if each has a reference, replies, references and order.

    Args:
        replies: the reply to each part; empty unless each part was asked in a separate turn.
        order: at each position, the index of the original sub-question; if empty, the original order.
    """
    texts = [(f"part {n}", part) for n, part in enumerate(parts, 1)]
    if len(references) == len(parts):
        texts += [(f"given {n}", text) for n, text in enumerate(replies, 1)]
        texts += [(f"reference {n}", text) for n, text in enumerate(references, 1)]
        if order:
            texts.append(("order", " ".join(map(str, order))))
    return tuple(texts)


def _texts_named(case: Case, name: str) -> list[str]:
    return [text for key, text in case.more if key.rpartition(" ")[0] == name]


# --- two replies side by side ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplyComparison:
    """The verdicts on two replies in both orders, which expose a judge with a position bias.

    Attributes:
        orders: the outcomes with ours first and with theirs first; the value is the margin for ours, from 2 (much
            better) to -2 (much worse).
    """

    orders: tuple[Outcome, Outcome]

    @property
    def failure(self) -> Outcome | None:
        """The first outcome without a verdict, or None if both orders have one. Pairs with a failure do not count."""
        return next((outcome for outcome in self.orders if outcome.value is None), None)

    @property
    def signs(self) -> list[int]:
        """The winner of each verdict: 1 ours, 0 tie, -1 theirs."""
        margins = [outcome.value for outcome in self.orders if outcome.value is not None]
        return [(margin > 0) - (margin < 0) for margin in margins]

    @property
    def flipped(self) -> bool:
        """Whether the two orders name different winners."""
        return len(set(self.signs)) > 1

    @property
    def winner(self) -> Literal["ours", "theirs", "tie"]:
        """The winner in both orders; `tie` if the orders differ."""
        if self.flipped or self.signs[0] == 0:
            return "tie"
        return "ours" if self.signs[0] > 0 else "theirs"

    @property
    def wins(self) -> float:
        """Share of the verdicts in which ours is at least as good as theirs: 0, .5 or 1."""
        return sum(sign >= 0 for sign in self.signs) / len(self.signs)

    @property
    def to_first(self) -> float | None:
        """Share of the verdicts without a tie that prefer the first reply; .5 shows no bias, and None two ties."""
        decided = [sign * place for sign, place in zip(self.signs, (1, -1), strict=True) if sign]
        return decided.count(1) / len(decided) if decided else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Each order with its label, as text."""
        orders = ("ours first", "reference first")
        return tuple(f"{order}: {outcome.label}" for order, outcome in zip(orders, self.orders, strict=True))


def compare_replies(
    generator: Generator, question: str, ours: str, theirs: str, prompts: Path | None = None
) -> ReplyComparison:
    """Ask a judge twice which reply is better, ours first and theirs first. Failures of the judge do not raise."""

    def in_order(first: str, second: str, sign: int) -> Outcome:
        texts = {"question": question, "first": first, "second": second}
        prompt = fit_prompt(
            JUDGES.load("pairwise", prompts), prompt_room(generator), texts, plain={"criteria": CRITERIA}
        )
        if prompt is None:
            return TOO_LONG
        try:
            verdict = require_answer(ask_verdict(generator, prompt.messages, FIVE_LABELS, prompts))
        except JudgeFailure as failure:
            return failure.outcome
        value = float(sign * MARGINS[verdict.label])
        return Outcome(status="scored", value=value, label=verdict.label, reason=verdict.text)

    return ReplyComparison((in_order(ours, theirs, 1), in_order(theirs, ours, -1)))


# --- the full reply --------------------------------------------------------------------------------------------------


def _judge_reply(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    if not case.answer.strip():
        also = {WIN_RATE + FLIPS: 0.0, WIN_RATE + FIRST: None, PREFERENCE: SIDES["theirs"]}
        return Outcome(status="scored", value=0.0, label="theirs", reason=EMPTY_LOSES, also=also)
    pair = compare_replies(generator, case.question, case.answer, case.reference, prompts)
    if pair.failure is not None:
        return pair.failure
    side = pair.winner
    also = {
        WIN_RATE + FLIPS: float(pair.flipped),
        WIN_RATE + FIRST: pair.to_first,
        PREFERENCE: SIDES[side],
    }
    reasons = "\n---\n".join(outcome.reason[-MAX_RAW_CHARACTERS // 2 :] for outcome in pair.orders)
    return Outcome(
        status="scored", value=pair.wins, label=side, reason=f"{'; '.join(pair.labels)}\n{reasons}",
        parts=pair.labels, also=also,
    )  # fmt: skip


# --- its parts -------------------------------------------------------------------------------------------------------


def _judge_parts(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    questions, references = _texts_named(case, "part"), _texts_named(case, "reference")
    answers = _texts_named(case, "given")
    if not any(reference.strip() for reference in references):
        return Outcome(status="not_applicable", reason="the reference run answers none of the sub-questions")
    rates: list[float | None] = []
    flips: list[bool] = []
    notes: list[str] = []
    for number, (part, reference) in enumerate(zip(questions, references, strict=True), 1):
        if not reference.strip():
            rates.append(None)
            notes.append(f"{number}: no reference answer")
            continue
        answer = answers[number - 1] if answers else _extract_answer(generator, case, part, prompts)
        if not answer.strip():
            rates.append(0.0)
            notes.append(f"{number}: not answered, which loses in both orders")
            continue
        pair = compare_replies(generator, part, answer, reference, prompts)
        failure = pair.failure
        if failure is not None:
            return failure.model_copy(update={"reason": f"sub-question {number}: {failure.reason}"})
        rates.append(pair.wins)
        flips.append(pair.flipped)
        notes.append(f"{number}: {'; '.join(pair.labels)}")
    rated = [rate for rate in rates if rate is not None]
    order = [int(number) for number in dict(case.more).get("order", "").split()]
    mean = sum(rated) / len(rated)
    also: dict[str, float | None] = {
        PER_QUESTION: mean,
        SUB_WIN_RATE + FLIPS: sum(flips) / len(flips) if flips else None,
    }
    also |= by_position(SUB_WIN_RATE, order, rates)
    reason = "; ".join(notes)
    return Outcome(status="scored", value=mean, weight=len(rated), reason=reason, parts=tuple(notes), also=also)


def _extract_answer(generator: Generator, case: Case, part: str, prompts: Path | None) -> str:
    """Copy the answer to one sub-question out of a reply; it is empty if there is none."""
    if not case.answer.strip():
        return ""
    prompt = judge_prompt("compound-extract", replace(case, question=part), generator, prompts, ("question", "answer"))
    try:
        reply = write_text(generator, prompt.messages)
    except GeneratorError as error:
        raise judge_failure(Failure(kind=error.kind, reason=str(error))) from error
    if reply.note is not None:
        kind = "length" if reply.finish_reason == "length" else "content_filter"
        raise judge_failure(Failure(kind=kind, raw=reply.text, reason=reply.note))
    return "" if reply.text.strip(" \t\n.\"'*`").casefold() in ("", "none") else reply.text


def _without_references(case: Case) -> str | None:
    return None if _texts_named(case, "reference") else NO_REFERENCES


# --- its errors ------------------------------------------------------------------------------------------------------


class ErrorsReply(BaseModel):
    """The reply that the prompt `compound-errors` asks for; sub-questions are numbered from 1."""

    omitted: list[int]
    merged: list[int]
    wrong_language: bool
    reason: Annotated[str, limit_characters()] = ""


def _problem(reply: ErrorsReply, count: int) -> str | None:
    """Return what is wrong with a reply about `count` sub-questions, in words for the judge, or None if nothing is."""
    unknown = sorted({number for number in (*reply.omitted, *reply.merged) if not 1 <= number <= count})
    if unknown:
        return f"there are questions 1 to {count}, and none with the numbers {unknown}"
    if len(set(reply.merged)) == 1:
        return "merged answers must be none, or at least two"
    return None


def _judge_errors(generator: Generator, case: Case, prompts: Path | None) -> Outcome:
    questions = _texts_named(case, "part")
    if not case.answer.strip():
        return Outcome(status="scored", value=1.0, reason=EMPTY_LOSES, also={MERGED: 0.0, LANGUAGE: 0.0})
    prompt = judge_prompt(
        "compound-errors", case, generator, prompts, ("answer",), {"questions": number_lines(questions)}
    )  # fmt: skip
    form = add_check(ErrorsReply, len(questions), lambda reply: _problem(reply, len(questions)))
    reply = require_answer(ask(generator, prompt.messages, form))
    parts = (f"{OMITTED}: {_numbers(reply.omitted)}", f"{MERGED}: {_numbers(reply.merged)}")
    also = {MERGED: float(bool(reply.merged)), LANGUAGE: float(reply.wrong_language)}
    reason = " ".join(reply.reason.split()) or "; ".join(parts)
    value = float(bool(reply.omitted))
    return Outcome(status="scored", value=value, reason=reason, parts=parts, also=also)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(numbers)))) or "none"


_PAIRED_DESCRIPTION = f"share of verdicts as good as or better than the reference, in both orders, {OWN_WORDS}"
WHOLE_REPLY = Rubric(
    WIN_RATE, _PAIRED_DESCRIPTION, ("pairwise",), _judge_reply, require_material(reference=True), offers=FIVE_LABELS,
    also=(WIN_RATE + FLIPS, WIN_RATE + FIRST, PREFERENCE), extra=CRITERIA,
    shown={WIN_RATE: MetricStyle(headline=30)},
)  # fmt: skip
SUB_QUESTIONS_RUBRIC = Rubric(
    SUB_WIN_RATE, f"over all sub-questions, against those of a run: {_PAIRED_DESCRIPTION}",
    ("compound-extract", "pairwise"), _judge_parts, _without_references,
    offers=FIVE_LABELS, also=(PER_QUESTION, SUB_WIN_RATE + FLIPS), extra=CRITERIA,
)  # fmt: skip
ERRORS = Rubric(
    OMITTED, f"share of replies with the error (Table 23), {OWN_WORDS}", ("compound-errors",), _judge_errors,
    also=(MERGED, LANGUAGE),
)  # fmt: skip
