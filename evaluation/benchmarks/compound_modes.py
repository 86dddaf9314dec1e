"""How Compound-QA's questions are put to a model: the paper's modes (Tables 21, 22), one question a turn, four orders.

The wording of the prompts is ours, what they ask for is the paper's. Its temperature and its limit are sent with each
call unless the generator's spec names others; a reply that reaches the limit is kept as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.prompts import fence, fence_tag, inert
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.structured import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.compound_qa import Task
from turnmark.corpora.specs import parse_spec
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.prompts import load_prompt

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
class Tuning:
    """What calls of the paper's modes say; None: what the generator's spec says."""

    temperature: float | None = TEMPERATURE
    max_tokens: int | None = MAX_TOKENS


def tuning_of(spec: str) -> Tuning:
    """The paper's values, but for those that a generator's spec names itself."""
    options = parse_spec(spec).options
    return Tuning(None if "temperature" in options else TEMPERATURE, None if "max_tokens" in options else MAX_TOKENS)


@dataclass(frozen=True)
class Reply:
    """What a model wrote, and why it is not whole ("" where it is)."""

    text: str
    usage: Usage
    note: str = ""


def said(generator: Generator, messages: Sequence[PromptMessage], tuning: Tuning) -> Reply:
    """One reply, an empty one included: like an answer that is left out it loses, and says why.

    Raises:
        GeneratorError: none was to be had, or the endpoint's filter stopped it before a word.
    """
    reply = generator.complete(messages, max_tokens=tuning.max_tokens, temperature=tuning.temperature)
    text = without_thinking(reply.text).strip()
    if not text:
        if reply.finish_reason == "content_filter":
            what = f"{reply.model} said nothing: the endpoint's content filter stopped it"
            raise GeneratorError("refused", what, reply.usage)
        return Reply("", reply.usage, f"{EMPTY} ({reply.finish_reason})")
    ended = {
        "length": f"the answer is not whole: it was cut at the limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is not whole: the endpoint's content filter stopped it",
    }
    return Reply(text, reply.usage, ended.get(reply.finish_reason, ""))


def prompts_of(setting: str | None) -> tuple[str, ...]:
    """The prompts that a setting asks a model with, beside the assistant's own."""
    if setting in PROMPTS:
        return (PROMPTS[setting],)
    return {DIALOGUE: (PROMPTS["vanilla"], SPLIT), POSITIONS: (PROMPTS["vanilla"],)}.get(setting or "", ())


def prompt_of(mode: str, question: str, context: str | None, prompts: Path | None = None) -> tuple[PromptMessage, ...]:
    """The messages of one of the paper's modes; the context, where there is one, between marks."""
    tag = fence_tag(question, context or "")
    shown = fence(context, "text", tag) if context else ""
    return load_prompt(PROMPTS[mode], prompts).render(context=shown, question=question)


def next_turn(before: Sequence[PromptMessage], reply: str, question: str) -> tuple[PromptMessage, ...]:
    """A dialogue gone on with: what was answered, and the next question as it stands."""
    return (
        *before,
        PromptMessage(role="assistant", content=inert(reply)),
        PromptMessage(role="user", content=inert(question)),
    )


# --- parts -----------------------------------------------------------------------------------------------------------


class QuestionsReply(BaseModel):
    """What the prompt `compound-split` asks for."""

    questions: list[str]


def parts_by_model(generator: Generator, text: str, prompts: Path | None = None) -> tuple[tuple[str, ...], Usage]:
    """The sub-questions as a model takes them apart (Table 18); the text itself where it finds none.

    Raises:
        GeneratorError: no list was to be had.
    """
    tag = fence_tag(text)
    messages = load_prompt(SPLIT, prompts).render(tag=tag, text=fence(text, "text", tag))
    found, usage = ask(generator, messages, QuestionsReply, max_tokens=LIST_TOKENS)
    if isinstance(found, Failure):
        why = f"the question was not taken apart: {found.reason or found.kind}"
        if found.kind == "length" or found.kind == "invalid" or found.kind == "content_filter":
            raise GeneratorError("bad_reply", why, usage)
        raise GeneratorError(found.kind, why, usage)
    parts = tuple(" ".join(part.split()) for part in found.questions if part.strip())
    return parts or (text,), usage


# --- orders ----------------------------------------------------------------------------------------------------------


def in_orders(item: Item) -> Iterator[Item]:
    """A Factual-Statement question of three parts in the four orders of Table 20; nothing for any other.

    The parts are those of `split_questions`, each as it stands: one that leans on the part before it leans on another
    one now, as in the paper. Ids end in `#order1` to `#order4`.
    """
    task: Task = item.task
    parts = split_questions(task.question) if task.type == "Factual-Statement" else ()
    if len(parts) != len(ORDERS[0]):
        return
    for number, order in enumerate(ORDERS, 1):
        asked = " ".join(parts[place] for place in order)
        yield Item(f"{item.id}#order{number}", task.model_copy(update={"question": asked}), item.domain)


def order_of(item_id: str) -> tuple[int, ...]:
    """For each place in which it is asked the sub-question of the original; empty where no order is named."""
    found = _ORDER.search(item_id)
    return ORDERS[int(found[1]) - 1] if found else ()


def places(name: str) -> tuple[str, ...]:
    """The metrics of Table 3's cells: `NAME.q2@1` is sub-question 2 asked first."""
    return tuple(f"{name}.q{part}@{place}" for part in (1, 2, 3) for place in (1, 2, 3))


def by_place(name: str, order: Sequence[int], values: Sequence[float | None]) -> dict[str, float | None]:
    """Values of the parts as they were asked, under the names of `places`; those of other places are left out."""
    return {
        f"{name}.q{order[place] + 1}@{place + 1}": value
        for place, value in enumerate(values)
        if place < len(order) and len(order) == len(values)
    }
