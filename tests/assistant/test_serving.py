"""A real server in its own process: replies, access, concurrency and shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.assistant.serving import ASK, Server, said, serving, write_token
from tests.opened import assistant_over
from tests.patience import PATIENCE
from tests.servers import Hang, Say, Scripted, ScriptedServer, Status
from turnmark.assistant.serving.app import PAGE_FILES
from turnmark.assistant.serving.http_server import listen
from turnmark.assistant.serving.request_bodies import ChatRequest
from turnmark.assistant.serving.turn_threads import Turns
from turnmark.assistant.sessions.session_files import read_session
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.index.build import build_index

pytestmark = pytest.mark.server

TOKEN = "a-token-for-the-tests"


@pytest.fixture(scope="module")
def server(plain_home: Path) -> Iterator[Server]:
    with serving(plain_home) as running:
        yield running


def test_completion_matches_output_of_ask(server, turnmark, home):
    response = server.post(said()).json()
    printed = json.loads(turnmark("ask", ASK, "--index", "demo", "--json").out)
    ours = response["turnmark"]
    assert ours.pop("ignored") == []
    ours["timings"] = printed["timings"] = {}
    assert ours == printed
    choice = response["choices"][0]
    assert (response["object"], response["model"], choice["finish_reason"]) == ("chat.completion", "demo", "stop")
    assert response["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    text = choice["message"]["content"]
    assert "[^1]" in text
    assert "\n[^1]: Sharpening a kitchen knife" in text
    assert "handbook/sharpen-a-kitchen-knife.md" in text


def test_accepts_long_conversations(server):
    """Clients send the whole conversation. Without this, they were refused after 100 turns."""
    before = [{"role": "user", "content": "Who mends the kettle?"}, {"role": "assistant", "content": "word " * 400}]
    messages = [*before * 500, {"role": "user", "content": ASK}]
    response = server.post({"model": "demo", "messages": messages})
    assert response.status_code == 200
    assert "Sharpening a kitchen knife" in response.json()["choices"][0]["message"]["content"]


def test_models_and_health(server):
    listed = server.get("/v1/models").json()
    assert [model["id"] for model in listed["data"]] == ["demo"]
    assert server.get("/v1/models/demo").json() == listed["data"][0]
    assert listed["data"][0]["turnmark"]["generator"] == "extractive"
    assert server.get("/v1/models/other").status_code == 404
    assert server.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (said(n=2), {}, 400, None),
        ({**said(), "model": "gpt-4o"}, {}, 404, "model_not_found"),
        (b" " * 4_000_001, {}, 413, None),
        (said(), {"Content-Type": "text/plain"}, 415, None),
        (said(), {"Host": "127.0.0.1.evil.org:80"}, 403, "host"),
        (said(), {"Origin": "https://evil.example.org"}, 403, "origin"),
        (said(), {"Origin": "http://["}, 403, "origin"),
    ],
)
def test_refuses_invalid_requests(server, body, headers, status, code):
    response = server.post(body, **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["error"]["message"]
    assert "access-control-allow-origin" not in response.headers


def test_unknown_addresses_and_methods(server):
    assert server.get("/etc/passwd").json()["error"]["type"] == "invalid_request_error"
    assert server.get("/docs").status_code == server.get("/openapi.json").status_code == 404
    assert server.get("/..%2f..%2fpyproject.toml").status_code == 404
    assert httpx.put(f"{server.url}/healthz").status_code == 405
    assert server.get("/v1/chat/completions").status_code == 405


def test_page_loads_nothing_from_other_hosts(server):
    for path in PAGE_FILES:
        response = server.get(path)
        assert response.status_code == 200
        assert "default-src 'none'; script-src 'self'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        if path.startswith("/vendor/"):
            continue
        assert "http://" not in response.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in response.text
        assert "innerHTML" not in response.text


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedServer]:
    with ScriptedServer(Say("Sharpen it on a stone. [1]")) as scripted:
        yield scripted


@pytest.fixture(scope="module")
def written(plain_home: Path, endpoint: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server with a token and a model."""
    token = write_token(tmp_path_factory.mktemp("secret"), TOKEN)
    with serving(plain_home, "--token", token, "--generator", f"openai:tiny@{endpoint.url}?retries=0") as running:
        running.headers["Authorization"] = f"Bearer {TOKEN}"
        yield running


