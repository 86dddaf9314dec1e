"""Parsing of OpenAI requests, and conversion of answers to Markdown with footnotes and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from tests.assistant.notes import conversation
from turnmark.assistant.serving.access_control import Guard, check_origin, is_loopback, read_token
from turnmark.assistant.serving.completions_api import (
    CHECKED_ANSWER_HEADING,
    ReplyForm,
    ReplyText,
    convert_marks,
    find_citations,
)
from turnmark.assistant.serving.completions_api import content as markdown_of
from turnmark.assistant.serving.latest_answers import MAX_SENT_ANSWERS, SentAnswers
from turnmark.assistant.serving.request_bodies import ChatRequest, RejectedRequest, parse_request, remove_footnotes
from turnmark.assistant.serving.responses_api import ResponseForm
from turnmark.assistant.types import AnswerMessage, Checks, Citation, Event, ProcedureStep, Reply
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Message

EVIL = "<script>x</script> ![i](https://example.org/p.png) [a](https://example.org) \\[b](https://example.org)"


def chat_request(*messages: object, **more: object) -> ChatRequest:
    return parse_request(json.dumps({"model": "m", "messages": list(messages), **more}).encode())


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def test_only_the_last_messages_of_a_long_conversation_are_used():
    messages = [
        message for n in range(500) for message in (user(f"What is {n}?"), {"role": "assistant", "content": ""})
    ]
    request = chat_request(*messages, {"role": "system", "content": "Be brief."}, user("And how?"))
    assert [message.content for message in request.history] == [f"What is {n}?" for n in range(400, 500)]
    assert request.message == "And how?"


def test_history_consists_of_the_clients_messages():
    request = chat_request(
        {"role": "system", "content": "Be brief."},
        user("What is it?"),
        {"role": "assistant", "content": "A kettle. [^1] It boils [2].\n\n[^1]: Kettles — k.md\n[^2]: More — m.md"},
        user([{"type": "text", "text": "And"}, {"type": "text", "text": "how?"}]),
        temperature=0.2, chat_id="x", tools=[],
    )  # fmt: skip
    assert request.history == tuple(conversation("What is it?", "A kettle. It boils."))
    assert request.message == "And\nhow?"
    assert request.ignored == ("messages[0] (system)", "temperature", "chat_id", "tools")
    assert (request.stream, request.events, request.footnotes) == (False, False, True)


def test_messages_of_tools_are_left_out():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    request = chat_request(
        user("How do I descale the kettle?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": "With vinegar."},
        user("And the lamp bulb?"),
    )
    assert request.history == tuple(conversation("How do I descale the kettle?", "With vinegar."))
    assert request.ignored == ("messages[2] (tool)",)


@pytest.mark.parametrize("role", ["developer", "function", "tool", "critic"])
def test_messages_of_roles_that_are_not_used_may_have_any_content(role):
    picture = [{"type": "image_url", "image_url": {"url": "x"}}]
    request = chat_request(user("What is it?"), {"role": role, "content": picture}, user("And how?"))
    assert request.history == tuple(conversation("What is it?"))
    assert request.ignored == (f"messages[1] ({role})",)


def test_a_message_with_a_picture_is_answered_from_its_text():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}
    request = chat_request(user([{"type": "text", "text": "What is it?"}, picture]))
    assert request.message == "What is it?"
    assert request.ignored == ("messages[0].content (image_url)",)
    with pytest.raises(RejectedRequest, match="the message is empty"):
        chat_request(user([picture]))


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ("What is it?", "*Only the text of your message was read; its pictures and files were not looked at.*"),
        (
            "Was ist das?",
            "*Nur der Text Ihrer Nachricht wurde gelesen; Bilder und Dateien darin wurden nicht angesehen.*",
        ),
    ],
)
@pytest.mark.parametrize("footnotes", [True, False])
def test_the_reply_says_that_a_picture_was_not_looked_at(asked, note, footnotes):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}
    request = chat_request(user([{"type": "text", "text": asked}, picture]), turnmark={"footnotes": footnotes})
    answered = reply("A kettle. [1]")
    text = markdown_of(answered, footnotes, request.note)
    assert note in text.split("\n\n")
    streamed = ReplyText(footnotes, request.note)
    assert "".join([streamed.add(Event(step="answer", delta="A kettle. [1]")), *streamed.rest(answered)]) == text
    again = chat_request(user(asked), {"role": "assistant", "content": text}, user("Why?"))
    assert (again.history[1].content, again.note) == ("A kettle.", "")


def test_reports_all_mistakes_at_once():
    with pytest.raises(RejectedRequest) as raised:
        chat_request(
            user([{"type": "video"}]), {"role": 5, "content": "x"}, user("  "), "x",
            n=2, stream="yes", stream_options={"include_usage": True}, response_format={"type": "json_object"},
            logprobs=True, tool_choice="required", modalities=["audio"], turnmark={"event": True, "footnotes": "all"},
        )  # fmt: skip
    places = [problem.partition(": ")[0] for problem in raised.value.problems]
    assert places == [
        "messages[0].content[0].type", "messages[0].content[0].text", "messages[1].role", "messages[2]", "messages[3]",
        "stream", "turnmark.footnotes", "turnmark.event", "n", "response_format.type", "tool_choice", "logprobs",
        "modalities[0]",
    ]  # fmt: skip
    assert "messages[2]: the message is empty; write a question" in raised.value.problems
    assert "messages[0].content[0].type: Input should be 'text'" in raised.value.problems
    assert (raised.value.param, raised.value.status) == ("messages[0].content[0].type", 400)
    with pytest.raises(RejectedRequest, match="stream_options: needs stream: true"):
        chat_request(user("a"), stream_options={"include_usage": True})


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_refuses_bodies_that_are_not_json_objects(body):
    with pytest.raises(RejectedRequest):
        parse_request(body)


def reply(answer: str = "It is red. [1] It boils. [2, 3]\n\n1. Boil it. [1]", **more: object) -> Reply:
    citations = tuple(
        Citation(n=n, id=f"k-{n}", document="k", title=f"Title {n} <b>", path=f"k{n}.md", page=None, start=0, end=4,
                 text="text", score=1.0)
        for n in (1, 2, 3)
    )  # fmt: skip
    steps = (ProcedureStep(step="Boil it.", citations=(1,)),)
    fields = {"question": "?", "answer": answer, "procedure": steps, "citations": citations, "decision": "answer"}
    return Reply(**{**fields, "rewrite": "?", "generator": "g", **more})


@pytest.mark.parametrize("footnotes", [True, False])
def test_answer_that_a_client_sends_back_gets_its_reply(footnotes):
    told = reply("It is *red* <b> [1].\n\n- `pot[1]` boils [2].")
    sent, markdown = SentAnswers(), markdown_of(told, footnotes)
    sent.remember(told)
    request = chat_request(user("What?"), {"role": "assistant", "content": markdown}, user("shorter"))
    asked, said = sent.recall(request.history)
    assert type(asked) is Message
    assert isinstance(said, AnswerMessage)
    assert said.reply == told
    other = {"role": "assistant", "content": "Blue."}
    assert [type(each) for each in sent.recall(chat_request(other, user("x")).history)] == [Message]
    for n in range(MAX_SENT_ANSWERS):
        sent.remember(reply(f"Answer {n}."))
    assert [type(each) for each in sent.recall(request.history)] == [Message, Message], "it was forgotten"


def test_citation_marks_become_footnotes_with_sources():
    assert markdown_of(reply(), footnotes=True) == (
        "It is red. [^1] It boils. [^2][^3]\n\n1. Boil it. [^1]\n\n"
        "[^1]: Title 1 \\<b\\>, k1.md\n[^2]: Title 2 \\<b\\>, k2.md\n[^3]: Title 3 \\<b\\>, k3.md"
    )
    assert markdown_of(reply("No idea.", procedure=(), citations=()), footnotes=True) == "No idea."


def test_untrusted_text_never_becomes_active():
    markdown = convert_marks(f"{EVIL} \x1b[31mred\x1b[0m [7] *so*", 3)
    assert markdown == (
        "\\<script>x\\</script> !\\[i\\](https://example.org/p.png) \\[a\\](https://example.org) "
        "\\\\\\[b\\](https://example.org) red \\[7\\] *so*"
    )


CODE = "Use `x[1]` and `y[2, 3]`. [1]\n\n```python\nx[1] = a[i]  # [2]\n```\nSo. [2]"


def test_bracketed_number_in_code_stays_code():
    markdown = convert_marks(CODE, 3)
    assert markdown == "Use `x[1]` and `y[2, 3]`. [^1]\n\n```python\nx[1] = a\\[i\\]  # [2]\n```\nSo. [^2]"
    # A client may not recognize the code, so a possible link or definition stays escaped.
    assert convert_marks("```[1](https://example.org) [2]: x````", 3) == (
        "```\\[1\\](https://example.org) \\[2\\]: x````"
    )


@given(st.text(alphabet="ab \n[]\\<>*1234567890,-^:", max_size=60))
def test_footnotes_are_removed_from_answers_sent_back(text):
    # Text that looks like a footnote is one when the answer is read back.
    if "[^" not in text:
        assert remove_footnotes(convert_marks(text, 0)) == text


PIECES = ["It ", "[1]", "[", "1", "]", ", ", "2", "-", "so. ", "[x]", "\n", "`", "``", "```", "`x[1]`", "```py\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=14))
@example([*CODE])
def test_streamed_text_gets_the_same_footnotes_as_complete_text(pieces):
    assume("".join(pieces).strip())
    telling = ReplyText(footnotes=True)
    text = "".join(telling.add(Event(step="answer", delta=piece)) for piece in pieces)
    text += "".join(telling.rest(reply("".join(pieces), procedure=(), citations=())))
    assert text == convert_marks("".join(pieces), 999)


def streamed(reply: Reply, drafts: tuple[str, ...], **options: object) -> tuple[str, list[dict[str, object]]]:
    """Return the content of a stream and its other events."""
    stream = ReplyForm("id", 0, "m", ChatRequest(message="?", stream=True, **options))
    chunks = list(stream.begin())
    for draft in drafts:
        chunks += stream.event(Event(step="answer", delta=draft))
    chunks += stream.end(reply)
    content = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    return content, [chunk["turnmark"] for chunk in chunks if "turnmark" in chunk]


def test_stream_contains_the_answer_and_on_request_each_step():
    drafts = ("It is red. [", "1] It boils. [2, ", "3]\n\n1. Boil it. [1]")
    content, extensions = streamed(reply(), drafts)
    assert content == markdown_of(reply(), footnotes=True)
    assert [extension["decision"] for extension in extensions] == ["answer"]
    content, extensions = streamed(reply(), drafts, events=True, footnotes=False)
    assert content == "It is red. [1] It boils. [2, 3]\n\n1. Boil it. [1]"
    assert [extension.get("event", {}).get("delta") for extension in extensions] == [*drafts, None]


def test_checked_answer_follows_and_marks_without_source_stay_text():
    changed = reply(checks=Checks(repaired=True))
    content, _ = streamed(changed, ("It is blue. [1]",))
    assert content == f"It is blue. [^1]\n\n*After checking:*\n\n{markdown_of(changed, footnotes=True)}"
    text = ReplyText(footnotes=True)
    text.add(Event(step="retrieve", detail={"hits": [("a", 1.0)]}))
    assert text.add(Event(step="answer", delta="So [1], in [42].")) == "So [^1], in \\[42\\]."


@given(
    pieces=st.lists(st.sampled_from([*PIECES, "So [1]: ", " [2, 3]", "[7]", "[^1]: "]), max_size=14),
    footnotes=st.booleans(), checked=st.booleans(),
)  # fmt: skip
@example(pieces=["As follows [1]:", " boil [9] it [2,3]."], footnotes=True, checked=False)
def test_streamed_response_has_annotations_at_its_marks(pieces, footnotes, checked):
    assume("".join(pieces).strip())
    answer = reply("".join(pieces), procedure=(), checks=Checks(repaired=checked))
    form = ResponseForm("m", ChatRequest(message="?", stream=True, footnotes=footnotes))
    events = list(form.begin())
    for piece in pieces:
        events += form.event(Event(step="answer", delta=piece))
    events += form.end(answer)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    (message,) = events[-1]["response"]["output"]
    (part,) = message["content"]
    assert "".join(deltas) == part["text"]
    for annotation in part["annotations"]:
        mark = part["text"][annotation["index"] :].partition("]")[0]
        assert str(annotation["n"]) in mark
        assert mark.startswith("[^" if footnotes else "[")
        assert annotation["file_id"] == f"k-{annotation['n']}"
    if pieces[0] == "As follows [1]:" and not checked:
        assert part["annotations"][0]["index"] == len("As follows ")


def test_finds_citations_in_text():
    text = convert_marks("As follows [1]: do [2, 3], not `a[1]` or [9] or \\[^1].", 3) + "\n\n[^1]: T, k1.md"
    places = find_citations(text, footnotes=True, sources=3)
    assert [(text[place : place + 4], number) for place, number in places] == [("[^1]", 1), ("[^2]", 2), ("[^3]", 3)]
    plain = "As follows [1]: do [2, 3], not `a[1]` or [9]."
    assert [number for _, number in find_citations(plain, footnotes=False, sources=3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.9.1", True), ("0.0.0.0", False),
     ("192.168.0.4", False), ("::", False), ("example.org", False), ("127.0.0.1.example.org", False)],
)  # fmt: skip
def test_recognizes_loopback_hosts(host, ours):
    assert is_loopback(host) is ours


def test_reads_token_from_a_private_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("a-token-of-some-length\n")
    path.chmod(0o600)
    assert read_token(path) == "a-token-of-some-length"
    monkeypatch.setenv("TURNMARK_TOKEN", "another-token-from-outside")
    assert read_token(None) == "another-token-from-outside"
    assert read_token(path) == "a-token-of-some-length"
    path.chmod(0o640)
    with pytest.raises(RequestError, match=r"other users can read it \(mode 0640\); run: chmod 600"):
        read_token(path)
    with pytest.raises(RequestError, match="is not a file"):
        read_token(Path("/dev/null"))


@pytest.mark.parametrize("content", ["", "short", "with a space in between it", "ünïcödé-letters-are-none", "x" * 5000])
def test_refuses_invalid_tokens_without_quoting_them(tmp_path, content):
    path = tmp_path / "t"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(RequestError, match="a token of at least 16") as raised:
        read_token(path)
    assert not content or content not in str(raised.value)
    with pytest.raises(RequestError, match="not the token itself"):
        read_token(tmp_path / "s3cret")


def test_text_before_a_search_is_not_part_of_the_answer():
    text = ReplyText(footnotes=True)
    call = {"tool": "search", "asked": "x"}
    events = [
        Event(step="answer", delta="Let me look [1"),
        Event(step="retrieve", text="search: x", detail=call),
        Event(step="retrieve", text="search: x → nothing", detail={**call, "found": "nothing"}),
        Event(step="answer", delta="It is red [1]."),
    ]
    sent = "".join(map(text.add, events))
    assert sent == "Let me look \\[1\n\nIt is red [^1]."
    assert CHECKED_ANSWER_HEADING not in "".join(text.rest(reply(answer="It is red [1].", procedure=())))


def test_allowed_origins_may_use_the_server_and_others_may_not():
    async def hello(scope, receive, send):
        await PlainTextResponse("hello")(scope, receive, send)

    client = TestClient(Guard(hello, "localhost", None, origins=["app://obsidian.md"]), base_url="http://localhost")
    asked = {"Origin": "app://obsidian.md", "Access-Control-Request-Method": "POST"}
    assert client.options("/v1/models", headers=asked).status_code == 204
    response = client.get("/v1/models", headers={"Origin": "app://obsidian.md"})
    assert (response.text, response.headers["access-control-allow-origin"]) == ("hello", "app://obsidian.md")
    refused = client.get("/v1/models", headers={"Origin": "https://evil.example.org"})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
    for wrong in ("*", "obsidian.md", "https://a.b/path"):
        with pytest.raises(RequestError, match="expected an origin"):
            check_origin(wrong)
