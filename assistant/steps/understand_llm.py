"""The understand step with a language model: kind, rewrite, parts and search phrases in one structured call
(`Understand`), or for a small model a question and phrases in plain text (`Condense`); and the query mode `minimal`,
whose rewrite is that of MTRAG (section 5.2 and appendix C.1). None replaces the raw message; if nothing usable comes,
rules understand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from turnmark.assistant.asking import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.budget import count_tokens, fit_prompt, room_beside, shorten
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.generators.client import at_most, short_text
from turnmark.assistant.prompts import Messages, load_prompt, quote_lines
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.history import SPEAKER, asked_back, last_turns_within
from turnmark.assistant.steps.marks import escape_marks
from turnmark.assistant.steps.understand import MOST_PARTS, refers_back, understand, wants_procedure
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding, Usage
from turnmark.core.record import Record
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.types import titles_of

MOST_PHRASES = 4
MOST_TITLES, TITLES_TOKENS, LONGEST_TITLE = 60, 800, 30
"""Titles of documents that are shown, tokens of all of them, and of each."""
TURNS, LONGEST_TURN = 4, 50
"""Earlier messages that a small model is shown, and words of each."""
REPLY_TOKENS, LONGEST_PHRASE = 96, 12
_SEARCH = re.compile(r"^\W*search\w*(?: phrases?)?\W*:", re.IGNORECASE)
LABEL = re.compile(r"^\W*(?:question|rewritten(?: question| message)?|last message|user)\s*:\s*", re.IGNORECASE)
LONGEST_GROWTH, GROWTH_ALLOWED = 3, 25
"""A rewrite puts in what is missing: one of more than three times the message's words, and 25, has drifted from it."""
MINIMAL, MINIMAL_SECONDS = "minimal", 20.0
"""The query mode that asks a language model; and how long for the rewrite of one message."""


def has_drifted(reworded: str, message: str) -> bool:
    """Whether another wording of a message is so much longer that it is no longer the message."""
    return len(words(reworded)) > LONGEST_GROWTH * len(words(message)) + GROWTH_ALLOWED


class AskedPart(BaseModel):
    """A question of a message, and what to search for in the words of documents."""

    question: Annotated[str, short_text(500)]
    search: Annotated[list[str], at_most(MOST_PHRASES)] = Field(default_factory=list)


class UnderstandReply(BaseModel):
    """What the prompt `understand` asks for."""

    kind: Annotated[
        Literal["question", "conversational", "revision"],
        BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
    ] = "question"
    leans: bool = False
    rewrite: str = ""
    parts: Annotated[list[AskedPart], at_most(MOST_PARTS)] = Field(default_factory=list)


class Understand:
    """Kind, rewrite, parts and phrases by one call, on first messages too. A plain courtesy costs none, unless it may
    answer a question back.
    """

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        rules = understand(turn.history, turn.message, turn.nearest)
        courtesy = rules.kind == "conversational" and not asked_back(turn.history)
        if turn.evidence is not None or courtesy:
            turn.understood(rules, "rules")
            return
        titles = titles_of(turn.retriever)
        prompt, notes = understand_prompt(turn.model, turn.history, turn.message, titles, turn.prompts)
        reply, usage = ask(turn.model, prompt, UnderstandReply, max_tokens=2 * STRUCTURED_TOKENS)
        if isinstance(reply, Failure):
            reason = f"{reply.kind.replace('_', ' ')}: {reply.reason}"
            turn.fallback = reply.kind
            turn.use("understand", usage, f"understood by rules: the model gave nothing usable ({reason})")
            turn.understood(rules, "rules")
            return
        turn.use("understand", usage, *notes)
        turn.understood(understanding_of(reply, turn.message, answered=bool(turn.history)), "llm")


