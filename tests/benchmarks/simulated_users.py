"""How real simulated users are: their messages next to those of people, and how both rank assistants.

    TURNMARK_DATA=… python -m tests.benchmarks.simulated_users INDEX…
    TURNMARK_DATA=… python -m tests.benchmarks.simulated_users rank clapnq|fiqa|COLLECTION…

The users of `turnmark check --users` talk to the assistant without a model over each index. Their messages are compared
with those of MTRAG's human conversations: words per message, share of questions, and the share of later messages that
need the conversation by the rules of the assistant. The distance of two distributions of words is that of Kolmogorov
and Smirnov, 0 to 1.

`rank` lets three assistants without a model answer people's turns and simulated users: MTRAG's human conversations over
the pool of passages of the same domain, and the conversations of tests/conversations over a collection. The measure is
the same: the reply states a sentence of a right passage, which is one by the labels, or the goal of the user. The pools
have no headings, so users know characteristic words of a passage instead. Intervals are by bootstrap over conversations
and users.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, ks_2samp

from tests.benchmarks.pools import POOLS, root, turns
from tests.benchmarks.tuning import labeled_questions, mtrag_questions
from tests.conversations.collections import collections_named
from tests.conversations.runner import Corpus
from turnmark.assistant.steps.understand.understand_rules import needs_topic
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Reply
from turnmark.core.console import NoProgress
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import count_words, ends_with_question_mark
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.check.judged_figures import MIN_AGREEMENT
from turnmark.evaluation.check.simulation.conversation import hold_conversation, phrase_by_rules
from turnmark.evaluation.check.simulation.users import SimulatedUser, UserGoal, draw_users, goal_of, users_with
from turnmark.evaluation.metrics.overlap import token_recall
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.retrieval.index.build import corpus_index
from turnmark.retrieval.search.opened_index import StoredIndex, open_index

USERS = 40
CONVERSATIONS = 14
"""Number of MTRAG's human conversations per domain whose turns are answered."""
KNOWN_WORDS = 3
"""Number of words of a passage that a user knows."""
MIN_KNOWN_LETTERS = 4
RESAMPLES = 2000
ASSISTANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "one passage": {"top_k": 1},
    "bm25, last turn": {"retriever": "bm25"},
}
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

        def ask(_goal: int, history: Sequence[Message], message: str) -> Reply:
            return assistant.reply(history, message)

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


Outcomes = Mapping[str, Sequence[float]]
"""Conversation or user -> for each of its turns or goals, whether it went well."""
Measured = Mapping[str, Mapping[str, Outcomes]]
"""Measure -> assistant -> outcomes."""


def ask_people(index: StoredIndex, assistants: Mapping[str, Assistant], corpus: str) -> Measured:
    """Answer human turns."""
    asked = list(mtrag_questions(corpus) if corpus in POOLS else labeled_questions(index, corpus))
    references = {task.id: task.reference for task in turns()} if corpus in POOLS else {}
    names = sorted({_conversation(question) for question in asked})
    chosen = random.Random(0).sample(names, min(len(names), CONVERSATIONS))
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for question in (question for question in asked if _conversation(question) in chosen):
        passages = [(one, span) for span in question.gold for one in index.store.of_document(span.document)]
        goals = [goal_of(passage, "") for passage, span in passages if passage.start == span.start]
        for name, assistant in assistants.items():
            answer = assistant.reply(() if "last turn" in name else question.history, question.message).answer
            stated = any(goal.is_stated(answer) for goal in goals)
            found["people, stated"][name][_conversation(question)].append(stated)
            if (recall := token_recall(answer, references.get(question.id, ""))) is not None:
                found["people, words of the reference"][name][_conversation(question)].append(recall >= MIN_AGREEMENT)
    return found


def _conversation(question: TuneQuestion) -> str:
    """Return the conversation of a labeled question: MTRAG's ids are `<conversation><::><turn>`."""
    return question.id.partition("<::>")[0] if "<::>" in question.id else question.id.rpartition("-")[0]


