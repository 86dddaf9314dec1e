"""Simulated users and their goals, which are sections of documents at character positions.

A user knows words of a section's heading and the title of its document, but not the text. Users and goals are drawn
from an index by a seed, so the same index and seed give the same users.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import comparable_words, sentences, strip_citations, strip_inline_markdown
from turnmark.corpora.types import Passage
from turnmark.retrieval.search.opened_index import StoredIndex

MIN_GOALS, MAX_GOALS = 2, 4
HIDDEN_SHARE = 0.25
"""Share of users whose first goal is hidden from the assistant, so that it cannot be answered."""
TYPO_SHARE = 0.25
MIN_SENTENCE_WORDS = 6
MIN_STATED_SHARE = 0.6
"""Minimum share of a sentence's words in a reply that states it."""


class UserGoal(Record):
    """Something a user wants to know: what a section says."""

    document: str
    start: int = Field(description="character position of the section in its document")
    end: int
    title: str = Field(description="title of the document")
    heading: str = Field(description="innermost heading of the section")
    sentences: tuple[str, ...] = Field(description="sentences of the section; stating one of them answers the user")
    passages: tuple[str, ...] = Field(description="ids of the passages of the section")

    def is_stated(self, reply: str) -> bool:
        """Return whether a reply states one of the sentences."""
        said = set(comparable_words(strip_inline_markdown(strip_citations(reply))))
        for sentence in self.sentences:
            words = set(content_words(sentence)) or set(comparable_words(sentence))
            if len(words & said) >= MIN_STATED_SHARE * len(words):
                return True
        return False


class SimulatedUser(Record):
    """A user with goals in one or two documents, in the order in which they are asked."""

    id: str
    goals: tuple[UserGoal, ...]
    hidden: bool = Field(description="whether the passages of the first goal are hidden from the assistant")
    mistypes: bool = Field(description="whether the user makes typing errors")
    worded_by: str = Field(default="", description="the model that words the messages; empty: rules")

    def in_repeat(self, number: int) -> SimulatedUser:
        """Return the user of a repeat, with other wordings and typing errors, and the goals in another order.

        The user of repeat 0 is unchanged. A hidden goal remains the first.
        """
        if not number:
            return self
        name, first = f"{self.id}/{number}", int(self.hidden)
        others = random.Random(name).sample(self.goals[first:], len(self.goals) - first)
        return self.model_copy(update={"id": name, "goals": (*self.goals[:first], *others)})


def draw_users(index: StoredIndex, n: int, seed: int, worded_by: str = "") -> list[SimulatedUser]:
    """Draw users; fewer if the index has too few sections with a heading."""
    chance = random.Random(seed)
    documents = [entry.document for entry in index.store.documents()]
    chance.shuffle(documents)
    sections = {document: goals for document in documents[: 8 * n] if (goals := list(_goals_of(index, document)))}
    return users_with(sections, n, chance, worded_by)


def users_with(
    sections: Mapping[str, Sequence[UserGoal]], n: int, chance: random.Random, worded_by: str = ""
) -> list[SimulatedUser]:
    """Draw users who want some of these sections: document -> its sections."""
    homes = [document for document, goals in sections.items() if len(goals) >= MIN_GOALS]
    users: list[SimulatedUser] = []
    for number in range(n if homes else 0):
        home = homes[number % len(homes)]
        chosen = chance.sample(sections[home], min(len(sections[home]), chance.randint(MIN_GOALS, MAX_GOALS - 1)))
        others = [document for document in sections if document != home]
        if others:  # a change of topic before the last goal, and a return
            chosen.insert(-1, chance.choice(sections[chance.choice(others)]))
        user = SimulatedUser(
            id=f"user-{number + 1:03}",
            goals=tuple(chosen),
            hidden=chance.random() < HIDDEN_SHARE,
            mistypes=chance.random() < TYPO_SHARE,
            worded_by=worded_by,
        )
        users.append(user)
    return users


def _goals_of(index: StoredIndex, document: str) -> Iterator[UserGoal]:
    """Yield the sections of a document that have a heading of their own and a sentence."""
    passages = index.store.of_document(document)
    headings = [_innermost(passage) for passage in passages]
    for passage, heading in zip(passages, headings, strict=True):
        goal = goal_of(passage, heading)
        if heading and goal.sentences and headings.count(heading) == 1:
            yield goal


def goal_of(passage: Passage, heading: str) -> UserGoal:
    """Return the goal to learn what a passage says, of which a user knows the heading."""
    return UserGoal(
        document=passage.document,
        start=passage.start,
        end=passage.end,
        title=passage.title,
        heading=heading,
        sentences=tuple(_sentences_of(passage.text)),
        passages=(passage.id,),
    )


def _innermost(passage: Passage) -> str:
    return " ".join(strip_inline_markdown((passage.section or passage.title).split(" › ")[-1]).split())


def _sentences_of(text: str) -> Iterator[str]:
    for start, end in sentences(text):
        sentence = " ".join(strip_inline_markdown(text[start:end]).split())
        if len(comparable_words(sentence)) >= MIN_SENTENCE_WORDS and not sentence.startswith("#"):
            yield sentence
