"""What a request of OpenAI's form is taken for, and how an answer becomes Markdown with footnotes and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.assistant.notes import conversation
from turnmark.assistant.serving.guard import is_loopback, read_token
from turnmark.assistant.serving.reply import AFTER, ReplyForm, ReplyText, cited_places, footnote_marks
from turnmark.assistant.serving.reply import content as markdown_of
from turnmark.assistant.serving.request import ChatRequest, Refusal, parse_request, without_footnotes
from turnmark.assistant.serving.responses import ResponseForm
from turnmark.assistant.types import Checks, Citation, Event, ProcedureStep, Reply
from turnmark.core.errors import RequestError

EVIL = "<script>x</script> ![i](https://example.org/p.png) [a](https://example.org) \\[b](https://example.org)"


def chat_request(*messages: object, **more: object) -> ChatRequest:
    return parse_request(json.dumps({"model": "m", "messages": list(messages), **more}).encode(), "m")


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def test_of_a_long_conversation_the_last_messages_are_read():
    messages = [
        message for n in range(500) for message in (user(f"What is {n}?"), {"role": "assistant", "content": ""})
    ]
    request = chat_request(*messages, {"role": "system", "content": "Be brief."}, user("And how?"))
    assert [message.content for message in request.history] == [f"What is {n}?" for n in range(400, 500)]
    assert request.message == "And how?"


def test_a_conversation_is_the_clients_messages():
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


def test_every_mistake_is_named_at_once():
    with pytest.raises(Refusal) as raised:
        chat_request(
            user([{"type": "image_url", "image_url": {}}]), {"role": "tool", "content": "x"}, user("  "), "x",
            n=2, stream="yes", stream_options={"include_usage": True}, response_format={"type": "json_object"},
            logprobs=True, tool_choice="required", modalities=["audio"], turnmark={"event": True, "footnotes": "all"},
        )  # fmt: skip
    places = [problem.partition(": ")[0] for problem in raised.value.problems]
    assert places == [
        "messages[0].content[0].type", "messages[0].content[0].text", "messages[1].role", "messages[2]", "messages[3]",
        "stream", "turnmark.footnotes", "turnmark.event", "n", "response_format.type", "tool_choice", "logprobs",
        "modalities[0]",
    ]  # fmt: skip
    assert "messages[2]: the message is empty" in raised.value.problems
    assert "messages[0].content[0].type: Input should be 'text'" in raised.value.problems
    assert (raised.value.param, raised.value.status) == ("messages[0].content[0].type", 400)
    with pytest.raises(Refusal, match="stream_options: only with stream: true"):
        chat_request(user("a"), stream_options={"include_usage": True})


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(body):
    with pytest.raises(Refusal):
        parse_request(body, "m")


def reply(answer: str = "It is red. [1] It boils. [2, 3]\n\n1. Boil it. [1]", **more: object) -> Reply:
    citations = tuple(
        Citation(n=n, id=f"k-{n}", document="k", title=f"Title {n} <b>", path=f"k{n}.md", page=None, start=0, end=4,
                 text="text", score=1.0)
        for n in (1, 2, 3)
    )  # fmt: skip
    steps = (ProcedureStep(step="Boil it.", citations=(1,)),)
    fields = {"question": "?", "answer": answer, "procedure": steps, "citations": citations, "decision": "answer"}
    return Reply(**{**fields, "rewrite": "?", "generator": "g", **more})


def test_marks_become_footnotes_with_their_sources():
    assert markdown_of(reply(), footnotes=True) == (
        "It is red. [^1] It boils. [^2][^3]\n\n1. Boil it. [^1]\n\n"
        "[^1]: Title 1 \\<b\\>, k1.md\n[^2]: Title 2 \\<b\\>, k2.md\n[^3]: Title 3 \\<b\\>, k3.md"
    )
    assert markdown_of(reply("No idea.", procedure=(), citations=()), footnotes=True) == "No idea."


def test_nothing_of_others_becomes_active():
    markdown = footnote_marks(f"{EVIL} \x1b[31mred\x1b[0m [7] *so*", 3)
    assert markdown == (
        "\\<script>x\\</script> !\\[i\\](https://example.org/p.png) \\[a\\](https://example.org) "
        "\\\\\\[b\\](https://example.org) red \\[7\\] *so*"
    )


CODE = "Use `x[1]` and `y[2, 3]`. [1]\n\n```python\nx[1] = a[i]  # [2]\n```\nSo. [2]"


def test_in_code_a_bracketed_number_is_code():
    markdown = footnote_marks(CODE, 3)
    assert markdown == "Use `x[1]` and `y[2, 3]`. [^1]\n\n```python\nx[1] = a\\[i\\]  # [2]\n```\nSo. [^2]"
    # What a client may take for a link or its definition, where it sees no code, stays inert.
    assert footnote_marks("```[1](https://example.org) [2]: x````", 3) == (
        "```\\[1\\](https://example.org) \\[2\\]: x````"
    )


@given(st.text(alphabet="ab \n[]\\<>*1234567890,-^:", max_size=60))
def test_an_answer_comes_back_without_its_footnotes(text):
    # What the text itself has in the form of a footnote is one, for whoever reads it back.
    if "[^" not in text:
        assert without_footnotes(footnote_marks(text, 0)) == text


PIECES = ["It ", "[1]", "[", "1", "]", ", ", "2", "-", "so. ", "[x]", "\n", "`", "``", "```", "`x[1]`", "```py\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=14))
@example([*CODE])
def test_pieces_are_noted_as_the_whole_is(pieces):
    assume("".join(pieces).strip())
    telling = ReplyText(footnotes=True)
    text = "".join(telling.add(Event(step="answer", delta=piece)) for piece in pieces)
    text += "".join(telling.rest(reply("".join(pieces), procedure=(), citations=())))
    assert text == footnote_marks("".join(pieces), 999)


def streamed(reply: Reply, drafts: tuple[str, ...], **options: object) -> tuple[str, list[dict[str, object]]]:
    """The content of a stream, and all that it told beside it."""
    stream = ReplyForm("id", 0, "m", ChatRequest(message="?", stream=True, **options))
    chunks = list(stream.begin())
    for draft in drafts:
        chunks += stream.event(Event(step="answer", delta=draft))
    chunks += stream.end(reply)
    content = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    return content, [chunk["turnmark"] for chunk in chunks if "turnmark" in chunk]


def test_a_stream_is_the_answer_as_it_is_written_and_says_each_step_where_that_is_asked_for():
    drafts = ("It is red. [", "1] It boils. [2, ", "3]\n\n1. Boil it. [1]")
    content, extensions = streamed(reply(), drafts)
    assert content == markdown_of(reply(), footnotes=True)
    assert [extension["decision"] for extension in extensions] == ["answer"]
    content, extensions = streamed(reply(), drafts, events=True, footnotes=False)
    assert content == "It is red. [1] It boils. [2, 3]\n\n1. Boil it. [1]"
    assert [extension.get("event", {}).get("delta") for extension in extensions] == [*drafts, None]


def test_what_checking_changed_follows_and_a_mark_without_a_source_is_no_footnote():
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
def test_a_streamed_response_is_its_pieces_and_its_annotations_stand_at_its_marks(pieces, footnotes, checked):
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


def test_the_places_of_marks():
    text = footnote_marks("As follows [1]: do [2, 3], not `a[1]` or [9] or \\[^1].", 3) + "\n\n[^1]: T, k1.md"
    places = cited_places(text, footnotes=True, sources=3)
    assert [(text[place : place + 4], number) for place, number in places] == [("[^1]", 1), ("[^2]", 2), ("[^3]", 3)]
    plain = "As follows [1]: do [2, 3], not `a[1]` or [9]."
    assert [number for _, number in cited_places(plain, footnotes=False, sources=3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.9.1", True), ("0.0.0.0", False),
     ("192.168.0.4", False), ("::", False), ("example.org", False), ("127.0.0.1.example.org", False)],
)  # fmt: skip
def test_loopback(host, ours):
    assert is_loopback(host) is ours


def test_a_token_is_read_from_a_file_of_ones_own(tmp_path: Path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("a-token-of-some-length\n")
    path.chmod(0o600)
    assert read_token(path) == "a-token-of-some-length"
    monkeypatch.setenv("TURNMARK_TOKEN", "another-token-from-outside")
    assert read_token(None) == "another-token-from-outside"
    assert read_token(path) == "a-token-of-some-length"
    path.chmod(0o640)
    with pytest.raises(RequestError, match=r"others may read it \(mode 0640\); chmod 600"):
        read_token(path)
    with pytest.raises(RequestError, match="is not a file"):
        read_token(Path("/dev/null"))


@pytest.mark.parametrize("content", ["", "short", "with a space in between it", "ünïcödé-letters-are-none", "x" * 5000])
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path, content):
    path = tmp_path / "t"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(RequestError, match="a token of at least 16") as raised:
        read_token(path)
    assert not content or content not in str(raised.value)
    with pytest.raises(RequestError, match="never the token itself"):
        read_token(tmp_path / "s3cret")


def test_what_a_model_said_before_it_searched_is_no_part_of_its_answer():
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
    assert AFTER not in "".join(text.rest(reply(answer="It is red [1].", procedure=())))
