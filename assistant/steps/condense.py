"""A message that leans on its conversation, put as a question of its own: one few-shot call, one line out.

The question joins the search as a variant beside the raw message and never replaces it. On held-out conversations
that gains; in the place of the raw message it loses (docs/turn.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from turnmark.assistant.budget import INSTRUCTIONS, count_tokens
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.prompts import load_prompt, quoted
from turnmark.assistant.steps.decompose import Rules, understand_parts
from turnmark.assistant.steps.marks import unmarked
from turnmark.assistant.steps.support import stems
from turnmark.assistant.steps.understand import refers_back
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding, Usage
from turnmark.corpora.text import content_words, strip_citations, words
from turnmark.corpora.types import Message, Record

TURNS = 4
"""Earlier messages that are shown."""
LONGEST_TURN = 50
"""Words of an earlier message that are shown."""
REPLY_TOKENS = 64
LONGEST_GROWTH, GROWTH_ALLOWED = 2, 20
"""A question with more words than so many times the message's and so many more has drifted from it."""

_LABEL = re.compile(r"^\W*(?:question|rewritten(?: question| message)?|last message|user)\s*:\s*", re.IGNORECASE)
_SPEAKER = {"user": "User", "assistant": "Assistant"}


class Condense:
    """Rules; a message that leans on its conversation is put as a question of its own by a model.

    Whether a message revises, or asks anything, rules decide. Where evidence is given nothing depends on a rewrite.
    """

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        Rules()(turn)
        if turn.understanding.kind != "question" or turn.understanding.standalone or turn.evidence is not None:
            return
        condensed = condense(turn.model, turn.history, turn.message, turn.prompts)
        turn.use("rewrite", condensed.usage, condensed.note)
        if condensed.question:
            turn.forms["understand"] = "llm"
            turn.understanding = with_question(turn.understanding, turn.message, condensed.question)


class Condensed(Record):
    """A message as a question of its own; `question` is "" where nothing usable came, and `note` says why."""

    question: str
    usage: Usage = Usage()
    note: str = ""


def condense(generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None) -> Condensed:
    """One call. Never raises a `GeneratorError`: a turn goes on with what rules understand, and a note.

    Args:
        history: the turns before, oldest first; the last `TURNS` are shown.
        prompts: folder with a prompt of one's own.
    """
    prompt = condense_prompt(history, message, prompts)
    if sum(count_tokens(one.content) for one in prompt) > max(INSTRUCTIONS, generator.context_tokens - REPLY_TOKENS):
        return Condensed(question="", note="understood by rules: the message is too long for the model")
    try:
        reply = generator.complete(prompt, max_tokens=REPLY_TOKENS)
    except GeneratorError as error:
        why = error.kind.replace("_", " ")
        return Condensed(question="", usage=error.usage, note=f"understood by rules: {why}: {error}")
    line = next(iter(without_thinking(reply.text).strip().splitlines()), "")
    question = strip_citations(_LABEL.sub("", line)).strip(" \t\"'“”`*")
    problem = fault_of(question, history, message)
    note = f"understood by rules: the model's rewrite {problem}" if problem else ""
    return Condensed(question="" if problem else question, usage=reply.usage, note=note)


def condense_prompt(history: Sequence[Message], message: str, prompts: Path | None = None) -> tuple[PromptMessage, ...]:
    """The messages that `condense` sends: the last turns, each quoted on one line."""
    return load_prompt("condense", prompts).render(history=quoted_turns(history), message=" ".join(message.split()))


def quoted_turns(history: Sequence[Message]) -> str:
    """The last turns, a quoted line each, marks of citations left out and long ones cut."""
    lines = []
    for turn in history[-TURNS:]:
        shown = strip_citations(turn.content).split()
        text = " ".join(shown[:LONGEST_TURN]) + (" …" if len(shown) > LONGEST_TURN else "")
        lines.append(quoted(unmarked(f"{_SPEAKER[turn.role]}: {text}")))
    return "\n".join(lines)


def fault_of(question: str, history: Sequence[Message], message: str) -> str:
    """What is wrong about a rewrite, in words that follow "the model's rewrite"; "" where nothing is.

    It is empty, far longer than the message, an earlier message again, has nothing of the message in it, still refers
    to what was said before, or brings in more than a word that neither the message nor the conversation has.
    """
    if not words(question):
        return "is empty"
    if len(words(question)) > LONGEST_GROWTH * len(words(message)) + GROWTH_ALLOWED:
        return "is far longer than the message"
    if refers_back(question):
        return "still refers to earlier turns"
    if words(question) == words(message):
        return ""
    if any(words(question) == words(strip_citations(turn.content)) for turn in history):
        return "repeats an earlier message"
    own = stems(" ".join(content_words(message)))
    new = stems(" ".join(content_words(question)))
    if own and not own & new:
        return "has no word of the message"
    known = own.union(*(stems(turn.content) for turn in history))
    if len(new - known) > 1 + len(new) // 4:
        return "brings in what nobody has said"
    return ""


def with_question(understood: Understanding, message: str, question: str) -> Understanding:
    """An understanding by rules, with a message put as a question of its own in the place of the rules' rewrite.

    Its parts are those of the question, as the message has them where it has as many.
    """
    if words(question) == words(message):
        question = message
    alone = understand_parts((), question)
    parts = alone.sub_questions if alone.kind == "question" else (question,)
    asked = understood.asked if len(understood.asked) == len(parts) else ()
    return understood.model_copy(
        update={
            "standalone": question == message,
            "rewrite": question,
            "topic": (),
            "sub_questions": parts if len(parts) > 1 else (question,),
            "asked": asked if len(parts) > 1 else (),
            "needs": alone.needs if len(parts) > 1 else (),
            "wants_procedure": understood.wants_procedure or alone.wants_procedure,
        }
    )
