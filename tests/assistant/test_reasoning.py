"""A model's reasoning and the calls that it writes as text are never an answer, whatever their form."""

from __future__ import annotations

import json

import pytest

from tests.assistant.endpoint import opened
from tests.assistant.notes import with_model
from tests.servers import Raw, Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.cancellation import ON_WAIT
from turnmark.assistant.llm.calls.protocols import GeneratorError, PromptMessage, Tool, ToolMessage
from turnmark.assistant.llm.calls.reasoning import split_reasoning
from turnmark.assistant.llm.calls.repetition import without_repetition
from turnmark.assistant.llm.calls.text_calls import read_calls
from turnmark.assistant.types import Event

ASK = (PromptMessage(role="user", content="How?"),)
ANSWER = "Boil it, then rinse it."
THOUGHT = "Okay, the user asks about [1]."
BEFORE = {
    "think": f"<think>\n{THOUGHT}\n</think>\n\n",
    "thinking": f"<thinking>{THOUGHT}</thinking>",
    "thought": f"<thought>{THOUGHT}</thought>\n",
    "reasoning": f"<reasoning>{THOUGHT}</reasoning>\n",
    "seed": f"<seed:think>{THOUGHT}</seed:think>",
    "brackets": f"[THINK]{THOUGHT}[/THINK]",
    "kimi": f"◁think▷{THOUGHT}◁/think▷",
    "details": f'<details type="reasoning" done="true">{THOUGHT}\n</details>\n',
    "cohere": f"<|START_THINKING|>{THOUGHT}<|END_THINKING|>",
    "channels": f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>",
    "closed only": f"{THOUGHT}\n</think>\n\n",
    "closed only, in its line": f"{THOUGHT}</think>",
    "closed channel": f"{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>",
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_separates_reasoning_also_in_a_stream(before):
    with ScriptedServer(Say(before + ANSWER)) as server:
        generator = opened(server)
        pieces = []
        reply = generator.complete(ASK, on_text=pieces.append)
        again = generator.complete(ASK)
    assert (reply.text, "".join(pieces), again.text) == (ANSWER, ANSWER, ANSWER)
    assert THOUGHT in reply.reasoning


def test_holds_every_stream_of_a_model_that_closed_reasoning_without_opening_it():
    text = f"Kettles are old.\n</think>\n{ANSWER}"  # does not begin like reasoning
    with ScriptedServer(Say(text)) as server:
        generator = opened(server)
        generator.complete(ASK)
        pieces = []
        generator.complete(ASK, on_text=pieces.append)
    assert "".join(pieces) == ANSWER


def test_streams_at_once_what_does_not_begin_like_reasoning():
    with ScriptedServer(Say(ANSWER)) as server:
        generator = opened(server)
        generator.complete(ASK, on_text=[].append)  # the first reply of an unknown model is held for a sentence
        pieces = []
        generator.complete(ASK, on_text=pieces.append)
    assert pieces == ["Boil", " it,", " then", " rinse", " it."]


@pytest.mark.parametrize(
    "thought", ["The user asks how. It is in section 1.", "Kettles. I need to look at the first section, I think."]
)
def test_first_reply_of_an_unknown_model_does_not_show_its_reasoning(thought):
    with ScriptedServer(Say(f"{thought * 4}\n</think>\n{ANSWER}")) as server:
        pieces = []
        opened(server).complete(ASK, on_text=pieces.append)
    assert "".join(pieces) == ANSWER


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is red. <think>Wait, check it.</think> It holds two litres.", "It is red. It holds two litres."),
        ("It is red.\n<think>Wait, let me", "It is red.\n"),
    ],
)
def test_removes_reasoning_behind_the_beginning_of_a_reply(text, shown):
    assert split_reasoning(text).text == shown


