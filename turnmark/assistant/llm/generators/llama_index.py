"""Use any LlamaIndex LLM as a generator: `llama-index:pkg.mod:factory`, where `factory()` returns the LLM."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from turnmark.assistant.llm.calls.cancellation import CallReports, wait_for_call
from turnmark.assistant.llm.calls.endpoint_client import is_local_url
from turnmark.assistant.llm.calls.endpoint_replies import field_of, finish_reason, first_choice, reported_usage
from turnmark.assistant.llm.calls.protocols import (
    CACHE_OPTION,
    CONTEXT_TOKENS,
    DEADLINE_SECONDS,
    LOCAL_DEADLINE_SECONDS,
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
    Size,
    estimate_usage,
)
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.core.specs import Spec, check_options, load_python
from turnmark.core.untrusted import excerpt

_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "context": SETTINGS["context"],
    "deadline": SETTINGS["deadline"],
    "size": SETTINGS["size"],
    **CACHE_OPTION,
}


class LlamaIndexGenerator(GeneratorBase):
    """A LlamaIndex LLM.

    The LLM keeps its own settings: `temperature` is not passed on, and `max_tokens` only if the LLM has a field of that
    name. Schemas are not supported. A call continues in its thread after the deadline, since an LLM cannot be
    interrupted.
    """

    def __init__(
        self,
        name: str,
        llm: Any,
        context_tokens: int | None = None,
        deadline: float | None = None,
        size: Size = "large",
    ) -> None:
        self.name, self._llm, self._context, self.size = name, llm, context_tokens, size
        address = str(getattr(llm, "api_base", None) or getattr(llm, "base_url", None) or "")
        self.deadline = deadline or (LOCAL_DEADLINE_SECONDS if is_local_url(address) else DEADLINE_SECONDS)

    @property
    def identity(self) -> dict[str, Any]:
        """See `GeneratorBase.identity`: no option of the spec changes a reply."""
        return {"name": self.name.partition("?")[0]}

    @property
    def reply_tokens(self) -> int:
        """See `Generator.reply_tokens`: the LLM's limit, if it has one."""
        return int(getattr(self._llm, "max_tokens", None) or MAX_TOKENS)

    @property
    def context_tokens(self) -> int:
        """The option `context`, or the context window in the LLM's metadata, or `CONTEXT_TOKENS`."""
        if self._context:
            return self._context
        window = getattr(self._llm.metadata, "context_window", None)
        return window if isinstance(window, int) and window > 0 else CONTEXT_TOKENS

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return one reply; see `Generator.complete`. Retries are left to the LLM (`max_retries`)."""
        if options.get("schema") is not None:
            raise SchemaRefused(f"{self.name} takes no schema")
        limit, deadline = options.get("max_tokens"), options.get("deadline")
        has_limit = "max_tokens" in getattr(type(self._llm), "model_fields", {})
        llm_options = {"max_tokens": limit} if has_limit and limit else {}
        if deadline is None:
            deadline = self.deadline
        last, finish = self._run(messages, llm_options, deadline, options.get("on_text"))
        text = str(last.message.content or "")
        used = reported_usage(last.raw)
        return Completion(
            text=text,
            finish_reason=finish_reason(finish or "stop"),
            usage=Usage(calls=1, **used) if used else estimate_usage(messages, text, 1),
            model=str(self._llm.metadata.model_name),
            max_tokens=limit or self.reply_tokens,
        )

    def _run(
        self, messages: Sequence[PromptMessage], options: dict[str, Any], deadline: float, on_text: OnText | None
    ) -> tuple[Any, str]:
        """Return the LLM's last response and its finish reason, which is empty if it is unknown.

        The LLM runs in another thread, which a deadline or Ctrl-C abandons.
        """
        from llama_index.core.llms import ChatMessage

        chat = [ChatMessage(role=message.role, content=message.content) for message in messages]
        news: CallReports = queue.SimpleQueue()
        abandoned = threading.Event()

        def work() -> None:
            try:
                last, finish = None, ""
                if on_text is None:
                    responses = [self._llm.chat(chat, **options)]
                else:
                    responses = self._llm.stream_chat(chat, **options)
                for last in responses:
                    if abandoned.is_set():
                        return
                    # The finish reason is in one of the chunks, not always the last.
                    finish = _finish(last) or finish
                    news.put(("text", last.delta or ""))
                news.put(("done", (last, finish)))
            except Exception as error:  # A third party's client may raise anything.
                news.put(("failed", self._failure(error)))

        threading.Thread(target=work, name="turnmark-llama-index", daemon=True).start()
        try:
            response, reason = wait_for_call(news, deadline, on_text)
        except TimeoutError:
            message = f"{self.name} sent nothing for {deadline:g} s"
            raise GeneratorError("timeout", message, Usage(calls=1)) from None
        finally:
            abandoned.set()
        if response is None:
            raise GeneratorError("bad_reply", f"{self.name} returned an empty stream", Usage(calls=1))
        return response, reason

    def _failure(self, error: Exception) -> GeneratorError:
        status = getattr(error, "status_code", None)
        name = type(error).__name__
        kind: ErrorKind = "unavailable"
        if status in (401, 403):
            kind = "auth"
        elif status == 429:
            kind = "rate_limited"
        elif isinstance(status, int) and 400 <= status < 500 and status not in (408, 409):
            kind = "bad_request"
        elif "Timeout" in name:
            kind = "timeout"
        # An authentication error may quote the key.
        detail = "" if kind == "auth" else f": {excerpt(str(error))}"
        return GeneratorError(kind, f"{self.name} failed: {name}{detail}", Usage(calls=1))


def _finish(response: Any) -> str:
    """Return the finish reason of a response in OpenAI's or Anthropic's form, or ""."""
    return str(field_of(first_choice(response.raw), "finish_reason") or field_of(response.raw, "stop_reason") or "")


def open_llama_index_llm(spec: Spec) -> LlamaIndexGenerator:
    """Open `llama-index:pkg.mod:factory[?context=…&deadline=…&size=…]`."""
    options = check_options(spec, _OPTIONS, "generator")
    llm = load_python(spec.argument, "generator")()
    lacking = [name for name in ("chat", "stream_chat", "metadata") if not hasattr(llm, name)]
    if lacking:
        gave = type(llm).__name__
        raise RequestError(
            f"generator '{spec}' gave a {gave}, which is not a LlamaIndex LLM: it lacks {', '.join(lacking)}"
        )
    options.pop("cache", None)
    return LlamaIndexGenerator(str(spec), llm, options.pop("context", None), **options)
