"""The two records of a benchmark: an `Item` is a question to answer, and a `Case` is a reply to score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from turnmark.corpora.types import Message
from turnmark.evaluation.records import Sample
from turnmark.evaluation.scores.score_tally import Facts


@dataclass(frozen=True)
class Item:
    """One question to answer, with its labels in the data.

    Attributes:
        id: the id in `predictions.jsonl`.
        task: the record that the benchmark's loader read, or any object that the methods of `Task` need.
        after: id of the item that must be answered before this one, because this one continues from its sample.
        earlier: the sample of `after`, whatever its status; set when this item is answered.
        history: the turns before the question.
        reference: the reference answer as plain text; empty if the data have none.
        passages: passage or document id -> title and text, for the passages that come with the item.
        relevant: ids of the relevant passages, or None if the data have no relevance labels for the item.
        labels: dimension of a breakdown -> values; the item counts under each value.
        cluster: the bootstrap cluster, such as the conversation; empty if the item is its own cluster.
        headline: whether the item counts in the headline means.
        repeat: 0-based number of the repeat; set when this item is answered.
    """

    id: str
    task: Any = None
    domain: str | None = None
    after: str | None = None
    earlier: Sample | None = None
    question: str = ""
    history: tuple[Message, ...] = ()
    reference: str = ""
    passages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    relevant: frozenset[str] | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster: str = ""
    headline: bool = True
    repeat: int = 0

    @property
    def facts(self) -> Facts:
        """Cluster and labels, for the summary; an item without labels has its domain as the only one."""
        labels = self.labels
        if not labels and self.domain:
            labels = {"domain": (self.domain,)}
        return Facts(cluster=self.cluster or self.id, labels=labels, headline=self.headline)


@dataclass(frozen=True)
class Case:
    """One reply, with everything that metrics and judges need to score it.

    Attributes:
        answer: the reply without citation marks, unless instructions may concern the marks.
        history: the turns before the question.
        reference: the reference answer; empty if the data have none.
        passages: the texts that the system was given, best first, or None if some of them are unknown.
        answerability: the task's answerability label, or None if it has no label.
        more: further texts for judges, as pairs of name and text.
        raw: the reply as the system wrote it.
        cited: the texts that its citation marks name, the first is `[1]`; empty if some of them are not known.
        decision: the system's decision (answer, partial, unknown, clarify), or None if it is not recorded.
        hedged: whether the reply says that it is unsure of all its evidence.
        own_history: whether the replies in `history` are those of the system under test, which are no evidence for it.
    """

    passages_judged: ClassVar[bool] = True
    """Whether judges are shown the passages."""

    question: str
    answer: str
    history: tuple[Message, ...] = ()
    reference: str = ""
    passages: tuple[str, ...] | None = ()
    answerability: str | None = None
    more: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    cited: tuple[str, ...] = ()
    decision: str | None = None
    hedged: bool = False
    own_history: bool = False

    @property
    def messages(self) -> list[str]:
        """The texts of the turns up to and including the question, without the system's own replies."""
        turns = [turn.content for turn in self.history if turn.role == "user" or not self.own_history]
        return [*turns, self.question]


MISSING_KIND = "missing"


def missing_sample(item: Item, cause: str, repeat: int = 0) -> Sample:
    """Return the failed sample of an item whose answer or material is missing."""
    reason = f"{MISSING_KIND}: {cause}"
    return Sample(id=item.id, repeat=repeat, status="failed", kind=MISSING_KIND, reason=reason, domain=item.domain)
