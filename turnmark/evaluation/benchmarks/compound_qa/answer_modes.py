"""Ways to ask a model a compound question: the paper's modes (Tables 21, 22), a dialogue, and four question orders.

The prompts make the same requests as the paper's prompts, in our own words. Each call has the paper's temperature and
token limit unless the generator's spec sets its own. A reply that reaches the limit is kept unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, PromptMessage
from turnmark.assistant.llm.prompts.structured_output import Failure, ask
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.types import Usage
from turnmark.core.specs import parse_spec
from turnmark.core.untrusted import break_control_marks, fence, fence_tag
from turnmark.corpora.benchmarks.compound_qa import CompoundQuestion
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.metrics.matching import assign_sentences
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric, Value
from turnmark.evaluation.tasks.standard_metrics import says_unknown
from turnmark.retrieval.embedding.vector_cache import Embed

DECOMPOSE, DIALOGUE, POSITIONS = "decompose", "dialogue", "positions"
PROMPTS = {"vanilla": "compound-vanilla", "cot": "compound-cot", "few-shot": "compound-few-shot"}
"""Mode of the paper -> name of its prompt."""
SETTINGS = (DECOMPOSE, *PROMPTS, DIALOGUE, POSITIONS)
TEMPERATURE, MAX_TOKENS = 0.3, 1024
"""The paper's sampling temperature and token limit (section 4)."""
ORDERS = ((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1))
"""The four orders of Table 20: at each position, the index of the original sub-question asked there."""
_ORDER = re.compile(r"#order([1-4])\Z")
SPLIT_PROMPT = "compound-split"
EMPTY_REPLY = "the reply is empty"
LIST_TOKENS = 1024


@dataclass(frozen=True)
class ModeReply:
    """A model's reply in one of the paper's modes.

    Attributes:
        note: why the reply is incomplete; empty if it is complete.
    """

    text: str
    usage: Usage
    note: str = ""


def ask_once(generator: Generator, messages: Sequence[PromptMessage], spec: str) -> ModeReply:
    """Ask once. An empty reply is returned with a note, because it counts as a lost comparison.

    Args:
        spec: the generator's spec; an option that it sets replaces the paper's value.

    Raises:
        GeneratorError: the endpoint's content filter stopped the reply before its first word.
    """
    options = parse_spec(spec).options
    reply = generator.complete(
        messages,
        max_tokens=None if "max_tokens" in options else MAX_TOKENS,
        temperature=None if "temperature" in options else TEMPERATURE,
    )
    text = reply.text.strip()
    if not text:
        if reply.finish_reason == "content_filter":
            reason = f"{reply.model} returned no text: the endpoint's content filter stopped it"
            raise GeneratorError("refused", reason, reply.usage)
        return ModeReply("", reply.usage, f"{EMPTY_REPLY} ({reply.finish_reason})")
    note_of_reason = {
        "length": f"the answer is incomplete: it was cut at the limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is incomplete: the endpoint's content filter stopped it",
    }
    return ModeReply(text, reply.usage, note_of_reason.get(reply.finish_reason, ""))


def prompts_of(setting: str | None) -> tuple[str, ...]:
    """Return the names of the prompts that a setting uses."""
    if setting in PROMPTS:
        return (PROMPTS[setting],)
    if setting == DIALOGUE:
        return (PROMPTS["vanilla"], SPLIT_PROMPT)
    if setting == POSITIONS:
        return (PROMPTS["vanilla"],)
    return ()


def prompt_of(mode: str, question: str, context: str | None, prompts: Path | None = None) -> tuple[PromptMessage, ...]:
    """Render the messages of one of the paper's modes.

    The context is fenced by marks, unless the user's own prompt is bare.
    """
    prompt = JUDGES.load(PROMPTS[mode], prompts)
    shown_context = context or ""
    if context and not prompt.bare:
        shown_context = fence(context, "text", fence_tag(question, context))
    return prompt.render(context=shown_context, question=question)


def ask_dialogue(
    generator: Generator, messages: tuple[PromptMessage, ...], questions: Sequence[str], spec: str
) -> list[ModeReply]:
    """Ask one question per turn and return the replies.

    Args:
        messages: the prompt of the first question; later questions are sent as they are, after the turns so far.
    """
    replies = [ask_once(generator, messages, spec)]
    for question in questions[1:]:
        last_reply = PromptMessage(role="assistant", content=break_control_marks(replies[-1].text))
        next_question = PromptMessage(role="user", content=break_control_marks(question))
        messages = (*messages, last_reply, next_question)
        replies.append(ask_once(generator, messages, spec))
    return replies


