"""The query modes that ask a language model for wordings, through a scripted server, a script, and plain Python."""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.assistant.endpoint import opened
from tests.assistant.notes import conversation, wording_asked_for
from tests.servers import Hang, Raw, Say, Scripted, ScriptedServer, Status
from turnmark.assistant.budget import INSTRUCTIONS, count_tokens
from turnmark.assistant.steps.llm import rewrite, rewrite_prompt
from turnmark.assistant.steps.rewrites import FOUR, MODES, MOST_WORDS, Asked
from turnmark.evaluation.limits import Bounded

HISTORY = conversation("Who baked the island's bread?", "Käthe Brannock did, from 1936 on.")


MESSAGE = "And what did she bring with her?"
TEXTS = {
    "minimal": "And what did Käthe Brannock bring with her?",
    "corpus-specific": "Käthe Brannock founder of the Bakehouse belongings",
    "step-by-step": "What did Käthe Brannock bring to the island in 1936?",
    "hypothetical-passage": "Käthe Brannock came with two peels and a jar of sourdough.",
    "keyword-anchor": "Käthe Brannock peels rye sourdough",
}


def said(name, kind="non-standalone", texts=TEXTS):
    if name == "minimal":
        return Say(json.dumps({"class": kind, "reworded_version": texts[name]}))
    return Say(json.dumps({"reasoning": "She is Käthe.", "query": texts[name]}))


def answering(kind="non-standalone", **instead):
    """A server's reply to whatever it is asked; `instead`: other replies, by the name of the wording (`_` for `-`)."""

    def reply(body):
        name = wording_asked_for(body)
        replacement = instead.get(name.replace("-", "_"))
        return replacement if isinstance(replacement, Scripted) else said(name, kind)

    return reply


def asked(mode, *replies, message=MESSAGE, history=HISTORY, seconds=20.0, openings=lambda _: ["The Anvick Bakehouse"]):
    with ScriptedServer(*replies) as server:
        boxed = Bounded(opened(server, "?retries=0"), time.monotonic() + seconds, seconds)
        rewrites = MODES[mode].make(Asked(boxed, history, message, openings, seconds=seconds))
        return rewrites, [wording_asked_for(body) for body in server.bodies], server.bodies


def test_minimal_is_the_rewrite_of_the_turn():
    rewrites, names, bodies = asked("minimal", answering())
    assert (rewrites.variants, rewrites.left_out, rewrites.notes) == ({"minimal": TEXTS["minimal"]}, {}, ())
    assert (names, rewrites.usage.calls) == (["minimal"], 1)
    with ScriptedServer(answering()) as server:
        turn = rewrite(opened(server, "?retries=0"), HISTORY, MESSAGE)
        assert server.bodies == bodies
    assert rewrites.variants["minimal"] == turn.rewrite


def test_multi_asks_for_five_wordings_and_keeps_their_order():
    rewrites, names, bodies = asked("multi", answering(minimal=None, corpus_specific=None))
    assert dict(rewrites.variants) == TEXTS
    assert list(rewrites.variants) == ["minimal", *FOUR]
    assert (names[0], sorted(names)) == ("minimal", sorted(TEXTS))
    assert (rewrites.left_out, rewrites.usage.calls) == ({}, 5)
    prompts = {name: body["messages"][-1]["content"] for name, body in zip(names, bodies, strict=True)}
    assert ["The Anvick Bakehouse" in prompts[name] for name in TEXTS] == [False, True, False, False, False]
    for text in prompts.values():
        assert text.index("</user-") < text.index("</assistant-") < text.index(MESSAGE)


@pytest.mark.parametrize("mode", MODES)
def test_a_message_that_stands_alone_costs_one_call_at_most(mode):
    rewrites, names, _ = asked(mode, answering("standalone"))
    assert (rewrites.variants, rewrites.left_out, names) == ({}, {}, ["minimal"])
    assert rewrites.usage.calls == 1
    for message, history in ((MESSAGE, []), ("Thanks a lot!", HISTORY)):
        rewrites, names, _ = asked(mode, answering(), message=message, history=history)
        assert (rewrites.variants, rewrites.left_out, names, rewrites.usage.calls) == ({}, {}, [], 0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Say("Hmm."), "invalid"),
        (Say('{"query": ["a"]}'), "invalid"),
        (Raw(b"<html>"), "bad_reply"),
        (Status(500), "unavailable"),
        (Status(429), "rate_limited"),
        (Say(None, refusal="No."), "refused"),
        (Say("", finish_reason="content_filter"), "content_filter"),
        (Say('{"query": "cut', finish_reason="length"), "length"),
        (Say('{"query": " \\n "}'), "empty"),
        (Say('{"query": "...?!"}'), "empty"),
        (Say(json.dumps({"query": "word " * (MOST_WORDS + 1)})), "drifted"),
    ],
)
def test_a_wording_that_fails_is_left_out_and_the_others_are_not(reply, kind):
    rewrites, _, bodies = asked("multi", answering(keyword_anchor=reply))
    assert dict(rewrites.left_out) == {"keyword-anchor": kind}
    assert list(rewrites.variants) == [name for name in TEXTS if name != "keyword-anchor"]
    [note] = rewrites.notes
    assert note.startswith("keyword-anchor: left out (" + kind.replace("_", " "))
    assert rewrites.usage.calls == len(bodies)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("reply", "kind", "expected"),
    [
        (Say("Hmm."), "invalid", True),
        (Say(None, refusal="No."), "refused", True),
        (Say('{"class": "non-standalone", "reworded_version": " "}'), "empty", True),
        (Say(json.dumps({"class": "non-standalone", "reworded_version": "word " * 200})), "drifted", True),
        (Status(401), "auth", False),
        (Status(503), "unavailable", False),
    ],
)
def test_without_the_minimal_rewrite_the_others_are_asked_for_unless_in_vain(mode, reply, kind, expected):
    rewrites, names, _ = asked(mode, answering(minimal=reply))
    four = list(FOUR) if mode == "multi" else []
    assert list(rewrites.variants) == (four if expected else [])
    assert dict(rewrites.left_out) == dict.fromkeys(["minimal"] if expected else ["minimal", *four], kind)
    assert set(names) == {"minimal", *(four if expected else [])}
    assert rewrites.notes[0].startswith("minimal: searched as typed")


def test_one_that_hangs_is_left_out_when_the_time_is_over():
    rewrites, _, _ = asked("multi", answering(step_by_step=Hang(30), minimal=None), seconds=0.8)
    assert dict(rewrites.left_out) == {"step-by-step": "timeout"}
    assert len(rewrites.variants) == 4


def test_rate_limits_are_heard_of_from_every_thread():
    from turnmark.assistant.generators.base import ON_RATE_LIMIT

    heard = []
    token = ON_RATE_LIMIT.set(lambda: heard.append(threading.current_thread().name))
    try:
        asked("multi", answering(keyword_anchor=Status(429)))
    finally:
        ON_RATE_LIMIT.reset(token)
    assert heard


class Roomy:
    name, context_tokens, reply_tokens = "roomy", 8192, 512


@pytest.mark.parametrize("name", ["rewrite", *(prompt for prompt, _ in FOUR.values())])
def test_the_instructions_are_within_what_the_budget_sets_aside_for_them(name):
    messages, _ = rewrite_prompt(name, Roomy(), [], "x", None, ["x"] if name == "rewrite-corpus" else None)
    assert sum(count_tokens(message.content) for message in messages) < INSTRUCTIONS
