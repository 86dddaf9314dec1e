"""The task of talking to simulated users; a sample is a whole conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.types import Reply, Usage
from turnmark.core.grouping import group_pairs
from turnmark.core.home import file_sha256
from turnmark.corpora.types import Message
from turnmark.evaluation.calls.cost_estimates import add_usage
from turnmark.evaluation.check.simulation.conversation import (
    UserTurn,
    hold_conversation,
    phrase_by_model,
    phrase_by_rules,
)
from turnmark.evaluation.check.simulation.users import SimulatedUser
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.storage.corpus_passages import HidingRetriever
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric, Value
from turnmark.evaluation.tasks.task import Task

BENCHMARK = "simulated-users"
CORPUS = "index"
ALWAYS_REACHED = "always_reached"
"""The figure over all conversations of a user, tau-bench's pass^k (arXiv 2406.12045, section 3)."""


@dataclass(frozen=True)
class ConversationCase(Case):
    """A conversation, and whether its first goal is hidden."""

    hidden: bool = False
    exchanges: Sequence[UserTurn] = field(default=())


def measure_conversation(case: ConversationCase) -> Mapping[str, Value]:
    """Measure a conversation: goals reached, and what happened to the hidden one."""
    by_goal = group_pairs((exchange.goal, exchange) for exchange in case.exchanges)
    hidden = by_goal.pop(0) if case.hidden else []
    goals = by_goal.values()
    return {
        "goal_reached": _mean([tries[-1].reached for tries in goals]),
        "first_try": _mean([tries[0].reached for tries in goals]),
        "user_reached": float(all(tries[-1].reached for tries in goals)),
        "recovered": _mean([tries[-1].reached for tries in goals if not tries[0].reached]),
        "turns_needed": _mean([len(tries) for tries in goals if tries[-1].reached]),
        "false_answer": _mean([not (one.refused or one.hedged) for one in hidden]),
    }


def _mean(values: Sequence[int]) -> Value:
    """Return the mean and its weight, or None without values."""
    return (sum(values) / len(values), float(len(values))) if values else None


FIGURES = {
    "goal_reached": "goals that a reply states, of those that the documents answer",
    "first_try": "the same after the first message about the goal",
    "user_reached": "users who reach all of these goals",
    ALWAYS_REACHED: "users who do so in each of their conversations",
    "recovered": "goals reached later, of those missed at first",
    "turns_needed": "messages for a goal that is reached, mean",
    "false_answer": "replies that neither refuse nor hedge, about a goal that is hidden",
}
"""The figures of simulated users, and what each of them means."""

CONVERSATION = Metric[ConversationCase](
    names=tuple(name for name in FIGURES if name != ALWAYS_REACHED),
    by="the goals of simulated users",
    measure=measure_conversation,
    without="no goal of this kind",
)


class SimulatedUsers(Task):
    """Conversations with simulated users over an index.

    Attributes:
        user_model: the model that words the users' messages, or None for the phrases.
    """

    metrics = (CONVERSATION,)
    searched = True
    users: Sequence[SimulatedUser]
    user_model: Generator | None = None

    def open(self) -> None:
        """See `Task.open`. The data is a file with a user per line."""
        path = self.request.data
        assert path is not None, "the request names the file"
        self.users = [SimulatedUser.model_validate_json(line) for line in path.read_bytes().splitlines()]
        self.corpora = {CORPUS: path}
        self.data = DataUsed(name=path.name, demo=False, fingerprint=file_sha256(path))

    def items(self) -> Iterator[Item]:
        """See `Task.items`."""
        for user in self.users:
            labels = {"first goal": ("hidden" if user.hidden else "answerable",)}
            yield Item(user.id, task=user, question=user.goals[0].heading, labels=labels, cluster=user.id)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`."""
        user: SimulatedUser = item.task.in_repeat(item.repeat)
        retriever = self.retrievers[CORPUS]
        hiding = HidingRetriever(retriever, user.goals[0].passages) if user.hidden else retriever
        used: dict[str, Usage] = {}

        def ask(goal: int, history: Sequence[Message], message: str) -> Reply:
            assistant = self.assistant.using(retriever if goal else hiding, generator)
            reply = assistant.reply(history, message)
            used.update(add_usage(used, reply.usage))
            return reply

        phrase = phrase_by_model(self.user_model) if self.user_model else phrase_by_rules(user)
        exchanges = hold_conversation(user, ask, phrase)
        return Sample(
            id=item.id,
            status="done",
            query=exchanges[-1].message,
            prediction=exchanges[-1].reply,
            operations=tuple(exchange.model_dump() for exchange in exchanges),
            usage=used,
        )

    def context(self, item: Item, sample: Sample) -> ConversationCase:
        """See `Task.context`."""
        exchanges = [UserTurn.model_validate(exchange) for exchange in sample.operations]
        return ConversationCase(question=item.question, answer="", hidden=item.task.hidden, exchanges=exchanges)
