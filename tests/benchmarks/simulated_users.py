"""How real the messages of simulated users are, next to those of people.

    TURNMARK_DATA=… python -m tests.benchmarks.simulated_users INDEX…

The users of `turnmark check --users` talk to the assistant without a model over each index. Their messages are compared
with those of MTRAG's human conversations: words per message, share of questions, and the share of later messages that
need the conversation by the rules of the assistant. The distance of two distributions of words is that of Kolmogorov
and Smirnov, 0 to 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import ks_2samp

from tests.benchmarks.pools import root
from turnmark.assistant.steps.understand.understand_rules import needs_topic
from turnmark.assistant.turn.assistant import Assistant
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.text.segmentation import count_words, ends_with_question_mark
from turnmark.evaluation.check.simulation.conversation import GivenReply, hold_conversation, phrase_by_rules
from turnmark.evaluation.check.simulation.users import draw_users
from turnmark.retrieval.search.opened_index import open_index

USERS = 40
Talk = Sequence[str]
"""The messages of one user, in their order."""


def human_talks(data: Path) -> list[Talk]:
    """Return the messages of each conversation of MTRAG."""
    longest: dict[str, list[str]] = {}
    for task in mtrag.load_tasks(data, "mtrag").data.values():
        said = [message.content for message in task.history if message.role == "user"] + [task.question]
        if len(said) > len(longest.get(task.conversation, ())):
            longest[task.conversation] = said
    return list(longest.values())


def simulated_talks(name: str) -> list[Talk]:
    """Let simulated users talk over an index, and return the messages of each."""
    index, assistant = open_index(name), Assistant(name)
    talks: list[Talk] = []
    for user in draw_users(index, USERS, seed=0):

        def ask(_goal: int, history: object, message: str) -> GivenReply:
            reply = assistant.reply(history, message)  # type: ignore[arg-type]
            return GivenReply(reply.answer, reply.decision == "unknown", reply.decision == "partial")

        talks.append([one.message for one in hold_conversation(user, ask, phrase_by_rules(user))])
    return talks


def describe(name: str, talks: Sequence[Talk], people: Sequence[Talk]) -> None:
    """Print a row."""
    first, later = [talk[0] for talk in talks], [message for talk in talks for message in talk[1:]]
    cells = [f"{len(talks)}", f"{sum(map(len, talks)) / len(talks):.1f}"]
    others_first, others_later = [talk[0] for talk in people], [one for talk in people for one in talk[1:]]
    for messages, others in ((first, others_first), (later, others_later)):
        lengths = list(map(count_words, messages))
        distance = ks_2samp(lengths, list(map(count_words, others))).statistic
        cells += [f"{sum(lengths) / len(lengths):.1f}", f"{distance:.2f}"]
    cells.append(f"{sum(map(ends_with_question_mark, first + later)) / len(first + later):.2f}")
    cells.append(f"{sum(map(needs_topic, later)) / len(later):.2f}")
    print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Print the table."""
    people = human_talks(root())
    print("| who | conversations | messages | words of the first | distance | words of later ones | distance "
          "| questions | need the conversation |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    describe("people (MTRAG)", people, people)
    for name in sys.argv[1:]:
        describe(f"users over {name}", simulated_talks(name), people)


if __name__ == "__main__":
    main()
