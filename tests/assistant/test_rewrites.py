"""The query mode that asks a language model for a rewrite, through a scripted server."""

from __future__ import annotations

import json
import time

import pytest

from tests.assistant.endpoint import opened
from tests.assistant.notes import conversation
from tests.servers import Reset, Say, ScriptedServer, Status
from turnmark.assistant.steps.understand_llm import minimal, rewrite_prompt
from turnmark.evaluation.limits import Bounded

HISTORY = conversation("Who baked the island's bread?", "Käthe Brannock did, from 1936 on.")
MESSAGE = "And what did she bring with her?"
REWRITE = "And what did Käthe Brannock bring with her?"


def classed(kind="non-standalone", reworded=REWRITE):
    return Say(json.dumps({"class": kind, "reworded_version": reworded}))


def asked(*replies, message=MESSAGE, history=HISTORY, seconds=20.0):
    with ScriptedServer(*replies) as server:
        bounded = Bounded(opened(server, "?retries=0"), time.monotonic() + seconds, seconds)
        return minimal(bounded, history, message), server.bodies


def test_a_message_is_reworded_from_the_fenced_conversation():
    rewrites, bodies = asked(classed(reworded="And what did\nKäthe Brannock bring with her?"))
    assert (rewrites.variants, rewrites.left_out, rewrites.notes) == ({"minimal": REWRITE}, {}, ())
    assert (len(bodies), rewrites.usage.calls) == (1, 1)
    prompt = bodies[0]["messages"][-1]["content"]
    assert prompt.index("Who baked") < prompt.index(MESSAGE)
    assert "</user-" in prompt
    assert "</assistant-" in prompt


@pytest.mark.parametrize("kind", ["standalone", "Standalone", "stand-alone"])
def test_a_message_that_stands_alone_stays_as_it_is_whatever_the_model_made_of_it(kind):
    rewrites, bodies = asked(classed(kind))
    assert (rewrites.variants, rewrites.left_out, rewrites.notes, len(bodies)) == ({}, {}, (), 1)


@pytest.mark.parametrize(("message", "history"), [(MESSAGE, []), ("Thanks a lot!", HISTORY)])
def test_a_first_message_and_a_courtesy_cost_no_call(message, history):
    rewrites, bodies = asked(message=message, history=history)
    assert (rewrites.variants, rewrites.left_out, bodies, rewrites.usage.calls) == ({}, {}, [], 0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Say("Hmm."), "invalid"),
        (classed("maybe"), "invalid"),
        (Say('{"class": "non-standalone", "reworded_', finish_reason="length"), "length"),
        (Say(None, refusal="No."), "refused"),
        (classed(reworded=" "), "empty"),
        (classed(reworded="word " * 200), "drifted"),
        (Reset(), "unavailable"),
        (Status(401), "auth"),
        (Status(503), "unavailable"),
    ],
)
def test_a_rewrite_that_does_not_come_is_left_out_and_this_is_said(reply, kind):
    rewrites, bodies = asked(reply)
    assert (rewrites.variants, dict(rewrites.left_out)) == ({}, {"minimal": kind})
    assert rewrites.notes[0].startswith("minimal: searched as typed")
    assert rewrites.usage.calls == len(bodies)


class Roomy:
    name, context_tokens, reply_tokens = "roomy", 8192, 512


def test_the_oldest_turns_are_left_out_and_no_answer_is_left_without_its_question():
    history = conversation(*["word " * 1400] * 6)
    prompt, left_out = rewrite_prompt(Roomy(), history, "why?")
    assert left_out == ("4 of 6 earlier messages left out, the oldest",)
    assert prompt[-1].content.count("</user-") == prompt[-1].content.count("</assistant-") == 1
    assert rewrite_prompt(Roomy(), history, "word " * 9000) is None
