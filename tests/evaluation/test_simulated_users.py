"""Simulated users: their goals, the agenda of their conversations, and `turnmark check --users` over the demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from turnmark.assistant.types import Decision, Reply
from turnmark.corpora.types import Message
from turnmark.evaluation.check.simulation.conversation import hold_conversation, phrase_by_rules
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
USER = SimulatedUser(id="user-001", goals=(KETTLE, STOVE, WHISTLE), hidden=False, mistypes=False)


@pytest.fixture
def here(in_demo_home: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and the home with the index `demo`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replying(*replies: str) -> tuple[list[str], object]:
    """Return the messages of a user to whom these replies are given, and the exchanges."""
    waiting, messages = iter(replies), []

    def ask(_goal: int, _history: Sequence[Message], message: str) -> Reply:
        messages.append(message)
        reply = next(waiting)
        decision: Decision = "unknown" if reply == "I don't know." else "answer"
        return Reply(question=message, answer=reply, decision=decision, rewrite=message, generator="extractive")

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
    values = measure_conversation(ConversationCase(question="", answer="", exchanges=exchanges))
    assert values["goal_reached"] == (2 / 3, 3.0)
    assert values["first_try"] == (1 / 3, 3.0)
    assert values["recovered"] == (1 / 2, 2.0)
    assert values["turns_needed"] == (1.5, 2.0)
    assert values["user_reached"] == 0.0
    assert values["false_answer"] is None


def test_a_hidden_goal_is_no_goal_to_reach_and_answers_to_it_are_false():
    stated = ("Empty the ash pan daily.", "The whistle is screwed into the spout by hand.")
    _, exchanges = replying("It is steel.", "I don't know.", "Vinegar.", *stated)
    values = measure_conversation(ConversationCase(question="", answer="", hidden=True, exchanges=exchanges))
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


def test_repeats_of_a_user_have_other_wordings_and_orders_and_a_hidden_goal_stays_first():
    user = USER.model_copy(update={"hidden": True, "mistypes": True})
    repeats = [user.in_repeat(number) for number in range(9)]
    assert repeats[0] == user
    assert [one.in_repeat(3) for one in (user, user)] == [repeats[3]] * 2
    assert {one.goals for one in repeats} == {(KETTLE, STOVE, WHISTLE), (KETTLE, WHISTLE, STOVE)}
    assert len({phrase_by_rules(one)("opening", KETTLE, ()) for one in repeats}) > 3


def test_check_lets_users_talk_and_resumes(here, turnmark):
    command = ("check", "demo", "--users", "3", "--repeat", "2")
    result = turnmark.json(*command)
    assert [(one["id"], one["repeat"]) for one in result["conversations"]] == [
        (f"user-{number:03}", repeat) for number in (1, 2, 3) for repeat in (0, 1)
    ]
    figures = result["figures"]
    assert 0 <= figures["goal_reached"]["mean"] <= 1
    assert figures["always_reached"]["n"] == 3
    assert figures["always_reached"]["mean"] <= figures["user_reached"]["mean"]
    said = [[turn["message"] for turn in one["exchanges"]] for one in result["conversations"]]
    assert all(first != second for first, second in zip(said[::2], said[1::2], strict=True))
    assert turnmark.json(*command)["conversations"] == result["conversations"]
    screen = " ".join(turnmark.ok(*command).out.split())
    assert "6 conversations with simulated users" in screen
    assert "easier to satisfy than people" in screen
    assert "users who do so in each of their conversations" in screen


def test_repeats_without_simulated_users_are_refused(here, turnmark):
    assert "--repeat needs --users N" in turnmark.refused("check", "demo", "--repeat", "2")
