"""A turn's reply in OpenAI's forms: a completion, the chunks of a stream, an error; ours beside them as `turnmark`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turnmark.assistant.serving.content import Telling, content
from turnmark.assistant.serving.wire import Asked, Wrong
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.console import valid_text

_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Form:
    """The forms of one reply: its id, time and model stand in each of them.

    Args:
        identity: of the reply.
        created: seconds since 1970.
        model: as it is served.
        asked: the request.
    """

    def __init__(self, identity: str, created: int, model: str, asked: Asked) -> None:
        self._head = {"id": identity, "created": created, "model": model}
        self.asked = asked

    def completion(self, reply: Reply) -> dict[str, Any]:
        """A whole reply."""
        message = {"role": "assistant", "content": content(reply, self.asked.footnotes), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head, "object": "chat.completion", "choices": [choice], "usage": usage(reply),
            "turnmark": self.extension(reply),
        }  # fmt: skip

    def chunk(
        self, delta: Mapping[str, Any], finish: str | None = None, ours: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A piece of a stream; `ours` is its extension."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **({"turnmark": ours} if ours else {}),
        }

    def counted(self, reply: Reply) -> dict[str, Any]:
        """The last chunk, where token counts were asked for."""
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(reply)}

    def extension(self, reply: Reply) -> dict[str, Any]:
        """What `ask --json` prints, and what of the request was not heeded."""
        return {**reply.model_dump(mode="json"), "ignored": list(self.asked.ignored)}


class Stream:
    """The chunks of one reply, in order; what `content` holds is told by
    `turnmark.assistant.serving.content.Telling`.
    """

    def __init__(self, form: Form) -> None:
        self._form, self._asked = form, form.asked
        self._telling = Telling(self._asked.footnotes, self._asked.streaming == "draft")

    def begin(self) -> dict[str, Any]:
        """The chunk that opens it."""
        return self._form.chunk({"role": "assistant", "content": ""})

    def event(self, event: Event) -> Iterator[dict[str, Any]]:
        """What is sent of a turn's event."""
        told = {"event": event.model_dump(mode="json")} if self._asked.events else None
        text = self._telling.draft(event.delta) if event.delta else ""
        if text or told:
            yield self._form.chunk({"content": text} if text else {}, ours=told)

    def end(self, reply: Reply) -> Iterator[dict[str, Any]]:
        """The rest of the content, and the chunk that closes it."""
        for piece in self._telling.rest(reply):
            yield self._form.chunk({"content": piece})
        yield self._form.chunk({}, "stop", self._form.extension(reply))
        if self._asked.usage:
            yield self._form.counted(reply)


def usage(reply: Reply) -> dict[str, int]:
    """The tokens of all calls of the turn; none without a language model."""
    prompt = sum(one.prompt_tokens for one in reply.usage.values())
    said = sum(one.completion_tokens for one in reply.usage.values())
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def error(wrong: Wrong) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kind = _TYPES.get(wrong.status, "server_error" if wrong.status >= 500 else "invalid_request_error")
    return {"error": {"message": str(wrong), "type": kind, "param": wrong.param, "code": wrong.code}}


def dumped(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return valid_text(json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()


def sent_event(value: Any) -> bytes:
    """A value as a server-sent event."""
    return b"data: " + dumped(value) + b"\n\n"