def understand_prompt(
    generator: Generator,
    history: Sequence[Message],
    message: str,
    titles: Sequence[str] = (),
    prompts: Path | None = None,
) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """The messages that `Understand` sends, of a long conversation the last turns that fit; and what was left out.

    Args:
        titles: of all documents, most telling first; so many of them are shown that phrases are in their words.
    """
    template = load_prompt("understand", prompts)
    # A reply has twice `STRUCTURED_TOKENS`, and twice that if it is cut and asked for again.
    room = room_beside(generator, template, message, reply=4 * STRUCTURED_TOKENS)
    listed = _listed(titles, min(TITLES_TOKENS, room // 4))
    shown = template.quote(" · ".join(listed)) if listed else ""
    earlier, left_out = last_turns_within(history, room - count_tokens(shown), template.quote)
    notes = [
        f"{left_out} of {len(history)} earlier messages were left out when the question was read: "
        "the model's context is full"
    ]
    no_turns = "(not shown: there is no room)" if history else "(none: this is the first message)"
    messages = template.render(
        titles=shown,
        share=f"{len(listed)} of {len(titles)}" if len(listed) < len(titles) else "all",
        history=earlier or no_turns,
        message=message,
    )
    return messages, notes if left_out else []


def _listed(titles: Sequence[str], tokens: int) -> list[str]:
    """The first titles within so many tokens, each on a line."""
    listed = [shorten(_line(title), LONGEST_TITLE) for title in titles[:MOST_TITLES]]
    while listed and count_tokens(" · ".join(listed)) > tokens:
        del listed[-1]
    return listed


def understanding_of(reply: UnderstandReply, message: str, answered: bool) -> Understanding:
    """The reply as a record: what cannot be a part, or has drifted from the message, is left out.

    Args:
        answered: there is an answer that could be revised.
    """
    rewrite = " ".join(reply.rewrite.split())
    if not reply.leans or not rewrite or has_drifted(rewrite, message):
        rewrite = message
    parts = [
        part for part in reply.parts[:MOST_PARTS] if part.question.strip() and not has_drifted(part.question, message)
    ]
    phrases = {_line(part.question): tuple(filter(None, map(_line, part.search[:MOST_PHRASES]))) for part in parts}
    texts = list(phrases)
    all_phrases = tuple(dict.fromkeys(phrase for texts_of_part in phrases.values() for phrase in texts_of_part))
    revises = reply.kind == "revision" and answered
    if len(texts) < 2 or revises:
        return Understanding(
            kind="revision" if revises else "conversational" if reply.kind == "conversational" else "question",
            standalone=rewrite == message,
            rewrite=rewrite,
            sub_questions=(message,) if revises else tuple(texts) or (rewrite,),
            phrases=(all_phrases,) if all_phrases else (),
            wants_procedure=wants_procedure(message),
        )
    return Understanding(
        standalone=rewrite == message,
        rewrite=rewrite,
        sub_questions=tuple(texts),
        phrases=tuple(phrases[text] for text in texts),
        wants_procedure=wants_procedure(message),
    )


def _line(text: str) -> str:
    return " ".join(text.split())


class Condense:
    """Rules; and in one call of a small model the message as a complete question, and search phrases for it.

    On 44 turns in newcomers' words the first six passages hold all key facts in .73 without its phrases, in .91 with
    them (docs/measured.md). Its question chooses sentences worse than what rules carry over, so it joins the search.
    """

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        rules = understand(turn.history, turn.message, turn.nearest)
        if rules.kind != "question" or turn.evidence is not None:
            turn.understood(rules, "rules")
            return
        template = load_prompt("condense", turn.prompts)
        prompt = template.render(
            history=last_turns(turn.history, template.quote) or template.quote("(none)"),
            message=" ".join(turn.message.split()),
        )
        try:
            reply = turn.model.complete(prompt, max_tokens=REPLY_TOKENS)
        except GeneratorError as error:
            turn.fallback = error.kind
            turn.use("understand", error.usage, f"understood by rules: {error.kind.replace('_', ' ')}: {error}")
            turn.understood(rules, "rules")
            return
        turn.use("understand", reply.usage)
        question, phrases = read_condensed(reply.text)
        leans = not rules.standalone and _usable(question, turn)
        if not leans and not phrases:
            turn.understood(rules, "rules")
            return
        update: dict[str, object] = {"phrases": (phrases,) * len(rules.sub_questions)}
        if leans:
            update |= {"rewrite": question, "topic": ()}
        turn.understood(rules.model_copy(update=update), "condense")


def read_condensed(text: str) -> tuple[str, tuple[str, ...]]:
    """The question and the search phrases that a small model wrote, however it laid them out.

    >>> read_condensed("Question: How old is it?\\nSearch: age of the lamp; built in")
    ('How old is it?', ('age of the lamp', 'built in'))
    """
    question = ""
    phrases: tuple[str, ...] = ()
    for line in filter(str.strip, without_thinking(text).strip().splitlines()):
        if match := _SEARCH.match(line):
            found = (strip_citations(phrase).strip(" \t\"'“”`*.") for phrase in re.split(r"[;,]", line[match.end() :]))
            phrases = tuple(phrase for phrase in dict.fromkeys(found) if 0 < len(words(phrase)) <= LONGEST_PHRASE)
        elif not question:
            question = strip_citations(LABEL.sub("", line)).strip(" \t\"'“”`*")
    return question, phrases[:MOST_PHRASES]


def _usable(question: str, turn: Turn) -> bool:
    """Whether a rewrite is one: not empty, not drifted from the message, complete in itself, no earlier message."""
    if not words(question) or has_drifted(question, turn.message) or refers_back(question):
        return False
    return all(words(question) != words(strip_citations(past.content)) for past in turn.history)


def last_turns(history: Sequence[Message], quote: Callable[[str], str] = quote_lines) -> str:
    """The last turns, a line each, long ones cut."""
    lines = []
    for turn in history[-TURNS:]:
        shown = strip_citations(turn.content).split()
        text = " ".join(shown[:LONGEST_TURN]) + (" …" if len(shown) > LONGEST_TURN else "")
        lines.append(quote(escape_marks(f"{SPEAKER[turn.role]}: {text}")))
    return "\n".join(lines)


# --- the query mode `minimal` ---


class Rewrites(Record):
    """What came of asking for a rewrite."""

    variants: Mapping[str, str] = Field(default_factory=dict, description="name -> text, on one line, never empty")
    left_out: Mapping[str, str] = Field(
        default_factory=dict,
        description="name -> why it did not come: a `FailureKind`, `too_long`, `drifted` or `empty`",
    )
    usage: Usage = Usage()
    notes: tuple[str, ...] = Field(default=(), description="for the person: what went wrong, or was left out")


def _read_class(value: object) -> object:
    """`standalone` or `non-standalone`, however a model spells it; what is neither is left to be refused."""
    if isinstance(value, str):
        letters = re.sub(r"[^a-z]", "", value.lower())
        return {"standalone": "standalone", "nonstandalone": "non-standalone"}.get(letters, value)
    return value


class RewriteReply(BaseModel):
    """The object of MTRAG's protocol (appendix C.1): the class of a message, and the message reworded."""

    kind: Annotated[Literal["standalone", "non-standalone"], BeforeValidator(_read_class)] = Field(
        validation_alias="class"
    )
    reworded: str = Field(validation_alias=AliasChoices("reworded_version", "reworded version"))


def minimal(generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None) -> Rewrites:
    """The message reworded so that it needs no conversation. No call without earlier turns, or if nothing is asked."""
    if not history or is_conversational(message):
        return Rewrites()
    request = rewrite_prompt(generator, history, message, prompts)
    if request is None:
        return _without("too_long", "too long to be reworded")
    prompt, left_out = request
    reply, usage = ask(generator, prompt, RewriteReply)
    if isinstance(reply, Failure):
        reason = f"no rewrite came ({reply.kind.replace('_', ' ')}: {reply.reason})"
        return _without(reply.kind, reason, usage)
    reworded = " ".join(reply.reworded.split())
    if reply.kind == "non-standalone" and not reworded:
        return _without("empty", "the model's rewrite was empty", usage)
    if reply.kind == "non-standalone" and has_drifted(reworded, message):
        return _without("drifted", "the model's rewrite was far longer than the question", usage)
    changed = reply.kind == "non-standalone" and reworded != message
    notes = tuple(f"{MINIMAL}: {note}: the model's context is full" for note in left_out)
    return Rewrites(variants={MINIMAL: reworded} if changed else {}, usage=usage, notes=notes)


def _without(failure: str, reason: str, usage: Usage | None = None) -> Rewrites:
    note = f"{MINIMAL}: searched as typed: {reason}"
    return Rewrites(left_out={MINIMAL: failure}, usage=usage or Usage(), notes=(note,))


def rewrite_prompt(
    generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None
) -> tuple[Messages, tuple[str, ...]] | None:
    """The messages that ask for another wording, and which earlier turns were left out, if any.

    None if the message leaves no room for the reply.
    """
    # Room for a reply that is cut once and asked for again, and for one repair.
    room = generator.context_tokens - 3 * STRUCTURED_TOKENS
    fitted = fit_prompt(load_prompt("rewrite", prompts), room, {}, (), history, {"message": message}, message)
    return None if fitted is None else (fitted.messages, fitted.notes)
