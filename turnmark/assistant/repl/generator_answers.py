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


def open_assistants(config: AssistantConfig, generators: Sequence[str]) -> list[Assistant]:
    """Open an assistant for each generator. Each assistant opens its own index, since all are asked at the same time.

    Raises:
        RequestError: every mistake in any of the specs.
    """
    errors = ErrorCollector()
    for spec in dict.fromkeys(generators):
        if generators.count(spec) > 1:
            errors.add(f"--generator {spec} is given twice; leave one out")
    configs = [config.model_copy(update={"generator": spec}) for spec in generators]
    opened = [errors.collect(Assistant.from_config, each) for each in configs]
    if errors.problems:
        raise RequestError(list(dict.fromkeys(errors.problems)))
    return [assistant for assistant in opened if assistant is not None]


@dataclass
class AskedAssistant:
    """What came of a question to one of several assistants: a reply, with the cost in its usage, or an error."""

    assistant: Assistant
    reply: Reply | None = None
    error: Exception | None = None
    seconds: float = 0.0

    def ask(self, history: Sequence[Message], question: str) -> None:
        """Ask the assistant, and store its reply or its error."""
        began = time.perf_counter()
        try:
            reply = self.assistant.reply(history, question)
            price = price_of(self.assistant.name, load_prices())
            usage = {role: with_cost(usage, price) for role, usage in reply.usage.items()}
            self.reply = reply.model_copy(update={"usage": usage})
        except Exception as error:  # a plug-in may raise any exception; the other replies are still shown
            self.error = error
        self.seconds = time.perf_counter() - began

    @property
    def fields(self) -> dict[str, Any]:
        """The outcome as JSON."""
        if self.reply is not None:
            return self.reply.model_dump(mode="json")
        kind = getattr(self.error, "kind", "failed")
        return {"generator": self.assistant.name, "error": {"kind": kind, "message": str(self.error)}}

    def draw(self, console: Console) -> None:
        """Show the outcome below the name of the generator."""
        console.print(Text(one_line(self.assistant.name), style="bold"))
        if self.reply is None:
            console.print(Text(f"no answer: {one_line(self.error)}\n", style="red"))
            return
        with TurnView(console, streaming=False, index=self.assistant.index) as view:
            view.finish(self.reply)
        used = sum(self.reply.usage.values(), Usage())
        cost = f" · cost {used.cost:.4f}" if used.cost is not None else ""
        tokens = f" · {used.prompt_tokens:,} tokens in, {used.completion_tokens:,} out{cost}" if used.calls else ""
        calls = count_phrase(used.calls, "call") if used.calls else "no model calls"
        console.print(Text(f"{calls}{tokens} · {self.seconds:.1f} s\n", style="dim"), soft_wrap=True)


def answer_side_by_side(
    assistants: Sequence[Assistant], history: Sequence[Message], question: str, as_json: bool
) -> None:
    """Ask all assistants at the same time and show their replies.

    Raises:
        TurnmarkError: an assistant could not answer; the other replies are shown before.
    """
    outcomes = [AskedAssistant(assistant) for assistant in assistants]
    # Daemon threads, so that the process does not wait for replies after Ctrl-C.
    threads = [threading.Thread(target=each.ask, args=(history, question), daemon=True) for each in outcomes]
    console = Console(highlight=False)
    busy = console.is_terminal and not as_json
    with console.status(f"asking {len(outcomes)} assistants …") if busy else nullcontext():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if as_json:
        print_json({"question": question, "replies": [outcome.fields for outcome in outcomes]})
    else:
        for outcome in outcomes:
            outcome.draw(console)
    failed = [each for each in outcomes if each.error is not None]
    if failed:
        raise TurnmarkError("; ".join(f"{each.assistant.name} did not answer: {each.error}" for each in failed))