def test_requests_need_the_token(written):
    for said_so in ("", "Bearer wrong", TOKEN, f"Basic {TOKEN}"):
        response = written.post(said(), Authorization=said_so)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert response.json()["error"]["type"] == "authentication_error"
        assert TOKEN not in response.text
    assert written.get("/v1/models", Authorization="").status_code == 401
    assert (
        written.get("/healthz", Authorization="").status_code == written.get("/", Authorization="").status_code == 200
    )


def leave(server: Server, stream: bool) -> socket.socket:
    """A request whose client may disconnect."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    body = json.dumps(said(stream=stream)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_turn_stops_when_its_client_disconnects(written, endpoint, stream):
    endpoint.replies = [Say("The blade is sharp. [1]", stall=30)]
    endpoint.seen.clear()
    endpoint.disconnected.clear()
    client = leave(written, stream)
    while not endpoint.seen:
        time.sleep(0.02)
    client.close()
    assert endpoint.disconnected.wait(PATIENCE), "the model is still writing"


def outcomes(assistant: Assistant, count: int = 1, close_when: Callable[[], bool] = lambda: False) -> list[Any]:
    """Run several turns at once with room for one; stop them as soon as `close_when` is true. Return the outcomes."""

    async def ask_all() -> list[Any]:
        turns = Turns(1)

        async def ask() -> Any:
            async for event in turns.events(lambda: assistant, ChatRequest(message=ASK)):
                last = event
                if close_when():
                    turns.close()
            return last

        try:
            return await asyncio.gather(*(ask() for _ in range(count)))
        finally:
            turns.close()

    return asyncio.run(ask_all())


def steady(body: dict[str, Any]) -> Scripted:
    """An answer of 14 words in four seconds; the rules understand the message."""
    return Status(500) if "response_format" in body else Say(f"{'very ' * 12}sharp. [1]", pause=0.3)


def test_turn_continues_while_the_model_writes_and_queueing_does_not_count(home):
    with ScriptedServer(steady) as endpoint:
        assistant = assistant_over("demo", f"openai:tiny@{endpoint.url}?deadline=3&retries=0")
        replies = outcomes(assistant, 2)
    assert [reply.decision for reply in replies] == ["answer", "answer"]
    first, second = (request.arrived for request in endpoint.seen if "response_format" not in request.body)
    assert second - first > 1, "the turns ran at the same time"


def test_turn_fails_when_the_model_falls_silent(home):
    with ScriptedServer(Hang(60)) as endpoint:
        [refusal] = outcomes(assistant_over("demo", f"openai:tiny@{endpoint.url}?deadline=0.3"))
    assert (refusal.status, refusal.code) == (504, "timeout")
    assert "sent nothing for 0.3 s; ?deadline=SECONDS in its spec gives it longer" in str(refusal)


def test_refused_key_is_explained_in_the_log_only(plain_home):
    with (
        ScriptedServer(Status(401)) as endpoint,
        serving(
            plain_home, "--generator", f"openai:tiny@{endpoint.url}?retries=0", OPENAI_API_KEY="sk-nobody"
        ) as running,
    ):
        response = running.post(said())
        _, printed = running.end(signal.SIGTERM)
    problem = "the server's language model refused the server's key; the server's log has the details"
    assert (response.status_code, response.json()["error"]["code"]) == (502, "auth")
    assert response.json()["error"]["message"] == problem
    assert endpoint.url in printed
    assert "sk-nobody" not in printed


def test_documents_are_listed_with_the_state_of_their_files_and_opened(home_with_notes):
    notes, running = home_with_notes
    (notes / "gone.md").unlink()
    os.utime(notes / "new.md", (2e9, 2e9))
    listed = running.get("/v1/documents").json()
    states = {entry["path"]: entry["state"] for entry in listed["data"]}
    assert states == {"gone.md": "missing", "new.md": "changed", "old.md": "current"}
    assert listed["total"] == 3
    assert [entry["path"] for entry in running.get("/v1/documents?words=kettle").json()["data"]] == ["old.md"]
    assert "Fill the kettle" in running.get("/v1/document?document=old.md").json()["text"]
    assert running.get("/v1/document?document=../token").status_code == 404
    assert running.get("/v1/document").status_code == 404


@pytest.fixture
def home_with_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Server]]:
    """Start a server over three notes."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, text in (("old", "# Kettles\n\nFill the kettle."), ("new", "# Forks"), ("gone", "# Spoons")):
        (notes / f"{name}.md").write_text(f"{text}\n\nThey are kept in the drawer.\n")
        os.utime(notes / f"{name}.md", (1e9, 1e9))
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    build_index(notes, "demo", retriever="bm25")
    with serving(tmp_path / "home") as running:
        yield notes, running


