"""A model behind any OpenAI-compatible endpoint, through the official client."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Unpack
from urllib.parse import urlsplit, urlunsplit

from turnmark.assistant.generators.base import (
    CONTEXT_TOKENS,
    ON_RATE_LIMIT,
    Call,
    CallOptions,
    Completion,
    ConfiguredGenerator,
    GeneratorError,
    PromptMessage,
    SchemaRefused,
    Settings,
    estimate,
)
from turnmark.assistant.generators.choosing import Choice, check_words, choice_of
from turnmark.assistant.generators.client import ClientPool, Tell, check_text, drive
from turnmark.assistant.generators.replies import (
    Dialect,
    Fault,
    faults,
    finish_reason,
    first_choice,
    first_tokens,
    model_of,
    shortened,
    usage_of,
)
from turnmark.assistant.generators.schema import strict_schema
from turnmark.assistant.generators.stopping import current
from turnmark.assistant.types import Usage
from turnmark.corpora.console import valid_text

MODELS_SECONDS = 2.0
TOP_LOGPROBS = 20  # the most that OpenAI and vLLM list of one token
FIRST_WAIT = 0.5  # seconds before the first retry, doubled with every further one
LONGEST_WAIT = 20.0
JITTER = 0.5  # up to so many seconds more, by chance: many callers are turned away at the same moment

_CREDENTIALS = re.compile(r"(?<=://)[^/?#]*@")
# 403 only where it is about logprobs: see `status_fault`.
_OBJECTIONS = frozenset((400, 403, 422, 501))


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment: what names and messages may hold."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class OpenAIGenerator(ConfiguredGenerator):
    """A model behind an OpenAI-compatible endpoint.

    Args:
        name: the spec it was opened as, in normal form; with the URL where that came from the environment.
        model: the model's name at the endpoint.
        url: base URL of the endpoint.
        key_env: name of the environment variable that holds the key.
        key: the key; empty where the endpoint needs none.
        settings: limits and defaults; `context` None: asked of the endpoint, else 8192.
    """

    def __init__(self, name: str, model: str, url: str, key_env: str, key: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._model, self._where, self._key_env, self._key = model, f"{model} at {shown_url(url)}", key_env, key
        self._context = settings.context
        self._dialect = Dialect()
        self._clients = ClientPool(url, key)
        self._url = url
        self._slots = threading.BoundedSemaphore(settings.concurrency) if settings.concurrency else None

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its replies beside what a call says, for the response cache; holds no user and no password."""
        return {"url": _CREDENTIALS.sub("", self._url), "model": self._model, "seed": self._settings.seed}

    @property
    def context_tokens(self) -> int:
        """The option `context`, else `max_model_len` as vLLM tells it under /models, else 8192."""
        if self._context is None:
            self._clients.first()
            try:
                self._context = drive(lambda _tell: self._ask_context(), MODELS_SECONDS)
            except Fault as fault:
                if fault.status is None:  # nobody there: ask again when there may be
                    return CONTEXT_TOKENS
                self._context = CONTEXT_TOKENS
            except TimeoutError:
                self._context = CONTEXT_TOKENS
        return self._context

    def make_ready(self) -> None:
        """Load the client library now: its modules import each other, and threads that do so at once may see half."""
        self._clients.first()

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """One reply; see `Generator.complete`. Retries 408, 409, 429, 5xx and lost connections within the deadline."""
        if options.get("schema") is not None and not self._dialect.schema:
            raise SchemaRefused(f"{self._where} takes no schema")
        self._clients.first()  # loads the client library, whose seconds are not the endpoint's
        return self._answered(self._call(messages, options))

    def choose(
        self, messages: Sequence[PromptMessage], options: Sequence[str], *, deadline: float | None = None
    ) -> Choice:
        """See `ChoiceGenerator.choose`: the likeliest tokens of one request for one token."""
        check_words(options)
        self._clients.first()
        call = self._call(messages, {"max_tokens": 1, "temperature": 0.0, "deadline": deadline})
        call.top = TOP_LOGPROBS
        usage = self._answered(call).usage
        if not call.first_tokens:
            raise GeneratorError("bad_reply", f"{self._where} tells no probabilities of tokens", usage)
        return choice_of(options, call.first_tokens, usage)

    def _answered(self, call: Call) -> Completion:
        """The reply to a call.

        Raises:
            GeneratorError: there is none.
        """
        try:
            return self._retrying(call)
        except Fault as fault:
            tries = f" ({call.sent} requests)" if call.sent > 1 else ""
            wait = f"; it asks to wait {fault.retry_after:g} s" if fault.retry_after else ""
            usage = Usage(calls=call.sent)
            if call.schema is not None and fault.kind == "bad_request" and fault.status in (400, 422):
                raise SchemaRefused(f"{fault}{tries}", usage) from None
            raise GeneratorError(fault.kind, f"{fault}{wait}{tries}", usage) from None

    def _retrying(self, call: Call) -> Completion:
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
            requested = fault.retry_after if isinstance(fault, Fault) else None
            return backing_off(state) if requested is None else requested + random.uniform(0, JITTER)

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, Fault) and error.retry and not call.began),
            stop=stop_after_attempt(self._settings.retries + 1) | stop_before_delay(call.allowed),
            wait=wait,
            sleep=current().wait,
            reraise=True,
        )
        return retrying(self._attempt, call)

    def _attempt(self, call: Call) -> Completion:
        """One try; put otherwise, at once, where the endpoint objects to how it was put."""
        while True:
            body = self._body(call)
            try:
                with self._slot(call):
                    call.sent += 1
                    work = partial(self._streamed if call.on_text else self._whole, call, body)
                    return drive(work, call.ends - time.monotonic(), call.tell)
            except TimeoutError:
                raise Fault("timeout", f"{self._where} did not finish before the deadline{self._room(call)}") from None
            except Fault as fault:
                if fault.kind == "rate_limited" and (notify_limit := ON_RATE_LIMIT.get()):
                    notify_limit()
                if fault.status in _OBJECTIONS and self._dialect.learn(body, fault.said):
                    if call.schema is not None and not self._dialect.schema:
                        raise
                    continue
                raise

    @contextmanager
    def _slot(self, call: Call) -> Iterator[None]:
        """One of the requests that may run at once (the option `concurrency`); waiting counts against the deadline."""
        if self._slots is None:
            yield
        elif self._slots.acquire(timeout=max(0.0, call.ends - time.monotonic())):
            try:
                yield
            finally:
                self._slots.release()
        else:
            raise TimeoutError

    def _room(self, call: Call) -> str:
        """How to give a call more time, where the time was this generator's own."""
        limit = self.deadline
        return f" of {limit:g} s; ?deadline=SECONDS in its spec gives it longer" if call.allowed >= limit else ""

    def _body(self, call: Call) -> dict[str, Any]:
        """The request: nothing in it that was not asked for, nothing that this endpoint has refused."""
        dialect = self._dialect
        # Half a surrogate pair (from a document that was read with errors) cannot be sent as UTF-8.
        messages = [{"role": message.role, "content": valid_text(message.content)} for message in call.messages]
        body: dict[str, Any] = {"model": self._model, "messages": messages, dialect.limit: call.limit}
        if dialect.temperature:
            body["temperature"] = call.temperature
        if self._settings.seed is not None and dialect.seed:
            body["seed"] = self._settings.seed
        if call.top and dialect.logprobs:
            body |= {"logprobs": True, "top_logprobs": call.top}
        if call.on_text is not None:
            body["stream"] = True
            if dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        if call.schema is not None:
            form = {"name": call.schema.__name__, "strict": True, "schema": strict_schema(call.schema, dialect.bounds)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    async def _whole(self, call: Call, body: dict[str, Any], _tell: Tell) -> Completion:
        with faults(self._where, self._key_env, self._key):
            import httpx

            with self._clients.borrow() as client:
                # What `chat.completions.create` sends, less the client's walks through request and reply, which take
                # as long as all the rest.
                answered = await client.post("/chat/completions", body=body, cast_to=httpx.Response)
            reply = json.loads(answered.content, object_hook=lambda fields: SimpleNamespace(**fields))
        choice = first_choice(reply)
        message = getattr(choice, "message", None)
        text, refusal = getattr(message, "content", None), getattr(message, "refusal", None)
        if refusal and not text:
            raise Fault("refused", f"{self._where} declined: {shortened(str(refusal))}")
        if message is None or not isinstance(text, str | None):
            raise Fault("bad_reply", f"{self._where} answered with something that is no chat completion")
        call.first_tokens = first_tokens(choice)
        finish = getattr(choice, "finish_reason", None)
        return self._completion(call, text or "", finish, usage_of(reply), model_of(reply))

    async def _streamed(self, call: Call, body: dict[str, Any], tell: Tell) -> Completion:
        text, refusal, finish, usage, model, received_any = "", "", None, None, "", False
        with faults(self._where, self._key_env, self._key), self._clients.borrow() as client:
            create: Any = client.chat.completions.create
            stream = await create(**body)
            async with stream:
                async for chunk in stream:
                    received_any = True
                    usage, model = usage_of(chunk) or usage, model_of(chunk) or model
                    choice = first_choice(chunk)
                    delta = getattr(choice, "delta", None)
                    piece = getattr(delta, "content", None)
                    if isinstance(piece, str) and piece:
                        text += piece
                        tell(piece)
                    refusal += str(getattr(delta, "refusal", None) or "")
                    check_text(len(text) + len(refusal))
                    finish = getattr(choice, "finish_reason", None) or finish
        if refusal and not text:
            raise Fault("refused", f"{self._where} declined: {shortened(refusal)}")
        if not received_any and "event-stream" not in stream.response.headers.get("content-type", ""):
            raise Fault("bad_reply", f"{self._where} answered with something that is no stream")
        if finish is None:
            # A connection that is closed in the middle looks like an end; only the finish reason tells them apart.
            raise Fault("unavailable", f"{self._where} broke off in the middle of its reply", retry=True)
        return self._completion(call, text, finish, usage, model)

    def _completion(
        self, call: Call, text: str, finish: object, usage: dict[str, int] | None, model: str
    ) -> Completion:
        return Completion(
            text=valid_text(text),
            finish_reason=finish_reason(finish),
            usage=Usage(calls=call.sent, **usage) if usage else estimate(call.messages, text, call.sent),
            model=model or self._model,
            max_tokens=call.limit,
            estimated=not usage,
        )

    async def _ask_context(self) -> int:
        with faults(self._where, self._key_env, self._key):
            listed: Any = await self._clients.first().models.list()
        rows = getattr(listed, "data", None)
        models = rows if isinstance(rows, list) else []
        for row in models:
            length = getattr(row, "max_model_len", None)
            if isinstance(length, int) and length > 0 and (len(models) == 1 or row.id == self._model):
                return length
        return CONTEXT_TOKENS
