"""Generators by name: keys, URLs and contexts of endpoints, and generators without an endpoint."""

from __future__ import annotations

import json
import logging
import time

import pytest

from tests.assistant.endpoint import ASK, Colour, failure, opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.endpoint_replies import reported_usage
from turnmark.assistant.llm.calls.protocols import (
    GeneratorError,
    GeneratorWrapper,
    PromptMessage,
    SchemaRefused,
    traits_of,
)
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import RequestError

KEY = "sk-very-secret-1234567890"


def test_key_is_sent_but_never_shown(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    replies = [
        Status(401, f"Incorrect API key provided: {KEY}"),
        Status(400, f"bad key {KEY}"),
        Status(500, f"key {KEY}"),
    ]
    with ScriptedServer(*replies) as server:
        generator = opened(server, "?retries=0")
        errors = [failure(generator) for _ in range(3)]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert [error.kind for error in errors] == ["auth", "bad_request", "unavailable"]
    assert "OPENAI_API_KEY" in str(errors[0])
    for text in (*map(str, errors), *map(repr, errors), repr(generator), generator.name, caplog.text):
        assert KEY not in text
    assert all(error.__cause__ is None and error.__suppress_context__ for error in errors)


def test_openai_key_is_not_sent_to_ollama(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer(Say("Fine.")) as server:
        generator = open_generator(f"ollama:llama3@{server.url}")
        generator.complete(ASK)
        assert generator.context_tokens == 4096
    assert KEY not in json.dumps(server.seen[0].headers)
    assert generator.name == f"ollama:llama3@{server.url}"


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ("openai:gpt-4o", ["OPENAI_API_KEY is not set"]),
        ("openai", ["needs a model", "OPENAI_API_KEY"]),
        ("openai:m@http://localhost:1/v1?heat=3&retries=-1&deadline=nan", ["'heat'", "retries", "deadline"]),
        ("openai:m@http://user:hunter2@localhost:1/v1", ["no user or password"]),
        ("extractive:x?y=1", ["no argument", "'y'"]),
        ("replay", ["replay:FILE"]),
        ("python:json:dumps?x=1", ["'x'"]),
        ("vllm:--config", ["does not begin with '-'"]),
        ("vllm:m?command=rm&dtype=a;b", ["no option 'command'", "dtype="]),
        ("vllm:m?trust_remote_code=1&host=0.0.0.0", ["'trust_remote_code'", "'host'"]),
        ("openai:m@http://a:1/v1|http://b:1/v1", ["http:// or https:// URL"]),
        ("vllm:m?start=nan&seed=-1&cache=yes", ["start", "seed", "cache='yes'"]),
        ("replay:nowhere?cache=1", ["no option 'cache'"]),
        (f"ollama:m?seed={2**63}&size=tiny", ["seed", "'large' or 'small'"]),
    ],
)
def test_reports_all_mistakes_of_a_spec(spec, problems):
    with pytest.raises(RequestError) as raised:
        open_generator(spec)
    for words in problems:
        assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_context_comes_from_the_option_or_one_request_to_the_endpoint():
    with ScriptedServer(
        Say("x"), models=[{"id": "other", "max_model_len": 1}, {"id": "tiny", "max_model_len": 2048}]
    ) as server:
        assert opened(server, "?context=512").context_tokens == 512
        assert server.models_asked == 0
        generator = opened(server)
        assert server.models_asked == 0
        assert generator.context_tokens == generator.context_tokens == 2048
        assert server.models_asked == 1
    with ScriptedServer(Say("x"), models=[{"id": "tiny", "context_length": 4000}]) as server:
        assert opened(server).context_tokens == 4000
    with ScriptedServer(Say("x"), models=[{"id": "tiny"}]) as server:
        assert opened(server).context_tokens == 32_768
    with ScriptedServer(Say("x")) as server:
        assert opened(server).context_tokens == 32_768
    assert opened(server).context_tokens == 32_768  # the server is gone


