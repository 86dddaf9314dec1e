"""The understand step with a language model.

`UnderstandingByModel` asks a large model for kind, rewrite, parts and search phrases in one structured call;
`UnderstandingBySmallModel` asks a small model for a question and search phrases in plain text. The query mode `minimal`
has MTRAG's rewrite (section 5.2 and appendix C.1). The raw message is searched in each case, and rules take over if a
model gives nothing usable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, PromptMessage
from turnmark.assistant.llm.calls.reply_schemas import limit_characters, limit_items
from turnmark.assistant.llm.prompts.context_budget import count_tokens, fit_prompt, material_room, shorten
from turnmark.assistant.llm.prompts.history import SPEAKER_NAMES, ends_with_question, last_turns_within
from turnmark.assistant.llm.prompts.prompt_files import PromptMessages, load_prompt
from turnmark.assistant.llm.prompts.structured_output import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.steps.step_results import UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.collection_questions import collection_question
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.earlier_answers import current_versions
from turnmark.assistant.steps.understand.understand_rules import MAX_PARTS, refers_back, understand
from turnmark.assistant.types import Understanding, Usage
from turnmark.assistant.wording.phrases import wants_procedure
from turnmark.core.record import Record
from turnmark.core.untrusted import escape_marks, quote_lines
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Query

MAX_PHRASES = 4
"""Maximum search phrases of a part."""
MAX_TITLES, MAX_TITLES_TOKENS, MAX_TITLE_TOKENS = 15, 300, 30
"""Maximum titles of documents in a prompt, and maximum tokens of all of them and of each."""
MAX_HITS_FOR_TITLES = 30
"""Maximum hits of the search for the documents whose titles are shown."""
MAX_CONVERSATION_TOKENS = 6000
"""Maximum tokens of earlier messages that a large model is shown."""
MAX_SMALL_MODEL_MESSAGES, MAX_SMALL_MODEL_WORDS = 4, 50
"""Maximum earlier messages that a small model is shown, and maximum words of each."""
MAX_SMALL_REPLY_TOKENS, MAX_SMALL_PHRASE_WORDS = 96, 12
"""Maximum tokens of a small model's reply, and maximum words of a search phrase in it."""
_SEARCH = re.compile(r"^\W*search\w*(?: phrases?)?\W*:", re.IGNORECASE)
LABEL = re.compile(r"^\W*(?:question|rewritten(?: question| message)?|last message|user)\s*:\s*", re.IGNORECASE)
MAX_REWRITE_FACTOR, REWRITE_ALLOWANCE_WORDS = 3, 25
"""A rewrite has drifted from its message if it has more than three times its words plus 25."""
MINIMAL_QUERY, MINIMAL_QUERY_SECONDS = "minimal", 20.0
"""Name of the query mode that asks a language model for a rewrite, and seconds for the rewrite of one message."""


def has_drifted(reworded: str, message: str) -> bool:
    """Return whether a rewrite is so much longer than the message that its meaning must have changed."""
    return len(words(reworded)) > MAX_REWRITE_FACTOR * len(words(message)) + REWRITE_ALLOWANCE_WORDS


class AskedPart(BaseModel):
    """A question of a message, with search phrases in the words of documents."""

    question: Annotated[str, limit_characters(500)]
    search: Annotated[list[str], limit_items(MAX_PHRASES)] = Field(default_factory=list)


class UnderstandReply(BaseModel):
    """The reply that the prompt `understand` asks for."""

    kind: Annotated[
        Literal["question", "conversational", "revision"],
        BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
    ] = "question"
    leans: bool = False
    rewrite: str = ""
    parts: Annotated[list[AskedPart], limit_items(MAX_PARTS)] = Field(default_factory=list)


