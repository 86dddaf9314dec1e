"""Convert a reply to OpenAI's responses API: the response object, and the events of its stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from turnmark.assistant.serving.completions_api import (
    ReplyText,
    content,
    find_citations,
    reply_extension,
    token_counts,
)
from turnmark.assistant.serving.request_bodies import ChatRequest, RejectedRequest
from turnmark.assistant.types import Event, Reply

SERVER_LABEL = "turnmark"
"""Server label of the model's tool calls, which are reported as calls of an MCP server."""


class ResponseForm:
    """Makes the response of one reply: its tool calls, if there are any, and one message.

    The events of a stream are numbered. The items of the output are in the order in which they began.
    """

    def __init__(self, model: str, chat_request: ChatRequest) -> None:
        self._id, self._item_id = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}"
        self._created, self._model = int(time.time()), model
        self._request = chat_request
        self._text = ReplyText(chat_request.footnotes, chat_request.note)
        self._sent: list[str] = []
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._message_at: int | None = None
        self._call_at = 0

    def completion(self, reply: Reply) -> dict[str, Any]:
        """Return the complete reply as a response."""
        self._output = [_call_item(use.tool, use.asked, use.found) for use in reply.trace.calls]
        return self._completed(reply, content(reply, self._request.footnotes, self._request.note))

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the events that open a stream."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def event(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield what is sent for an event of the turn."""
        if self._request.events:
            step = {"event": event.model_dump(mode="json")}
            yield self._event("response.in_progress", response=self._response("in_progress"), turnmark=step)
        yield from self._delta(self._text.add(event))
        if "found" in event.detail:
            yield from self._call_ends(event)
        elif "tool" in event.detail:
            yield from self._call_begins(event)

    def end(self, reply: Reply) -> Iterator[dict[str, Any]]:
        """Yield the rest of the text, and the events that close the stream."""
        for piece in self._text.rest(reply):
            yield from self._delta(piece)
        text = "".join(self._sent)
        response = self._completed(reply, text)
        if self._sent:
            item = response["output"][self._message_at]
            (part,) = item["content"]
            for number, annotation in enumerate(part["annotations"]):
                yield self._in_part(
                    "response.output_text.annotation.added", annotation_index=number, annotation=annotation
                )
            yield self._in_part("response.output_text.done", text=text, logprobs=[])
            yield self._in_part("response.content_part.done", part=part)
            yield self._event("response.output_item.done", output_index=self._message_at, item=item)
        yield self._event("response.completed", response=response)

    def failed(self, refusal: RejectedRequest) -> Iterator[dict[str, Any]]:
        """Yield the event that ends a stream without a reply."""
        failure = {"code": "server_error", "message": str(refusal)}
        yield self._event("response.failed", response={**self._response("failed"), "error": failure})

    def _delta(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield a piece of the text; the first piece follows the events that open the message."""
        if not text:
            return
        if not self._sent:
            message = {**self._message("", []), "status": "in_progress", "content": []}
            self._message_at = len(self._output)
            self._output.append(message)
            yield self._event("response.output_item.added", output_index=self._message_at, item=message)
            yield self._in_part("response.content_part.added", part=_text_part("", []))
        self._sent.append(text)
        yield self._in_part("response.output_text.delta", delta=text, logprobs=[])

    def _call_begins(self, event: Event) -> Iterator[dict[str, Any]]:
        call = {**_call_item(event.detail["tool"], event.detail["asked"]), "status": "in_progress"}
        self._call_at = len(self._output)
        self._output.append(call)
        yield self._event("response.output_item.added", output_index=self._call_at, item=call)
        yield self._in_call("response.mcp_call.in_progress")
        yield self._in_call("response.mcp_call_arguments.done", arguments=call["arguments"])

    def _call_ends(self, event: Event) -> Iterator[dict[str, Any]]:
        call = {**self._output[self._call_at], "status": "completed", "output": event.detail["found"]}
        self._output[self._call_at] = call
        yield self._in_call("response.mcp_call.completed")
        yield self._event("response.output_item.done", output_index=self._call_at, item=call)

    def _completed(self, reply: Reply, text: str) -> dict[str, Any]:
        annotations = [
            {
                "type": "file_citation", "file_id": reply.citations[number - 1].key,
                "filename": reply.citations[number - 1].document, "index": place, "n": number,
            }
            for place, number in find_citations(text, self._request.footnotes, len(reply.citations))
        ]  # fmt: skip
        counts = token_counts(reply)
        cached = sum(role_usage.cached_tokens for role_usage in reply.usage.values())
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts["total_tokens"],
        }
        output = [*self._output]
        if self._message_at is None:
            output.append(self._message(text, annotations))
        else:
            output[self._message_at] = self._message(text, annotations)
        return {
            **self._response("completed"), "output": output, "usage": usage,
            "turnmark": reply_extension(reply, self._request),
        }  # fmt: skip

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id, "object": "response", "created_at": self._created, "status": status, "model": self._model,
            "output": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
            "parallel_tool_calls": False, "previous_response_id": None, "store": False,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "usage": None,
        }  # fmt: skip

    def _message(self, text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._item_id, "type": "message", "role": "assistant", "status": "completed",
            "content": [_text_part(text, annotations)],
        }  # fmt: skip

    def _in_part(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return an event about the text of the message."""
        return self._event(kind, item_id=self._item_id, output_index=self._message_at, content_index=0, **fields)

    def _in_call(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return an event about the most recent tool call."""
        return self._event(kind, item_id=self._output[self._call_at]["id"], output_index=self._call_at, **fields)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}


def _text_part(text: str, annotations: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _call_item(tool: str, asked: str, found: str | None = None) -> dict[str, Any]:
    return {
        "id": f"mcp_{uuid.uuid4().hex}", "type": "mcp_call", "server_label": SERVER_LABEL, "name": tool,
        "arguments": json.dumps({"asked": asked}, ensure_ascii=False), "output": found, "error": None,
        "status": "completed",
    }  # fmt: skip
