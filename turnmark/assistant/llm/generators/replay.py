"""Replay scripted replies: `replay:FILE`, for demonstrations, tests and repeatable runs, without a network.

FILE has one JSON object on each line: `{"text": …, "match": …, "finish_reason": …}`; only `text` is required. A call
takes the first unused line whose `match` occurs in the last message; if there is none, it takes the first unused line
without `match`. Each line is used once. `finish_reason` is `stop` (default), `length`, `content_filter` or `other`.
Blank lines are skipped.

Options: `delay` seconds before each word of a stream, `context` tokens, `size`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field, ValidationError

from turnmark.assistant.llm.calls.protocols import (
    CACHE_OPTION,
    CONTEXT_TOKENS,
    MAX_TOKENS,
    SETTINGS,
    CallOptions,
    Completion,
    FinishReason,
    GeneratorBase,
    GeneratorError,
    PromptMessage,
    Seconds,
    Size,
    estimate_usage,
    option,
)
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import Record, mistakes_in
from turnmark.core.specs import Spec, check_options, load_python

_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "delay": option(Seconds),
    "context": SETTINGS["context"],
    "size": SETTINGS["size"],
}


class ScriptLine(Record):
    """One scripted reply."""

    text: str
    match: str | None = Field(default=None, min_length=1)
    finish_reason: FinishReason = "stop"


class ReplayGenerator(GeneratorBase):
    """A generator that replays a script, with `delay` seconds before each reply, and streams word by word."""

    def __init__(
        self,
        name: str,
        lines: Sequence[ScriptLine],
        delay: float = 0.0,
        context_tokens: int = CONTEXT_TOKENS,
        size: Size = "large",
    ) -> None:
        self.size = size
        self.name, self.context_tokens, self.reply_tokens = name, context_tokens, MAX_TOKENS
        self._left = list(lines)
        self._delay = delay
        self._lock = threading.Lock()

    @property
    def takes_pictures(self) -> bool:
        """A script stands for a model of any kind."""
        return True

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return the next matching reply of the script; limits, temperature and schema are ignored."""
        line = self._take(messages[-1].content if messages else "")
        on_text = options.get("on_text")
        if on_text is not None:
            for word in re.findall(r"\s*\S+\s*?(?=\s|$)|\s+", line.text):
                time.sleep(self._delay)
                on_text(word)
        return Completion(
            text=line.text,
            finish_reason=line.finish_reason,
            usage=estimate_usage(messages, line.text, 1),
            model="replay",
            max_tokens=options.get("max_tokens") or self.reply_tokens,
        )

    def _take(self, message: str) -> ScriptLine:
        with self._lock:
            fitting = [n for n, line in enumerate(self._left) if line.match and line.match in message]
            plain = [n for n, line in enumerate(self._left) if line.match is None]
            if not fitting and not plain:
                end = " ".join(message.split())[-80:]
                raise GeneratorError("bad_reply", f"{self.name} has no line left for a message that ends in: {end}")
            return self._left.pop((fitting or plain)[0])


def read_script(path: Path) -> list[ScriptLine]:
    """Read the lines of a script."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"replay script {path}: cannot be read ({error})") from error
    lines, problems = [], []
    for number, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            lines.append(ScriptLine.model_validate_json(row))
        except ValidationError as error:
            problems += [f"replay script {path}:{number}: {mistake}" for mistake in mistakes_in(error)]
    if not lines and not problems:
        problems.append(f'replay script {path}: is empty; write one JSON object with "text" per line')
    if problems:
        raise RequestError(problems)
    return lines


def open_replay(spec: Spec) -> ReplayGenerator:
    """Open `replay:FILE[?delay=…&context=…]`."""
    errors = ErrorCollector()
    options = errors.collect(check_options, spec, _OPTIONS, "generator") or {}
    if not spec.argument or spec.url:
        errors.add("generator 'replay' needs a file and no URL: replay:FILE")
    errors.raise_all()
    lines = read_script(Path(spec.argument).expanduser())
    context = options.pop("context", CONTEXT_TOKENS)
    return ReplayGenerator(str(spec), lines, context_tokens=context, **options)


REFERENCE = "reference"


class ReferenceGenerator:
    """A placeholder for the reference answers, which `turnmark eval` reads from the data
    (`evaluation.runs.execution`)."""

    name, context_tokens, reply_tokens = REFERENCE, CONTEXT_TOKENS, MAX_TOKENS

    def complete(self, messages: Sequence[PromptMessage], **_: Any) -> Completion:  # noqa: ARG002
        """Raise `GeneratorError` always."""
        raise GeneratorError("bad_request", f"the generator {REFERENCE!r} answers only tasks of `turnmark eval`")


def open_reference(spec: Spec) -> ReferenceGenerator:
    """Open `reference`, which has no options."""
    if spec.argument or spec.url or spec.options:
        raise RequestError(f"generator {REFERENCE!r} takes no argument, no url and no options")
    return ReferenceGenerator()


def no_model(spec: Spec) -> None:
    """Open `extractive`: no language model; every step uses its extractive form."""
    errors = ErrorCollector()
    if spec.argument or spec.url:
        errors.add("generator 'extractive' takes no argument and no url")
    errors.collect(check_options, spec, {}, "generator")
    errors.raise_all()


def open_python_generator(spec: Spec) -> Any:
    """Open `python:pkg.mod:factory`: call the factory, which must return a `Generator`."""
    check_options(spec, CACHE_OPTION, "generator")
    return load_python(spec.argument, "generator")()
