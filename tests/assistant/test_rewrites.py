"""The query mode that asks a language model for a rewrite, through a scripted server."""

from __future__ import annotations

import json
import time

import pytest

from tests.assistant.endpoint import opened
from tests.assistant.notes import conversation
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.budget import INSTRUCTIONS, count_tokens
from turnmark.assistant.steps.llm import rewrite, rewrite_prompt
from turnmark.assistant.steps.rewrites import minimal
from turnmark.evaluation.limits import Bounded

HISTORY = conversation("Who baked the island's bread?", "Käthe Brannock did, from 1936 on.")
MESSAGE = "And what did she bring with her?"
REWRITE = "And what did Käthe Brannock bring with her?"


def said(kind="non-standalone"):
    return Say(json.dumps({"class": kind, "reworded_version": REWRITE}))


def asked(*replies, message=MESSAGE, history=HISTORY, seconds=20.0):
    with ScriptedServer(*replies) as server:
        bounded = Bounded(opened(server, "?retries=0"), time.monotonic() + seconds, seconds)
        return minimal(bounded, history, message), server.bodies


def test_minimal_is_the_rewrite_of_the_turn():
    rewrites, bodies = asked(said())
    assert (rewrites.variants, rewrites.left_out, rewrites.notes) == ({"minimal": REWRITE}, {}, ())
    assert (len(bodies), rewrites.usage.calls) == (1, 1)
    with ScriptedServer(said()) as server:
        turn = rewrite(opened(server, "?retries=0"), HISTORY, MESSAGE)
        assert server.bodies == bodies
    assert rewrites.variants["minimal"] == turn.rewrite


def test_a_message_that_stands_alone_costs_one_call_at_most():
    rewrites, bodies = asked(said("standalone"))
    assert (rewrites.variants, rewrites.left_out, len(bodies)) == ({}, {}, 1)
    for message, history in ((MESSAGE, []), ("Thanks a lot!", HISTORY)):
        rewrites, bodies = asked(said(), message=message, history=history)
        assert (rewrites.variants, rewrites.left_out, bodies, rewrites.usage.calls) == ({}, {}, [], 0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Say("Hmm."), "invalid"),
        (Say(None, refusal="No."), "refused"),
        (Say('{"class": "non-standalone", "reworded_version": " "}'), "empty"),
        (Say(json.dumps({"class": "non-standalone", "reworded_version": "word " * 200})), "drifted"),
        (Status(401), "auth"),
        (Status(503), "unavailable"),
    ],
)
def test_a_rewrite_that_does_not_come_is_left_out_and_this_is_said(reply, kind):
    rewrites, _ = asked(reply)
    assert (rewrites.variants, dict(rewrites.left_out)) == ({}, {"minimal": kind})
    assert rewrites.notes[0].startswith("minimal: searched as typed")


class Roomy:
    name, context_tokens, reply_tokens = "roomy", 8192, 512


def test_the_instructions_are_within_what_the_budget_sets_aside_for_them():
    messages, _ = rewrite_prompt(Roomy(), [], "x")
    assert sum(count_tokens(message.content) for message in messages) < INSTRUCTIONS
