"""A reply in prose by a model behind a scripted server; what counts as "I don't know"."""

from __future__ import annotations

import pytest

from tests.assistant.endpoint import ASK, opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.asking import before_repeats, write_text
from turnmark.assistant.generators import GeneratorError
from turnmark.assistant.steps.marks import says_unknown


def answered(*replies):
    """What was written, what was streamed of it, and the requests that were made."""
    pieces: list[str] = []
    with ScriptedServer(*replies) as server:
        reply = write_text(opened(server, "?retries=0&max_tokens=100"), ASK, pieces.append)
    return reply, "".join(pieces), server.bodies


def test_a_reply_streams_to_the_letter():
    text = "It takes **200 g** [1].\n\n1. Boil [2, 7].\n   - salt"
    reply, streamed, bodies = answered(Say(text))
    assert reply.text == streamed == text
    assert (reply.note, reply.usage.calls, bodies[0]["stream"]) == (None, 1, True)


def test_a_cut_reply_is_asked_for_once_more_with_more_room_and_not_streamed():
    cut, complete = "Boil [1].\n2. Add the chee", "Boil [1].\n2. Add the cheese [1]."
    reply, streamed, bodies = answered(Say(cut, finish_reason="length"), Say(complete))
    assert (reply.text, streamed, reply.note) == (complete, cut, None)
    assert [body["max_tokens"] for body in bodies] == [100, 200]
    assert reply.usage.calls == 2


@pytest.mark.parametrize("second", [Say("Boil [1]. Add", finish_reason="length"), Status(400, "context is full")])
def test_a_reply_cut_twice_is_kept_with_a_note(second):
    cut = "I don't know.\nBoil [1].\n2. Add the chee"
    reply, _, bodies = answered(Say(cut, finish_reason="length"), second)
    assert reply.text == cut
    assert "incomplete" in reply.note
    assert reply.usage.calls == len(bodies) == 2


def test_a_filtered_reply_says_so():
    reply, _, _ = answered(Say("It takes", finish_reason="content_filter"))
    assert reply.text == "It takes"
    assert "content filter" in reply.note


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Say(""), "bad_reply"),
        (Say("<think>hm</think>"), "bad_reply"),
        (Say("", finish_reason="length"), "bad_reply"),
        (Say("", finish_reason="content_filter"), "refused"),
        (Status(500), "unavailable"),
    ],
)
def test_no_reply_is_an_error(reply, kind):
    with pytest.raises(GeneratorError) as raised:
        answered(reply)
    assert raised.value.kind == kind
    assert raised.value.usage.calls >= 1


def test_a_reply_that_runs_on_is_cut_where_it_begins_again_and_not_given_more_room():
    steps = "1. Open the lid of it [1].\n2. Pour it out now [1].\n3. Close the lid of it [1].\n"
    reply, _, bodies = answered(Say(f"Do this first.\n{steps * 6}", finish_reason="length"))
    assert reply.text.split("\n")[-1].startswith("3. Close")
    assert reply.text.count("Open the lid") == 1
    assert len(bodies) == 1


def test_a_long_reply_that_says_new_things_does_not_run_on():
    assert before_repeats(" ".join(f"The {n}th otter swims in the bay." for n in range(40))) == ""


UNKNOWN = [
    "I don't know.",
    "I don’t know.",
    "I do not know who won the 1998 World Cup.",
    "I'm sorry, but I don't know.",
    "Sorry, I don't have that information.",
    "I do not have specific information.",
    "Unfortunately, the passages do not mention the price.",
    "The provided documents don't contain any information about that [1][2].",
    "There is no information about football in the documents.",
    "None of the passages says who won.",
    "It is not mentioned in the passages.",
    "I couldn't find an answer to that. The passages do not say who won [1].",
    "I don't know: I found nothing about that in the documents.",
    "I don't know, but the passages might be incomplete.",
]
FACTS = [
    "",
    "France won the 1998 World Cup [1].",
    "It takes 200 g of cheese [1]. The passages do not say how much bacon.",
    "The passages do not say how much bacon it takes. It takes 200 g of cheese [1].",
    "I don't know the exact figure, but it takes about 200 g [1].",
    '"I don\'t know," said Watson when he was asked [1].',
    "I don't know of a better way than boiling [1].",
    "It is not given to children under five [1].",
    "No, IPv6 is not available on Docker by default, so add a network [1].",
    "There is no data loss when you upgrade [1].",
    "If the port is not specified, 3001 is used [1].",
    "The documents do not have to be notarised [1].",
    "Information is stored for a year [1].",
    "No answer key is needed [1].",
    "I do not know. A. B. C. D is what happens next in a long list. And so on. And on.",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_reply_that_does_not_know(text):
    assert says_unknown(text)


@pytest.mark.parametrize("text", FACTS)
def test_a_reply_that_knows(text):
    assert not says_unknown(text)
