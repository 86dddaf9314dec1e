"""`turnmark ask` with several `--generator`: compare the replies of several assistants to one question.

Each assistant searches and answers as it would alone; all run at the same time. The user's verdict is stored in the
format of a rating page (`turnmark.evaluation.report.rating_page`), so that `turnmark agreement` can read it:

    $TURNMARK_HOME/ratings/ask.jsonl      {"page": "ask", "rater": "me", "id": "…", "given": {"AB": "A"}}
    $TURNMARK_HOME/ratings/ask.key.json   the generator and reply behind each letter
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.config_files import load_prices, price_of
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Reply, Usage
from turnmark.core.console import print_json, stdin_is_terminal
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import home, write_json
from turnmark.core.untrusted import one_line
from turnmark.corpora.types import Message

LETTERS = "ABCDEFGH"
PAGE, RATER = "ask", "me"
KEY_FORM = "turnmark rating key"
"""Value of `form` in a key file, which `turnmark.evaluation.report.rating_page` checks."""
ALL, NEITHER = "all", "neither"


@dataclass
class Contender:
    """One of the assistants that answer a question.

    Attributes:
        reply: its reply; None if it failed.
        error: the failure; None if it answered.
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


def ask_all(contenders: Sequence[Contender], history: Sequence[Message], question: str) -> None:
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
    """Ask all assistants and show their replies; on a terminal, ask the user which one is better.

    Raises:
        TurnmarkError: an assistant could not answer; the other replies are shown before.
    """
    if as_json:
        ask_all(contenders, history, question)
        print_json({"question": question, "replies": [_as_json(contender) for contender in contenders]})
    else:
        console = Console(highlight=False)
        if console.is_terminal:
            with console.status(f"asking {len(contenders)} assistants …"):
                ask_all(contenders, history, question)
        else:
            ask_all(contenders, history, question)
        for contender in contenders:
            _draw_reply(contender, console)
        answered = [contender for contender in contenders if contender.reply is not None]
        if len(answered) > 1 and stdin_is_terminal() and console.is_terminal:
            _ask_for_verdict(answered, question, console)
    failed = [contender for contender in contenders if contender.error is not None]
    if failed:
        raise TurnmarkError("; ".join(f"{contender.name} did not answer: {contender.error}" for contender in failed))


def _as_json(contender: Contender) -> dict[str, Any]:
    if contender.reply is not None:
        usage = _priced(contender)
        shown = contender.reply.model_dump(mode="json")
        return {**shown, "usage": {role: one.model_dump(mode="json") for role, one in usage.items()}}
    kind = getattr(contender.error, "kind", "failed")
    return {"generator": contender.name, "error": {"kind": kind, "message": str(contender.error)}}


def _draw_reply(contender: Contender, console: Console) -> None:
    from turnmark.assistant.repl.screen import TurnView

    console.print(Text(f"{contender.letter}  {one_line(contender.name)}", style="bold"))
    if contender.reply is None:
        console.print(Text(f"no answer: {one_line(contender.error)}", style="red"))
    else:
        with TurnView(console, streaming=False, index=contender.assistant.index) as view:
            view.finish(contender.reply)
        console.print(Text(_cost_line(contender), style="dim"), soft_wrap=True)
    console.print()


def _priced(contender: Contender) -> dict[str, Usage]:
    """Return the usage of a reply by role, with the cost if a price is known."""
    assert contender.reply is not None, "only replies have a cost"
    price = price_of(contender.name, load_prices())
    priced: dict[str, Usage] = {}
    for role, usage in contender.reply.usage.items():
        if usage.cost is None and price is not None:
            cost = price.cost(usage.prompt_tokens, usage.completion_tokens)
            usage = usage.model_copy(update={"cost": cost})
        priced[role] = usage
    return priced