def ask_as_users(index: StoredIndex, assistants: Mapping[str, Assistant], corpus: str) -> Measured:
    """Let simulated users talk."""
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    for user in pool_users(index) if corpus in POOLS else draw_users(index, USERS, seed=0):
        for name, assistant in assistants.items():

            def ask(_goal: int, history: Sequence[Message], message: str) -> Reply:
                return assistant.reply(() if "last turn" in name else history, message)  # noqa: B023

            exchanges = hold_conversation(user, ask, phrase_by_rules(user))
            tries = [[one.reached for one in exchanges if one.goal == goal] for goal in range(len(user.goals))]
            found["users, first message"][name][user.id] = [float(reached[0]) for reached in tries]
            found["users, up to three"][name][user.id] = [float(reached[-1]) for reached in tries]
    return found


def pool_users(index: StoredIndex) -> list[SimulatedUser]:
    """Draw users over a pool of passages, whose pages are those with the same title, or of the same original text."""
    pages: dict[str, list[Passage]] = defaultdict(list)
    for page in index.store.pages():
        for _, _, passage in page:
            pages[passage.title or passage.id.split("-")[0]].append(passage)
    chance = random.Random(0)
    names = [name for name, passages in sorted(pages.items()) if len(passages) > 1]
    chance.shuffle(names)
    common: Counter[str] = Counter()  # word -> number of pages of the sample that contain it
    for name in names[: 8 * USERS]:
        common.update({word.lower() for passage in pages[name] for word in content_words(passage.text)})
    sections: dict[str, list[UserGoal]] = {}
    for name in names[: 8 * USERS]:
        for passage in pages[name]:
            goal = goal_of(passage, _characteristic(passage.text, common))
            goal = goal.model_copy(update={"document": name, "title": passage.title or "the forum"})
            if goal.sentences and goal.heading:
                sections.setdefault(name, []).append(goal)
    return users_with(sections, USERS, chance)


def _characteristic(text: str, common: Mapping[str, int]) -> str:
    counts = Counter(word.lower() for word in content_words(text))
    known = [word for word in counts if word.isalpha() and len(word) >= MIN_KNOWN_LETTERS]
    best = sorted(known, key=lambda word: -counts[word] * log(8 * USERS / common[word]))[:KNOWN_WORDS]
    return " ".join(word for word in known if word in best)


def rank(corpus: str) -> None:
    """Print the rankings of a corpus, and the differences from the first assistant."""
    if corpus in POOLS:
        name = corpus_index(mtrag.corpus_path(root(), corpus), "conversational").name
    else:
        name = Corpus(collections_named([corpus])[corpus], NoProgress()).index.name
    index, assistants = open_index(name), {one: Assistant(name, **settings) for one, settings in ASSISTANTS.items()}
    people: list[float] = []
    for side in (ask_people, ask_as_users):
        for measure, outcomes in side(index, assistants, corpus).items():
            people = _show(f"{corpus} | {measure}", outcomes, people)


def _show(title: str, outcomes: Mapping[str, Outcomes], people: list[float]) -> list[float]:
    """Print the means of a measure; return those of people, which are measured first."""
    first = next(iter(outcomes.values()))
    means = [_mean(list(values.values())) for values in outcomes.values()]
    people = people or means
    n = sum(map(len, first.values()))
    print(f"{title} | {n} in {len(first)} | tau {kendalltau(people, means)[0]:.2f}")
    for (name, values), mean in zip(outcomes.items(), means, strict=True):
        low, high = _interval(first, values)
        print(f"    {name}: {mean:.3f}, difference {mean - means[0]:+.3f} ({low:+.3f} to {high:+.3f})", flush=True)
    return people


def _mean(clusters: Sequence[Sequence[float]]) -> float:
    return float(np.mean([value for values in clusters for value in values]))


def _interval(first: Outcomes, second: Outcomes) -> tuple[float, float]:
    """Return the 95% interval of the difference of two means."""
    sums = np.array([(sum(second[one]) - sum(first[one]), len(first[one])) for one in first])
    drawn = sums[np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))].sum(axis=1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Print the table, or the rankings."""
    if sys.argv[1:2] == ["rank"]:
        for corpus in sys.argv[2:] or POOLS:
            rank(corpus)
        return
    people = human_talks(root())
    print("| who | conversations | messages | words of the first | distance | words of later ones | distance "
          "| questions | need the conversation |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    describe("people (MTRAG)", people, people)
    for name in sys.argv[1:]:
        describe(f"users over {name}", simulated_talks(name), people)


if __name__ == "__main__":
    main()
