"""Commands about the last answer: how it came about, what the metrics say of it, what the person does with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import get_args

import click

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.screen import CALL, uninterrupted
from turnmark.assistant.session import Edited, Exchange, Rating, TurnRated, cite
from turnmark.assistant.types import Reply, Search
from turnmark.corpora.console import inert, stdin_is_terminal, valid_text
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.text import printable


def grade_answer(chat: Chat, _: str) -> None:
    """What the metrics say of the last answer."""
    last = chat.need_last()
    if chat.grade is None:
        raise RequestError("there are no metrics in this chat")
    rows = chat.grade(last, chat.history_before_last())
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, remark in rows:
        figure = "   -" if value is None else f"{value:.2f}" if value <= 1 else f"{value:.0f}"
        chat.say(f"{name:<{width}}  {figure:>5}  {inert(remark)}".rstrip())


def revise(chat: Chat, argument: str) -> None:
    """Revise the last answer as the person says."""
    if not argument:
        raise RequestError("/revise: how? For example: /revise make it shorter")
    chat.revise(argument)


def retry(chat: Chat, _: str) -> None:
    """Answer the last message again."""
    chat.answer_again()


def rate(chat: Chat, argument: str) -> None:
    """`good`, `neutral` or `bad`, and why."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    rating: Rating | None = next((name for name in get_args(Rating) if name == word.lower()), None)
    if rating is None:
        line = f"/rate {inert(word)}".rstrip()
        raise RequestError(f"{line}: expected good, neutral or bad, then a comment if you like")
    chat.record(TurnRated(turn=last.turn, rating=rating, comment=comment.strip()))
    dropped = last.kind == "revise" and rating == "bad" and last.edit is None
    chat.say(f"rated {rating}{'; the earlier answer counts again' if dropped else ''}", style="dim")


def edit(chat: Chat, argument: str) -> None:
    """The person's version of the last answer: from the editor, or given with the command."""
    last = chat.need_last("there is no answer to edit yet")
    previous = last.edit if last.edit is not None else last.reply.answer
    text = valid_text(argument or open_editor(previous)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed")
    if text == previous.strip():
        chat.say("nothing was changed", style="dim")
        return
    chat.record(Edited(turn=last.turn, text=text))
    chat.say("edited; /grade compares it with the answer", style="dim")


def open_editor(text: str) -> str:
    """The text after the person has edited it in `$VISUAL`, `$EDITOR` or a usual editor."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or stdin_is_terminal()):
        raise RequestError("no editor: set EDITOR to one, or give the text with the command: /edit TEXT")
    try:
        with uninterrupted():
            return click.edit(text, require_save=False, extension=".md") or ""
    except (click.ClickException, ValueError, OSError) as error:
        raise TurnmarkError(f"{error}; nothing was changed") from error


MOST_SHOWN = 12


def why(chat: Chat, argument: str) -> None:
    """How the last turn came to its answer; with a number, the text of that source."""
    last = chat.need_last()
    if argument:
        source = next((source for source in last.reply.citations if str(source.n) == argument), None)
        if source is None:
            numbers = ", ".join(str(source.n) for source in last.reply.citations)
            raise RequestError(f"/why {inert(argument)}: no such source; there are: {numbers or 'none'}")
        chat.say(f"[{source.n}] {cite(source)}", style="bold")
        chat.say(printable(source.text))
        return
    for line in trace_lines(last):
        chat.say(line, style="" if line.startswith(" ") else "bold")


def trace_lines(exchange: Exchange) -> Iterator[str]:
    """The trace in lines, made inert; what belongs to a step is indented under it."""
    reply = exchange.reply
    yield f"question: {inert(exchange.question)}"
    yield from _understood(reply)
    if calls := [inert(event.text) for event in exchange.events if CALL.match(event.text)]:
        yield "calls of the model"
        yield from (f"  {call}" for call in calls)
    for number, search in enumerate(reply.trace.searches, 1):
        yield from _search(number, search, reply)
    yield from _outcome(exchange)
    yield from _cost(reply)


def _understood(reply: Reply) -> Iterator[str]:
    understanding = reply.trace.understanding
    if understanding:
        traits = ["asks for steps"] if understanding.wants_procedure else []
        traits += [] if understanding.standalone else ["needs the conversation"]
        yield f"  understood as: {', '.join([understanding.kind, *traits])}"
    if reply.rewrite not in ("", reply.question):
        yield f"  rewritten: {inert(reply.rewrite)}"
    for part in reply.sub_questions if len(reply.sub_questions) > 1 else ():
        yield f"  part ({'answered' if part.answered else 'not answered'}): {inert(part.text)}"


def _search(number: int, search: Search, reply: Reply) -> Iterator[str]:
    about = f", part {search.part + 1}" if search.part is not None and len(reply.sub_questions) > 1 else ""
    round_note = f", round {search.round}" if search.round > 1 else ""
    yield f"search {number}{about}{round_note}: {inert(search.why)}"
    yield f"  query: {inert(search.query)}"
    yield from (f"  phrase: {inert(variant)}" for variant in search.variants)
    for rank, hit in enumerate(search.hits[:MOST_SHOWN], 1):
        cosine = "" if hit.similarity is None else f", cosine {hit.similarity:.3f}"
        yield f"  {rank:>2}. {hit.score:.4g}{cosine}  {inert(hit.id)}"
    if not search.hits:
        yield "  nothing was found"
    if len(search.hits) > MOST_SHOWN:
        yield f"  … {len(search.hits) - MOST_SHOWN} more"


def _outcome(exchange: Exchange) -> Iterator[str]:
    """What was decided and checked, and what the person said of it."""
    reply, checks, judged = exchange.reply, exchange.reply.checks, exchange.reply.trace.judgement
    yield f"decided: {reply.decision}"
    if judged:
        yield f"  {judged.decision}, confidence {judged.confidence:.2f}, because {inert(judged.reason)}"
    for number, part in enumerate(reply.trace.parts, 1):
        yield f"  part {number}: {part.decision}, confidence {part.confidence:.2f}, {inert(part.reason)}"
    if checks.grounded is not None:
        yield f"  grounded: {checks.grounded:.2f}, citations {'valid' if checks.citations_valid else 'not all valid'}"
    yield from (f"  not in the documents: {inert(sentence)}" for sentence in checks.unsupported)
    if exchange.rating:
        yield f"  rated: {exchange.rating}{f' ({inert(exchange.comment)})' if exchange.comment else ''}"
    if exchange.edit is not None:
        yield "  edited by hand"


def _cost(reply: Reply) -> Iterator[str]:
    yield f"answered by: {inert(reply.generator)}"
    if reply.timings:
        yield f"  seconds: {' · '.join(f'{inert(step)} {value:.2f} s' for step, value in reply.timings.items())}"
    for role, usage in reply.usage.items():
        cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        calls = f"{usage.calls} call{'s'[: usage.calls != 1]}"
        yield f"  {inert(role)}: {calls}, {usage.prompt_tokens}{cached} + {usage.completion_tokens} tokens{cost}"
    if not reply.usage:
        yield "  no language model was asked"
    if reply.trace.forms:
        yield f"  forms: {' · '.join(f'{inert(step)} {inert(form)}' for step, form in reply.trace.forms.items())}"
    yield from (f"  note: {inert(note)}" for note in reply.notes)