def _cost_line(contender: Contender) -> str:
    total = sum(_priced(contender).values(), Usage())
    seconds = f"{contender.seconds:.1f} s"
    if not total.calls:
        return f"no model calls · {seconds}"
    calls = "1 call" if total.calls == 1 else f"{total.calls} calls"
    cost = f" · cost {total.cost:.4f}" if total.cost is not None else ""
    return f"{calls} · {total.prompt_tokens:,} tokens in, {total.completion_tokens:,} out{cost} · {seconds}"


# --- which is better -------------------------------------------------------------------------------------------------


def verdict_of(answer: str, letters: Sequence[str]) -> dict[str, str] | None:
    """Convert the user's verdict to the format of a rating page; return None if it is not a valid verdict.

    A letter wins against every other letter. `both` or `all` means equally good, `neither` or `none` equally bad.
    """
    word = answer.strip().casefold()
    pairs = [f"{first}{second}" for first, second in combinations(letters, 2)]
    if word.upper() in letters:
        winner = word.upper()
        return {pair: winner for pair in pairs if winner in pair}
    if word in ("both", ALL):
        rating = "good"
    elif word in (NEITHER, "none"):
        rating = "bad"
    else:
        return None
    return {**dict.fromkeys(pairs, "tie"), **{f"{letter} rating": rating for letter in letters}}


def _ask_for_verdict(answered: Sequence[Contender], question: str, console: Console) -> None:
    letters = [contender.letter for contender in answered]
    every = "both" if len(letters) == 2 else ALL
    offered = ", ".join([*map(str.lower, letters), every, NEITHER])
    prompt = f"Which is better? {offered} (Enter: no verdict) "
    while True:
        try:
            answer = input(prompt)
        except EOFError:
            return
        if not answer.strip():
            return
        given = verdict_of(answer, letters)
        if given is not None:
            break
        console.print(f"expected one of: {offered}")
    key, ratings = keep_verdict(answered, question, given)
    console.print(
        Text(f"saved; show all verdicts with: turnmark agreement {one_line(key)} {one_line(ratings)}", style="dim"),
        soft_wrap=True,
    )


def ratings_folder() -> Path:
    """Return the folder of the verdicts, `$TURNMARK_HOME/ratings`."""
    return home() / "ratings"


def keep_verdict(answered: Sequence[Contender], question: str, given: Mapping[str, str]) -> tuple[Path, Path]:
    """Store a verdict and the replies it is about; return the files, which only their owner can read.

    Raises:
        TurnmarkError: the files cannot be read or written.
    """
    from filelock import FileLock

    folder = ratings_folder()
    key, ratings = folder / f"{PAGE}.key.json", folder / f"{PAGE}.jsonl"
    task = f"{PAGE}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(folder / ".lock"):
            content = _with_replies(_read_key(key), task, answered, question)
            write_json(key, content)
            key.chmod(0o600)
            line = json.dumps({"page": PAGE, "rater": RATER, "id": task, "given": dict(given)})
            file = os.open(ratings, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "a", encoding="utf-8") as out:
                out.write(f"{line}\n")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TurnmarkError(f"the verdict cannot be saved in {folder} ({error})") from error
    return key, ratings


def _read_key(key: Path) -> dict[str, Any]:
    if key.is_file():
        content: dict[str, Any] = json.loads(key.read_bytes())
        return content
    return {
        "form": KEY_FORM,
        "page": PAGE,
        "systems": {},
        "points": {},
        "answerability": {},
        "texts": {},
        "questions": {},
    }


def _with_replies(content: dict[str, Any], task: str, answered: Sequence[Contender], question: str) -> dict[str, Any]:
    content["systems"][task] = {contender.letter: contender.name for contender in answered}
    config = answered[0].assistant.config
    content["questions"][task] = {"question": question, "index": config.index}
    for contender in answered:
        assert contender.reply is not None, "only replies are rated"
        content["texts"].setdefault(contender.name, {})[task] = contender.reply.answer
    return content
