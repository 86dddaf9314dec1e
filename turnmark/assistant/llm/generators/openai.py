"""A model behind any OpenAI-compatible endpoint, through the official client.

Every reply is streamed, even for callers that want it in one piece, since only a stream shows that the endpoint is
still writing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import urlsplit, urlunsplit

from turnmark.assistant.llm.calls.cancellation import OnPiece, Slots, current_stop, report_wait, run_call
from turnmark.assistant.llm.calls.endpoint_client import (
    TALLY,
    EndpointFault,
    FaultReader,
    RequestTally,
    client_of,
    is_local_url,
    objects_to_system,
    refuses_pictures,
)
from turnmark.assistant.llm.calls.endpoint_replies import BodyReader, PartialReply, field_of, finish_reason
from turnmark.assistant.llm.calls.protocols import (
    CACHE_OPTION,
    DEADLINE_SECONDS,
    LOCAL_DEADLINE_SECONDS,
    SETTINGS,
    Call,
    CallOptions,
    CallSettings,
    Completion,
    ConfiguredGenerator,
    GeneratorError,
    PicturesRefused,
    PromptMessage,
    SchemaRefused,
    Tool,
    ToolMessage,
    ToolsRefused,
    estimate_usage,
)
from turnmark.assistant.llm.calls.reply_schemas import strict_schema
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector
from turnmark.core.specs import Spec, check_options
from turnmark.core.untrusted import excerpt, valid_text

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OFFICIAL_URL = "https://api.openai.com/v1"
HOSTED_CONTEXT_TOKENS, LOCAL_CONTEXT_TOKENS = 128_000, 32_768
"""Default context length of an endpoint that does not report it; the second value is for endpoints on this machine."""
_CONTEXT_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window")
"""Fields of /models with the context length, used by vLLM; OpenRouter and Together; Mistral and LM Studio; Groq."""
MODELS_SECONDS = 5.0
BROKEN_REPLY_WAIT_SECONDS = 1.0
"""Seconds before a broken reply is requested again; doubled each time."""

_CREDENTIALS = re.compile(r"(?<=://)[^/?#]*@")
_OBJECTION_STATUSES = frozenset((400, 422, 500, 501))
# Parameters that are left out if an endpoint rejects them: reasoning models support neither `temperature` nor
# `max_tokens`, older servers no `stream_options`. A schema that is refused is written into the prompt.
_LEFT_OUT = {
    "response_format": "response_format|json_schema|guided|structured",
    "max_tokens": "max_(completion_)?tokens",
    "stream_options": "stream_options|include_usage",
    "seed": r"\bseed\b",
    "temperature": "temperature",
}
# "does not support tools", '"auto" tool choice requires …', "No endpoints found that support tool use".
_TOOL_OBJECTION = re.compile(r"\btools?\b|function.?call")
# A rejected value ("max_tokens is too large for the context of this model"), not a rejected parameter.
_LENGTH_OBJECTION = re.compile("too (large|long|big|many)|context|exceed|maximum|at most|less than|at least|greater")


def url_without_secrets(url: str) -> str:
    """Return the URL without user, password, query and fragment, for names and messages."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass(frozen=True)
class Endpoint:
    """The checked settings of an endpoint's spec.

    Attributes:
        name: the spec in normal form, without secrets; with the URL if that came from the environment.
        key_env: name of the environment variable with the key; it may be unset if no key is needed.
        settings: limits and defaults; `context` None: the endpoint is asked.
        more: values of options that are specific to this kind of endpoint.
    """

    name: str
    model: str
    url: str
    key_env: str
    key: str
    settings: CallSettings
    more: Mapping[str, Any]