class UnderstandingByModel:
    """Understand step for a large model, which returns kind, rewrite, parts and search phrases in one call.

    A plain courtesy needs no call, unless it may answer a question of the assistant.
    """

    name = "understand"

    def __call__(self, turn: Turn, /) -> UnderstoodMessage:
        rules = understand(turn.history, turn.message, turn.languages)
        courtesy = rules.kind == "conversational" and not ends_with_question(turn.history)
        if turn.evidence is not None or courtesy:
            return UnderstoodMessage(rules, turn.message, "rules")
        titles, count = _titles_to_show(turn, rules)
        prompt, notes = understand_prompt(
            turn.model,
            current_versions(turn.history),
            turn.message,
            titles,
            count,
            turn.prompts,
            turn.languages_to_search,
        )
        reply, usage = ask(turn.model, prompt, UnderstandReply, max_tokens=2 * STRUCTURED_TOKENS)
        if isinstance(reply, Failure):
            reason = f"{reply.kind.replace('_', ' ')}: {reply.reason}"
            turn.use("understand", usage, f"understood by rules: the model gave nothing usable ({reason})")
            return UnderstoodMessage(rules, turn.message, "rules", fallback=reply.kind)
        turn.use("understand", usage, *notes)
        understanding = understanding_of(reply, turn.message, bool(turn.history))
        return UnderstoodMessage(understanding, turn.message, "llm")


def _titles_to_show(turn: Turn, rules: Understanding) -> tuple[list[str], int]:
    """Return the titles of the documents nearest to the message, and how many different titles there are.

    A few titles are all shown. No title is shown of a collection that is too large to list its titles.

    Args:
        rules: what rules understood of the message, which is searched with its topic.
    """
    titles = turn.retriever.titles() if turn.retriever else []
    if turn.retriever is None or len(titles) <= MAX_TITLES:
        return titles, len(titles)
    variants = () if rules.standalone else (rules.rewrite,)
    query = Query(text=turn.message, history=turn.history, standalone=rules.standalone, variants=variants)
    (hits,) = turn.retriever.search([query], MAX_HITS_FOR_TITLES)
    return list(dict.fromkeys(hit.passage.title for hit in hits if hit.passage.title)), len(titles)


