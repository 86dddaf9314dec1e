"""Simulated users: their goals, the agenda of their conversations, and `turnmark check --users` over the demo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnmark.corpora.types import Message
from turnmark.evaluation.check.simulation.conversation import GivenReply, hold_conversation, phrase_by_rules
from turnmark.evaluation.check.simulation.users import SimulatedUser, UserGoal, draw_users
from turnmark.evaluation.check.simulation.users_task import ConversationCase, measure_conversation
from turnmark.retrieval.search.opened_index import open_index

KETTLE = UserGoal(
    document="kettle.md", start=0, end=90, title="The kettle", heading="Descaling the kettle",
    passages=("kettle.md-0-90",), sentences=("Fill it with vinegar and water and leave it overnight.",),
)  # fmt: skip
WHISTLE = KETTLE.model_copy(
    update={"heading": "The whistle", "start": 90, "sentences": ("The whistle is screwed into the spout by hand.",)}
)
STOVE = KETTLE.model_copy(
    update={"document": "stove.md", "title": "The stove", "heading": "Ash", "sentences": ("Empty the ash pan daily.",)}
)
USER = SimulatedUser(id="user-001", goals=(KETTLE, STOVE, WHISTLE), hidden=False, mistypes=False, patience=3)


@pytest.fixture
def here(in_demo_home: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and the home with the index `demo`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replying(*replies: str) -> tuple[list[str], object]:
    """Return the messages of a user to whom these replies are given, and the exchanges."""
    waiting, messages = iter(replies), []

    def ask(_goal: int, _history: Sequence[Message], message: str) -> GivenReply:
        messages.append(message)
        reply = next(waiting)
        return GivenReply(reply, refused=reply == "I don't know.", hedged=False)

    return messages, hold_conversation(USER, ask, phrase_by_rules(USER))


def test_users_complain_reword_change_the_topic_and_come_back():
    messages, exchanges = replying(
        "I don't know.",
        "It is made of steel.",
        "Fill it with vinegar and water, and leave it overnight [1].",
        "Empty the ash pan daily.",
        "The whistle is screwed into the spout by hand.",
    )
    assert [one.move for one in exchanges] == ["opening", "complaint", "again", "new_topic", "back"]
    assert [one.reached for one in exchanges] == [False, False, True, True, True]
    assert "descaling kettle" in messages[0]
    assert "The kettle" in messages[2]
    assert "Ash" in messages[3]


def test_users_give_up_and_figures_count_goals_and_recoveries():
    _, exchanges = replying(
        "No.", "No.", "No.", "Empty the ash pan daily.", "No.", "The whistle is screwed into the spout."
    )
    values = measure_conversation(ConversationCase(question="", answer="", user=USER, exchanges=exchanges))
    assert values["goal_reached"] == (2 / 3, 3.0)
    assert values["first_try"] == (1 / 3, 3.0)
    assert values["recovered"] == (1 / 2, 2.0)
    assert values["turns_needed"] == (1.5, 2.0)
    assert values["user_reached"] == 0.0
    assert "false_answer" not in values


def test_a_hidden_goal_is_no_goal_to_reach_and_answers_to_it_are_false():
    stated = ("Empty the ash pan daily.", "The whistle is screwed into the spout by hand.")
    _, exchanges = replying("It is steel.", "I don't know.", "Vinegar.", *stated)
    user = USER.model_copy(update={"hidden": True})
    values = measure_conversation(ConversationCase(question="", answer="", user=user, exchanges=exchanges))
    assert values["goal_reached"] == (1.0, 2.0)
    assert values["false_answer"] == (2 / 3, 3.0)


def test_the_same_seed_draws_the_same_users_with_goals_at_positions(here):
    index = open_index("demo")
    users = draw_users(index, 6, seed=1)
    assert users == draw_users(index, 6, seed=1)
    assert users != draw_users(index, 6, seed=2)
    for goal in (goal for user in users for goal in user.goals):
        (passage,) = index.store.by_rows([index.store.rows_of(goal.passages)[goal.passages[0]]])
        assert (passage.document, passage.start, passage.end) == (goal.document, goal.start, goal.end)
        assert goal.is_stated(passage.text)
        assert not goal.is_stated(goal.heading)


def test_check_lets_users_talk_and_resumes(here, turnmark):
    first = turnmark("check", "demo", "--users", "2", "--json")
    result = json.loads(first.out)
    assert len(result["conversations"]) == 2
    assert 0 <= result["figures"]["goal_reached"]["mean"] <= 1
    assert all(one["exchanges"] for one in result["conversations"])
    again = json.loads(turnmark("check", "demo", "--users", "2", "--json").out)
    assert again["conversations"] == result["conversations"]
    several = json.loads(turnmark("check", "demo", "--users", "2", "--repeat", "2", "--json").out)
    assert len(several["conversations"]) == 4
    reached, always = (several["figures"][name]["mean"] for name in ("user_reached", "always_reached"))
    assert always == reached  # without a model, a user always hears the same
    assert several["figures"]["always_reached"]["n"] == 2
    screen = turnmark("check", "demo", "--users", "2").out
    assert "easier to satisfy than people" in screen
    assert "goals that a reply states" in " ".join(screen.split())