def test_rating_stores_the_answer_with_its_conversation(home_with_notes):
    _, running = home_with_notes
    first, second = (running.post(said(f"How is the kettle filled{end}")).json() for end in ("?", " now?"))

    def rate(**fields: Any) -> httpx.Response:
        body = {"conversation": "0123456789abcdef", "answer": second["id"], "before": [first["id"]], **fields}
        return httpx.post(f"{running.url}/v1/ratings", json=body)

    assert rate(rating="good").json()["session"] == "page-0123456789abcdef"
    assert rate(rating="bad").status_code == 200
    conversation, _ = read_session("page-0123456789abcdef")
    assert [(one.turn, one.rating) for one in conversation.exchanges] == [(1, None), (2, "bad")]
    assert conversation.exchanges[1].reply.answer == second["turnmark"]["answer"]
    assert rate(rating="good", answer="chatcmpl-unknown").status_code == 404
    assert rate(rating="splendid").status_code == 400
    assert rate(rating="good", conversation="../../etc").status_code == 400


def test_shutdown_stops_running_and_queued_turns(home):
    with ScriptedServer(Hang(60)) as endpoint:
        assistant = assistant_over("demo", f"openai:tiny@{endpoint.url}")
        refusals = outcomes(assistant, 2, close_when=lambda: bool(endpoint.seen))
    assert [(refusal.status, refusal.code) for refusal in refusals] == [(503, "stopped")] * 2
    assert len(endpoint.seen) == 1


def test_unexpected_error_is_reported_to_the_client_and_located_in_the_log(home, caplog):
    opened = assistant_over("demo", "extractive")

    def search_with_a_fault(*_: object) -> object:
        raise KeyError("sk-secret")

    opened.retriever.search = search_with_a_fault

    [refusal] = outcomes(opened)
    assert (refusal.status, str(refusal)) == (500, "the turn failed unexpectedly (KeyError)")
    assert "in search_with_a_fault" in caplog.text
    assert "sk-secret" not in caplog.text.replace('raise KeyError("sk-secret")', "")


def test_sigterm_lets_a_short_turn_finish(written, endpoint):
    """This is the last test of this server, since it ends the server."""
    endpoint.replies = [Say("Sharpen it on a stone. [1]", pause=0.2)]
    endpoint.seen.clear()
    responses: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: responses.append(written.post(said())))
    thread.start()
    while not endpoint.seen:
        time.sleep(0.02)
    assert written.end(signal.SIGTERM)[0] == 0
    thread.join()
    assert responses[0].json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_sigterm_stops_a_long_turn_and_tells_its_client(plain_home, stream):
    short = "from turnmark.assistant.serving import http_server; http_server.GRACE_SECONDS = 0.3"
    with (
        ScriptedServer(Say("Sharp. [1]", stall=60)) as endpoint,
        serving(plain_home, "--generator", f"openai:tiny@{endpoint.url}", first=short) as running,
    ):
        responses: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: responses.append(running.post(said(stream=stream))))
        thread.start()
        while not endpoint.seen:
            time.sleep(0.02)
        assert running.end(signal.SIGTERM) == (0, "")
        thread.join()
    assert "the server shut down before the turn was finished" in responses[0].text
    assert responses[0].status_code == (200 if stream else 503)


