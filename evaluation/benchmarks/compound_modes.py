"""How Compound-QA's questions are put to a model: the paper's modes (Tables 21, 22), one question a turn, four orders.

The wording of the prompts is ours, what they ask for is the paper's. Its temperature and its limit are sent with each
call unless the generator's spec names others; a reply that reaches the limit is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from turnmark.assistant.asking import Failure, ask
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.prompts import break_control_marks, fence, fence_tag
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.types import Usage
from turnmark.core.specs import parse_spec
from turnmark.corpora.compound_qa import Task
from turnmark.evaluation.benchmarks.base import Case, Item, Metric, Value
from turnmark.evaluation.benchmarks.measures import unknown
from turnmark.evaluation.metrics.matching import assign_sentences
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.scores.metric_info import MetricStyle
from turnmark.retrieval.task_passages import Embed

DECOMPOSE, DIALOGUE, POSITIONS = "decompose", "dialogue", "positions"
PROMPTS = {"vanilla": "compound-vanilla", "cot": "compound-cot", "few-shot": "compound-few-shot"}
"""Mode of the paper -> its prompt."""
SETTINGS = (DECOMPOSE, *PROMPTS, DIALOGUE, POSITIONS)
TEMPERATURE, MAX_TOKENS = 0.3, 1024
"""Section 4."""
ORDERS = ((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1))
"""Table 20: for each of the four orders the sub-questions of the original, in the order in which they are asked."""
_ORDER = re.compile(r"#order([1-4])\Z")
SPLIT = "compound-split"
EMPTY = "the reply is empty"
LIST_TOKENS = 1024


@dataclass(frozen=True)
class ModeReply:
    """What a model wrote, and why it is incomplete ("" if it is complete)."""

    text: str
    usage: Usage
    note: str = ""


def ask_once(generator: Generator, messages: Sequence[PromptMessage], spec: str) -> ModeReply:
    """One reply, an empty one included: like an answer that is left out it loses, and says why.

    Args:
        spec: of the generator; what it names itself is not the paper's value.
    """
    own = parse_spec(spec).options
    reply = generator.complete(
        messages,
        max_tokens=None if "max_tokens" in own else MAX_TOKENS,
        temperature=None if "temperature" in own else TEMPERATURE,
    )
    text = without_thinking(reply.text).strip()
    if not text:
        if reply.finish_reason == "content_filter":
            reason = f"{reply.model} said nothing: the endpoint's content filter stopped it"
            raise GeneratorError("refused", reason, reply.usage)
        return ModeReply("", reply.usage, f"{EMPTY} ({reply.finish_reason})")
    ended = {
        "length": f"the answer is incomplete: it was cut at the limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is incomplete: the endpoint's content filter stopped it",
    }
    return ModeReply(text, reply.usage, ended.get(reply.finish_reason, ""))


def prompts_of(setting: str | None) -> tuple[str, ...]:
    if setting in PROMPTS:
        return (PROMPTS[setting],)
    return {DIALOGUE: (PROMPTS["vanilla"], SPLIT), POSITIONS: (PROMPTS["vanilla"],)}.get(setting or "", ())


def prompt_of(mode: str, question: str, context: str | None, prompts: Path | None = None) -> tuple[PromptMessage, ...]:
    """The messages of one of the paper's modes; the context between marks, and bare in a prompt of one's own."""
    prompt = JUDGES.load(PROMPTS[mode], prompts)
    shown = context if prompt.bare or not context else fence(context, "text", fence_tag(question, context))
    return prompt.render(context=shown or "", question=question)


def ask_dialogue(
    generator: Generator, messages: tuple[PromptMessage, ...], questions: Sequence[str], spec: str
) -> list[ModeReply]:
    """The turns of a dialogue: the first as its messages ask it, the others as they are, each after those before it."""
    replies = [ask_once(generator, messages, spec)]
    for question in questions[1:]:
        said = PromptMessage(role="assistant", content=break_control_marks(replies[-1].text))
        messages = (*messages, said, PromptMessage(role="user", content=break_control_marks(question)))
        replies.append(ask_once(generator, messages, spec))
    return replies


# --- parts -----------------------------------------------------------------------------------------------------------


class SplitReply(BaseModel):
    questions: list[str]


def split_by_model(generator: Generator, text: str, prompts: Path | None = None) -> tuple[tuple[str, ...], Usage]:
    """The sub-questions into which a model splits a text (Table 18); the text itself if it finds none."""
    messages = JUDGES.load(SPLIT, prompts).fill({"text": text})
    result, usage = ask(generator, messages, SplitReply, max_tokens=LIST_TOKENS)
    if isinstance(result, Failure):
        reason = f"the question was not split: {result.reason or result.kind}"
        raise GeneratorError("bad_reply", reason, usage)
    parts = tuple(" ".join(part.split()) for part in result.questions if part.strip())
    return parts or (text,), usage


# --- orders ----------------------------------------------------------------------------------------------------------


def in_orders(item: Item) -> Iterator[Item]:
    """A Factual-Statement question of three parts in the four orders of Table 20; nothing for any other.

    The parts are those of `split_questions`, unchanged: one that leans on the part before it leans on another one now,
    as in the paper. Ids end in `#order1` to `#order4`.
    """
    task: Task = item.task
    parts = split_questions(task.question) if task.type == "Factual-Statement" else ()
    if len(parts) != len(ORDERS[0]):
        return
    for number, order in enumerate(ORDERS, 1):
        question = " ".join(parts[part] for part in order)
        labels = {**item.labels, "order": (f"order{number}",)}
        ordered = task.model_copy(update={"question": question})
        yield replace(item, id=f"{item.id}#order{number}", task=ordered, question=question, labels=labels)


def order_of(item_id: str) -> tuple[int, ...]:
    """For each position the sub-question of the original that is asked there; empty if no order is named."""
    match = _ORDER.search(item_id)
    return ORDERS[int(match[1]) - 1] if match else ()


def cell_names(name: str) -> tuple[str, ...]:
    """The metrics of Table 3's cells: `NAME.q2@1` is sub-question 2 asked first."""
    return tuple(f"{name}.q{part}@{position}" for part in (1, 2, 3) for position in (1, 2, 3))


