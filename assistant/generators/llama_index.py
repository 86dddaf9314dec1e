"""Any LlamaIndex LLM as a generator: `llama-index:pkg.mod:factory`, where `factory()` makes the LLM."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from turnmark.assistant.generators.base import (
    CACHE,
    CONTEXT_TOKENS,
    DEADLINE,
    MAX_TOKENS,
    SETTINGS,
    CallOptions,
    Completion,
    ErrorKind,
    GeneratorBase,
    GeneratorError,
    OnText,
    PromptMessage,
    SchemaRefused,
    estimate,
)
from turnmark.assistant.generators.replies import (
    field_of,
    finish_reason,
    first_choice,
    shortened,
)
from turnmark.assistant.generators.stopping import current
from turnmark.assistant.types import Usage
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options, load_python

_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "context": SETTINGS["context"],
    "deadline": SETTINGS["deadline"],
    **CACHE,
}


_Heard = tuple[Any, str]
"""The LLM's last response, and in the provider's word why it stopped ("": not said)."""


class LlamaIndexGenerator(GeneratorBase):
    """A LlamaIndex LLM.

    What can be set differs from LLM to LLM, so its own settings hold: `temperature` is not passed on, and `max_tokens`
    only to an LLM that has a field of that name. Schemas are not supported. An LLM that outlasts the
    deadline is left behind in its thread, since it cannot be interrupted.

    Args:
        name: the spec in normal form.
        llm: a `llama_index.core.llms.LLM`.
    """

    def __init__(self, name: str, llm: Any, context_tokens: int | None = None, deadline: float = DEADLINE) -> None:
        self.name, self._llm, self._context, self.deadline = name, llm, context_tokens, deadline

    @property
    def reply_tokens(self) -> int:
        """See `Generator.reply_tokens`: the LLM's own limit, where it has one."""
        return int(getattr(self._llm, "max_tokens", None) or MAX_TOKENS)

    @property
    def context_tokens(self) -> int:
        """The option `context`, else what the LLM's metadata say."""
        window = getattr(self._llm.metadata, "context_window", None)
        return self._context or (window if isinstance(window, int) and window > 0 else CONTEXT_TOKENS)

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """One reply; see `Generator.complete`. No retries of our own: the LLM has its `max_retries`."""
        if options.get("schema") is not None:
            raise SchemaRefused(f"{self.name} takes no schema")
        limit, deadline = options.get("max_tokens"), options.get("deadline")
        has_limit = "max_tokens" in getattr(type(self._llm), "model_fields", {})
        last, finish = self._run(
            messages,
            {"max_tokens": limit} if has_limit and limit else {},
            self.deadline if deadline is None else deadline,
            options.get("on_text"),
        )
        text = str(last.message.content or "")
        self._check_size(len(text))
        usage = _usage(last)
        return Completion(
            text=text,
            finish_reason=finish_reason(finish or "stop"),
            usage=usage or estimate(messages, text, 1),
            model=str(self._llm.metadata.model_name),
            max_tokens=limit or self.reply_tokens,
            estimated=usage is None,
        )

    def _check_size(self, size: int) -> None:
        """Raises: GeneratorError: so many characters are more than a reply may have."""
        from turnmark.assistant.generators.client import TooLarge, check_text

        try:
            check_text(size)
        except TooLarge as error:
            raise GeneratorError("bad_reply", f"{self.name} sent {error}", Usage(calls=1)) from None

    def _run(
        self, messages: Sequence[PromptMessage], options: dict[str, Any], deadline: float, on_text: OnText | None
    ) -> _Heard:
        """The LLM's response, from a thread of its own, so that a deadline and Ctrl-C end the wait."""
        from llama_index.core.llms import ChatMessage

        chat = [ChatMessage(role=message.role, content=message.content) for message in messages]
        results: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        abandoned = threading.Event()

        def work() -> None:
            try:
                if on_text is None:
                    response = self._llm.chat(chat, **options)
                    results.put(("done", (response, _finish(response))))
                    return
                last, finish = None, ""
                for last in self._llm.stream_chat(chat, **options):
                    if abandoned.is_set():
                        return
                    # The reason is in one chunk, which need not be the last.
                    finish = _finish(last) or finish
                    results.put(("text", last.delta or ""))
                results.put(("done", (last, finish)))
            except Exception as error:  # whatever a third party's client raises; it is reported, not swallowed
                results.put(("failed", error))

        threading.Thread(target=work, name="turnmark-llama-index", daemon=True).start()
        stop = current()
        ends, size = time.monotonic() + stop.left(deadline), 0
        try:
            while True:
                with stop.waking(lambda: results.put(("stop", None))):
                    news, value = results.get(timeout=max(0.0, ends - time.monotonic()))
                stop.check()
                if news == "text" and value and on_text is not None:
                    size += len(value)
                    self._check_size(size)
                    on_text(value)
                elif news == "failed":
                    kind = _kind(value)
                    # An authentication error may quote the key.
                    detail = "" if kind == "auth" else f": {shortened(str(value))}"
                    raise GeneratorError(
                        kind, f"{self.name} failed: {type(value).__name__}{detail}", Usage(calls=1)
                    ) from None
                elif news == "done":
                    response: _Heard = value
                    if response[0] is None:
                        raise GeneratorError("bad_reply", f"{self.name} gave an empty stream", Usage(calls=1))
                    return response
        except queue.Empty:
            stop.check()
            raise GeneratorError("timeout", f"{self.name} did not finish before the deadline", Usage(calls=1)) from None
        finally:
            abandoned.set()


def _kind(error: Exception) -> ErrorKind:
    status = getattr(error, "status_code", None)
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate_limited"
    if isinstance(status, int) and 400 <= status < 500 and status not in (408, 409):
        return "bad_request"
    return "timeout" if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__ else "unavailable"


def _finish(response: Any) -> str:
    """Why it stopped, where the provider says so in the OpenAI or the Anthropic form; else ""."""
    return str(field_of(first_choice(response.raw), "finish_reason") or field_of(response.raw, "stop_reason") or "")


def _usage(response: Any) -> Usage | None:
    usage = field_of(response.raw, "usage")
    for names in (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens")):
        counts = [field_of(usage, name) for name in names]
        if all(isinstance(count, int) for count in counts):
            return Usage(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1])
    return None


def open_llama_index(spec: Spec) -> LlamaIndexGenerator:
    """`llama-index:pkg.mod:factory[?context=…&deadline=…]`."""
    options = check_options(spec, _OPTIONS, "generator")
    llm = load_python(spec.argument, "generator")()
    lacking = [name for name in ("chat", "stream_chat", "metadata") if not hasattr(llm, name)]
    if lacking:
        gave = type(llm).__name__
        raise RequestError(f"generator '{spec}' gave a {gave}, which is no LlamaIndex LLM: no {', '.join(lacking)}")
    return LlamaIndexGenerator(str(spec), llm, options.get("context"), options.get("deadline", DEADLINE))