def test_defaults_for_an_endpoint_that_reports_nothing(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert open_generator("openai:m").context_tokens == 128_000
    assert open_generator("ollama:m").context_tokens == 4096
    monkeypatch.setenv("OLLAMA_CONTEXT_LENGTH", "16384")
    assert open_generator("ollama:m").context_tokens == 16_384
    sizes = [traits_of(open_generator(f"openai:m{option}")).size for option in ("", "?size=small")]
    assert sizes == ["large", "small"]
    deadlines = {"openai:m": 120, "ollama:m": 300, "openai:m@http://127.0.0.1:1/v1": 300}
    assert {spec: traits_of(open_generator(spec)).deadline for spec in deadlines} == deadlines


def script(tmp_path, *lines):
    path = tmp_path / "script.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_replay_returns_each_line_once_and_matched_lines_first(tmp_path):
    path = script(tmp_path, {"text": "first"}, "", {"text": "on cheese", "match": "cheese"}, {"text": "second"})
    generator = open_generator(f"replay:{path}")
    pieces = []
    for question in ("hello", "which cheese?", "more cheese?"):
        pieces.append(generator.complete([PromptMessage(role="user", content=question)]).text)
    assert pieces == ["first", "on cheese", "second"]
    with pytest.raises(GeneratorError, match="no line left") as raised:
        generator.complete(ASK)
    assert raised.value.kind == "bad_reply"


def test_mistakes_in_a_script_are_reported_with_line_numbers(tmp_path):
    wrong = ['{"text": ', {"txt": "x"}, {"text": "x", "finish_reason": "done"}, "[]"]
    path = script(tmp_path, {"text": "fine"}, *wrong)
    with pytest.raises(RequestError) as raised:
        open_generator(f"replay:{path}")
    for number in range(2, 2 + len(wrong)):
        assert f"script.jsonl:{number}: " in str(raised.value)
    assert ":1:" not in str(raised.value)
    with pytest.raises(RequestError, match="is empty"):
        open_generator(f"replay:{script(tmp_path, ' ')}")


def test_llama_index_llm_chats_and_streams():
    generator = open_generator("llama-index:llama_index.core.llms:MockLLM?context=777")
    assert generator.context_tokens == 777
    pieces = []
    reply = generator.complete(ASK, on_text=pieces.append)
    assert "How are you?" in reply.text  # the mock repeats its prompt
    assert "".join(pieces) == reply.text
    assert generator.complete(ASK).text == reply.text
    assert reply.finish_reason == "stop"
    with pytest.raises(SchemaRefused):
        generator.complete(ASK, schema=Colour)


SLOW_STATUS = None


def slow_llm():
    from llama_index.core.llms import MockLLM

    class Slow(MockLLM):
        def chat(self, messages, **kwargs):
            time.sleep(5)

        def stream_chat(self, messages, **kwargs):
            gone = ConnectionError("gone")
            gone.status_code = SLOW_STATUS
            raise gone

    return Slow()


def test_llama_index_llm_times_out_and_fails(monkeypatch):
    generator = open_generator("llama-index:tests.assistant.test_generator_names:slow_llm")
    assert failure(generator, deadline=0.3).kind == "timeout"
    error = failure(generator, on_text=lambda piece: None)
    assert error.kind == "unavailable"
    assert "gone" in str(error)
    for status, kind in ((404, "bad_request"), (409, "unavailable"), (429, "rate_limited")):
        monkeypatch.setitem(slow_llm.__globals__, "SLOW_STATUS", status)
        assert failure(generator, on_text=lambda piece: None).kind == kind
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    assert reported_usage({"usage": {"input_tokens": 3, "output_tokens": 4}}) == usage


class Echo:
    name, context_tokens, reply_tokens = "echo", 100, 50

    def complete(self, messages, **options):
        raise GeneratorError("refused", "no")


def test_python_factory_must_return_a_generator():
    generator = open_generator("python:tests.assistant.test_generator_names:Echo")
    assert isinstance(generator, GeneratorWrapper)
    assert isinstance(generator.generator, Echo)
    with pytest.raises(RequestError, match="lacks: complete, context_tokens, name, reply_tokens"):
        open_generator("python:builtins:object")