def test_accepts_connections_once_the_address_is_printed(plain_home):
    """A client in the server's process connects while the address is being printed."""
    connecting = f"""
import socket, typer
say = typer.echo
def echo(text, **more):
    host, _, port = text.split("endpoint http://")[1].split("/v1")[0].partition(":")
    socket.create_connection((host, int(port)), timeout={PATIENCE}).close()
    say(text, **more)
typer.echo = echo
"""
    with serving(plain_home, first=connecting) as running:
        assert running.get("/v1/models").status_code == 200


def test_official_client_can_chat(server):
    assert [listed_model.id for listed_model in server.client.models.list()] == ["demo"]
    ask = {"model": "demo", "messages": [{"role": "user", "content": ASK}]}
    completion = server.client.chat.completions.create(**ask, temperature=0)
    text = completion.choices[0].message.content
    assert "[^1]" in text
    assert completion.model_extra["turnmark"]["decision"] == "answer"
    assert completion.model_extra["turnmark"]["ignored"] == ["temperature"]
    chunks = list(server.client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == text
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 0)
    assert len({chunk.id for chunk in chunks}) == 1
    plain = server.client.chat.completions.create(**ask, extra_body={"turnmark": {"footnotes": False}})
    assert "[1]" in plain.choices[0].message.content
    assert "[^1]" not in plain.choices[0].message.content


def test_official_client_can_use_responses(server):
    chat = server.client.chat.completions.create(model="demo", messages=[{"role": "user", "content": ASK}])
    response = server.client.responses.create(
        model="demo", input=ASK, instructions="Be brief.", temperature=0, store=False,
    )  # fmt: skip
    assert response.output_text == chat.choices[0].message.content
    assert (response.status, response.model, response.usage.total_tokens) == ("completed", "demo", 0)
    ours = response.model_extra["turnmark"]
    assert ours["ignored"] == ["instructions", "store", "temperature"]
    assert {**ours, "ignored": [], "timings": {}} == {**chat.model_extra["turnmark"], "ignored": [], "timings": {}}
    annotations = response.output[0].content[0].annotations
    assert annotations
    for annotation in annotations:
        citation = ours["citations"][annotation.model_extra["n"] - 1]
        assert response.output_text[annotation.index :].startswith(f"[^{citation['n']}]")
        assert (annotation.type, annotation.file_id, annotation.filename) == (
            "file_citation", citation["id"], citation["document"],
        )  # fmt: skip
    messages = [{"role": "user", "content": ASK}, *response.output, {"role": "user", "content": "What do I need?"}]
    on = server.client.responses.create(model="demo", input=messages)
    assert on.model_extra["turnmark"]["question"] == "What do I need?"
    plain = server.client.responses.create(model="demo", input=ASK, extra_body={"turnmark": {"footnotes": False}})
    place = plain.output[0].content[0].annotations[0].index
    assert plain.output_text[place:].startswith("[")
    assert "[^" not in plain.output_text


