"""The conversation of a simulated user: rules keep the agenda, and a phrase table or a model words the messages.

A user opens with too few words, asks for the next goal with a follow-up, changes the topic and comes back. After a
reply that does not help, the user asks again with the whole heading; after a refusal, the user complains. After
`PATIENCE` messages the user gives the goal up.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import Field

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.structured_output import write_text
from turnmark.assistant.types import Reply
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line
from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.types import Message, exchange
from turnmark.evaluation.check.simulation.users import SimulatedUser, UserGoal
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.tasks.turn_samples import is_hedged

AgendaMove = Literal["opening", "follow_up", "new_topic", "back", "again", "complaint"]
PATIENCE = 3
"""Maximum messages of a user for one goal."""
OPENING_WORDS = 2
"""Words of the heading and of the title in an opening, which leaves out what would make it clear."""
TYPO_CHANCE = 0.3
"""Chance of a typing error in a message of a user who makes them."""
MIN_TYPO_LETTERS = 5
MAX_SHOWN_MESSAGES = 6
"""Maximum earlier messages that a model sees when it words the next one."""


class UserTurn(Record):
    """A message of the user, and the assistant's reply."""

    goal: int = Field(description="0-based number of the goal that the message is about")
    move: AgendaMove
    message: str
    reply: str
    refused: bool = Field(description="whether the reply says that the answer is unknown")
    hedged: bool = Field(description="whether the reply says that it may not answer")
    reached: bool = Field(description="whether the reply states the goal")


AskAssistant = Callable[[int, Sequence[Message], str], Reply]
"""Function from the number of the goal, the conversation so far and a message to the assistant's reply."""
WordMessage = Callable[[AgendaMove, UserGoal, Sequence[Message]], str]
"""Function from a move, its goal and the conversation so far to the user's message."""


def hold_conversation(user: SimulatedUser, ask: AskAssistant, phrase: WordMessage) -> list[UserTurn]:
    """Hold the conversation of a user, and return its exchanges."""
    exchanges: list[UserTurn] = []
    history: list[Message] = []
    seen: list[str] = []  # documents of the goals so far
    for number, goal in enumerate(user.goals):
        move: AgendaMove = "opening"
        if seen:
            move = "follow_up" if goal.document == seen[-1] else "back" if goal.document in seen else "new_topic"
        seen.append(goal.document)
        for _ in range(PATIENCE):
            message = phrase(move, goal, history)
            reply = ask(number, history, message)
            refused = reply.decision == "unknown"
            reached = not refused and goal.is_stated(reply.answer)
            exchanges.append(
                UserTurn(
                    goal=number, move=move, message=message, reply=reply.answer,
                    refused=refused, hedged=is_hedged(reply), reached=reached,
                )
            )  # fmt: skip
            history += exchange(message, reply.answer)
            if reached:
                break
            move = "complaint" if refused else "again"
    return exchanges


def phrase_by_rules(user: SimulatedUser) -> WordMessage:
    """Return the wording of a user by the phrases of the documents' language."""
    chance = random.Random(user.id)

    def phrase(move: AgendaMove, goal: UserGoal, _: Sequence[Message]) -> str:
        phrases = _phrases().get(language_of(" ".join(goal.sentences))) or _phrases()["en"]
        words = goal.heading
        if move == "opening":
            known = [*content_words(goal.heading)[:OPENING_WORDS], *content_words(goal.title)]
            words = " ".join(dict.fromkeys(known[: 2 * OPENING_WORDS])).lower() or goal.heading
        if user.mistypes and chance.random() < TYPO_CHANCE:
            words = _mistype(words, chance)
        return chance.choice(phrases[move]).format(words=words, title=goal.title)

    return phrase


def _mistype(words: str, chance: random.Random) -> str:
    """Swap two letters inside the longest word."""
    longest = max(words.split(), key=len, default="")
    if len(longest) < MIN_TYPO_LETTERS or not longest.isalpha():
        return words
    at = chance.randrange(1, len(longest) - 2)
    return words.replace(longest, longest[:at] + longest[at + 1] + longest[at] + longest[at + 2 :], 1)


@cache
def _phrases() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads((files(__package__) / "phrases.toml").read_text(encoding="utf-8"))


def phrase_by_model(generator: Generator) -> WordMessage:
    """Return the wording of a user by a language model, which sees the heading and the title, but not the text."""
    prompt = JUDGES.load("simulated-user", None)

    def phrase(move: AgendaMove, goal: UserGoal, history: Sequence[Message]) -> str:
        texts = {"title": goal.title, "heading": goal.heading}
        filled = prompt.fill(texts, history=history[-MAX_SHOWN_MESSAGES:], plain={"move": move})
        return one_line(write_text(generator, filled).text).strip().strip('"') or goal.heading

    return phrase
