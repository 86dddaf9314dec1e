"""`turnmark ask` with several `--generator`: the replies of several assistants to one question.

Each assistant searches and answers as it would alone; all run at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.ledger import with_cost
from turnmark.assistant.llm.calls.prices import load_prices, price_of
from turnmark.assistant.repl.screen import TurnView
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Reply, Usage
from turnmark.core.console import print_json
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line
from turnmark.corpora.types import Message

LETTERS = "ABCDEFGH"


@dataclass
class Contender:
    """One of the assistants that answer a question.

    Attributes:
        reply: its reply, or None if it failed.
        error: the failure, or None if it answered.
        seconds: time that it took.
    """

    letter: str
    assistant: Assistant
    reply: Reply | None = None
    error: Exception | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The spec of its generator."""
        return self.assistant.name

    def ask(self, history: Sequence[Message], question: str) -> None:
        """Ask the assistant, and store its reply or its failure."""
        began = time.perf_counter()
        try:
            self.reply = self.assistant.reply(history, question)
        except Exception as error:  # a plug-in may raise any exception; the other replies are still shown
            self.error = error
        self.seconds = time.perf_counter() - began


def open_contenders(config: AssistantConfig, generators: Sequence[str]) -> list[Contender]:
    """Open an assistant for each generator. Each assistant opens its own index, since all are asked at the same time.

    Raises:
        RequestError: every mistake in any of the specs.
    """
    errors = ErrorCollector()
    if len(generators) > len(LETTERS):
        errors.add(f"--generator: {len(generators)} generators; at most {len(LETTERS)} can be compared")
    for spec in dict.fromkeys(generators):
        if generators.count(spec) > 1:
            errors.add(f"--generator {spec} is given twice; leave one out")
    opened: list[Assistant] = []
    for spec in generators:
        assistant = errors.collect(Assistant.from_config, config.model_copy(update={"generator": spec}))
        if assistant is not None:
            opened.append(assistant)
    problems = list(dict.fromkeys(errors.problems))
    if problems:
        raise RequestError(problems)
    return [Contender(letter, assistant) for letter, assistant in zip(LETTERS, opened, strict=False)]


def ask_contenders(contenders: Sequence[Contender], history: Sequence[Message], question: str) -> None:
    """Ask all assistants at the same time, and wait for the last reply."""
    # Daemon threads, so that the process does not wait for replies after Ctrl-C.
    threads = [
        threading.Thread(target=contender.ask, args=(history, question), daemon=True) for contender in contenders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def answer_side_by_side(
    contenders: Sequence[Contender], history: Sequence[Message], question: str, as_json: bool
) -> None:
    """Ask all assistants and show their replies.

    Raises:
        TurnmarkError: an assistant could not answer; the other replies are shown before.
    """
    if as_json:
        ask_contenders(contenders, history, question)
        print_json({"question": question, "replies": [_reply_fields(contender) for contender in contenders]})
    else:
        console = Console(highlight=False)
        with console.status(f"asking {len(contenders)} assistants …") if console.is_terminal else nullcontext():
            ask_contenders(contenders, history, question)
        for contender in contenders:
            _draw_reply(contender, console)
    failed = [contender for contender in contenders if contender.error is not None]
    if failed:
        raise TurnmarkError("; ".join(f"{contender.name} did not answer: {contender.error}" for contender in failed))


def _reply_fields(contender: Contender) -> dict[str, Any]:
    if contender.reply is not None:
        usage = _add_cost(contender)
        shown = contender.reply.model_dump(mode="json")
        return {**shown, "usage": {role: one.model_dump(mode="json") for role, one in usage.items()}}
    kind = getattr(contender.error, "kind", "failed")
    return {"generator": contender.name, "error": {"kind": kind, "message": str(contender.error)}}


def _draw_reply(contender: Contender, console: Console) -> None:
    console.print(Text(f"{contender.letter}  {one_line(contender.name)}", style="bold"))
    if contender.reply is None:
        console.print(Text(f"no answer: {one_line(contender.error)}", style="red"))
    else:
        with TurnView(console, streaming=False, index=contender.assistant.index) as view:
            view.finish(contender.reply)
        console.print(Text(_cost_line(contender), style="dim"), soft_wrap=True)
    console.print()


def _add_cost(contender: Contender) -> dict[str, Usage]:
    """Return the usage of a reply by role, with the cost if a price is known."""
    assert contender.reply is not None, "only replies have a cost"
    price = price_of(contender.name, load_prices())
    return {role: with_cost(usage, price) for role, usage in contender.reply.usage.items()}


def _cost_line(contender: Contender) -> str:
    total = sum(_add_cost(contender).values(), Usage())
    seconds = f"{contender.seconds:.1f} s"
    if not total.calls:
        return f"no model calls · {seconds}"
    cost = f" · cost {total.cost:.4f}" if total.cost is not None else ""
    tokens = f"{total.prompt_tokens:,} tokens in, {total.completion_tokens:,} out"
    return f"{count_phrase(total.calls, 'call')} · {tokens}{cost} · {seconds}"