# --- parts -----------------------------------------------------------------------------------------------------------


class SplitReply(BaseModel):
    """The reply that the prompt `compound-split` asks for."""

    questions: list[str]


def split_by_model(generator: Generator, text: str, prompts: Path | None = None) -> tuple[tuple[str, ...], Usage]:
    """Split a compound question into sub-questions by a model (Table 18); the question itself if it returns none.

    Raises:
        GeneratorError: the reply is unusable.
    """
    messages = JUDGES.load(SPLIT_PROMPT, prompts).fill({"text": text})
    result, usage = ask(generator, messages, SplitReply, max_tokens=LIST_TOKENS)
    if isinstance(result, Failure):
        reason = f"the question was not split: {result.reason or result.kind}"
        raise GeneratorError("bad_reply", reason, usage)
    parts = tuple(" ".join(part.split()) for part in result.questions if part.strip())
    return parts or (text,), usage


# --- orders ----------------------------------------------------------------------------------------------------------


def in_orders(item: Item) -> Iterator[Item]:
    """Yield a Factual-Statement question of three parts in the four orders of Table 20; no item for other questions.

    The parts are those of `split_questions`, unchanged. As in the paper, a part that refers to the one before it may
    follow another one now. Ids end in `#order1` to `#order4`.
    """
    task: CompoundQuestion = item.task
    parts = split_questions(task.question) if task.type == "Factual-Statement" else ()
    if len(parts) != len(ORDERS[0]):
        return
    for number, order in enumerate(ORDERS, 1):
        question = " ".join(parts[part] for part in order)
        labels = {**item.labels, "order": (f"order{number}",)}
        ordered = task.model_copy(update={"question": question})
        yield replace(item, id=f"{item.id}#order{number}", task=ordered, question=question, labels=labels)


def order_of(item_id: str) -> tuple[int, ...]:
    """Return the order that an item id ends in, as in `ORDERS`; empty if the id has no order."""
    match = _ORDER.search(item_id)
    return ORDERS[int(match[1]) - 1] if match else ()


def cell_names(name: str) -> tuple[str, ...]:
    """Return the metric names for the cells of Table 3: `NAME.q2@1` is sub-question 2 asked at position 1."""
    return tuple(f"{name}.q{part}@{position}" for part in (1, 2, 3) for position in (1, 2, 3))


def by_position(name: str, order: Sequence[int], values: Sequence[float | None]) -> dict[str, float | None]:
    """Name the values of the parts, in the order asked, by `cell_names`; empty if `order` does not fit `values`."""
    if len(order) != len(values):
        return {}
    names = [f"{name}.q{part + 1}@{position}" for position, part in enumerate(order, 1)]
    return dict(zip(names, values, strict=True))


COVERAGE = "part_coverage"


@dataclass(frozen=True)
class CompoundCase(Case):
    """A reply to a compound question; judges see the question without the context.

    Attributes:
        parts: the sub-questions in the order asked.
        replies: the reply to each part; empty unless each part was asked in a separate turn.
        order: at each position, the index of the original sub-question (`ORDERS`); if empty, the original order.
    """

    passages_judged: ClassVar[bool] = False
    parts: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


def compound_metrics(embed: Embed | None, by_order: bool) -> tuple[Metric[CompoundCase], ...]:
    """Return the metric `part_coverage`: the share of parts that the reply answers.

    Args:
        by_order: also give it by sub-question and position, for questions asked in several orders.
    """

    def answer_of_each_part(context: CompoundCase) -> tuple[str, ...]:
        assert embed is not None, "checked before"
        if says_unknown(context):
            return ("",) * len(context.parts)
        if context.replies:
            pairs = zip(context.parts, context.replies, strict=True)
            return tuple(assign_sentences([part], reply, embed)[0] for part, reply in pairs)
        return assign_sentences(context.parts, context.answer, embed)

    def coverage(context: CompoundCase) -> Mapping[str, Value]:
        if embed is None or not context.parts:
            return {}
        covered = [float(bool(text)) for text in answer_of_each_part(context)]
        values: dict[str, Value] = {COVERAGE: sum(covered) / len(covered)}
        if by_order:
            values.update(by_position(COVERAGE, context.order, covered))
        return values

    name = getattr(embed, "name", "the embedder")
    cells = cell_names(COVERAGE) if by_order else ()
    return (
        Metric(
            names=(COVERAGE, *cells),
            by=f"parts by rules, matched by {name}",
            measure=coverage,
            without="no embedder, or a position that this order lacks",
            shown={COVERAGE: MetricStyle(headline=40)},
        ),
    )
