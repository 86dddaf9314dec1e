"""Complete turns over small real indexes: steps, model calls, answers and errors."""

from __future__ import annotations

import pytest

from tests.assistant.notes import conversation, understanding, with_model
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.assistant.types import Event
from turnmark.assistant.wording.reply_texts import UNKNOWN_TEXT, UNSURE_TEXT

BOTH = "What colour is the kettle, and who made the toaster?"
STEPS = ["understand", "retrieve", "decide", "answer", "verify"]


@pytest.mark.usefixtures("kitchen")
def test_reports_every_step_in_order():
    events: list[Event] = []
    reply = assistant_over("n").reply([], "Is the kettle red?", events.append)
    assert list(dict.fromkeys(event.step for event in events)) == STEPS
    assert "".join(event.delta for event in events) == reply.answer
    assert reply.answer == "Kettle  \n**The kettle is red.** It boils water in four minutes. [1]"
    assert set(reply.timings) == set(STEPS)
    assert (reply.checks.grounded, reply.checks.citations_valid, reply.usage) == (1.0, True, {})


@pytest.mark.usefixtures("kitchen")
@pytest.mark.parametrize(
    ("message", "decision", "begins"),
    [
        ("What is the capital of Peru, and who wrote Hamlet?", "unknown", UNKNOWN_TEXT),
        ("Who won the 1998 World Cup?", "unknown", UNKNOWN_TEXT),
        ("How long does the kettle boil water, and who wrote Hamlet?", "partial", "Kettle  \n"),
        ("Who mended the handle of the blue toaster yesterday evening?", "partial", UNSURE_TEXT),
    ],
)
def test_unknown_parts_are_refused_once(message, decision, begins):
    reply = assistant_over("n").reply([], message)
    assert (reply.decision, reply.answer.startswith(begins)) == (decision, True), reply.answer
    assert reply.answer.count("I found nothing") == ("Hamlet" in message or decision == "unknown")
    assert bool(reply.citations) is (decision != "unknown")


@pytest.mark.usefixtures("kitchen")
def test_follow_up_is_searched_with_and_without_its_topic():
    reply = assistant_over("n").reply(conversation("Who made the toaster?", "Ada Berg. [1]"), "and when did she die?")
    [search] = reply.trace.searches[:1]
    assert search.query == "and when did she die?"
    assert any("toaster" in variant for variant in search.variants)
    assert "1931" in reply.answer
    assert "(" not in reply.answer, "the added topic is not shown"


# -- with a model: two calls

FOUND = {"match": "Sections of the documents:", "text": "Red [1]."}
HISTORY = conversation("Who are you?", "A kettle.")


@pytest.mark.parametrize(
    ("history", "message", "roles"),
    [
        ([], "What colour is the kettle?", ["understand", "answer"]),
        (HISTORY, "and what colour is the kettle?", ["understand", "answer"]),
        ([], BOTH, ["understand", "answer"]),
        ([], "Thank you!", []),
        (HISTORY, "put it as a list", ["understand", "answer"]),
    ],
)
def test_turn_makes_at_most_two_calls(kitchen, history, message, roles):
    understood = understanding(
        *(["What colour is the kettle?", "Who made the toaster?"] if message == BOTH else []),
        kind="revision" if "list" in message else "question",
    )
    assistant = with_model(kitchen, {"match": "The user's new message:", "text": understood}, FOUND)
    reply = assistant.reply(history, message)
    assert list(reply.usage) == roles
    assert sum(usage.calls for usage in reply.usage.values()) == len(roles)


@pytest.mark.usefixtures("kitchen")
def test_prompts_of_two_turns_share_their_prefix():
    with ScriptedServer(Say("{}"), Say("Red [1]."), Say("{}"), Say("Blue [1].")) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}")
        first = assistant.reply([], "What colour is the kettle?")
        talk = conversation("What colour is the kettle?", first.answer)
        assistant.reply(talk, "What colour is the toaster?")
        bodies = server.bodies
    systems = [[m["content"] for m in body["messages"] if m["role"] == "system"] for body in bodies]
    assert systems[:2] == systems[2:]
    understood = [body["messages"][-1]["content"] for body in (bodies[0], bodies[2])]
    assert all("Conversation so far:" in text for text in understood)
    assert "The user's message:\nWhat colour is the toaster?" in bodies[3]["messages"][-1]["content"]


@pytest.mark.usefixtures("kitchen")
@pytest.mark.parametrize("reply", [Status(401), Status(400, "no"), Say("")])
def test_endpoint_error_leaves_the_conversation_unchanged(reply):
    history = list(HISTORY)
    with ScriptedServer(Say("{}"), reply) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}?retries=0")
        with pytest.raises(GeneratorError):
            assistant.reply(history, "What colour is the kettle?")
        assert history == HISTORY
        server.replies = [Say("{}"), Say("Red [1].")]
        assert assistant.reply(history, "What colour is the kettle?").answer == "Red [1]."
