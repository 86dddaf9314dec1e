"""Finding evidence for a turn: every part of it searched for and judged, and where evidence is thin searched again.

The raw message is always searched, its rewrite beside it. A compound message is searched as a whole and part by part,
as one batch. What a search was for and what it found is kept for the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from turnmark.assistant.steps.answer_type import answer_type, defines
from turnmark.assistant.steps.understand import may_lean, rewritten, understand
from turnmark.assistant.types import Judgement, Search, SearchHit, Understanding
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.types import Hit, Query, Retriever, neighbours_of

# A procedure may run over several passages of its document: how many of them join the evidence.
MAX_NEIGHBOURS = 6
DEFINITIONS = 10
"""Hits among which a passage is looked for that defines what is asked for."""
ROUNDS = 2
"""Searches for one part, at most."""


@dataclass(frozen=True)
class Asked:
    """A part of the message as it is searched for and judged.

    Attributes:
        text: as the message has it.
        understanding: of this part alone; its rewrite is the part complete in itself.
        history: the conversation, and the parts that it builds on with their answers.
        of_several: the message has other parts.
    """

    text: str
    understanding: Understanding
    history: tuple[Message, ...] = ()
    of_several: bool = False


@dataclass(frozen=True)
class Verdict:
    """A judgement of the evidence, and the narrower query that may find what it lacks ("" where there is none)."""

    judgement: Judgement
    query: str = ""


Judge = Callable[[Sequence[Asked], Sequence[Sequence[Hit]]], list[Verdict]]
"""Judges the evidence of some parts: the parts, and the hits of each, best first."""


@dataclass(frozen=True)
class Evidence:
    """What was found for a part: its hits, best first, their numbers in the reply, and how they were judged."""

    asked: Asked
    hits: tuple[Hit, ...]
    numbers: tuple[int, ...]
    judgement: Judgement


def query_of(understanding: Understanding, history: Sequence[Message], message: str) -> Query:
    """What the turn searches for: the raw message in its conversation always, a rewrite beside it.

    A message that stands alone but says little, or has a pronoun, gets one for the search alone: whether it counts is
    for the retriever to say, by what the message finds (`Query.standalone`). A model's rewrite joins that of the rules.
    """
    by_model = not understanding.standalone and not understanding.topic
    rewrites = [understanding.rewrite]
    if by_model or (understanding.standalone and understanding.rewrite == message and may_lean(message)):
        rewrites.append(rewritten(history, message))
    variants = tuple(text for text in dict.fromkeys(rewrites) if text != message)
    return Query(text=message, history=tuple(history), standalone=understanding.standalone, variants=variants)


def conversation_query(history: Sequence[Message], message: str) -> Query:
    """The query of the embedded turn for a message: what `--query assistant` measures."""
    return query_of(understand(history, message), history, message)


@dataclass
class Gathering:
    """The evidence of one turn as it grows. Its hits are numbered in the order they join it, from 1.

    Args:
        retriever: None: nothing can be searched for.
        k: hits for a part, at most.
        most: hits for the whole turn, at most, neighbours of a procedure aside.
        rounds: searches for a part, at most.
    """

    retriever: Retriever | None
    judge: Judge
    k: int
    most: int
    rounds: int = ROUNDS
    hits: list[Hit] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)

    def given(self, parts: Sequence[Asked], evidence: Sequence[Sequence[Hit]]) -> list[Evidence]:
        """The parts with evidence that was handed in; nothing is searched for."""
        verdicts = self.judge(parts, evidence)
        return self._numbered(parts, evidence, verdicts)

    def find(
        self, parts: Sequence[Asked], message: Query | None = None, places: Sequence[int] | None = None, of: int = 1
    ) -> list[Evidence]:
        """Search for some parts as one batch, judge what was found, and search again where it is thin.

        Args:
            message: the whole message, where these are but parts of it; its hits stand behind those of each part.
            places: of these parts among all parts of the message; None: there is but one.
            of: how many parts the message has. No part has more than its share of `most`.
        """
        if self.retriever is None:
            return self.given(parts, [()] * len(parts))
        queries = [query_of(part.understanding, part.history, part.text) for part in parts]
        found = self.retriever.search([*queries, *([message] if message else [])], self._depth(parts))
        found = [*map(_defining_first, parts, found), *found[len(parts) :]]
        behind = found[len(parts)] if message else []
        where = [None] * len(parts) if places is None else list(places)
        for part, query, hits in zip(where, queries, found, strict=False):
            self._told("the message" if part is None else "a part of the message", query, hits, part, 1)
        if message:
            self._told("the whole message", message, behind, None, 1)
        limit = max(1, min(2 * self.k if message else self.k, self.most // max(1, of)))
        evidence = [_merged(hits, behind, limit) for hits in found[: len(parts)]]
        verdicts = self.judge(parts, evidence)
        for number in range(2, self.rounds + 1):
            if not self._again(parts, where, evidence, verdicts, limit, number):
                break
        evidence = self._within(evidence)
        evidence = [self._with_neighbours(part, hits) for part, hits in zip(parts, evidence, strict=True)]
        return self._numbered(parts, evidence, verdicts)

    def _depth(self, parts: Sequence[Asked]) -> int:
        """Hits that are looked at: more where a definition is asked for, which a passage often gives in passing."""
        return DEFINITIONS if any(answer_type(part.text).kind == "definition" for part in parts) else self.k

    def look(self, query: Query, why: str, k: int | None = None) -> list[Hit]:
        """One more search for the turn as a whole; its hits, best first, of which new ones join the evidence.

        Args:
            k: hits at most; None: as many as for a part.
        """
        if self.retriever is None:
            return []
        hits = self.retriever.search([query], k or self.k)[0]
        self._told(why, query, hits, None, 1 + max((search.round for search in self.searches), default=0))
        self._numbers(hits)
        return hits

    def _again(
        self,
        parts: Sequence[Asked],
        where: Sequence[int | None],
        evidence: list[list[Hit]],
        verdicts: list[Verdict],
        limit: int,
        number: int,
    ) -> bool:
        """A further round for the parts that have a narrower query; whether there was any.

        The query is a variant beside the message as it was asked. What it finds stands before what was there, and
        counts only where the evidence is judged the better for it.
        """
        assert self.retriever is not None, "asked for only where there is one"
        thin = [place for place, verdict in enumerate(verdicts) if verdict.query]
        if not thin:
            return False
        queries = [
            Query(text=parts[place].text, history=parts[place].history, variants=(verdicts[place].query,))
            for place in thin
        ]
        for place, query, hits in zip(thin, queries, self.retriever.search(queries, self.k), strict=True):
            missing = ", ".join(verdicts[place].judgement.missing) or verdicts[place].judgement.reason
            self._told(f"thin evidence: {missing}", query, hits, where[place], number)
            mixed = _interleaved([hits, evidence[place]], limit)
            again = self.judge([parts[place]], [mixed])[0]
            before = verdicts[place].judgement
            if _rank(again.judgement) > _rank(before):
                evidence[place], verdicts[place] = mixed, again
            else:
                verdicts[place] = Verdict(before)
        return True

    def _within(self, evidence: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
        """What there is room for: the best of each part first, no more than `most` with what the turn has already."""
        known = {hit.passage.id for hit in self.hits}
        for rank in zip_longest(*evidence):
            for hit in rank:
                if hit is not None and len(known) < self.most:
                    known.add(hit.passage.id)
        return [[hit for hit in hits if hit.passage.id in known] for hits in evidence]

    def _with_neighbours(self, part: Asked, hits: list[Hit]) -> list[Hit]:
        """For a procedure the passages around the best hit join, in reading order: score 0, on no list."""
        if not (part.understanding.wants_procedure and hits and self.retriever):
            return hits
        known, best = {hit.passage.id for hit in hits}, hits[0].passage
        rest = [passage for passage in neighbours_of(self.retriever, best) if passage.id not in known]
        nearest = sorted(rest, key=lambda passage: _distance(passage, best))[:MAX_NEIGHBOURS]
        return hits + [Hit(passage=passage, score=0.0) for passage in sorted(nearest, key=lambda p: p.start)]

    def _numbered(
        self, parts: Sequence[Asked], evidence: Sequence[Sequence[Hit]], verdicts: Sequence[Verdict]
    ) -> list[Evidence]:
        """The evidence of each part, its hits numbered: the best of each part first, then the second of each, ..."""
        self._numbers(hit for rank in zip_longest(*evidence) for hit in rank if hit is not None)
        return [
            Evidence(part, tuple(hits), tuple(self._numbers(hits)), verdict.judgement)
            for part, hits, verdict in zip(parts, evidence, verdicts, strict=True)
        ]

    def _numbers(self, hits: Iterable[Hit]) -> list[int]:
        """The numbers of some hits; those that are new join the evidence."""
        places = {hit.passage.id: number for number, hit in enumerate(self.hits, 1)}
        numbers = []
        for hit in hits:
            if hit.passage.id not in places:
                self.hits.append(hit)
                places[hit.passage.id] = len(self.hits)
            numbers.append(places[hit.passage.id])
        return numbers

    def _told(self, why: str, query: Query, hits: Sequence[Hit], part: int | None, number: int) -> None:
        found = tuple(
            SearchHit(
                id=hit.passage.id, title=hit.passage.title, score=round(hit.score, 4),
                similarity=None if hit.similarity is None else round(hit.similarity, 4),
            )
            for hit in hits
        )  # fmt: skip
        self.searches.append(
            Search(why=why, query=query.text, variants=query.variants, part=part, round=number, hits=found)
        )


def _defining_first(part: Asked, hits: Sequence[Hit]) -> list[Hit]:
    """The hits, those first that say what is asked for where that is a definition."""
    wanted = answer_type(part.text)
    return sorted(hits, key=lambda hit: not defines(wanted, hit.passage.text))


def _distance(passage: Passage, best: Passage) -> int:
    """Characters between two passages; what comes before counts twice, since a procedure goes on behind its
    beginning."""
    ahead = passage.start - best.end
    return ahead if ahead >= 0 else 2 * max(0, best.start - passage.end)


def _merged(hits: Sequence[Hit], behind: Sequence[Hit], limit: int) -> list[Hit]:
    """A part's own hits, and behind them those of the whole message as far as there is room."""
    kept: dict[str, Hit] = {}
    for hit in (*hits, *behind):
        kept.setdefault(hit.passage.id, hit)
    return list(kept.values())[:limit]


def _interleaved(lists: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Lists taken in turns, each passage once."""
    mixed: dict[str, Hit] = {}
    for rank in zip_longest(*lists):
        for hit in rank:
            if hit is not None:
                mixed.setdefault(hit.passage.id, hit)
    return list(mixed.values())[:limit]


def _rank(judgement: Judgement) -> tuple[int, float]:
    """Judgements of the evidence, the better the higher."""
    return ("unknown", "clarify", "partial", "answer", "converse").index(judgement.decision), judgement.confidence