def test_official_client_can_stream_responses(server):
    text = server.client.responses.create(model="demo", input=ASK).output_text
    extra = {"turnmark": {"events": True}}
    events = list(server.client.responses.create(model="demo", input=ASK, stream=True, extra_body=extra))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert kinds[-5:] == [
        "response.output_text.annotation.added", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == text
    steps = [event.model_extra["turnmark"]["event"]["step"] for event in events if "turnmark" in event.model_extra]
    assert list(dict.fromkeys(steps)) == ["understand", "retrieve", "decide", "answer", "verify"]
    with server.client.responses.stream(model="demo", input=ASK) as stream:
        assert not [event for event in stream if event.type == "response.output_text.delta" and not event.delta]
        final = stream.get_final_response()
    assert final.output_text == text
    assert final.model_extra["turnmark"]["decision"] == "answer"


@pytest.mark.parametrize("said_first", ["", "Let me count."])
def test_official_client_sees_tool_calls_in_responses(home, plain_home, said_first):
    grep = ("grep", '{"words": "starter"}')
    replies = [Say("{}"), Say(said_first, calls=[grep]), Say("Fed weekly [1].")]
    with (
        ScriptedServer(*replies, *replies, *replies, Say("{}"), Say("As said [1].")) as endpoint,
        serving(plain_home, "--generator", f"openai:tiny@{endpoint.url}?retries=0") as running,
    ):
        response = running.client.responses.create(model="demo", input=ASK)
        call, message = response.output
        assert (call.type, call.name, json.loads(call.arguments)) == ("mcp_call", "grep", {"asked": "starter"})
        assert re.match(r"\d+ times? in .* of 80 documents$", call.output)  # the answer does not cite the count
        assert "Fed weekly" in message.content[0].text
        events = list(running.client.responses.create(model="demo", input=ASK, stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert [kind for kind in kinds if "mcp" in kind] == [
            "response.mcp_call.in_progress", "response.mcp_call_arguments.done", "response.mcp_call.completed",
        ]  # fmt: skip
        final = events[-1].response
        for event in events:
            if event.type in ("response.output_item.added", "response.output_item.done"):
                assert final.output[event.output_index].id == event.item.id
            elif getattr(event, "item_id", None):
                assert final.output[event.output_index].id == event.item_id
        first = "message" if said_first else "mcp_call"
        assert final.output[0].type == first
        assert {item.type for item in final.output} == {"message", "mcp_call"}
        with running.client.responses.stream(model="demo", input=ASK) as stream:
            accumulated = stream.get_final_response()
        assert "Fed weekly" in accumulated.output_text
        conversation = [{"role": "user", "content": ASK}, *response.output, {"role": "user", "content": "Really?"}]
        assert "As said" in running.client.responses.create(model="demo", input=conversation).output_text


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        (
            {"previous_response_id": "resp_1"},
            "previous_response_id",
            "this server stores no conversations; send the whole",
        ),
        ({"conversation": "conv_1"}, "conversation", "this server stores no conversations"),
        ({"background": True}, "background", "is not supported"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format.type", "Input should be 'text'"),
        ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "input[0].content[0].type", "input_text"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0].role", "'message'"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input", "at least 1 item"),
        ({"input": [{"role": "assistant", "content": "Hello."}]}, None, "the last message must have role user"),
    ],
)
def test_responses_refuse_invalid_requests(server, fields, param, words):
    with pytest.raises(openai.BadRequestError) as raised:
        server.client.responses.create(**{"model": "demo", "input": ASK, **fields})
    assert raised.value.body["param"] == param
    assert words in raised.value.body["message"]


def test_failing_model_ends_a_stream_of_responses(home, plain_home):
    with (
        ScriptedServer(Status(500)) as endpoint,
        serving(plain_home, "--generator", f"openai:tiny@{endpoint.url}?retries=0") as running,
    ):
        *_, last = running.client.responses.create(model="demo", input=ASK, stream=True)
        assert (last.type, last.response.status) == ("response.failed", "failed")
        assert last.response.error.message.startswith("the server's language model cannot be reached or failed;")
        with pytest.raises(openai.InternalServerError):
            running.client.responses.create(model="demo", input=ASK)


def test_public_address_needs_a_token(turnmark, home, monkeypatch):
    ran = turnmark("serve", "--index", "nowhere", "--host", "0.0.0.0", "--port", "99999", "--generator", "nobody")
    assert ran.code == 2
    assert "--port 99999: expected a number from 0 to 65535" in ran.err
    assert "set a token with --token FILE or TURNMARK_TOKEN" in ran.err
    assert "nowhere" in ran.err
    assert "nobody" in ran.err
    monkeypatch.setenv("TURNMARK_TOKEN", "short")
    ran = turnmark("serve", "--index", "demo", "--host", "0.0.0.0")
    assert ran.code == 2
    assert "at least 16" in ran.err
    assert "short\n" not in ran.err


def test_reports_a_port_that_is_in_use(turnmark, home):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        ran = turnmark("serve", "--index", "demo", "--port", str(listening.getsockname()[1]))
    assert ran.code == 1
    assert "choose another --port" in ran.err
    with pytest.raises(TurnmarkError, match=r"nosuchhost\.invalid: this machine has no such address"):
        listen("nosuchhost.invalid", 0)
