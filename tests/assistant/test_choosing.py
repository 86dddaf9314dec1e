"""Probabilities of options, from endpoints; `test_local.py` asks a real model."""

from __future__ import annotations

import math

import pytest

from tests.assistant.endpoint import opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.generators import GeneratorError, PromptMessage, choose

ASK = [PromptMessage(role="user", content="Is it? Yes or No.")]


def logs(**probabilities: float) -> list[tuple[str, float]]:
    return [(word, math.log(value)) for word, value in probabilities.items()]


@pytest.mark.parametrize("options", ["", "&cache=1"])
def test_the_likeliest_first_tokens_of_one_request_for_one_token(options: str):
    first = [*logs(Yes=0.5, No=0.2, Maybe=0.1), (" Yes", math.log(0.1))]
    with ScriptedServer(Say("Yes", finish_reason="length", first=first)) as server:
        choice = choose(opened(server, f"?retries=0{options}"), ASK, ("Yes", "No"))
    (body,) = server.bodies
    assert (body["max_tokens"], body["logprobs"], body["top_logprobs"], body["temperature"]) == (1, True, 20, 0.0)
    assert choice.probabilities == pytest.approx((0.75, 0.25))
    assert choice.usage.calls == 1


def test_an_option_that_is_not_among_them_is_as_good_as_impossible():
    with ScriptedServer(Say("Yes", first=logs(Yes=0.9, Maybe=0.1))) as server:
        choice = choose(opened(server), ASK, ("Yes", "No"))
    assert (choice.logprobs[1], choice.probabilities) == (-9999.0, (1.0, 0.0))


@pytest.mark.parametrize(
    "answers",
    [
        (Say("Yes"),),
        (Say("Yes", first=()),),
        (Say("Yes", first=[("Yes", None)]),),
        (Say("Yes", first=[(5, -1)]),),
        (Say("Yes", first=[("Yes", float("nan"))]),),
        (Status(400, "logprobs are not supported"), Say("Yes")),
        (Status(403, "You are not allowed to request logprobs from this model."), Say("Yes")),
        (Status(422, body={"detail": [{"loc": ["body", "logprobs"], "msg": "Extra inputs"}]}), Say("Yes")),
        (Status(501, "logprobs are not implemented"), Say("Yes")),
    ],
)
def test_an_endpoint_without_probabilities_says_so(answers):
    with ScriptedServer(*answers) as server, pytest.raises(GeneratorError, match="tells no probabilities"):
        choose(opened(server), ASK, ("Yes", "No"))


def test_a_403_is_a_matter_of_the_key_unless_it_is_about_what_was_asked_for():
    with ScriptedServer(Status(403, "You are not allowed to do this.")) as server:
        with pytest.raises(GeneratorError) as raised:
            choose(opened(server), ASK, ("Yes", "No"))
        assert raised.value.kind == "auth"
    with ScriptedServer(Status(403, "You are not allowed to request logprobs from this model.")) as server:
        with pytest.raises(GeneratorError) as raised:
            opened(server).complete(ASK)
        assert raised.value.kind == "auth"
    assert len(server.seen) == 1


@pytest.mark.parametrize("options", [("Yes",), ("Yes", "Yes"), ("Yes", "No, never"), ("Yes", "")])
def test_options_are_different_words(options):
    with ScriptedServer() as server, pytest.raises(GeneratorError, match="two or more different words"):
        choose(opened(server), ASK, options)
    assert not server.bodies