@pytest.mark.parametrize(
    "text",
    ["The tag `<think>` opens and `</think>` closes.", "The tag </think> closes it.", "End it with </think>.",
     "Write:\n```\n<think>a</think>\n```\nThen wait.", "<think> is a tag that opens, and </think> closes it.",
     "A <thought> element comes first.", "[1] says so.",
     "The tag is <think>.", "Put your thoughts in <think>here</think> tags.", "Thinking, Fast and Slow is a book.",
     "Reasoning: it is slow.", "Thought: the first step.\nAction: press the button.", "## Thinking\nIt takes time.",
     "Say so.\n\nAnswer: yes", "Use `<|channel|>final<|message|>` there."],
)  # fmt: skip
def test_keeps_a_tag_that_is_only_mentioned(text):
    assert split_reasoning(text).text == text


def test_reasoning_that_never_ends_is_no_answer():
    with ScriptedServer(Say("<think>So, the kettle", finish_reason="stop")) as server:
        reply = opened(server).complete(ASK)
    assert (reply.text, reply.reasoning) == ("", "So, the kettle")


CALL = '{"name": "search", "arguments": {"query": "kettle"}}'
CALLS = [
    f"<tool_call>\n{CALL}\n</tool_call>", f"<tool_call>{CALL}", f"```json\n{CALL}\n```", CALL,
    '{"name": "search", "parameters": {"query": "kettle"}}', f"[TOOL_CALLS][{CALL}]",
    '[TOOL_CALLS]search{"query": "kettle"}', '<function=search>{"query": "kettle"}</function>',
    "<tool_call><function=search>\n<parameter=query>\nkettle\n</parameter>\n</function></tool_call>",
    "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>kettle</arg_value></tool_call>",
    '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "kettle"}<|call|>',
    f"<|python_tag|>{CALL}", f"<think>I search.</think>\n<tool_call>{CALL}</tool_call>",
]  # fmt: skip
SEARCH = Tool(name="search", description="Finds.", parameters={"type": "object", "properties": {}})


@pytest.mark.parametrize("written", CALLS)
def test_a_call_written_as_text_is_a_call_and_nobody_sees_it(written):
    with ScriptedServer(Say(written)) as server:
        generator, pieces = opened(server), []
        messages = [ToolMessage(role="user", content="How?")]
        reply = generator.converse(messages, [SEARCH], on_text=pieces.append)
        answer = generator.converse(messages, ())
    [call] = reply.calls
    assert (call.name, call.arguments.replace('":"', '": "')) == ("search", '{"query": "kettle"}')
    assert (reply.text, "".join(pieces), answer.text, answer.calls) == ("", "", "", ())


@pytest.mark.parametrize(
    "text",
    ['Send this:\n```json\n{"name": "kettle", "arguments": {}}\n```\nThen wait.', '{"name": "Ada", "age": 3}',
     "Use `<tool_call>` for that.", "The tag <tool_call> opens a call."],
)  # fmt: skip
def test_keeps_what_is_no_call(text):
    assert read_calls(text, ["search"]) == ((), text)


def test_the_trace_has_the_reasoning_of_the_answer(kitchen):
    understood = {"text": "{}", "match": "The user's new message:"}
    answer = {"text": f"<think>{THOUGHT}</think>Soak it [1].", "match": "Sections of the documents:"}
    events: list[Event] = []
    reply = with_model(kitchen, understood, answer).reply([], "How do I descale the kettle?", events.append)
    assert (reply.answer, reply.trace.reasoning) == ("Soak it [1].", THOUGHT)
    assert "".join(event.delta for event in events) == "Soak it [1]."


# --- endpoints that other clients handle -----------------------------------------------------------------------------


def _chunk(**delta: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta}]})


def _events(*rows: str) -> bytes:
    return "".join(f"data: {row}\n\n" for row in rows).encode()


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain; charset=utf-8"])
def test_accepts_a_stream_without_finish_reason_and_of_any_content_type(kind):
    body = _events(_chunk(content="Boil "), _chunk(content="it."), "[DONE]")
    with ScriptedServer(Raw(body, kind)) as server:
        reply = opened(server).complete(ASK)
    assert (reply.text, reply.finish_reason, reply.usage.calls) == ("Boil it.", "stop", 1)


def test_reads_content_in_parts_and_reasoning_in_fields():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Boil it."}]
    body = _events(_chunk(reasoning_content="So."), _chunk(content=parts), "[DONE]")
    with ScriptedServer(Raw(body, "text/event-stream")) as server:
        reply = opened(server).complete(ASK)
    assert (reply.text, reply.reasoning) == ("Boil it.", "So.Hm.")


