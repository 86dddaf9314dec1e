"""Generators against a real server on loopback that imitates good and bad endpoints."""

from __future__ import annotations

import json
import threading
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from tests.assistant.endpoint import ASK, Colour, opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import SchemaRefused
from turnmark.assistant.llm.calls.reply_schemas import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    MAX_REASON_CHARACTERS,
    limit_characters,
    limit_items,
    strict_schema,
)
from turnmark.assistant.llm.generators.registry import open_generator

pytestmark = pytest.mark.usefixtures("short_waits")
STREAMED = [None, lambda piece: None]


def test_reply_has_text_and_usage_and_the_request_has_no_extras():
    with ScriptedServer(Say("Fine, thanks.")) as server:
        reply = opened(server).complete(ASK)
    assert (reply.text, reply.finish_reason, reply.model) == ("Fine, thanks.", "stop", "tiny-served")
    assert (reply.usage.calls, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1, 11, 7)
    assert server.bodies == [
        {
            "model": "tiny",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How are you?"}],
            "max_tokens": 1024,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


def test_streams_pieces_in_the_calling_thread():
    pieces, threads = [], set()

    def on_text(piece):
        pieces.append(piece)
        threads.add(threading.get_ident())

    with ScriptedServer(Say("Fine, thanks. And you?")) as server:
        generator = opened(server)
        generator.complete(ASK)  # the beginning of a model's first reply is held back
        reply = generator.complete(ASK, on_text=on_text)
    assert pieces == ["Fine,", " thanks.", " And", " you?"]
    assert reply.text == "".join(pieces)
    assert reply.usage.completion_tokens == 7
    assert threads == {threading.get_ident()}


def test_proxy_is_not_used_for_loopback(monkeypatch):
    with ScriptedServer(Say("From there.")) as proxy, ScriptedServer(Say("From here.")) as server:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        there = open_generator("openai:tiny@http://models.example/v1?retries=0")
        assert there.complete(ASK).text == "From there."
        assert opened(server).complete(ASK).text == "From here."
    assert [request.path for request in proxy.seen] == ["http://models.example/v1/chat/completions"]


def test_missing_usage_is_estimated():
    with ScriptedServer(Say("12345678", usage=False)) as server:
        reply = opened(server).complete(ASK)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        6,
        2,
    )  # 21 and 8 characters / 4, rounded up


class Tints(BaseModel):
    """A docstring that must not reach the model."""

    names: list[str]
    few: Annotated[list[int], limit_items(3)] = Field(default_factory=list, description="as numbers")
    reason: Annotated[str, limit_characters()] = ""
    answer: str = ""
    label: Literal["good", "bad"] = "good"


def test_schema_is_sent_in_strict_form_with_bounds():
    with ScriptedServer(Say('{"name": "red", "warm": true}')) as server:
        opened(server).complete(ASK, schema=Tints)
    form = server.bodies[0]["response_format"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    schema = form["json_schema"]["schema"]
    fields = schema["properties"]
    assert schema["required"] == list(fields)
    assert schema["additionalProperties"] is False
    assert (fields["names"]["maxItems"], fields["few"]["maxItems"]) == (MAX_ITEMS, 3)
    assert (fields["reason"]["maxLength"], fields["answer"]["maxLength"]) == (MAX_REASON_CHARACTERS, MAX_CHARACTERS)
    assert "maxLength" not in fields["label"]
    assert "maxLength" not in json.dumps(strict_schema(Tints, bounds=False))
    assert fields["few"]["description"] == "as numbers"
    assert "description" not in schema, "docstrings are not for the model"


@pytest.mark.parametrize(
    ("word", "refusal", "options"),
    [
        ("max_tokens", Status(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."), {}),
        ("temperature", Status(400, "'temperature' does not support 0.0 with this model."), {}),
        ("stream_options", Status(422, "Extra inputs are not permitted: stream_options"), {"on_text": print}),
        ("seed", Status(400, "Unsupported parameter: seed"), {}),
    ],
)
def test_refused_parameter_is_not_sent_again(word, refusal, options):
    def reply(body):
        return refusal if f'"{word}"' in json.dumps(body) else Say('{"names": ["red"], "few": []}')

    with ScriptedServer(reply) as server:
        generator = opened(server, "?seed=7")
        assert generator.complete(ASK, **options).usage.calls == 2
        assert generator.complete(ASK, **options).usage.calls == 1
    assert [f'"{word}"' in json.dumps(body) for body in server.bodies] == [True, False, False]
    assert ("max_completion_tokens" in server.bodies[-1]) is (word == "max_tokens")


def test_refused_schema_raises_and_later_calls_work_without_it():
    with ScriptedServer(Status(400, "response_format is not supported"), Say("Yes.")) as server:
        generator = opened(server)
        for _ in range(2):
            with pytest.raises(SchemaRefused):
                generator.complete(ASK, schema=Colour)
        assert len(server.seen) == 1
        assert generator.complete(ASK).text == "Yes."


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("tool_calls", "other"),
        ("", "other"),
    ],
)  # fmt: skip
def test_normalizes_finish_reasons(word, reason):
    with ScriptedServer(Say("Well", finish_reason=word)) as server:
        generator = opened(server)
        assert [generator.complete(ASK, on_text=on_text).finish_reason for on_text in STREAMED] == [reason] * 2
