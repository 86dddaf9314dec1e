"""A model behind any OpenAI-compatible endpoint, through the official client."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from assistant.generators.base import (
    CONTEXT_TOKENS,
    ON_RATE_LIMIT,
    Completion,
    FinishReason,
    GeneratorError,
    OnText,
    PromptMessage,
    SchemaRefused,
    Settings,
    estimate,
)
from assistant.generators.faults import Fault, faults, shortened
from assistant.generators.lanes import Lanes
from assistant.generators.schema import strict_schema
from assistant.generators.wire import Tell, drive
from assistant.types import Usage
from corpora.console import received

if TYPE_CHECKING:
    pass

MODELS_SECONDS = 2.0
FIRST_WAIT = 0.5  # seconds before the first retry, doubled with every further one
LONGEST_WAIT = 20.0
JITTER = 0.5  # up to so many seconds more, by chance: many callers are turned away at the same moment

_FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length", "content_filter": "content_filter"}
# An objection to the number ("max_tokens is too large for the context of this model"), not to the parameter's name.
_TOO_MANY = re.compile("too (large|long|big|many)|context|exceed|maximum|at most|less than|at least|greater")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass
class _Dialect:
    """What an endpoint has been seen to refuse. Learnt from its 400s, so that nothing is asked twice in vain."""

    limit: str = "max_tokens"
    temperature: bool = True
    stream_usage: bool = True
    schema: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def learn(self, sent: Mapping[str, Any], said: str) -> bool:
        """Take note of what a 400 objects to; True when the request can be put otherwise."""
        said = said.lower()
        with self.lock:
            if "max_tokens" in sent and re.search("max_(completion_)?tokens", said) and not _TOO_MANY.search(said):
                self.limit = "max_completion_tokens"
            elif "stream_options" in sent and re.search("stream_options|include_usage", said):
                self.stream_usage = False
            elif "response_format" in sent and re.search("response_format|json_schema|guided|structured", said):
                self.schema = False
            elif "temperature" in sent and "temperature" in said:
                self.temperature = False
            else:
                return False
            return True


class OpenAIGenerator:
    """A model behind an OpenAI-compatible endpoint.

    Args:
        name: the spec it was opened as, in normal form; with the URL where that came from the environment.
        model: the model's name at the endpoint.
        url: base URL of the endpoint.
        where: model and endpoint as messages name them, without any secret.
        key_env: name of the environment variable that holds the key.
        key: the key; empty where the endpoint needs none.
        settings: limits and defaults; `context` None: asked of the endpoint, else 8192.
    """

    def __init__(self, name: str, model: str, url: str, where: str, key_env: str, key: str, settings: Settings) -> None:
        self.name = name
        self._model, self._where, self._key_env, self._key = model, where, key_env, key
        self._settings = settings
        self._context = settings.context
        self._dialect = _Dialect()
        self._lanes = Lanes(url, key)

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self.name!r})"

    @property
    def reply_tokens(self) -> int:
        """See `Generator.reply_tokens`: the option `max_tokens`."""
        return self._settings.max_tokens

    @property
    def deadline(self) -> float:
        """Seconds that a call may take unless it says otherwise: the option `deadline`."""
        return self._settings.deadline

    @property
    def context_tokens(self) -> int:
        """The option `context`, else `max_model_len` as vLLM tells it under /models, else 8192."""
        if self._context is None:
            self._lanes.first()
            try:
                self._context = drive(lambda _tell: self._ask_context(), MODELS_SECONDS)
            except Fault as fault:
                if fault.status is None:  # nobody there: ask again when there may be
                    return CONTEXT_TOKENS
                self._context = CONTEXT_TOKENS
            except TimeoutError:
                self._context = CONTEXT_TOKENS
        return self._context

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: type[BaseModel] | None = None,
        deadline: float | None = None,
        on_text: OnText | None = None,
    ) -> Completion:
        """One reply; see `Generator.complete`. Retries 408, 409, 429, 5xx and lost connections within the deadline."""
        if schema is not None and not self._dialect.schema:
            raise SchemaRefused(f"{self._where} takes no schema")
        allowed = self._settings.deadline if deadline is None else deadline
        limit = self.reply_tokens if max_tokens is None else max_tokens
        heat = self._settings.temperature if temperature is None else temperature
        self._lanes.first()  # loads the client library, whose seconds are not the endpoint's
        call = _Call(messages, limit, heat, schema, on_text, time.monotonic() + allowed)
        try:
            return self._retrying(call, allowed)
        except Fault as fault:
            tries = f" ({call.sent} requests)" if call.sent > 1 else ""
            wait = f"; it asks to wait {fault.retry_after:g} s" if fault.retry_after else ""
            usage = Usage(calls=call.sent)
            if schema is not None and fault.kind == "bad_request" and fault.status in (400, 422):
                raise SchemaRefused(f"{fault}{tries}", usage) from None
            raise GeneratorError(fault.kind, f"{fault}{wait}{tries}", usage) from None

    def _retrying(self, call: _Call, allowed: float) -> Completion:
        from tenacity import (
            RetryCallState,
            Retrying,
            retry_if_exception,
            stop_after_attempt,
            stop_before_delay,
            wait_exponential_jitter,
        )

        backing_off = wait_exponential_jitter(initial=FIRST_WAIT, max=LONGEST_WAIT, jitter=JITTER)

        def wait(state: RetryCallState) -> float:
            fault = state.outcome.exception() if state.outcome else None
            asked = fault.retry_after if isinstance(fault, Fault) else None
            return backing_off(state) if asked is None else asked + random.uniform(0, JITTER)

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, Fault) and error.retry and not call.told),
            stop=stop_after_attempt(self._settings.retries + 1) | stop_before_delay(allowed),
            wait=wait,
            reraise=True,
        )
        return retrying(self._attempt, call)

    def _attempt(self, call: _Call) -> Completion:
        """One try; put otherwise, at once, where the endpoint objects to how it was put."""
        while True:
            body = self._body(call)
            call.sent += 1
            try:
                work = partial(self._streamed if call.on_text else self._whole, body)
                text, finish, usage, model = drive(work, call.ends - time.monotonic(), call.tell)
            except TimeoutError:
                raise Fault("timeout", f"{self._where} did not finish before the deadline") from None
            except Fault as fault:
                if fault.kind == "rate_limited" and (told := ON_RATE_LIMIT.get()):
                    told()
                if fault.status in (400, 422) and self._dialect.learn(body, fault.said):
                    if call.schema is not None and not self._dialect.schema:
                        raise
                    continue
                raise
            counted = Usage(calls=call.sent, **usage) if usage else estimate(call.messages, text, call.sent)
            return Completion(
                text=received(text),
                finish_reason=finish,
                usage=counted,
                model=model or self._model,
                max_tokens=call.limit,
                estimated=not usage,
            )

    def _body(self, call: _Call) -> dict[str, Any]:
        """The request: nothing in it that was not asked for, nothing that this endpoint has refused."""
        dialect = self._dialect
        # Half a surrogate pair (from a document that was read with errors) cannot be sent as UTF-8.
        said = [{"role": one.role, "content": _SURROGATES.sub("\ufffd", one.content)} for one in call.messages]
        body: dict[str, Any] = {"model": self._model, "messages": said, dialect.limit: call.limit}
        if dialect.temperature:
            body["temperature"] = call.temperature
        if call.on_text is not None:
            body["stream"] = True
            if dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        if call.schema is not None:
            form = {"name": call.schema.__name__, "strict": True, "schema": strict_schema(call.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    async def _whole(self, body: dict[str, Any], _tell: Tell) -> _Answer:
        with faults(self._where, self._key_env, self._key):
            import httpx

            with self._lanes.one() as client:
                # What `chat.completions.create` sends, less the client's walks through request and reply, which take
                # as long as all the rest.
                answered = await client.post("/chat/completions", body=body, cast_to=httpx.Response)
            reply = json.loads(answered.content, object_hook=lambda fields: SimpleNamespace(**fields))
        choice = _first(reply)
        message = getattr(choice, "message", None)
        text, refusal = getattr(message, "content", None), getattr(message, "refusal", None)
        if refusal and not text:
            raise Fault("refused", f"{self._where} declined: {shortened(str(refusal))}")
        if message is None or not isinstance(text, str | None):
            raise Fault("bad_reply", f"{self._where} answered with something that is no chat completion")
        finish = _FINISH.get(str(getattr(choice, "finish_reason", None)), "other")
        return text or "", finish, _usage(reply), _model(reply)

    async def _streamed(self, body: dict[str, Any], tell: Tell) -> _Answer:
        text, refusal, finish, usage, model, heard = "", "", None, None, "", False
        with faults(self._where, self._key_env, self._key), self._lanes.one() as client:
            create: Any = client.chat.completions.create
            stream = await create(**body)
            async with stream:
                async for chunk in stream:
                    heard = True
                    usage, model = _usage(chunk) or usage, _model(chunk) or model
                    choice = _first(chunk)
                    delta = getattr(choice, "delta", None)
                    piece = getattr(delta, "content", None)
                    if isinstance(piece, str) and piece:
                        text += piece
                        tell(piece)
                    refusal += str(getattr(delta, "refusal", None) or "")
                    finish = getattr(choice, "finish_reason", None) or finish
        if refusal and not text:
            raise Fault("refused", f"{self._where} declined: {shortened(refusal)}")
        if not heard and "event-stream" not in stream.response.headers.get("content-type", ""):
            raise Fault("bad_reply", f"{self._where} answered with something that is no stream")
        if finish is None:
            # A connection that is closed in the middle looks like an end; only the finish reason tells them apart.
            raise Fault("unavailable", f"{self._where} broke off in the middle of its reply", retry=True)
        return text, _FINISH.get(str(finish), "other"), usage, model

    async def _ask_context(self) -> int:
        with faults(self._where, self._key_env, self._key):
            listed: Any = await self._lanes.first().models.list()
        rows = getattr(listed, "data", None)
        models = rows if isinstance(rows, list) else []
        for one in models:
            length = getattr(one, "max_model_len", None)
            if isinstance(length, int) and length > 0 and (len(models) == 1 or one.id == self._model):
                return length
        return CONTEXT_TOKENS


_Answer = tuple[str, FinishReason, dict[str, int] | None, str]


@dataclass
class _Call:
    """One call of `complete`, over all its requests."""

    messages: Sequence[PromptMessage]
    limit: int
    temperature: float
    schema: type[BaseModel] | None
    on_text: OnText | None
    ends: float
    sent: int = 0
    told: bool = False

    def tell(self, piece: str) -> None:
        self.told = True
        if self.on_text is not None:
            self.on_text(piece)


def _first(reply: Any) -> Any:
    choices = getattr(reply, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _usage(reply: Any) -> dict[str, int] | None:
    """Tokens as reported; None where either number is missing."""
    usage = getattr(reply, "usage", None)
    found = {key: getattr(usage, key, None) for key in ("prompt_tokens", "completion_tokens")}
    counts = {key: value for key, value in found.items() if isinstance(value, int) and value >= 0}
    return counts if len(counts) == len(found) else None


def _model(reply: Any) -> str:
    model = getattr(reply, "model", None)
    return model if isinstance(model, str) else ""