@pytest.mark.parametrize("code", [400, 500])
def test_moves_refused_system_messages_to_the_user_and_remembers_it(code):
    def answer(body):
        if any(message["role"] == "system" for message in body["messages"]):
            return Status(code, "System role not supported")
        return Say(ANSWER)

    messages = (PromptMessage(role="system", content="Be brief."), *ASK)
    with ScriptedServer(answer) as server:
        generator = opened(server)
        replies = [generator.complete(messages) for _ in range(2)]
        sent = server.bodies[-1]["messages"]
    assert [reply.usage.calls for reply in replies] == [2, 1]
    assert sent == [{"role": "user", "content": "Be brief.\n\nHow?"}]


def test_an_error_with_status_200_shows_the_words_of_the_provider():
    error = b'{"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "GPU is full"}}}'
    with ScriptedServer(Raw(error)) as server, pytest.raises(GeneratorError, match=r"Provider.*\(GPU is full\)"):
        opened(server, "?retries=0").complete(ASK)


def test_a_context_that_is_too_short_comes_with_advice():
    words = "This model's maximum context length is 4096 tokens, however you requested 9000 tokens"
    with ScriptedServer(Status(400, words)) as server, pytest.raises(GeneratorError, match=r"--tokens.*\?context="):
        opened(server).complete(ASK)


def test_reports_the_wait_before_a_retry():
    lines = []
    token = ON_WAIT.set(lines.append)
    try:
        with ScriptedServer(Status(503, "overloaded", {"Retry-After": "1"}), Say(ANSWER)) as server:
            opened(server).complete(ASK)
    finally:
        ON_WAIT.reset(token)
    assert lines == ["retrying in 1 s: 503: overloaded"]


# --- repetition ------------------------------------------------------------------------------------------------------

STEPS = "1. Fill the tank with vinegar.\n2. Wait for half an hour.\n"
ROUND = "{}. Fill the tank with vinegar.\n{}. Wait for half an hour.\n"


def test_a_reply_that_repeats_its_steps_is_stopped_and_cut(kitchen):
    endless = STEPS + "".join(ROUND.format(number, number + 1) for number in range(3, 400, 2))
    understood = {"text": "{}", "match": "The user's new message:"}
    answer = {"text": endless, "match": "Sections of the documents:"}
    events: list[Event] = []
    reply = with_model(kitchen, understood, answer).reply([], "How do I descale the kettle?", events.append)
    assert reply.answer.count("vinegar") == 1
    assert any("repeat itself" in note for note in reply.notes)
    assert "".join(event.delta for event in events).count("vinegar") <= 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The kettle is red and round. " * 5, "The kettle is red and round."),
        ("Look. " + "It is in section 2.3 of it [1]. " * 9, "Look. It is in section 2.3 of it [1]."),
        ("1. Open the valve.\n2. Wait for one minute.\n3. Close the valve.\n4. Wait for one minute.", ""),
        ("Yes. Yes. Yes. Yes.", ""), ("| a row of the table | x |\n" * 5, ""),
        ("```\n" + "make clean all targets\n" * 5 + "```", ""), ("```\n" + "make clean all targets\n" * 5, ""),
        ("Rest. Repeat the exercise ten times. Rest. Repeat the exercise ten times.", ""),
    ],
)  # fmt: skip
def test_only_what_is_said_three_times_in_a_row_is_cut(text, shown):
    assert without_repetition(text) == (shown or text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Assistant: It is red.", "It is red."), ("**Assistant:** It is red.", "It is red."),
        ("Assistants help.", "Assistants help."), ("As said: red.", "As said: red."),
    ],
)  # fmt: skip
def test_removes_the_role_before_a_reply_also_in_a_stream(text, shown):
    pieces = []
    with ScriptedServer(Say(text)) as server:
        reply = opened(server).complete(ASK, on_text=pieces.append)
    assert (reply.text, "".join(pieces)) == (shown, shown)