def understand_prompt(
    generator: Generator,
    history: Sequence[Message],
    message: str,
    titles: Sequence[str] = (),
    count: int = 0,
    prompts: Path | None = None,
    languages: str = "",
) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """Return the messages that `UnderstandingByModel` sends, with the last messages of the conversation, and notes.

    Args:
        languages: names of the documents' languages, or "" if they need no mention.
        titles: titles of documents, nearest to the message first, which show the model the documents' words.
        count: how many different titles the documents have.
    """
    template = load_prompt("understand", prompts)
    # The limit of a reply is twice `STRUCTURED_TOKENS`, and doubles once if the reply is cut.
    room = material_room(generator, template, message, reply=4 * STRUCTURED_TOKENS)
    shown_titles = _first_titles(titles, min(MAX_TITLES_TOKENS, room // 4))
    titles_text = template.quote(" · ".join(shown_titles)) if shown_titles else ""
    room -= count_tokens(titles_text)
    earlier, left_out = last_turns_within(history, min(MAX_CONVERSATION_TOKENS, room), template.quote)
    notes: list[str] = []
    if left_out and room < MAX_CONVERSATION_TOKENS:
        notes.append(
            f"{left_out} of {len(history)} earlier messages were left out when the question was read: "
            "the model's context is full"
        )
    no_messages = "(not shown: there is no room)" if history else "(none: this is the first message)"
    messages = template.render(
        languages=languages,
        titles=titles_text,
        share=f"those nearest to the message, of {count:,} different ones" if len(shown_titles) < count else "all",
        history=earlier or no_messages,
        message=message,
    )
    return messages, notes


def _first_titles(titles: Sequence[str], tokens: int) -> list[str]:
    """Return the first titles that fit into `tokens`, each on one line."""
    first = [shorten(_line(title), MAX_TITLE_TOKENS) for title in titles[:MAX_TITLES]]
    while first and count_tokens(" · ".join(first)) > tokens:
        del first[-1]
    return first


def understanding_of(reply: UnderstandReply, message: str, answered: bool) -> Understanding:
    """Convert a model's reply, without empty parts and without rewrites and parts that drifted from the message.

    Args:
        answered: whether there is an answer that could be revised.
    """
    rewrite = _line(reply.rewrite)
    if not reply.leans or not rewrite or has_drifted(rewrite, message):
        rewrite = message
    phrases: dict[str, tuple[str, ...]] = {}  # question -> its search phrases
    for part in reply.parts[:MAX_PARTS]:
        if part.question.strip() and not has_drifted(part.question, message):
            phrases[_line(part.question)] = tuple(filter(None, map(_line, part.search[:MAX_PHRASES])))
    revises = reply.kind == "revision" and answered
    questions = (message,) if revises else tuple(phrases) or (rewrite,)
    phrases_of_parts = tuple(phrases.values())
    if len(questions) == 1:
        all_phrases = tuple(dict.fromkeys(chain.from_iterable(phrases_of_parts)))
        phrases_of_parts = (all_phrases,) if all_phrases else ()
    is_question = len(questions) > 1 or (reply.kind == "revision" and not answered)
    return Understanding(
        kind="question" if is_question else reply.kind,
        standalone=rewrite == message,
        rewrite=rewrite,
        sub_questions=questions,
        phrases=phrases_of_parts,
        wants_procedure=wants_procedure(message),
    )


def _line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())


class UnderstandingBySmallModel:
    """Understand step for a small model: rules, and one call for a complete question and search phrases.

    On 44 turns in newcomers' words, the first six passages contain all key facts in .73 of the turns without its
    phrases, and in .91 with them. Its question selects sentences worse than a rewrite by rules, so it only serves the
    search.
    """

    name = "understand"

    def __call__(self, turn: Turn, /) -> UnderstoodMessage:
        rules = understand(turn.history, turn.message, turn.languages)
        about_collection = collection_question(turn.message) is not None
        if rules.kind != "question" or turn.evidence is not None or about_collection:
            return UnderstoodMessage(rules, turn.message, "rules")
        template = load_prompt("condense", turn.prompts)
        prompt = template.render(
            history=last_turns(turn.history, template.quote) or template.quote("(none)"),
            message=" ".join(turn.message.split()),
            languages=turn.languages_to_search,
        )
        try:
            reply = turn.model.complete(prompt, max_tokens=MAX_SMALL_REPLY_TOKENS)
        except GeneratorError as error:
            turn.use("understand", error.usage, f"understood by rules: {error.kind.replace('_', ' ')}: {error}")
            return UnderstoodMessage(rules, turn.message, "rules", fallback=error.kind)
        turn.use("understand", reply.usage)
        question, phrases = read_condensed(reply.text)
        leans = not rules.standalone and _is_usable(question, turn)
        if not leans and not phrases:
            return UnderstoodMessage(rules, turn.message, "rules")
        update: dict[str, object] = {"phrases": (phrases,) * len(rules.sub_questions)}
        if leans:
            update |= {"rewrite": question, "topic": ()}
        return UnderstoodMessage(rules.model_copy(update=update), turn.message, "condense")


def read_condensed(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse the question and the search phrases that a small model wrote, in whatever layout.

    >>> read_condensed("Question: How old is it?\\nSearch: age of the lamp; built in")
    ('How old is it?', ('age of the lamp', 'built in'))
    """
    question = ""
    phrases: tuple[str, ...] = ()
    for line in filter(str.strip, text.strip().splitlines()):
        label = _SEARCH.match(line)
        if label:
            phrases = _phrases_in(line[label.end() :])
        elif not question:
            question = strip_citations(LABEL.sub("", line)).strip(" \t\"'“”`*")
    return question, phrases[:MAX_PHRASES]


def _phrases_in(text: str) -> tuple[str, ...]:
    """Return the different phrases of a list separated by ";" or ","; empty and long ones are left out."""
    phrases = [strip_citations(phrase).strip(" \t\"'“”`*.") for phrase in re.split(r"[;,]", text)]
    return tuple(phrase for phrase in dict.fromkeys(phrases) if 0 < len(words(phrase)) <= MAX_SMALL_PHRASE_WORDS)


def _is_usable(question: str, turn: Turn) -> bool:
    """Return whether a small model's question is not empty, drifted, dependent on context or an earlier message."""
    if not words(question) or has_drifted(question, turn.message) or refers_back(question):
        return False
    return all(words(question) != words(strip_citations(earlier.content)) for earlier in turn.history)


def last_turns(history: Sequence[Message], quote: Callable[[str], str] = quote_lines) -> str:
    """Format the last messages, one per line; long ones are cut."""
    lines = []
    for turn in history[-MAX_SMALL_MODEL_MESSAGES:]:
        tokens = strip_citations(turn.content).split()
        text = " ".join(tokens[:MAX_SMALL_MODEL_WORDS])
        if len(tokens) > MAX_SMALL_MODEL_WORDS:
            text += " …"
        lines.append(quote(escape_marks(f"{SPEAKER_NAMES[turn.role]}: {text}")))
    return "\n".join(lines)


# --- the query mode `minimal` ---


class Rewrite(Record):
    """The result of asking a model for a rewrite."""

    text: str = Field(default="", description="the message reworded, on one line; empty if it needs no rewrite")
    failure: str = Field(
        default="", description="why there is none: a `FailureKind`, `too_long`, `drifted` or `empty`; else empty"
    )
    usage: Usage = Usage()
    notes: tuple[str, ...] = Field(default=(), description="notes for the person on what failed or was left out")


def _read_class(value: object) -> object:
    """Normalize a model's spelling of `standalone` or `non-standalone`; other values stay and are refused later."""
    if isinstance(value, str):
        letters = re.sub(r"[^a-z]", "", value.lower())
        return {"standalone": "standalone", "nonstandalone": "non-standalone"}.get(letters, value)
    return value


class RewriteReply(BaseModel):
    """The reply of MTRAG's protocol (appendix C.1): the class of a message, and the message reworded."""

    kind: Annotated[Literal["standalone", "non-standalone"], BeforeValidator(_read_class)] = Field(
        validation_alias="class"
    )
    reworded: str = Field(validation_alias=AliasChoices("reworded_version", "reworded version"))


def rewrite_minimally(
    generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None
) -> Rewrite:
    """Ask a model to reword a message so that it needs no context; no call for a first message or a courtesy."""
    if not history or is_conversational(message):
        return Rewrite()
    request = rewrite_prompt(generator, history, message, prompts)
    if request is None:
        return _no_rewrite("too_long", "too long to be reworded")
    prompt, left_out = request
    reply, usage = ask(generator, prompt, RewriteReply)
    if isinstance(reply, Failure):
        return _no_rewrite(reply.kind, f"no rewrite came ({reply.kind.replace('_', ' ')}: {reply.reason})", usage)
    reworded = _line(reply.reworded) if reply.kind == "non-standalone" else message
    if not reworded:
        return _no_rewrite("empty", "the model's rewrite was empty", usage)
    if has_drifted(reworded, message):
        return _no_rewrite("drifted", "the model's rewrite was far longer than the question", usage)
    notes = tuple(f"{MINIMAL_QUERY}: {note}: the model's context is full" for note in left_out)
    return Rewrite(text=reworded if reworded != message else "", usage=usage, notes=notes)


def _no_rewrite(failure: str, reason: str, usage: Usage = Usage()) -> Rewrite:
    return Rewrite(failure=failure, usage=usage, notes=(f"{MINIMAL_QUERY}: searched as typed: {reason}",))


def rewrite_prompt(
    generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None
) -> tuple[PromptMessages, tuple[str, ...]] | None:
    """Return the messages that ask for a rewrite, and notes on earlier messages that were left out.

    None if the message leaves no room for the reply.
    """
    # Room for a reply, for one of twice the limit if it is cut, and for the request to repair it.
    room = generator.context_tokens - 3 * STRUCTURED_TOKENS
    fitted = fit_prompt(load_prompt("rewrite", prompts), room, {}, (), history, {"message": message}, message)
    return None if fitted is None else (fitted.messages, fitted.notes)