def by_position(name: str, order: Sequence[int], values: Sequence[float | None]) -> dict[str, float | None]:
    """Values of the parts as they were asked, under `cell_names`; those of other positions are left out."""
    return {
        f"{name}.q{order[position] + 1}@{position + 1}": value
        for position, value in enumerate(values)
        if len(order) == len(values)
    }


COVERAGE = "part_coverage"


@dataclass(frozen=True)
class CompoundCase(Case):
    """A reply to a compound question; judges are shown its question without the context.

    Attributes:
        parts: the sub-questions in the order in which they were asked.
        replies: to each of them, if each was asked by itself; else empty.
        order: for each position the sub-question of the original that is asked there; empty if the order is unchanged.
    """

    passages_judged: ClassVar[bool] = False
    parts: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


def compound_metrics(embed: Embed | None, by_order: bool) -> tuple[Metric[CompoundCase], ...]:
    """The coverage of the parts; with `by_order`, where questions are asked in several orders, by position, too."""

    def answers(context: CompoundCase) -> tuple[str, ...]:
        assert embed is not None, "checked before"
        if unknown(context):
            return ("",) * len(context.parts)
        if context.replies:
            pairs = zip(context.parts, context.replies, strict=True)
            return tuple(assign_sentences([part], reply, embed)[0] for part, reply in pairs)
        return assign_sentences(context.parts, context.answer, embed)

    def covered(context: CompoundCase) -> Mapping[str, Value]:
        if embed is None or not context.parts:
            return {}
        values = [float(bool(text)) for text in answers(context)]
        return {
            COVERAGE: sum(values) / len(values),
            **(by_position(COVERAGE, context.order, values) if by_order else {}),
        }

    name = getattr(embed, "name", "the embedder")
    cells = cell_names(COVERAGE) if by_order else ()
    return (
        Metric(
            (COVERAGE, *cells),
            f"parts by rules, matched by {name}",
            covered,
            "no embedder, or a position that this order lacks",
            {COVERAGE: MetricStyle(headline=40)},
        ),
    )
