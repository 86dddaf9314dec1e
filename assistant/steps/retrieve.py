"""Finding evidence: the parts of a message searched for as one batch, and thin evidence once more.

The raw message is always searched, its rewrite beside it. A compound message is searched as a whole and part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from turnmark.assistant.steps.answer_type import answer_type, defines
from turnmark.assistant.steps.understand import may_lean, rewritten, understand
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding
from turnmark.corpora.types import Message
from turnmark.retrieval.task_passages import ranked_by
from turnmark.retrieval.types import Hit, Query, Retriever

DEFINITIONS = 10
"""Hits among which a passage is looked for that defines what is asked for."""


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
    """The query of the extractive turn for a message: what `--query assistant` measures."""
    return query_of(understand(history, message), history, message)


class Once:
    """One search. Evidence that was handed in takes its place."""

    name = "retrieve"
    rounds = 1

    def __call__(self, turn: Turn) -> None:
        if turn.evidence is not None:
            _rate(turn, turn.evidence)
        elif turn.retriever is not None and turn.round == 1:
            turn.last_round = self.rounds
            _search(turn, turn.retriever)
        elif turn.retriever is not None:
            _search_again(turn, turn.retriever)


class Active(Once):
    """A second search, with a narrower query, for the parts whose evidence is thin."""

    rounds = 2


def _rate(turn: Turn, evidence: Sequence[Hit]) -> None:
    """Evidence that was handed in, for each part with the cosines that this part has, in the order given."""
    for part in turn.pending:
        part.hits = list(evidence)
        if len(turn.pending) > 1 and turn.embed is not None:
            texts = tuple(dict.fromkeys((part.text, part.understanding.rewrite)))
            ranked = ranked_by([hit.passage for hit in evidence], texts, turn.embed)
            lists = {hit.passage.id: hit.found for hit in ranked}
            part.hits = [hit.model_copy(update={"found": lists[hit.passage.id]}) for hit in evidence]


def _search(turn: Turn, retriever: Retriever) -> None:
    """Search for the parts of a group; with the first group for the message as a whole, where it has several.

    Its hits stand behind those of each part. No part has more than its share of `most`.
    """
    parts, compound = turn.pending, len(turn.parts) > 1
    queries = [query_of(part.understanding, part.history, part.text) for part in parts]
    message = query_of(turn.understanding, turn.history, turn.message) if compound and not parts[0].place else None
    types = [answer_type(part.text) for part in parts]
    depth = DEFINITIONS if any(expected.kind == "definition" for expected in types) else turn.passages
    results = retriever.search([*queries, *([message] if message else [])], depth)
    share = turn.most // max(1, len(turn.parts) if compound else 1)
    turn.limit = max(1, min(2 * turn.passages if message else turn.passages, share))
    message_hits = results[len(parts)] if message else []
    for part, query, expected, hits in zip(parts, queries, types, results, strict=False):
        # What says what is asked for stands first where that is a definition.
        ordered = sorted(hits, key=lambda hit, expected=expected: not defines(expected, hit.passage.text))  # type: ignore[misc]
        reason = "a part of the message" if compound else "the message"
        turn.searched(query, ordered, reason, 1, part.place if compound else None)
        part.hits = _distinct([*ordered, *message_hits])[: turn.limit]
    if message:
        turn.searched(message, message_hits, "the whole message", 1)


def _search_again(turn: Turn, retriever: Retriever) -> None:
    """A further round for the parts that have a narrower query.

    The query is a variant beside the message as it was asked. What it finds stands before what was there.
    """
    queries = [Query(text=part.text, history=part.history, variants=(part.narrower,)) for part in turn.pending]
    for part, query, hits in zip(turn.pending, queries, retriever.search(queries, turn.passages), strict=True):
        missing = ", ".join(part.judgement.missing) or part.judgement.reason
        turn.searched(query, hits, f"thin evidence: {missing}", turn.round, part.place if part.compound else None)
        in_turns = [hit for rank in zip_longest(hits, part.hits) for hit in rank if hit is not None]
        part.hits = _distinct(in_turns)[: turn.limit]


def _distinct(hits: Sequence[Hit]) -> list[Hit]:
    """Hits in their order, each passage once."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.passage.id, hit)
    return list(first.values())