class OpenAIGenerator(ConfiguredGenerator):
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.name, endpoint.settings)
        self._model, self._url, self._key = endpoint.model, endpoint.url, endpoint.key
        self._where = f"{endpoint.model} at {url_without_secrets(endpoint.url)}"
        self._faults = FaultReader(self._where, endpoint.key_env, endpoint.key)
        self._context = endpoint.settings.context
        self._refused: set[str] = {"max_tokens"} if endpoint.url == OFFICIAL_URL else set()
        self.at_once = endpoint.settings.concurrency
        self._slots = Slots(self.at_once) if self.at_once else None

    @cached_property
    def _client(self) -> AsyncOpenAI:
        return client_of(self._url, self._key, self._settings.retries)

    @property
    def identity(self) -> dict[str, Any]:
        """See `GeneratorBase.identity`; without user and password."""
        return {"url": _CREDENTIALS.sub("", self._url), "model": self._model, "seed": self._settings.seed}

    @property
    def context_tokens(self) -> int:
        """The option `context`, or the context length in /models, or 128,000 (on this machine: 32,768)."""
        if self._context is not None:
            return self._context
        default = LOCAL_CONTEXT_TOKENS if is_local_url(self._url) else HOSTED_CONTEXT_TOKENS
        if self._url == OFFICIAL_URL:  # its /models has no context length
            return default
        try:
            self.make_ready()
            self._context = run_call(lambda _: self._ask_context(), MODELS_SECONDS) or default
        except (GeneratorError, TimeoutError) as error:
            if getattr(error, "status", None) is None:  # not reachable: ask again next time
                return default
            self._context = default
        return self._context

    @property
    def takes_pictures(self) -> bool:
        """Whether the endpoint has not refused pictures so far."""
        return "pictures" not in self._refused

    def make_ready(self) -> None:
        """Load the client library now, since its circular imports can fail in concurrent threads."""
        _ = self._client

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return one reply; see `Generator.complete`."""
        call = self._call(options)
        if call.schema is not None and "response_format" in self._refused:
            raise SchemaRefused(f"{self._where} takes no schema")
        pictured = any(message.pictures for message in messages)
        if pictured and not self.takes_pictures:
            raise PicturesRefused(f"{self._where} takes no pictures")
        chat = [{"role": message.role, "content": _wire_content(message)} for message in messages]
        try:
            received, sent = self._ask(call, lambda: self._body(call, chat))
        except GeneratorError as error:
            words = str(error).replace(self._where, "")
            if not pictured or error.kind not in ("bad_request", "unavailable") or not refuses_pictures(words):
                raise
            self._refused.add("pictures")
            raise PicturesRefused(f"{self._where} takes no pictures: {error}", error.usage) from None
        return self._reply(call, messages, received, sent)

    def converse(
        self, messages: Sequence[ToolMessage], tools: Sequence[Tool], **options: Unpack[CallOptions]
    ) -> Completion:
        """Return the next reply of a conversation with tools; see `ToolGenerator.converse`."""
        if tools and "tools" in self._refused:
            raise ToolsRefused(f"{self._where} calls no tools")
        call = self._call(options)
        more = {"tools": [{"type": "function", "function": tool.model_dump()} for tool in tools]} if tools else {}
        chat = [_wire_message(message) for message in messages]
        try:
            received, sent = self._ask(call, lambda: self._body(call, chat) | more)
        except GeneratorError as error:
            begun = any(message.calls for message in messages)
            words = str(error).replace(self._where, "").lower()
            # It has to be about tools, and not about a prompt that is too long with them.
            is_refusal = _TOOL_OBJECTION.search(words) and not _LENGTH_OBJECTION.search(words)
            if not tools or begun or error.kind != "bad_request" or not is_refusal:
                raise
            self._refused.add("tools")
            raise ToolsRefused(f"{self._where} calls no tools: {error}", error.usage) from None
        reply = self._reply(call, messages, received, sent)
        return reply.model_copy(update={"calls": received.calls, "finish_reason": "stop"}) if received.calls else reply

    def _reply(
        self, call: Call, messages: Sequence[PromptMessage | ToolMessage], received: PartialReply, sent: int
    ) -> Completion:
        """Return what was received as a reply without calls."""
        used = received.usage
        return Completion(
            text=valid_text(received.text),
            usage=Usage(calls=sent, **used) if used else estimate_usage(messages, received.text, sent),
            finish_reason=finish_reason(received.finish),
            model=received.model or self._model,
            max_tokens=call.limit,
            reasoning=valid_text(received.reasoning).strip(),
        )

    def _body(self, call: Call, chat: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the request, without the parameters that this endpoint has rejected."""
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        if "system" in self._refused:
            chat = _fold_system_messages(chat)
        body: dict[str, Any] = {"model": self._model, "messages": chat, "stream": True, limit: call.limit}
        body |= {"stream_options": {"include_usage": True}, "temperature": call.temperature}
        if self._settings.seed is not None:
            body["seed"] = self._settings.seed
        if call.schema is not None:
            schema = strict_schema(call.schema, bounds=self._url != OFFICIAL_URL)  # OpenAI takes no `maxLength`
            form = {"name": call.schema.__name__, "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return {name: value for name, value in body.items() if name not in self._refused}

    def _ask(self, call: Call, body: Callable[[], dict[str, Any]]) -> tuple[PartialReply, int]:
        self.make_ready()
        tally = RequestTally()
        try:
            while True:
                request = body()
                try:
                    return self._retrying(call, request, tally), tally.sent
                except EndpointFault as fault:
                    if fault.status not in _OBJECTION_STATUSES or not self._leave_out(request, fault.words):
                        raise
                    if call.schema is not None and "response_format" in self._refused:
                        raise
        except EndpointFault as fault:
            kind, problem = fault.kind, f"{fault}"
            schema_refused = call.schema is not None and kind == "bad_request" and fault.status in (400, 422)
        except TimeoutError:
            # If the server asks to wait longer than the deadline, it is rate limited, not slow.
            kind = "rate_limited" if tally.status == 429 else "timeout"
            limited = " (429)" if tally.status == 429 else ""
            problem, schema_refused = f"{self._where} sent nothing for {call.deadline:g} s{limited}", False
            if call.deadline >= self.deadline:
                problem += "; ?deadline=SECONDS in its spec gives it longer"
        usage = Usage(calls=tally.sent)
        problem += f" ({tally.sent} requests)" if tally.sent > 1 else ""
        raise (SchemaRefused(problem, usage) if schema_refused else GeneratorError(kind, problem, usage)) from None

    def _retrying(self, call: Call, body: dict[str, Any], tally: RequestTally) -> PartialReply:
        """Retry a reply that broke off before any text was shown. The client retries requests that fail earlier."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

        def may_retry(error: BaseException) -> bool:
            return isinstance(error, EndpointFault) and error.broken and not call.began

        retrying = Retrying(
            retry=retry_if_exception(may_retry),
            stop=stop_after_attempt(self._settings.retries + 1),
            wait=wait_exponential(BROKEN_REPLY_WAIT_SECONDS, max=20),
            sleep=current_stop().wait,
            before_sleep=lambda state: report_wait(
                state.upcoming_sleep, str(state.outcome and state.outcome.exception())
            ),
            reraise=True,
        )
        on_text = call.show if call.on_text is not None else None

        def ask() -> PartialReply:
            with self._slots.hold() if self._slots else nullcontext():  # its deadline begins when it has its slot
                return run_call(partial(self._streamed, body, tally), call.deadline, on_text)

        return retrying(ask)

    def _leave_out(self, body: dict[str, Any], words: str) -> bool:
        """Leave out the parameter that an error names from now on; return False if there is none to leave out."""
        words = words.lower()
        if any(message["role"] == "system" for message in body["messages"]) and objects_to_system(words):
            self._refused.add("system")
            return True
        for name, pattern in _LEFT_OUT.items():
            if name not in body or not re.search(pattern, words):
                continue
            if name == "max_tokens" and _LENGTH_OBJECTION.search(words):
                continue
            self._refused.add(name)
            return True
        return False

    async def _streamed(self, body: dict[str, Any], tally: RequestTally, report: OnPiece) -> PartialReply:
        import openai

        TALLY.set(tally)
        received = PartialReply()
        with self._faults.converted():
            # As plain dictionaries, since the client's records take as long to make as everything else.
            stream: Any = await self._client.post(
                "/chat/completions", body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
            )
            async with stream:
                reader = BodyReader(stream.response.headers.get("content-type", ""))
                async for event in reader.events(stream.response.aiter_lines()):
                    if fault := self._faults.in_reply(event, reader.streamed):
                        raise fault
                    seen = received.events
                    piece = received.add(event)
                    if received.events > seen:
                        report(piece)
                # A connection closed in the middle looks like an end, but lacks the finish reason and the end mark.
                if received.finish is None and reader.streamed:
                    if not reader.ended:
                        message = f"{self._where} broke off in the middle of its reply"
                        raise EndpointFault("unavailable", message, broken=True)
                    received.finish = "stop"
            if not received.events:
                raise ValueError("no choice in it")
            if received.refusal and not received.text:
                raise EndpointFault("refused", f"{self._where} declined: {excerpt(received.refusal)}")
        return received

    async def _ask_context(self) -> int | None:
        with self._faults.converted():
            listed: Any = await self._client.with_options(max_retries=0).get("/models", cast_to=object)
        rows = field_of(listed, "data")
        rows = rows if isinstance(rows, list) else []
        own = rows if len(rows) == 1 else [row for row in rows if field_of(row, "id") == self._model]
        lengths = (field_of(row, name) for row in own for name in _CONTEXT_FIELDS)
        return next((length for length in lengths if isinstance(length, int) and length > 0), None)


def _fold_system_messages(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Move the system messages of a conversation into its first message of the user."""
    rules = [message["content"] for message in chat if message["role"] == "system"]
    rest = [message for message in chat if message["role"] != "system"]
    if not rest or rest[0]["role"] != "user":
        return [{"role": "user", "content": "\n\n".join(rules)}, *rest]
    content = rest[0]["content"]
    if isinstance(content, str):
        content = "\n\n".join([*rules, content])
    else:  # with pictures
        content = [{"type": "text", "text": "\n\n".join(rules)}, *content]
    return [{**rest[0], "content": content}, *rest[1:]]


def _wire_content(message: PromptMessage) -> str | list[dict[str, Any]]:
    """Return the content of a message for an endpoint: its text, or parts if it has pictures."""
    # A lone surrogate (from a document with encoding errors) cannot be sent as UTF-8.
    text = valid_text(message.content)
    if not message.pictures:
        return text
    pictures = [{"type": "image_url", "image_url": {"url": picture.data_uri}} for picture in message.pictures]
    return [*pictures, {"type": "text", "text": text}]


def _wire_message(message: ToolMessage) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role, "content": valid_text(message.content)}
    if message.calls:
        row["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        row["tool_call_id"] = message.call_id
    return row


# Ollama silently cuts the beginning of a longer prompt; default and variable: docs.ollama.com/faq.
OLLAMA_CONTEXT_TOKENS, OLLAMA_CONTEXT_ENV = 4096, "OLLAMA_CONTEXT_LENGTH"


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "|" not in url
    except ValueError:
        valid = False
    return "" if valid else "is not an http:// or https:// URL"


def read_endpoint(
    spec: Spec,
    *,
    preset_url: str,
    key_env: str,
    url_env: str = "",
    context: int | None = None,
    extra_options: Mapping[str, Callable[[str], Any]] | None = None,
) -> Endpoint:
    """Check a spec and report all its mistakes at once.

    Args:
        preset_url: if neither the spec nor the environment variable `url_env` has one.
        key_env: name of the environment variable with the key, unless the spec names another.
        context: tokens, default of the option, or None if the endpoint is asked.
        extra_options: in addition to those of every endpoint.
    """
    label, errors = f"generator {spec.name!r}", ErrorCollector()
    if not spec.argument:
        errors.add(f"{label} needs a model: {spec.name}:MODEL")
    from_env = os.environ.get(url_env, "").strip() if url_env and not spec.url else ""
    url = spec.url or from_env or preset_url
    converters: dict[str, Callable[[str], Any]] = {
        **SETTINGS,
        **CACHE_OPTION,
        "api_key_env": str,
        **(extra_options or {}),
    }
    options = errors.collect(check_options, spec, converters, "generator") or {}
    options.pop("api_key_env", None)
    key_env = spec.options.get("api_key_env") or key_env
    key = os.environ.get(key_env, "").strip()
    problem = _url_problem(url)
    if problem:
        errors.add(f"{url_env if from_env else label + ': what follows @'} {problem}")
    elif spec.url and "@" in urlsplit(url).netloc:
        errors.add(f"{label}: no user or password in the URL; put the key into {key_env}")
    if not key and (spec.options.get("api_key_env") or url == OFFICIAL_URL):
        errors.add(f"{label}: the environment variable {key_env} is not set; it must contain the key")
    errors.raise_all()
    more = {name: options.pop(name) for name in list(options) if name not in SETTINGS}
    unset = {"context": context, "deadline": LOCAL_DEADLINE_SECONDS if is_local_url(url) else DEADLINE_SECONDS}
    settings = CallSettings(**{**unset, **options})
    name = str(Spec(spec.name, spec.argument, url_without_secrets(spec.url or from_env), spec.options))
    return Endpoint(name, spec.argument, url, key_env, key, settings, more)


def open_openai(spec: Spec) -> OpenAIGenerator:
    """Open `openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return OpenAIGenerator(
        read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL")
    )


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """Open `ollama:MODEL[@URL]`, with the key in `OLLAMA_API_KEY`, if set; OpenAI's key is never sent."""
    from_env = os.environ.get(OLLAMA_CONTEXT_ENV, "")
    context = int(from_env) if from_env.isdecimal() and int(from_env) else OLLAMA_CONTEXT_TOKENS
    preset = "http://localhost:11434/v1"
    return OpenAIGenerator(read_endpoint(spec, preset_url=preset, key_env="OLLAMA_API_KEY", context=context))
